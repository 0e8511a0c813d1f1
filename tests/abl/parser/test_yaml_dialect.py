"""The lowercase dialect gives the same document as the same agent in `.abl`."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.abl.formatter import format_text
from memoranda.abl.parser import parse_document, parse_fragment, read
from memoranda.errors import SourceError

HERE = Path(__file__).parent / "samples"
SMALL = (HERE / "baker.agent.yaml").read_text()

BIG = (HERE / "baker.agent.abl").read_text()


def test_both_dialects_say_the_same() -> None:
    small, big = read(SMALL, name="baker.agent.yaml"), read(BIG, name="baker.agent.abl")
    assert small.diagnostics == ()
    assert big.diagnostics == ()
    assert small.document == big.document
    assert parse_document(SMALL.replace("hour < 6", "hour < 5"), name="a.yaml") != big.document


def test_the_lowercase_dialect_can_be_written_as_abl() -> None:
    text = format_text(SMALL, name="baker.agent.yaml")
    assert text.startswith("# a baker\nAGENT: Baker\nGOAL: |\n  Bake bread.\n")
    assert parse_document(text) == parse_document(SMALL, name="baker.agent.yaml")
    assert format_text(text) == text


def test_words_that_older_yaml_takes_for_truth_stay_words() -> None:
    text = "memory:\n  recall:\n    - on: session:start\n      paths: [user.yes, user.no]\n      domain: off\n"
    reading = read(text, name="a.yaml", fragment=True)
    assert reading.diagnostics == ()
    memory = reading.document.memory
    assert memory is not None
    recall = memory.recall[0]
    assert recall.domain is not None
    assert (recall.on.text, [path.text for path in recall.paths], recall.domain.text) == (
        "session:start",
        ["user.yes", "user.no"],
        "off",
    )


def test_faults_have_places_in_the_yaml() -> None:
    reading = read("agent: A\ngoal: g\nmemory:\n  sesion:\n    - a\n", name="a.yaml")
    (fault,) = reading.diagnostics
    assert (reading.source.slice(fault.span), fault.hint) == ("sesion", "Did you mean `session`?")


@pytest.mark.parametrize(
    "text",
    [
        "agent: [",
        "agent: A\ngoal: 'open\n",
        "- a\n",
        "just text",
        "a: &x b\nc: *x\n",
        "agent: A\ngoal: &x g\n",
        "agent: A\n\x00",
        "a: {b: c",
        "? [a]\n: b\n",
        "agent:\n  - - a\n",
        "[" * 3000,
        "".join(f"{' ' * depth}a:\n" for depth in range(300)),
        "a: b\n---\nc: d\n",
        "\t- x",
        "agent: A\ngoal: g\nmessages:\n  a{b: c\n",
        "agent: A\ngoal: g\npersona: f(\n",
    ],
)
def test_what_is_no_yaml_is_a_diagnostic(text: str) -> None:
    with pytest.raises(SourceError) as raised:
        parse_document(text, name="a.yaml")
    assert raised.value.diagnostics


def test_escapes_of_yaml_are_resolved() -> None:
    body = parse_fragment('respond: "a \\u00e9 \\"b\\" \\n c"\nset: {x: "it\'s"}\n', name="a.yaml").body
    assert body is not None
    assert body.body[0].text.text == 'a é "b" \n c'  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("a\n\n  b\n", "a\nb"),
        ("|\n    a  \n      b\n\n", "a\n  b"),
        (">\n  a\n  b\n", "a b"),
        ("|2\n    a\n", "a"),
        ("|\n \t a\n  b\n", " a\nb"),
        ("'a\n\n  b'\n", "a\nb"),
    ],
)
def test_texts_over_several_lines_survive_formatting(written: str, text: str) -> None:
    source = f"respond: {written}then: x\n"
    document = parse_fragment(source, name="a.yaml")
    assert document.body is not None
    assert document.body.body[0].text.text == text  # type: ignore[union-attr]
    assert parse_fragment(format_text(source, name="a.yaml", fragment=True)) == document
