"""Ingest: JSON Lines, text and Markdown files become entries, once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from memoranda.cli.ingest import split_sections
from memoranda.errors import EmbeddingFailed
from memoranda.retrieval.embed.hashing import Hashing

IN_DOCS = ("--collection", "docs", "--project", "house")

HANDBOOK = """\
---
title: Handbook
---
Read this first.

# House rules

## Heating

Set it to 20 degrees.

```sh
# this is no heading
```

## Guests ##

They sleep upstairs.

Garden
------

Water the roses.
"""


@pytest.fixture(autouse=True)
def embedder(folder, monkeypatch):
    """An embedder that needs nothing to be loaded."""
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "hashing:64")


def write(name: str, *lines: object) -> str:
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return name


def entries(cli, *options: str) -> list[dict]:
    return cli("entries", *IN_DOCS, *options, "--json").json


def contents(cli, *options: str) -> list[Any]:
    return [entry["content"] for entry in entries(cli, *options)]


def test_lines_of_json_are_texts_or_objects(cli):
    write("a.jsonl", "The roof leaks", {"content": {"n": 1}, "metadata": {"urgency": 3}, "key": "k"})
    Path("a.jsonl").write_bytes(b"\xef\xbb\xbf" + Path("a.jsonl").read_bytes() + b"\n  \n")
    done = cli("ingest", "a.jsonl", *IN_DOCS, "--metadata", "from=mail", "--metadata", "urgency=1")
    assert (done.code, done.out, done.err) == (0, "2 entries in 1 file: 2 stored\n", "")
    first, second = entries(cli)
    assert (first["content"], first["metadata"], first["key"]) == (
        "The roof leaks",
        {"from": "mail", "urgency": "1"},
        None,
    )
    assert (second["content"], second["metadata"], second["key"]) == ({"n": 1}, {"from": "mail", "urgency": 3}, "k")
    assert first["origin"] == {
        "actor": "owner",
        "door": "cli",
        "source": "ingest:a.jsonl",
        "kind": "user",
        "trust": "high",
    }


def test_the_same_file_stores_nothing_twice(cli):
    write("a.jsonl", "one", {"content": "two", "metadata": {"m": 1}}, {"content": "three", "key": "k"})
    Path("b.txt").write_text("four")
    Path("c.md").write_text(HANDBOOK)
    first = cli("ingest", "a.jsonl", "b.txt", "c.md", *IN_DOCS, "--json").json
    assert (first["files"], first["read"], first["stored"], first["duplicates"]) == (3, 8, 8, 0)
    before = entries(cli)
    again = cli("ingest", "./c.md", "a.jsonl", str(Path("b.txt").absolute()), *IN_DOCS)
    assert again.out == "8 entries in 3 files: 0 stored, 8 there already\n"
    assert entries(cli) == before
    assert cli("ingest", "b.txt", *IN_DOCS, "--namespace", "other").out == "1 entry in 1 file: 1 stored\n"


def test_markdown_is_cut_at_its_headings(cli):
    Path("handbook.md").write_text(HANDBOOK)
    cli("ingest", "handbook.md", *IN_DOCS)
    found = entries(cli)
    assert [(entry["metadata"].get("heading"), entry["content"].splitlines()[0]) for entry in found] == [
        (None, "---"),
        ("House rules > Heating", "## Heating"),
        ("House rules > Guests", "## Guests ##"),
        ("House rules > Garden", "Garden"),
    ]
    assert "# this is no heading" in found[1]["content"]
    assert [entry["metadata"]["part"] for entry in found] == [1, 2, 3, 4]
    assert {entry["metadata"]["file"] for entry in found} == {"handbook.md"}
    assert {entry["metadata"]["thread"] for entry in found} == {"handbook.md"}


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("", []),
        ("# Only a title\n", []),
        ("no heading", [("", "no heading")]),
        ("#hashtag\n", [("", "#hashtag\n")]),
        ("# C#\nx", [("C#", "# C#\nx")]),
        ("# A\nx\n### B\ny\n## C\nz\n# D\nw", ["A", "A > B", "A > C", "D"]),
        ("A\n===\nx\n", [("A", "A\n===\nx\n")]),
        ("x\n\n---\n\ny\n", [("", "x\n\n---\n\ny\n")]),
        ("one\ntwo\n---\n", [("", "one\ntwo\n---\n")]),
        ("- item\n---\n", [("", "- item\n---\n")]),
        ("~~~~\n# no\n~~~\n# no\n~~~~\n# Yes\nx", ["", "Yes"]),
        ("``` `\n# Yes\nx", ["", "Yes"]),
        ("    # code\n", [("", "    # code\n")]),
        ("---\na: 1\n", [("", "---\na: 1\n")]),
        ("---\n# about it\na: 1\n---\nx\n# B\ny\n", ["", "B"]),
    ],
)
def test_sections(text, sections):
    found = [tuple(section) for section in split_sections(text)]
    assert found == sections or [heading for heading, _ in found] == sections
    # Nothing that says something is lost, but for headings with nothing under them.
    for line in text.splitlines():
        if line in ("x", "y", "z", "w"):
            assert any(line in body.splitlines() for _, body in found)


def test_a_long_text_is_stored_in_parts(cli):
    paragraphs = [f"Paragraph {number} says something about the garden." for number in range(6)]
    Path("long.txt").write_text("\n\n".join(paragraphs))
    cli("ingest", "long.txt", *IN_DOCS, "--chunk", "110")
    assert contents(cli) == ["\n\n".join(paragraphs[n : n + 2]) for n in (0, 2, 4)]


def test_a_changed_text_takes_the_place_of_its_old_parts(cli):
    Path("notes.md").write_text("# A\nalpha\n# B\nbeta\n# C\ngamma\n")
    Path("other.md").write_text("# A\nanother\n")
    cli("ingest", "notes.md", "other.md", *IN_DOCS)
    Path("notes.md").write_text("# A\nalpha\n# B\nbetter\n")
    done = cli("ingest", "notes.md", *IN_DOCS)
    assert done.out == "2 entries in 1 file: 1 stored, 1 of them in place of others, 1 there already, 1 forgotten\n"
    assert sorted(contents(cli)) == ["# A\nalpha", "# A\nanother", "# B\nbetter"]
    Path("notes.md").write_text("\n")
    emptied = cli("ingest", "notes.md", *IN_DOCS)
    assert emptied.out == "0 entries in 1 file: 0 stored, 2 forgotten\n"
    assert emptied.err == "notes.md holds nothing to remember.\n"
    assert contents(cli) == ["# A\nanother"]


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is not below the current one, with two files of one name."""
    outside = tmp_path_factory.mktemp("home of ada")
    for name, text in (("work", "# A\nalpha\n# B\nbeta\n"), ("garden", "# A\nroses\n")):
        (outside / name).mkdir()
        (outside / name / "notes.md").write_text(text)
    return outside


