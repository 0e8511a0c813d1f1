"""Conditionals: the first branch whose condition holds, and what counts as holding."""

from __future__ import annotations

from typing import Any

import pytest

FIRST = """
defs:
  a: {kind: task, action: note, inputs: {branch: a}}
  b: {kind: task, action: note, inputs: {branch: b}}
  c: {kind: task, action: note, inputs: {branch: c}}
flow:
  - conditional:
      when:
        - {condition: "=$input.n > 10", steps: [{do: a}]}
        - {condition: "=$input.n > 5", steps: [{do: b}]}
        - {else: true, steps: [{do: c}]}
"""


@pytest.mark.parametrize(("n", "branch"), [(11, "a"), (6, "b"), (5, "c"), (-1, "c")])
def test_the_first_branch_whose_condition_holds_is_taken(load: Any, kitchen: Any, n: int, branch: str) -> None:
    run = load(FIRST).run({"n": n}, owner="mira").check()
    assert kitchen.done == [{"branch": branch}]
    assert list(run.outputs) == [branch]


def test_conditions_behind_the_one_that_holds_are_not_computed(load: Any, kitchen: Any) -> None:
    text = """
    defs: {a: {kind: task, action: note, inputs: {n: 1}}}
    flow:
      - conditional:
          when:
            - {condition: "=$input.n = 1", steps: [{do: a}]}
            - {condition: "=$error('never asked')", steps: [{do: a}]}
    """
    assert load(text).run({"n": 1}, owner="mira").status == "completed"
    assert load(text).run({"n": 2}, owner="mira").status == "failed"
    assert kitchen.done == [{"n": 1}]


def test_where_no_condition_holds_nothing_is_done(load: Any, kitchen: Any) -> None:
    text = """
    defs: {a: {kind: task, action: note, inputs: {n: 1}}, z: {kind: task, action: note, inputs: {n: 9}}}
    flow:
      - conditional: {when: [{condition: "=$input.yes", steps: [{do: a}]}]}
      - do: z
    """
    assert load(text).run({"yes": False}, owner="mira").check().outputs == {"z": {"n": 9}}
    assert load(text).run({"yes": True}, owner="mira").check().outputs == {"a": {"n": 1}, "z": {"n": 9}}


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (True, True),
        (False, False),
        (None, False),
        (0, False),
        (0.0, False),
        (-1, True),
        ("", False),
        ("false", True),
        ("0", True),
        ([], False),
        ([0, "", False, None], False),
        ([0, 1], True),
        ([[0]], False),
        ({}, False),
        ({"a": None}, True),
    ],
)
def test_what_holds_is_what_jsonata_says(load: Any, kitchen: Any, value: Any, holds: bool) -> None:
    text = """
    defs: {yes: {kind: task, action: give, inputs: {value: 1}}, no: {kind: task, action: give, inputs: {value: 0}}}
    flow:
      - conditional:
          when: [{condition: "=$input.it", steps: [{do: yes}]}]
          else: [{do: no}]
    """
    run = load(text).run({"it": value}, owner="mira").check()
    assert list(run.outputs) == (["yes"] if holds else ["no"])


def test_a_path_that_leads_nowhere_does_not_hold(load: Any) -> None:
    text = """
    defs: {yes: {kind: task, action: give}, no: {kind: task, action: give}}
    flow:
      - conditional:
          when:
            - {condition: "=$context.memory.profile.name", steps: [{do: yes}]}
            - {steps: [{do: no}]}
    """
    assert list(load(text).run(owner="mira").check().outputs) == ["no"]


def test_branches_may_be_empty_and_inside_one_another(load: Any, kitchen: Any) -> None:
    text = """
    defs: {a: {kind: task, action: note, inputs: {n: "=$input.n"}}}
    flow:
      - conditional:
          when:
            - condition: "=$input.n > 0"
              steps:
                - conditional:
                    when:
                      - {condition: "=$input.n > 1", steps: []}
                      - condition: true
                        steps:
                          - conditional: {when: [{condition: false, steps: [{do: a}]}], else: [{do: a}]}
    """
    for n in (0, 1, 2):
        load(text).run({"n": n}, owner="mira").check()
    assert kitchen.done == [{"n": 1}]


def test_a_run_says_which_branch_it_took(load: Any) -> None:
    taken = [load(FIRST).run({"n": n}, owner="mira") for n in (11, 6, 5)]
    branches = [[event.detail.get("branch") for event in run.events if "branch" in event.detail] for run in taken]
    assert len({str(one) for one in branches}) == 3
    assert all(len(one) == 1 for one in branches)
