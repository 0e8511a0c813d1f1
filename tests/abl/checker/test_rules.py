"""Each rule of the checker reports its fault at the right location, and accepts the same file without the fault.

The cases are in `samples/`: a title, the code and the words under the caret, a part of the message and of the hint,
and the lines after `AGENT` and `GOAL`. `«wrong¦right»` gives the wording for the faulty and for the correct file.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import memoranda.abl.checker
from memoranda.abl.checker.check import check_source
from memoranda.lang.diagnostics import Diagnostic

SAMPLES = Path(__file__).parent / "samples"
HEAD = "AGENT: Desk\nGOAL: help\n"
STEP = "FLOW:\n  s:\n    REASONING: false\n"
_CHOICE = re.compile("«([^¦»]*)¦([^»]*)»")


class Case(msgspec.Struct, frozen=True):
    """A file with a fault and without it, and what is to be said."""

    code: str
    at: str
    says: str
    hint: str
    form: str
    text: str

    def file(self, *, wrong: bool) -> str:
        chosen = _CHOICE.sub(r"\1" if wrong else r"\2", self.text)
        return chosen if self.form or chosen.startswith("SUPERVISOR") else HEAD + chosen


def cases(name: str) -> dict[str, Case]:
    parts = re.split(r"^=== (.+)\n", (SAMPLES / name).read_text(), flags=re.MULTILINE)
    return {title: _case(body) for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def _case(body: str) -> Case:
    head, _, text = body.partition("---\n")
    said = dict(line.split(" ", 1) for line in head.splitlines()[1:])
    code, _, at = head.partition("\n")[0].partition(" at")
    return Case(code, at.lstrip(), said.get("says", ""), said.get("hint", ""), said.get("as", ""), text)


ERRORS, WARNINGS, FINE = cases("errors.txt"), cases("warnings.txt"), cases("fine.txt")


def found(text: str, *, form: str = "") -> list[Diagnostic]:
    name = "desk.agent.yaml" if form == "yaml" else "desk.agent.abl"
    _, _, diagnostics = check_source(text, name=name, fragment=form == "fragment")
    assert {one.source for one in diagnostics} <= {name}
    return [one for one in diagnostics if one.severity != "note"]


def judge(case: Case, severity: str) -> None:
    right, wrong = case.file(wrong=False), case.file(wrong=True)
    assert right != wrong
    assert found(right, form=case.form) == [], right
    said = found(wrong, form=case.form)
    assert [(one.code, one.severity) for one in said] == [(case.code, severity)], said
    (one,) = said
    assert wrong[one.span.start : one.span.end] == case.at
    assert case.says in one.message
    assert case.hint in one.hint


@pytest.mark.parametrize("title", ERRORS)
def test_is_an_error(title: str) -> None:
    judge(ERRORS[title], "error")


@pytest.mark.parametrize("title", WARNINGS)
def test_is_a_warning(title: str) -> None:
    judge(WARNINGS[title], "warning")


@pytest.mark.parametrize("title", FINE)
def test_has_nothing_to_say_about(title: str) -> None:
    text = HEAD + FINE[title].text
    assert found(text) == []
    assert [one.code for one in found(text + "\nMESSAGES:\n  hello: '{{'\n")] == ["unclosed_tag"]


def test_every_code_of_the_checker_has_a_case() -> None:
    folder = Path(memoranda.abl.checker.__file__).parent
    source = "".join(path.read_text() for path in folder.glob("*.py"))
    codes = set(re.findall(r'diagnostics\.(?:error|warning|note)\(\s*"(\w+)"', source))
    tested = {case.code for case in (*ERRORS.values(), *WARNINGS.values())}
    assert len(codes) > 25
    # `record_field` needs definitions, which a file alone does not have: tests/abl/runtime/test_record_fields.py.
    assert codes - tested == {"record_field"}


def test_a_fragment_may_name_what_stands_elsewhere_and_a_whole_file_may_not() -> None:
    text = STEP + "    RESPOND: TEMPLATE(hi)\n    THEN: elsewhere\n  t:\n    REASONING: false\n"
    assert found(text, form="fragment") == []
    assert {one.code for one in found(HEAD + text)} == {"unknown_step", "unknown_template"}


def test_a_path_is_reported_once_however_often_it_is_used() -> None:
    use = '    RESPOND: "{{user.a}} {{user.a}}"\n    SET: b = user.a + user.c\n'
    assert [one.message.split("`")[1] for one in found(HEAD + STEP + use)] == ["user.a", "user.c"]


def test_a_misspelt_way_is_one_error_and_not_also_a_step_that_is_never_reached() -> None:
    other = "  t:\n    REASONING: false\n"
    assert [one.code for one in found(HEAD + STEP + "    THEN: tt\n" + other)] == ["unknown_step"]
    assert [one.code for one in found(HEAD + STEP + "    THEN: COMPLETE\n" + other)] == ["unreachable"]


def test_what_could_not_be_read_is_not_taken_for_missing() -> None:
    trigger = "MEMORY:\n  persistent:\n    - user.a\n  remember:\n    - WHEN: b IS SET\n      STORE: b -> user.a\n"
    other = "  t:\n    REASONING: false\n"
    assert [one.code for one in found(HEAD + trigger + STEP + other)] == ["never_set", "unreachable"]
    assert [one.code for one in found(HEAD + trigger + STEP + "    GATHR: b\n" + other)] == ["unknown_keyword"]


def test_a_file_of_many_faults_gets_all_of_them_and_only_some_guesses_at_what_was_meant() -> None:
    steps = "".join(f"  step_{n}:\n    REASONING: false\n    THEN: stop_{n}\n" for n in range(300))
    said = found(HEAD + "FLOW:\n" + steps)
    assert [one.code for one in said] == ["unknown_step"] * 300
    assert said[0].hint == "Did you mean `step_0`?"
    assert said[-1].hint.startswith("The steps are step_0, ")


def test_every_fault_of_a_file_is_there_in_one_run() -> None:
    said = found((SAMPLES / "faults.agent.abl").read_text())
    assert {one.code for one in said if one.severity == "error"} == {
        *("reserved_name", "wrong_type", "unexpected_token", "access", "wrong_value", "unknown_event", "bad_type"),
        *("unknown_keyword", "wrong_arguments", "unclosed_block", "unknown_step"),
    }
    assert {one.code for one in said if one.severity == "warning"} == {"shared_by_all", "no_on_fail"}
    places = [one.span.start for one in said]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("memory", "codes"),
    [
        ("persistent:\n    - user.sleep.learned.x", ["reserved_name"]),
        ("persistent:\n    - PATH: user.sleep.learned.x\n      ACCESS: read", []),
        ("persistent:\n    - user.jobs", []),
        ("persistent:\n    - user.threads", []),
        ("persistent:\n    - project.threads.current", []),
        ("remember:\n    - WHEN: a IS SET\n      STORE: a -> user.blocks.core", ["reserved_name", "undeclared_path"]),
        ("remember:\n    - WHEN: a IS SET\n      STORE: a -> user.blocks.mine", ["undeclared_path"]),
    ],
)
def test_a_path_is_reserved_in_scopes_where_the_runtime_writes_it(memory: str, codes: list[str]) -> None:
    text = f'AGENT: Desk\nGOAL: "g"\nMEMORY:\n  session:\n    - a\n  {memory}\n'
    assert [one.code for one in found(text) if one.code in ("reserved_name", "undeclared_path")] == codes
