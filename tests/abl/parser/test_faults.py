"""Errors in a file are all reported in one run, each at its location and with a hint."""

from __future__ import annotations

import pytest

from memoranda.abl.parser import parse_document, parse_fragment, read
from memoranda.errors import SourceError
from memoranda.lang.diagnostics import render_all

HEAD = "AGENT: A\nGOAL: g\n"


def faults(text: str, *, fragment: bool = True, severity: str = "error") -> list[tuple[int, int, str, str, str]]:
    reading = read(text, fragment=fragment)
    found = [one for one in reading.diagnostics if one.severity == severity]
    places = [reading.source.position(one.span.start) for one in found]
    return [
        (place.line, place.column, one.code, one.message, one.hint) for place, one in zip(places, found, strict=True)
    ]


FAULTS = {
    "a misspelt section": ("MEMROY:\n  session:\n    - a\n", (1, 1, "unknown_keyword", "`MEMROY`", "`MEMORY`")),
    "a misspelt part of memory": ("MEMORY:\n  sesion:\n    - a\n", (2, 3, "unknown_keyword", "`sesion`", "`session`")),
    "a misspelt property": (
        "MEMORY:\n  session:\n    - a\n      TIPE: string\n",
        (4, 7, "unknown_keyword", "`TIPE`", "`TYPE`"),
    ),
    "a misspelt word of a step": (
        "FLOW:\n  s:\n    REASONING: false\n    RESPONT: hi\n",
        (4, 5, "unknown_keyword", "`RESPONT`", "`RESPOND`"),
    ),
    "a misspelt word of the flow": (
        "FLOW:\n  entry_pint: s\n  s:\n    REASONING: false\n",
        (2, 3, "unknown_keyword", "`entry_pint`", "`entry_point`"),
    ),
    "a misspelt rule": (
        "CONSTRAINTS:\n  a:\n    - REQIRE x == 1\n",
        (3, 7, "unknown_keyword", "`REQIRE`", "`REQUIRE`"),
    ),
    "a misspelt hook": ("HOOKS:\n  before_trun:\n    SET: a = 1\n", (2, 3, "unknown_keyword", "hook", "`before_turn`")),
    "a misspelt choice": (
        "MEMORY:\n  session:\n    - a\n      RESET: per_stp\n",
        (4, 14, "wrong_value", "`per_stp`", "`per_step`"),
    ),
    "a word of another place": (
        "MEMORY:\n  session:\n    - a\n      MAX_ATTEMPTS: b\n",
        (4, 7, "unknown_keyword", "`MAX_ATTEMPTS`", "in a step"),
    ),
    "no dash": ("MEMORY:\n  session:\n    a\n", (3, 5, "wrong_nesting", "not an item of `session`", "dash")),
    "an item among keywords": ("MEMORY:\n  - sesion\n", (2, 5, "wrong_nesting", "`sesion`", "`session`")),
    "no colon": ("MEMORY:\n  session\n", (2, 3, "missing_colon", "after `session`", "`session: …`")),
    "lines below a value": (
        "FLOW:\n  s:\n    REASONING: false\n      WHEN: a\n",
        (4, 7, "wrong_nesting", "below `REASONING` with a value", "Indent it like"),
    ),
    "lines below a reply": (
        "RESPOND: hi\n  THEN: x\n",
        (2, 3, "unknown_keyword", "`THEN` is not a keyword below `RESPOND`", "check the indentation"),
    ),
    "lines below a target": ("CALL: f\nON_FAIL: s\n  THEN: x\n", (3, 3, "wrong_nesting", "below `ON_FAIL`", "Indent")),
    "an entry in a list of names": ("CLEAR:\n  a: b\n", (2, 3, "wrong_nesting", "`a: b`", "one `- item` per line")),
    "errors on the line": ("ON_ERROR: ESCALATE\n", (1, 11, "wrong_value", "`ON_ERROR` needs errors", "tool_error")),
    "a value beside a block": ("MEMORY: yes\n", (1, 9, "wrong_value", "`MEMORY` needs", "Variables")),
    "two columns in one block": (
        "FLOW:\n  s:\n      REASONING: false\n    THEN: x\n",
        (4, 5, "indentation", "column 5", "same column"),
    ),
    "tabs and spaces": (
        "FLOW:\n  s:\n\tREASONING: false\n",
        (3, 1, "mixed_indentation", "tabs and spaces", "spaces"),
    ),
    "a space that is none": (
        "FLOW:\n  s:\n    REASONING: false\n    \u00a0THEN: x\n",
        (4, 5, "indentation", "neither a space nor a tab", "spaces"),
    ),
    "an open quote": ('RESPOND: "hi\n', (1, 10, "unclosed_quote", "never closed", "same line")),
    "an open quote in a list": ('LIMITATIONS:\n  - "never\n', (2, 5, "unclosed_quote", "never closed", "same line")),
    "an open bracket": ("TOOLS:\n  f(\nGOAL: g\n", (2, 4, "unclosed_bracket", "never closed", "Close it")),
    "no REASONING": (
        "AGENT: A\nGOAL: g\nFLOW:\n  s:\n    RESPOND: hi\n",
        (4, 3, "missing", "Step 's' must declare REASONING", "model"),
    ),
    "no WHEN": (
        "MEMORY:\n  remember:\n    - STORE: a -> user.a\n",
        (3, 7, "missing", "`WHEN`", "add `WHEN: …`"),
    ),
    "no arrow": (
        "MEMORY:\n  remember:\n    - WHEN: a\n      STORE: b\n",
        (4, 14, "wrong_value", "where `b` goes", "value -> path"),
    ),
    "no ON": ("MEMORY:\n  recall:\n    - PATHS: [user.a]\n", (3, 7, "missing", "`ON`", "Event")),
    "no INTO": ("TRANSFORM:\n  SOURCE: a AS b\n", (1, 1, "missing", "`INTO`", "SOURCE")),
    "no INTENT": (
        "FLOW:\n  s:\n    REASONING: false\n    SUB_INTENTS:\n      - RESPOND: hi\n",
        (5, 9, "missing", "`INTENT`", "What the user wants"),
    ),
    "no CALL": (
        "FLOW:\n  s:\n    REASONING: false\n    ON_SUCCESS:\n      THEN: x\n",
        (4, 5, "wrong_nesting", "`ON_SUCCESS` has no `CALL`", "below the call"),
    ),
    "no assignment": ("SET:\n  - total\n", (2, 5, "wrong_value", "`total` is not an assignment", "name = expression")),
    "a section twice": (
        "MEMORY:\n  session:\n    - a\nMEMORY:\n  session:\n    - b\n",
        (4, 1, "duplicate", "`MEMORY`", ""),
    ),
    "a variable twice": ("MEMORY:\n  session:\n    - a\n    - a\n", (4, 7, "duplicate", "`a`", "Keep one")),
    "a step twice": (
        "FLOW:\n  s:\n    REASONING: false\n  s:\n    REASONING: true\n",
        (4, 3, "duplicate", "`s`", "Keep one"),
    ),
    "a property twice": (
        "MEMORY:\n  session:\n    - a\n      TYPE: string\n      TYPE: number\n",
        (5, 7, "duplicate", "`TYPE`", "Keep one"),
    ),
    "an outcome twice": (
        "FLOW:\n  s:\n    REASONING: false\n    CALL: f()\n    ON_SUCCESS: a\n    ON_SUCCESS: b\n",
        (6, 5, "duplicate", "`ON_SUCCESS`", "Keep one"),
    ),
    "a name with a space": ("MEMORY:\n  session:\n    - two words\n", (3, 7, "bad_name", "`two words`", "letters")),
    "a path with an operator": ("CLEAR: [a, b + c]\n", (1, 12, "bad_name", "`b + c`", "dots")),
    "an item of an array that is assigned": ("SET: cart[0].count = 2\n", (1, 6, "bad_name", "`cart[0].count`", "dots")),
    "a name that no expression can read": ("SET: first-name = 2\n", (1, 6, "bad_name", "`first-name`", "underscores")),
    "an array's item for a result": ("CALL: find()\n  AS: rooms[0]\n", (2, 7, "bad_name", "`rooms[0]`", "dots")),
    "an array's item for a new array": (
        "TRANSFORM:\n  SOURCE: a AS b\n  INTO: c[1]\n",
        (3, 9, "bad_name", "`c[1]`", "dots"),
    ),
    "not true or false": (
        "FLOW:\n  s:\n    REASONING: yes\n",
        (3, 16, "wrong_value", "true or false, not `yes`", "REASONING"),
    ),
    "not a number": (
        "FLOW:\n  s:\n    REASONING: false\n    MAX_ATTEMPTS: many\n",
        (4, 19, "wrong_value", "whole number", "MAX_ATTEMPTS"),
    ),
    "a bad signature": ("TOOLS:\n  f(a string -> b\n", (2, 3, "bad_signature", "not the signature", "name(parameter")),
    "a field that is neither": ("GATHER:\n  - a: maybe\n", (2, 8, "wrong_value", "`maybe`", "lines below")),
    "a scalar without value": ("CHECK:\nTHEN: x\n", (1, 1, "wrong_value", "`CHECK` needs", "CHECK")),
}


