"""How much an expression or a template may ask for."""

from __future__ import annotations

import msgspec

from memoranda.errors import LimitExceeded


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The largest program, text, list and amount of work; reaching one is a diagnostic or a `LimitExceeded`."""

    source: int = 20_000
    """Characters of one expression."""
    nodes: int = 2_000
    """Operators, names and values of one expression."""
    depth: int = 32
    """Brackets, calls and prefixes inside one another."""
    height: int = 150
    """Nodes stacked in all, a long sum included: the most closures that call one another."""
    text: int = 100_000
    """Characters of a text that an expression makes."""
    items: int = 100_000
    """Items of a list that an expression makes."""
    pattern: int = 1_000
    """Characters of a regular expression."""
    calls: int = 32
    """Functions of a program that call one another."""
    steps: int = 100_000
    """Rounds of all loops of one run together."""
    template: int = 100_000
    """Characters of one template."""
    blocks: int = 32
    """Blocks of a template inside one another."""
    output: int = 100_000
    """Characters that one rendering may give."""


DEFAULT_BOUNDS = Bounds()


def exceeded(what: str, limit: int, actual: int | None = None) -> LimitExceeded:
    """Return the error for something that grew too large while it ran."""
    return LimitExceeded(
        f"{what} is larger than the limit of {limit:,}",
        hint="Compute less at once, or keep the value in smaller parts",
        limit=limit,
        actual=limit + 1 if actual is None else actual,
    )


def check_text(text: str, most: int) -> str:
    """Return a text that an expression made, or refuse it as too long."""
    if len(text) > most:
        raise exceeded("the text that an expression made", most, len(text))
    return text
