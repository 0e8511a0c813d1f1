"""The permissions of a machine: what `ensures` allows each step. The checker and the runtime share them.

A denial overrides an approval, an approval overrides a permission, and what is not mentioned is denied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from memoranda.errors import UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.mashin.document import Ask, Capability, Ensures, NamedStep, Recall, Remember
from memoranda.mashin.keywords import CAPABILITIES, COVERS, capability
from memoranda.model.policy import Policy
from memoranda.model.text import quote

Level = Literal["allow", "approve", "deny"]

READ, WRITE, MODEL, CALL = "memory.read", "memory.write", "llm_call", "machine.call"

_STRICTEST: tuple[Level, ...] = ("deny", "approve", "allow")
_CALL_OF = re.compile(r"""call\s++(["']?)(?P<machine>[^"']+)\1""")


class Need(msgspec.Struct, frozen=True):
    """A capability that a step needs; for a call, also the machine that it calls."""

    capability: str
    machine: str | None = None

    def __str__(self) -> str:
        """Return the need as it is written in `ensures`."""
        return self.capability if self.machine is None else f'call "{self.machine}"'


class Verdict(msgspec.Struct, frozen=True):
    """The decision about a need, and the reason."""

    level: Level
    capability: str
    reason: str = ""


def needs_of(part: NamedStep) -> Iterator[Need]:
    """Yield what a step needs; nothing for a step without effects."""
    if isinstance(part, Remember):
        yield Need(WRITE)
    if isinstance(part, Recall) or (isinstance(part, Ask) and part.memory is not None):
        yield Need(READ)
    if isinstance(part, Ask):
        yield Need(MODEL) if part.machine is None else Need(CALL, part.machine.text)


class Permissions(msgspec.Struct, frozen=True):
    """The level of each capability and of each machine that `ensures` mentions."""

    capabilities: dict[str, Level] = {}
    machines: dict[str, Level] = {}
    """Machines with a level of their own; others have that of `machine.call`."""

    def level(self, need: Need) -> Level | None:
        """Return the level of a need, or None where `ensures` does not mention it."""
        if need.machine is not None and need.machine in self.machines:
            return self.machines[need.machine]
        return self.capabilities.get(need.capability)

    def verdict(self, need: Need) -> Verdict:
        """Return whether a step is allowed, needs approval or is denied, and why."""
        level = self.level(need)
        if level == "allow":
            return Verdict("allow", need.capability)
        if level == "approve":
            return Verdict("approve", need.capability, f"{need} requires approval")
        if level == "deny":
            return Verdict("deny", need.capability, f"the machine is not allowed to {need}")
        return Verdict("deny", need.capability, f"nothing in `ensures` allows {need}")

    def replace(
        self, *, allow: Iterable[str] = (), approve: Iterable[str] = (), deny: Iterable[str] = ()
    ) -> Permissions:
        """Return permissions in which these capabilities have these levels.

        Names are as in `ensures`, including `call "machine"`. A name with two levels gets the stricter.
        """
        capabilities, machines = dict(self.capabilities), dict(self.machines)
        given: tuple[tuple[Level, Iterable[str]], ...] = (("allow", allow), ("approve", approve), ("deny", deny))
        named: list[tuple[Level, str]] = []
        for level, names in given:
            named.extend((level, name) for name in ((names,) if isinstance(names, str) else names))
        for level, name in sorted(named, key=_precedence):
            called = _CALL_OF.fullmatch(name.strip())
            if called:
                machines[called["machine"]] = level
                continue
            known = _require_known(name)
            for one in known:
                capabilities[one] = level
            if CALL in known:
                machines.clear()
        return Permissions(capabilities, machines)

    def policy(self) -> Policy:
        """Return the policy for the gate: the machine's own runs, and memory as far as it is permitted.

        What needs approval is allowed here, because the step waits for it before it reaches the gate.
        """
        memory = {name: self.level(Need(name)) in ("allow", "approve") for name in (READ, WRITE)}
        return Policy.of(
            allow=("runs", *(name for name, allowed in memory.items() if allowed)),
            deny=tuple(name for name, allowed in memory.items() if not allowed),
        )


def permissions(ensures: Ensures | None) -> Permissions:
    """Return the permissions of a machine; an unknown capability has no effect."""
    capabilities: dict[str, Level] = {}
    machines: dict[str, Level] = {}
    for permission in ensures.permissions if ensures else ():
        for one in permission.capabilities:
            if one.machine is not None:
                _tighten(machines, one.machine.text, permission.verdict)
            for name in canonical_capabilities(one):
                _tighten(capabilities, name, permission.verdict)
    if CALL in capabilities:
        for machine in machines:
            _tighten(machines, machine, capabilities[CALL])
    return Permissions(capabilities, machines)


def canonical_capabilities(one: Capability) -> tuple[str, ...]:
    """Return the canonical capabilities that a written one covers; none for an unknown one or for `call "machine"`."""
    return () if one.machine is not None else _expand(one.name.text)


def _expand(name: str) -> tuple[str, ...]:
    found = capability(name)
    return COVERS.get(found, (found,)) if found else ()


def _require_known(name: str) -> tuple[str, ...]:
    found = _expand(name.strip())
    if not found:
        listed = f"Capabilities are {', '.join(CAPABILITIES.names)}"
        raise UsageError(
            f"{quote(name)} is not a capability",
            hint=did_you_mean(name, CAPABILITIES.names, otherwise=listed),
            value=name,
        )
    return found


def _tighten(levels: dict[str, Level], name: str, level: Level) -> None:
    before = levels.get(name, level)
    levels[name] = before if _STRICTEST.index(before) < _STRICTEST.index(level) else level


def _precedence(given: tuple[Level, str]) -> tuple[bool, int]:
    """Sort key: capabilities before single machines, lenient levels before strict ones; the last one wins."""
    level, name = given
    return _CALL_OF.fullmatch(name.strip()) is not None, -_STRICTEST.index(level)
