"""Schemas: which are accepted, how strict they are, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import InvalidDefinition, LimitExceeded, SchemaViolation
from memoranda.store.base import Store
from memoranda.testing.conformance.base import snapshot

Json = dict[str, Any]
TEXT: Json = {"type": "string"}


def _under(memory: Memory, schema: Json) -> ScopedMemory:
    memory.definitions.create(name="Thing", slug="thing", schema=schema)
    return memory.scope(user="ada")


def _accepts(place: ScopedMemory, value: Any) -> None:
    assert place.set("thing", value).value is not None


def _refuses(place: ScopedMemory, value: Any, path: str | None = None) -> None:
    before = place.get("thing")
    with pytest.raises(SchemaViolation) as caught:
        place.set("thing", value)
    assert caught.value.slug == "thing"
    assert caught.value.expected
    assert caught.value.hint
    assert path is None or caught.value.path == path
    assert place.get("thing") == before


class SchemaPromises:
    """A schema is valid, self-contained and strict, and a value that breaks it is never kept."""

    def test_a_schema_that_could_never_be_compiled_is_refused_at_once(self, memory: Memory, store: Store) -> None:
        """Its parts lead back to themselves, or double at each reference."""
        itself: Json = {"allOf": [{"$ref": "#/$defs/again"}] * 20}
        doubled: Json = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
        whole: Json = {"type": "object", "properties": {"n": {}}}
        before = snapshot(store)
        for schema in (
            {**whole, "anyOf": [{"$ref": "#/$defs/again"}] * 20, "$defs": {"again": itself}},
            {**whole, "not": {"$ref": "#"}},
            {**whole, "allOf": [{"$ref": "#/allOf/0"}]},
            {**whole, "allOf": [{"$ref": "#/$defs/d0"}], "$defs": {**doubled, "d30": TEXT}},
        ):
            with pytest.raises(InvalidDefinition, match=r"the schema (leads back|has more than)"):
                memory.definitions.create(name="Thing", slug="thing", schema=schema)
        assert snapshot(store) == before
        nested: Json = {"type": "object", "properties": {"name": TEXT, "parts": {"items": {"$ref": "#"}}}}
        nested["properties"]["lid"] = {"anyOf": [{"type": "null"}, {"$ref": "#"}]}
        ada = _under(memory, nested)
        _accepts(ada, {"name": "box", "lid": {"name": "lid", "lid": None}, "parts": [{"parts": [{"name": "nail"}]}]})
        _refuses(ada, {"parts": [{"parts": [{"name": 7}]}]})

    def test_an_unexpected_property_is_refused_at_every_level(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {
                    "name": TEXT,
                    "home": {"type": "object", "properties": {"city": TEXT}},
                    "pets": {"type": "array", "items": {"type": "object", "properties": {"name": TEXT}}},
                },
            },
        )
        _accepts(ada, {"name": "Ada", "home": {"city": "London"}, "pets": [{"name": "Dog"}]})
        _refuses(ada, {"name": "Ada", "x": 1}, "$")
        _refuses(ada, {"home": {"city": "London", "x": 1}}, "$.home")
        _refuses(ada, {"pets": [{"name": "Dog"}, {"name": "Cat", "x": 1}]}, "$.pets[1]")

    def test_an_explicit_additional_properties_is_honoured(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {
                    "closed": {"type": "object", "properties": {"a": TEXT}},
                    "numbers": {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}},
                },
                "additionalProperties": True,
            },
        )
        _accepts(ada, {"anything": [1, 2], "numbers": {"x": 1}})
        _refuses(ada, {"closed": {"b": 1}}, "$.closed")
        _refuses(ada, {"numbers": {"x": "one"}}, "$.numbers.x")

    def test_an_object_without_listed_properties_is_open(self, memory: Memory) -> None:
        ada = _under(memory, {"type": "object", "properties": {"bag": {"type": "object"}}})
        _accepts(ada, {"bag": {"anything": 1}})
        _refuses(ada, {"bag": 5}, "$.bag")

    def test_parts_joined_by_all_of_are_strict_as_a_whole(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {"id": TEXT},
                "allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}, "required": ["b"]}],
            },
        )
        _accepts(ada, {"id": "1", "a": "x", "b": "y"})
        _refuses(ada, {"id": "1", "a": "x", "b": "y", "c": "z"})
        _refuses(ada, {"id": "1", "a": "x"})

    def test_all_of_is_strict_as_a_whole_even_when_the_root_lists_nothing(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {"type": "object", "allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}]},
        )
        _accepts(ada, {"a": "x", "b": "y"})
        _refuses(ada, {"a": "x", "c": "z"})

    def test_a_shared_part_is_strict_where_it_is_referred_to(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {"home": {"$ref": "#/$defs/address"}},
                "$defs": {"address": {"type": "object", "properties": {"city": TEXT}}},
            },
        )
        _accepts(ada, {"home": {"city": "London"}})
        _refuses(ada, {"home": {"city": "London", "x": 1}}, "$.home")

    def test_a_shared_part_is_strict_even_when_the_root_is_composed(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "type": "object",
                "allOf": [{"$ref": "#/$defs/base"}],
                "properties": {"home": {"$ref": "#/$defs/address"}},
                "$defs": {
                    "base": {"type": "object", "properties": {"id": TEXT}},
                    "address": {"type": "object", "properties": {"city": TEXT}},
                },
            },
        )
        _accepts(ada, {"id": "1", "home": {"city": "London"}})
        _refuses(ada, {"id": "1", "other": 1})
        _refuses(ada, {"id": "1", "home": {"city": "London", "x": 1}}, "$.home")

    def test_a_choice_of_shapes_is_strict_in_each(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {
                    "pet": {
                        "oneOf": [
                            {"type": "object", "properties": {"bark": TEXT}, "required": ["bark"]},
                            {"type": "object", "properties": {"purr": TEXT}, "required": ["purr"]},
                        ]
                    }
                },
            },
        )
        _accepts(ada, {"pet": {"bark": "woof"}})
        _accepts(ada, {"pet": {"purr": "rrr"}})
        _refuses(ada, {"pet": {"bark": "woof", "x": 1}})

    def test_dependent_parts_do_not_refuse_their_neighbours(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {"card": TEXT, "name": TEXT},
                "dependentSchemas": {"card": {"properties": {"address": TEXT}, "required": ["address"]}},
            },
        )
        _accepts(ada, {"name": "Ada"})
        _accepts(ada, {"name": "Ada", "card": "1234", "address": "London"})
        _refuses(ada, {"name": "Ada", "card": "1234"})
        _refuses(ada, {"name": "Ada", "x": 1})

    def test_an_older_draft_is_strict_too(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {"id": TEXT},
                "allOf": [{"properties": {"a": TEXT}}],
            },
        )
        _accepts(ada, {"id": "1", "a": "x"})
        _refuses(ada, {"id": "1", "x": 1})

    @pytest.mark.parametrize(
        ("format", "good", "bad"),
        [
            ("email", "ada@example.org", "ada at example"),
            ("date-time", "2026-04-30T16:20:00Z", "yesterday"),
            ("date", "2026-04-30", "2026-02-30"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
            ("uri", "https://example.org/a?b=c", "not a uri"),
        ],
    )
    def test_formats_are_checked(self, memory: Memory, format: str, good: str, bad: str) -> None:
        ada = _under(memory, {"type": "object", "properties": {"v": {"type": "string", "format": format}}})
        _accepts(ada, {"v": good})
        _refuses(ada, {"v": bad}, "$.v")

    def test_true_is_not_an_integer_and_one_is_not_a_boolean(self, memory: Memory) -> None:
        ada = _under(memory, {"type": "object", "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}}})
        _accepts(ada, {"n": 1, "b": True})
        _accepts(ada, {"n": 1.0})
        _refuses(ada, {"n": True}, "$.n")
        _refuses(ada, {"b": 1}, "$.b")
        _refuses(ada, {"n": 1.5}, "$.n")

    @pytest.mark.parametrize(
        ("rule", "good", "bad"),
        [
            ({"type": "string", "maxLength": 3}, "abc", "abcd"),
            ({"type": "string", "pattern": "^a+$"}, "aaa", "b"),
            ({"enum": ["en", "fr"]}, "en", "de"),
            ({"const": 5}, 5, 6),
            ({"type": "integer", "minimum": 1}, 1, 0),
            ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, [1, 2], [1, 2, 3]),
            ({"type": ["string", "null"]}, None, 1),
        ],
    )
    def test_the_words_of_a_schema_mean_what_they_say(self, memory: Memory, rule: Json, good: Any, bad: Any) -> None:
        ada = _under(memory, {"type": "object", "properties": {"v": rule}})
        _accepts(ada, {"v": good})
        _refuses(ada, {"v": bad}, "$.v")

    def test_a_record_is_an_object(self, memory: Memory) -> None:
        ada = _under(memory, {"type": "object", "properties": {"a": TEXT}})
        _accepts(ada, {})
        for value in (None, True, 5, "text", [], ["a"]):
            _refuses(ada, value, "$")

    def test_defaults_are_filled_in(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {
                    "language": {"type": "string", "default": "en"},
                    "home": {"type": "object", "properties": {"country": {"type": "string", "default": "uk"}}},
                    "tags": {"type": "array", "default": []},
                },
                "required": ["language"],
            },
        )
        assert ada.set("thing", {}).value == {"language": "en", "tags": []}
        assert ada.set("thing", {"language": "fr", "home": {}}).value["home"] == {"country": "uk"}
        assert ada.value("thing") == {"language": "fr", "home": {"country": "uk"}, "tags": []}

    def test_defaults_are_filled_in_inside_lists_and_through_references(self, memory: Memory) -> None:
        guest = {"type": "object", "properties": {"meal": {"type": "string", "default": "soup"}, "name": {}}}
        own, further = {"$ref": "#/$defs/guest"}, {"$ref": "#/$defs/table"}
        table = {"type": "object", "properties": {"guest": own, "below": further}}
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {
                    "guests": {"type": "array", "items": {"$ref": "#/$defs/guest"}},
                    "rows": {"type": "array", "items": {"type": "array", "items": guest}},
                    "table": {"allOf": [{"$ref": "#/$defs/table"}]},
                    "wine": {"$ref": "#/$defs/wine"},
                },
                "$defs": {"guest": guest, "table": table, "wine": {"type": "string", "default": "red"}},
            },
        )
        assert ada.set("thing", {}).value == {"wine": "red"}
        named, fed = {"name": "Bo"}, {"name": "Bo", "meal": "soup"}
        given = {"guests": [named, {"meal": "pie"}], "rows": [[named], []], "table": {"below": {"guest": named}}}
        assert ada.set("thing", given).value == {
            "guests": [fed, {"meal": "pie"}],
            "rows": [[fed], []],
            "table": {"below": {"guest": fed}},
            "wine": "red",
        }

    @pytest.mark.parametrize(
        "reference", ["#/$defs/the%20guest", "#guest", "#/$defs/choice/anyOf/1"], ids=["escaped", "anchor", "place"]
    )
    def test_a_reference_leads_where_it_points_however_it_is_written(self, memory: Memory, reference: str) -> None:
        guest = {"type": "object", "properties": {"meal": {"type": "string", "default": "soup"}}}
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {"at": {"$ref": reference}, "seats": {"type": "integer", "default": 2}},
                "$defs": {
                    "the guest": {"$anchor": "guest", **guest},
                    "choice": {"anyOf": [{"type": "null"}, guest]},
                },
            },
        )
        assert ada.set("thing", {"at": {}}).value == {"at": {"meal": "soup"}, "seats": 2}
        _refuses(ada, {"at": {"wine": "red"}}, "$.at")
        _refuses(ada, {"at": {"meal": 7}}, "$.at.meal")

    def test_a_whole_may_be_made_of_a_part_with_an_anchor(self, memory: Memory) -> None:
        part = {"$anchor": "part", "properties": {"meal": {"type": "string", "default": "soup"}}}
        ada = _under(memory, {"type": "object", "allOf": [{"$ref": "#part"}], "$defs": {"part": part}})
        assert ada.set("thing", {}).value == {"meal": "soup"}
        _refuses(ada, {"wine": "red"}, "$")

    def test_references_may_lead_round_in_circles(self, memory: Memory) -> None:
        again = {"type": "object", "properties": {"d": {"default": 2}, "at": {"$ref": "#/$defs/again"}}}
        circle = {"type": "object", "properties": {"n": {"default": 1}, "at": {"$ref": "#/$defs/again"}}}
        ada = _under(memory, {**circle, "$defs": {"again": again}})
        assert ada.set("thing", {"at": {"at": {}}}).value == {"n": 1, "at": {"d": 2, "at": {"d": 2}}}
        _refuses(ada, {"m": 1}, "$")

    def test_a_refused_value_changes_nothing(self, memory: Memory, store: Store) -> None:
        ada = _under(memory, {"type": "object", "properties": {"n": {"type": "integer"}}})
        ada.set("thing", {"n": 1})
        before = snapshot(store)
        with pytest.raises(SchemaViolation):
            ada.set("thing", {"n": "one"})
        assert snapshot(store) == before

    @pytest.mark.parametrize(
        ("schema", "path"),
        [
            (None, "$"),
            ([], "$"),
            ("object", "$"),
            (True, "$"),
            ({}, "$"),
            ({"type": "string"}, "$"),
            ({"type": "array", "items": {}}, "$"),
            ({"type": ["object", "null"]}, "$"),
            ({"type": "object", "properties": {"a": {"type": "strng"}}}, "$.properties.a.type"),
            ({"type": "object", "properties": {"a": {"minLength": -1}}}, "$.properties.a.minLength"),
            ({"type": "object", "required": "a"}, "$.required"),
            ({"type": "object", "properties": []}, "$.properties"),
        ],
    )
    def test_a_schema_that_is_not_one_is_refused_with_the_path_of_its_fault(
        self, memory: Memory, store: Store, schema: Any, path: str
    ) -> None:
        before = snapshot(store)
        with pytest.raises(InvalidDefinition) as caught:
            memory.definitions.create(name="Thing", slug="thing", schema=schema)
        assert caught.value.path == path
        assert caught.value.hint
        assert snapshot(store) == before
        _accepts(_under(memory, {"type": "object"}), {"a": 1})

    @pytest.mark.parametrize(
        "reference",
        ["https://example.org/schema.json", "http://127.0.0.1:1/x", "file:///etc/passwd", "other.json", "#/$defs/no"],
    )
    def test_a_schema_that_refers_outside_itself_is_refused(self, memory: Memory, store: Store, reference: str) -> None:
        before = snapshot(store)
        with pytest.raises(InvalidDefinition):
            memory.definitions.create(
                name="Thing", slug="thing", schema={"type": "object", "properties": {"a": {"$ref": reference}}}
            )
        assert snapshot(store) == before
        inside = {"type": "object", "properties": {"a": {"$ref": "#/$defs/yes"}}, "$defs": {"yes": TEXT}}
        _accepts(_under(memory, inside), {"a": "x"})

    def test_a_schema_may_refer_to_itself(self, memory: Memory) -> None:
        ada = _under(
            memory,
            {
                "type": "object",
                "properties": {"tree": {"$ref": "#/$defs/node"}},
                "$defs": {
                    "node": {
                        "type": "object",
                        "properties": {"name": TEXT, "next": {"$ref": "#/$defs/node"}},
                    }
                },
            },
        )
        _accepts(ada, {"tree": {"name": "a", "next": {"name": "b", "next": {"name": "c"}}}})
        _refuses(ada, {"tree": {"next": {"next": {"x": 1}}}}, "$.tree.next.next")

    def test_a_schema_has_a_largest_size(self, memory: Memory) -> None:
        large = {"type": "object", "properties": {f"p{n}": TEXT for n in range(20_000)}}
        with pytest.raises(LimitExceeded) as caught:
            memory.definitions.create(name="Thing", slug="thing", schema=large)
        assert caught.value.actual > caught.value.limit
        assert memory.definitions.list() == []
