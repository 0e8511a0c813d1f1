"""Guards: rules for the data of steps, checked before it is sent and after a result has arrived.

Their findings are stored in the ledger, so they name kinds of things and never what was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, TypeAlias, cast

import msgspec

from memoranda.errors import Hint, UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.mashin.detectors import ORDERS, PERSONAL_DATA, SECRETS, Detector
from memoranda.mashin.document import Ensures
from memoranda.mashin.expression.compiler import Programs, expression
from memoranda.mashin.keywords import GUARDS, ON_VIOLATION
from memoranda.model.text import quote, storable_text

When: TypeAlias = Literal["before", "after"]
Action: TypeAlias = Literal["block", "redact", "warn"]

Rule: TypeAlias = Callable[[Any, When], str | None]
"""A custom guard: takes the data and when it is checked, and returns what is wrong in words, or None."""

REDACTED = "[redacted]"

_DEEPEST = 64
_MOST_VALUES = 1_000_000
_LONGEST_REASON = 200


class GuardUse(msgspec.Struct, frozen=True):
    """A guard that a machine names, and what happens when it finds something."""

    name: str
    on_violation: Action = "block"


class ActiveGuard(msgspec.Struct, frozen=True):
    """A guard that is ready to check data, by a detector of texts or by a rule."""

    name: str
    action: Action
    check: Rule | None = None
    detector: Detector | None = None


class Finding(msgspec.Struct, frozen=True):
    """What kind of thing a guard found, and what was done about it."""

    guard: str
    when: When
    action: Action
    reason: str


class Checked(msgspec.Struct, frozen=True):
    """The data that the guards let through, and what they found in it."""

    data: Any
    findings: tuple[Finding, ...] = ()


class GuardViolated(Exception):
    """A guard blocked the data: the step fails, and a result is withheld."""

    def __init__(self, guard: str, when: When, reason: str) -> None:
        """Name the guard, the side of the step, and the reason."""
        super().__init__(f"the guard `{guard}` stopped it: {reason}")
        self.guard = guard
        self.when = when
        self.reason = reason


def guard_uses(ensures: Ensures | None, programs: Programs) -> tuple[GuardUse, ...]:
    """Return the guards of a checked document."""
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


def missing_guard(data: Any, when: When) -> str:
    """Replace a guard that was not given, where a run is only inspected: block everything."""
    return "it was not given here"


def activate(uses: Sequence[GuardUse], given: Mapping[str, Rule] | None = None) -> tuple[ActiveGuard, ...]:
    """Return guards ready to run; a given one replaces a built-in one of the same name."""
    rules = dict(given or {})
    return tuple(_activate_one(use, rules) for use in uses)


def _activate_one(use: GuardUse, rules: dict[str, Rule]) -> ActiveGuard:
    if use.name in rules:
        rule = rules[use.name]
        if not callable(cast("object", rule)):
            raise UsageError(
                f"the guard {quote(use.name)} cannot be called", hint=Hint("python", "Pass function(data, when)")
            )
        # A rule gets a copy, so that it cannot change the data.
        return ActiveGuard(use.name, use.on_violation, check=lambda data, when: rule(deepcopy(data), when))
    if use.name in _DETECTORS:
        return ActiveGuard(use.name, use.on_violation, detector=_DETECTORS[use.name])
    if use.name in _RULES:
        return ActiveGuard(use.name, use.on_violation, check=_RULES[use.name])
    given = Hint("python", f"Pass it as load(…, guards={{{use.name!r}: function}})")
    hint = did_you_mean(use.name, (*GUARDS.names, *rules)) or given
    raise UsageError(f"unknown guard {quote(use.name)}", hint=hint, guard=use.name)


def apply(guards: Sequence[ActiveGuard], data: Any, when: When) -> Checked:
    """Apply each guard to what those before it left of the data; raise `GuardViolated` where one blocks.

    The given data is never changed. A guard that fails blocks.
    """
    findings: list[Finding] = []
    texts: str | None = None
    for guard in guards:
        action = guard.action
        if guard.detector is None:
            reason = _rule_reason(guard, data, when)
            # A rule says that something is wrong, not where, so it cannot redact.
            action = "warn" if action == "warn" else "block"
        else:
            texts = _texts(guard, data, when) if texts is None else texts
            kinds, redacted = _redact(guard.detector, data) if guard.detector.suspects(texts) else (None, data)
            reason = _describe(kinds) if kinds else None
            if kinds and action == "redact":
                data, texts = redacted, None
        if reason is None:
            continue
        if action == "block":
            raise GuardViolated(guard.name, when, reason)
        findings.append(Finding(guard.name, when, action, reason))
    return Checked(data, tuple(findings))


def redact(guards: Sequence[ActiveGuard], data: Any) -> Any:
    """Return data as `apply` left it, without asking the rules again."""
    for guard in guards:
        if guard.detector is not None and guard.action == "redact":
            data = _redact(guard.detector, data)[1]
    return data


def _rule_reason(guard: ActiveGuard, data: Any, when: When) -> str | None:
    assert guard.check is not None
    try:
        said = cast("object", guard.check(data, when))
    except Exception as error:
        # Data that a custom guard did not check must not pass, whatever it raised.
        raise GuardViolated(guard.name, when, f"it failed with {type(error).__name__}") from error
    if said is None:
        return None
    if not isinstance(said, str):
        raise GuardViolated(guard.name, when, f"it returned {type(said).__name__}, not text or None")
    return storable_text(said)[:_LONGEST_REASON] or "something wrong"


# detectors of texts


def _texts(guard: ActiveGuard, data: Any, when: When) -> str:
    """Return all texts of some data, one per line; block data that is too large to search."""
    found: list[str] = []
    waiting: list[tuple[Any, int]] = [(data, 0)]
    left = _MOST_VALUES
    while waiting:
        value, depth = waiting.pop()
        left -= 1
        if left < 0 or depth > _DEEPEST:
            raise GuardViolated(guard.name, when, "the data is too large to check")
        if type(value) is str:
            found.append(value)
        elif type(value) is int:
            # It may be a card number.
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
    """Return the prefix of a text in a map: a password is recognized by its name."""
    return f"{name}:\n"


def _redact(detector: Detector, data: Any) -> tuple[Counter[str], Any]:
    """Return how often each kind of thing occurs in some data, and the data without them."""
    redaction = _Redaction(detector)
    kept = redaction.value(data)
    return redaction.kinds, kept


class _Redaction:
    """Copies lists and maps without what is found in their texts."""

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
                # Two names that were both redacted stay two.
                shown = f"{base} {len(kept) + 1}"
            kept[shown] = self.text(value, before=_under(name)) if type(value) is str else self.value(value)
        return kept

    def text(self, text: str, *, before: str = "") -> str:
        """Return a text without what is found in it; the prefix `before` is only searched."""
        lead = len(before)
        found = [one for one in self.detector.find(before + text) if one.end > lead]
        self.kinds.update(one.kind for one in found)
        parts: list[str] = []
        at = 0
        for one in found:
            parts += (text[at : max(one.start - lead, 0)], REDACTED)
            at = one.end - lead
        return "".join((*parts, text[at:]))


def _describe(kinds: Counter[str]) -> str:
    return ", ".join(kind if count == 1 else f"{kind} ({count} times)" for kind, count in sorted(kinds.items()))


_DETECTORS: dict[str, Detector] = {"no_secrets": SECRETS, "no_personal_data": PERSONAL_DATA, "no_instructions": ORDERS}


# empty data

_BEARERS = ("content", "query", "task", "results")
"""The main field of what memory and models are sent or return."""


def _no_empty(data: Any, when: When) -> str | None:
    main: Any = data
    if data == {} and when == "before":
        return None  # the call of a machine without inputs
    if isinstance(data, dict):
        fields = cast("dict[str, Any]", data)
        main = next((fields[name] for name in _BEARERS if name in fields), fields)
    if not _is_empty(main, _DEEPEST):
        return None
    return "nothing goes out" if when == "before" else "nothing came back"


def _is_empty(value: Any, depth: int) -> bool:
    """Return whether a value is null, blank text, or a list or map of such values."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    if depth and isinstance(value, list | dict):
        inside = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        return all(_is_empty(one, depth - 1) for one in inside)
    return False


_RULES: dict[str, Rule] = {"no_empty": _no_empty}
