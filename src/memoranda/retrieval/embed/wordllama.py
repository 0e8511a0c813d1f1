"""The default embedder: WordLlama's vectors, whose weights are installed with the package and never downloaded.

A text's vector is the mean of its tokens' vectors. The weights and the tokenizer in `weights/` are byte for byte those
of WordLlama's wheel: other files would give other vectors than those already stored.

The tokenizer is byte-pair encoding as in Llama 2. Its ids are those of the `tokenizers` package, which is not used here
because installing it brings an HTTP client, and loading the file with it takes three times as long.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.errors import EmbeddingFailed
from memoranda.model.entry import Calibration
from memoranda.model.text import quote, without_halves
from memoranda.retrieval.embed.base import Vectors, to_unit

# A space is written as ▁ in the vocabulary. No token has it after another character, so the tokens of a text are those
# of these pieces, and the tokens of a piece can be cached.
_SPACE = "▁"
_PIECES = re.compile(" ++[^ ]*+|[^ ]++")
_CACHED_PIECES = 32_768
_LONGEST_CACHED = 32

# A queue entry is a number: the rank of a merge above these bits, the place in the piece within them.
_PLACE_BITS = 40
_PLACE = (1 << _PLACE_BITS) - 1


class _Model(msgspec.Struct):
    type: Literal["BPE"]
    vocab: dict[str, int]
    merges: list[str]
    byte_fallback: Literal[True]


class _Added(msgspec.Struct):
    id: int
    content: str


class _Description(msgspec.Struct):
    model: _Model
    added_tokens: list[_Added]


class Tokenizer:
    """A byte-pair tokenizer. Thread-safe."""

    def __init__(self, description: bytes) -> None:
        """Read the JSON of a tokenizer; raise `msgspec.DecodeError` if it is of another kind."""
        read = msgspec.json.decode(description, type=_Description)
        self._ids = read.model.vocab
        # By the two symbols of a merge with a space between, as in the file: no symbol contains a space.
        self._ranks = {pair: rank for rank, pair in enumerate(read.model.merges)}
        self._bytes = [f"<0x{byte:02X}>" for byte in range(256)]
        missing = [symbol for symbol in (_SPACE, *self._bytes) if symbol not in self._ids]
        if missing:
            raise msgspec.ValidationError(f"the vocabulary has no `{missing[0]}`")
        # Special tokens are split off first. None is a prefix of another.
        self._special = {added.content: added.id for added in read.added_tokens}
        self._specials = re.compile(f"({'|'.join(map(re.escape, self._special))})")
        self._cache: dict[str, list[int]] = {}

    @property
    def size(self) -> int:
        """Return the number of token ids."""
        return max(*self._ids.values(), *self._special.values()) + 1

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; white space alone has none. The caller must not modify the list."""
        if not text or text.isspace():
            return []
        known = self._cache.get(f" {text}")
        if known is not None:  # a single word of a query
            return known
        if self._specials.search(text) is None:
            return self._ids_of(text)
        ids: list[int] = []
        for part in self._specials.split(text):
            if part in self._special:
                ids.append(self._special[part])
            elif part:
                ids += self._ids_of(part)
        return ids

    def _ids_of(self, text: str) -> list[int]:
        """Return the ids of a text without special tokens. A space is prepended, as in training."""
        cache = self._cache
        ids: list[int] = []
        for piece in _PIECES.findall(f" {text.replace(_SPACE, ' ')}"):
            known = cache.get(piece)
            ids += self._learn(piece) if known is None else known
        return ids

    def _learn(self, piece: str) -> list[int]:
        ids = [self._ids[symbol] for symbol in self._merge(self._symbols(piece))]
        if len(piece) <= _LONGEST_CACHED:
            if len(self._cache) >= _CACHED_PIECES:
                self._cache = {}
            self._cache[piece] = ids
        return ids

    def _symbols(self, piece: str) -> list[str]:
        """Return the characters of a piece; those that the vocabulary lacks as UTF-8 bytes."""
        characters = list(without_halves(piece).replace(" ", _SPACE))
        if all(map(self._ids.__contains__, characters)):
            return characters
        symbols: list[str] = []
        for character in characters:
            symbols += (character,) if character in self._ids else (self._bytes[byte] for byte in character.encode())
        return symbols

    def _merge(self, symbols: list[str]) -> list[str]:
        """Merge neighbours until no merge applies: the lowest rank first, of equal ranks the leftmost.

        A priority queue of the possible merges makes this O(n log n); with a linear search for each, one long word
        could take minutes. Entries whose symbols have changed meanwhile are skipped.
        """
        ranks, end = self._ranks, len(symbols)
        queue = [
            rank << _PLACE_BITS | place
            for place, pair in enumerate(map(" ".join, pairwise(symbols)))
            if (rank := ranks.get(pair)) is not None
        ]
        if not queue:
            return symbols
        heapify(queue)
        before, after = list(range(-1, end - 1)), list(range(1, end + 1))
        while queue:
            entry = heappop(queue)
            place = entry & _PLACE
            right = after[place]
            if right == end or ranks.get(f"{symbols[place]} {symbols[right]}") != entry >> _PLACE_BITS:
                continue
            symbols[place] += symbols[right]
            symbols[right] = ""  # no merge has an empty symbol, so entries of this place are skipped
            after[place] = following = after[right]
            if following < end:
                before[following] = place
                rank = ranks.get(f"{symbols[place]} {symbols[following]}")
                if rank is not None:
                    heappush(queue, rank << _PLACE_BITS | place)
            preceding = before[place]
            if preceding >= 0:
                rank = ranks.get(f"{symbols[preceding]} {symbols[place]}")
                if rank is not None:
                    heappush(queue, rank << _PLACE_BITS | preceding)
        return [symbol for symbol in symbols if symbol]