@pytest.mark.parametrize("title", FAULTS)
def test_a_fault_has_its_place_and_a_way_out(title: str) -> None:
    text, (line, column, code, said, hint) = FAULTS[title]
    found = faults(text)
    assert len(found) == 1, found
    assert found[0][:3] == (line, column, code)
    assert said in found[0][3]
    assert hint in found[0][4]
    with pytest.raises(SourceError):
        parse_fragment(text)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("GOAL: g\n", "missing", "declares no agent"),
        ("AGENT: A\n", "missing", "`GOAL` is missing"),
        ("", "missing", "declares no agent"),
        ("AGENT: A\nGOAL: g\nMODE: reasoning\n", "retired", "`MODE`"),
        ("AGENT: two words\nGOAL: g\n", "bad_name", "`two words`"),
    ],
)
def test_a_whole_file_needs_an_agent_with_a_goal(text: str, code: str, said: str) -> None:
    found = faults(text, fragment=False)
    assert [one[2] for one in found] == [code]
    assert said in found[0][3]
    assert parse_document(HEAD).goal is not None


def test_every_fault_of_a_file_is_found_in_one_run() -> None:
    text = """AGENT: A
GOAL: "open
MEMORY:
  session:
    - a
      TIPE: string
    - b
      TYPE: strin
  remember:
    - WHEN: a
FLOW:
  s:
    RESPOND: hi
  t:
    REASONING: perhaps
    CHECK: a
      THEN: x
CONSTRAINTS:
  c:
    - REQUIRE
"""
    found = faults(text, fragment=False)
    assert [(line, code) for line, _, code, _, _ in found] == [
        (2, "unclosed_quote"),
        (6, "unknown_keyword"),
        (8, "wrong_value"),
        (10, "missing"),
        (12, "missing"),
        (15, "wrong_value"),
        (17, "wrong_nesting"),
        (20, "wrong_value"),
    ]
    with pytest.raises(SourceError) as raised:
        parse_document(text, name="hotel.agent.abl")
    assert str(raised.value).startswith("hotel.agent.abl:2:7: the quote at")
    assert "(and 7 more)" in str(raised.value)
    assert len(raised.value.diagnostics) == 8


