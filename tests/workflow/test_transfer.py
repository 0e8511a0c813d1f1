"""Workflows leave with their definitions and arrive elsewhere: reused, created or refused, and otherwise untouched."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import run_process

import memoranda
from memoranda import Definition, Limits, Memory, Policy
from memoranda.engine.transfer import Import
from memoranda.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    InvalidDefinition,
    InvalidValue,
    LimitExceeded,
    NotFound,
    SourceError,
    UsageError,
)
from memoranda.runs.records import load_memory
from memoranda.testing import CountingIds
from memoranda.workflow.transfer import export_workflow, import_workflow

PATIENCE = 120.0
"""Seconds after which a child counts as hung; nothing is measured with it."""

BERTH: dict[str, Any] = {
    "type": "object",
    "properties": {"pier": {"type": "integer", "minimum": 1}, "name": {"type": "string", "title": "Ship"}},
    "required": ["pier"],
}
CARGO: dict[str, Any] = {"type": "object", "properties": {"tons": {"type": "number"}}}

UNKNOWN = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Memory]:
    with memoranda.open(tmp_path / "here.db") as memory:
        yield memory


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Memory]:
    with memoranda.open(tmp_path / "there.db") as memory:
        yield memory


def make_berth(memory: Memory, **changes: Any) -> Definition:
    return memory.definitions.create(
        **{"name": "Berth", "slug": "berth", "scope": "workflow", "ttl": 600, "schema": BERTH, **changes}
    )


def make_cargo(memory: Memory, **changes: Any) -> Definition:
    return memory.definitions.create(
        **{"name": "Cargo", "slug": "cargo", "scope": "thread", "schema": CARGO, **changes}
    )


def workflow(*ids: str) -> str:
    """Return a workflow that refers to these definitions."""
    defs = "".join(
        f"  memory_{n}:\n    kind: memory\n    settings:\n      definition_id: {id}\n" for n, id in enumerate(ids)
    )
    return f"defs:\n{defs}  moor:\n    kind: task\n    action: update_memory\nflow:\n  - do: moor\n"


def travelled(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return a bundle as it arrives: through JSON."""
    return json.loads(json.dumps(bundle))


def slugs(definitions: tuple[Definition, ...] | list[Definition]) -> list[str]:
    return [one.slug for one in definitions]


# the four behaviours of transfer


def test_53_an_export_lists_the_definitions_that_the_workflow_refers_to(here: Memory) -> None:
    berth, cargo, tide = make_berth(here), make_cargo(here), make_cargo(here, name="Tide", slug="tide")
    text = workflow(cargo.id, berth.id, cargo.id)
    bundle = travelled(export_workflow(here, text))
    assert bundle["workflow"] == text
    assert list(bundle["definitions"]) == ["cargo", "berth"]  # in the order of the workflow, each once
    assert bundle["definitions"]["berth"] == {
        "id": berth.id,
        "name": "Berth",
        "scope": "workflow",
        "ttl": 600,
        "schema": berth.schema,
    }
    assert tide.slug in export_workflow(here, workflow(tide.id))["definitions"]


def test_54_an_import_creates_what_is_missing_and_writes_the_new_ids_into_the_text(here: Memory, there: Memory) -> None:
    berth, cargo = make_berth(here), make_cargo(here)
    text = workflow(berth.id, cargo.id)
    imported = import_workflow(there, travelled(export_workflow(here, text)))
    made = {one.slug: one for one in there.definitions.list()}
    assert imported.text == workflow(made["berth"].id, made["cargo"].id)
    assert imported.created == (made["berth"], made["cargo"])
    assert imported.reused == ()
    assert {made["berth"].id, made["cargo"].id}.isdisjoint({berth.id, cargo.id})
    for old in (berth, cargo):
        new = made[old.slug]
        assert (new.name, new.scope, new.ttl, new.schema) == (old.name, old.scope, old.ttl, old.schema)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("name", {"name": "Mooring"}),
        ("scope", {"scope": "thread"}),
        ("ttl", {"ttl": None}),
        ("ttl", {"ttl": 601}),
        ("schema", {"schema": {**BERTH, "required": []}}),
        ("schema", {"mode": "merge"}),
        ("schema", {"schema": {**BERTH, "additionalProperties": True}}),
    ],
)
def test_55_a_definition_of_the_same_slug_that_differs_is_a_conflict_that_says_in_what(
    here: Memory, there: Memory, field: str, changes: dict[str, Any]
) -> None:
    text = workflow(make_cargo(here).id, make_berth(here).id)
    other = make_berth(there, **changes)
    bundle = export_workflow(here, text)
    with pytest.raises(Conflict, match=rf"`berth` has another {field}(?! and)") as caught:
        import_workflow(there, bundle)
    assert caught.value.expected == {"berth": {field: bundle["definitions"]["berth"][field]}}
    assert caught.value.actual == {"berth": {field: getattr(other, field)}}
    assert there.definitions.list() == [other]  # cargo was not created either
    there.definitions.delete("berth")
    assert slugs(import_workflow(there, bundle).created) == ["cargo", "berth"]


