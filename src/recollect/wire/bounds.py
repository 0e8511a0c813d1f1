"""What a field of a body may be in; what the OpenAPI document says about it out.

A body is not refused for it: the engine says what is wrong with a field, in the same words to everybody.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


def between(least: float, most: float | None = None) -> msgspec.Meta:
    """Return the annotation of a number that is at least this, and at most that.

    >>> between(0, 1).extra_json_schema
    {'minimum': 0, 'maximum': 1}
    """
    return msgspec.Meta(extra_json_schema={"minimum": least} | ({} if most is None else {"maximum": most}))


def one_of(names: Sequence[str]) -> msgspec.Meta:
    """Return the annotation of a text that is one of these.

    >>> one_of(("up", "down")).extra_json_schema
    {'enum': ['up', 'down']}
    """
    return msgspec.Meta(extra_json_schema={"enum": list(names)})
