"""What a caller says about memory in a run in, a checked policy out: which blocks a model is shown, and which not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

import msgspec

from memoranda.errors import UsageError
from memoranda.model.block import check_lines
from memoranda.model.text import quote

ArchivalMode = Literal["tool_only", "auto", "off"]
_MODES = get_args(ArchivalMode)


class MemoryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which memory a model is shown without asking for it. What its tools may do is the same under every policy.

    >>> MemoryPolicy(archival_mode="auto", archival_limit=3).include_user_core
    True
    """

    archival_mode: ArchivalMode = "tool_only"
    """`auto` shows the lines of the archival blocks that answer the user's message; the others show none."""
    archival_limit: int = 10
    """Most lines that `auto` shows, from 1 to 100."""
    archival_min_score: float | None = None
    """Lines that score less are not shown; None shows every line that has a word of the message."""
    include_user_core: bool = True
    include_agent_core: bool = True

    def __post_init__(self) -> None:
        """Refuse what is no policy, whoever made it."""
        if self.archival_mode not in _MODES:
            raise _refused("archival_mode", self.archival_mode, f"Modes are {', '.join(_MODES)}")
        check_lines(self.archival_limit, path="archival_limit")
        score = cast(object, self.archival_min_score)
        if score is not None and (type(score) not in (int, float) or not math.isfinite(cast(float, score))):
            raise _refused("archival_min_score", score, "Pass a number, or None")
        for name in ("include_user_core", "include_agent_core"):
            if type(value := getattr(self, name)) is not bool:
                raise _refused(name, value, "Pass True or False")


def policy_for(given: MemoryPolicy | Mapping[str, Any] | None, default: MemoryPolicy) -> MemoryPolicy:
    """Return the policy of a run: what was given for it, each field that was not from the default.

    >>> policy_for({"archival_mode": "auto"}, MemoryPolicy(archival_limit=3)).archival_limit
    3
    """
    if given is None:
        return default
    if isinstance(given, MemoryPolicy):
        return given
    if not isinstance(cast(object, given), Mapping):
        raise _refused("memory_policy", given, "Pass a MemoryPolicy, or a map of its fields")
    unknown = sorted(str(name) for name in given if name not in MemoryPolicy.__struct_fields__)
    if unknown:
        known = ", ".join(MemoryPolicy.__struct_fields__)
        raise UsageError(
            f"{quote(unknown[0])} is not a field of a memory policy", hint=f"Fields are {known}", path=unknown[0]
        )
    return msgspec.structs.replace(default, **given)


def _refused(field: str, value: object, hint: str) -> UsageError:
    return UsageError(f"{quote(value)} cannot be the `{field}` of a memory policy", hint=hint, path=field, value=value)
