"""The hashing embedder, which tests use."""

from __future__ import annotations

import numpy as np
import pytest

from memoranda.errors import UsageError
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.testing.conformance.embedder import EmbedderConformance


class TestHashing(EmbedderConformance):
    @pytest.fixture
    def embedder(self) -> Hashing:
        return Hashing()


def test_the_cosine_is_the_share_of_words_in_common() -> None:
    embedder = Hashing(4_096)
    asked, half, none = embedder.embed(["red green blue grey", "red green pink teal", "seven eight nine ten"])
    assert asked @ half == pytest.approx(0.5)
    assert asked @ none == pytest.approx(0.0)


def test_case_and_punctuation_do_not_matter() -> None:
    loud, soft = Hashing().embed(["Straße, GREEN!", "strasse green"])
    assert np.array_equal(loud, soft)


def test_the_dimension_is_part_of_the_name() -> None:
    assert Hashing(64).id == "hashing:64"
    assert Hashing(64).embed(["word"]).shape == (1, 64)
    assert repr(Hashing(64)) == "Hashing(64)"


def test_vectors_are_the_same_in_every_version() -> None:
    places = [int(np.flatnonzero(row)[0]) * int(row.sum()) for row in Hashing(1_000).embed(["ferry", "island", "noon"])]
    # Stored vectors are compared with new ones, so other places would need another id.
    assert places == [-48, -303, 66]


def test_a_dimension_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="`0` is not a valid dimension"):
        Hashing(0)
    assert Hashing(1).embed(["word"]).shape == (1, 1)
