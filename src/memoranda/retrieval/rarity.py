"""How many entries hold a word in, how much the word tells out."""

from __future__ import annotations

import math


def rarity_of(holders: float, entries: int) -> float:
    """Return how much a word tells that so many of the entries have: its inverse document frequency."""
    return math.log(1 + (entries - holders + 0.5) / (holders + 0.5))
