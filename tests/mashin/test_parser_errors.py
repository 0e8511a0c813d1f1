"""Syntax errors are reported at their location, with what was expected, all in one run."""

from __future__ import annotations

import pytest

from memoranda.errors import SourceError
from memoranda.lang.diagnostics import render_all
from memoranda.mashin.parser import parse_document, parse_fragment, read

STEP = "implements\n  compute one\n    1\n"

# The sections of a machine as they are wrong and right; the code, the words under the caret, and a part of the hint.
SECTIONS = {
    "an unknown section": ("acepts\n  a as text\n", "accepts\n  a as text\n", "unknown_keyword", "acepts", "`accepts`"),
    "a section with a colon": ("accepts:\n  a as text\n", "accepts\n  a as text\n", "unexpected", ":", "Remove it"),
    "an empty section": ("accepts\n", "accepts\n  a as text\n", "missing", "accepts", "deeper"),
    "half a keyword": (
        "responds\n  a as text\n",
        "responds with\n  a as text\n",
        "unknown_keyword",
        "responds",
        "with",
    ),
    "a field without a type": ("accepts\n  a text\n", "accepts\n  a as text\n", "expected", "text", "`a as text`"),
    "a field without a name": ("accepts\n  as text\n", "accepts\n  a as text\n", "expected", "text", "`as as text`"),
    "an unknown modifier": (
        "accepts\n  a as text, mx_length: 3\n",
        "accepts\n  a as text, max_length: 3\n",
        "unknown_modifier",
        "mx_length",
        "`max_length`",
    ),
    "an input from a step": (
        "accepts\n  a as text, from b\n",
        "accepts\n  a as text\n",
        "unexpected",
        "from b",
        "with",
    ),
    "an enum without choices": ("accepts\n  a as enum\n", 'accepts\n  a as enum("b")\n', "expected", "", 'enum("a"'),
    "a choice without quotes": (
        "accepts\n  a as enum(b)\n",
        'accepts\n  a as enum("b")\n',
        "expected",
        "b)",
        'enum("a"',
    ),
    "two fields of one name": (
        "accepts\n  a as text\n  a as number\n",
        "accepts\n  a as text\n  b as number\n",
        "duplicate",
        "a",
        "Keep one",
    ),
    "a field below a field": (
        "accepts\n  a as text\n    b as text\n",
        "accepts\n  a as text\n  b as text\n",
        "wrong_nesting",
        "b as text",
        "Indent",
    ),
    "an unknown permission": (
        "ensures\n  alowed to memory\n",
        "ensures\n  allowed to memory\n",
        "unknown_keyword",
        "alowed",
        "`allowed to`",
    ),
    "a permission for nothing": (
        "ensures\n  allowed to\n",
        "ensures\n  allowed to memory\n",
        "missing",
        "allowed to",
        "",
    ),
    "a call of nobody": ("ensures\n  allowed to call\n", 'ensures\n  allowed to call "a"\n', "expected", "", "call"),
    "an unknown word in a guard": (
        "ensures\n  guards\n    a\n      on_violaton: 1\n",
        "ensures\n  guards\n    a\n      on_violation: 1\n",
        "unknown_keyword",
        "on_violaton",
        "`on_violation`",
    ),
    "a test without a name": (
        "verifies\n  test one\n    given {}\n    expect {}\n",
        'verifies\n  test "one"\n    given {}\n    expect {}\n',
        "expected",
        "one",
        'test "what',
    ),
    "a test without an end": (
        'verifies\n  test "one"\n    given {}\n',
        'verifies\n  test "one"\n    given {}\n    expect {}\n',
        "missing",
        'test "one"',
        "expect",
    ),
    "a section twice": (
        "accepts\n  a as text\naccepts\n  b as text\n",
        "accepts\n  a as text\n",
        "duplicate",
        "accepts",
        "",
    ),
}

