"""Each rule of the checker reports its fault at the right location, and accepts the same machine without the fault.

The cases are in `samples/`: a title, the code and the words under the caret, a part of the message and of the hint,
and the sections of the machine. `«wrong¦right»` gives the wording for the faulty and for the correct machine.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from memoranda.lang.diagnostics import Diagnostic
from memoranda.mashin.checker import check_source

SAMPLES = Path(__file__).parent / "samples"
_CHOICE = re.compile("«([^¦»]*)¦([^»]*)»")


class Case(msgspec.Struct, frozen=True):
    """A machine with a fault and without it, and what is to be said."""

    code: str
    at: str
    says: str
    hint: str
    text: str

    def file(self, *, wrong: bool) -> str:
        return "machine desk\n" + _CHOICE.sub(r"\1" if wrong else r"\2", self.text)


def cases(name: str) -> dict[str, Case]:
    parts = re.split(r"^=== (.+)\n", (SAMPLES / name).read_text(), flags=re.MULTILINE)
    return {title: _case(body) for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def _case(body: str) -> Case:
    head, _, text = body.partition("---\n")
    said = dict(line.split(" ", 1) for line in head.splitlines()[1:])
    code, _, at = head.partition("\n")[0].partition(" at ")
    return Case(code, at, said.get("says", ""), said.get("hint", ""), text)


ERRORS, WARNINGS, FINE = cases("errors.txt"), cases("warnings.txt"), cases("fine.txt")


def found(text: str, *, fragment: bool = False) -> list[Diagnostic]:
    _, _, diagnostics = check_source(text, name="desk.mashin", fragment=fragment)
    assert {one.source for one in diagnostics} <= {"desk.mashin"}
    return list(diagnostics)


def judge(case: Case, severity: str) -> None:
    text = case.file(wrong=True)
    (one,) = found(text)
    assert (one.code, one.severity) == (case.code, severity)
    assert text[one.span.start : one.span.end] == case.at
    assert case.says in one.message
    assert case.hint in one.hint
    assert found(case.file(wrong=False)) == []


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_a_fault_is_found_and_only_that(case: Case) -> None:
    judge(case, "error")


@pytest.mark.parametrize("case", WARNINGS.values(), ids=WARNINGS)
def test_a_doubt_is_found_and_only_that(case: Case) -> None:
    judge(case, "warning")


@pytest.mark.parametrize("case", FINE.values(), ids=FINE)
def test_nothing_is_said_about_what_is_right(case: Case) -> None:
    assert found(case.file(wrong=True)) == []


def test_a_fault_of_an_expression_stands_in_the_same_list_at_its_place() -> None:
    text = "machine desk\nimplements\n  compute first\n    { a: 1 + }\n  compute second\n    { b: «1» }\n"
    places = {text.count("\n", 0, one.span.start) + 1 for one in found(text) if one.severity == "error"}
    assert places == {4, 6}


def test_a_quote_that_is_never_closed_is_reported_once() -> None:
    (one,) = found('machine desk\nimplements\n  compute first\n    "boat\n')
    assert one.code == "unclosed_quote"


def test_a_fragment_is_checked_for_what_it_says_itself() -> None:
    step = 'remember keep\n  content: input.document\n  collection: {}\n  ttl: "3d"\n'
    assert found(step.format('"notes"'), fragment=True) == []
    assert [one.code for one in found(step.format('""'), fragment=True)] == ["wrong_value"]


def test_a_later_step_in_a_flow_is_a_doubt_because_a_flow_can_run_again() -> None:
    text = "machine desk\nimplements\n  run flow(a)\n  flow a\n    compute one\n      {}\n"
    text += "    compute two\n      {{ b: 1 }}\n"
    assert [(one.code, one.severity) for one in found(text.format("two.b"))] == [("later_step", "warning")]
    assert found(text.format("1")) == []
