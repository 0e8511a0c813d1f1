"""The guard: what is looked for in a write, and what then happens to it.

Memory that a model reads is an attack surface: a page or a tool can plant a sentence that becomes an order when it is
recalled. So each text that an effect would store is looked through by the policy of the origin that it is from, the
effect's own or that of an item which the effect only passes on. The defaults are in `model/guard.py`; a tenant can
change them by scope and kind of origin. Everything in an effect counts: values, metadata, keys, names and labels. A new
effect is looked through without a line here, because its fields are found by their types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, cast

import msgspec

from memoranda.engine.definitions import bump_revision
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import Denied, LimitExceeded, Refused, UsageError
from memoranda.governance.detection import Detection, DetectionKind, find_in, redact
from memoranda.model.block import key_of
from memoranda.model.effect import Effect, ReadEffect, WriteEffect
from memoranda.model.event import Note
from memoranda.model.folding import fold
from memoranda.model.guard import (
    SUBJECTS,
    Action,
    GuardBook,
    GuardPolicy,
    GuardRule,
    Subject,
    check_action,
    kind_to_guard,
)
from memoranda.model.limits import check_count
from memoranda.model.names import is_block
from memoranda.model.scope import Scope
from memoranda.model.trust import ORIGIN_KINDS, RANK_OF, TRUST_OF, Origin, OriginKind, Trust, check_origin, is_at_least
from memoranda.model.value import decode, encode
from memoranda.store.base import Reader, Transaction

_SUBJECT_OF: dict[DetectionKind, Subject] = {
    "instruction": "instructions",
    "secret": "secrets",
    "payment": "payment",
    "code": "codes",
}

_ALWAYS = frozenset(
    {
        *("persona", "guardrails", "policy", "policies", "permission", "permissions", "privilege", "privileges", "acl"),
        *("authorization", "authorisation", "credentials"),
    }
)
_ALONE = frozenset(
    {"identity", "role", "roles", "system", "instruction", "instructions", "prompt", "prompts", "admin", "security"}
)
_AGENT = frozenset(
    {
        *("agent", "agents", "ai", "assistant", "bot", "chatbot", "llm", "model", "system", "sys", "developer", "user"),
        "identity",
    }
)
_COMPOUNDS = frozenset(agent + alone for agent in _AGENT for alone in _ALONE)
"""Both written as one word: `systemprompt`."""
_LETTERS = str.maketrans("013457", "oleast")
"""Words in the keys of what says who an agent is and what it may do: those that always say it, those that say it as the
first segment or after a word for an agent, and these words. A recipe has instructions, too."""
_JOINTS = re.compile(r"[^\w.]+|_+|(?<=[a-z])(?=[A-Z])")
_CORE = key_of("core")
_OUTSIDE = frozenset[OriginKind]({"tool_external", "unknown"})
_SHORT = 16
"""Characters of a name below which nothing can be hidden in it."""


class Part(msgspec.Struct, frozen=True):
    """What is held of an effect: an effect of its own, from one origin, and what was found in it."""

    effect: Effect
    origin: Origin
    findings: tuple[str, ...]


class Examined(msgspec.Struct, frozen=True):
    """What the guard makes of an effect."""

    book: GuardBook
    """The rules that it goes by."""
    effect: Effect
    """The effect, without what was redacted or refused."""
    rest: Effect | None
    """What of it is carried out; None if nothing is, because it waits as a whole."""
    held: tuple[Part, ...] = ()
    findings: tuple[str, ...] = ()
    """What was found, and stored or redacted."""
    refused: tuple[str, ...] = ()
    """Why parts were left out."""
    warns: bool = False
    """Whether something that was found is stored as it is."""

    @property
    def suspicions(self) -> tuple[str, ...]:
        """Everything that was found, for who decides about it."""
        return (*self.findings, *(finding for part in self.held for finding in part.findings))


class _Fate:
    """What becomes of an effect, or of an item in it that can be held or left out by itself."""

    def __init__(self, policy: Callable[[OriginKind, Scope], GuardPolicy], capability: str) -> None:
        self._policy = policy
        self._capability = capability
        self.held: list[str] = []
        self.findings: list[str] = []
        self.warns = False
        self.origin: Origin | None = None

    def examine(self, value: Any, scope: Scope, origin: Origin, name: str = "") -> Any:
        """Return a part of an effect as it may be stored; raise Denied or LimitExceeded if it is refused."""
        if isinstance(value, msgspec.Raw):
            return self._examine_json(bytes(value), scope, origin)
        if isinstance(value, bytes):
            return bytes(self._examine_json(value, scope, origin))
        if isinstance(value, str):
            return self._examine_text(value, scope, origin, name in _CONTENTS)
        if isinstance(value, dict):
            return self._examine_value(cast("dict[str, Any]", value), scope, origin)
        if isinstance(value, tuple | list):
            items = cast("list[Any]", value)
            return type(items)(self.examine(item, scope, origin, name) for item in items)
        if isinstance(value, msgspec.Struct) and not isinstance(value, Scope | Origin):
            scope, origin = _place(value, scope), _origin(value, origin)
            changed = {
                name: new
                for name in value.__struct_fields__
                if (old := getattr(value, name)) is not None
                and not isinstance(old, bool | int)
                and (new := self.examine(old, scope, origin, name)) is not old
            }
            return msgspec.structs.replace(value, **changed) if changed else value
        return value

    def _examine_json(self, payload: bytes, scope: Scope, origin: Origin) -> msgspec.Raw:
        policy = self._of(origin, scope)
        if 0 < policy.largest < len(payload):
            raise LimitExceeded(
                f"a value has {len(payload):,} bytes; of `{policy.origin}` at most {policy.largest:,} are stored",
                hint="Store a summary, and where the whole is found",
                limit=policy.largest,
                actual=len(payload),
            )
        if policy.looks_for_nothing:
            return msgspec.Raw(payload)
        value: Any = decode(payload)
        new = self._examine_value(value, scope, origin)
        return msgspec.Raw(payload if new is value else encode(new))

    def _examine_text(self, text: str, scope: Scope, origin: Origin, is_content: bool) -> str:
        policy = self._of(origin, scope)
        if is_content:
            if 0 < policy.largest < len(text):
                self._examine_json(encode(text), scope, origin)
        elif len(text) < _SHORT:
            return text
        if policy.looks_for_nothing:
            return text
        return self._examine_value(text, scope, origin, is_name=not is_content)

    def _examine_value(self, value: Any, scope: Scope, origin: Origin, *, is_name: bool = False) -> Any:
        policy = self._of(origin, scope)
        if policy.looks_for_nothing:
            return value
        private: list[Detection] = []
        for one in find_in(value, instructions=policy.instructions != "allow"):
            action = getattr(policy, _SUBJECT_OF[one.kind])
            if action == "allow":
                continue
            if is_name and action == "redact":
                action = "refuse"  # a name without a part of it is another name
            finding = f"{one.kind}: {one.rule}"
            if action == "refuse":
                raise Denied(
                    f"this is refused from `{policy.origin}`: {finding} was found in it",
                    hint="Write it as a user, or leave it out",
                    capability=self._capability,
                    actor=origin.actor,
                )
            if action == "hold":
                self.hold(finding, origin)
            else:
                self.findings.append(finding)
                self.warns = self.warns or action == "warn"
            if action == "redact":
                private.append(one)
        return redact(value, private) if private else value

    def hold(self, finding: str, origin: Origin) -> None:
        """Note why this has to be reviewed."""
        self.held.append(finding)
        if self.origin is None or not is_at_least(origin.trust, self.origin.trust):
            self.origin = origin

    def protect(self, keys: Iterable[tuple[Scope, str]], origin: Origin) -> None:
        """Apply the policy to protected keys; raise Denied if one is closed."""
        for scope, key in keys:
            policy = self._of(origin, scope)
            if policy.protected == "allow" or not _is_closed(scope, key, origin):
                continue
            if policy.protected == "refuse":
                raise _protection_error(key, policy, self._capability, origin)
            if policy.protected == "hold":
                self.hold("protected: key", origin)
            else:
                self.findings.append("protected: key")
                self.warns = True

    def _of(self, origin: Origin, scope: Scope) -> GuardPolicy:
        return self._policy(kind_to_guard(origin), scope)


_CONTENTS = frozenset({"text", "value", "title", "description", "reason", "error", "replaces"})
"""Fields with texts that are contents and not names, so that a part of them can be redacted."""


def _place(value: msgspec.Struct, scope: Scope) -> Scope:
    """Return the scope of a part: its own if it names one."""
    own = getattr(value, "scope", None)
    if isinstance(own, Scope):
        return own
    if isinstance(own, str) and (":" in own or not own):  # of a definition, it is a kind of scope
        return Scope(scope.tenant, own)
    return scope


def _origin(value: msgspec.Struct, origin: Origin) -> Origin:
    """Return the origin of a part: a less trusted one if it is only passed on."""
    kind = getattr(value, "kind", None)
    if kind not in TRUST_OF or is_at_least(TRUST_OF[kind], origin.trust):
        return origin
    return origin.from_kind(kind)


def examine(effect: Effect, origin: Origin, authority: Trust, book: GuardBook, *, is_owner: bool) -> Examined:
    """Return an effect as it may be carried out; raise Denied or LimitExceeded if it is refused as a whole."""
    passed_on = effect.kind_passed_on(is_owner=is_owner)
    if passed_on is not None:
        origin = _lower(origin, passed_on)
    policy = book.policy(kind_to_guard(origin), effect.scope)
    if policy.is_open and not effect.parts and not book.has(kind_to_guard(origin)):
        return Examined(book, effect, effect)
    whole = _Fate(book.policy, effect.capability)
    shell = msgspec.structs.replace(effect, **dict.fromkeys(effect.parts, ()))
    changed = whole.examine(shell, effect.scope, origin)
    if authority != "high" or kind_to_guard(origin) != "user":
        whole.protect(() if effect.parts else keys_to_write(effect), origin)
    if not effect.parts:
        findings = _unique(whole.findings)
        if not whole.held:
            return Examined(book, changed, changed, findings=findings, warns=whole.warns)
        part = Part(changed, whole.origin or origin, _unique(whole.held))
        return Examined(book, changed, None, (part,), findings)
    return _examine_parts(effect, changed, whole, origin, book)


def _examine_parts(effect: Effect, shell: Effect, whole: _Fate, origin: Origin, book: GuardBook) -> Examined:
    """Examine the items of an effect one by one: each is carried out, held or left out by itself."""
    fates: list[_Fate] = []
    refused: list[tuple[Any, str]] = []
    kept: dict[str, list[Any]] = {}
    state: dict[int, str] = {}
    for field in effect.parts:
        kept[field] = []
        for item in getattr(effect, field):
            place, own = _place(item, effect.scope), _origin(item, origin)
            if not effect.is_separate(item):
                kept[field].append(whole.examine(item, place, own))
                whole.protect(((place, key) for key in effect.keys_of(item)), own)
                continue
            fate = _Fate(book.policy, effect.capability)
            try:
                new = fate.examine(item, place, own)
                fate.protect(((place, key) for key in effect.keys_of(item)), own)
            except Refused as refusal:
                refused.append((item, refusal.message))
                new = item
                state[id(new)] = "refused"
            else:
                if fate.held:
                    state[id(new)] = "held"
                    fates.append(fate)
            kept[field].append(new)
            whole.findings += fate.findings
            whole.warns = whole.warns or fate.warns
    full = msgspec.structs.replace(shell, **{field: tuple(items) for field, items in kept.items()})
    if whole.held:
        part = Part(full, whole.origin or origin, _unique(whole.held))
        return Examined(book, full, None, (part,), _unique(whole.findings))
    if not state:
        return Examined(book, full, full, findings=_unique(whole.findings), warns=whole.warns)
    rest, held = full.divide(lambda item: state.get(id(item), "kept"), refused)
    if held is None:
        return Examined(book, full, rest, (), _unique(whole.findings), tuple(reason for _, reason in refused))
    least = min((fate.origin or origin for fate in fates), key=lambda one: RANK_OF[one.trust])
    part = Part(held, least, _unique([finding for fate in fates for finding in fate.held]))
    return Examined(book, full, rest, (part,), _unique(whole.findings), tuple(reason for _, reason in refused))


def _lower(origin: Origin, kind: OriginKind) -> Origin:
    return origin if is_at_least(TRUST_OF[kind], origin.trust) else origin.from_kind(kind)


def _unique(findings: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(findings))


def is_protected(key: str) -> bool:
    """Return whether a key is about who an agent is or what it may do.

    >>> is_protected("agent.system_prompt"), is_protected("userRole"), is_protected("baking_instructions")
    (True, True, False)
    """
    agent = False
    segments = key.split(".")
    if all(len(segment) == 1 for segment in segments):
        segments = ["".join(segments)]
    for place, segment in enumerate(segments):
        parts = [fold(word).rstrip("0123456789").translate(_LETTERS) for word in _JOINTS.split(segment) if word]
        words, whole = set(parts), "".join(parts)
        if not _ALWAYS.isdisjoint(words) or whole in _ALWAYS or whole in _COMPOUNDS:
            return True
        if whole in _ALONE:
            words = {whole}
        weak = words & _ALONE
        agent = agent or not (words - weak).isdisjoint(_AGENT)
        if weak and (agent or (place == 0 and words == weak)):
            return True
    return False


def _is_closed(scope: Scope, key: str, origin: Origin) -> bool:
    """Return whether a key is protected; for what comes from outside also the core block, which every prompt shows."""
    return is_protected(key) or (key == _CORE and is_block(scope, key) and origin.kind in _OUTSIDE)


def ensure_open(places: Iterable[tuple[Scope, str]], origin: Origin, book: GuardBook, capability: str) -> None:
    """Raise Denied if what an effect names in the rows is at a protected key that is closed to its origin."""
    for scope, key in places:
        policy = book.policy(kind_to_guard(origin), scope)
        if policy.protected in ("refuse", "hold") and _is_closed(scope, key, origin):
            raise _protection_error(key, policy, capability, origin)


def _protection_error(key: str, policy: GuardPolicy, capability: str, origin: Origin) -> Denied:
    return Denied(
        f"`{key}` is protected: a write from `{policy.origin}` cannot change it",
        hint="Write it as a user, or with a handle that has the authority",
        capability=capability,
        actor=origin.actor,
    )


def keys_to_write(effect: Effect) -> Iterator[tuple[Scope, str]]:
    """Yield the keys that an effect names by itself, with their scopes."""
    for _, scope, key in effect.demands():
        if key is not None:
            yield scope or effect.scope, key.removeprefix("collections.")
    for key in effect.entry_keys():
        yield effect.scope, key


def warn(effect: Effect, origin: Origin, examined: Examined) -> None:
    """Log what was found in a write that is stored all the same, by kind and rule."""
    if examined.warns:
        import logging  # which is not loaded where nothing is to be logged

        found = ", ".join(examined.findings)
        log = logging.getLogger("memoranda.guard")
        log.warning("%s of `%s` in `%s`: %s", effect.name, origin.actor, effect.scope, found)


# --- the rules of a tenant


class SetGuard(WriteEffect, frozen=True, kw_only=True, tag="set_guard"):
    """Say what the guard does about what kinds of origins write in a scope, or forget what was said."""

    capability: ClassVar[str] = "guard.write"
    origins: tuple[OriginKind, ...]
    actions: dict[Subject, Action] = msgspec.field(default_factory=dict["Subject", "Action"])
    largest: int | None = None
    reset: bool = False


@verb(SetGuard)
def set_guard(rows: Transaction, effect: SetGuard, call: Call) -> Outcome[list[GuardRule]]:
    """Keep one rule for each kind of origin; what is not said stays as it was said before."""
    tenant = effect.scope.tenant
    known = {(one.scope, one.origin): one for one in rows.scan(GuardRule, tenant)}
    result: list[GuardRule] = []
    for origin in effect.origins:
        place = effect.scope.path, origin
        if effect.reset:
            if place in known:
                rows.remove(GuardRule, tenant, *place)
            continue
        said = {**effect.actions, **({} if effect.largest is None else {"largest": effect.largest})}
        rule = known.get(place) or GuardRule(tenant=tenant, scope=effect.scope.path, origin=origin)
        rule = msgspec.structs.replace(rule, **said)
        rows.put(rule)
        result.append(rule)
    bump_revision(rows, tenant)
    detail: dict[str, Any] = {"origins": list(effect.origins), **effect.actions}
    if effect.largest is not None:
        detail["largest"] = effect.largest
    if effect.reset:
        detail["reset"] = True
    return Outcome(result, (Note(effect=effect.name, scope=effect.scope.path, detail=detail),))


class ReadGuards(ReadEffect, frozen=True, kw_only=True, tag="read_guards"):
    """Read the rules of the guard."""

    capability: ClassVar[str] = "guard.read"


@verb(ReadGuards)
def read_guards(rows: Reader, effect: ReadGuards, call: Call) -> Outcome[list[GuardRule]]:
    """Return the rules of a tenant, by scope and kind of origin."""
    return Outcome(rows.scan(GuardRule, effect.scope.tenant))


def guard_change(
    scope: Scope, origins: object, actions: dict[str, object], *, largest: object = None, reset: bool = False
) -> SetGuard:
    """Return the effect of a change of rules, or raise UsageError for what it cannot be."""
    if isinstance(origins, str):
        origins = (origins,)
    kinds: dict[OriginKind, None] = {}
    for one in cast("Iterable[object]", origins):
        kinds[check_origin(one)] = None
    if not kinds:
        raise UsageError(
            "no kind of origin is named", hint=f"Pass one or more of {', '.join(ORIGIN_KINDS)}", path="origins"
        )
    said: dict[Subject, Action] = {}
    for name in SUBJECTS:
        action = check_action(name, actions.get(name))
        if action is not None:
            said[name] = action
    if largest is not None:
        check_count("number of bytes", largest, least=0)
    if not said and largest is None and not reset:
        raise UsageError("nothing is said about these origins", hint=f"Pass one of {', '.join(SUBJECTS)}, largest")
    return SetGuard(scope=scope, origins=tuple(kinds), actions=said, largest=cast("int | None", largest), reset=reset)
