"""What an analysis finds in a text, as a value that is kept beside the entry."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag

import msgspec


class Signs(IntFlag):
    """What can be seen in a text without understanding it."""

    QUESTION = 1
    """It ends in a question."""
    TEMPORAL = 2
    """It says when: a date, a weekday, "yesterday", "for two years"."""
    NUMERAL = 4
    """It holds a number, in digits or in words."""


class Analysed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The words of one text, ready to be indexed.

    `terms` are the distinct stems without stop words, joined by single spaces, in the order they first occur;
    `counts` has one byte for each (255 at most). `length` counts all occurrences of them.
    """

    language: str
    terms: str
    counts: bytes
    length: int
    signs: int
    names: int
    """How many capitalised words stand inside a sentence, and quotations."""


def pack(analysed: Analysed) -> bytes:
    """Return an analysis as bytes, to be kept."""
    return _encoder.encode(analysed)


def unpack(packed: bytes) -> Analysed:
    """Return a kept analysis."""
    return _decoder.decode(packed)


def unpack_all(packed: Iterable[bytes]) -> list[Analysed]:
    """Return kept analyses."""
    return list(map(_decoder.decode, packed))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Analysed)
