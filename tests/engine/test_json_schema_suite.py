"""The official test suite of JSON Schema, from the folder that MEMORANDA_JSON_SCHEMA_SUITE names.

It is published at github.com/json-schema-org/JSON-Schema-Test-Suite, and packed with the sources of the Python package
`jsonschema`, below `json`. What refers to its remote schemas is left out: nothing is ever fetched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import memoranda
from memoranda import Memory
from memoranda.engine.schemas import compilable_schema
from memoranda.engine.validator import Validator
from memoranda.errors import MemorandaError, SchemaViolation

SUITE = "MEMORANDA_JSON_SCHEMA_SUITE"
pytestmark = [pytest.mark.deep, pytest.mark.skipif(SUITE not in os.environ, reason=f"{SUITE} is not set")]
DRAFTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
REMOTE = "localhost:1234"

# Where a definition differs from the suite on purpose: the file, the beginning of the case or test, and why.
ON_PURPOSE = [
    ("format", "invalid ", "formats are checked, whatever the draft says"),
    ("definitions", "validate definition against metaschema", "a schema refers to nothing outside itself"),
    ("defs", "validate definition against metaschema", "a schema refers to nothing outside itself"),
    ("ref", "remote ref, containing refs itself", "a schema refers to nothing outside itself"),
]
ON_PURPOSE_IN_DEFINITIONS = [
    *ON_PURPOSE,
    ("default", "", "a default has to fit, because it is filled in"),
    ("const", "nul characters in strings", "texts have no NUL characters"),
    ("enum", "nul characters in strings", "texts have no NUL characters"),
    ("additionalProperties", "additionalProperties are allowed by default", "objects are strict"),
    ("dependencies", "dependent subschema incompatible with root", "objects are strict"),
    ("dependentSchemas", "dependent subschema incompatible with root", "objects are strict"),
    ("dynamicRef", "A $dynamicRef that initially resolves to a schema without", "objects are strict"),
    ("not", "forbidden property", "objects are strict"),
    ("properties", "object properties validation", "objects are strict"),
]


class Case(NamedTuple):
    file: str
    name: str
    schema: Any
    tests: list[dict[str, Any]]


def cases(draft: str) -> Iterator[Case]:
    root = Path(os.environ[SUITE])
    folder = next(path for path in (root / draft, root / "tests" / draft) if path.is_dir())
    for file in sorted(folder.glob("*.json")):
        for case in json.loads(file.read_text()):
            if file.stem != "refRemote" and not _is_remote(case["schema"]):
                yield Case(file.stem, case["description"], case["schema"], case["tests"])


def _is_remote(schema: Any) -> bool:
    """Return whether a schema needs another one; an `$id` alone fetches nothing."""
    if isinstance(schema, list):
        return any(map(_is_remote, schema))
    if not isinstance(schema, dict):
        return False
    found = [value for word in ("$ref", "$dynamicRef", "$schema") if isinstance(value := schema.get(word), str)]
    needs = any(REMOTE in value for value in found)
    relative = REMOTE in str(schema.get("$id")) and any(".json" in value for value in _references(schema))
    return needs or relative or any(map(_is_remote, schema.values()))


def _references(schema: Any) -> Iterator[str]:
    """Return the references to files, unless the schema has such a file in it."""
    text = json.dumps(schema)
    for name in ("tree.json", "extendible-dynamic-ref.json"):
        if f'"$ref": "{name}"' in text and f'"$id": "{name}"' not in text:
            yield name


def compare(draft: str, fits: Any, on_purpose: list[tuple[str, str, str]]) -> None:
    total, different = 0, list[str]()
    agreed = 0
    for case in cases(draft):
        judge = fits(case.schema)
        for test in case.tests:
            total += 1
            if judge(test["data"]) is test["valid"]:
                agreed += 1
            elif not any(
                case.file == file and any(text.startswith(begin) for text in (case.name, test["description"]))
                for file, begin, _ in on_purpose
            ):
                different.append(f"{case.file}: {case.name}: {test['description']}")
    print(f"{draft}: {agreed} of {total} agree, {agreed / total:.2%}")
    assert different == []
    assert agreed / total >= 0.95


@pytest.mark.parametrize("draft", DRAFTS)
def test_schemas_are_read_as_the_suite_reads_them(draft: str) -> None:
    def fits(schema: Any) -> Any:
        try:
            given = compilable_schema({"$schema": DRAFTS[draft], **schema}) if isinstance(schema, dict) else schema
            return Validator(given).is_valid
        except MemorandaError:
            return lambda value: None

    compare(draft, fits, ON_PURPOSE)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with memoranda.open(":memory:") as opened:
        yield opened


@pytest.mark.parametrize("draft", DRAFTS)
def test_definitions_read_schemas_as_the_suite_does(memory: Memory, draft: str) -> None:
    ada = memory.scope(user="ada")

    def fits(schema: Any) -> Any:
        """Give the schema to a field; its references start there, unless it has an `$id` of its own."""
        for known in memory.definitions.list():
            memory.definitions.delete(known.id)
        if isinstance(schema, dict) and "$id" not in schema and not (draft == "draft7" and "$ref" in schema):
            schema = {"$id": "urn:of:the:suite", **schema}
        whole = {"$schema": DRAFTS[draft], "type": "object", "properties": {"v": schema}, "required": ["v"]}
        try:
            memory.definitions.create(name="Thing", slug="thing", schema=whole)
        except MemorandaError:
            return lambda value: None
        return is_accepted

    def is_accepted(value: Any) -> bool:
        try:
            ada.set("thing", {"v": value})
        except SchemaViolation:
            return False
        return True

    compare(draft, fits, ON_PURPOSE_IN_DEFINITIONS)
