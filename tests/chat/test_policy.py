"""P9: which memory a model is shown is said by five fields, each checked, each with a default."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda import LimitExceeded, Memory, UsageError
from memoranda.chat.agent import Agent, MemoryPolicy, policy_for
from memoranda.chat.prompt import preview

DEFAULTS: dict[str, Any] = {
    "archival_mode": "tool_only",
    "archival_limit": 10,
    "archival_min_score": None,
    "include_user_core": True,
    "include_agent_core": True,
}


def test_p9_an_omitted_policy_is_the_defaults_and_a_partial_one_is_filled_with_them() -> None:
    default = MemoryPolicy()
    assert {name: getattr(default, name) for name in MemoryPolicy.__struct_fields__} == {
        **DEFAULTS,
        "definitions": (),
        "collections": (),
    }
    assert policy_for(None, default) == policy_for({}, default) == policy_for(DEFAULTS, default) == default
    partial = policy_for({"archival_mode": "auto"}, default)
    assert partial == MemoryPolicy(archival_mode="auto")
    assert policy_for(partial, MemoryPolicy(archival_limit=3)) == partial


def test_p9_what_a_run_leaves_out_is_what_its_agent_says() -> None:
    mine = MemoryPolicy(archival_mode="auto", archival_limit=3, include_agent_core=False)
    assert policy_for(None, mine) == mine
    assert policy_for({"archival_limit": 5}, mine) == MemoryPolicy(
        archival_mode="auto", archival_limit=5, include_agent_core=False
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("archival_mode", "always"),
        ("archival_mode", None),
        ("archival_mode", ["auto"]),
        ("archival_limit", 0),
        ("archival_limit", -1),
        ("archival_limit", 2.5),
        ("archival_limit", True),
        ("archival_limit", None),
        ("archival_limit", "10"),
        ("archival_min_score", "high"),
        ("archival_min_score", float("nan")),
        ("archival_min_score", float("inf")),
        ("archival_min_score", True),
        ("include_user_core", 1),
        ("include_user_core", None),
        ("include_agent_core", "yes"),
        ("archival_modus", "auto"),
    ],
)
def test_p9_a_field_that_says_nothing_is_refused_with_its_name(
    memory: Memory, gardener: Agent, field: str, value: Any
) -> None:
    with pytest.raises(UsageError) as raised:
        preview(memory, gardener, "Hello", user="ada", memory_policy={field: value})
    assert raised.value.path == field and raised.value.hint
    good = {"archival_limit": 1, "archival_min_score": 0, "archival_mode": "auto", "include_user_core": False}
    assert preview(memory, gardener, "Hello", user="ada", memory_policy=good).messages


@pytest.mark.parametrize("limit", [1, 100])
def test_a_limit_goes_from_one_to_a_hundred(limit: int) -> None:
    assert MemoryPolicy(archival_limit=limit).archival_limit == limit
    with pytest.raises(LimitExceeded) as raised:
        MemoryPolicy(archival_limit=101)
    assert (raised.value.limit, raised.value.actual) == (100, 101)


def test_what_is_no_policy_at_all_is_refused(memory: Memory, gardener: Agent) -> None:
    for given in ("auto", 3, ["archival_mode"]):
        with pytest.raises(UsageError, match="memory_policy"):
            preview(memory, gardener, "Hello", user="ada", memory_policy=given)  # type: ignore[arg-type]