MORE_SECTIONS = {
    "a field that begins with a digit": (
        "accepts\n  3 as text\n",
        "accepts\n  a as text\n",
        "expected",
        "3 as text",
        "letter",
    ),
    "a type that is a number": ("accepts\n  a as 3\n", "accepts\n  a as text\n", "expected", "3", "text"),
    "words between modifiers": (
        "accepts\n  a as text, min_length: 3, is required please\n",
        "accepts\n  a as text, min_length: 3, is required\n",
        "expected",
        "please",
        "",
    ),
    "a modifier twice": (
        "accepts\n  a as text, format: 1, format: 2\n",
        "accepts\n  a as text, format: 1\n",
        "duplicate",
        "format",
        "Keep one",
    ),
    "a description without quotes": (
        "accepts\n  a as text, description b\n",
        'accepts\n  a as text, description "b"\n',
        "expected",
        "b",
        "",
    ),
    "a modifier without a colon": (
        "accepts\n  a as text, format 1\n",
        "accepts\n  a as text, format: 1\n",
        "missing_colon",
        "format",
        "`format: …`",
    ),
    "a modifier without a value": (
        "accepts\n  a as text, default:\n",
        "accepts\n  a as text, default: 1\n",
        "expected",
        "",
        "",
    ),
    "an output from nowhere": (
        "responds with\n  a as text, from 3\n",
        "responds with\n  a as text, from b\n",
        "expected",
        "3",
        "",
    ),
    "a guard twice": ("ensures\n  guards\n    a\n    a\n", "ensures\n  guards\n    a\n", "duplicate", "a", "Keep one"),
    "a guard without a name": ("ensures\n  guards\n    3\n", "ensures\n  guards\n    a\n", "expected", "3", ""),
    "an unknown authority": (
        "ensures\n  authority\n    requirs: a\n",
        "ensures\n  authority\n    requires: a\n",
        "unknown_keyword",
        "requirs",
        "`requires`",
    ),
    "an authority without a colon": (
        "ensures\n  authority\n    requires a\n",
        "ensures\n  authority\n    requires: a\n",
        "missing_colon",
        "requires",
        "`requires: …`",
    ),
    "an authority without a value": (
        "ensures\n  authority\n    requires:\n",
        "ensures\n  authority\n    requires: a\n",
        "expected",
        "",
        "",
    ),
    "a capability that is a number": (
        "ensures\n  allowed to 3\n",
        "ensures\n  allowed to http\n",
        "expected",
        "3",
        "memory",
    ),
    "no test below verifies": (
        "verifies\n  given {}\n",
        'verifies\n  test "a"\n    given {}\n    expect {}\n',
        "expected",
        "given {}",
        "test",
    ),
    "a test twice": (
        'verifies\n  test "a"\n    given {}\n    expect {}\n  test "a"\n    given {}\n    expect {}\n',
        'verifies\n  test "a"\n    given {}\n    expect {}\n',
        "duplicate",
        '"a"',
        "Keep one",
    ),
    "an input twice": (
        'verifies\n  test "a"\n    given {}\n    given {}\n    expect {}\n',
        'verifies\n  test "a"\n    given {}\n    expect {}\n',
        "duplicate",
        "given {}",
        "",
    ),
    "an assumption twice": (
        'verifies\n  test "a"\n    given {}\n    assuming b {}\n    assuming b {}\n    expect {}\n',
        'verifies\n  test "a"\n    given {}\n    assuming b {}\n    expect {}\n',
        "duplicate",
        "b",
        "",
    ),
    "an assumption about no step": (
        'verifies\n  test "a"\n    given {}\n    assuming {}\n    expect {}\n',
        'verifies\n  test "a"\n    given {}\n    assuming b {}\n    expect {}\n',
        "expected",
        "{}",
        "",
    ),
    "an unknown word in a test": (
        'verifies\n  test "a"\n    given {}\n    expct {}\n    expect {}\n',
        'verifies\n  test "a"\n    given {}\n    expect {}\n',
        "unknown_keyword",
        "expct",
        "`expect`",
    ),
    "an input without a map": (
        'verifies\n  test "a"\n    given\n    expect {}\n',
        'verifies\n  test "a"\n    given {}\n    expect {}\n',
        "expected",
        "",
        "{ name: value }",
    ),
}

