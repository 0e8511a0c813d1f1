"""Policies and an effect in, the strictest verdict out."""

from __future__ import annotations

import msgspec
import pytest

from recollect.errors import InvalidPolicy
from recollect.governance.permissions import decide
from recollect.model.effect import SetFact, WriteFacts
from recollect.model.policy import Policy, Rule
from recollect.model.scope import Scope

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
    with pytest.raises(InvalidPolicy, match="no pattern"):
        Rule("deny", "memory.read", path=path)
    with pytest.raises(InvalidPolicy, match="no pattern"):
        Policy.of(allow=("memory",), access={path if path != "*" else "*.*": "none"})
    assert Rule("deny", "memory.read", path="diary").matches("memory.read", Scope.of(user="ada"), "diary.monday")
    assert Policy.of(allow=("memory",), access={"*": "none", "a*b": "read"}).access["a*b"] == "read"
