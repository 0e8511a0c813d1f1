"""Effects: requests to the engine as values.

A door makes an effect, the gate decides about it, and its verb carries it out. Each effect is defined beside its verb
in `memoranda.engine` or `memoranda.governance`; this module knows only what they have in common, and how an effect
that waits for approval is read back from its JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, Union, get_args

import msgspec

from memoranda.model.names import collection_key
from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin, OriginKind, Trust

Demand: TypeAlias = tuple[str, Scope | None, str | None]
"""A capability, the scope that it is needed in (None for the whole tenant), and the key."""


class Effect(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="effect", omit_defaults=True):
    """The base of all effects: the capability it needs, and whether it changes anything.

    The tag of a class is the effect's name in the ledger and in the JSON of approvals, so it never changes.
    """

    capability: ClassVar[str]
    mutates: ClassVar[bool]
    in_one_scope: ClassVar[bool] = False
    """Whether it touches its scope alone; any other effect in the shared scope reaches the whole tenant."""
    scope: Scope

    @property
    def name(self) -> str:
        """The effect's name in the ledger."""
        return str(self.__struct_config__.tag)

    @property
    def place(self) -> str | None:
        """The key this effect is about; None when it is about the whole scope."""
        return getattr(self, "key", None)

    @property
    def reach(self) -> Scope | None:
        """The scope that its capability is needed in; None for the whole tenant."""
        return self.scope if self.in_one_scope or self.scope.path else None

    def demands(self) -> Iterator[Demand]:
        """Yield every capability this effect needs, with the scope, and the key where it names one."""
        yield self.capability, self.reach, self.place

    def weight(self) -> tuple[int, int]:
        """Return the writes and bytes that a quota counts."""
        return 1, 0

    def refusable_weight(self) -> tuple[int, int]:
        """Return the part of its weight for which a quota may refuse it."""
        return self.weight()

    def with_source(self, source: str) -> Self:
        """Return the effect with this source, unless it names one or has no source."""
        return self if getattr(self, "source", source) is not None else msgspec.structs.replace(self, source=source)

    @property
    def parts(self) -> tuple[str, ...]:
        """Its fields with items that the guard can hold or leave out one by one; without any it is held as a whole."""
        return ()

    def kind_passed_on(self, *, is_owner: bool) -> OriginKind | None:
        """Return what kind of origin its contents are from, if its caller only passes them on."""
        return None

    def passes_on(self, *, is_owner: bool) -> bool:
        """Return whether something in it is from another origin than its caller."""
        return self.kind_passed_on(is_owner=is_owner) is not None

    def is_separate(self, item: Any) -> bool:
        """Return whether one of its parts can be held or left out by itself."""
        return True

    def keys_of(self, item: Any) -> Iterator[str]:
        """Yield the keys that one of its parts would write."""
        return iter(())

    def divide(self, fate: Callable[[Any], str], refused: list[tuple[Any, str]]) -> tuple[Self, Self | None]:
        """Return what is carried out and what is held of its parts, which are `kept`, `held` or `refused`."""

        def only(wanted: str) -> dict[str, Any]:
            return {name: tuple(one for one in getattr(self, name) if fate(one) == wanted) for name in self.parts}

        held = only("held")
        return (
            msgspec.structs.replace(self, **only("kept")),
            msgspec.structs.replace(self, **held) if any(held.values()) else None,
        )

    def sides(self) -> Iterator[Side]:
        """Yield what it would write, by place, for those who decide about it."""
        return iter(())

    def entry_keys(self) -> Iterator[str]:
        """Yield the keys of the entries that it would store."""
        return iter(())

    def pending_detail(self) -> dict[str, Any]:
        """Return what the ledger says about it while it waits for approval, beside the capability."""
        return {}


class ReadEffect(Effect, frozen=True, kw_only=True):
    """An effect that changes nothing; it needs the right to read memory, unless it names another."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False


class WriteEffect(Effect, frozen=True, kw_only=True):
    """An effect that changes something; it needs the right to write memory, unless it names another."""

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True


class CollectionEffect(Effect, frozen=True, kw_only=True):
    """An effect in one collection, which rules and accesses name as they name a key."""

    collection: str

    @property
    def place(self) -> str | None:
        """The collection, spelled as a key."""
        return collection_key(self.collection)


Status = Literal["pending", "approved", "refused"]
STATUSES: tuple[Status, ...] = get_args(Status)
Cause = Literal["policy", "conflict", "quarantine", "confirmation"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
"""Why an effect waits: a policy asks for approval, it would replace something more trusted, a detector found something,
or its writer asked for confirmation."""


class Approval(Result, frozen=True, kw_only=True):
    """An effect that waits for a decision, or the decision about it."""

    id: str
    tenant: str
    scope: str
    actor: str
    door: str
    capability: str
    effect: Effect | None
    """What will be done; None once its subject was erased."""
    requested_at: datetime
    status: Status = "pending"
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str = ""
    kind: OriginKind = "user"
    """What kind of origin asked for it."""
    trust: Trust = "high"
    cause: Cause = "policy"
    findings: tuple[str, ...] = ()
    """What a detector found, by kind and rule."""
    rules: dict[str, Any] = {}  # noqa: RUF012  # msgspec copies it
    """Which rules decide about who asked: `granted`, or the `role` with its `homes` and `also`; neither for a policy.
    With the permission `epoch` under which that was decided, if who asked said one."""


Change = Literal["set", "delete", "forget", "supersede"]


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What a write proposes for one place: a fact, an entry, or a line of a block."""

    scope: Scope | None = None
    key: str
    collection: str | None = None
    namespace: str = ""
    ref: str | None = None
    """What it is about, where that is not the fact or entry under the key."""
    change: Change = "set"
    proposed: Any = None
    """None for a deletion."""


class Contested(Result, frozen=True, kw_only=True):
    """Two sides of a conflict: what is current, and a write that waits because it is trusted less."""

    _columns: ClassVar[tuple[str, ...]] = ("id", "scope", "key", "current", "proposed")
    id: str
    scope: Scope
    key: str
    """The key of a fact or entry, or the ref of an entry or a line."""
    collection: str | None = None
    namespace: str = ""
    change: Change = "set"
    """What the write would do."""
    current: Any = None
    current_origin: Origin | None = None
    proposed: Any = None
    """None for a deletion."""
    proposed_origin: Origin
    at: datetime


_kinds: dict[str, type[Effect]] = {}


def register(kind: type[Effect]) -> None:
    """Make a class of effects known to `effect_decoder`."""
    _kinds[kind.__name__] = kind
    effect_decoder.cache_clear()


@cache
def effect_decoder() -> msgspec.json.Decoder[Any]:
    """Return the decoder of every registered effect; making it takes longer than opening a store."""
    return msgspec.json.Decoder(Union[tuple(_kinds.values())])  # noqa: UP007


if not TYPE_CHECKING:  # internal imports name the module of the subject, and are checked

    def __getattr__(name: str) -> Any:
        """Return an effect by its class name: callers of `Memory.perform` import effects from here."""
        try:
            return _kinds[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