def test_56_an_equal_definition_is_reused_under_its_own_id(here: Memory, there: Memory) -> None:
    text = workflow(make_berth(here).id, make_cargo(here).id)
    there.scope(user="mate").set("elsewhere", 1)
    standing = make_cargo(there)
    imported = import_workflow(there, export_workflow(here, text))
    assert imported.reused == (standing,)
    assert slugs(imported.created) == ["berth"]
    assert imported.text == workflow(imported.created[0].id, standing.id)
    again = import_workflow(there, export_workflow(here, text))
    assert (slugs(again.reused), again.created, again.text) == (["berth", "cargo"], (), imported.text)
    assert len(there.definitions.list()) == 2


# what goes out


def test_a_workflow_comes_home_as_it_left(here: Memory) -> None:
    text = workflow(make_berth(here).id.upper())
    before = here.ledger.verify().length
    imported = import_workflow(here, travelled(export_workflow(here, text)))
    assert (imported.text, slugs(imported.reused)) == (text, ["berth"])
    assert here.ledger.verify().length == before


def test_a_workflow_without_memory_leaves_and_arrives_alone(here: Memory, there: Memory) -> None:
    make_berth(here)
    bundle = export_workflow(here, workflow())
    assert bundle["definitions"] == {}
    imported = import_workflow(there, travelled(bundle))
    assert (imported.text, imported.created, imported.reused) == (workflow(), (), ())
    assert export_workflow(here, workflow(here.definitions.get("berth").id))["definitions"] != {}


def test_ids_that_are_not_here_are_all_named(here: Memory) -> None:
    berth, other = make_berth(here), UNKNOWN.replace("1", "a").upper()
    with pytest.raises(NotFound) as caught:
        export_workflow(here, workflow(UNKNOWN, berth.id, other, "berth"))
    assert caught.value.missing == [UNKNOWN, other, "berth"]  # as written; a slug is not an id
    assert "berth" in export_workflow(here, workflow(berth.id))["definitions"]


def test_only_ids_of_memory_definitions_count(here: Memory, there: Memory) -> None:
    berth = make_berth(here)
    text = f"""
defs:
  a: {{kind: task, action: x, settings: {{definition_id: {UNKNOWN}}}}}
  b: {{kind: memory, settings: {{definition_id: 17}}}}
  c: {{kind: memory, settings: {{definition_id:}}}}
  d: {{kind: memory, definition_id: {UNKNOWN}}}
  e: {{kind: memory, settings: [{UNKNOWN}]}}
  f: {{kind: memory, settings: {{definition_id: {berth.id}}}}}
  g: memory
context: {{defs: {{h: {{kind: memory, settings: {{definition_id: {UNKNOWN}}}}}}}}}
"""
    bundle = export_workflow(here, text)
    assert list(bundle["definitions"]) == ["berth"]
    imported = import_workflow(there, bundle)
    assert imported.text == text.replace(berth.id, imported.created[0].id)


