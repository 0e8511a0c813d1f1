"""A text in, a fact out whose lines are entries: each can be recalled, and they live and die with the fact."""

from __future__ import annotations

import msgspec

from recollect.engine.call import Call, Outcome
from recollect.engine.deriving import LINES, lines_of
from recollect.engine.entries import add_entry, open_collection, remove_lines
from recollect.engine.facts import set_fact
from recollect.errors import InvalidKey
from recollect.model.effect import SetFact, WriteLines
from recollect.model.entry import Entry
from recollect.model.event import Note
from recollect.model.fact import Fact
from recollect.model.key import LINED
from recollect.model.text import quote
from recollect.model.value import encode
from recollect.store.base import Transaction


def write_lines(rows: Transaction, effect: WriteLines, call: Call) -> Outcome[Fact]:
    """Write a text as a fact, and its lines as entries in place of those of the text before it."""
    if effect.key not in LINED:
        raise InvalidKey(f"{quote(effect.key)} is not a text with lines", hint=f"These are: {', '.join(LINED)}")
    write = SetFact(
        scope=effect.scope,
        key=effect.key,
        payload=msgspec.Raw(encode(effect.text)),
        expect=effect.expect,
        source=effect.source,
    )
    done = set_fact(rows, write, call)
    return Outcome(done.value, (*done.notes, *replace_lines(rows, done.value, effect.text, call)))


def replace_lines(rows: Transaction, fact: Fact, text: str, call: Call) -> list[Note]:
    """Make the lines of a text the entries of its fact. The fact's own event is the ledger's word on them."""
    collection, notes = open_collection(rows, fact.scope.tenant, LINES, call)
    remove_lines(rows, fact)
    for number, line in lines_of(text):
        entry = Entry(
            id=f"{fact.id}.{fact.version}.{number}",
            scope=fact.scope,
            collection=LINES,
            namespace=fact.key,
            content=line,
            metadata={"line": number, "version": fact.version},
            created_at=fact.updated_at,
            expires_at=fact.expires_at,
            origin=fact.origin,
        )
        add_entry(rows, collection, entry, encode(line), call)
    return notes
