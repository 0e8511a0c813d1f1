"""Schemas as Pydantic, Zod, OpenAI and people write them are taken, and mean what they meant there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_models import MODELS

import memoranda
from memoranda import Memory, SchemaViolation
from memoranda.api.context import record_lines
from memoranda.engine.schemas import prepare_schema
from memoranda.engine.validator import Evaluation, Validator
from memoranda.model.definition import plain_text
from memoranda.runs.records import update_tool, working_memory

Json = dict[str, Any]
CASES: list[Json] = [
    case
    for file in sorted((Path(__file__).parents[1] / "fixtures/schemas").glob("*.json"))
    for case in json.loads(file.read_text())
]
"""What a tool wrote, with values that it accepts and values that it refuses."""


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with memoranda.open(":memory:") as opened:
        yield opened


@pytest.fixture
def taken(memory: Memory) -> Iterator[Memory]:
    """A memory that has no definitions after the test."""
    yield memory
    for one in memory.definitions.list():
        memory.definitions.delete(one.id)


def test_there_are_more_than_sixty_of_them() -> None:
    assert len(CASES) + len(MODELS) > 60
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_a_tool_writes_is_taken_with_its_values(taken: Memory, case: Json) -> None:
    definition = taken.definitions.create(name="Thing", slug="thing", schema=case["schema"])
    check(taken, case["valid"], case["invalid"])
    assert prepare_schema(definition.schema) == definition.schema, "what was exported can be imported"


@pytest.mark.parametrize(("model", "instances", "refused"), MODELS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_pydantic_model_is_taken_with_its_instances(
    taken: Memory, model: Any, instances: list[Any], refused: list[Any]
) -> None:
    definition = taken.definitions.create(model=model, slug="thing")
    values = [one.model_dump(mode="json", by_alias=True, round_trip=True) for one in instances]
    check(taken, values, refused)
    for instance, value in zip(instances, values, strict=True):
        record = taken.scope(user="ada").set("thing", value)
        assert record.as_model(model) == instance
    assert prepare_schema(definition.schema) == definition.schema


def check(memory: Memory, accepted: list[Any], refused: list[Any]) -> None:
    """Write values, and look at them in every way that a record is shown."""
    ada, definition = memory.scope(user="ada"), memory.definitions.get("thing")
    evaluation = Validator(definition.schema).graph
    for value in accepted:
        record = ada.set("thing", value)
        assert record.value.items() >= value.items()
        assert Evaluation(evaluation).is_valid(value), "as the library says"
        fields = [line for line in record_lines(definition.schema, record.value) if line.startswith("- ")]
        assert len(fields) == len(record.value)
        assert working_memory([definition], {"thing": record.value}).count("\n- ") == len(fields)
        assert isinstance(plain_text(record.value, definition.schema, []), str)
    for value in refused:
        before = ada.get("thing")
        with pytest.raises(SchemaViolation):
            ada.set("thing", value)
        assert not Evaluation(evaluation).is_valid(value)
        assert ada.get("thing") == before
    tool = update_tool([definition])
    assert tool is not None
    shown = Validator(tool.parameters)  # its references lead somewhere
    assert all(shown.is_valid({"memory": {"thing": value}}) for value in accepted)
    assert not any(shown.is_valid({"memory": {"thing": value}}) for value in refused)
