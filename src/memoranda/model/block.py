"""Memory blocks: texts of a user, or of a user and one agent, that are replaced whole and recalled line by line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, cast
from unicodedata import category, normalize

from memoranda.errors import InvalidScope, InvalidValue, LimitExceeded, UsageError
from memoranda.model.fact import Fact
from memoranda.model.limits import check_count
from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.text import quote

BlockType = Literal["core", "archival"]
BlockScope = Literal["user", "agent"]
BLOCK_TYPES: tuple[BlockType, ...] = ("core", "archival")
BLOCK_SCOPES: tuple[BlockScope, ...] = ("user", "agent")

CORE_CHARACTERS = 4_000
CORE_ENTRIES = 20
"""Lines of a core block that say something: all of it goes into every request to a model."""
ARCHIVAL_CHARACTERS = 8_000
MOST_MATCHES = 100
"""Lines of one recall."""
LONGEST_LINE = 300
"""Characters of a line that is learned."""

BLOCKS = "blocks"
"""What the keys of blocks begin with: a block is the fact `blocks.core` or `blocks.archival` of its scope."""
ARCHIVAL_KEY = f"{BLOCKS}.archival"

_CHARACTERS: dict[BlockType, int] = {"core": CORE_CHARACTERS, "archival": ARCHIVAL_CHARACTERS}


class Block(Result, frozen=True, kw_only=True):
    """A memory block, and the stamp that its next writer has to pass."""

    id: str
    block_type: BlockType
    content: str
    scope: BlockScope
    agent_id: str | None
    """The agent it belongs to; None for a block that all agents of the user share."""
    created_at: datetime
    updated_at: datetime


class BlockMatch(Result, frozen=True, kw_only=True):
    """One line of an archival block that answers a query."""

    content: str
    score: float
    """Comparable within one recall only; 0 where the query asked nothing."""
    block_type: BlockType = "archival"
    scope: BlockScope
    agent_id: str | None
    line_number: int
    """From 1 on, counting blank lines too."""
    updated_at: datetime
    """When the block was last written."""


def key_of(block: BlockType) -> str:
    """Return the key of the fact that a block is, or raise UsageError for an unknown type."""
    if block not in BLOCK_TYPES:
        raise UsageError(
            f"{quote(block)} is not a type of block", hint=f"Types are {', '.join(BLOCK_TYPES)}", value=block
        )
    return f"{BLOCKS}.{block}"


def check_block_scope(scope: object, known: Sequence[str]) -> None:
    """Raise UsageError unless a scope is one of these."""
    if scope not in known:
        raise UsageError(f"{quote(scope)} is not a scope of blocks", hint=f"Scopes are {', '.join(known)}", value=scope)


def check_lines(limit: Any, *, path: str = "limit") -> None:
    """Raise what is wrong with a number of lines to recall; `path` is the caller's name for it."""
    if limit is None:
        raise UsageError("None is not a limit", hint=f"Pass a whole number from 1 to {MOST_MATCHES}", path=path)
    check_count("limit", limit, least=1, path=path)
    if limit > MOST_MATCHES:
        raise LimitExceeded(
            f"the limit {limit:,} is above the maximum of {MOST_MATCHES}",
            hint="Ask for fewer lines: the best come first",
            limit=MOST_MATCHES,
            actual=limit,
            path=path,
        )


def as_block(fact: Fact) -> Block:
    """Return the block that a fact is."""
    scope, agent = owner_of(fact.scope)
    return Block(
        # The part after the kind is the fact's own, so a block that is deleted and made again has another id.
        id=f"mem_{fact.id.partition('_')[2]}",
        block_type=cast("BlockType", fact.key.partition(".")[2]),
        content=fact.value,
        scope=scope,
        agent_id=agent,
        created_at=fact.created_at,
        updated_at=fact.updated_at,
    )