STEPS = {
    "an ask without a name": ('ask "a"\n', "ask a\n", "expected", '"a"', "letter"),
    "two who are asked": ('ask a, using: "b", from: "c"\n', 'ask a, using: "b"\n', "duplicate", "from", ""),
    "answers twice": (
        "ask a\n  returns\n    b as text\n  returns\n    c as text\n",
        "ask a\n  returns\n    b as text\n",
        "duplicate",
        "returns",
        "",
    ),
    "a task without words": ("ask a\n  with task\n", 'ask a\n  with task "b"\n', "missing", "with task", "with task"),
    "a task twice": ('ask a\n  with task "b"\n  with task "c"\n', 'ask a\n  with task "b"\n', "duplicate", "task", ""),
    "a block of something else than flows": (
        "flows\n  compute a\n    1\n",
        "flows\n  flow a\n    1\n",
        "expected",
        "compute a",
        "`flow name`",
    ),
    "a flow twice": ("flow a\n  1\nflow a\n  2\n", "flow a\n  1\n", "duplicate", "a", ""),
    "a flow without steps": ("flow a\n", "flow a\n  1\n", "missing", "flow a", ""),
    "a failure inside of a branch": (
        "decide a\n  when b\n    on failure\n      1\n",
        "decide a\n  when b\n    1\n",
        "wrong_nesting",
        "on failure",
        "closes a flow",
    ),
    "two ways to fail": ("on failure\n  1\non failure\n  2\n", "on failure\n  1\n", "duplicate", "on failure", ""),
    "a let without an end": ("compute a\n  let b =\n  1\n", "compute a\n  let b = 1\n  1\n", "expected", "", ""),
    "a let without a name": ("compute a\n  let = 1\n  1\n", "compute a\n  let b = 1\n  1\n", "expected", "= 1", ""),
    "a let twice": (
        "compute a\n  let b = 1\n  let b = 2\n  b\n",
        "compute a\n  let b = 1\n  b\n",
        "duplicate",
        "b",
        "",
    ),
    "the last branch twice": (
        "decide a\n  otherwise\n    1\n  otherwise\n    2\n",
        "decide a\n  otherwise\n    1\n",
        "duplicate",
        "otherwise",
        "",
    ),
    "a branch without a condition": ("decide a\n  when\n    1\n", "decide a\n  when b\n    1\n", "expected", "", ""),
    "a branch that does nothing": ("decide a\n  when b\n", "decide a\n  when b\n    1\n", "missing", "when b", ""),
    "a run that is not closed by its bracket": ("run flow(a b)\n", "run flow(a)\n", "expected", "b)", "run flow"),
    "an unknown step": ("recal a\n  query: 1\n", "recall a\n  query: 1\n", "unknown_keyword", "recal", "`recall`"),
    "a step without a name": ("compute\n  1\n", "compute a\n  1\n", "expected", "", "begins with a letter"),
    "a step without a body": ("compute a\n", "compute a\n  1\n", "missing", "compute a", "deeper"),
    "a step without a result": (
        "compute a\n  let b = 1\n",
        "compute a\n  let b = 1\n  b\n",
        "missing",
        "compute a",
        "last",
    ),
    "two results": ("compute a\n  1\n  2\n", "compute a\n  2\n", "unexpected", "2", "`let`"),
    "a let after the result": (
        "compute a\n  1\n  let b = 2\n",
        "compute a\n  let b = 2\n  1\n",
        "unexpected",
        "b",
        "last",
    ),
    "a let without a value": ("compute a\n  let b\n  1\n", "compute a\n  let b = 2\n  1\n", "expected", "", ""),
    "a configuration without a colon": (
        'recall a\n  query "b"\n  collection: "c"\n',
        'recall a\n  query: "b"\n  collection: "c"\n',
        "missing_colon",
        "query",
        "`query: …`",
    ),
    "a configuration without a value": (
        'recall a\n  query:\n  collection: "c"\n',
        'recall a\n  query: 1\n  collection: "c"\n',
        "missing",
        "query:",
        "query",
    ),
    "a configuration twice": (
        "recall a\n  query: 1\n  query: 2\n",
        "recall a\n  query: 1\n",
        "duplicate",
        "query",
        "Keep one",
    ),
    "the form with a key": ("remember a\n  key: 1\n", "remember a\n  content: 1\n", "older_form", "key", "`content`"),
    "a model without quotes": ("ask a, using: b\n", 'ask a, using: "b"\n', "expected", "b", ""),
    "an unknown word after ask": ('ask a, usng: "b"\n', 'ask a, using: "b"\n', "expected", "usng", "`using`"),
    "an unknown word after with": (
        'ask a\n  with tsk "b"\n',
        'ask a\n  with task "b"\n',
        "unknown_keyword",
        "tsk",
        "`task`",
    ),
    "an unknown branch": (
        "decide a\n  whn b\n    1\n",
        "decide a\n  when b\n    1\n",
        "unknown_keyword",
        "whn",
        "`when`",
    ),
    "a branch after the last": (
        "decide a\n  otherwise\n    1\n  when b\n    2\n",
        "decide a\n  when b\n    2\n  otherwise\n    1\n",
        "unexpected",
        "when b",
        "last",
    ),
    "a flow that is run without its name": ("run flow()\n", "run flow(a)\n", "expected", ")", ""),
    "a run of no flow": ("run a\n", "run flow(a)\n", "expected", "a", "`run flow(name)`"),
    "a flow inside of a branch": (
        "decide a\n  when b\n    flow c\n      1\n",
        "decide a\n  when b\n    run flow(c)\n",
        "wrong_nesting",
        "flow c",
        "implements",
    ),
    "a retry of nothing": (
        "retry\n  max: 3\n",
        "retry\n  max: 3\n  compute a\n    1\n",
        "missing",
        "retry",
        "below it",
    ),
    "an open quote": ('compute a\n  "b\n', 'compute a\n  "b"\n', "unclosed_quote", '"', "same line"),
    "an open bracket": ("compute a\n  { b: 1\n", "compute a\n  { b: 1 }\n", "unclosed_bracket", "{", "Close it"),
    "tabs and spaces": ("compute a\n\t1\ncompute b\n  1\n", "compute a\n  1\n", "mixed_indentation", "  ", "spaces"),
    "a crooked block": (
        "compute a\n    1\n  + 2\n",
        "compute a\n    1\n    + 2\n",
        "indentation",
        "+ 2",
        "same column",
    ),
}


