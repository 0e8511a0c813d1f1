"""What ranking understands of metadata."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from memoranda.retrieval.index.columns import NO_ACTOR, Fields


def _labels(*metadata: dict[str, Any]) -> tuple[Fields, list[Any], list[frozenset[str]]]:
    fields = Fields()
    threads, actors, dates = fields.add([msgspec.json.encode(one) for one in metadata], ["en"] * len(metadata))
    return fields, threads, [one | other for one, other in zip(actors, dates, strict=True)]


def test_thread_comes_before_session_and_actor_before_speaker() -> None:
    fields, threads, words = _labels(
        {"thread": "t", "session": "s", "actor": "Ada", "speaker": "Grace"},
        {"session": "s", "speaker": "Grace"},
        {"thread": None, "session": 4, "actor": 7, "speaker": "Ada"},
        {},
    )
    assert threads == ["t", "s", 4, None]
    assert words == [{"ada"}, {"grace"}, {"ada"}, frozenset()]
    ada, grace, again, nobody = fields.actor.tolist()
    assert ada == again != grace
    assert nobody == NO_ACTOR


def test_what_is_neither_text_nor_a_whole_number_names_no_thread() -> None:
    _, threads, _ = _labels({"thread": True}, {"thread": 1.5}, {"thread": ["a"]}, {"thread": {"a": 1}}, {"thread": 1})
    assert threads == [None, None, None, None, 1]


def test_a_time_gives_its_year_and_month_and_the_words_for_them() -> None:
    fields, _, words = _labels(
        {"time": "2023-05-08T13:56:00Z"}, {"time": "2024-11"}, {"time": "later"}, {"time": 2023}, {"time": "2023-05-08"}
    )
    assert fields.year.tolist() == [2023, 2024, 0, 0, 2023]
    assert fields.month.tolist() == [5, 11, 0, 0, 5]
    assert words[0] == words[4] == {"may", "2023"}
    assert words[1] == {"novemb", "2024"}
    assert words[2] == words[3] == frozenset()


def test_an_actor_is_named_by_the_whole_name_or_by_a_word_nobody_else_has() -> None:
    fields, _, _ = _labels(
        {"actor": "Ada Lovelace"},
        {"actor": "Ada Byron"},
        {"actor": "Grace"},
        {"actor": "grace"},
        {"actor": "Grace Hopper"},
    )
    lovelace, byron, grace, same, hopper = fields.actor.tolist()
    assert same == grace
    assert fields.actor_named(["lovelace"]) == lovelace
    assert fields.actor_named(["ada", "byron"]) == byron
    assert fields.actor_named(["hopper"]) == hopper
    assert fields.actor_named(["grace"]) == grace
    assert fields.actor_named(["ada"]) == NO_ACTOR
    assert fields.actor_named(["lovelace", "byron"]) == NO_ACTOR
    assert fields.actor_named(["boat"]) == NO_ACTOR


def test_an_actor_without_entries_is_not_named() -> None:
    fields, _, _ = _labels({"actor": "Ada Lovelace"}, {"actor": "Ada Byron"}, {"actor": "Grace"})
    assert fields.actor_named(["ada"]) == NO_ACTOR
    fields.remove(np.array([1]))
    assert fields.actor_named(["ada"]) == fields.actor[0]
    fields.remove(np.array([0]))
    assert fields.actor_named(["ada"]) == NO_ACTOR
    assert fields.actor_named(["grace"]) == fields.actor[2]


def test_actors_keep_their_entries_when_rows_are_numbered_anew() -> None:
    fields, _, _ = _labels({"actor": "Ada"}, {"actor": "Grace", "time": "2024-02-03"}, {}, {"actor": "Linus"})
    fields.remove(np.array([0]))
    fields.keep(np.array([1, 2, 3]))
    assert fields.actor_named(["ada"]) == NO_ACTOR
    assert fields.actor.tolist() == [fields.actor_named(["grace"]), NO_ACTOR, fields.actor_named(["linus"])]
    assert fields.year.tolist() == [2024, 0, 0]
    fields.add([msgspec.json.encode({"actor": "Ada"}), msgspec.json.encode({"actor": "Linus"})], ["en", "en"])
    assert fields.actor[3] == fields.actor_named(["ada"]) != NO_ACTOR
    assert fields.actor[4] == fields.actor_named(["linus"]) == fields.actor[2]
