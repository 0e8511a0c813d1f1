"""Recall: what is found, how it is narrowed, and how it is shown."""

from __future__ import annotations

import re

import pytest

IN_NOTES = ("--collection", "notes", "--user", "ada")
BILL = "The bill of the plumber is 240 euros"
BIRD = "A heron stands in the garden pond"
BIKE = "The bicycle has a flat tyre"


@pytest.fixture(autouse=True)
def embedder(folder, monkeypatch):
    """An embedder that needs nothing to be loaded."""
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "hashing:256")


@pytest.fixture
def notes(cli):
    """Three entries with metadata, in two namespaces."""
    for content, metadata, namespace in (
        (BILL, '{"topic": "money", "urgency": 3, "paid": false}', "house"),
        (BIRD, '{"topic": "garden", "urgency": 1}', "house"),
        (BIKE, '{"topic": "garage", "urgency": "3"}', "street"),
    ):
        done = cli("remember", content, *IN_NOTES, "--metadata-json", metadata, "--namespace", namespace)
        assert done.code == 0, done.err


def found(cli, query: str, *options: str) -> list[str]:
    return [match["content"] for match in cli("recall", query, *IN_NOTES, *options, "--json").json["results"]]


def test_the_best_comes_first_in_a_table(cli, notes):
    done = cli("recall", "What was the bill of the plumber?", *IN_NOTES)
    assert (done.code, done.err) == (0, "")
    head, _, first, *others = done.out.splitlines()
    assert head.split() == ["score", "content", "metadata", "added"]
    score, *rest = first.split()
    assert 0.5 < float(score) <= 1.0
    assert " ".join(rest).startswith(BILL)
    assert "topic=money" in first
    assert first.rstrip().endswith("just now")
    assert len(others) == 2
    assert max(len(line) for line in done.out.splitlines()) <= 80


def test_a_long_content_is_cut_and_leaves_room_for_the_rest(cli):
    cli("remember", "heron " * 100 + "鷺" * 50, *IN_NOTES, "--metadata", "place=the pond behind the house")
    row = cli("recall", "heron", *IN_NOTES).out.splitlines()[2]
    assert "heron heron" in row
    assert re.search("…  +place=", row)
    assert row.endswith("…  just now")
    assert len(row) == 80


def test_json_has_results_count_and_why(cli, notes):
    document = cli("recall", "plumber", *IN_NOTES, "--limit", "2", "--json").json
    assert set(document) == {"results", "count", "known", "hint"}
    assert document["count"] == len(document["results"]) == 2
    first = document["results"][0]
    assert first["metadata"] == {"topic": "money", "urgency": 3, "paid": False}
    assert first["why"]["mode"] == "hybrid"
    assert first["why"]["matched"] == ["plumber"]
    assert set(first["why"]["parts"]) >= {"coverage", "dense"}
    assert 0 < first["why"]["cosine"] <= 1


def test_why_shows_the_parts_and_what_they_add_up_to(cli, notes):
    first, *others = cli("recall", "plumber bill", *IN_NOTES, "--why").out.split("\n\n")
    assert len(others) == 2
    lines = [line.split() for line in first.splitlines()]
    assert " ".join(lines[0]) == f"1. {BILL}"
    named = {words[0]: words[1:] for words in lines[1:]}
    assert set(named) >= {"score", "coverage", "dense", "total", "cosine", "lexical", "matched", "metadata", "entry"}
    assert set(named["coverage"][1]) == {"█"}
    parts = [
        float(words[0]) for name, words in named.items() if words[0][0] in "+-" and name not in ("total", "cosine")
    ]
    assert float(named["total"][0]) == pytest.approx(sum(parts), abs=0.005)
    assert named["matched"] == ["plumber,", "bill"]


def test_why_tells_what_a_word_was_read_as(cli, notes):
    assert "read as" in cli("recall", "plumbre", *IN_NOTES, "--why").out
    assert "read as" not in cli("recall", "plumber", *IN_NOTES, "--why").out