@pytest.mark.parametrize("text", ["", "# nothing", "moor.yaml", "- flow", "17", None, 17])
def test_what_is_no_workflow_is_refused(here: Memory, there: Memory, text: Any) -> None:
    with pytest.raises(UsageError, match="not a workflow"):
        export_workflow(here, text)
    with pytest.raises(UsageError):
        import_workflow(there, {"memoranda": 1, "workflow": text, "definitions": {}})
    assert export_workflow(here, "flow: []") == {"memoranda": 1, "workflow": "flow: []", "definitions": {}}


@pytest.mark.parametrize("text", ["defs: [", "defs: &a {}\nflow: *a", "defs: {}\n---\ndefs: {}", "a: \x07"])
def test_a_workflow_that_cannot_be_read_is_refused_with_the_place(here: Memory, there: Memory, text: str) -> None:
    for attempt in (
        lambda: export_workflow(here, text),
        lambda: import_workflow(there, {"memoranda": 1, "workflow": text, "definitions": {}}),
    ):
        with pytest.raises(SourceError, match=r"^workflow:\d+:\d+: "):
            attempt()
    export_workflow(here, "defs: {}")


# what comes in


def test_what_was_imported_runs_here(here: Memory, there: Memory) -> None:
    bundle = export_workflow(here, workflow(make_berth(here, mode="merge").id))
    (made,) = import_workflow(there, travelled(bundle)).created
    working = load_memory(there, owner="mate", workflow="harbour", definition_ids=[made.id])
    working.write({"berth": {"pier": 3}})
    assert working.write({"berth": {"name": "Heron"}}) == {"berth": {"pier": 3, "name": "Heron"}}


def test_conflicts_are_all_named_at_once(here: Memory, there: Memory) -> None:
    bundle = export_workflow(here, workflow(make_berth(here).id, make_cargo(here).id))
    make_berth(there, name="Quay", ttl=1)
    make_cargo(there, slug="freight")
    with pytest.raises(Conflict) as caught:
        import_workflow(there, bundle)
    assert "`berth` has another name and another ttl" in caught.value.message
    assert "the name `Cargo` of `cargo` is that of `freight`" in caught.value.message
    assert slugs(there.definitions.list()) == ["berth", "freight"]


def test_numbers_and_truths_are_not_the_same(here: Memory, there: Memory) -> None:
    schemas = [{"type": "object", "properties": {"n": {"const": value}}} for value in (1, True)]
    bundle = export_workflow(here, workflow(make_cargo(here, schema=schemas[0]).id))
    make_cargo(there, schema=schemas[1])
    with pytest.raises(Conflict, match="another schema"):
        import_workflow(there, bundle)
    there.definitions.update("cargo", schema=schemas[0])
    assert slugs(import_workflow(there, bundle).reused) == ["cargo"]


def test_an_equal_schema_may_be_written_in_another_order_and_less_strictly(here: Memory, there: Memory) -> None:
    bundle = export_workflow(here, workflow(make_berth(here).id))
    kept = bundle["definitions"]["berth"]
    loose = {word: part for word, part in reversed(kept["schema"].items()) if word != "additionalProperties"}
    assert "additionalProperties" in kept["schema"]
    standing = make_berth(there)
    bundle["definitions"]["berth"] = {**kept, "schema": loose, "name": " Berth "}
    assert import_workflow(there, bundle).reused == (standing,)


def test_definitions_that_the_workflow_does_not_refer_to_are_left_out(here: Memory, there: Memory) -> None:
    berth, cargo = make_berth(here), make_cargo(here)
    bundle = export_workflow(here, workflow(berth.id, cargo.id))
    bundle["workflow"] = workflow(cargo.id)
    assert slugs(import_workflow(there, bundle).created) == ["cargo"]
    assert slugs(there.definitions.list()) == ["cargo"]


def test_an_id_that_is_taken_here_by_another_definition_is_no_hindrance(here: Memory) -> None:
    berth = make_berth(here)
    bundle = export_workflow(here, workflow(berth.id))
    here.definitions.update("berth", slug="mooring", name="Mooring")
    imported = import_workflow(here, bundle)
    assert slugs(imported.created) == ["berth"]
    assert imported.created[0].id != berth.id
    assert imported.text == workflow(imported.created[0].id)


