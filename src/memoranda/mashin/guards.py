"""Guards: rules for the data of steps, checked before it is sent and after a result has arrived.

Their findings are stored in the ledger, so they name kinds of things and never what was found. Built-in guards detect
secrets, personal data and instructions to a model. Their patterns run on RE2, in time linear in the text; where a
checksum or a length can rule out a coincidence, what they find is checked again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, TypeAlias, cast

import msgspec

from memoranda.errors import Hint, UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.mashin.document import Ensures
from memoranda.mashin.expression.compiler import Programs, expression
from memoranda.mashin.keywords import GUARDS, ON_VIOLATION
from memoranda.model.text import quote, storable_text, without_halves

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


# detectors


class Found(msgspec.Struct, frozen=True, order=True):
    """A part of a text, and what kind of thing it is."""

    start: int
    end: int
    kind: str


class Sign(msgspec.Struct, frozen=True):
    """A kind of thing, its pattern, and a function that rules out coincidences."""

    kind: str
    pattern: str
    narrow: Callable[[str], Iterator[tuple[int, int]]] | None = None
    """Yields the parts of a match that really are such a thing; without it, the whole match is."""


class Detector(msgspec.Struct, frozen=True, dict=True):
    """Patterns that are searched for together."""

    signs: tuple[Sign, ...]
    passes: re.Pattern[str] | None = None
    """What is never such a thing, whatever it contains."""

    @cached_property
    def _patterns(self) -> tuple[tuple[Sign, Any], ...]:
        return tuple((sign, _compile(sign.pattern)) for sign in self.signs)

    @cached_property
    def _any(self) -> Any:
        return _compile("|".join(f"(?:{sign.pattern})" for sign in self.signs))

    def suspects(self, text: str) -> bool:
        """Return whether `find` may find something in a text."""
        return self._any.search(without_halves(text)) is not None

    def find(self, text: str) -> list[Found]:
        """Return what is found in a text, in order; overlapping parts become one."""
        readable = without_halves(text)
        if self.passes is not None:
            readable = self.passes.sub(lambda one: "x" * len(one[0]), readable)
        found: list[Found] = []
        for sign, pattern in self._patterns:
            for match in pattern.finditer(readable):
                start, end = match.span()
                if sign.narrow is None:
                    found.append(Found(start, end, sign.kind))
                else:
                    inside = sign.narrow(readable[start:end])
                    found.extend(Found(start + first, start + last, sign.kind) for first, last in inside)
        return _merge_overlaps(found)


def _compile(pattern: str) -> Any:
    re2: Any = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options=options)


def _merge_overlaps(found: list[Found]) -> list[Found]:
    apart: list[Found] = []
    for one in sorted(found, key=lambda each: (each.start, -each.end, each.kind)):
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
        elif one.end > apart[-1].end:
            apart[-1] = Found(apart[-1].start, one.end, apart[-1].kind)
    return apart


# secrets

_ASSIGNED = re.compile(r"""[:=]\s*["']?(?P<value>[^\s"',;]+)""")


def _password_value(text: str) -> Iterator[tuple[int, int]]:
    """Yield the value after `password:`, unless it is a plain word."""
    found = _ASSIGNED.search(text)
    if found and any(map(str.isdigit, found["value"])) and any(map(str.isalpha, found["value"])):
        yield found.span("value")


SECRETS = Detector(
    (
        Sign(
            "a private key",
            r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
            r"(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|\z)",
        ),
        Sign("an access key", r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA|AIPA)[A-Z0-9]{16}\b"),
        Sign("an access token", r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,}|glpat-[\w-]{20,}|npm_\w{36,})"),
        Sign("an access token", r"\b(?:xox[a-z]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{30,}|SG\.[\w-]{16,}\.[\w-]{16,})"),
        Sign("an API key", r"\b(?:sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|AIza[\w-]{35})"),
        Sign("a signed token", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
        Sign("a bearer token", r"(?i:\bbearer\s+[a-z0-9._~+/-]{16,}=*)"),
        Sign("a password in an address", r"(?i:\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@)"),
        Sign(
            "a password",
            r"(?i:\b(?:password|passwd|pwd|passphrase|secret|token|api[_ -]?key|secret[_ -]?key|access[_ -]?key)\b"
            r"""["']?\s*[:=]\s*["']?[^\s"',;]{8,})""",
            _password_value,
        ),
    )
)
"""Keys, tokens and passwords."""


# personal data

_GROUP = re.compile(r"[0-9]+")
_CARDS = {
    "2": re.compile(r"(?:222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"),
    "3": re.compile(r"3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|35(?:2[89]|[3-8][0-9])[0-9]{12}"),
    "4": re.compile(r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})"),
    "5": re.compile(r"5[1-5][0-9]{14}"),
    "6": re.compile(r"6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}|62[0-9]{14,17}"),
}
"""The numbers of card networks, by first digits and length."""
_CARD_LENGTHS = range(13, 20)


