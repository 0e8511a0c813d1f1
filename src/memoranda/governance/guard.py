"""The guard: what writes of little trust may not do, and what is found in them.

Memory that a model reads is an attack surface: a page or a tool can plant a sentence that becomes an order when it is
recalled. Origins below medium trust therefore write under these rules; a policy in the database is not needed.

- Protected keys, which say who an agent is and what it may do, are closed to them, and to models.
- Text that gives orders instead of stating something is held for review.
- Secrets, payment data and authentication codes are redacted.
- Values beyond 64 KB are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from memoranda.errors import Denied, LimitExceeded
from memoranda.governance.detection import find_in, redact
from memoranda.model.effect import Effect
from memoranda.model.trust import Origin, OriginKind, Trust, is_at_least
from memoranda.model.value import decode, encode

MOST_BYTES = 65_536
"""Bytes of one value from an origin below medium trust."""

_GUARDED: frozenset[OriginKind] = frozenset({"assistant", "tool_internal", "tool_external", "import", "unknown"})
"""Origins that protected keys are closed to, unless the program that they work for declared the key as theirs."""

_PROTECTED = frozenset(
    {
        *("persona", "identity", "role", "roles", "system", "instruction", "instructions", "guardrails", "prompt"),
        *("policy", "policies", "permission", "permissions", "privilege", "privileges", "acl", "admin", "security"),
        *("authorization", "authorisation", "credentials"),
    }
)
"""Words in the keys of what says who an agent is and what it may do."""
_JOINTS = re.compile(r"[^\w]+|_+|(?<=[a-z])(?=[A-Z])")


class Examined(msgspec.Struct, frozen=True):
    """An effect as it may be carried out, and what was found in it that has to be reviewed first."""

    effect: Effect
    findings: tuple[str, ...] = ()


def examine(effect: Effect, origin: Origin, authority: Trust) -> Examined:
    """Return an effect without secrets, and why it is held; raise Denied or LimitExceeded if it is refused."""
    if origin.kind in _GUARDED and authority != "high":
        _ensure_unprotected(effect, origin)
    if is_at_least(origin.trust, "medium"):
        return Examined(effect)
    findings: list[str] = []

    def check(payload: bytes) -> bytes:
        if len(payload) > MOST_BYTES:
            raise LimitExceeded(
                f"a value has {len(payload):,} bytes; of `{origin.kind}` at most {MOST_BYTES:,} are stored",
                hint="Store a summary, and where the whole is found",
                limit=MOST_BYTES,
                actual=len(payload),
            )
        value: Any = decode(payload)
        found = find_in(value, instructions=True)
        findings.extend(f"{one.kind}: {one.rule}" for one in found if one.kind == "instruction")
        private = [one for one in found if one.kind != "instruction"]
        return encode(redact(value, private)) if private else payload

    guarded = effect.map_contents(check)
    return Examined(guarded, tuple(dict.fromkeys(findings)))


def is_protected(key: str) -> bool:
    """Return whether a key is about who an agent is or what it may do.

    >>> is_protected("agent.system_prompt"), is_protected("userRole"), is_protected("travel.style")
    (True, True, False)
    """
    return not _PROTECTED.isdisjoint(word.lower() for word in _JOINTS.split(key))


def _ensure_unprotected(effect: Effect, origin: Origin) -> None:
    key = next((key for key in _written_keys(effect) if is_protected(key)), None)
    if key is not None:
        raise Denied(
            f"`{key}` is protected: a write from `{origin.kind}` cannot change it",
            hint="Write it as a user, or with a handle that has the authority",
            capability=effect.capability,
            actor=origin.actor,
        )


def _written_keys(effect: Effect) -> Iterator[str]:
    for capability, _, key in effect.demands():
        if key is not None and capability == "memory.write":
            yield key.removeprefix("collections.")
    yield from effect.entry_keys()
