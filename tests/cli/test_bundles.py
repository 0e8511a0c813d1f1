"""`memoranda workflows`: a workflow is exported from one database and imported into another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHELF = {"type": "object", "properties": {"place": {"type": "string"}}}
WORKFLOW = """\
# Where does the reader stand?
defs:
  shelf:
    kind: memory
    settings: {definition_id: %s}
  tell:
    kind: task
    action: send_text_message
    inputs:
      text: "='Your shelf: ' & $context.memory.shelf.place"
flow:
  - do: tell
"""


def define(cli: Any, database: str, *, schema: Any = SHELF) -> str:
    done = cli(
        "definitions",
        *("create", "--name", "Shelf", "--slug", "shelf", "--scope", "thread"),
        *("--schema", json.dumps(schema), "--db", database, "--json"),
    )
    assert done.code == 0, done.err
    return done.json["id"]


@pytest.fixture
def id(cli: Any) -> str:
    """A workflow, and here.db with the definition that it names."""
    id = define(cli, "here.db")
    Path("reader.yaml").write_text(WORKFLOW % id)
    return id


def test_a_bundle_without_definitions_says_where_its_workflow_is(cli):
    flow = "defs:\n  hello: {kind: task, action: send_text_message, inputs: {text: Hello}}\nflow:\n  - do: hello\n"
    Path("hello.yaml").write_text(flow)
    cli("facts", "set", "k", "v")
    assert cli("workflows", "export", "hello.yaml", "--out", "hello.json").code == 0
    done = cli("workflows", "import", "hello.json", "--out", "moved.yaml")
    assert (done.code, done.out) == (0, "")
    assert done.err == "hello.json names no definitions; its workflow is written to moved.yaml\n"
    assert Path("moved.yaml").read_text() == flow


def test_a_workflow_moves_to_another_database_with_its_definitions(cli, id):
    done = cli("workflows", "export", "reader.yaml", "--out", "reader.json", "--db", "here.db")
    assert (done.code, done.out, done.err) == (
        0,
        "reader.yaml is written to reader.json with 1 definition: shelf\n",
        "",
    )
    moved = cli("workflows", "import", "reader.json", "--out", "moved.yaml", "--db", "there.db")
    assert (moved.code, moved.out) == (0, "")
    [made] = cli("definitions", "list", "--db", "there.db", "--json").json
    assert moved.err == f"Created: shelf ({made['id']})\n"
    assert made["id"] != id and made["scope"] == "thread"
    assert Path("moved.yaml").read_text() == WORKFLOW % made["id"]
    again = cli("workflows", "import", "reader.json", "--out", "moved.yaml", "--db", "there.db")
    assert (again.code, again.err) == (0, f"Reused: shelf ({made['id']})\n")
    assert len(cli("definitions", "list", "--db", "there.db", "--json").json) == 1


def test_a_bundle_goes_through_a_pipe(cli, process, id):
    bundle = cli("workflows", "export", "reader.yaml", "--db", "here.db")
    assert list(bundle.json) == ["memoranda", "workflow", "definitions"]
    assert bundle.json["workflow"] == WORKFLOW % id
    text = process("workflows", "import", "-", "--db", "there.db", input=bundle.out)
    made = process("definitions", "show", "shelf", "--db", "there.db", "--json").json["id"]
    assert (text.code, text.out, text.err) == (0, WORKFLOW % made, f"Created: shelf ({made})\n")


def test_json_says_what_was_written_and_made(cli, id):
    out = ("--out", "reader.json")
    exported = cli("workflows", "export", "reader.yaml", *out, "--db", "here.db", "--json").json
    assert exported == {"tenant": "default", "file": "reader.json", "definitions": ["shelf"]}
    imported = cli("workflows", "import", "reader.json", "--db", "there.db", "--json").json
    assert imported["text"] == WORKFLOW % imported["created"][0]["id"]
    again = cli("workflows", "import", "reader.json", "--out", "a.yaml", "--db", "there.db", "--json").json
    assert (again["file"], again["created"]) == ("a.yaml", [])
    assert [one["slug"] for one in again["reused"]] == ["shelf"]


def test_a_different_definition_is_a_conflict_and_nothing_is_written(cli, id):
    cli("workflows", "export", "reader.yaml", "--out", "reader.json", "--db", "here.db")
    define(cli, "there.db", schema={"type": "object", "properties": {"floor": {"type": "integer"}}})
    import_it = ("workflows", "import", "reader.json", "--out", "moved.yaml")
    done = cli(*import_it, "--db", "there.db", "--json")
    assert (done.code, done.error["code"]) == (1, "conflict")
    assert not Path("moved.yaml").exists()
    assert cli(*import_it, "--db", "elsewhere.db").code == 0
    assert Path("moved.yaml").exists()


def test_a_definition_that_is_missing_is_named(cli, id):
    Path("other.yaml").write_text(WORKFLOW % "2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d")
    done = cli("workflows", "export", "other.yaml", "--db", "here.db")
    assert (done.code, done.out) == (1, "")
    assert "2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d" in done.err
    assert cli("workflows", "export", "reader.yaml", "--db", "here.db").code == 0


def test_files_that_cannot_be_are_refused_and_make_no_database(cli, id):
    cli("workflows", "export", "reader.yaml", "--out", "reader.json", "--db", "here.db")
    Path("odd.json").write_text('{"memoranda": 1, "workflow": 3}')
    Path("broken.json").write_text("{")
    for arguments, says in {
        ("export", "reader.agent.yaml"): "this is an agent",
        ("export", "nowhere.yaml"): "`nowhere.yaml` cannot be read",
        ("import", "nowhere.json"): "`nowhere.json` cannot be read",
        ("import", "broken.json"): "`broken.json` is not a bundle",
        ("import", "reader.json", "--out", "no/reader.yaml"): "the folder of `no/reader.yaml` does not exist",
        ("import", "reader.json", "--out", "reader.txt"): "It supports .yaml, .yml",
    }.items():
        done = cli("workflows", *arguments, "--db", "none.db")
        assert (done.code, done.out) == (2, ""), arguments
        assert says in done.err
    assert not Path("none.db").exists()
    odd = cli("workflows", "import", "odd.json", "--db", "none.db")
    assert odd.code == 2
    assert "hint: Import a bundle as it was exported" in odd.err
    assert cli("workflows", "import", "reader.json", "--db", "none.db").code == 0


def test_a_file_that_is_no_yaml_is_shown_with_its_fault(cli, id):
    Path("bad.yaml").write_text("defs: {a: [\n")
    done = cli("workflows", "export", "bad.yaml", "--db", "here.db")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("bad.yaml:") and "error[" in done.err and "^" in done.err
    assert "diagnostics" in cli("workflows", "export", "bad.yaml", "--db", "here.db", "--json").error["details"]


def test_it_needs_the_rights_that_definitions_need(cli, id):
    cli("workflows", "export", "reader.yaml", "--out", "reader.json", "--db", "here.db")
    define_nothing = ("--db", "there.db", "--actor", "guest")
    cli("permissions", "grant", "guest", "definitions.read", "--db", "there.db")
    done = cli("workflows", "import", "reader.json", *define_nothing, "--json")
    assert (done.code, done.error["code"]) == (1, "denied")
    assert cli("workflows", "import", "reader.json", "--db", "there.db").code == 0
