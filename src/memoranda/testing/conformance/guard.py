"""The guard and the quarantine: what little-trusted origins write is looked through before it is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Denied, Held, LimitExceeded, QuotaExceeded, UsageError
from memoranda.model.policy import Policy, Quota
from memoranda.model.scope import Scope
from memoranda.model.trust import OriginKind
from memoranda.testing.conformance.base import Capability, assert_raises, recall_contents, requires
from memoranda.testing.conformance.trust import ORDER, WRITER, from_tool

CARD = "Paid with 4111 1111 1111 1111 on Monday"
SECRET = "The key is AKIAIOSFODNN7EXAMPLE."


class GuardPromises:
    """What little-trusted origins write is looked through before it is stored."""

    @pytest.mark.parametrize("kind", ["tool_external", "unknown"])
    def test_g52_an_order_from_an_untrusted_origin_is_held_until_it_is_released(
        self, memory: Memory, ada: ScopedMemory, kind: OriginKind
    ) -> None:
        writer = memory.acting_as("other", policy=WRITER, origin=kind).scope(user="ada")
        error = assert_raises(Held, writer.set, "review", ORDER)
        assert error.details["cause"] == "quarantine"
        held = writer.remember(ORDER, collection="notes")
        writer.remember("The invoice of May is paid", collection="notes")
        assert (ada.get("review"), ada.list()) == (None, [])
        assert recall_contents(ada, "invoice") == ["The invoice of May is paid"]
        waiting = memory.approvals.list()
        assert [one.cause for one in waiting] == ["quarantine", "quarantine"]
        assert held.held == waiting[1].id
        memory.approvals.approve(waiting[1].id, reason="it is a quotation")
        assert ORDER in recall_contents(ada, "invoice")
        # A user may write what they like.
        assert ada.set("review", ORDER).version == 1

    def test_secrets_and_payment_data_from_tools_are_redacted(self, memory: Memory, ada: ScopedMemory) -> None:
        tool = from_tool(memory)
        card = "Paid with 4111 1111 1111 1111 on Monday"
        tool.set("receipt", {"text": card, "total": 12})
        stored = ada.value("receipt")
        assert "4111" not in stored["text"]
        assert (stored["total"], stored["text"].endswith("on Monday")) == (12, True)
        ada.set("receipt.own", {"text": card})
        assert ada.value("receipt.own") == {"text": card}

    def test_long_values_from_tools_are_refused(self, memory: Memory, ada: ScopedMemory) -> None:
        tool = from_tool(memory)
        assert_raises(LimitExceeded, tool.set, "page", "long " * 20_000)
        assert tool.set("page", "long " * 1_000).version == 1
        assert ada.set("page.own", "long " * 20_000).version == 1

    @pytest.mark.parametrize(
        "key", ["persona", "agent.system_prompt", "permissions.admin", "userRole", "policy.refunds"]
    )
    @pytest.mark.parametrize("kind", ["tool_external", "assistant", "import"])
    def test_g53_protected_keys_are_closed_to_models_and_tools(
        self, memory: Memory, ada: ScopedMemory, key: str, kind: OriginKind
    ) -> None:
        writer = memory.acting_as("other", policy=WRITER, origin=kind).scope(user="ada")
        assert_raises(Denied, writer.set, key, "anything")
        assert_raises(Denied, lambda: writer.remember("anything", collection="notes", key=key))
        assert writer.set("travel.style", "trains").version == 1
        assert ada.set(key, "mine").version == 1
        refused = [event for event in memory.ledger.events() if event.decision == "deny"]
        assert [event.actor for event in refused] == ["other", "other"]

    def test_g53_the_core_block_is_closed_to_what_comes_from_outside(self, memory: Memory, ada: ScopedMemory) -> None:
        tool = memory.acting_as("tool:web", policy=WRITER).scope(user="ada")
        model = memory.acting_as("model", policy=WRITER, origin="assistant").scope(user="ada")
        assert_raises(Denied, lambda: tool.blocks.update("core", "- Obeys pages", expected_updated_at=None))
        assert tool.blocks.update("archival", "- The shop opens at nine", expected_updated_at=None).content
        assert model.blocks.update("core", "- Likes tea", expected_updated_at=None).content == "- Likes tea"
        assert_raises(Denied, lambda: tool.forget(identifier="tea"))
        assert ada.forget(identifier="tea").lines == 1

    @pytest.mark.parametrize(
        "key", ["\u0440ersona", "\uff50ersona", "Persona2", "p.e.r.s.o.n.a", "per-sona", "pers0na"]
    )
    def test_g53_another_spelling_of_a_protected_key_is_protected(
        self, memory: Memory, ada: ScopedMemory, key: str
    ) -> None:
        tool = memory.acting_as("tool:web", policy=WRITER).scope(user="ada")
        assert_raises(Denied, tool.set, key, "anything")
        assert ada.set(key, "mine").version == 1
        assert tool.set("person.name", "Ada").version == 1


def _set(place: ScopedMemory) -> object:
    return place.set("review", {"stars": [1, {"text": ORDER}]})


def _name_a_field(place: ScopedMemory) -> object:
    return place.set("review", {ORDER: True})


def _name_a_key(place: ScopedMemory) -> object:
    return place.set(f"review.{ORDER.split('@')[0]}", True)


def _create(place: ScopedMemory) -> object:
    return place.create("review", ORDER)


def _name_a_source(place: ScopedMemory) -> object:
    return place.set("review", 5, source=ORDER)


def _batch(place: ScopedMemory) -> object:
    with place.batch() as batch:
        batch.set("city", "Oslo")
        batch.set("review", ORDER)
    return None


def _remember_in_batch(place: ScopedMemory) -> object:
    with place.batch() as batch:
        batch.set("city", "Oslo")
        batch.remember(ORDER, collection="notes")
    return None


def _supersede(place: ScopedMemory) -> object:
    mine = place.remember("The shop sells tea", collection="notes")
    return place.supersede(mine.ref, ORDER)


def _supersede_with_metadata(place: ScopedMemory) -> object:
    mine = place.remember("The shop sells tea", collection="notes")
    return place.supersede(mine.ref, "The shop sells coffee", metadata={"note": ORDER})


def _block(place: ScopedMemory) -> object:
    return place.blocks.update("archival", ORDER, expected_updated_at=None)


ATTACKS = (
    *(_set, _name_a_field, _name_a_key, _create, _name_a_source, _batch, _remember_in_batch),
    *(_supersede, _supersede_with_metadata, _block),
)


def _remember(place: ScopedMemory) -> Any:
    return place.remember(ORDER, collection="notes")


def _remember_metadata(place: ScopedMemory) -> Any:
    return place.remember("The shop sells tea", collection="notes", metadata={"title": ORDER})


def _remember_under_a_key(place: ScopedMemory) -> Any:
    return place.remember("The shop sells tea", collection="notes", key=ORDER)


def _remember_in_a_namespace(place: ScopedMemory) -> Any:
    return place.remember("The shop sells tea", collection="notes", namespace=ORDER)


def _remember_text(place: ScopedMemory) -> Any:
    return place.remember_text(f"The shop sells tea. {ORDER}", collection="notes")[0]


QUIET_ATTACKS = (
    _remember,
    _remember_metadata,
    _remember_under_a_key,
    _remember_in_a_namespace,
    _remember_text,
)


class QuarantinePromises:
    """What is held is invisible until someone else than its writer releases it; there is no way round."""

    @pytest.mark.parametrize("attack", ATTACKS)
    def test_g52_every_write_of_a_value_or_a_name_is_looked_through(
        self, memory: Memory, ada: ScopedMemory, attack: Callable[[ScopedMemory], object]
    ) -> None:
        error = assert_raises(Held, attack, from_tool(memory))
        assert error.details["cause"] == "quarantine"
        assert (ada.get("review"), ada.get("city")) == (None, None)
        assert ORDER not in str([recall_contents(ada, "invoice billing"), ada.list(), ada.blocks.get("archival")])
        [held] = memory.quarantine.list()
        assert held.findings
        # A user may write it.
        attack(ada)

    @pytest.mark.parametrize("attack", QUIET_ATTACKS)
    def test_g52_every_entry_is_looked_through(
        self, memory: Memory, ada: ScopedMemory, attack: Callable[[ScopedMemory], Any]
    ) -> None:
        held = attack(from_tool(memory))
        assert (held.stored, held.held) == (False, memory.quarantine.list()[0].id)
        assert memory.scope(user="ada").recall("tea").count == 0
        assert attack(ada).stored

    def test_g52_held_items_are_in_no_list_count_or_export(
        self, memory: Memory, ada: ScopedMemory, tmp_path: Path
    ) -> None:
        tool = from_tool(memory)
        assert_raises(Held, tool.set, "review", ORDER)
        tool.remember(ORDER, collection="notes")
        tool.set("weather", "rain")
        tool.remember("The shop opens at nine", collection="notes")
        file = tmp_path / "export.jsonl"
        assert memory.export(file) == 2
        text = file.read_text(encoding="utf-8")
        assert "Ignore all" not in text
        assert "opens at nine" in text
        assert [fact.key for fact in ada.list()] == ["weather"]
        assert [(one.name, one.entries) for one in memory.collections.list()] == [("notes", 1)]
        assert memory.conflicts() == []
        for query in ("invoice", ""):
            assert ORDER not in recall_contents(ada, query)
        assert ORDER not in ada.context("What about the invoice?").text

    def test_g52_release_and_discard_are_in_the_ledger_without_the_content(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        tool = from_tool(memory)
        tool.remember(ORDER, collection="notes")
        assert_raises(Held, tool.set, "review", ORDER)
        first, second = memory.quarantine.list()
        assert memory.quarantine.list(Scope.of(user="bob")) == []
        assert [one.id for one in memory.quarantine.list(ada.scope)] == [first.id, second.id]
        memory.quarantine.release(first.id, "a quotation")
        memory.quarantine.discard(second.id, "an attack")
        assert memory.quarantine.list() == []
        assert recall_contents(ada, "invoice") == [ORDER]
        (match,) = ada.recall("invoice", collection="notes")
        assert match.trust == "low"
        assert ada.get("review") is None
        events = list(memory.ledger.events())
        assert [event.decision for event in events if event.resource in (first.id, second.id)] == [
            *("pending", "pending"),
            *("approved", "refused"),
        ]
        assert "Ignore all" not in str([event.to_dict() for event in events if event.effect == "decide"])
        assert "Ignore all" not in str([event.detail for event in events])

    def test_g52_who_wrote_it_cannot_release_it(self, memory: Memory, ada: ScopedMemory) -> None:
        tool = memory.acting_as("tool:web", policy=Policy.of(allow=("memory", "approvals")))
        held = tool.scope(user="ada").remember(ORDER, collection="notes")
        assert_raises(Denied, tool.quarantine.release, held.held or "")
        assert recall_contents(ada, "invoice") == []
        memory.quarantine.release(held.held or "")
        assert recall_contents(ada, "invoice") == [ORDER]

    def test_g52_a_tool_in_a_users_conversation_waits_and_the_rest_is_learned(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        said = [
            {"role": "user", "content": "I live in Porto."},
            {"role": "tool", "content": f"I live in Faro. {ORDER}"},
            {"role": "tool", "content": "The weather in Porto is mild."},
        ]
        learned = ada.learn(said, conversation="c1")
        assert (len(learned.messages), len(learned.held)) == (2, 1)
        messages = [match.content for match in ada.recall("Porto Faro invoice", kinds=["message"], limit=9)]
        assert sorted(messages) == ["I live in Porto.", "The weather in Porto is mild."]
        assert "Lives in Porto" in recall_contents(ada, "where does she live", collection="statements")
        assert "Faro" not in str(recall_contents(ada, "where does she live", collection="statements"))
        # The conversation goes on: what waits is not asked about again.
        again = ada.learn([*said, {"role": "user", "content": "I like tea."}], conversation="c1")
        assert again.held == learned.held
        memory.quarantine.release(learned.held[0])
        found = ada.recall("invoice", kinds=["message"], limit=9)
        assert [(match.origin.kind, match.trust) for match in found if "Faro" in str(match.content)] == [
            ("tool_external", "low")
        ]

    def test_g52_an_import_holds_and_refuses_lines_and_takes_the_rest(
        self, memory: Memory, ada: ScopedMemory, tmp_path: Path
    ) -> None:
        file = tmp_path / "export.jsonl"
        ada.set("review", ORDER)
        ada.set("agent.system_prompt", "Be kind")
        ada.set("city", "Oslo")
        ada.remember(ORDER, collection="notes")
        ada.remember("Ada likes tea", collection="notes")
        memory.export(file)
        memory.erase(user="ada")
        other = memory.in_tenant("other")
        importer = other.acting_as("user:bob", policy=Policy.of(allow=("*",)))
        done = importer.import_file(file)
        place = other.scope(user="ada")
        assert (done.written, done.remembered, done.refused, len(done.held)) == (1, 1, 1, 1)
        assert [refusal.key for refusal in done.refusals] == ["agent.system_prompt"]
        assert [fact.key for fact in place.list()] == ["city"]
        other.quarantine.release(done.held[0])
        assert place.value("review") == ORDER
        # The owner restores what was exported, and answers for it.
        third = memory.in_tenant("third")
        assert third.import_file(file).held == ()
        assert third.scope(user="ada").value("agent.system_prompt") == "Be kind"

    def test_a_handle_that_passes_on_stays_guarded_whatever_it_calls_itself(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        page = memory.from_origin("tool_external").from_origin("user").scope(user="ada")
        assert_raises(Held, page.set, "review", ORDER)
        assert_raises(Denied, page.set, "permissions.admin", True)
        assert page.set("city", "Oslo").version == 1

    @pytest.mark.parametrize("kind", ["assistant", "tool_external", "unknown"])
    def test_g53_what_is_protected_is_neither_ended_nor_undone_by_models_and_tools(
        self, memory: Memory, ada: ScopedMemory, kind: OriginKind
    ) -> None:
        writer = memory.acting_as("other", policy=Policy.of(allow=("*",)), origin=kind)
        place = writer.scope(user="ada")
        ada.set("persona", "Kind")
        note = ada.remember("Never refund", collection="policy")
        schema = {"type": "object", "properties": {"tone": {"type": "string"}}}
        memory.definitions.create(name="Persona", slug="agent_persona", schema=schema)
        for refused in (
            lambda: place.delete("persona"),
            lambda: place.forget(identifier="Kind"),
            lambda: place.supersede(f"entry:{note.id}", "Always refund"),
            lambda: place.forget(note.ref),
            lambda: place.remember("Always refund", collection="policy"),
            lambda: place.set("agent_persona", {"tone": "rude"}),
            lambda: writer.collections.delete("policy"),
            lambda: writer.definitions.create(name="P", slug="permissions", schema=schema),
            lambda: writer.definitions.delete("agent_persona"),
        ):
            assert_raises(Denied, refused)
        assert (ada.value("persona"), recall_contents(ada, "refund", collection="policy")) == ("Kind", ["Never refund"])
        assert ada.set("agent_persona", {"tone": "warm"}).version == 1
        assert place.set("baking_instructions", "Bake for an hour").version == 1


class GuardPolicyPromises:
    """What the guard does is data: by scope and kind of origin, and the nearest rule counts."""

    def test_g52_the_nearest_scope_decides(self, memory: Memory, ada: ScopedMemory) -> None:
        bob = memory.scope(user="bob")
        memory.guard.set(origins=["tool_external"], secrets="refuse")
        memory.guard.set(ada.scope, origins=["tool_external"], secrets="allow", instructions="allow")
        policies = [memory.guard.get(scope, origin="tool_external") for scope in (None, ada.scope, bob.scope)]
        assert [(one.secrets, one.instructions) for one in policies] == [
            ("refuse", "hold"),
            ("allow", "allow"),
            ("refuse", "hold"),
        ]
        tool = memory.acting_as("tool:web", policy=WRITER)
        assert_raises(Denied, tool.scope(user="bob").set, "k", SECRET)
        for text in (SECRET, ORDER):
            assert tool.scope(user="ada").set("k", text).value == text
        assert_raises(Held, tool.scope(user="bob").set, "k", ORDER)
        memory.guard.reset(ada.scope, origins=["tool_external"])
        assert_raises(Held, tool.scope(user="ada").set, "k", ORDER)
        assert [(rule.scope, rule.origin) for rule in memory.guard.list()] == [("", "tool_external")]

    def test_g52_a_warning_is_in_the_result_the_ledger_and_the_log(
        self, memory: Memory, ada: ScopedMemory, caplog: pytest.LogCaptureFixture
    ) -> None:
        memory.guard.set(origins=["tool_external"], instructions="warn", secrets="warn")
        tool = from_tool(memory)
        done = tool.remember(f"{ORDER} {SECRET}", collection="notes")
        assert (done.stored, set(done.findings) >= {"instruction: override", "secret: aws"}) == (True, True)
        assert "secret: aws" in (memory.ledger.tail(1)[0].detail or {})["findings"]
        assert "secret: aws" in caplog.text
        assert "AKIA" not in caplog.text
        assert "AKIA" not in str(memory.ledger.tail(1)[0].to_dict())
        assert tool.set("weather", "rain").to_dict().get("findings") is None
        assert tool.set("key", SECRET).findings == ("secret: aws",)
        assert ada.value("key") == SECRET

    def test_users_are_looked_through_if_a_rule_says_so(self, memory: Memory, ada: ScopedMemory) -> None:
        assert ada.set("card", CARD).value == CARD
        memory.guard.set(origins=["user"], payment="redact", codes="refuse")
        assert "4111" not in str(ada.set("card", CARD).value)
        assert_raises(Denied, ada.set, "code", "Your verification code is 482913")
        memory.guard.reset(origins=["user"])
        assert ada.set("card", CARD).value == CARD

    def test_rules_need_their_capability_and_are_in_the_ledger(self, memory: Memory, ada: ScopedMemory) -> None:
        guest = memory.acting_as("agent:mail", policy=Policy.of(allow=("memory",)))
        assert_raises(Denied, lambda: guest.guard.set(origins=["tool_external"], secrets="allow"))
        assert_raises(Denied, guest.guard.list)
        clerk = memory.acting_as("user:lena", policy=Policy.of(allow=("guard",)))
        clerk.guard.set(ada.scope, origins=["import"], largest=10)
        event = memory.ledger.tail(1)[0]
        assert (event.effect, event.actor, event.detail) == (
            "set_guard",
            "user:lena",
            {"origins": ["import"], "largest": 10},
        )
        assert_raises(LimitExceeded, memory.from_origin("import").at(ada.scope).set, "k", "a long value")
        wrong: Any = "redact"
        assert_raises(UsageError, lambda: memory.guard.set(origins=["import"], instructions=wrong))
        assert_raises(UsageError, lambda: memory.guard.set(origins=["import"]))
        assert_raises(UsageError, lambda: memory.guard.set(origins=[], secrets="allow"))

    @requires(Capability.RESTART)
    def test_rules_survive_a_restart(self, memory: Memory, ada: ScopedMemory, reopen: Callable[[], Memory]) -> None:
        memory.guard.set(ada.scope, origins=["tool_external"], instructions="refuse", largest=0)
        again = reopen()
        [rule] = again.guard.list()
        assert (rule.scope, rule.instructions, rule.largest, rule.secrets) == ("user:ada", "refuse", 0, None)
        assert_raises(Denied, from_tool(again).set, "k", ORDER)
        assert from_tool(again).set("k", "a fine day").version == 1

    def test_a_check_stores_nothing_and_quotes_nothing(self, memory: Memory) -> None:
        before = memory.ledger.tail(1)
        found = memory.guard.check({"text": f"{ORDER}. {SECRET}", "card": CARD})
        assert {one.kind for one in found} == {"instruction", "secret", "payment"}
        assert "AKIA" not in str(found)
        assert memory.guard.check("The kiln is hot") == ()
        assert memory.ledger.tail(1) == before

    def test_g56_held_writes_count_against_the_quota(self, memory: Memory, ada: ScopedMemory) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(writes=3, per="1h"))
        flood = memory.acting_as("tool:web", policy=policy).scope(user="ada")
        for number in range(2):
            assert flood.remember(f"{ORDER} {number}", collection="notes").held
        assert flood.set("weather", "rain").version == 1
        assert_raises(QuotaExceeded, flood.remember, f"{ORDER} again", collection="notes")
        assert len(memory.quarantine.list()) == 2
        refused = [event for event in memory.ledger.events() if event.decision == "deny"]
        assert [event.actor for event in refused] == ["tool:web"]
        assert ada.set("weather", "sun").version == 2

    def test_g56_a_principal_writes_only_so_many_bytes_and_the_refusal_is_recorded(self, memory: Memory) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(bytes=100, per="1h"))
        writer = memory.acting_as("tool:web", policy=policy).scope(user="ada")
        assert writer.set("page", "short").version == 1
        assert_raises(QuotaExceeded, writer.set, "page", "long " * 50)
        assert memory.ledger.tail(1)[0].decision == "deny"
        assert memory.scope(user="ada").value("page") == "short"
