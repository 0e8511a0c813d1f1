"""Analyse many texts at once.

The pieces of all texts are numbered, and each distinct one is looked up once. What is counted over the pieces of a text
is then a sum of numpy over the numbers, which takes a third of the time that the texts would take one by one. Texts
that are long or not in English are left to `analyse`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, count
from operator import itemgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.analysis.analyser import (
    COUNT,
    FIGURE,
    MONTH,
    UNIT,
    UNREAD,
    WHEN,
    Features,
    Piece,
    Reading,
    analyse,
    count_quotations,
    is_question,
    look_up,
    pack,
    read_in_english,
    says_when,
)
from memoranda.retrieval.analysis.languages import MOST_LEANING

_PORTION = 1_024
"""Texts that are analysed at once."""
_LEAST = 8
"""Fewer texts take less time one by one."""

_QUESTION, _NUMERAL, _TEMPORAL = Features.QUESTION.value, Features.NUMERAL.value, Features.TEMPORAL.value

_first, _second, _third = itemgetter(0), itemgetter(1), itemgetter(2)
_encode = msgspec.msgpack.Encoder().encode

_NOTHING: Reading = (b"", ())

Numbers = NDArray[np.int64]


def pack_all(texts: Sequence[str]) -> list[bytes]:
    """Return `pack(analyse(text))` of each text."""
    packed: list[bytes] = []
    for start in range(0, len(texts), _PORTION):
        portion = texts[start : start + _PORTION]
        short = [text.count(" ") < MOST_LEANING for text in portion]
        together = iter(_pack_short([text for text, is_short in zip(portion, short, strict=True) if is_short]))
        packed += [
            next(together) if is_short else pack(analyse(text)) for text, is_short in zip(portion, short, strict=True)
        ]
    return packed


def _pack_short(texts: list[str]) -> list[bytes]:
    if len(texts) < _LEAST:
        return [pack(analyse(text)) for text in texts]
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    split = [text.split(" ") for text in texts]
    lengths = np.fromiter(map(len, split), np.int64, len(split))
    of_piece = np.fromiter(map(numbers.__getitem__, chain.from_iterable(split)), np.int64, int(lengths.sum()))
    starts = np.cumsum(lengths) - lengths
    pieces = list(numbers)
    known = look_up(pieces)
    leads = np.fromiter(map(_first, known), np.int64, len(known))
    in_english = np.add.reduceat(leads[of_piece], starts) > 0
    needed = np.zeros(len(pieces), np.bool_)
    needed[of_piece[np.repeat(in_english, lengths)]] = True
    readings = _readings(pieces, known, needed)

    kinds = list(map(_first, readings))
    features, moments = _features(texts, np.fromiter(map(_SEEN.__getitem__, kinds), np.int64)[of_piece], starts)
    for row in np.flatnonzero(moments & in_english).tolist():
        of_row = of_piece[starts[row] : starts[row] + lengths[row]].tolist()
        if says_when(b"".join(map(kinds.__getitem__, of_row))):
            features[row] |= _TEMPORAL
    names = _names(known, of_piece, starts)

    terms = list(map(_second, readings))
    number_of_terms = np.fromiter(map(len, terms), np.int64)[of_piece]
    has_terms = number_of_terms > 0
    joined = np.array([one[0] if len(one) == 1 else " ".join(one) for one in terms], object)
    flat: list[str] = joined[of_piece[has_terms]].tolist()
    ends = np.cumsum(np.add.reduceat(has_terms, starts, dtype=np.int64)).tolist()
    are_single = (np.maximum.reduceat(number_of_terms, starts) < 2).tolist()
    packed: list[bytes] = []
    start = 0
    for row, (text, end, is_english) in enumerate(zip(texts, ends, in_english.tolist(), strict=True)):
        if is_english:
            own = flat[start:end] if are_single[row] else " ".join(flat[start:end]).split(" ")
            distinct = dict.fromkeys(own, 0)
            found = len(own)
            if len(distinct) == found:
                counts = b"\x01" * found
            else:
                for one in own:
                    distinct[one] += 1
                counts = bytes([number if number < 255 else 255 for number in distinct.values()])
            named = 0 if text.isupper() else names[row] + count_quotations(text)
            packed.append(_encode(("en", " ".join(distinct), counts, found, features[row], named)))
        else:
            packed.append(pack(analyse(text)))
        start = end
    return packed


def _readings(pieces: list[str], known: list[Piece], needed: NDArray[np.bool_]) -> list[Reading]:
    """Return the English readings of pieces, reading those that are needed and were not read before."""
    readings: list[Reading] = list(map(_third, known))
    unread = [place for place in np.flatnonzero(needed).tolist() if readings[place] is UNREAD]
    for place in unread:
        readings[place] = read_in_english(pieces[place], known[place])
    return [_NOTHING if reading is UNREAD else reading for reading in readings] if not needed.all() else readings


def _features(texts: list[str], seen: Numbers, starts: Numbers) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the features of texts, and which of them name a time if the neighbours of a unit or month say so."""
    of_text = np.bitwise_or.reduceat(seen, starts)
    tells = (of_text & WHEN) != 0
    features = _TEMPORAL * tells + _NUMERAL * ((of_text & (FIGURE | COUNT)) != 0)
    found: list[int] = features.tolist()
    for row, text in enumerate(texts):
        if ("?" in text or not text.isascii()) and is_question(text):
            found[row] |= _QUESTION
    return found, ((of_text & (UNIT | MONTH)) != 0) & ~tells


_EDGES = {"Ni": 3, "N-": 2, "-i": 1, "--": 0}
"""The edges of a piece: 2 if it begins like a name, 1 if the sentence may continue after it."""


def _names(known: list[Piece], of_piece: Numbers, starts: Numbers) -> list[int]:
    """Return how many pieces of each text begin like a name inside a sentence."""
    edges = np.fromiter(map(_EDGES.__getitem__, map(_second, known)), np.int64, len(known))[of_piece]
    begins = np.zeros(len(edges), np.int64)
    begins[1:] = (edges[:-1] & 1) & (edges[1:] >> 1)
    begins[starts] = 0
    return np.add.reduceat(begins, starts).tolist()


class _Seen(dict[bytes, int]):
    """The kinds of all chunks of a piece as bits of one number, by the kinds of each."""

    def __missing__(self, kinds: bytes) -> int:
        seen = 0
        for kind in kinds:
            seen |= kind
        if len(self) < 4_096:
            self[kinds] = seen
        return seen


_SEEN = _Seen()
