from __future__ import annotations

import json
from pathlib import Path

import pytest

SCHEMA = {"type": "object", "properties": {"language": {"type": "string"}}}


@pytest.fixture
def profile(cli):
    done = cli(
        "definitions", "create", "--name", "Profile", "--slug", "profile", "--schema", json.dumps(SCHEMA), "--json"
    )
    assert done.code == 0, done.err
    return done.json


def test_create_list_and_show(cli, profile):
    assert profile["schema"] == {**SCHEMA, "additionalProperties": False}
    assert (profile["scope"], profile["ttl"]) == ("global", None)
    assert cli("definitions", "list", "--json").json == [profile]
    assert cli("definitions", "show", profile["id"], "--json").json == profile
    assert "Profile" in cli("definitions", "list").out
    shown = cli("definitions", "show", "profile").out
    assert '"additionalProperties": false' in shown
    assert "for ever" in shown


def test_a_recursive_schema_and_a_union_are_taken(cli, profile):
    node = {"type": "object", "properties": {"label": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}
    pet = {"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}
    for slug, schema in (("tree", {"$ref": "#/$defs/node", "$defs": {"node": node}}), ("pet", pet)):
        done = cli("definitions", "create", "--name", slug, "--slug", slug, "--schema", json.dumps(schema))
        assert done.code == 0, done.err
        assert '"type": "object"' in cli("definitions", "show", slug).out
    assert cli("facts", "set", "tree", '{"label": "a", "next": {"label": "b"}}', "--as-json", "--user", "ada").code == 0
    assert cli("facts", "set", "tree", '{"next": {"x": 1}}', "--as-json", "--user", "ada").code != 0
    taken = cli("definitions", "create", "--name", "PROFILE", "--slug", "other", "--schema", json.dumps(SCHEMA))
    assert taken.code != 0
    assert "`profile`" in taken.err


def test_human_create_names_the_id(cli):
    done = cli(
        "definitions",
        "create",
        "--name",
        "A",
        "--slug",
        "a",
        "--schema",
        '{"type": "object"}',
        "--ttl",
        "30d",
        "--scope",
        "project",
    )
    assert done.out.startswith("a is defined as ")
    assert cli("definitions", "list").out.splitlines()[2].split() == ["a", "A", "project", "30d", "just", "now"]


def test_an_id_can_be_given(cli):
    given = "5C2E7F0A-9D41-4B7E-8A36-1F0C9B6D2E48"
    create = ("definitions", "create", "--name", "A", "--slug", "a", "--schema", '{"type": "object"}')
    assert cli(*create, "--id", given).out == f"a is defined as {given.lower()}\n"
    assert cli("definitions", "show", given.lower(), "--json").json["slug"] == "a"
    create = ("definitions", "create", "--name", "B", "--slug", "b", "--schema", '{"type": "object"}', "--json")
    taken = cli(*create, "--id", given)
    assert (taken.code, taken.error["code"]) == (1, "already_exists")
    wrong = cli(*create, "--id", "b")
    assert (wrong.code, wrong.error["code"]) == (2, "invalid_definition")
    assert [one["slug"] for one in cli("definitions", "list", "--json").json] == ["a"]


def test_a_schema_comes_from_a_file_or_stdin(cli):
    Path("schema.json").write_text(json.dumps(SCHEMA))
    assert cli("definitions", "create", "--name", "A", "--slug", "a", "--schema", "schema.json").code == 0
    made = cli(
        "definitions", "create", "--name", "B", "--slug", "b", "--schema", "-", "--json", input=json.dumps(SCHEMA)
    )
    assert made.json["schema"]["properties"] == SCHEMA["properties"]


@pytest.mark.parametrize(
    ("schema", "code"),
    [("nofile.json", "usage_error"), ("{oops", "invalid_definition"), ('{"type": "planet"}', "invalid_definition")],
)
def test_a_schema_that_cannot_be_is_refused(cli, schema, code):
    done = cli("definitions", "create", "--name", "A", "--slug", "a", "--schema", schema, "--json")
    assert (done.code, done.error["code"]) == (2, code)


def test_a_taken_slug_fails(cli, profile):
    done = cli("definitions", "create", "--name", "P", "--slug", "profile", "--schema", '{"type": "object"}')
    assert done.code == 1
    assert done.err.startswith("error[already_exists]:")


def test_records_are_checked_and_listed(cli, profile):
    wrong = cli("facts", "set", "profile", '{"lang": "en"}', "--as-json", "--user", "ada", "--json")
    assert (wrong.code, wrong.error["code"]) == (2, "schema_violation")
    assert cli("facts", "set", "profile", '{"language": "en"}', "--as-json", "--user", "ada").code == 0
    [record] = cli("definitions", "records", "profile", "--json").json
    assert (record["scope"], record["value"]) == ("user:ada", {"language": "en"})
    assert "user:ada" in cli("definitions", "records", "profile").out
    assert cli("definitions", "records", "profile", "--limit", "0", "--json").json == []


def test_update_changes_what_is_given(cli, profile):
    changed = cli("definitions", "update", "profile", "--slug", "person", "--ttl", "1d", "--json").json
    assert (changed["slug"], changed["ttl"], changed["name"]) == ("person", 86_400, "Profile")
    assert cli("definitions", "update", "person", "--clear-ttl").out == "person is changed\n"
    assert cli("definitions", "show", "person", "--json").json["ttl"] is None
    assert cli("definitions", "update", "person").code == 2
    assert cli("definitions", "update", "person", "--ttl", "1d", "--clear-ttl").code == 2


def test_delete_wants_a_yes(cli, profile):
    cli("facts", "set", "profile", "{}", "--as-json", "--user", "ada")
    refused = cli("definitions", "delete", "profile")
    assert refused.code == 2
    assert "hint: Pass --yes" in refused.err
    assert len(cli("definitions", "list", "--json").json) == 1
    assert cli("definitions", "delete", "profile", "--yes").out == "profile is deleted, with 1 record\n"
    cli("definitions", "create", "--name", "A", "--slug", "a", "--schema", '{"type": "object"}')
    gone = cli("definitions", "delete", "a", "--yes", "--json").json
    assert gone == {"tenant": "default", "definition": "a", "deleted": True, "records": 0}


def test_a_missing_definition_points_to_the_command(cli, profile):
    for command in ("show", "records"):
        done = cli("definitions", command, "nothing")
        assert done.code == 1
        assert "hint: List them with `memoranda definitions list`" in done.err


# a schema that records do not fit


NUMBERS = '{"type": "object", "properties": {"language": {"type": "integer"}}}'
LENGTH = '{"language": $length($record.language)}'


def test_a_changed_schema_is_checked_refused_kept_and_migrated(cli, profile):
    cli("facts", "set", "profile", '{"language": "en"}', "--as-json", "--user", "ada")
    check = cli("definitions", "update", "profile", "--schema", NUMBERS, "--check")
    assert (check.code, "1 of 1 record would not fit" in check.out, "user:ada" in check.out) == (0, True, True)
    refused = cli("definitions", "update", "profile", "--schema", NUMBERS, "--json")
    assert (refused.code != 0, refused.error["code"]) == (True, "stale_records")
    assert cli("definitions", "check").out.startswith("profile: 0 of 1 record")
    dry = cli("definitions", "update", "profile", "--schema", NUMBERS, "--migrate", LENGTH, "--check", "--json").json
    assert [(one["before"], one["after"]) for one in dry["migrations"]] == [({"language": "en"}, {"language": 2})]
    assert cli("definitions", "update", "profile", "--schema", NUMBERS, "--stale", "keep").code == 0
    assert [one["count"] for one in cli("definitions", "check", "profile", "--json").json] == [1]
    assert cli("facts", "get", "profile", "--user", "ada", "--json").json["value"] == {"language": "en"}
    assert cli("definitions", "update", "profile", "--migrate", LENGTH).code == 0
    assert cli("facts", "get", "profile", "--user", "ada", "--json").json["value"] == {"language": 2}
    assert [one["count"] for one in cli("definitions", "check", "--json").json] == [0]
