"""Keys, grants, the ledger, health and maintenance on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

import msgspec

from memoranda.model.event import Event as Event
from memoranda.model.event import Verification as Verification
from memoranda.model.guard import Action
from memoranda.model.guard import GuardRule as StoredGuardRule
from memoranda.model.lineage import Deletion as StoredDeletion
from memoranda.model.lineage import Rollback as StoredRollback
from memoranda.model.lineage import Served as Served
from memoranda.model.lineage import Tainted as Tainted
from memoranda.model.policy import Grant as StoredGrant
from memoranda.model.policy import Level
from memoranda.model.policy import Role as StoredRole
from memoranda.model.probes import Remains as Remains
from memoranda.model.transfer import Imported as Imported
from memoranda.model.trust import OriginKind
from memoranda.wire.codec import plain


class CreateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to create."""

    user: str
    role: str = "member"
    """`admin`, `member`, `reader`, or a role that was defined."""
    allow: list[str] = []
    """Capabilities that it is restricted to; empty for all those of its role."""
    origin: OriginKind = "user"
    """What writes with it, which says how far that is trusted: the user, or a model, a tool, a program…"""
    expires: str | int | None = None
    """Its lifetime: `90d`, or seconds."""
    label: str = ""


class RotateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to rotate; `grace` is how long the old key remains valid. Default: it ends now."""

    grace: str | int | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its token, which was shown once and is not stored."""

    id: str
    tenant: str
    user: str
    role: str
    allow: list[str] = []
    origin: OriginKind = "user"
    label: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """The time of the last use, to the hour."""


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key with its token, which cannot be shown again."""

    token: str
    key: Key

    def __repr__(self) -> str:
        """Return a text without the token, because it may end up in logs."""
        return f"NewKey(token=…, key={self.key!r})"


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """A page of keys, oldest first, including revoked ones."""

    keys: list[Key]
    next: str | None = None


class NewGrant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule to store for an actor (`*` for all): allow, approve (each use needs an approval) or deny."""

    actor: str
    capability: str
    level: Level = "allow"
    scope: str | None = None
    """Apply only at and below this scope of the tenant, such as `project:atlas`; `shared` is the shared scope alone."""
    path: str = ""
    """Apply only at and below this key."""
    own: bool = False
    """Of a role: apply in the memory of the user who has it."""


