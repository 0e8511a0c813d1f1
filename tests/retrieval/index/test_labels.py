"""What ranking understands of metadata."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from memoranda.retrieval.index.labels import NOBODY, Labels


def _labels(*metadata: dict[str, Any]) -> tuple[Labels, list[Any], list[frozenset[str]]]:
    labels = Labels()
    threads, actors, dates = labels.add([msgspec.json.encode(one) for one in metadata], ["en"] * len(metadata))
    return labels, threads, [one | other for one, other in zip(actors, dates, strict=True)]


def test_thread_comes_before_session_and_actor_before_speaker() -> None:
    labels, threads, words = _labels(
        {"thread": "t", "session": "s", "actor": "Ada", "speaker": "Grace"},
        {"session": "s", "speaker": "Grace"},
        {"thread": None, "session": 4, "actor": 7, "speaker": "Ada"},
        {},
    )
    assert threads == ["t", "s", 4, None]
    assert words == [{"ada"}, {"grace"}, {"ada"}, frozenset()]
    ada, grace, again, nobody = labels.actor.tolist()
    assert ada == again != grace
    assert nobody == NOBODY


def test_what_is_neither_text_nor_a_whole_number_names_no_thread() -> None:
    _, threads, _ = _labels({"thread": True}, {"thread": 1.5}, {"thread": ["a"]}, {"thread": {"a": 1}}, {"thread": 1})
    assert threads == [None, None, None, None, 1]


def test_a_time_gives_its_year_and_month_and_the_words_for_them() -> None:
    labels, _, words = _labels(
        {"time": "2023-05-08T13:56:00Z"}, {"time": "2024-11"}, {"time": "later"}, {"time": 2023}, {"time": "2023-05-08"}
    )
    assert labels.year.tolist() == [2023, 2024, 0, 0, 2023]
    assert labels.month.tolist() == [5, 11, 0, 0, 5]
    assert words[0] == words[4] == {"may", "2023"}
    assert words[1] == {"novemb", "2024"}
    assert words[2] == words[3] == frozenset()


def test_an_actor_is_named_by_the_whole_name_or_by_a_word_nobody_else_has() -> None:
    labels, _, _ = _labels(
        {"actor": "Ada Lovelace"},
        {"actor": "Ada Byron"},
        {"actor": "Grace"},
        {"actor": "grace"},
        {"actor": "Grace Hopper"},
    )
    lovelace, byron, grace, same, hopper = labels.actor.tolist()
    assert same == grace
    assert labels.named(["lovelace"]) == lovelace
    assert labels.named(["ada", "byron"]) == byron
    assert labels.named(["hopper"]) == hopper
    assert labels.named(["grace"]) == grace
    assert labels.named(["ada"]) == NOBODY
    assert labels.named(["lovelace", "byron"]) == NOBODY
    assert labels.named(["boat"]) == NOBODY


def test_an_actor_without_entries_is_not_named() -> None:
    labels, _, _ = _labels({"actor": "Ada Lovelace"}, {"actor": "Ada Byron"}, {"actor": "Grace"})
    assert labels.named(["ada"]) == NOBODY
    labels.remove(np.array([1]))
    assert labels.named(["ada"]) == labels.actor[0]
    labels.remove(np.array([0]))
    assert labels.named(["ada"]) == NOBODY
    assert labels.named(["grace"]) == labels.actor[2]


def test_actors_keep_their_entries_when_rows_are_numbered_anew() -> None:
    labels, _, _ = _labels({"actor": "Ada"}, {"actor": "Grace", "time": "2024-02-03"}, {}, {"actor": "Linus"})
    labels.remove(np.array([0]))
    labels.keep(np.array([1, 2, 3]))
    assert labels.named(["ada"]) == NOBODY
    assert labels.actor.tolist() == [labels.named(["grace"]), NOBODY, labels.named(["linus"])]
    assert labels.year.tolist() == [2024, 0, 0]
    labels.add([msgspec.json.encode({"actor": "Ada"}), msgspec.json.encode({"actor": "Linus"})], ["en", "en"])
    assert labels.actor[3] == labels.named(["ada"]) != NOBODY
    assert labels.actor[4] == labels.named(["linus"]) == labels.actor[2]