@pytest.mark.parametrize(
    ("options", "contents"),
    [
        ([], {BILL, BIRD, BIKE}),
        (["--filter", "topic=garden"], {BIRD}),
        (["--filter", "urgency=3"], {BILL, BIKE}),
        (["--filter", "urgency=3", "--filter", "topic=money"], {BILL}),
        (["--filter", "paid=false"], {BILL}),
        (["--filter", "topic=nothing"], set()),
        (["--filter-json", '{"urgency": {"$gte": 1}}'], {BILL, BIRD}),
        (["--filter-json", '{"urgency": 3}'], {BILL}),
        (["--filter-json", '{"$not": {"topic": "money"}}', "--filter", "urgency=1"], {BIRD}),
        (["--namespace", "street"], {BIKE}),
        (["--namespace", ""], set()),
        (["--limit", "0"], set()),
        (["--mode", "keyword"], {BIRD}),
        (["--threshold", "0.5"], {BIRD}),
        (["--as-of", "2001-01-01"], set()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_looked_through_can_be_narrowed(cli, notes, options, contents):
    assert set(found(cli, "heron", *options)) == contents


def test_the_past_is_found_again(cli):
    first = cli("remember", "The heron came", *IN_NOTES, "--key", "k", "--json").json
    [entry] = cli("entries", *IN_NOTES, "--json").json
    cli("forget", first["id"], *IN_NOTES)
    assert found(cli, "heron") == []
    assert found(cli, "heron", "--as-of", entry["created_at"]) == ["The heron came"]


def test_neighbours_stand_around_their_match(cli):
    for line in ("We met at the lake", "The heron stood there", "Then it rained"):
        cli("remember", line, *IN_NOTES, "--metadata", "thread=walk")
    [match] = cli("recall", "heron", *IN_NOTES, "--limit", "1", "--expand", "1", "--json").json["results"]
    assert [entry["content"] for entry in match["before"]] == ["We met at the lake"]
    assert [entry["content"] for entry in match["after"]] == ["Then it rained"]
    rows = cli("recall", "heron", *IN_NOTES, "--limit", "1", "--expand", "1").out.splitlines()[2:]
    assert [row.split()[0] == "·" for row in rows] == [True, False, True]
    assert [row.split()[1] for row in rows] == ["We", "The", "Then"]
    explained = cli("recall", "heron", *IN_NOTES, "--limit", "1", "--expand", "1", "--why").out
    assert "before" in explained and "We met at the lake" in explained
    assert len(cli("recall", "heron", *IN_NOTES, "--limit", "1").out.splitlines()) == 3


def test_an_empty_query_gives_the_newest(cli, notes):
    assert found(cli, "", "--limit", "2") == [BIKE, BIRD]


def test_nothing_found_is_no_failure(cli, notes):
    done = cli("recall", "heron", "--collection", "letters", "--user", "ada")
    assert (done.code, done.out, done.err) == (0, "", "Nothing found in letters of user:ada.\n")
    empty = cli("recall", "heron", "--collection", "letters", "--user", "ada", "--json")
    assert empty.code == 0 and empty.json["results"] == [] and empty.json["known"] is False


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--threshold", "1.5"], "usage_error"),
        (["--limit", "1000000"], "limit_exceeded"),
        (["--filter", "topic"], "usage_error"),
        (["--filter-json", "{"], "usage_error"),
        (["--filter-json", '{"topic": {"$like": "x"}}'], "invalid_filter"),
        (["--as-of", "yesterday"], "usage_error"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_asked_is_usage(cli, notes, options, code):
    done = cli("recall", "heron", *IN_NOTES, *options, "--json")
    assert (done.code, done.error["code"]) == (2, code)
    assert found(cli, "heron")[0] == BIRD


def test_a_mode_that_does_not_exist_is_usage(cli, notes):
    assert cli("recall", "heron", *IN_NOTES, "--mode", "psychic").code == 2
    assert cli("recall", "heron", *IN_NOTES, "--mode", "semantic").code == 0


def test_no_content_can_steer_the_terminal(cli):
    cli("remember", "a heron\x1b[2J\u202e", *IN_NOTES, "--metadata", "k=\x1b[31m")
    for options in ([], ["--why"]):
        text = cli("recall", "heron", *IN_NOTES, *options).out
        assert "a heron\\x1b[2J\\u202e" in text
        assert "k=\\x1b[31m" in text
        assert "\x1b" not in text


def test_the_default_embedder_finds_by_meaning(process, monkeypatch):
    monkeypatch.delenv("MEMORANDA_EMBEDDER")
    for text in ("Her doctor told her to stop smoking", "The train to Vienna leaves at nine"):
        assert process("remember", text, *IN_NOTES).code == 0
    document = process("recall", "advice of the physician", *IN_NOTES, "--json").json
    assert document["results"][0]["content"] == "Her doctor told her to stop smoking"
    assert document["results"][0]["why"]["matched"] == []
