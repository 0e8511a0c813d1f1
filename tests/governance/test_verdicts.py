"""The strictest verdict of all policies applies to an effect."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.engine.facts import GetFact, SetFact, WriteFacts
from memoranda.errors import InvalidPolicy
from memoranda.governance.gate import decide
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope

NILS = Scope.of(user="nils")
WRITES = Policy.of(allow=("memory.write",))


def write(key: str = "boat") -> SetFact:
    return SetFact(scope=NILS, key=key, payload=msgspec.Raw(b"1"))


def test_an_effect_that_touches_no_place_is_denied():
    assert decide([WRITES], WriteFacts(scope=NILS, writes=(write(),))).level == "allow"
    assert decide([WRITES], WriteFacts(scope=NILS, writes=())).level == "deny"


@pytest.mark.parametrize(
    ("policy", "level"),
    [
        (WRITES, "allow"),
        (Policy.of(allow=("memory.write",), approve=("memory",)), "approve"),
        (Policy.of(allow=("memory.write",), deny=("memory",)), "deny"),
        (Policy.of(allow=("memory.write",), access={"boat": "read"}), "deny"),
        (Policy(rules=(Rule("allow", "memory"), Rule("deny", "memory.write", path="boat"))), "deny"),
        (Policy.of(allow=("memory.read",)), "deny"),
    ],
)
def test_the_strictest_of_all_policies_holds_whatever_their_order(policy: Policy, level: str):
    assert decide([WRITES, policy], write()).level == decide([policy, WRITES], write()).level == level


def test_the_strictest_place_of_an_effect_decides():
    closed = Policy.of(allow=("memory.write",), access={"boat.keys": "none"})
    assert decide([closed], WriteFacts(scope=NILS, writes=(write(), write("pier")))).level == "allow"
    refused = decide([closed], WriteFacts(scope=NILS, writes=(write(), write("boat.keys"))))
    assert (refused.level, "boat.keys" in refused.reason) == ("deny", True)


@pytest.mark.parametrize("path", ["diary.*", "*.diary", "*"])
def test_a_path_that_is_written_as_a_pattern_is_refused_because_it_would_protect_nothing(path: str):
    with pytest.raises(InvalidPolicy, match="not patterns"):
        Rule("deny", "memory.read", path=path)
    with pytest.raises(InvalidPolicy, match="not patterns"):
        Policy.of(allow=("memory",), access={path if path != "*" else "*.*": "none"})
    assert Rule("deny", "memory.read", path="diary").matches("memory.read", Scope.of(user="ada"), "diary.monday")
    assert Policy.of(allow=("memory",), access={"*": "none", "a*b": "read"}).access["a*b"] == "read"


# the short way

SCOPES = [Scope.of(), Scope.of(user="ada"), Scope.of(user="ada", agent="x"), Scope.of(user="ad"), Scope.of(tenant="b")]
CAPABILITIES = st.sampled_from(["*", "memory", "memory.read", "memory.write", "collections"])
RULES = st.builds(
    Rule,
    st.sampled_from(["allow", "allow", "allow", "approve", "deny"]),
    CAPABILITIES,
    st.sampled_from([None, *SCOPES]),
    st.sampled_from(["", "", "profile", "profile.name"]),
)
WIDEST = Policy.of(allow=("*",))
POLICIES = st.builds(
    Policy,
    rules=st.lists(RULES, max_size=4).map(tuple),
    access=st.sampled_from([{}, {}, {"profile": "read"}, {"*": "none"}]),
)


def by_the_rules(policy: Policy, capability: str, scope: Scope, key: str) -> str:
    """Return the level of a capability, looked up rule by rule."""
    levels = policy.levels(capability, scope, key)
    access = policy.access.get("*", "readwrite")
    if key.startswith("profile"):
        access = policy.access.get("profile", access)
    if "deny" in levels or not levels or access not in ("readwrite", capability.removeprefix("memory.")):
        return "deny"
    return "approve" if "approve" in levels else "allow"


@settings(max_examples=300, deadline=None)
@given(POLICIES, st.sampled_from(SCOPES), st.sampled_from(["profile", "profile.name", "diary"]))
def test_what_is_decided_the_short_way_is_what_the_rules_say(policy: Policy, scope: Scope, key: str):
    for effect in (GetFact(scope=scope, key=key), SetFact(scope=scope, key=key, payload=msgspec.Raw(b"1"))):
        level = by_the_rules(policy, effect.capability, scope, key)
        assert decide([policy], effect).level == level
        assert decide([policy, WIDEST], effect).level == level
        assert decide([policy, Policy.of(deny=("*",))], effect).level == "deny"
        assert level == "allow" or not policy.plainly_allows(effect.capability, scope)


def test_the_short_way_is_taken_where_a_handle_has_its_own_scope_and_nowhere_else():
    ada = Policy(rules=(Rule("allow", "memory.read", Scope.of(user="ada")), Rule("deny", "memory.erase")))
    assert ada.plainly_allows("memory.read", Scope.of(user="ada", agent="x"))
    assert not ada.plainly_allows("memory.read", Scope.of(user="ad"))
    assert not ada.plainly_allows("memory.write", Scope.of(user="ada"))
    for narrowed in (
        Policy(rules=(*ada.rules, Rule("deny", "memory", path="diary"))),
        Policy(rules=(*ada.rules, Rule("approve", "memory.read"))),
        Policy(rules=ada.rules, access={"diary": "none"}),
    ):
        assert not narrowed.plainly_allows("memory.read", Scope.of(user="ada"))
        assert decide([narrowed], GetFact(scope=Scope.of(user="ada"), key="diary.today")).level != "allow"