def without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda bundle: {word: part for word, part in bundle.items() if word != name}


def with_berth(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda bundle: {
        **bundle,
        "definitions": {**bundle["definitions"], "berth": {**bundle["definitions"]["berth"], **changes}},
    }


def renamed(slug: str) -> Callable[[dict[str, Any]], Any]:
    def change(bundle: dict[str, Any]) -> Any:
        definitions = dict(bundle["definitions"])
        definitions[slug] = definitions.pop("berth")
        return {**bundle, "definitions": definitions}

    return change


ENDLESS: dict[str, Any] = {"type": "object"}
ENDLESS["properties"] = {"again": ENDLESS}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda bundle: None, UsageError),
        (lambda bundle: json.dumps(bundle), UsageError),
        (lambda bundle: [bundle], UsageError),
        (without("memoranda"), UsageError),
        (without("workflow"), UsageError),
        (without("definitions"), NotFound),
        (lambda bundle: {**bundle, "memoranda": 2}, UsageError),
        (lambda bundle: {**bundle, "workflow": b"flow: []"}, UsageError),
        (lambda bundle: {**bundle, "definitions": list(bundle["definitions"].values())}, UsageError),
        (lambda bundle: {**bundle, "definition": {}}, UsageError),
        (with_berth(id=None), UsageError),
        (with_berth(id=UNKNOWN), NotFound),
        (with_berth(name=""), InvalidDefinition),
        (with_berth(name=5), UsageError),
        (with_berth(scope="everywhere"), InvalidDefinition),
        (with_berth(ttl=0), InvalidDefinition),
        (with_berth(ttl=True), UsageError),
        (with_berth(ttl="60"), UsageError),
        (with_berth(schema=None), UsageError),
        (with_berth(schema={"type": "string"}), InvalidDefinition),
        (with_berth(schema={"type": "object", "properties": {"a": {"type": "rope"}}}), InvalidDefinition),
        (with_berth(schema={"type": "object", "default": {1, 2}}), InvalidValue),
        (with_berth(schema=ENDLESS), LimitExceeded),
        (with_berth(schema={"type": "object", "title": "x" * 300_000}), LimitExceeded),
        (with_berth(extra=1), UsageError),
        (renamed("Berth-1"), InvalidDefinition),
    ],
)
def test_a_bundle_that_says_something_else_is_refused_and_nothing_is_created(
    here: Memory, there: Memory, change: Callable[[dict[str, Any]], Any], error: type[Exception]
) -> None:
    bundle = export_workflow(here, workflow(make_cargo(here).id, make_berth(here).id))
    with pytest.raises(error):
        import_workflow(there, change(bundle))
    assert there.definitions.list() == []
    assert len(import_workflow(there, bundle).created) == 2


def test_a_schema_that_is_refused_is_named(here: Memory, there: Memory) -> None:
    bundle = export_workflow(here, workflow(make_berth(here).id))
    with pytest.raises(InvalidDefinition, match="definition `berth`: the schema"):
        import_workflow(there, with_berth(schema={"type": "array"})(bundle))
    assert slugs(import_workflow(there, bundle).created) == ["berth"]


def test_two_definitions_of_one_id_or_one_name_are_refused(here: Memory, there: Memory) -> None:
    bundle = export_workflow(here, workflow(make_berth(here).id, make_cargo(here).id))
    cargo = bundle["definitions"]["cargo"]
    with pytest.raises(UsageError, match="`berth` and `cargo` have the same id"):
        import_workflow(there, with_berth(id=cargo["id"].upper())(bundle))
    with pytest.raises(AlreadyExists, match="Cargo"):
        import_workflow(there, with_berth(name="Cargo")(bundle))
    assert there.definitions.list() == []
    assert len(import_workflow(there, bundle).created) == 2


def test_who_may_not_define_cannot_import(here: Memory, there: Memory) -> None:
    bundle = export_workflow(here, workflow(make_berth(here).id))
    reader = there.acting_as("guest", policy=Policy.of(allow=("definitions.read",)))
    with pytest.raises(Denied):
        import_workflow(reader, bundle)
    assert there.definitions.list() == []
    standing = make_berth(there)
    assert import_workflow(reader, bundle).reused == (standing,)  # there is nothing to define any more


