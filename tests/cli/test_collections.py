"""Collections: list, delete, compare, and the move to another embedder."""

from __future__ import annotations

import numpy as np
import pytest

import memoranda
from memoranda.model.entry import Calibration
from memoranda.retrieval.embed.hashing import Hashing

LINES = ("The heron stands in the pond", "A stork on the chimney", "Cranes fly south in autumn")


@pytest.fixture(autouse=True)
def embedder(folder, monkeypatch):
    """An embedder that needs nothing to be loaded."""
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "hashing:64")


@pytest.fixture
def birds(cli):
    for line in LINES:
        assert cli("remember", line, "--collection", "birds", "--user", "ada").code == 0


def listed(cli) -> dict[str, dict]:
    return {one["name"]: one for one in cli("collections", "list", "--json").json}


def best(cli) -> str:
    return cli("recall", "stork", "--collection", "birds", "--user", "ada", "--json").json["results"][0]["content"]


def test_the_list_says_what_embeds_and_how_much_there_is(cli, birds):
    cli("remember", "x", "--collection", "notes", "--namespace", "s1")
    cli("remember", "y", "--collection", "notes", "--namespace", "s2")
    assert listed(cli) == {
        "birds": {
            "name": "birds",
            "embedder": "hashing:64",
            "dimension": 64,
            "entries": 3,
            "namespaces": 1,
            "moving_to": None,
            "moved": 0,
        },
        "notes": {
            "name": "notes",
            "embedder": "hashing:64",
            "dimension": 64,
            "entries": 2,
            "namespaces": 2,
            "moving_to": None,
            "moved": 0,
        },
    }
    head, _, *rows = cli("collections", "list").out.splitlines()
    assert head.split() == ["name", "embedder", "dimension", "entries", "namespaces"]
    assert [row.split() for row in rows] == [
        ["birds", "hashing:64", "64", "3", "1"],
        ["notes", "hashing:64", "64", "2", "2"],
    ]


def test_the_group_alone_lists(cli, birds):
    assert cli("collections").out == cli("collections", "list").out != ""
    assert cli("collections", "--json").json == cli("collections", "list", "--json").json != []
    for flag in ("-h", "--help"):
        assert cli("collections", flag).out.startswith("Usage: ")
    assert cli("collections", "nonsense").code == 2


def test_no_collections_is_no_failure(cli):
    cli("facts", "set", "k", "v")
    done = cli("collections")
    assert (done.code, done.out, done.err) == (0, "", "No collections.\n")


def test_delete_wants_a_yes_and_leaves_nothing(cli, birds):
    cli("remember", "x", "--collection", "notes")
    refused = cli("collections", "delete", "birds")
    assert refused.code == 2
    assert "Delete the collection `birds` with its entries in every scope?" in refused.err
    assert set(listed(cli)) == {"birds", "notes"}
    assert cli("collections", "delete", "birds", "--yes").out == "birds is deleted, with 3 entries\n"
    assert set(listed(cli)) == {"notes"}
    gone = cli("collections", "delete", "notes", "-y", "--json").json
    assert gone == {"tenant": "default", "collection": "notes", "deleted": True, "entries": 1}
    missing = cli("collections", "delete", "birds", "--yes")
    assert missing.code == 1
    assert missing.err.startswith("error[not_found]: unknown collection `birds`")


def test_compare_tells_what_would_be_found_and_changes_nothing(cli, birds):
    found = cli("collections", "compare", "birds", "--to", "hashing:256", "--json").json
    assert (found["embedder"], found["other"], found["entries"], found["queries"]) == (
        "hashing:64",
        "hashing:256",
        3,
        3,
    )
    assert 0 <= found["agreement"] <= 1
    assert found["other_found"] == 1.0
    text = cli("collections", "compare", "birds", "--to", "hashing:256").out
    assert "hashing:256, finds 100% of what is looked for" in text
    assert "3 queries over 3 entries" in text
    asked = cli("collections", "compare", "birds", "--to", "hashing:256", "--query", "stork", "--sample", "2")
    assert "1 query over 2 entries" in asked.out
    assert "finds" not in asked.out
    assert listed(cli)["birds"]["embedder"] == "hashing:64"
    assert cli("collections", "compare", "nothing", "--to", "hashing:256").code == 1
    assert cli("collections", "compare", "birds", "--to", "hashes").code == 2