class Grant(NewGrant, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A stored rule."""

    id: str
    tenant: str


class Grants(msgspec.Struct, frozen=True, kw_only=True):
    """A page of grants, oldest first."""

    grants: list[Grant]
    next: str | None = None


class SetGuard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the guard does about what kinds of origins write; what is left out stays as it was."""

    scope: str | None = None
    """Apply at and below this scope of the tenant, such as `user:ada`; everywhere without it."""
    origins: list[OriginKind]
    instructions: Action | None = None
    secrets: Action | None = None
    payment: Action | None = None
    codes: Action | None = None
    protected: Action | None = None
    """About keys, blocks and records that say who an agent is and what it may do."""
    largest: int | None = None
    """The bytes of a value; with 0, values of any size are stored."""


class GuardRule(msgspec.Struct, frozen=True, kw_only=True):
    """What the guard does about what one kind of origin writes; null is said above or by default."""

    tenant: str
    scope: str
    """Empty for the whole tenant."""
    origin: OriginKind
    instructions: Action | None = None
    secrets: Action | None = None
    payment: Action | None = None
    codes: Action | None = None
    protected: Action | None = None
    largest: int | None = None


class GuardRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules of the guard, by scope and origin."""

    rules: list[GuardRule]


class CheckContent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text or another JSON value that the guard looks through; it is not stored."""

    content: Any


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """Something found in a text: what kind of thing, by which rule, and where; never what was found."""

    kind: Literal["instruction", "secret", "payment", "code"]
    rule: str
    path: str
    start: int
    end: int


class Detections(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a value."""

    detections: list[Detection]


def guard_json(rules: Iterable[StoredGuardRule]) -> GuardRules:
    """Return rules of the guard as their wire type."""
    return GuardRules(rules=[GuardRule(**msgspec.structs.asdict(one)) for one in rules])


class RoleRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule of a role, as a grant has one."""

    capability: str
    level: Level = "allow"
    scope: str | None = None
    path: str = ""
    own: bool = False


class DefineRole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a role may do, in place of what it could before."""

    allow: list[str] = []
    """Capabilities in the whole tenant."""
    own: list[str] = []
    """Capabilities in the memory of the user who has the role."""
    rules: list[RoleRule] = []
    """Other rules."""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of rules, for keys, tokens and users."""

    name: str
    rules: list[RoleRule]
    built_in: bool = False


class Roles(msgspec.Struct, frozen=True, kw_only=True):
    """The built-in roles and those that were defined."""

    roles: list[Role]


def role_json(role: StoredRole) -> Role:
    """Return a role as its wire type."""
    return msgspec.convert(plain(role), Role)


def grant_json(grant: StoredGrant) -> Grant:
    """Return a grant as its wire type."""
    return Grant(**plain(grant))


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events, oldest first."""

    events: list[Event]
    next: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the process (`/health`), and also of its store (`/ready`)."""

    status: str
    version: str


class Erase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The subject to erase: one or more ids, which together name one scope."""

    user: str | None = None
    project: str | None = None
    tree: str | None = None
    agent: str | None = None
    workflow: str | None = None
    thread: str | None = None
    run: str | None = None
    session: str | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, by kind, and the position of the event in the ledger."""

    id: str
    tenant: str
    scope: str
    at: datetime
    removed: dict[str, int]
    position: int
    scrubbed: bool
    """Whether no byte of the tables has the removed content."""
    remains: Remains = Remains()
    """Where the removed content can still be read by someone with access to the files of the database."""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep removed, by kind."""

    facts: int = 0
    revisions: int = 0
    entries: int = 0
    idempotency_keys: int = 0
    runs: int = 0
    """Runs whose time was over; nothing is left of them but their events."""
    records: dict[str, int] = {}
    """Number of facts that were records, by the slug of their definition."""


class EndScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session, run or tree below the caller to end, such as `session:s1`."""

    scope: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed with a scope, by kind."""

    removed: dict[str, int]


class Taint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is tainted, by one of these: a `ref`, an `actor`, a `source`, an `origin`, an `event`, a `run`."""

    ref: str | None = None
    actor: str | None = None
    source: str | None = None
    origin: OriginKind | None = None
    event: int | None = None
    """The position of an event of the ledger."""
    run: str | None = None
    scope: str | None = None
    """Only what is at or below this scope; what was derived from it goes wherever it is."""
    reason: str = ""
    dry_run: bool = False


class UndoTaint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `undo` of a taint."""

    token: str


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion, as the ledger has it."""

    position: int
    at: datetime
    actor: str
    effect: str
    scope: str
    key: str | None
    resource: str | None
    version: int | None
    epoch: int


class Deletions(msgspec.Struct, frozen=True, kw_only=True):
    """Deletions, oldest first."""

    deletions: list[Deletion]


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """A rollback, as the ledger has it: what it undid, and what had depended on that."""

    position: int
    at: datetime
    actor: str
    scope: str
    undid: list[int]
    refs: list[str]
    dependants: list[Served]
    derived: list[str]
    epoch: int


class Rollbacks(msgspec.Struct, frozen=True, kw_only=True):
    """Rollbacks, oldest first."""

    rollbacks: list[Rollback]


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """The permission epoch of a scope, or of the tenant."""

    scope: str | None
    epoch: int


def deletion_json(deletion: StoredDeletion) -> Deletion:
    """Return a deletion as it travels."""
    return msgspec.convert({**msgspec.structs.asdict(deletion), "scope": deletion.scope.path}, Deletion)


def rollback_json(rollback: StoredRollback) -> Rollback:
    """Return a rollback as it travels."""
    return msgspec.convert({**msgspec.structs.asdict(rollback), "scope": rollback.scope.path}, Rollback)
