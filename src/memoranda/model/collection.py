"""A collection: where entries of one kind are kept, and the embedder that turns them into vectors."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Calibration(msgspec.Struct, frozen=True, gc=False):
    """What turns a cosine into a relevance from 0 to 1: a logistic curve with its middle and its steepness.

    Cosines of two embedders cannot be compared: 0.4 is close for one and far for another. Relevances can.
    """

    middle: float
    """The cosine at which a text is as likely to be relevant as not."""
    steepness: float


class Space(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the vectors of one embedder have in common."""

    embedder: str
    dimension: int
    calibration: Calibration


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """A named place for entries in a tenant. Its first entry fixes its space.

    `successor` is the space that its entries are being re-embedded into, while that goes on.
    """

    tenant: str
    name: str
    space: Space
    created_at: datetime
    successor: Space | None = None


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A collection, how many entries stand in it, and how far its move to another embedder is."""

    name: str
    embedder: str
    dimension: int
    entries: int
    namespaces: int
    moving_to: str | None = None
    moved: int = 0
