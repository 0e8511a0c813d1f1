"""The default embedder: WordLlama's vectors, whose weights are installed with the package and never fetched.

A text's vector is the mean of its tokens' vectors. The weights and the tokenizer are in `weights/`, as the wheel of
WordLlama has them, byte for byte: other files would give other vectors for what is stored already.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.errors import EmbeddingFailed
from memoranda.model.collection import Calibration
from memoranda.model.text import quote
from memoranda.retrieval.embed.base import Vectors
from memoranda.retrieval.embed.tokenizer import Tokenizer
from memoranda.retrieval.embed.unit import to_unit

DIMENSION = 256

_FOLDER = Path(__file__).with_name("weights")
_WEIGHTS = f"l2_supercat_{DIMENSION}.safetensors"
_TOKENIZER = "l2_supercat_tokenizer_config.json"

# What `bench/calibrate.py wordllama` prints.
_CALIBRATION = Calibration(middle=0.167, steepness=23.2)

# Tokens whose vectors are summed at once: half a megabyte, which stays in the processor's cache. A text that has
# more is summed by how often it has each token, so that its length never decides how much memory it takes.
_PORTION = 1_024

_Portion = tuple[list[int], list[int], list[int]]


class WordLlama:
    """WordLlama's 256 dimensions. Loads when it first embeds, once for all instances in a process."""

    reproducible = True

    @property
    def id(self) -> str:
        """Return the name of the space."""
        return f"wordllama:{DIMENSION}"

    @property
    def dimension(self) -> int:
        """Return how many numbers a vector has."""
        return DIMENSION

    @property
    def calibration(self) -> Calibration:
        """Return how its cosines become relevances, as it was measured."""
        return _CALIBRATION

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order."""
        table = _load()
        sums = np.zeros((len(texts), DIMENSION), np.float32)
        for rows, ids, starts in _portions([table.tokenizer.encode(text) for text in texts]):
            if len(ids) > _PORTION:
                distinct, counts = np.unique(ids, return_counts=True)
                sums[rows] = counts.astype(np.float32) @ table.vectors(distinct)
            else:
                sums[rows] = np.add.reduceat(table.vectors(ids), starts, axis=0)
        return to_unit(sums)

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        """Return one unit vector (a single row) of a query whose words count as much as their weights say."""
        table = _load()
        ids: list[int] = []
        counting: list[float] = []
        for word, weight in zip(words, weights, strict=True):
            tokens = table.tokenizer.encode(word)
            ids += tokens
            counting += [weight] * len(tokens)
        if not ids:
            return to_unit(np.zeros((1, DIMENSION), np.float32))
        return to_unit(np.array([counting], np.float32).dot(table.vectors(ids)))

    def __repr__(self) -> str:
        """Return how to make it."""
        return "WordLlama()"


class _Table:
    """A tokenizer and the vector of each of its tokens."""

    def __init__(self, tokenizer: Tokenizer, weights: NDArray[Any]) -> None:
        self.tokenizer = tokenizer
        self._weights = weights

    def vectors(self, tokens: list[int] | NDArray[np.int64]) -> Vectors:
        """Return the vectors of some tokens, one row each."""
        return self._weights.take(tokens, axis=0).astype(np.float32)


def _portions(texts: Sequence[list[int]]) -> Iterator[_Portion]:
    """Yield (rows, tokens, where each row's tokens start), at most a portion of tokens or one long text at a time.

    The rows are those of the texts that have tokens.
    """
    rows: list[int] = []
    ids: list[int] = []
    starts: list[int] = []
    for row, tokens in enumerate(texts):
        if rows and len(ids) + len(tokens) > _PORTION:
            yield rows, ids, starts
            rows, ids, starts = [], [], []
        if tokens:
            rows.append(row)
            starts.append(len(ids))
            ids += tokens
    if rows:
        yield rows, ids, starts


_loading = threading.Lock()
_loaded: _Table | None = None


def _load() -> _Table:
    """Return the table, read when it is first needed."""
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                _loaded = _read(_FOLDER)
    return _loaded


def _read(folder: Path) -> _Table:
    try:
        tokenizer = _read_tokenizer(folder / _TOKENIZER)
        weights = _map_weights(folder / _WEIGHTS)
    except OSError as error:
        raise _damaged(error.filename, error.strerror or "it cannot be read") from error
    if tokenizer.size > len(weights):
        raise _damaged(folder / _WEIGHTS, "it has fewer vectors than the tokenizer has tokens")
    return _Table(tokenizer, weights)


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer(path.read_bytes())
    except msgspec.DecodeError as error:
        raise _damaged(path, f"it does not describe the tokenizer ({error})") from error


class _Tensor(msgspec.Struct):
    dtype: str
    shape: tuple[int, int]
    data_offsets: tuple[int, int]


class _Header(msgspec.Struct):
    weights: _Tensor = msgspec.field(name="embedding.weight")


def _map_weights(path: Path) -> NDArray[Any]:
    """Return the token vectors of a safetensors file, mapped: only the pages that are used take memory."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        try:
            tensor = msgspec.json.decode(file.read(max(0, min(begin, size) - 8)), type=_Header).weights
        except msgspec.DecodeError as error:
            raise _damaged(path, f"its header cannot be read ({error})") from error
    rows, columns = tensor.shape
    if tensor.dtype != "F16" or columns != DIMENSION:
        raise _damaged(path, f"it holds {columns} columns of {tensor.dtype}, not {DIMENSION} of F16")
    first, last = tensor.data_offsets
    if last - first != rows * columns * 2 or begin + last > size:
        raise _damaged(path, "it is shorter than its header says")
    return np.asarray(np.memmap(path, np.dtype("<f2"), "r", offset=begin + first, shape=(rows, columns)))


def _damaged(path: object, why: str) -> EmbeddingFailed:
    return EmbeddingFailed(
        f"the file {quote(str(path), longest=250)} of the default embedder cannot be used: {why}",
        hint="Install Memoranda again with `pip install --force-reinstall memoranda`, or name another embedder",
        retryable=False,
    )