def test_reembed_moves_a_collection(cli, birds):
    assert cli("collections", "reembed", "birds", "--to", "hashing:256").out == "birds is embedded by hashing:256 now\n"
    assert (listed(cli)["birds"]["embedder"], listed(cli)["birds"]["dimension"]) == ("hashing:256", 256)
    assert best(cli) == LINES[1]
    moved = cli("collections", "reembed", "birds", "--to", "hashing:32", "--json").json
    assert (moved["tenant"], moved["name"], moved["space"]["embedder"]) == ("default", "birds", "hashing:32")
    again = cli("collections", "reembed", "birds", "--to", "hashing:32", "--json")
    assert (again.code, again.error["code"]) == (1, "conflict")


def test_a_dry_run_compares_and_changes_nothing(cli, birds):
    done = cli("collections", "reembed", "birds", "--to", "hashing:256", "--dry-run")
    assert "agreement" in done.out
    assert done.err == "Nothing was changed.\n"
    compared = cli("collections", "compare", "birds", "--to", "hashing:256", "--json").json
    assert cli("collections", "reembed", "birds", "--to", "hashing:256", "--dry-run", "--json").json == compared
    assert (listed(cli)["birds"]["embedder"], listed(cli)["birds"]["moving_to"]) == ("hashing:64", None)


def test_an_interruption_says_how_to_go_on(cli, birds, monkeypatch):
    def interrupted(self, texts):
        raise KeyboardInterrupt

    monkeypatch.setattr(Hashing, "embed", interrupted)
    done = cli("collections", "reembed", "birds", "--to", "hashing:256")
    assert (done.code, done.out) == (130, "")
    assert "The same command continues where it stopped" in done.err


def interrupt(to: str) -> None:
    """Begin a move and stop before any entry has moved."""

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with memoranda.open("memory.db", embedder="hashing:64") as memory, pytest.raises(KeyboardInterrupt):
        memory.collections.reembed("birds", to, progress=stop)


def test_a_move_that_was_interrupted_goes_on_or_is_given_up(cli, birds):
    interrupt("hashing:256")
    assert listed(cli)["birds"]["moving_to"] == "hashing:256"
    assert "hashing:256 (0 moved)" in cli("collections").out
    other = cli("collections", "reembed", "birds", "--to", "hashing:32")
    assert other.code == 1
    assert "--give-up" in other.err
    assert cli("collections", "reembed", "birds", "--give-up").out == "birds stays with hashing:64\n"
    assert listed(cli)["birds"]["moving_to"] is None
    interrupt("hashing:256")
    assert cli("collections", "reembed", "birds", "--to", "hashing:256").code == 0
    assert (listed(cli)["birds"]["embedder"], listed(cli)["birds"]["moving_to"]) == ("hashing:256", None)
    assert best(cli) == LINES[1]


@pytest.mark.parametrize(
    "options", [[], ["--dry-run"], ["--give-up", "--to", "x"], ["--give-up", "--dry-run"]], ids=str
)
def test_reembed_wants_one_thing(cli, birds, options):
    assert cli("collections", "reembed", "birds", *options).code == 2
    assert listed(cli)["birds"]["embedder"] == "hashing:64"


class Own:
    """An embedder that no setting can name."""

    id = "own"
    dimension = 2
    calibration = Calibration(middle=0.5, steepness=10.0)

    def embed(self, texts):
        return np.tile(np.array([1.0, 0.0], np.float32), (len(texts), 1))


def test_another_embedder_than_the_collections_own_is_told_with_what_to_do(cli):
    with memoranda.open("memory.db", embedder=Own()) as memory:
        memory.scope(user="ada").remember("A stork", collection="birds")
    done = cli("recall", "stork", "--collection", "birds", "--user", "ada")
    assert done.code == 1
    assert done.err.startswith("error[embedder_mismatch]: this collection needs the embedder `own`")
    assert "hint: Name it with --embedder or MEMORANDA_EMBEDDER, or run `memoranda collections reembed NAME" in done.err
    by_words = cli("recall", "stork", "--collection", "birds", "--user", "ada", "--mode", "keyword", "--json")
    assert by_words.json["count"] == 1
    assert cli("collections", "reembed", "birds", "--to", "hashing:64").code == 0
    assert best(cli) == "A stork"


def test_a_flag_beats_the_environment_and_a_collection_keeps_its_own(cli):
    cli("remember", "A stork", "--collection", "birds", "--user", "ada", "--embedder", "hashing:128")
    cli("remember", "A heron", "--collection", "birds", "--user", "ada")
    assert (listed(cli)["birds"]["embedder"], listed(cli)["birds"]["entries"]) == ("hashing:128", 2)
    assert best(cli) == "A stork"
