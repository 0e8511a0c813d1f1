"""The table of verbs: which function carries out which effect."""

from __future__ import annotations

from memoranda.engine.blocks import list_blocks, recall_blocks
from memoranda.engine.call import Verb
from memoranda.engine.collections import (
    begin_reembedding,
    delete_collection,
    end_reembedding,
    read_collections,
    reembed_entries,
)
from memoranda.engine.comparison import compare_embedders
from memoranda.engine.definitions import (
    create_definition,
    delete_definition,
    read_definitions,
    read_records,
    update_definition,
)
from memoranda.engine.entries import forget, list_entries, remember
from memoranda.engine.erase import erase
from memoranda.engine.expiry import sweep
from memoranda.engine.facts import (
    delete_fact,
    find_facts,
    get_fact,
    get_facts,
    list_facts,
    read_history,
    set_fact,
    write_facts,
)
from memoranda.engine.recall import recall
from memoranda.engine.sessions import end_scope, start_session
from memoranda.engine.transfer import export, import_memory
from memoranda.model import effect

VERBS: dict[type[effect.EffectBase], Verb] = {
    effect.GetFact: get_fact,
    effect.GetFacts: get_facts,
    effect.ListFacts: list_facts,
    effect.FindFacts: find_facts,
    effect.ReadHistory: read_history,
    effect.SetFact: set_fact,
    effect.DeleteFact: delete_fact,
    effect.WriteFacts: write_facts,
    effect.Remember: remember,
    effect.Recall: recall,
    effect.ListEntries: list_entries,
    effect.Forget: forget,
    effect.ListBlocks: list_blocks,
    effect.RecallBlocks: recall_blocks,
    effect.ReadCollections: read_collections,
    effect.DeleteCollection: delete_collection,
    effect.CompareEmbedders: compare_embedders,
    effect.BeginReembedding: begin_reembedding,
    effect.ReembedEntries: reembed_entries,
    effect.EndReembedding: end_reembedding,
    effect.StartSession: start_session,
    effect.EndScope: end_scope,
    effect.ReadDefinitions: read_definitions,
    effect.ReadRecords: read_records,
    effect.CreateDefinition: create_definition,
    effect.UpdateDefinition: update_definition,
    effect.DeleteDefinition: delete_definition,
    effect.Erase: erase,
    effect.Sweep: sweep,
    effect.Export: export,
    effect.Import: import_memory,
}