def owner_of(scope: Scope) -> tuple[BlockScope, str | None]:
    """Return whether a scope is a user's or an agent's, and which agent's; refuse any other."""
    if scope.shape == ("user",):
        return "user", None
    if scope.shape == ("user", "agent"):
        return "agent", scope.parts[1][1]
    raise InvalidScope(
        f"`{scope}` has no memory blocks",
        hint="Name a user, or a user and an agent",
        value=scope.path,
    )


def has_blocks(scope: Scope) -> bool:
    """Return whether a scope may have memory blocks: a user's, or that of a user and an agent."""
    return scope.shape in (("user",), ("user", "agent"))


def user_scope(scope: Scope) -> Scope:
    """Return the scope of the user that a block's scope belongs to."""
    return Scope(scope.tenant, scope.subject)


def agent_scope(scope: Scope, agent: str) -> Scope:
    """Return the scope of one agent of the user that a block's scope belongs to."""
    return Scope.of(tenant=scope.tenant, user=scope.parts[0][1], agent=agent)


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return the lines of a text that say something, with their numbers from 1 on."""
    return [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


_BULLETS = re.compile(r"^\s*(?:(?:[-*•+]|\d+[.)])\s+)+")
_INVISIBLE = frozenset({"Mn", "Cf", "Cs", "Cn"})


def bare_line(line: str) -> str:
    """Return a line without its bullet."""
    return _BULLETS.sub("", line)


def canonical_line(line: str) -> str:
    """Return the canonical form of a line, by which two lines are compared.

    Bullets, case, accents, white space, invisible characters and a final full stop do not count.

    >>> canonical_line("-  Lives in PORTO. ") == canonical_line("* lives in Pôrto")
    True
    """
    decomposed = normalize("NFKD", normalize("NFKC", line).casefold())
    visible = "".join(character for character in decomposed if category(character) not in _INVISIBLE)
    return " ".join(bare_line(visible).split()).rstrip(" .;,!")


def canonical_digest(line: str) -> str:
    """Return the digest of a line's canonical form, by which learned lines are known."""
    return hashlib.sha256(canonical_line(line).encode("utf-8", "replace")).hexdigest()[:32]


def fits_a_line(text: str) -> bool:
    """Return whether a text can be learned as one line of a block."""
    return any(character.isalnum() for character in text) and len(text) <= LONGEST_LINE and len(text.splitlines()) == 1


def fits_a_block(block: BlockType, lines: Sequence[str]) -> bool:
    """Return whether these lines are within the limits of a block."""
    entries = CORE_ENTRIES if block == "core" else len(lines)
    return len("\n".join(lines)) <= _CHARACTERS[block] and sum(bool(line.strip()) for line in lines) <= entries


def trim_lines(lines: Sequence[str]) -> list[str]:
    """Return lines without the trailing blank ones."""
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept


def check_content(block: BlockType, content: Any) -> str:
    """Return the text of a block, or raise what is wrong with it: a text that is too long is never cut."""
    if not isinstance(content, str):
        raise InvalidValue(f"{quote(content)} is {type(content).__name__}, not text", hint="Pass text", path="$")
    _check_size(block, "characters", len(content), _CHARACTERS[block])
    if block == "core":
        _check_size(block, "entries", len(lines_of(content)), CORE_ENTRIES)
    return content


def size_limits(block: BlockType) -> dict[str, int]:
    """Return how large a block may become, by what is counted."""
    return {"characters": _CHARACTERS[block], **({"entries": CORE_ENTRIES} if block == "core" else {})}


def _check_size(block: BlockType, what: str, actual: int, limit: int) -> None:
    if actual > limit:
        raise LimitExceeded(
            f"the {block} block would have {actual:,} {what}, the limit is {limit:,}",
            hint="Shorten it, or move what is needed only now and then to the archival block"
            if block == "core"
            else "Shorten it: remove what will not be asked for",
            limit=limit,
            actual=actual,
            what=what,
        )
