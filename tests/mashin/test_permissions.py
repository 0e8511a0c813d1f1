"""What `ensures` says about each need of a step."""

from __future__ import annotations

from itertools import permutations

import pytest

from memoranda.engine.facts import DeleteFact, GetFact
from memoranda.errors import UsageError
from memoranda.governance.gate import decide
from memoranda.mashin.checker import check_source
from memoranda.mashin.document import NamedStep
from memoranda.mashin.keywords import CAPABILITIES, COVERS, capability
from memoranda.mashin.permissions import Need, Permissions, needs_of, permissions
from memoranda.model.scope import Scope

READ, WRITE, MODEL = Need("memory.read"), Need("memory.write"), Need("llm_call")
CLERK, PORTER = Need("machine.call", "clerk"), Need("machine.call", "porter")


def of(*lines: str) -> Permissions:
    ensured = "".join(f"  {line}\n" for line in lines)
    text = "machine inn\n" + (f"ensures\n{ensured}" if lines else "") + "implements\n  compute one\n    1\n"
    return permissions(check_source(text)[0].document.ensures)


def levels(granted: Permissions) -> dict[str, str]:
    return {str(need): granted.verdict(need).level for need in (READ, WRITE, MODEL, CLERK, PORTER)}


NOTHING = {
    "memory.read": "deny",
    "memory.write": "deny",
    "llm_call": "deny",
    'call "clerk"': "deny",
    'call "porter"': "deny",
}

SAID: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "nothing": ((), {}),
    "memory": (("allowed to memory",), {"memory.read": "allow", "memory.write": "allow"}),
    "reading only": (("allowed to memory.read",), {"memory.read": "allow"}),
    "all but writing": (("allowed to memory", "not allowed to memory.write"), {"memory.read": "allow"}),
    "a denial of both": (("allowed to memory.read", "not allowed to memory"), {}),
    "approval of writing": (
        ("allowed to memory", "requires approval for memory.write"),
        {"memory.read": "allow", "memory.write": "approve"},
    ),
    "a denial beats an approval": (("requires approval for llm_call", "not allowed to reason"), {}),
    "approval alone": (("requires approval for llm_call",), {"llm_call": "approve"}),
    "other spellings": (("allowed to reason, compute.llm.reason",), {"llm_call": "allow"}),
    "one machine": (('allowed to call "clerk"',), {'call "clerk"': "allow"}),
    "all machines": (("allowed to machine.call",), {'call "clerk"': "allow", 'call "porter"': "allow"}),
    "all machines but one": (("allowed to machine.call", 'not allowed to call "clerk"'), {'call "porter"': "allow"}),
    "no machine, whatever else is said": (('allowed to call "clerk"', "not allowed to machine.call"), {}),
    "one machine after approval": (
        ("allowed to machine.call", 'requires approval for call "clerk"'),
        {'call "clerk"': "approve", 'call "porter"': "allow"},
    ),
    "all machines after approval": (
        ('allowed to call "clerk"', "requires approval for machine.call"),
        {'call "clerk"': "approve", 'call "porter"': "approve"},
    ),
    "a capability that nobody knows": (("allowed to memroy, llm_call",), {"llm_call": "allow"}),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_gives_a_level_whatever_its_order(name: str) -> None:
    lines, expected = SAID[name]
    for ordered in permutations(lines):
        assert levels(of(*ordered)) == {**NOTHING, **expected}


def test_every_capability_can_be_allowed_and_is_denied_otherwise() -> None:
    for spelling in CAPABILITIES.names:
        name = capability(spelling)
        assert name is not None
        for one in COVERS.get(name, (name,)):
            assert of(f"allowed to {spelling}").verdict(Need(one)).level == "allow"
            assert of().verdict(Need(one)).level == "deny"


def test_a_verdict_says_why() -> None:
    granted = of("allowed to memory.read", "not allowed to llm_call", "requires approval for memory.write")
    assert granted.verdict(READ).reason == ""
    assert granted.verdict(WRITE).reason == "memory.write requires approval"
    assert granted.verdict(MODEL).reason == "the machine is not allowed to llm_call"
    assert granted.verdict(CLERK).reason == 'nothing in `ensures` allows call "clerk"'
    assert [granted.verdict(need).capability for need in (WRITE, CLERK)] == ["memory.write", "machine.call"]


STEPS = """machine inn
implements
  compute count
    1
  remember keep
    content: "a guest"
    collection: "book"
  recall find
    query: "guests"
    collection: "book"
  ask answer, using: "test:model"
    with task "Greet"
  ask helper, from: "clerk"
    name: "Mia"
  decide way
    otherwise
      1
  wait for bell
    event: "rung"
"""