def test_a_fault_is_shown_with_its_line_and_a_caret() -> None:
    reading = read("FLOW:\n  s:\n    REASONING: false\n    RESPONT: hi\n", name="a.abl", fragment=True)
    assert render_all(reading.diagnostics, reading.source) == (
        "a.abl:4:5: error[unknown_keyword]: `RESPONT` is not a keyword in a step\n"
        "  4 |     RESPONT: hi\n"
        "    |     ^^^^^^^\n"
        "    = Did you mean `RESPOND`?"
    )


def test_a_faulty_line_does_not_take_its_neighbours_with_it() -> None:
    reading = read("MEMORY:\n  session:\n    - a\n      TIPE: string\n      RESET: never\n    - b\n", fragment=True)
    assert reading.failed
    memory = reading.document.memory
    assert memory is not None
    assert [(one.name.text, one.reset) for one in memory.session] == [("a", "never"), ("b", "per_session")]


def test_unusual_case_is_a_warning_and_lowercase_sub_keys_are_usual() -> None:
    text = "Memory:\n  Session:\n    - a\n      type: string\n"
    assert faults(text) == []
    assert [(line, code) for line, _, code, _, _ in faults(text, severity="warning")] == [
        (1, "keyword_case"),
        (4, "keyword_case"),
    ]
    assert faults("MEMORY:\n  SESSION:\n    - a\n", severity="warning") == []


def test_a_property_nobody_knows_is_kept_where_the_product_has_many() -> None:
    text = "TOOLS:\n  f(a: string) -> string\n    quantum: true\n    tiemout: 5\n"
    assert faults(text) == []
    assert [(line, hint) for line, _, _, _, hint in faults(text, severity="warning")] == [
        (
            3,
            "Known below a tool: name, description, parameters, returns, type, endpoint, method, query_params, "
            "body_template, headers, auth, auth_config",
        ),
        (4, "Did you mean `timeout`?"),
    ]
    assert [line.key for line in parse_fragment(text).tools[0].kept] == ["quantum", "tiemout"]


def test_events_of_earlier_versions_are_explained() -> None:
    text = 'MEMORY:\n  recall:\n    - ON_START: "Say hello"\n'
    (found,) = faults(text, severity="warning")
    assert (found[2], "session:start" in found[4]) == ("retired", True)
    memory = parse_fragment(text).memory
    assert memory is not None
    assert memory.recall[0].instruction is not None
    assert (memory.recall[0].on.text, memory.recall[0].instruction.text) == ("session:start", "Say hello")


def test_a_comment_beside_a_name_is_left_out_with_a_warning() -> None:
    text = "MEMORY:\n  session:\n    - found   # what the search gave\n"
    assert [code for _, _, code, _, _ in faults(text, severity="warning")] == ["inline_comment"]
    memory = parse_fragment(text).memory
    assert memory is not None
    assert memory.session[0].name.text == "found"
    assert faults("RESPOND: Ticket # 5\n", severity="warning") == []


def test_deep_nesting_and_long_files_are_refused_not_suffered() -> None:
    deep = "".join(f"{'  ' * depth}a:\n" for depth in range(500))
    assert "too_deep" in [one[2] for one in faults(deep)]
    assert "too_deep" not in [one[2] for one in faults("".join(f"{'  ' * depth}a:\n" for depth in range(20)))]
    assert [one[2] for one in faults("#" * 2_000_001)] == ["too_large"]


def test_a_bracket_that_another_line_cannot_close_is_open() -> None:
    assert [one[2] for one in faults("TOOLS:\n  f() -> {\n  ]  type: http\n")] == ["unclosed_bracket", "wrong_nesting"]
    assert faults("TOOLS:\n  f() -> {\n    a: string\n  }\n    type: http\n") == []