def test_files_elsewhere_are_told_apart_and_their_folders_are_not_told(cli, elsewhere):
    files = [str(elsewhere / "work" / "notes.md"), os.path.relpath(elsewhere / "garden" / "notes.md")]
    cli("ingest", *files, *IN_DOCS)
    assert sorted(contents(cli)) == ["# A\nalpha", "# A\nroses", "# B\nbeta"]
    again = cli("ingest", os.path.relpath(files[0]), os.path.abspath(files[1]), *IN_DOCS)
    assert again.out == "3 entries in 2 files: 0 stored, 3 there already\n"
    (elsewhere / "work" / "notes.md").write_text("# A\nalpha\n# B\nbetter\n")
    one = cli("ingest", files[0], *IN_DOCS)
    assert one.out == "2 entries in 1 file: 1 stored, 1 of them in place of others, 1 there already\n"
    assert {entry["metadata"]["file"].rpartition("/")[2] for entry in entries(cli)} == {"notes.md"}
    assert len({entry["metadata"]["file"] for entry in entries(cli)}) == 2
    cli("export", "all.jsonl")
    for kept in (Path("all.jsonl").read_bytes(), Path("memory.db").read_bytes()):
        assert b"/notes.md" in kept  # the control: names are in there
        for folder in (str(elsewhere.parent), elsewhere.name, "garden", "../"):
            assert folder.encode() not in kept


