"""The guards of a machine and the data of a step in; the data that may go on, and what was found in it, out.

A guard looks before a step at what goes out, and after it at what came back. What it says is kept in the ledger, so it
names kinds of things and never what was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, TypeAlias, cast

import msgspec

from memoranda.errors import UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.mashin.detecting import ORDERS, PERSONAL_DATA, SECRETS, Detector
from memoranda.mashin.document import Ensures
from memoranda.mashin.expression.programs import expression
from memoranda.mashin.keywords import GUARDS, ON_VIOLATION
from memoranda.mashin.programs import Programs
from memoranda.model.text import cleaned, quote

When: TypeAlias = Literal["before", "after"]
Action: TypeAlias = Literal["block", "redact", "warn"]

Rule: TypeAlias = Callable[[Any, When], str | None]
"""A guard of one's own: the data and whether it goes out or came back in; what is wrong, in words, or None out."""

REDACTED = "[redacted]"

_DEEPEST = 64
_MOST_VALUES = 1_000_000
_LONGEST_REASON = 200


class GuardUse(msgspec.Struct, frozen=True):
    """A guard that a machine names, and what happens when it finds something."""

    name: str
    on_violation: Action = "block"


class ActiveGuard(msgspec.Struct, frozen=True):
    """A guard that is ready to look at data: by what stands in its texts, or by a rule."""

    name: str
    action: Action
    check: Rule | None = None
    detector: Detector | None = None


class Finding(msgspec.Struct, frozen=True):
    """What a guard found, without what it found it in, and what was done about it."""

    guard: str
    when: When
    action: Action
    reason: str


class Checked(msgspec.Struct, frozen=True):
    """The data that may go on, and what was found in it."""

    data: Any
    findings: tuple[Finding, ...] = ()


class GuardViolated(Exception):
    """A guard that lets nothing go on: the step fails, and what came back is withheld."""

    def __init__(self, guard: str, when: When, reason: str) -> None:
        """Keep which guard it was, on which side of the step, and why."""
        super().__init__(f"the guard `{guard}` stopped it: {reason}")
        self.guard = guard
        self.when = when
        self.reason = reason


def guard_uses(ensures: Ensures | None, programs: Programs) -> tuple[GuardUse, ...]:
    """Return the guards that a checked document names."""
    uses: list[GuardUse] = []
    for guard in ensures.guards if ensures else ():
        node = programs.node(guard.on_violation) if guard.on_violation is not None else None
        action = "block" if node is None else expression(node).value({})
        uses.append(GuardUse(guard.name.text, _action(action)))
    return tuple(uses)


def _action(name: Any) -> Action:
    if name == "block" or name == "redact" or name == "warn":
        return name
    hint = f"One of {', '.join(ON_VIOLATION.names)}"
    raise UsageError(f"`on_violation` cannot be {quote(name)}", hint=hint, value=name)


def missing(uses: Sequence[GuardUse], given: Mapping[str, Rule]) -> tuple[str, ...]:
    """Return the names of guards that are neither built in nor given."""
    return tuple(use.name for use in uses if use.name not in {*given, *_DETECTORS, *_RULES})


def absent(data: Any, when: When) -> str:
    """Stand for a guard that nobody gave, where a run is only looked at: it lets nothing on."""
    return "nobody gives it here"


def activate(uses: Sequence[GuardUse], given: Mapping[str, Rule] | None = None) -> tuple[ActiveGuard, ...]:
    """Return guards ready to run; one that was given takes the place of one that is built in."""
    rules = dict(given or {})
    return tuple(_activated(use, rules) for use in uses)


def _activated(use: GuardUse, rules: dict[str, Rule]) -> ActiveGuard:
    if use.name in rules:
        rule = rules[use.name]
        if not callable(cast("object", rule)):
            raise UsageError(f"the guard {quote(use.name)} cannot be called", hint="Pass function(data, when)")
        return ActiveGuard(use.name, use.on_violation, check=_apart(rule))
    if use.name in _DETECTORS:
        return ActiveGuard(use.name, use.on_violation, detector=_DETECTORS[use.name])
    if use.name in _RULES:
        return ActiveGuard(use.name, use.on_violation, check=_RULES[use.name])
    given = f"Pass it as load(…, guards={{{use.name!r}: function}})"
    hint = did_you_mean(use.name, (*GUARDS.names, *rules), otherwise=given)
    raise UsageError(f"there is no guard {quote(use.name)}", hint=hint, guard=use.name)


def _apart(rule: Rule) -> Rule:
    """Return a rule that looks at a copy, so that it cannot change what goes on."""
    return lambda data, when: rule(deepcopy(data), when)


def apply(guards: Sequence[ActiveGuard], data: Any, when: When) -> Checked:
    """Have each guard look at the data that those before it left; raise `GuardViolated` where one lets nothing on.

    The data that is given is never changed. A guard that fails has not said that all is well, so it blocks.
    """
    findings: list[Finding] = []
    texts: str | None = None
    for guard in guards:
        action = guard.action
        if guard.detector is None:
            reason = _ruled(guard, data, when)
            # A rule says that something is wrong, not where.
            action = "warn" if action == "warn" else "block"
        else:
            texts = _texts(guard, data, when) if texts is None else texts
            kinds, redacted = _detected(guard.detector, data) if guard.detector.suspects(texts) else (None, data)
            reason = _listed(kinds) if kinds else None
            if kinds and action == "redact":
                data, texts = redacted, None
        if reason is None:
            continue
        if action == "block":
            raise GuardViolated(guard.name, when, reason)
        findings.append(Finding(guard.name, when, action, reason))
    return Checked(data, tuple(findings))