DIMENSION = 256

_FOLDER = Path(__file__).with_name("weights")
_WEIGHTS = f"l2_supercat_{DIMENSION}.safetensors"
_TOKENIZER = "l2_supercat_tokenizer_config.json"

# From `bench/calibrate.py wordllama`.
_CALIBRATION = Calibration(middle=0.167, steepness=23.2)

# Letters to a token in words that mean nothing to it, and in those that mean something: Greek, Thai and Chinese have
# 0.7 to 1, Russian and French 2.1, German 2.8, English 4.1.
_UNKNOWN, _KNOWN = 1.2, 3.5

# Tokens whose vectors are summed at once: half a megabyte, which stays in the processor's cache. A longer text is
# summed by the counts of its distinct tokens, so that memory does not grow with its length.
_PORTION = 1_024

_TOGETHER = 8
"""Portions whose tokens are converted to float32 together, which takes longer than adding them up."""

_Portion = tuple[list[int], list[int], list[int]]


class WordLlama:
    """WordLlama with 256 dimensions, loaded on first use, once per process."""

    reproducible = True

    @property
    def id(self) -> str:
        """Return `wordllama:` and the dimension."""
        return f"wordllama:{DIMENSION}"

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return DIMENSION

    @property
    def calibration(self) -> Calibration:
        """Return how cosines become relevances, as measured."""
        return _CALIBRATION

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order."""
        table = _load()
        sums = np.zeros((len(texts), DIMENSION), np.float32)
        portions = _portions([table.tokenizer.encode(text) for text in texts])
        while together := list(islice(portions, _TOGETHER)):
            vectors_of = table.vectors if len(together) == 1 else table.converter([ids for _, ids, _ in together])
            for rows, ids, starts in together:
                if len(ids) > _PORTION:
                    distinct, counts = np.unique(ids, return_counts=True)
                    sums[rows] = counts.astype(np.float32) @ table.vectors(distinct)
                else:
                    sums[rows] = np.add.reduceat(vectors_of(ids), starts, axis=0)
        return to_unit(sums)

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        """Return the unit vector (a single row) of a query with weighted words."""
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

    def knows(self, words: Sequence[str], weights: Sequence[float]) -> float:
        """Return from 0 to 1 how much of a query with weighted words it knows.

        What it knows has tokens of its own, of several letters; a word of another language is cut into pieces that mean
        nothing, in the end into single letters or bytes.
        """
        table = _load()
        letters = tokens = 0.0
        for word, weight in zip(words, weights, strict=True):
            letters += weight * len(word)
            tokens += weight * len(table.tokenizer.encode(word))
        if not tokens:
            return 0.0
        return min(max((letters / tokens - _UNKNOWN) / (_KNOWN - _UNKNOWN), 0.0), 1.0)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return "WordLlama()"


class _Table:
    """A tokenizer and the vector of each of its tokens."""

    def __init__(self, tokenizer: Tokenizer, weights: NDArray[Any]) -> None:
        self.tokenizer = tokenizer
        self._weights = weights

    def vectors(self, tokens: list[int] | NDArray[np.int64]) -> Vectors:
        """Return the vectors of some tokens, one row each."""
        return self._weights.take(tokens, axis=0).astype(np.float32)

    def converter(self, portions: Sequence[list[int]]) -> Callable[[list[int]], Vectors]:
        """Return the same for the tokens of several portions: each token that occurs in them is converted once."""
        used = np.zeros(len(self._weights), np.bool_)
        for ids in portions:
            if len(ids) <= _PORTION:
                used[ids] = True
        distinct = np.flatnonzero(used)
        vectors = self.vectors(distinct)
        places = np.zeros(len(used), np.int64)
        places[distinct] = np.arange(len(distinct))
        return lambda ids: vectors.take(places[ids], axis=0)


def _portions(texts: Sequence[list[int]]) -> Iterator[_Portion]:
    """Yield (rows, tokens, start of each row's tokens), with at most a portion of tokens or one long text at a time.

    Texts without tokens are skipped.
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
    """Return the table, loading it on first use."""
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
        raise _file_error(error.filename, error.strerror or "it cannot be read") from error
    if tokenizer.size > len(weights):
        raise _file_error(folder / _WEIGHTS, "it has fewer vectors than the tokenizer has tokens")
    return _Table(tokenizer, weights)


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer(path.read_bytes())
    except msgspec.DecodeError as error:
        raise _file_error(path, f"it does not describe the tokenizer ({error})") from error


class _Tensor(msgspec.Struct):
    dtype: str
    shape: tuple[int, int]
    data_offsets: tuple[int, int]


class _Header(msgspec.Struct):
    weights: _Tensor = msgspec.field(name="embedding.weight")


def _map_weights(path: Path) -> NDArray[Any]:
    """Memory-map the token vectors of a safetensors file: only the pages that are used take memory."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        try:
            tensor = msgspec.json.decode(file.read(max(0, min(begin, size) - 8)), type=_Header).weights
        except msgspec.DecodeError as error:
            raise _file_error(path, f"its header cannot be read ({error})") from error
    rows, columns = tensor.shape
    if tensor.dtype != "F16" or columns != DIMENSION:
        raise _file_error(path, f"it holds {columns} columns of {tensor.dtype}, not {DIMENSION} of F16")
    first, last = tensor.data_offsets
    if last - first != rows * columns * 2 or begin + last > size:
        raise _file_error(path, "it is shorter than its header says")
    return np.asarray(np.memmap(path, np.dtype("<f2"), "r", offset=begin + first, shape=(rows, columns)))


def _file_error(path: object, why: str) -> EmbeddingFailed:
    return EmbeddingFailed(
        f"the file {quote(str(path), longest=250)} of the default embedder cannot be used: {why}",
        hint="Install Memoranda again (`pip install --force-reinstall memoranda` on the command line), "
        "or name another embedder",
        retryable=False,
    )
