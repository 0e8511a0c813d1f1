"""What a memory system has to offer to be measured, in the words of no system.

An adapter subclasses `MemorySystem` and overrides what its system can do. What it leaves out raises `Unsupported`, so
that a requirement which needs it is reported as not supported, never as met. What it has it uses honestly: a system
without a notion of trust stores what a tool wrote like anything else, and is measured on what happens then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

Writer = Literal["user", "assistant", "agent", "tool_internal", "tool_external", "import", "unknown"]
"""What wrote a memory, as the program that calls the system knows it."""

Message = tuple[str, str]
"""A role and what was said."""


class Unsupported(Exception):
    """The system has no such operation."""


class Refused(Exception):
    """The system declined a call, and changed nothing that anyone can read."""


class Found(NamedTuple):
    """A memory as a search returns it, with what the system says about it."""

    ref: str
    text: str
    valid_from: str = ""
    valid_to: str = ""


class Origin(NamedTuple):
    """Who wrote a memory, and how far it is trusted: a higher rank is more."""

    writer: str
    rank: int


class ParsedPrompt(NamedTuple):
    """The memories in a prompt, and its text without them and without what says where they come from."""

    texts: tuple[str, ...]
    outside: str


class Claim(NamedTuple):
    """What a system derived from what it was fed, and the texts of the surviving sources it leads back to."""

    ref: str
    text: str
    sources: tuple[str, ...]


class Deletion(NamedTuple):
    """An entry of the list of deletions."""

    resource: str
    user: str
    actor: str
    epoch: int


class Rollback(NamedTuple):
    """An entry of the list of rollbacks: what was undone, and the actions that depended on it."""

    refs: tuple[str, ...]
    dependents: tuple[str, ...]


class Contest(NamedTuple):
    """Two writes that contradict each other."""

    current: str
    proposed: str


class Containment(NamedTuple):
    """What a containment took out of sight, and the reads that had shown it before."""

    refs: tuple[str, ...]
    reads: tuple[str, ...]
    token: object


class MemorySystem:
    """A memory system that is measured; each method raises `Unsupported` unless an adapter has it.

    A new system is empty and works in a folder of its own. Texts are stored per user; `ref` is whatever the system
    names a memory by.

    >>> system = MemorySystem(Path("."))
    >>> system.describe()
    'memory system'
    >>> try:
    ...     system.write("ada", "The kiln is hot")
    ... except Unsupported as missing:
    ...     print(missing)
    write
    """

    name = "memory system"
    version = ""

    def __init__(self, folder: Path) -> None:
        """Open a new, empty system that keeps its files in a folder."""
        self.folder = folder

    @classmethod
    def describe(cls) -> str:
        """Return the name and version."""
        return f"{cls.name} {cls.version}".strip()

    def close(self) -> None:
        """Close the system."""

    # writing and reading

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
        """Store a text and return its ref; raise Refused if it is not stored, or not yet visible.

        Under a `key` there is one current text. `ttl` is in seconds, `request` an idempotency key, `sources` are the
        refs that the text was derived from, and with `confirm` it waits until another principal confirms it.
        """
        _missing("write")

    def read(self, user: str, key: str) -> str | None:
        """Return the current text under a key."""
        _missing("read")

    def search(self, user: str, query: str, limit: int = 5) -> list[Found]:
        """Return what answers a query, best first."""
        _missing("search")

    def listing(self, user: str) -> list[str]:
        """Return the text of every active unit of memory, without raw messages."""
        _missing("listing")

    def prompt(self, user: str, query: str, *, limit: int = 5, budget: int | None = None) -> str:
        """Return the text that a model would be given; a system that assembles none lists what it finds."""
        return "\n".join(f"- {found.text}" for found in self.search(user, query, limit))

    def parse_prompt(self, prompt: str) -> ParsedPrompt:
        """Return the memories in a prompt, exactly as they were stored, and the rest of it."""
        _missing("parse_prompt")

    def history(self, user: str, ref: str) -> list[str]:
        """Return the texts of a memory over time, oldest first."""
        _missing("history")

    # correcting and removing

    def supersede(self, user: str, ref: str, text: str) -> str:
        """Put a text in the place of a memory and return its ref."""
        _missing("supersede")

    def forget(self, user: str, ref: str) -> None:
        """Delete a memory by the ordinary public call."""
        _missing("forget")

    def forget_identifier(self, user: str, identifier: str) -> None:
        """Delete what mentions an address, number or name, in any spelling, and nothing else."""
        _missing("forget_identifier")

    def forget_about(self, user: str, about: str) -> None:
        """Delete what a description names."""
        _missing("forget_about")

    def erase(self, user: str) -> None:
        """Remove everything of a user permanently, from the files as well."""
        _missing("erase")

    def reject(self, user: str, text: str) -> None:
        """Say that a text is wrong: it ends, and does not come back."""
        _missing("reject")

    def retract(self, user: str, ref: str) -> None:
        """Take back what turned out to be wrong, so that its source does not bring it back."""
        self.forget(user, ref)

    def probes(self, user: str, text: str) -> dict[str, bool | None]:
        """Return for each place by name whether a text can be found there; None for a place without a probe."""
        _missing("probes")

    # conversations

    def feed(self, user: str, messages: Sequence[Message], *, conversation: str = "c1") -> None:
        """Give the system a conversation; one that extracts nothing stores what the user said."""
        for role, text in messages:
            if role == "user":
                self.write(user, text)

    def claims(self, user: str) -> list[Claim]:
        """Return what was derived from conversations, with its sources."""
        _missing("claims")

    def forget_source(self, user: str, text: str) -> None:
        """Delete the message with this text."""
        _missing("forget_source")

    # copies

    def share(self, user: str, ref: str, to: str) -> str:
        """Give another user a copy of a memory and return the copy's ref."""
        _missing("share")

    def export(self, file: Path) -> None:
        """Write everything to a file."""
        _missing("export")

    def restore(self, file: Path) -> None:
        """Read an export into this system."""
        _missing("restore")

    # time and upkeep

    def advance(self, seconds: float) -> None:
        """Move the system's clock."""
        _missing("advance")

    def settle(self) -> None:
        """Wait until every write can be read; where that is so when it returns, there is nothing to wait for."""

    def maintain(self) -> None:
        """Run every job that the system has: expiry, consolidation, cleaning."""

    def reindex(self) -> None:
        """Drop everything that is derived, and build it again from what is kept."""
        _missing("reindex")

    def restart(self) -> None:
        """Close the system and open the same data again."""
        _missing("restart")

    def bytes_on_disk(self) -> bytes:
        """Return all bytes that the system keeps on disk."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        if not files:
            _missing("stored_bytes")
        return b"".join(path.read_bytes() for path in files)

    # authority and trust

    def origin(self, user: str, ref: str) -> Origin:
        """Return who wrote a memory and its trust, read from the store now."""
        _missing("origin")

    def validate(self, user: str, ref: str, *, actor: str) -> None:
        """Let a principal vouch for a memory; raise Refused if they may not."""
        _missing("validate")

    def corroboration(self, user: str, text: str) -> int:
        """Return how many independent origins say so."""
        _missing("corroboration")

    def conflicts(self, user: str) -> list[Contest]:
        """Return writes that wait because they contradict something more trusted."""
        _missing("conflicts")

    def pending(self, user: str) -> list[str]:
        """Return the ids of what waits for a review or for confirmation."""
        _missing("held")

    def release(self, user: str, held: str, *, actor: str) -> None:
        """Release what waits, as this principal; raise Refused if they may not."""
        _missing("release")

    def allow(self, actor: str, user: str) -> None:
        """Let an actor read and write the memory of a user."""
        _missing("allow")

    def disallow(self, actor: str, user: str) -> None:
        """Take that back."""
        _missing("disallow")

    def write_as(self, actor: str, user: str, text: str) -> str:
        """Write as an actor, under what they are allowed; raise Refused if that is not enough."""
        _missing("write_as")

    def epoch(self, user: str) -> int:
        """Return how often the authority over a user's memory has changed, read now."""
        _missing("epoch")

    def limit_writes(self, actor: str, user: str, writes: int) -> None:
        """Allow an actor this many writes in the current window; `write_as` refuses more."""
        _missing("limit_writes")

    # what happened

    def deletions(self) -> list[Deletion]:
        """Return what was deleted, as the system recorded it."""
        _missing("deletions")

    def rollbacks(self) -> list[Rollback]:
        """Return what was undone, as the system recorded it."""
        _missing("rollbacks")

    def audit(self) -> list[str]:
        """Return the whole record of what happened, one line for each event."""
        _missing("audit")

    def undo(self, token: object) -> None:
        """Undo a containment, by its token."""
        _missing("undo")

    def roll_back(self, user: str, ref: str) -> None:
        """Undo the write that superseded what was there before this memory."""
        _missing("roll_back")

    def contain(self, user: str, ref: str) -> Containment:
        """Take a memory and everything that was derived from it out of sight."""
        _missing("contain")


def _missing(operation: str) -> NoReturn:
    raise Unsupported(operation)
