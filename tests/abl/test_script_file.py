"""Script files are parsed correctly, and every error in one is shown at its location."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.abl.scripts import Answer, read_scripts
from memoranda.errors import SourceError
from memoranda.lang.scripts import Wording

WHOLE = """\
agent: desk.abl
agents: [night.abl]
tools: tools.py
tests:
  - name: Everything once
    user: ada
    project: harbour
    now: 2026-05-01T18:00:00Z
    facts:
      user.language: pt
      project.rates: {eur: 1, usd: 1.1}
    vars: {open: true, count: 2, word: yes}
    tools:
      search: [[1, 2], {error: down}]
      price: 12
    steps:
      - expect: Welcome
      - say: yes
        expect: [One, {not: [Two, Three]}, {is: One day, matches: "^O"}]
      - expect step: ask
        expect status: completed
        expect agent: Desk
        expect event: called search
        expect vars: {a.b: null}
        expect fact: {user.name: Ada}
      - expect no message: true
      - end: true
      - as: bob
      - wait: 91d
      - say: |
          two
          lines
"""


def faults(text: str) -> list[tuple[int, int, str, str, str]]:
    with pytest.raises(SourceError) as raised:
        read_scripts(text, name="desk.tests.yaml")
    error = raised.value
    assert all(one.source == "desk.tests.yaml" for one in error.diagnostics)
    places = [line.split(":")[1:3] for line in error.report.splitlines() if line.startswith("desk.tests.yaml:")]
    return [
        (int(line), int(column), one.code, one.message, one.hint)
        for (line, column), one in zip(places, error.diagnostics, strict=True)
    ]


def test_everything_that_can_stand_in_a_file_is_read():
    read = read_scripts(WHOLE, name="desk.tests.yaml")
    assert (read.agent, read.agents, read.tools) == ("desk.abl", ("night.abl",), "tools.py")
    [script] = read.scripts
    assert (script.name, script.user, script.project) == ("Everything once", "ada", "harbour")
    assert script.now == "2026-05-01T18:00:00+00:00"
    assert script.facts == {"user.language": "pt", "project.rates": {"eur": 1, "usd": 1.1}}
    assert script.vars == {"open": True, "count": 2, "word": "yes"}
    assert script.tools == {"search": (Answer([1, 2]), Answer(error="down")), "price": (Answer(12),)}
    assert [(action.kind, action.value) for action in script.actions] == [
        ("expect", (Wording("has", "Welcome"),)),
        ("say", "yes"),
        (
            "expect",
            (
                Wording("has", "One"),
                Wording("not", "Two"),
                Wording("not", "Three"),
                Wording("is", "One day"),
                Wording("matches", "^O"),
            ),
        ),
        ("expect step", "ask"),
        ("expect status", "completed"),
        ("expect agent", "Desk"),
        ("expect event", ("called search",)),
        ("expect vars", {"a.b": None}),
        ("expect fact", {"user.name": "Ada"}),
        ("expect no message", True),
        ("end", True),
        ("as", "bob"),
        ("wait", 91 * 86_400),
        ("say", "two\nlines"),
    ]
    places = [read.source.position(action.span.start).line for action in script.actions]
    assert places[:4] == [17, 18, 19, 20]


def test_words_stay_words_and_only_json_scalars_are_none():
    text = (
        "tests:\n  - name: n\n"
        "    vars: {a: no, b: off, c: 2026-05-01, d: 007, e: 1e2, f: '5', g: null, h: ~, i: false}\n"
        "    turns:\n      - say: 12\n"
    )
    [script] = read_scripts(text, name="t").scripts
    assert script.vars == {
        "a": "no",
        "b": "off",
        "c": "2026-05-01",
        "d": "007",
        "e": 100.0,
        "f": "5",
        "g": None,
        "h": None,
        "i": False,
    }
    assert script.actions[0].value == "12"


def test_who_talks_and_when_has_a_default():
    [script] = read_scripts("tests:\n  - name: n\n    steps: [{say: hi}]\n", name="t").scripts
    assert (script.user, script.project, script.now) == ("tester", "tests", "2026-01-01T12:00:00+00:00")


STEP = "tests:\n  - name: n\n    steps:\n      - "

FAULTS = {
    "an empty file": ("", (1, 1, "missing", "declares no tests", "`tests:`")),
    "no tests": ("agent: a.abl\n", (1, 1, "missing", "no tests", "`tests:`")),
    "an unknown key of the file": ("test:\n  - name: n\n", (1, 1, "unknown_key", "`test`", "`tests`")),
    "an unknown key of a test": (
        "tests:\n  - name: n\n    step: []\n",
        (3, 5, "unknown_key", "`step` is not a key of a test", "`steps`"),
    ),
    "an unknown key of a step": (f"{STEP}sya: hi\n", (4, 9, "unknown_key", "`sya`", "`say`")),
    "an unknown comparison": (f"{STEP}expect: {{iss: x}}\n", (4, 18, "unknown_key", "`iss`", "`is`")),
    "a key twice": (f"{STEP}say: a\n        say: b\n", (5, 9, "duplicate", "`say`", "one of them")),
    "a name twice": (
        "tests:\n  - name: n\n    steps: [{say: a}]\n  - name: n\n    steps: [{say: b}]\n",
        (4, 5, "duplicate", "`n`", "of its own"),
    ),
    "no name": ("tests:\n  - user: a\n", (2, 5, "missing", "needs a name", "- name:")),
    "nothing to do": ("tests:\n  - name: n\n", (2, 5, "missing", "`n` does nothing", "`steps:`")),
    "steps that are no list": ("tests:\n  - name: n\n    steps: hi\n", (3, 12, "wrong_value", "is a list", "dash")),
    "steps and turns": (
        "tests:\n  - name: n\n    steps: [{say: a}]\n    turns: [{say: b}]\n",
        (4, 12, "wrong_value", "another word", "one of them"),
    ),
    "a step that is a text": (f"{STEP}hello\n", (4, 9, "wrong_value", "keys and values", "say")),
    "words that are a list": (f"{STEP}say: [a]\n", (4, 14, "wrong_value", "`say` is a text", "colon")),
    "a status that does not exist": (
        f"{STEP}expect status: compleet\n",
        (4, 24, "wrong_value", "`compleet`", "`completed`"),
    ),
    "a pattern that cannot be": (f"{STEP}expect: {{matches: '('}}\n", (4, 27, "wrong_value", "pattern", "Correct")),
    "nothing expected": (f"{STEP}expect: ''\n", (4, 17, "wrong_value", "nothing is expected", "no message")),
    "a wait that is no duration": (f"{STEP}wait: soon\n", (4, 15, "wrong_value", "`soon`", "90s")),
    "an end that is false": (f"{STEP}end: false\n", (4, 14, "wrong_value", "only be `true`", "Leave")),
    "a moment that is none": (
        "tests:\n  - name: n\n    now: today\n    steps: [{say: a}]\n",
        (3, 10, "wrong_value", "`today`", "ISO 8601"),
    ),
    "facts that are a list": (
        "tests:\n  - name: n\n    facts: [a]\n    steps: [{say: a}]\n",
        (3, 12, "wrong_value", "names and values", "name: value"),
    ),
    "a fact with an impossible path": (
        "tests:\n  - name: n\n    facts: {user..a: 1}\n    steps: [{say: a}]\n",
        (3, 13, "wrong_value", "empty segment", "profile.language"),
    ),
    "a tool without a result": (
        "tests:\n  - name: n\n    tools: {search: []}\n    steps: [{say: a}]\n",
        (3, 21, "wrong_value", "a result is missing", "`[[]]`"),
    ),
    "an anchor": ("tests: &a\n  - name: n\n", (1, 8, "yaml", "anchors", "again")),
    "an alias": ("tests: *a\n", (1, 8, "yaml", "aliases", "again")),
    "a tag": ("tests: !all []\n", (1, 8, "yaml", "`!all`", "Remove")),
    "no YAML": ("tests:\n  - name: 'n\n", (2, 11, "unclosed_quote", "never closed", "same line")),
    "two documents": ("tests: []\n---\na: b\n", (3, 1, "yaml", "one document", "two files")),
    "a key that is a list": ("[a]: b\n", (1, 1, "yaml", "a key is one text", "`key: value`")),
    "a character that YAML refuses": ("tests: \x01\n", (1, 8, "yaml", "U+0001", "Remove")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_shown_where_it_stands_with_a_way_out(name):
    text, (line, column, code, message, hint) = FAULTS[name]
    [found] = faults(text)
    assert found[:3] == (line, column, code)
    assert message in found[3]
    assert hint in found[4]


def test_all_faults_of_a_file_are_shown_at_once():
    text = (
        "tets: []\ntests:\n  - name: a\n    now: never\n    steps:\n      - sya: hi\n      - wait: long\n"
        "  - name: a\n    steps: [{say: hi}]\n"
    )
    assert [(line, code) for line, _, code, _, _ in faults(text)] == [
        (1, "unknown_key"),
        (4, "wrong_value"),
        (6, "unknown_key"),
        (7, "wrong_value"),
        (8, "duplicate"),
    ]


def test_what_is_nested_too_deep_or_too_long_is_refused():
    deep = "tests: " + "[" * 60 + "]" * 60
    assert [code for _, _, code, _, _ in faults(deep)] == ["yaml"]
    assert [code for _, _, code, _, _ in faults("#" * 2_000_001)] == ["too_large"]
    assert len(read_scripts(WHOLE + "#" * 1_000_000, name="t").scripts) == 1


@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("latin-1"))))
def test_any_text_is_read_or_refused_in_words(text):
    judge(text)


@given(st.integers(0, len(WHOLE)), st.text(st.sampled_from(" \n:-[]{}'\"&*|#a\t"), max_size=3), st.integers(0, 5))
def test_any_change_of_a_good_file_is_read_or_refused_in_words(at, inserted, removed):
    judge(WHOLE[:at] + inserted + WHOLE[at + removed :])


def judge(text: str) -> None:
    try:
        assert read_scripts(text, name="t").scripts
    except SourceError as error:
        assert error.diagnostics
        for one in error.diagnostics:
            assert 0 <= one.span.start <= one.span.end
            assert one.span.start <= len(text)
