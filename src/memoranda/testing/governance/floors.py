"""Systems that must fail: what they pass alone proves nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import ClassVar, NamedTuple

from memoranda.testing.governance.system import (
    Claim,
    Containment,
    Contest,
    Deletion,
    Found,
    MemorySystem,
    Origin,
    ParsedPrompt,
    Refused,
    Rollback,
    Writer,
)

_WORD = re.compile(r"\w+")


class NullStore(MemorySystem):
    """Accept every call and keep nothing."""

    name = "null"

    def __init__(self, folder: Path) -> None:
        """Open it."""
        super().__init__(folder)
        self._refs = count(1)

    def write(
        self,
        user: str,
        text: str,
        *,
        key: str = "",
        writer: Writer = "user",
        metadata: Mapping[str, str] | None = None,
        ttl: int | None = None,
        request: str = "",
        sources: Sequence[str] = (),
        confirm: bool = False,
    ) -> str:
        """Accept a text."""
        return f"ref:{next(self._refs)}"

    def read(self, user: str, key: str) -> str | None:
        """Find nothing."""
        return None

    def search(self, user: str, query: str, limit: int = 5) -> list[Found]:
        """Find nothing."""
        return []

    def listing(self, user: str) -> list[str]:
        """Find nothing."""
        return []

    def parse_prompt(self, prompt: str) -> ParsedPrompt:
        """Take the whole prompt for what is outside."""
        return ParsedPrompt((), prompt)

    def history(self, user: str, ref: str) -> list[str]:
        """Find nothing."""
        return []

    def supersede(self, user: str, ref: str, text: str) -> str:
        """Accept a text."""
        return self.write(user, text)

    def forget(self, user: str, ref: str) -> None:
        """Accept the call."""

    def forget_identifier(self, user: str, identifier: str) -> None:
        """Accept the call."""

    def forget_about(self, user: str, about: str) -> None:
        """Accept the call."""

    def erase(self, user: str) -> None:
        """Accept the call."""

    def reject(self, user: str, text: str) -> None:
        """Accept the call."""

    def probes(self, user: str, text: str) -> dict[str, bool | None]:
        """Say that nothing leaks."""
        return {"everything": False}

    def claims(self, user: str) -> list[Claim]:
        """Find nothing."""
        return []

    def forget_source(self, user: str, text: str) -> None:
        """Accept the call."""

    def share(self, user: str, ref: str, to: str) -> str:
        """Accept the call."""
        return ref

    def export(self, file: Path) -> None:
        """Write an empty file."""
        file.write_bytes(b"")

    def restore(self, file: Path) -> None:
        """Accept the call."""

    def advance(self, seconds: float) -> None:
        """Accept the call."""

    def reindex(self) -> None:
        """Accept the call."""

    def restart(self) -> None:
        """Accept the call."""

    def bytes_on_disk(self) -> bytes:
        """Have no bytes."""
        return b""

    def origin(self, user: str, ref: str) -> Origin:
        """Trust nothing."""
        return Origin("unknown", 0)

    def validate(self, user: str, ref: str, *, actor: str) -> None:
        """Accept the call."""

    def corroboration(self, user: str, text: str) -> int:
        """Count nothing."""
        return 0

    def conflicts(self, user: str) -> list[Contest]:
        """Find nothing."""
        return []

    def pending(self, user: str) -> list[str]:
        """Find nothing."""
        return []

    def release(self, user: str, held: str, *, actor: str) -> None:
        """Accept the call."""

    def allow(self, actor: str, user: str) -> None:
        """Accept the call."""

    def disallow(self, actor: str, user: str) -> None:
        """Accept the call."""

    def write_as(self, actor: str, user: str, text: str) -> str:
        """Accept a text."""
        return self.write(user, text)

    def epoch(self, user: str) -> int:
        """Know of no change."""
        return 0

    def limit_writes(self, actor: str, user: str, writes: int) -> None:
        """Accept the call."""

    def deletions(self) -> list[Deletion]:
        """Find nothing."""
        return []

    def rollbacks(self) -> list[Rollback]:
        """Find nothing."""
        return []

    def audit(self) -> list[str]:
        """Find nothing."""
        return []

    def undo(self, token: object) -> None:
        """Accept the call."""

    def roll_back(self, user: str, ref: str) -> None:
        """Accept the call."""

    def contain(self, user: str, ref: str) -> Containment:
        """Contain nothing."""
        return Containment((), (), None)


class _Kept(NamedTuple):
    ref: str
    user: str
    text: str
    key: str


class AppendStore(MemorySystem):
    """Keep everything that was ever written, by user; nothing is corrected, and nothing removed."""

    name = "append-only"
    _shared: ClassVar[bool] = False

    def __init__(self, folder: Path) -> None:
        """Open it empty."""
        super().__init__(folder)
        self._kept: list[_Kept] = []
        self._refs = count(1)

    def write(
        self,
        user: str,
        text: str,
        *,
        key: str = "",
        writer: Writer = "user",
        metadata: Mapping[str, str] | None = None,
        ttl: int | None = None,
        request: str = "",
        sources: Sequence[str] = (),
        confirm: bool = False,
    ) -> str:
        """Add a text."""
        self._kept.append(_Kept(f"ref:{next(self._refs)}", user, text, key))
        return self._kept[-1].ref

    def _of(self, user: str) -> list[_Kept]:
        return [one for one in self._kept if self._shared or one.user == user]

    def read(self, user: str, key: str) -> str | None:
        """Return the newest text under a key."""
        return next((one.text for one in reversed(self._of(user)) if one.key == key), None)

    def search(self, user: str, query: str, limit: int = 5) -> list[Found]:
        """Rank by the number of words in common, the newest first among equals."""
        asked = set(_WORD.findall(query.casefold()))
        ranked = sorted(reversed(self._of(user)), key=lambda one: -len(asked & set(_WORD.findall(one.text.casefold()))))
        return [Found(one.ref, one.text) for one in ranked[:limit]]

    def listing(self, user: str) -> list[str]:
        """Return everything of a user."""
        return [one.text for one in self._of(user)]

    def supersede(self, user: str, ref: str, text: str) -> str:
        """Add the new text beside the old one."""
        return self.write(user, text)

    def history(self, user: str, ref: str) -> list[str]:
        """Return everything of a user."""
        return self.listing(user)

    def restart(self) -> None:
        """Keep everything."""

    def reindex(self) -> None:
        """Keep everything; there is no index."""

    def share(self, user: str, ref: str, to: str) -> str:
        """Add a copy."""
        return next((self.write(to, one.text) for one in self._kept if one.ref == ref), "")

    def export(self, file: Path) -> None:
        """Write every text on a line of its own."""
        file.write_text("\n".join(one.text for one in self._kept), encoding="utf-8")

    def audit(self) -> list[str]:
        """Return everything that was written."""
        return [one.text for one in self._kept]


class WipeStore(AppendStore):
    """Empty everything on any removal or correction, and refuse what could be doubted.

    It never leaks, and never keeps what has to stay.
    """

    name = "erase-everything"

    def write(
        self,
        user: str,
        text: str,
        *,
        key: str = "",
        writer: Writer = "user",
        metadata: Mapping[str, str] | None = None,
        ttl: int | None = None,
        request: str = "",
        sources: Sequence[str] = (),
        confirm: bool = False,
    ) -> str:
        """Add a text of a user without anything special about it."""
        if writer != "user" or sources or confirm or key or metadata or request or ttl is not None:
            raise Refused("it could be doubted")
        return super().write(user, text)

    def _wipe(self) -> None:
        self._kept.clear()

    def supersede(self, user: str, ref: str, text: str) -> str:
        """Empty the store."""
        self._wipe()
        return ""

    def forget(self, user: str, ref: str) -> None:
        """Empty the store."""
        self._wipe()

    def forget_identifier(self, user: str, identifier: str) -> None:
        """Empty the store."""
        self._wipe()

    def forget_about(self, user: str, about: str) -> None:
        """Empty the store."""
        self._wipe()

    def erase(self, user: str) -> None:
        """Empty the store."""
        self._wipe()

    def reject(self, user: str, text: str) -> None:
        """Empty the store."""
        self._wipe()

    def forget_source(self, user: str, text: str) -> None:
        """Empty the store."""
        self._wipe()

    def restart(self) -> None:
        """Empty the store."""
        self._wipe()

    def restore(self, file: Path) -> None:
        """Refuse the file."""
        raise Refused("it could be doubted")

    def share(self, user: str, ref: str, to: str) -> str:
        """Refuse the copy."""
        raise Refused("it could be doubted")


class CarelessStore(AppendStore, NullStore):
    """Keep everything for everybody, remove nothing, believe everything, and report success.

    The table leaves it out. It shows that each negative finds what it looks for.
    """

    name = "careless"
    _shared = True

    def __init__(self, folder: Path) -> None:
        """Open it empty."""
        super().__init__(folder)
        self._ranks = count(1)

    def write(
        self,
        user: str,
        text: str,
        *,
        key: str = "",
        writer: Writer = "user",
        metadata: Mapping[str, str] | None = None,
        ttl: int | None = None,
        request: str = "",
        sources: Sequence[str] = (),
        confirm: bool = False,
    ) -> str:
        """Add a text, with its metadata as a part of it."""
        about = "".join(f" {value}" for name, value in (metadata or {}).items() if name != "n")
        return super().write(user, text + about, key=key)

    def search(self, user: str, query: str, limit: int = 5) -> list[Found]:
        """Return everything, whatever the limit."""
        return super().search(user, query, len(self._kept))

    def parse_prompt(self, prompt: str) -> ParsedPrompt:
        """Take each line for a memory, and the whole prompt for what is outside."""
        return ParsedPrompt(tuple(line.removeprefix("- ") for line in prompt.splitlines()), prompt)

    def claims(self, user: str) -> list[Claim]:
        """Claim every text, without a source."""
        return [Claim(one.ref, one.text, ()) for one in self._kept]

    def probes(self, user: str, text: str) -> dict[str, bool | None]:
        """Find it everywhere."""
        return {"facts": True, "entries": True, "words": True, "vectors": True, "backups": None}

    def origin(self, user: str, ref: str) -> Origin:
        """Trust it more each time."""
        return Origin("user", next(self._ranks))

    def corroboration(self, user: str, text: str) -> int:
        """Count rows."""
        return sum(one.text.startswith(text) for one in self._kept)

    def deletions(self) -> list[Deletion]:
        """List everything."""
        return [Deletion(one.ref, one.user, "owner", 0) for one in self._kept]

    def bytes_on_disk(self) -> bytes:
        """Return every text."""
        return "\n".join(self.audit()).encode()


FLOORS = (NullStore, WipeStore, AppendStore)
"""The columns of the table beside the systems that are measured."""