def redacted(guards: Sequence[ActiveGuard], data: Any) -> Any:
    """Return data as `apply` left it when it let it go on; no guard is asked anything."""
    for guard in guards:
        if guard.detector is not None and guard.action == "redact":
            data = _detected(guard.detector, data)[1]
    return data


def _ruled(guard: ActiveGuard, data: Any, when: When) -> str | None:
    assert guard.check is not None
    try:
        said = cast("object", guard.check(data, when))
    except Exception as error:
        # Whatever a guard of one's own raises, data that it did not look at must not go on.
        raise GuardViolated(guard.name, when, f"it failed with {type(error).__name__}") from error
    if said is None:
        return None
    if not isinstance(said, str):
        raise GuardViolated(guard.name, when, f"it gave {type(said).__name__}, not text or None")
    return cleaned(said)[:_LONGEST_REASON] or "something wrong"


# what stands in texts


def _texts(guard: ActiveGuard, data: Any, when: When) -> str:
    """Return all texts of some data one below the other; data that cannot be looked through goes nowhere."""
    found: list[str] = []
    waiting: list[tuple[Any, int]] = [(data, 0)]
    left = _MOST_VALUES
    while waiting:
        value, depth = waiting.pop()
        left -= 1
        if left < 0 or depth > _DEEPEST:
            raise GuardViolated(guard.name, when, "the data is more than it can look through")
        if type(value) is str:
            found.append(value)
        elif type(value) is int:
            # A card number can be one.
            found.append(str(value))
        elif type(value) is list:
            waiting.extend((one, depth + 1) for one in cast("list[Any]", value))
        elif type(value) is dict:
            for name, one in cast("dict[str, Any]", value).items():
                if type(one) is str:
                    left -= 1
                    found.append(_under(name) + one)
                else:
                    found.append(name)
                    waiting.append((one, depth + 1))
    return "\n".join(found)


def _under(name: str) -> str:
    """Return what stands before a text in a map: a password is known by its name."""
    return f"{name}:\n"


def _detected(detector: Detector, data: Any) -> tuple[Counter[str], Any]:
    """Return how often each kind of thing stands in some data, and the data without them."""
    redaction = _Redaction(detector)
    kept = redaction.value(data)
    return redaction.kinds, kept


class _Redaction:
    """Goes through lists and maps, and makes them anew without what is found in their texts."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.kinds: Counter[str] = Counter()

    def value(self, value: Any) -> Any:
        if type(value) is str:
            return self.text(value)
        if type(value) is int:
            shown = str(value)
            kept = self.text(shown)
            return value if kept == shown else kept
        if type(value) is list:
            return [self.value(one) for one in cast("list[Any]", value)]
        if type(value) is dict:
            return self._map(cast("dict[str, Any]", value))
        return value

    def _map(self, fields: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in fields.items():
            shown = base = self.text(name)
            while shown in kept:
                # Two names that were replaced stay two.
                shown = f"{base} {len(kept) + 1}"
            kept[shown] = self.text(value, before=_under(name)) if type(value) is str else self.value(value)
        return kept

    def text(self, text: str, *, before: str = "") -> str:
        """Return a text without what is found in it; what stands before it is only looked at."""
        lead = len(before)
        found = [one for one in self.detector.find(before + text) if one.end > lead]
        self.kinds.update(one.kind for one in found)
        parts: list[str] = []
        at = 0
        for one in found:
            parts += (text[at : max(one.start - lead, 0)], REDACTED)
            at = one.end - lead
        return "".join((*parts, text[at:]))


def _listed(kinds: Counter[str]) -> str:
    return ", ".join(kind if count == 1 else f"{kind} ({count} times)" for kind, count in sorted(kinds.items()))


_DETECTORS: dict[str, Detector] = {"no_secrets": SECRETS, "no_personal_data": PERSONAL_DATA, "no_instructions": ORDERS}


# nothing at all

_BEARERS = ("content", "query", "task", "results")
"""The parts of what memory and models are given or give that the rest is about."""


def _no_empty(data: Any, when: When) -> str | None:
    main: Any = data
    if data == {} and when == "before":
        return None  # A machine that takes nothing is called.
    if isinstance(data, dict):
        fields = cast("dict[str, Any]", data)
        main = next((fields[name] for name in _BEARERS if name in fields), fields)
    if not _is_empty(main, _DEEPEST):
        return None
    return "nothing goes out" if when == "before" else "nothing came back"


def _is_empty(value: Any, depth: int) -> bool:
    """Say whether a value says nothing: null, blank text, and lists and maps of nothing else."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    if depth and isinstance(value, list | dict):
        inside = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        return all(_is_empty(one, depth - 1) for one in inside)
    return False


_RULES: dict[str, Rule] = {"no_empty": _no_empty}
