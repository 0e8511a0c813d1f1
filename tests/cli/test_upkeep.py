"""Erase, sweep, export, import, doctor and config."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from memoranda.store.sqlite import SqliteStore


def test_erase_wants_a_subject_and_a_yes(cli):
    cli("facts", "set", "k", "v", "--user", "ada")
    assert cli("erase", "--yes").code == 2
    refused = cli("erase", "--user", "ada")
    assert refused.code == 2
    assert "This cannot be undone" in refused.err
    assert cli("facts", "get", "k", "--user", "ada").code == 0


def test_erase_prints_the_receipt(cli):
    cli("facts", "set", "k", "v", "--user", "ada", "--agent", "mail")
    receipt = cli("erase", "--user", "ada", "--yes", "--json").json
    assert (receipt["tenant"], receipt["scope"], receipt["position"]) == ("default", "user:ada", 2)
    assert (receipt["removed"]["facts"], receipt["scrubbed"]) == (1, True)
    remains = receipt["remains"]
    assert (remains["rows"], remains["free_space"], remains["log"]) == ("gone", "gone", "gone")
    assert remains["copies"] == "untested"
    cli("facts", "set", "k", "v", "--user", "ada", "--agent", "mail")
    text = cli("erase", "--scope", "user:ada/agent:mail", "-y").out
    assert "user:ada/agent:mail" in text
    assert "1 fact, 1 revision" in text
    assert cli("facts", "history", "k", "--user", "ada", "--agent", "mail").code == 1
    assert cli("doctor").code == 0


def test_a_receipt_names_the_places_where_removed_text_may_be(cli, monkeypatch):
    cli("facts", "set", "k", "v", "--user", "ada")
    monkeypatch.setenv("MEMORANDA_BUSY_TIMEOUT", "0.1")
    with SqliteStore("memory.db") as reading:
        erased = reading.read(lambda rows: (rows.tenants(), cli("erase", "--user", "ada", "-y"))[1])
    assert "scrubbed  no" in erased.out
    assert "free space, the write-ahead log, copies" in erased.out + erased.err
    assert "others are reading the file" in erased.out + erased.err


def test_upgrading_a_file_leaves_nothing_to_finish(cli):
    cli("facts", "set", "k", "v")
    assert cli("upgrade").out == "The database has the schema of this version\n"
    assert cli("upgrade", "--finish", "--json").json == {"finished": False}


def test_sweep_counts_what_it_removed(cli):
    cli("facts", "set", "k", "v", "--ttl", "1s")
    time.sleep(1.1)
    done = cli("sweep", "--scrub", "--json").json
    assert (done["removed"]["facts"], done["scrubbed"]) == (1, True)
    assert cli("sweep").out == "Removed: nothing\n"
    assert cli("sweep", "--json").json["scrubbed"] is False


def test_export_and_import_carry_memory(cli):
    cli("facts", "set", "k", "v", "--user", "ada")
    cli("facts", "set", "k", "v", "--user", "bob")
    assert cli("export", "ada.jsonl", "--user", "ada").out == "1 item of user:ada written to ada.jsonl\n"
    assert cli("export", "all.jsonl", "--json").json["written"] == 2
    assert "tenant default" in cli("export", "all.jsonl").out
    done = cli("import", "all.jsonl", "--db", "other.db", "--json").json
    assert (done["written"], done["kept"], done["definitions"], done["remembered"]) == (2, 0, 0, 0)
    again = cli("import", "all.jsonl", "--db", "other.db").out
    assert again == "Written: 0 facts, 0 entries, 0 definitions\nLeft alone: 2 unchanged or newer here\n"
    fact = cli("facts", "get", "k", "--user", "bob", "--db", "other.db", "--json").json
    origin = {"actor": "owner", "door": "cli", "source": "import:all.jsonl", "kind": "import", "trust": "high"}
    assert fact["origin"] == origin


def test_entries_travel_expire_and_are_erased(cli, monkeypatch):
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "hashing:64")
    cli("remember", "A heron", "--collection", "birds", "--user", "ada")
    assert cli("export", "all.jsonl").out == "1 item of tenant default written to all.jsonl\n"
    done = cli("import", "all.jsonl", "--db", "other.db", "--embedder", "hashing:32")
    assert done.out == "Written: 0 facts, 1 entry, 0 definitions\n"
    [held] = cli("collections", "--db", "other.db", "--json").json
    assert (held["name"], held["embedder"], held["entries"]) == ("birds", "hashing:32", 1)
    cli("remember", "A stork", "--collection", "birds", "--user", "ada", "--ttl", "1s")
    time.sleep(1.1)
    assert cli("sweep", "--json").json["removed"]["entries"] == 1
    assert "1 entry" in cli("erase", "--user", "ada", "--yes").out
    assert cli("entries", "--collection", "birds", "--user", "ada", "--json").json == []


def test_import_reads_stdin(cli):
    cli("facts", "set", "k", "v")
    cli("export", "all.jsonl")
    done = cli("import", "-", "--db", "other.db", input=Path("all.jsonl").read_bytes())
    assert done.out == "Written: 1 fact, 0 entries, 0 definitions\n"


def test_files_that_cannot_be_used(cli):
    cli("facts", "set", "k", "v")
    assert cli("export", "-").code == 2
    assert not Path("-").exists()
    assert cli("export", "all.jsonl").code == 0
    assert cli("import", "nothing.jsonl").code == 2
    Path("wrong.jsonl").write_text("hello\n")
    assert "line 1 is not a line of an export" in cli("import", "wrong.jsonl").err
    unwritable = cli("export", "no/such/folder/x.jsonl", "--json")
    assert (unwritable.code, unwritable.error["code"]) == (1, "unavailable")


def test_doctor_is_content_with_a_healthy_database(cli):
    cli("facts", "set", "k", "v", "--user", "ada")
    cli("facts", "set", "k", "v", "--tenant", "other")
    done = cli("doctor", "--json")
    assert done.code == 0
    assert done.json["ok"] is True
    named = [finding["what"] for finding in done.json["findings"]]
    assert {"memoranda", "Python", "SQLite", "database file", "free disk space", "durability", "schema"} <= set(named)
    assert "embedder" in named
    assert {"ledger of default", "ledger of other", "facts of default agree with the ledger"} <= set(named)
    text, told = cli("doctor")[1:]
    assert "BAD" not in text
    assert told == "No problems found.\n"
    assert max(len(line) for line in text.splitlines()) <= 80


def test_doctor_finds_a_broken_chain(cli, tamper):
    for number in range(3):
        cli("facts", "set", f"k{number}", "v")
    assert cli("doctor").code == 0
    tamper("memory.db", 2)
    done = cli("doctor")
    assert done.code == 1
    assert "position 2" in done.out
    assert done.err.startswith("1 of ")
    found = cli("doctor", "--json")
    assert found.code == 1
    [bad] = [finding for finding in found.json["findings"] if not finding["ok"]]
    assert bad["what"] == "ledger of default"
    assert bad["detail"].startswith("position 2")


def test_doctor_says_what_is_wrong_with_a_file_that_is_no_database(cli):
    Path("memory.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
    done = cli("doctor", "--json")
    assert done.code == 1
    assert done.json["findings"][-1]["ok"] is False


def test_doctor_says_whether_the_embedder_loads(cli, monkeypatch):
    cli("facts", "set", "k", "v")

    def embedder(*options: str) -> tuple[int, bool, str]:
        done = cli("doctor", *options, "--json")
        [finding] = [finding for finding in done.json["findings"] if finding["what"] == "embedder"]
        return done.code, finding["ok"], finding["detail"]

    assert embedder() == (0, True, "wordllama:256, 256 dimensions")
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "hashing:64")
    assert embedder() == (0, True, "hashing:64, 64 dimensions")
    for name in ("onnx:nowhere", "word2vec"):
        code, well, detail = embedder("--embedder", name)
        assert (code, well) == (1, False)
        assert detail.startswith(f"{name}: ")


def test_config_says_where_each_value_came_from(cli, monkeypatch):
    monkeypatch.setenv("MEMORANDA_TENANT", "acme")
    monkeypatch.setenv("MEMORANDA_BUSY_TIMEOUT", "0.5")
    shown = cli("config", "show", "--db", "x.db", "--json").json
    assert shown["db"] == {"value": "x.db", "origin": "flag", "variable": "MEMORANDA_DB"}
    assert shown["tenant"] == {"value": "acme", "origin": "environment", "variable": "MEMORANDA_TENANT"}
    assert shown["busy_timeout"]["value"] == 0.5
    assert (shown["durability"]["value"], shown["ledger"]["origin"]) == ("full", "default")
    assert shown["embedder"] == {"value": "wordllama", "origin": "default", "variable": "MEMORANDA_EMBEDDER"}
    assert cli("config", "show", "--embedder", "hashing:64", "--json").json["embedder"]["origin"] == "flag"
    assert "acme" in cli("config", "show").out


def test_config_show_says_where_the_database_is_without_its_password(cli):
    shown = cli("config", "show", "--db", "postgresql://ada:hush@db.example/team", "--json")
    assert shown.json["db"]["value"] == "postgresql://ada@db.example/team"
    assert "hush" not in shown.out
    assert not Path("x.db").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("MEMORANDA_DURABILITY", "maybe"), ("MEMORANDA_LEDGER", "none"), ("MEMORANDA_BUSY_TIMEOUT", "nan")],
)
def test_a_wrong_variable_is_named(cli, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    done = cli("facts", "set", "k", "v")
    assert done.code == 2
    assert f"`{value}` in {name}" in done.err


def test_the_environment_names_database_and_tenant(cli, monkeypatch):
    monkeypatch.setenv("MEMORANDA_DB", "sqlite:///team.db")
    monkeypatch.setenv("MEMORANDA_TENANT", "acme")
    cli("facts", "set", "k", "v")
    assert Path("team.db").exists()
    monkeypatch.delenv("MEMORANDA_DB")
    assert cli("facts", "get", "k", "--db", "team.db", "--tenant", "acme").out == "v\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["facts", "get", "k"],
        ["facts", "list"],
        ["facts", "history", "k"],
        ["facts", "delete", "k"],
        ["definitions", "list"],
        ["definitions", "show", "d"],
        ["definitions", "records", "d"],
        ["definitions", "update", "d", "--clear-ttl"],
        ["definitions", "delete", "d"],
        ["recall", "q", "--collection", "c"],
        ["entries", "--collection", "c"],
        ["forget", "e", "--collection", "c"],
        ["collections"],
        ["collections", "list"],
        ["collections", "delete", "c"],
        ["collections", "compare", "c", "--to", "hashing:64"],
        ["collections", "reembed", "c", "--to", "hashing:64"],
        ["collections", "reembed", "c", "--give-up"],
        ["ledger", "verify"],
        ["ledger", "verify", "--all-tenants"],
        ["ledger", "tail"],
        ["ledger", "show", "1"],
        ["ledger", "show", "r1"],
        ["ledger", "anchor"],
        ["permissions", "list"],
        ["permissions", "revoke", "g"],
        ["approvals", "list"],
        ["approvals", "show", "a"],
        ["approvals", "approve", "a"],
        ["approvals", "refuse", "a"],
        ["runs"],
        ["runs", "show", "r1"],
        ["sessions", "end", "s"],
        ["erase", "--user", "ada"],
        ["sweep"],
        ["export", "x.jsonl"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_only_what_adds_something_makes_a_database(cli, folder, arguments):
    done = cli(*arguments, "--json")
    assert (done.code, done.error["code"]) == (1, "not_found")
    assert done.error["message"] == "no database exists at `memory.db`"
    assert "--db" in done.error["hint"]
    assert list(folder.iterdir()) == []
