"""Values of a file are computed where they were written to be, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.workflow.document import Expression, Fields
from memoranda.workflow.expressions import Template, is_true
from memoranda.workflow.jsonata import UNDEFINED
from memoranda.workflow.parser import parse_document

FILE = "defs:\n  put: {{kind: task, action: set_context, inputs: {{values: {}}}}}\nflow: [{{do: put}}]\n"


def template(text: str) -> Template:
    inputs = parse_document(FILE.format(text)).defs[0].inputs
    assert isinstance(inputs, Fields)
    return Template(inputs.entries[0].value)


def value(text: str, **variables: Any) -> Any:
    return template(text).value(variables)


def test_t19_a_text_that_begins_with_the_sign_in_a_result_stays_a_text() -> None:
    hostile = {"text": "=1+1", "list": ["=1+1", {"deep": "=$context.secret"}]}
    assert value('"=$input.text"', input=hostile) == "=1+1"
    assert value("{said: =$input.text}", input=hostile) == {"said": "=1+1"}
    assert value('"=$input.list"', input=hostile, context={"secret": 7}) == ["=1+1", {"deep": "=$context.secret"}]
    assert value("\"='=' & '1+1'\"") == "=1+1"
    assert value('"=1+1"') == 2


def test_expressions_are_computed_wherever_they_stand() -> None:
    text = "{a: =$input.n + 1, b: [=$input.n, two, {c: \"='x' & $input.n\"}], d: {e: {f: =$input.n}}, g: plain}"
    assert value(text, input={"n": 1}) == {
        "a": 2,
        "b": [1, "two", {"c": "x1"}],
        "d": {"e": {"f": 1}},
        "g": "plain",
    }


def test_keys_are_never_computed() -> None:
    assert value('{"=1+1": =1+1}') == {"=1+1": 2}


def test_what_is_undefined_is_absent_and_what_is_null_is_there() -> None:
    text = "{name: =$input.name, nick: =$input.nick, list: [=$input.nick, =$input.name]}"
    assert value(text, input={"name": None}) == {"name": None, "list": [None]}
    assert value("=$input.nick", input={}) is UNDEFINED


def test_t12_a_missing_memory_takes_the_fallback() -> None:
    text = "\"='Hi ' & ($context.memory.card.name ? $context.memory.card.name : 'friend')\""
    assert value(text, context={"memory": {}}) == "Hi friend"
    assert value(text, context={"memory": {"card": {"name": "Ines"}}}) == "Hi Ines"
    assert value('"=$exists($context.memory.card.name)"', context={"memory": {"card": {}}}) is False


def test_a_value_without_expressions_is_given_anew_each_time() -> None:
    one = template("{a: [1, {b: two}]}")
    first: Any = one.value({})
    first["a"][1]["b"] = "changed"
    assert one.value({}) == {"a": [1, {"b": "two"}]}
    assert not one.computed
    assert template("{a: [1, {b: =$input.x}]}").computed


def test_a_template_takes_programs_that_somebody_compiled() -> None:
    asked: list[str] = []

    def program(expression: Expression) -> None:
        asked.append(expression.text)

    inputs = parse_document(FILE.format("{a: =1 + 1, b: two}")).defs[0].inputs
    assert inputs is not None
    assert Template(inputs.entries[0].value, program).value({}) == {"a": 2, "b": "two"}
    assert asked == ["1 + 1"]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("=$input.n > 1", True),
        ("=$input.missing", False),
        ("=[0, 0]", False),
        ("=[0, 1]", True),
        ("={}", False),
        ("=''", False),
        ("true", True),
        ("false", False),
        ("=null", False),
    ],
)
def test_a_condition_holds_as_jsonata_has_it(text: str, holds: bool) -> None:
    assert template(f'"{text}"' if text.startswith("=") else text).test({"input": {"n": 2}}) is holds
    assert is_true([[0], [1]]) and not is_true([[0], []])