def judge(wrong: str, right: str, code: str, at: str, hint: str, *, fragment: bool) -> None:
    found = [one for one in read(wrong, fragment=fragment).diagnostics if one.code == code]
    assert found, [one.code for one in read(wrong, fragment=fragment).diagnostics]
    assert at in {wrong[one.span.start : one.span.end] for one in found}
    assert any(hint in one.hint for one in found), [one.hint for one in found]
    assert code not in {one.code for one in read(right, fragment=fragment).diagnostics}


@pytest.mark.parametrize("case", [*SECTIONS.values(), *MORE_SECTIONS.values()], ids=[*SECTIONS, *MORE_SECTIONS])
def test_a_fault_of_a_section_is_found_at_its_place(case: tuple[str, str, str, str, str]) -> None:
    wrong, right, code, at, hint = case
    judge(f"machine desk\n{STEP}{wrong}", f"machine desk\n{STEP}{right}", code, at, hint, fragment=False)


@pytest.mark.parametrize("case", STEPS.values(), ids=STEPS)
def test_a_fault_of_a_step_is_found_at_its_place(case: tuple[str, str, str, str, str]) -> None:
    wrong, right, code, at, hint = case
    judge(wrong, right, code, at, hint, fragment=True)


def test_an_open_bracket_does_not_swallow_the_steps_after_it() -> None:
    text = "recall a\n  filter: { b: 1\n  query: 1\nrecall c\n  query: 2\n  query: 3\n"
    assert {one.code for one in read(text, fragment=True).diagnostics} == {"unclosed_bracket", "duplicate"}


def test_a_bracket_may_close_on_a_line_that_is_not_indented() -> None:
    assert not read("compute a\n  {\nb: 1\n}\n", fragment=True).failed


def test_two_machines_need_two_files() -> None:
    with pytest.raises(SourceError, match="one machine"):
        parse_document(f"machine a\n{STEP}machine b\n{STEP}")
    assert parse_document(f"machine a\n{STEP}")


def test_a_word_of_another_place_says_where_it_stands() -> None:
    (one,) = read(f"machine a\n{STEP}permissions\n  allowed to memory\n").diagnostics
    assert one.hint == "It belongs in `ensures`; check the indentation"


def test_all_faults_come_in_one_error_that_shows_them() -> None:
    with pytest.raises(SourceError) as caught:
        parse_fragment("recal a\n  query: 1\ncompute b\nrun c\n", name="three.mashin")
    assert str(caught.value).startswith("three.mashin:1:1: `recal` is not a keyword in `implements` (and 2 more)")
    assert len(caught.value.diagnostics) == 3


def test_a_fault_is_shown_with_its_line_and_a_caret() -> None:
    reading = read("decide a\n  whn b\n    1\n", name="a.mashin", fragment=True)
    assert render_all(reading.diagnostics, reading.source) == (
        "a.mashin:2:3: error[unknown_keyword]: `whn` is not a keyword in `decide`\n"
        "  2 |   whn b\n"
        "    |   ^^^\n"
        "    = Did you mean `when`?"
    )


def test_a_file_that_is_too_large_or_too_deep_is_refused() -> None:
    assert [one.code for one in read("a" * 2_000_001).diagnostics if one.code == "too_large"] == ["too_large"]
    assert "too_large" not in {one.code for one in read("a" * 1_000).diagnostics}
    deep = "".join(" " * level + "a\n" for level in range(60))
    assert "too_deep" in {one.code for one in read(deep).diagnostics}
    assert "too_deep" not in {one.code for one in read(deep[:200]).diagnostics}
