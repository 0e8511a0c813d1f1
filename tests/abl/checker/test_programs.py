"""Walking a document finds every program in it, parses each once, and identifies it by its location."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoranda.abl import document as abl
from memoranda.abl.document import Document
from memoranda.abl.parser import read
from memoranda.abl.programs import Programs, Use, parse_programs, uses
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.document import Raw, SourceNode
from memoranda.lang.expression.nodes import Binary, Constant, Name
from memoranda.lang.template import Template

LIBRARY = (Path(__file__).parent / "samples" / "library.agent.abl").read_text()

NO_PROGRAMS = {
    "Argument": {"name"},
    "SessionVariable": {"name", "description"},
    "PersistentVariable": {"path", "unit", "description"},
    "Remember": {"target", "ttl"},
    "Recall": {"on", "paths", "domain"},
    "Before": {"target"},
    "OnFail": {"handoff", "collect", "goto"},
    "Choice": {"label", "id", "value"},
    "Phase": {"label", "remarks"},
    "Target": {"name"},
    "Assignment": {"target"},
    "Clear": {"names"},
    "Transform": {"item", "into"},
    "Call": {"tool", "result"},
    "Field": {"name", "type", "options", "hints", "depends_on", "activation", "pattern", "description"},
    "Consult": {"agent"},
    "Interruption": {"intent", "keywords"},
    "ActionHandler": {"action"},
    "ErrorHandler": {"type", "subtypes", "backtrack_to"},
    "Step": {"name", "available_tools"},
    "Flow": {"entry_point", "order"},
    "ToolParameter": {"name", "type"},
    "Tool": {"name", "returns", "description"},
    "Grant": {"path"},
    "Context": {"values", "history"},
    "OnReturn": {"handler"},
    "Handoff": {"to"},
    "Delegate": {"agent", "timeout"},
    "Trigger": {"tags"},
    "Escalate": {"context_for_human"},
    "Complete": {"store_target"},
    "Handler": {"name"},
    "NamedTemplate": {"name"},
    "Identity": {"expertise", "limitations"},
    "Document": {"name", "description", "language", "limitations"},
}
"""The fields of a document that hold names and prose, which no grammar reads."""


def raw_fields() -> set[tuple[str, str]]:
    """Give every field of the document's parts that can hold raw text."""
    found: set[tuple[str, str]] = set()
    for name, part in inspect.getmembers(abl, inspect.isclass):
        if part.__module__ == abl.__name__ and issubclass(part, SourceNode):
            for field, hint in typing.get_type_hints(part).items():
                if field in part.__struct_fields__ and hint in (Raw, Raw | None, tuple[Raw, ...]):
                    found.add((name, field))
    return found


def holders(node: SourceNode) -> Iterator[tuple[int, str, str]]:
    """Give the identity of every raw text below a part, and the field that holds it."""
    for field in node.__struct_fields__:
        value = getattr(node, field)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Raw):
                yield id(item), type(node).__name__, field
            elif isinstance(item, SourceNode):
                yield from holders(item)


def parsed(text: str, *, fragment: bool = True) -> tuple[Document, Programs, Diagnostics]:
    reading = read(text, fragment=fragment)
    assert not reading.failed, reading.diagnostics
    said = Diagnostics(reading.source)
    return reading.document, parse_programs(reading.document, said), said


def used(document: Document, place: str) -> list[Use]:
    return [use for use in uses(document) if use.place == place]


def test_every_field_with_a_program_is_walked_and_every_other_is_known_to_hold_none() -> None:
    text = LIBRARY
    for line, below in _FURTHER.items():
        assert text.count(line) == 1
        text = text.replace(line, line + below)
    document, _, _ = parsed(text, fragment=False)
    seen = {(kind, field) for at, kind, field in holders(document) if at in {id(use.raw) for use in uses(document)}}
    none = {(kind, field) for kind, fields in NO_PROGRAMS.items() for field in fields}
    assert seen | none == raw_fields()
    # In `{loan}`, one word is the name and the value.
    assert seen & none == {("Argument", "name")}