def test_how_large_a_schema_may_be_is_set_by_whoever_imports(here: Memory, tmp_path: Path) -> None:
    bundle = export_workflow(here, workflow(make_berth(here).id))
    with memoranda.open(tmp_path / "small.db", limits=Limits(schema_bytes=50)) as small:
        with pytest.raises(LimitExceeded):
            import_workflow(small, bundle)
        assert small.definitions.list() == []
    with memoranda.open(tmp_path / "large.db", limits=Limits(schema_bytes=5_000)) as large:
        assert len(import_workflow(large, bundle).created) == 1


# the text is left as it is


@pytest.mark.parametrize(
    "written",
    [
        "{id}",
        "'{id}'",
        '"{id}"',
        "{id}   # the berth, once {old}",
        "|\n        {id}\n",
        "|- # was {old} before\n        {id}\n    # {old} is what it was\n",
        ">\n        {id}\n\n",
        "\n        {id}",
        '\n        "{id}"',
    ],
)
def test_an_id_is_changed_at_its_place_and_nowhere_else(here: Memory, there: Memory, written: str) -> None:
    berth = make_berth(here)

    def text(id: str) -> str:
        """Return the workflow with this id in its place; other occurrences of the old id stay."""
        return (
            f"# {berth.id}\ndefs:\n  'berth':   # our \N{ANCHOR}\n    kind: memory\n    description: {berth.id}\n"
            f"    settings:\n      definition_id: {written.format(id=id, old=berth.id)}\n\nflow: []  # end"
        )

    imported = import_workflow(there, export_workflow(here, text(berth.id)))
    assert imported.text == text(imported.created[0].id)


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_stay(here: Memory, there: Memory, ending: str) -> None:
    berth = make_berth(here)
    text = "\ufeff" + workflow(berth.id).replace("\n", ending)
    imported = import_workflow(there, export_workflow(here, text))
    assert imported.text == text.replace(berth.id, imported.created[0].id)
    assert ending in imported.text


def test_an_id_that_is_written_in_escapes_is_written_plainly(here: Memory, there: Memory) -> None:
    berth = make_berth(here)
    escaped = "".join(f"\\x{ord(letter):02x}" for letter in berth.id)
    text = f'defs: {{a: {{kind: memory, settings: {{definition_id: "{escaped}"}}}}}}'
    imported = import_workflow(there, export_workflow(here, text))
    assert imported.text == text.replace(escaped, imported.created[0].id)


spellings = st.sampled_from(["{}", "'{}'", '"{}"', "|-\n        {}", ">\n        {}\n", "\n        {}  # once"])
names = st.text(st.sampled_from("abé_-"), min_size=1, max_size=5).filter(lambda name: not name.startswith("-"))
slots = st.sampled_from(["<berth>", "<cargo>", "<BERTH>"])
parts = st.tuples(names, spellings, slots, st.booleans(), st.sampled_from(["", "\n", "  # between\n"]))


def skeleton(name: str, spelling: str, slot: str, kind_first: bool, between: str) -> str:
    """Return one definition of a workflow, with a slot for its id."""
    kind, settings = "    kind: memory\n", f"    settings:\n      definition_id: {spelling.format(slot)}\n"
    return f"  {name}:\n{kind + settings if kind_first else settings + kind}{between}"


@pytest.mark.slow
@given(st.lists(parts, min_size=1, max_size=6, unique_by=lambda part: part[0]))
def test_any_workflow_arrives_with_other_ids_and_nothing_else(written: list[tuple[str, str, str, bool, str]]) -> None:
    text = "flow: []\ndefs:\n" + "".join(skeleton(*part) for part in written)
    with memoranda.open(":memory:") as here, memoranda.open(":memory:") as there:
        berth, cargo = make_berth(here).id, make_cargo(here).id
        original = text.replace("<berth>", berth).replace("<cargo>", cargo).replace("<BERTH>", berth.upper())
        imported = import_workflow(there, travelled(export_workflow(here, original)))
        made = {one.slug: one.id for one in imported.created}
        expected = text
        for slug, id in made.items():
            expected = expected.replace(f"<{slug}>", id).replace(f"<{slug.upper()}>", id)
        assert imported.text == expected
        home = export_workflow(there, imported.text)
        assert {slug: one["id"] for slug, one in home["definitions"].items()} == made