def test_steps_that_reach_out_need_a_capability_and_others_none() -> None:
    implements = check_source(STEPS)[0].document.implements
    assert implements is not None
    found = {part.name.text: list(needs_of(part)) for part in implements.body if isinstance(part, NamedStep)}
    assert found == {
        "count": [],
        "keep": [WRITE],
        "find": [READ],
        "answer": [MODEL],
        "helper": [CLERK],
        "way": [],
        "bell": [],
    }


def test_the_checker_and_a_run_say_the_same() -> None:
    for lines, _ in SAID.values():
        ensured = "".join(f"  {line}\n" for line in lines)
        text = STEPS.replace("implements\n", (f"ensures\n{ensured}" if lines else "") + "implements\n", 1)
        reading, _, said = check_source(text)
        granted = permissions(reading.document.ensures)
        warned = {text[one.span.start : one.span.end] for one in said if one.code == "not_allowed"}
        steps = {"keep": WRITE, "find": READ, "answer": MODEL, "helper": CLERK}
        assert warned == {name for name, need in steps.items() if granted.verdict(need).level == "deny"}


# simulations


def test_the_last_word_counts_for_each_capability() -> None:
    granted = of("allowed to memory", "not allowed to llm_call", 'requires approval for call "clerk"')
    assert levels(granted.replace(allow=["reason"]))["llm_call"] == "allow"
    assert levels(granted.replace(deny=["memory"])) == {
        **levels(granted),
        "memory.read": "deny",
        "memory.write": "deny",
    }
    assert levels(granted.replace(deny=["memory.write"])) == {**levels(granted), "memory.write": "deny"}
    assert levels(granted.replace(approve=("memory.read",)))["memory.read"] == "approve"
    assert levels(granted.replace()) == levels(granted)


def test_a_change_leaves_the_permissions_as_they_were() -> None:
    granted = of("allowed to memory")
    granted.replace(deny=["memory"], allow=["llm_call", 'call "clerk"'])
    assert levels(granted) == {**NOTHING, "memory.read": "allow", "memory.write": "allow"}


def test_a_change_can_speak_about_one_machine_or_about_all() -> None:
    closed = of("not allowed to machine.call")
    assert levels(closed.replace(allow=['call "clerk"'])) == {**NOTHING, 'call "clerk"': "allow"}
    open_but_one = of("allowed to machine.call", 'not allowed to call "clerk"')
    both = {**NOTHING, 'call "clerk"': "allow", 'call "porter"': "allow"}
    assert levels(open_but_one.replace(allow=["machine.call"])) == both
    assert levels(open_but_one.replace(deny=["machine.call"], allow=["call 'porter'"])) == {
        **NOTHING,
        'call "porter"': "allow",
    }


def test_of_two_levels_in_one_change_the_stricter_counts() -> None:
    changed = of().replace(allow=["memory"], approve=["memory.write", "llm_call"], deny=["llm_call"])
    assert levels(changed) == {**NOTHING, "memory.read": "allow", "memory.write": "approve"}


def test_one_name_needs_no_list() -> None:
    assert levels(of().replace(allow="memory.read"))["memory.read"] == "allow"


def test_a_change_of_what_nobody_knows_is_refused_with_what_was_meant() -> None:
    with pytest.raises(UsageError, match="memroy") as caught:
        of().replace(deny=["memroy"])
    assert caught.value.hint == "Did you mean `memory`?"
    assert of().replace(deny=["memory"])


# what the engine's gate is told

HERE = Scope.of(tenant="t", user="mia")


@pytest.mark.parametrize(
    ("lines", "reads", "writes"),
    [
        ((), "deny", "deny"),
        (("allowed to memory.read",), "allow", "deny"),
        (("allowed to memory", "not allowed to memory.read"), "deny", "allow"),
        (("requires approval for memory",), "allow", "allow"),
    ],
)
def test_the_gate_lets_a_machine_do_what_its_permissions_say(lines: tuple[str, ...], reads: str, writes: str) -> None:
    policy = of(*lines).policy()
    assert decide([policy], GetFact(scope=HERE, key="a")).level == reads
    assert decide([policy], DeleteFact(scope=HERE, key="a")).level == writes


def test_the_gate_lets_every_machine_record_its_runs_and_nothing_else() -> None:
    rules = {(rule.level, rule.capability) for rule in of("allowed to llm_call").policy().rules}
    assert rules == {("allow", "runs"), ("deny", "memory.read"), ("deny", "memory.write")}
