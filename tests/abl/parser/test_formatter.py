"""Formatting keeps the document and its comments, and is idempotent."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.abl.formatter import format_text
from memoranda.abl.parser import parse_document, parse_fragment, read
from memoranda.errors import SourceError

EVERYTHING = (Path(__file__).parent / "samples" / "everything.abl").read_text()

UGLY = """# about the agent
AGENT:   Shop
goal: |
      Sell things.

        Indented once.
# about memory


MEMORY:
    Session:
      # what is in the cart
      -   cart
          TYPE:   array
          INITIAL:  []
      - total   # of all lines
    persistent:
    - user.name
    - user.level
      DEFAULT_VALUE: "none"
FLOW:
\u0020\u0020first:
        REASONING: false
        CALL: look_up
               WITH:
                   a: b
               AS: found
        ON_FAILURE: first
        THEN: COMPLETE
        # nothing follows
TOOLS:
  f(
     a: string,
     # inside
     b: number
  ) -> string
# last words
"""

NEAT = """# about the agent
AGENT: Shop
GOAL: |
  Sell things.

    Indented once.

# about memory
MEMORY:
  session:
    # what is in the cart
    - cart
      TYPE: array
      INITIAL: []
    - total   # of all lines
  persistent:
    - user.name
    - user.level
      DEFAULT: "none"

FLOW:
  first:
    REASONING: false
    CALL: look_up
      WITH:
        a: b
      AS: found
    ON_FAIL: first
    THEN: COMPLETE

# nothing follows
TOOLS:
  # inside
  f( a: string, b: number ) -> string

# last words
"""


def test_the_layout_becomes_canonical_and_the_words_stay() -> None:
    assert format_text(UGLY) == NEAT
    assert format_text(NEAT) == NEAT
    assert parse_document(NEAT) == parse_document(UGLY)


def test_a_whole_agent_survives() -> None:
    once = format_text(EVERYTHING)
    assert format_text(once) == once
    assert parse_document(once) == parse_document(EVERYTHING)
    for comment in ("# A ferry company's agent", "# Looks up crossings.", "# The end."):
        assert once.count(comment) == 1


def test_layout_is_no_part_of_what_is_said_and_words_are() -> None:
    document = parse_document(NEAT)
    assert document == parse_document(NEAT.replace("\nFLOW", "\n\n\nFLOW").replace("    - ", "     - "))
    assert not document != parse_document(UGLY)
    assert hash(document) == hash(parse_document(UGLY))
    assert document != parse_document(NEAT.replace("Sell", "Rent"))
    assert document != parse_document(NEAT.replace("TYPE: array", "TYPE: object"))


def test_what_is_kept_is_compared_too() -> None:
    text = "RESPOND: hi\nVOICE:\n  SSML: a\n"
    assert parse_fragment(text) == parse_fragment("RESPOND: hi\nVOICE:\n    ssml:   a\n")
    assert parse_fragment(text) != parse_fragment(text.replace("SSML: a", "SSML: b"))


def test_a_file_with_faults_is_not_formatted() -> None:
    assert format_text("RESPOND:  hi\n", fragment=True) == "RESPOND: hi\n"
    with pytest.raises(SourceError):
        format_text("RESPONT:  hi\n", fragment=True)


def test_line_endings_and_a_byte_order_mark_are_layout() -> None:
    windows = "\ufeff" + NEAT.replace("\n", "\r\n")
    assert [one.code for one in read(windows).diagnostics] == [one.code for one in read(NEAT).diagnostics]
    assert parse_document(windows) == parse_document(NEAT)
    assert format_text(windows) == NEAT


@pytest.mark.parametrize(
    "text",
    [
        "SET: a = 1\n",
        "RESPOND: |\n\nTHEN: a\n",
        "RESPOND: |\n\n  a\nTHEN: a\n",
        "TEMPLATES:\n  x: |\n    a\n\n    b\n",
        "MEMORY:\n  session: []\n",
        'MESSAGES:\n  "a b": "c: d"\n',
        "LIMITATIONS:\n  - a: b\n",
        "CONSTRAINTS:\n  - REQUIRE a\n",
        "HANDOFF:\n  - {TO: A, WHEN: b == 1}\n",
        "ESCALATE: {triggers: [{WHEN: a}]}\n",
    ],
)
def test_small_things_stay_as_they_are(text: str) -> None:
    assert format_text(text, fragment=True) == text


def test_prose_with_a_colon_is_one_text_whatever_the_room_around_it() -> None:
    wide, narrow = "LIMITATIONS:\n  - It is so :   always\n", "LIMITATIONS:\n  - It is so: always\n"
    assert parse_fragment(wide) == parse_fragment(narrow)
    assert [one.text for one in parse_fragment(wide).limitations] == ["It is so: always"]