def _cards(text: str) -> Iterator[tuple[int, int]]:
    """Yield the card numbers among groups of digits; a number begins and ends with a group."""
    groups = [match.span() for match in _GROUP.finditer(text)]
    digits = "".join(text[start:end] for start, end in groups)
    # Where each group begins among the digits, and where the one that ends there ends in the text.
    begins: list[int] = []
    ends: dict[int, int] = {}
    count = 0
    for start, end in groups:
        begins.append(count)
        count += end - start
        ends[count] = end
    taken = 0
    for (start, _), begin in zip(groups, begins, strict=True):
        network = _CARDS.get(digits[begin])
        if network is None or begin < taken:
            continue
        for last in (begin + length for length in _CARD_LENGTHS if begin + length in ends):
            if network.fullmatch(digits, begin, last) and _passes_luhn(digits[begin:last]):
                yield start, ends[last]
                taken = last
                break


_DOUBLED = str.maketrans("0123456789", "0246813579")


def _passes_luhn(digits: str) -> bool:
    """Return whether the Luhn checksum is right."""
    return sum(map(int, digits[::-2] + digits[-2::-2].translate(_DOUBLED))) % 10 == 0


_ACCOUNTS = {
    country: int(length)
    for country, length in (
        (entry[:2], entry[2:])
        for entry in (
            "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 "
            "ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
            "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 "
            "QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
        ).split()
    )
}
"""The length of an IBAN, by country."""


def _accounts(text: str) -> Iterator[tuple[int, int]]:
    """Yield an IBAN, cut at the length of its country, if its check digits are right."""
    length = _ACCOUNTS.get(text[:2])
    places = [at for at, character in enumerate(text) if character != " "]
    if length is None or len(places) < length:
        return
    number = "".join(text[at] for at in places[:length])
    rest = "".join(str(int(character, 36)) for character in number[4:] + number[:4])
    if int(rest) % 97 == 1:
        yield 0, places[length - 1] + 1


_PHONE_DIGITS = range(7, 16)
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")


def _phones(text: str) -> Iterator[tuple[int, int]]:
    if sum(map(str.isdigit, text)) in _PHONE_DIGITS:
        yield 0, len(text)


PERSONAL_DATA = Detector(
    (
        Sign("an e-mail address", r"[\pL\pN._+%-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+"),
        Sign("an account number", r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}\b", _accounts),
        Sign("a card number", r"\b[0-9](?:[ -]?[0-9]){12,}\b", _cards),
        Sign("a telephone number", r"\+[0-9][0-9 ()./-]{6,18}[0-9]\b", _phones),
        Sign("a telephone number", r"\([0-9]{2,5}\) ?[0-9][0-9 ./-]{3,12}[0-9]\b", _phones),
        Sign("a telephone number", r"\b[0-9]{3}[-. ][0-9]{3}[-. ][0-9]{4}\b"),
        Sign("a telephone number", r"\b0[0-9]{1,4}[ /-][0-9][0-9 -]{4,10}[0-9]\b", _phones),
    ),
    # One in a few thousand UUIDs contains the digits of a telephone number.
    passes=_UUID,
)
"""E-mail addresses, telephone numbers, accounts and cards."""


# instructions to a model

_BEFORE = r"(?:all |any |the |your |my |of |these |those )*(?:previous|prior|earlier|above|preceding|existing|system)"
_ORDERS = r"(?:instructions?|prompts?|rules?|messages?|directions?|guidelines?|context)"

ORDERS = Detector(
    (
        Sign(
            "words that take back instructions",
            rf"(?i:\b(?:ignore|disregard|forget|override|bypass)\s+{_BEFORE}\s+{_ORDERS}\b)",
        ),
        Sign(
            "words that take back instructions",
            r"(?i:\b(?:ignore|disregard|forget)\s+(?:everything|anything|all)\s+(?:above|before|you|that)\b)",
        ),
        Sign(
            "words that give a new role", r"(?i:\b(?:you are now|from now on,? you|pretend (?:to be|that you are))\b)"
        ),
        Sign(
            "words that ask for the prompt",
            r"(?i:\b(?:reveal|print|show|repeat)\s+(?:me )?your\s+(?:system )?prompt\b)",
        ),
        Sign("a mark of a role", r"<\|[a-z_]{2,20}\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant)>"),
        Sign("a mark of a role", r"(?im:^\s*(?:#{1,4} ?)?(?:system|assistant|developer)\s*:)"),
        Sign("new instructions", r"(?i:\b(?:new|updated|real) (?:system )?instructions?\s*:)"),
    )
)
"""Text that seems to address a model: a suspicion, not a proof."""


# built-in guards

_DETECTORS: dict[str, Detector] = {"no_secrets": SECRETS, "no_personal_data": PERSONAL_DATA, "no_instructions": ORDERS}
_RULES: dict[str, Rule] = {"no_empty": _no_empty}
