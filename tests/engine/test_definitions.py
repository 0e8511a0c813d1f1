"""Definitions that are older than a rule, and shapes of schemas that reach every place where a record is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.engine import definitions
from memoranda.engine.validator import Validator
from memoranda.errors import AlreadyExists, SchemaViolation
from memoranda.runs.records import update_tool, working_memory

Json = dict[str, Any]
ANY: Json = {"type": "object"}
NODE: Json = {
    "type": "object",
    "title": "Node",
    "properties": {
        "label": {"type": "string", "title": "Shown as", "description": "What people call it"},
        "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["label"],
}
TREE: Json = {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}
CONTACT: Json = {
    "anyOf": [
        {"properties": {"email": {"type": "string", "title": "Mail"}}, "required": ["email"]},
        {"properties": {"phone": {"type": "string"}}, "required": ["phone"]},
    ]
}


def test_two_names_that_differ_in_case_stay_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with memoranda.open(tmp_path / "memory.db") as memory:
        with monkeypatch.context() as before:  # as earlier versions stored them
            before.setattr(definitions, "name_key", str)
            memory.definitions.create(name="Profile", slug="one", schema=ANY)
            memory.definitions.create(name="PROFILE", slug="two", schema=ANY)
        memory.export(tmp_path / "memory.jsonl")
    with memoranda.open(tmp_path / "memory.db") as memory:
        assert memory.definitions.update("two", ttl=60).name == "PROFILE"
        assert memory.definitions.update("two", name="profile").name == "profile"
        assert memory.scope(user="ada").set("two", {"a": 1}).version == 1
        with pytest.raises(AlreadyExists, match="`one`"):
            memory.definitions.create(name="pRoFiLe", slug="three", schema=ANY)
        assert memory.definitions.update("two", name="Other").name == "Other"
        with pytest.raises(AlreadyExists):
            memory.definitions.update("two", name="PROFILE")
    with memoranda.open(":memory:") as memory:
        memory.import_file(tmp_path / "memory.jsonl")
        assert [one.name for one in memory.definitions.list()] == ["Profile", "PROFILE"]


def test_a_recursive_record_is_shown_searched_and_updated_by_its_labels() -> None:
    with memoranda.open(":memory:") as memory:
        tree = memory.definitions.create(name="Tree", slug="tree", schema=TREE)
        contact = memory.definitions.create(name="Contact", slug="contact", schema=CONTACT)
        ada = memory.scope(user="ada")
        ada.set("tree", {"label": "oak", "next": {"label": "elm", "next": None}, "parts": [{"label": "leaf"}]})
        ada.set("contact", {"email": "ada@example.org", "phone": "1"})
        found = {one.key: one.content for one in ada.recall("What do people call it?", kinds=["record"])}
        assert found["tree"] == "Tree: Shown as: oak; next: Shown as: elm; parts: Shown as: leaf"
        assert ada.recall("Mail")[0].content == "Contact: Mail: ada@example.org; phone: 1"
        shown = working_memory([tree, contact], {"tree": ada.value("tree"), "contact": ada.value("contact")})
        assert "\n- Shown as: oak\n" in shown
        assert "\n- Mail: ada@example.org\n- Phone: 1" in shown
        assert "Shown as: oak" in ada.context("trees", definitions=["tree"]).text


@pytest.mark.parametrize("mode", ["replace", "merge"])
def test_the_tool_of_a_recursive_record_refers_to_its_own_parts(mode: Any) -> None:
    with memoranda.open(":memory:") as memory:
        tree = memory.definitions.create(name="Tree", slug="tree", schema=TREE, mode=mode)
        contact = memory.definitions.create(name="Contact", slug="contact", schema=CONTACT)
        tool = update_tool([tree, contact])
    assert tool is not None
    assert set(tool.parameters["$defs"]) == {"tree_Node"} | ({"tree_Node_changes"} if mode == "merge" else set())
    judge = Validator(tool.parameters)
    leaf = {"label": "leaf"}
    assert judge.is_valid({"memory": {"tree": {**leaf, "parts": [leaf], "next": leaf}}})
    assert judge.is_valid({"memory": {"tree": {"next": {"next": None}}}}) == (mode == "merge")
    assert not judge.is_valid({"memory": {"tree": {**leaf, "parts": [{}]}}}), "items are replaced as a whole"
    assert not judge.is_valid({"memory": {"tree": {"label": 5}}})
    assert not judge.is_valid({"memory": {"tree": {"label": "x", "other": 1}}})
    assert judge.is_valid({"memory": {"contact": {"email": "e", "phone": "p"}}})
    assert not judge.is_valid({"memory": {"contact": {"fax": "f"}}})


def test_defaults_are_filled_in_where_the_places_of_a_list_differ() -> None:
    first = {"type": "object", "properties": {"unit": {"default": "kg"}}}
    rest = {"type": "object", "properties": {"size": {"default": 1}}}
    schema = {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [first], "items": rest}}}
    with memoranda.open(":memory:") as memory:
        memory.definitions.create(name="Row", slug="row", schema=schema)
        ada = memory.scope(user="ada")
        assert ada.set("row", {"a": [{}, {}, {"size": 2}]}).value == {"a": [{"unit": "kg"}, {"size": 1}, {"size": 2}]}
        with pytest.raises(SchemaViolation):
            ada.set("row", {"a": [{"size": 1}]})


def test_tuples_of_an_older_draft_are_stored_in_the_present_one() -> None:
    pair = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": {"type": "null"}}
    again = {"$ref": "#/properties/pair/items/0"}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": pair, "first": again, "last": {"$ref": "#/properties/pair/additionalItems"}},
    }
    with memoranda.open(":memory:") as memory:
        stored = memory.definitions.create(name="Pair", slug="pair", schema=schema).schema
        assert stored["properties"]["pair"]["prefixItems"] == pair["items"]
        ada = memory.scope(user="ada")
        assert ada.set("pair", {"pair": ["a", 1, None], "first": "b", "last": None}).version == 1
        for bad in ({"pair": ["a", "b"]}, {"pair": ["a", 1, 2]}, {"first": 1}, {"last": "x"}):
            with pytest.raises(SchemaViolation):
                ada.set("pair", bad)
