"""Byte-pair encoding as Llama 2 does it: the token ids of a text, from a `tokenizer.json`.

The ids are those of the `tokenizers` package, which is not needed here: installing it brings an HTTP client, and
loading the file with it takes three times as long.
"""

from __future__ import annotations

import re
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Literal

import msgspec

from memoranda.model.text import without_halves

# A space is written as ▁ inside the vocabulary. No token has one after another character, so the tokens of a text are
# those of these pieces, and the tokens of a piece can be cached.
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
    """The token ids of texts. Any number of threads may use one."""

    def __init__(self, description: bytes) -> None:
        """Read the JSON of a tokenizer; raise `msgspec.DecodeError` where it is not one of this kind."""
        read = msgspec.json.decode(description, type=_Description)
        self._ids = read.model.vocab
        # Keyed by the two symbols of a merge with a space between, as the file has them: no symbol contains a space.
        self._ranks = {pair: rank for rank, pair in enumerate(read.model.merges)}
        self._bytes = [f"<0x{byte:02X}>" for byte in range(256)]
        missing = [symbol for symbol in (_SPACE, *self._bytes) if symbol not in self._ids]
        if missing:
            raise msgspec.ValidationError(f"the vocabulary has no `{missing[0]}`")
        # Special tokens are cut out of a text before anything else. None begins with another.
        self._special = {added.content: added.id for added in read.added_tokens}
        self._specials = re.compile(f"({'|'.join(map(re.escape, self._special))})")
        self._cache: dict[str, list[int]] = {}

    @property
    def size(self) -> int:
        """Return the number of token ids."""
        return max(*self._ids.values(), *self._special.values()) + 1

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; white space alone has none. The caller must not change the list."""
        if not text or text.isspace():
            return []
        known = self._cache.get(f" {text}")
        if known is not None:  # a single word, as those of a query are
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
        """Return the ids of a text without special tokens. A space is put in front of it, as in training."""
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
        """Return the characters of a piece, with the UTF-8 bytes of those that the vocabulary lacks."""
        characters = list(without_halves(piece).replace(" ", _SPACE))
        if all(map(self._ids.__contains__, characters)):
            return characters
        symbols: list[str] = []
        for character in characters:
            symbols += (character,) if character in self._ids else (self._bytes[byte] for byte in character.encode())
        return symbols

    def _merge(self, symbols: list[str]) -> list[str]:
        """Merge neighbours until no merge applies: the lowest rank first, of equal ranks the leftmost.

        A queue of the possible merges makes this O(n log n); looking for the best one each time would let one long
        word take minutes. Entries whose symbols have changed meanwhile are skipped when they come up.
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