# several at once


def before_the_import(memory: Memory, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[object]:
    """Let another writer act once, after an import was decided on and before it happens; return their results."""
    perform, happened = memory.perform, list[object]()

    def interrupted(effect: Any) -> Any:
        if isinstance(effect, Import) and not happened:
            happened.append(act())
        return perform(effect)

    monkeypatch.setattr(memory, "perform", interrupted)
    return happened


def test_an_equal_definition_that_somebody_creates_meanwhile_is_reused(
    here: Memory, there: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = export_workflow(here, workflow(make_berth(here).id, make_cargo(here).id))
    with memoranda.open(tmp_path / "there.db") as rival:
        happened = before_the_import(there, monkeypatch, lambda: make_berth(rival))
        imported = import_workflow(there, bundle)
    assert list(imported.reused) == happened
    assert slugs(imported.created) == ["cargo"]
    assert imported.text == workflow(imported.reused[0].id, imported.created[0].id)
    assert len(there.definitions.list()) == 2


def test_a_different_definition_that_somebody_creates_meanwhile_is_a_conflict(
    here: Memory, there: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = export_workflow(here, workflow(make_cargo(here).id, make_berth(here).id))
    with memoranda.open(tmp_path / "there.db") as rival:
        happened = before_the_import(there, monkeypatch, lambda: make_berth(rival, ttl=1))
        with pytest.raises(Conflict, match="`berth` has another ttl"):
            import_workflow(there, bundle)
    assert there.definitions.list() == happened


def test_what_somebody_deletes_meanwhile_is_created_again(
    here: Memory, there: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = export_workflow(here, workflow(make_berth(here).id, make_cargo(here).id))
    standing = make_berth(there)
    with memoranda.open(tmp_path / "there.db") as rival:
        happened = before_the_import(there, monkeypatch, lambda: rival.definitions.delete("berth"))
        imported = import_workflow(there, bundle)
    assert happened
    assert imported.reused == ()
    assert slugs(imported.created) == ["berth", "cargo"]
    assert standing.id not in imported.text
    assert {one.id for one in there.definitions.list()} == {one.id for one in imported.created}


IMPORT = """
import json, sys, memoranda
from memoranda.workflow.transfer import import_workflow
with memoranda.open(sys.argv[1], busy_timeout=60) as memory:
    print("ready", flush=True)
    bundle = json.loads(sys.stdin.readline())
    imported = import_workflow(memory, bundle)
    print(json.dumps([imported.text, [one.slug for one in imported.created]]), flush=True)
"""


@pytest.mark.slow
def test_processes_that_import_at_once_create_each_definition_once(here: Memory, there: Memory, tmp_path: Path) -> None:
    ids = [make_cargo(here, name=f"Hold {n}", slug=f"hold_{n}").id for n in range(20)]
    bundle = json.dumps(export_workflow(here, workflow(*ids)))
    command = [sys.executable, "-c", IMPORT, str(tmp_path / "there.db")]
    with ExitStack() as running:
        children = [
            running.enter_context(run_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) for _ in range(3)
        ]
        for child in children:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write(bundle + "\n")
            child.stdin.flush()
        said = [json.loads(child.communicate(timeout=PATIENCE)[0]) for child in children]
    standing = {one.slug: one.id for one in there.definitions.list()}
    assert len(standing) == 20
    assert {text for text, _ in said} == {workflow(*(standing[f"hold_{n}"] for n in range(20)))}
    assert sorted(slug for _, created in said for slug in created) == sorted(standing)


def test_ids_come_from_the_memorys_own_source(here: Memory) -> None:
    bundle = export_workflow(here, workflow(make_berth(here).id))
    with memoranda.open(":memory:", ids=CountingIds()) as counted:
        assert import_workflow(counted, bundle).created[0].id == CountingIds().new("definition")