def test_what_was_kept_under_an_absolute_path_is_replaced(cli, elsewhere):
    """As version 0.1.0 kept it."""
    path = (elsewhere / "work" / "notes.md").as_posix()
    for part, text in enumerate(("# A\nalpha", "# B\nold", "# C\ngone"), start=1):
        cli("remember", text, *IN_DOCS, "--key", f"{path}#{part}")
    cli("remember", "mine", *IN_DOCS, "--key", "mine")
    done = cli("ingest", path, *IN_DOCS)
    assert done.out == "2 entries in 1 file: 2 stored, 3 forgotten\n"
    assert sorted(contents(cli)) == ["# A\nalpha", "# B\nbeta", "mine"]
    assert cli("ingest", path, *IN_DOCS).out == "2 entries in 1 file: 0 stored, 2 there already\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{oops", "line 2 of `bad.jsonl` is not JSON"),
        (b"\xff", "line 2 of `bad.jsonl` is not JSON"),
        (b"[1]", "line 2 of `bad.jsonl` is `[1]`, not an object or a text"),
        (b'{"text": "x"}', "line 2 of `bad.jsonl` has `text`"),
        (b'{"metadata": {}}', "line 2 of `bad.jsonl` has no `content`"),
        (b'{"content": "x", "metadata": ["m"]}', "line 2 of `bad.jsonl` has the metadata `['m']`"),
        (b'{"content": " "}', "line 2 of `bad.jsonl`: the content to remember is empty"),
        (b'{"content": "x", "key": 5}', "line 2 of `bad.jsonl`: the key cannot be used"),
        (b'{"content": "x", "metadata": {"$in": 1}}', "line 2 of `bad.jsonl`: `$in` cannot name metadata"),
        (b'"' + b"x" * 70_000 + b'"', "line 2 of `bad.jsonl`: the content takes 70,002 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_line_is_named_and_nothing_is_stored(cli, line, said):
    write("good.jsonl", "fine")
    Path("bad.jsonl").write_bytes(b'"also fine"\n' + line + b"\n")
    done = cli("ingest", "good.jsonl", "bad.jsonl", *IN_DOCS, "--json")
    assert done.code == 2
    assert done.error["message"].startswith(said)
    assert (done.error["details"]["file"], done.error["details"]["place"]) == ("bad.jsonl", "line 2")
    assert not Path("memory.db").exists()
    Path("bad.jsonl").write_bytes(b'"also fine"\n')
    cli("ingest", "good.jsonl", "bad.jsonl", *IN_DOCS)
    assert contents(cli) == ["fine", "also fine"]


def test_a_dry_run_reads_and_checks_and_stores_nothing(cli):
    write("a.jsonl", "one", "two")
    done = cli("ingest", "a.jsonl", *IN_DOCS, "--dry-run")
    assert done.out == "2 entries in 1 file could be remembered; nothing was stored\n"
    told = cli("ingest", "a.jsonl", *IN_DOCS, "--dry-run", "--json").json
    assert (told["read"], told["stored"], told["dry_run"]) == (2, 0, True)
    Path("a.jsonl").write_text("{oops\n")
    assert cli("ingest", "a.jsonl", *IN_DOCS, "--dry-run").code == 2
    assert not Path("memory.db").exists()


def test_files_that_cannot_be_ingested(cli):
    Path("a.csv").write_text("a,b\n")
    Path("latin.txt").write_bytes("café".encode("latin-1"))
    Path("folder.md").mkdir()
    for name, said in (
        ("a.csv", "the ending of `a.csv` does not determine its format"),
        ("nothing.txt", "`nothing.txt` cannot be read"),
        ("nothing.jsonl", "`nothing.jsonl` cannot be read"),
        ("folder.md", "`folder.md` cannot be read"),
        ("latin.txt", "`latin.txt` is not text in UTF-8"),
    ):
        done = cli("ingest", name, *IN_DOCS)
        assert done.code == 2
        assert done.err.startswith(f"error[usage_error]: {said}")
    assert cli("ingest", "a.csv", *IN_DOCS, "--format", "text").code == 0
    assert contents(cli) == ["a,b"]


@pytest.mark.parametrize("options", [["--ttl", "soon"], ["--namespace", " "], ["--scope", "x"], ["--chunk", "0"]])
def test_options_that_cannot_be_are_refused_before_anything_is_read(cli, options):
    write("a.jsonl", "one")
    for more in ([], ["--dry-run"]):
        assert cli("ingest", "a.jsonl", "--collection", "docs", *options, *more).code == 2
    assert not Path("memory.db").exists()
    assert cli("ingest", "a.jsonl", "--collection", "docs", "--ttl", "1d", "--namespace", "n").code == 0


def test_an_interruption_tells_how_far_it_came(cli, monkeypatch):
    write("a.jsonl", "one", "two")
    write("b.jsonl", "three")
    embed = Hashing.embed

    def interrupted(self, texts):
        if "three" in texts:
            raise KeyboardInterrupt
        return embed(self, texts)

    monkeypatch.setattr(Hashing, "embed", interrupted)
    done = cli("ingest", "a.jsonl", "b.jsonl", *IN_DOCS)
    assert (done.code, done.out) == (130, "")
    told = "Interrupted: 2 entries of 3 remembered. Ingesting the same again stores nothing twice.\n"
    assert done.err == told
    assert cli("ingest", "a.jsonl", "b.jsonl", *IN_DOCS, "--json").err == ""


def test_a_failure_tells_how_far_it_came_and_the_next_run_goes_on(cli, monkeypatch):
    write("a.jsonl", "one", "two")
    write("b.jsonl", "three")
    embed = Hashing.embed

    def failing(self, texts):
        if "three" in texts:
            raise EmbeddingFailed("the embedder gave up", hint="Try again", retryable=True)
        return embed(self, texts)

    monkeypatch.setattr(Hashing, "embed", failing)
    done = cli("ingest", "a.jsonl", "b.jsonl", *IN_DOCS, "--json")
    assert (done.code, done.error["code"]) == (1, "embedding_failed")
    assert done.error["message"].endswith("before that, 2 entries of 3 were remembered")
    assert done.error["details"]["remembered"] == 2
    assert contents(cli) == ["one", "two"]
    monkeypatch.setattr(Hashing, "embed", embed)
    again = cli("ingest", "a.jsonl", "b.jsonl", *IN_DOCS)
    assert again.out == "3 entries in 2 files: 1 stored, 2 there already\n"


def test_more_than_one_batch(cli):
    write("a.jsonl", *(f"entry {number}" for number in range(1_001)))
    assert cli("ingest", "a.jsonl", *IN_DOCS).out == "1,001 entries in 1 file: 1,001 stored\n"
    assert contents(cli)[-1] == "entry 1000"
    events = cli("ledger", "tail", "--json").json
    assert [event["detail"].get("entries") for event in events if event["effect"] == "remember"] == [1_000, None]


def test_parts_of_a_text_are_neighbours_and_other_files_are_not(cli):
    Path("a.md").write_text("# One\nThe heron.\n# Two\nThe stork.\n")
    Path("b.md").write_text("# Three\nThe crane.\n")
    cli("ingest", "a.md", "b.md", *IN_DOCS)
    [match] = cli("recall", "stork", *IN_DOCS, "--limit", "1", "--expand", "2", "--json").json["results"]
    assert [entry["content"] for entry in match["before"]] == ["# One\nThe heron."]
    assert match["after"] == []
