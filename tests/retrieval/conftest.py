"""Build index shelves from texts, with rows as a store returns them, and query them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from memoranda.model.entry import Calibration, Indexed
from memoranda.model.trust import TRUSTED, Origin
from memoranda.retrieval.analysis.analyser import analyse, pack
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.retrieval.filter import parse_filter
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.influence import Crowd
from memoranda.retrieval.rank import Ranked, embed_query, prepare, rank

EMBEDDER = Hashing(64)

MakeRows = Callable[..., list[Indexed]]
MakeShelf = Callable[..., ShelfIndex]
Ask = Callable[..., list[Ranked]]


@pytest.fixture(scope="session")
def make_rows() -> MakeRows:
    """Return a function that makes rows from texts or `(text, metadata)` pairs."""

    def make(
        texts: Sequence[str | tuple[str, dict[str, Any]]],
        *,
        first: int = 1,
        namespace: str = "",
        expires_at: int | None = None,
        origin: Origin = TRUSTED,
    ) -> list[Indexed]:
        pairs = [(text, {}) if isinstance(text, str) else text for text in texts]
        vectors = EMBEDDER.embed([text for text, _ in pairs])
        return [
            Indexed(
                first + place,
                namespace,
                msgspec.json.encode(metadata),
                expires_at,
                pack(analyse(text)),
                vectors[place].astype("<f4").tobytes(),
                origin,
            )
            for place, (text, metadata) in enumerate(pairs)
        ]

    return make


@pytest.fixture(scope="session")
def make_shelf(make_rows: MakeRows) -> MakeShelf:
    """Return a function that builds an index of texts."""

    def make(texts: Sequence[str | tuple[str, dict[str, Any]]], **options: Any) -> ShelfIndex:
        index = ShelfIndex(EMBEDDER.dimension)
        index.add(make_rows(texts, **options))
        return index

    return make


@pytest.fixture(scope="session")
def ask() -> Ask:
    """Return a function that queries an index."""

    def asked(
        index: ShelfIndex,
        text: str,
        *,
        mode: Any = "hybrid",
        now: int = 0,
        limit: int = 10,
        filter: dict[str, Any] | None = None,
        calibration: Calibration = EMBEDDER.calibration,
        crowd: Crowd | None = None,
        **options: Any,
    ) -> list[Ranked]:
        prepared = prepare(index, text, now=now, crowd=crowd)
        vector = None if mode == "keyword" else embed_query(EMBEDDER, prepared)
        return rank(
            index,
            prepared,
            vector,
            mode=mode,
            now=now,
            limit=limit,
            where=parse_filter(filter),
            calibration=calibration,
            **options,
        )

    return asked
