"""The examples are complete: the one shows everything that memory and state can do, the other every form of a rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memoranda
from memoranda.abl import document as abl
from memoranda.abl.formatter import format_text
from memoranda.abl.keywords import ACCESSES, RECALL_ACTIONS, RULES, SCOPES
from memoranda.lang.document import SourceNode

EXAMPLES = Path(__file__).parents[2] / "examples" / "abl"
HOTEL = memoranda.abl.parse(EXAMPLES / "hotel" / "hotel.abl")
CONCIERGE = memoranda.abl.parse(EXAMPLES / "hotel" / "concierge.abl")
BANK = memoranda.abl.parse(EXAMPLES / "wire_transfer" / "wire_transfer.abl")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.abl")), ids=lambda path: path.name)
def test_every_example_is_in_canonical_layout(path: Path):
    text = path.read_text(encoding="utf-8")
    assert format_text(text, name=path.name) == text


def parts(value: object) -> Iterator[SourceNode]:
    """Give every part of a document, however deep."""
    if isinstance(value, SourceNode):
        yield value
        for name in value.__struct_fields__:
            yield from parts(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from parts(item)


def test_the_hotel_declares_every_kind_of_variable():
    memory = HOTEL.memory
    assert memory is not None and CONCIERGE.memory is not None
    session = {variable.name.text: variable for variable in memory.session}
    assert {"string", "object", "number", "array", None} <= {variable.type for variable in session.values()}
    resets = {variable.reset for variable in (*memory.session, *CONCIERGE.memory.session)}
    assert resets == {"per_session", "per_step", "per_activation"}
    assert {variable.scope for variable in memory.persistent} == set(SCOPES)
    assert {variable.access for variable in memory.persistent} == set(ACCESSES)
    assert any(variable.declared_scope is None and variable.default is None for variable in memory.persistent)
    assert any(variable.type == "array" and variable.default is not None for variable in memory.persistent)


def test_the_hotel_remembers_and_recalls_in_every_way():
    memory = HOTEL.memory
    assert memory is not None
    assert any(trigger.ttl is not None for trigger in memory.remember)
    assert any(trigger.ttl is None for trigger in memory.remember)
    assert any(trigger.value.text.startswith("{") for trigger in memory.remember)
    assert {recall.action for recall in memory.recall} == set(RECALL_ACTIONS)
    events = {recall.on.text for recall in memory.recall}
    assert events == {"session:start", "search:before", "tool:list_stays:after"}
    assert any("\n" in recall.instruction.text for recall in memory.recall if recall.instruction)


def test_the_hotel_uses_every_action_on_its_state():
    found = list(parts(HOTEL))
    kinds = {type(part) for part in found}
    assert {abl.Set, abl.Clear, abl.Transform, abl.Call, abl.Check, abl.Respond, abl.Present, abl.Gather} <= kinds
    transforms = [part for part in found if isinstance(part, abl.Transform)]
    assert {(part.filter is not None, bool(part.map)) for part in transforms} == {
        (True, True),
        (True, False),
        (False, True),
    }
    assert any(part.sort_by and part.limit for part in transforms)
    calls = [part for part in found if isinstance(part, abl.Call)]
    assert any(call.positional and call.on_success and call.on_fail for call in calls)
    assert any(call.named and call.result for call in calls)
    assert HOTEL.flow is not None
    assert any(step.on_input for step in HOTEL.flow.steps)
    assert any(step.sub_intents and step.complete_when for step in HOTEL.flow.steps)
    assert HOTEL.flow.global_digressions
    assert any("." in part.target.text for part in found if isinstance(part, abl.Assignment))
    [handoff] = HOTEL.handoffs
    assert handoff.context is not None
    assert {grant.access for grant in handoff.context.memory_grants} == {"read", "readwrite"}
    assert HOTEL.on_error and HOTEL.completes and HOTEL.escalate


def test_the_bank_uses_every_form_of_a_rule():
    rules = [part for part in parts(BANK) if isinstance(part, abl.Rule)]
    failures = [rule.on_fail for rule in rules if rule.on_fail]
    assert {rule.keyword for rule in rules} == set(RULES)
    assert {rule.before.kind for rule in rules if rule.before} == {"calling", "returning"}
    assert any(rule.when for rule in rules)
    assert any("IMPLIES" in rule.condition.text for rule in rules)
    assert any(rule.severity == "warning" and rule.keyword != "WARN" for rule in rules)
    assert len(BANK.constraints) > 1
    assert {failure.form for failure in failures} == {"respond", "handoff", "escalate", "block", "structured"}
    structured = [failure for failure in failures if failure.form == "structured"]
    assert {failure.then for failure in structured} >= {"retry", "continue"}
    assert any(failure.collect for failure in structured)
    assert any(failure.goto for failure in structured)
    assert any(failure.retry for failure in structured)
    assert any(failure.respond and "{{" in failure.respond.text for failure in failures)
