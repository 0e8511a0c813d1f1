"""Texts in, WordLlama's vectors out: the default embedder, whose weights are installed with us and never fetched.

A text's vector is the mean of its tokens' vectors. The weights and the tokenizer are the files inside the `wordllama`
package; the package itself is not imported, because that takes longer than all the work here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from recollect.errors import EmbeddingFailed
from recollect.model.collection import Calibration
from recollect.model.text import quote, without_halves
from recollect.retrieval.embed.base import Vectors
from recollect.retrieval.embed.unit import to_unit

DIMENSION = 256

_WEIGHTS = f"weights/l2_supercat_{DIMENSION}.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"

# What `bench/calibrate.py wordllama` prints.
_CALIBRATION = Calibration(middle=0.167, steepness=23.2)

# Tokens whose vectors are summed at once: half a megabyte, which stays in the processor's cache. A text that has
# more is summed by how often it has each token, so that its length never decides how much memory it takes.
_PORTION = 1_024
# Pieces whose tokens are remembered, and how long such a piece may be.
_KNOWN_PIECES = 32_768
_LONGEST_KNOWN = 32

# The tokenizer writes a space as ▁, and none of its tokens has one after a letter: so the tokens of a text are
# the tokens of these pieces, and the ones of a piece can be remembered.
_SPACE = "▁"
_PIECES = re.compile(" *[^ ]+| +")

_Portion = tuple[list[int], list[int], list[int]]


class WordLlama:
    """WordLlama's 256 dimensions. Loads when it first embeds, once for all instances in a process."""

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
        for rows, ids, starts in _portions([table.tokens(text) for text in texts]):
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
            tokens = table.tokens(word)
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
        self._weights = weights
        self._encode: Callable[..., Any] = tokenizer.encode
        # The tokenizer puts a space in front of every text but the empty one, so this piece is known from the start.
        space = tokenizer.token_to_id(_SPACE)
        self._space = [] if space is None else [space]
        self._pieces: dict[str, list[int]] = {" ": self._space}
        # Special tokens are cut out of a text before anything else, and a ▁ in it is as good as a space.
        special = (added.content for added in tokenizer.get_added_tokens_decoder().values())
        self._irregular = re.compile("|".join(map(re.escape, [_SPACE, *special])))

    def vectors(self, tokens: list[int] | NDArray[np.int64]) -> Vectors:
        """Return the vectors of some tokens, one row each."""
        return self._weights.take(tokens, axis=0).astype(np.float32)

    def tokens(self, text: str) -> list[int]:
        """Return a text's tokens; a text of white space alone has none."""
        if not text or text.isspace():
            return []
        pieces, spaced = self._pieces, f" {text}"
        known = pieces.get(spaced)
        if known is not None:  # a single word, as those of a query are
            return known
        if self._irregular.search(text):
            return self._tokenize(text)
        tokens: list[int] = []
        for piece in _PIECES.findall(spaced):
            known = pieces.get(piece)
            tokens += self._learn(piece) if known is None else known
        return tokens

    def _learn(self, piece: str) -> list[int]:
        tokens = self._tokenize(piece[1:])
        if len(piece) <= _LONGEST_KNOWN:
            if len(self._pieces) >= _KNOWN_PIECES:
                self._pieces = {" ": self._space}
            self._pieces[piece] = tokens
        return tokens

    def _tokenize(self, text: str) -> list[int]:
        return self._encode(without_halves(text), add_special_tokens=False).ids


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
    """Return the table, read from the package when it is first needed."""
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                _loaded = _read(_package_folder())
    return _loaded


def _package_folder() -> Path:
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingFailed(
            "the default embedder needs the package `wordllama`, which is not installed",
            hint="Install it with `pip install wordllama`, or name another embedder",
            retryable=False,
        )
    return Path(spec.submodule_search_locations[0])


def _read(folder: Path) -> _Table:
    """Return the table whose files are in the folder of the package."""
    try:
        described = (folder / _TOKENIZER).read_text("utf-8")
        weights = _map_weights(folder / _WEIGHTS)
        tokenizer = Tokenizer.from_str(described)
    except OSError as error:
        raise _damaged(error.filename, error.strerror or "it cannot be read") from error
    if tokenizer.get_vocab_size() > len(weights):
        raise _damaged(folder / _WEIGHTS, "it has fewer vectors than the tokenizer has tokens")
    return _Table(tokenizer, weights)


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
        f"the file {quote(str(path), longest=250)} of the package `wordllama` cannot be used: {why}",
        hint="Install it again with `pip install --force-reinstall wordllama`",
        retryable=False,
    )