_FURTHER = {
    "  complete:\n    REASONING: false\n": "    ON_ACTION:\n      - ACTION: again\n        CONDITION: title IS SET\n",
    "      - copies: optional\n": "        infer_confidence: 0.9\n",
    "  - AGENT: Printer\n": "    USE_RESULT: 'Hand over {{printed_slip}}'\n    FAILURE_MESSAGE: 'Out of {{ink}}'\n",
    "      ON_FAIL: ESCALATE": ' "Ask {{branch}}"',
    '        prompt: "Which title?"\n': '        retry_prompt: "No book is called {{value}}"\n',
    "    DELEGATE: Printer\n": '    LOG: "Slip of {{branch}}"\n    LOG: {branch}\n    INSTRUCTIONS: "For {{branch}}"\n',
}
"""Programs that the sample lacks, by the text before them."""


def test_a_program_is_known_by_its_place_and_not_by_its_words() -> None:
    document, programs, _ = parsed("SET:\n  - a = b + 1\n  - c = b + 1\n")
    one, two = (programs.node(use.raw) for use in used(document, "SET"))
    assert isinstance(one, Binary)
    assert isinstance(two, Binary)
    assert one.span.start < two.span.start
    stranger = Raw("b + 1", span=one.span)
    assert (programs.node(stranger), stranger in programs) == (None, False)


def test_a_program_with_a_fault_has_no_node_and_is_said_at_its_place() -> None:
    document, programs, said = parsed("SET:\n  - a = 1 +\n  - b = 2\n")
    first, second = used(document, "SET")
    assert (programs.node(first.raw), first.raw in programs) == (None, True)
    assert isinstance(programs.node(second.raw), Constant)
    (fault,) = said.sorted()
    assert said.source.position(fault.span.start).line == 2


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("'Hello {{name}}'", ["Hello ", "name"]),
        ("Hello {{name}}", ["Hello ", "name"]),
        ("|\n    Hello {{name}}", ["Hello ", "name"]),
    ],
)
def test_quotes_around_a_template_in_a_mapping_are_no_part_of_it(written: str, parts: list[str]) -> None:
    document, programs, _ = parsed(f"MESSAGES:\n  hi: {written}\n")
    (use,) = used(document, "MESSAGES")
    node = programs.node(use.raw)
    assert isinstance(node, Template)
    shown = [getattr(part, "value" if isinstance(part, Constant) else "name") for part in node.parts if _is_shown(part)]
    assert shown == parts


def _is_shown(part: object) -> bool:
    return isinstance(part, (Constant, Name))


def test_a_failed_handoff_answers_with_what_stands_in_its_quotes() -> None:
    document, programs, said = parsed("HANDOFF:\n  - TO: A\n    ON_FAILURE: RESPOND 'Nobody of {{desk}} is there.'\n")
    (use,) = used(document, "handoff ON_FAILURE")
    node = programs.node(use.raw)
    assert isinstance(node, Template)
    first, middle, last = node.parts
    assert (isinstance(first, Constant) and first.value, isinstance(last, Constant) and last.value) == (
        "Nobody of ",
        " is there.",
    )
    assert said.source.slice(middle.span) == "desk"


def test_other_texts_may_begin_with_the_word_respond() -> None:
    document, programs, _ = parsed("MESSAGES:\n  hi: RESPOND soon\n")
    (use,) = used(document, "MESSAGES")
    node = programs.node(use.raw)
    assert isinstance(node, Template)
    (text,) = node.parts
    assert isinstance(text, Constant)
    assert text.value == "RESPOND soon"


def test_the_step_and_the_item_around_a_program_are_known() -> None:
    document, _, _ = parsed(
        "FLOW:\n  pick:\n    REASONING: false\n    TRANSFORM: books AS book INTO few\n      FILTER: book.year > 1990\n"
        "ON_START:\n  SET: a = 1\n"
    )
    (condition,) = used(document, "TRANSFORM FILTER")
    (assigned,) = used(document, "SET")
    assert (condition.kind, condition.step, condition.item) == ("condition", "pick", "book")
    assert (assigned.kind, assigned.step, assigned.item) == ("expression", None, None)


def test_a_text_that_many_checks_share_is_parsed_once() -> None:
    document, programs, said = parsed("CHECK: a == 1\nCHECK: b == 1\nON_FAIL:\n  RESPOND: '{{'\n")
    replies = used(document, "RESPOND")
    assert len(replies) == 2
    assert replies[0].raw is replies[1].raw
    assert programs.node(replies[0].raw) is None
    assert len(said.sorted()) == 1
