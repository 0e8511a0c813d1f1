"""API keys, `mk_<id>_<secret>`, stored as facts in a system tenant, only as hashes.

A secret has 256 random bits, so an unsalted hash is safe. Cached keys are read again after any write to the system
tenant, so a revoked key is rejected at once by every worker.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Conflict, Hint, NotFound, Unauthenticated, UsageError
from memoranda.governance.permissions import check_role_name
from memoranda.lang.diagnostics import did_you_mean
from memoranda.model.clock import Duration, from_micros, parse_duration, parse_moment
from memoranda.model.names import check_key, check_label
from memoranda.model.policy import BUILT_IN_ROLES, Rule
from memoranda.model.scope import DEFAULT_TENANT, Scope
from memoranda.model.text import quote
from memoranda.model.trust import OriginKind, check_origin

T = TypeVar("T")

SYSTEM_TENANT = "recollect.system"
"""The tenant that stores keys. No key or token belongs to it, so no request reaches it.

The name is from 0.1.0, when the project was called Recollect. Ledgers are hashed over it, so it stays."""

LONGEST_USER = 200
"""Maximum characters of a user id, so that it fits into the actor name of the ledger."""

SHORTEST_ADMIN_KEY = 12

_MAX_CACHED = 10_000
_USE_INTERVAL = timedelta(hours=1)
_USE_TTL = "366d"
_FIRST = "first"
_ID_SECRET = "id_secret"
_OWN = "own"
_ADMIN_LABEL = "MEMORANDA_ADMIN_KEY"
_ADMIN_LABELS = (_ADMIN_LABEL, "RECOLLECT_ADMIN_KEY")
"""Labels of keys that the operator chose: this one, and the one of 0.1.0."""
_TOKEN = re.compile(r"[mr]k_([A-Za-z0-9]{1,64})_([A-Za-z0-9_-]{20,200})", re.ASCII)
_CHOSEN = re.compile(r"[!-~]+", re.ASCII)
_UNKNOWN = "the token of this request is not valid"
_ASK = "Ask the operator for a new key (`memoranda keys create` on the command line)"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its token, which was shown once and is not stored."""

    id: str
    tenant: str
    user: str
    role: str
    allow: tuple[str, ...] = ()
    """Capabilities that the key is restricted to; empty for all those of its role."""
    origin: OriginKind = "user"
    """What kind of origin its writes have."""
    label: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """The time of the last use, to the hour."""

    def active_at(self, moment: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > moment)


class NewKey(msgspec.Struct, frozen=True):
    """A new key with its token, which cannot be shown again."""

    token: str
    key: Key

    def __repr__(self) -> str:
        """Return a text without the token, because it may end up in logs."""
        return f"NewKey(token=…, key={self.key!r})"


class _StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it is stored."""

    tenant: str
    user: str
    role: str
    allow: tuple[str, ...] = ()
    origin: OriginKind = "user"
    label: str = ""
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


def create_key(
    memory: Memory,
    *,
    tenant: str,
    user: str,
    role: str,
    allow: Sequence[str] = (),
    origin: OriginKind = "user",
    expires: Duration | datetime | None = None,
    label: str = "",
) -> NewKey:
    """Create a key for a user of a tenant and return it with its token, which is not stored.

    `origin` is what kind of origin writes with it: the user, or a program, model or tool in the user's name.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     made = create_key(memory, tenant="acme", user="ada", role="member", expires="90d")
    ...     find_key(memory, made.token).user
    'ada'
    """
    if memory.is_owner:
        check_role(memory, tenant, role)
    token, id = _new_token(memory)
    now = memory.clock.now()
    kept = _new_record(token, tenant, user, role, tuple(allow), label, now, _end(expires, now), origin)
    _place(memory).set(_name(id), _plain(kept), expect=0)
    return NewKey(token, _public(id, kept))


def check_role(memory: Memory, tenant: str, role: str) -> None:
    """Raise UsageError for a role that the tenant does not have; the memory is that of the owner."""
    check_principal(tenant, "-")
    if role in BUILT_IN_ROLES:
        return
    names = [one.name for one in memory.in_tenant(tenant).roles.list()]
    if role not in names:
        raise UsageError(
            f"{quote(role)} is not a role", hint=did_you_mean(str(role), names, otherwise=_roles(names)), value=role
        )


def _roles(names: Sequence[str]) -> str:
    return f"Roles are {', '.join(names[:10])}"


def rotate_key(memory: Memory, id: str, *, grace: Duration | None = None) -> NewKey:
    """Create a key with the same user and permissions; the old one ends now, or after `grace`.

    The new key has the same lifetime as the old one had.
    """
    old, version = _read(memory, id)
    now = memory.clock.now()
    if not _public(id, old).active_at(now):
        raise Conflict(f"the key `{id}` is revoked or has expired", hint="Create a new one")
    token, new_id = _new_token(memory)
    end = None if old.expires_at is None else now + (old.expires_at - old.created_at)
    new = _new_record(token, old.tenant, old.user, old.role, old.allow, old.label, now, end, old.origin)
    if grace is None:
        ended = msgspec.structs.replace(old, revoked_at=now)
    else:
        until = now + timedelta(seconds=parse_duration(grace))
        ended = msgspec.structs.replace(old, expires_at=until if old.expires_at is None else min(until, old.expires_at))
    place = _place(memory)
    with memory.batch() as batch:
        batch.set(place, _name(new_id), _plain(new), expect=0)
        batch.set(place, _name(id), _plain(ended), expect=version)
    return NewKey(token, _public(new_id, new))


def first_key(memory: Memory, *, admin_key: str | None = None) -> NewKey | None:
    """Create and return an administrator's key if no key exists; otherwise return None.

    An `admin_key` is stored instead, replaces the previous one, and is not returned. Of several servers that start at
    once, one creates the key.
    """
    place = _place(memory)
    _migrate_legacy_ids(memory, _id_secret(memory))
    if admin_key is not None:
        _store_admin_key(memory, admin_key)
        return None
    if place.list("keys", limit=1):
        return None
    token, id = _new_token(memory)
    now = memory.clock.now()
    kept = _new_record(token, DEFAULT_TENANT, "admin", "admin", (), "created at the first start", now, None)
    try:
        with memory.batch() as batch:
            batch.set(place, _FIRST, id, expect=0)
            batch.set(place, _name(id), _plain(kept), expect=0)
    except Conflict:
        return None
    return NewKey(token, _public(id, kept))


def find_key(memory: Memory, token: str) -> Key:
    """Return the key of a token, or raise Unauthenticated.

    An unknown id and a wrong secret cannot be told apart.
    """
    return _find(memory, token)[0]


def _find(memory: Memory, token: str) -> tuple[Key, int]:
    """Return the key of a token, and the version of its fact."""
    place, digest = _place(memory), _digest(token)
    for id in _possible_ids(place, token, digest):
        fact = place.get(_name(id))
        # Compare a digest even if there is no such key, so that the timing reveals nothing.
        kept = None if fact is None else msgspec.convert(fact.value, _StoredKey)
        right = hmac.compare_digest(digest, kept.digest if kept is not None else _digest(""))
        if fact is None or kept is None or not right:
            continue
        key = _public(id, kept)
        if key.revoked_at is not None:
            raise Unauthenticated("the key of this request was revoked", hint=_ASK, genuine=True)
        if not key.active_at(memory.clock.now()):
            raise Unauthenticated("the key of this request has expired", hint=_ASK, genuine=True)
        return key, fact.version
    raise Unauthenticated(_UNKNOWN, hint=_ASK)


def _possible_ids(place: ScopedMemory, token: str, digest: str) -> Iterator[str]:
    """Yield the ids under which a token may be stored: the one derived from its hash, and the one it contains.

    A ledger that records reads contains these ids, so none of them is a bare hash of the token.
    """
    secret = place.get(_ID_SECRET)
    if secret is not None:
        yield _own_id(secret.value, digest)
    elif any(fact.key == _name(_legacy_id(digest)) for fact in place.list("keys")):
        yield _legacy_id(digest)
    match = _TOKEN.fullmatch(token)
    if match:
        yield match[1]


class _CachedKey(msgspec.Struct, Generic[T], frozen=True):
    mark: Hashable
    key: Key
    version: int
    made: T


class KeyCache(Generic[T]):
    """Caches a value for each key; a key is read again only after a write to the system tenant."""

    def __init__(self, memory: Memory, make: Callable[[Key], T]) -> None:
        """Create an empty cache; `make` returns the value for a key."""
        self._memory = memory
        self._place = _place(memory)
        self._make = make
        self._known: dict[str, _CachedKey[T]] = {}

    def find(self, token: str, now: datetime, mark: Hashable) -> T:
        """Return the value for the key of a token, or raise as `find_key` does.

        `mark` is the memory's mark of `SYSTEM_TENANT`, taken after the token arrived.
        """
        digest = _digest(token)
        known = self._known.get(digest)
        if known is None or not known.key.active_at(now):
            found = self._look_up(token, mark)
        elif known.mark == mark:
            return known.made
        else:
            fact = self._place.get(_name(known.key.id))
            # Versions are never reused: the same version is the same key.
            same = fact is not None and fact.version == known.version
            found = _CachedKey(mark, known.key, known.version, known.made) if same else self._look_up(token, mark)
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        self._known[digest] = found
        return found.made

    def _look_up(self, token: str, mark: Hashable) -> _CachedKey[T]:
        key, version = _find(self._memory, token)
        return _CachedKey(mark, key, version, self._make(key))


def is_chosen(id: str) -> bool:
    """Return whether a key was chosen by the operator and so might be guessed."""
    return id.startswith(_OWN)


def list_keys(memory: Memory, *, tenant: str | None = None) -> list[Key]:
    """Return all keys, or those of a tenant, oldest first, including revoked ones."""
    place = _place(memory)
    uses = {fact.key.removeprefix("uses."): fact.value for fact in place.list("uses")}
    keys = [
        _public(id, msgspec.convert(fact.value, _StoredKey), last_used=uses.get(id))
        for fact in place.list("keys")
        for id in (fact.key.removeprefix("keys."),)
    ]
    return sorted(
        (key for key in keys if tenant is None or key.tenant == tenant), key=lambda key: (key.created_at, key.id)
    )


def revoke_key(memory: Memory, id: str) -> Key:
    """Revoke a key and return it; revoking twice is allowed."""
    kept, version = _read(memory, id)
    if kept.revoked_at is None:
        kept = msgspec.structs.replace(kept, revoked_at=memory.clock.now())
        _place(memory).set(_name(id), _plain(kept), expect=version)
    return _public(id, kept)


def note_use(memory: Memory, id: str) -> None:
    """Record that a key was used, at most once an hour."""
    place = _place(memory)
    now = memory.clock.now()
    last = place.get(f"uses.{id}")
    if last is None or now - from_micros(parse_moment(last.value)) >= _USE_INTERVAL:
        place.set(f"uses.{id}", now.isoformat(), ttl=_USE_TTL)


def check_principal(tenant: str, user: str) -> None:
    """Raise UsageError for a tenant or user that cannot have keys."""
    Scope.of(tenant=tenant, user=user)
    if tenant == SYSTEM_TENANT:
        raise UsageError(f"the tenant `{SYSTEM_TENANT}` is reserved", hint="Choose another tenant")
    if len(user) > LONGEST_USER:
        raise UsageError(f"the user id has {len(user)} characters, the limit is {LONGEST_USER}", hint="Shorten it")


def _new_token(memory: Memory) -> tuple[str, str]:
    id = memory.ids.new("key").removeprefix("key_")
    return f"mk_{id}_{secrets.token_urlsafe(32)}", id


def _own_id(secret: str, digest: str) -> str:
    """Return the id of a key that the operator chose.

    Ids appear in logs and lists, and a chosen key may be guessable: without the secret of this database, a guess cannot
    be checked against the id.
    """
    return f"{_OWN}{hmac.digest(bytes.fromhex(secret), digest.encode(), 'sha256').hex()[:32]}"


def _legacy_id(digest: str) -> str:
    """Return the id of a chosen key in 0.1.0: a bare hash."""
    return f"{_OWN}{digest[:32]}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _new_record(
    token: str,
    tenant: str,
    user: str,
    role: str,
    allow: tuple[str, ...],
    label: str,
    now: datetime,
    end: datetime | None,
    origin: OriginKind = "user",
) -> _StoredKey:
    check_principal(tenant, user)
    check_role_name(role)
    for capability in allow:
        Rule("allow", capability)
    check_label("label", label or None)
    return _StoredKey(
        tenant=tenant,
        user=user,
        role=role,
        allow=allow,
        origin=check_origin(origin),
        label=label,
        digest=_digest(token),
        created_at=now,
        expires_at=end,
    )


def _end(expires: Duration | datetime | None, now: datetime) -> datetime | None:
    if expires is None:
        return None
    if not isinstance(expires, datetime):
        return now + timedelta(seconds=parse_duration(expires))
    end = from_micros(parse_moment(expires))
    if end <= now:
        raise UsageError(
            f"{quote(end.isoformat())} is in the past", hint="Pass a future time, or a duration such as 90d"
        )
    return end


def _store_admin_key(memory: Memory, token: str) -> None:
    """Store the operator's own token as an administrator's key, replacing the previous one."""
    if len(token) < SHORTEST_ADMIN_KEY or not _CHOSEN.fullmatch(token) or token.count(".") == 2:
        raise UsageError(
            f"{_ADMIN_LABEL} cannot be used as a key",
            hint=f"Use at least {SHORTEST_ADMIN_KEY} random letters, digits and punctuation characters, without spaces",
        )
    place, digest, now = _place(memory), _digest(token), memory.clock.now()
    present = {fact.key: (msgspec.convert(fact.value, _StoredKey), fact.version) for fact in place.list("keys")}
    for name, (before, _) in present.items():
        if before.digest == digest:
            if not _public(name, before).active_at(now):
                raise UsageError(f"{_ADMIN_LABEL} was revoked or has expired", hint="Set another one")
            return
    kept = _new_record(token, DEFAULT_TENANT, "admin", "admin", (), _ADMIN_LABEL, now, None)
    id = _own_id(_id_secret(memory), digest)
    try:
        with memory.batch() as batch:
            batch.set(place, _name(id), _plain(kept), expect=0)
            for name, (before, version) in present.items():
                if before.label in _ADMIN_LABELS and before.revoked_at is None:
                    ended = msgspec.structs.replace(before, revoked_at=now)
                    batch.set(place, name, _plain(ended), expect=version)
    except Conflict:
        find_key(memory, token)  # another server that is starting has stored it


def _id_secret(memory: Memory) -> str:
    """Return the secret for ids of chosen keys; the first call on a database creates it."""
    place = _place(memory)
    if place.get(_ID_SECRET) is None:
        try:
            place.set(_ID_SECRET, secrets.token_hex(32), expect=0)
        except Conflict:
            pass  # another server that is starting has created it
    return place.value(_ID_SECRET)


def _migrate_legacy_ids(memory: Memory, secret: str) -> None:
    """Replace ids of 0.1.0, bare hashes of chosen keys, by ids that reveal nothing."""
    place = _place(memory)
    for fact in place.list("keys"):
        digest = msgspec.convert(fact.value, _StoredKey).digest
        if fact.key == _name(_legacy_id(digest)):
            id = _own_id(secret, digest)
            try:
                with memory.batch() as batch:
                    batch.set(place, _name(id), fact.value, expect=0)
                    batch.delete(place, fact.key, expect=fact.version)
            except Conflict:
                continue  # another server that is starting has done it
            place.delete(f"uses.{_legacy_id(digest)}")


_PLACE = Scope(tenant=SYSTEM_TENANT)


def _place(memory: Memory) -> ScopedMemory:
    return memory.at(_PLACE)


def _name(id: str) -> str:
    return f"keys.{id}"


def _read(memory: Memory, id: str) -> tuple[_StoredKey, int]:
    fact = _place(memory).get(check_key(_name(id)))
    if fact is None:
        # The id is not shown: it may be a whole token, passed by mistake.
        raise NotFound("no key has that id", hint=Hint("command", "keys list"))
    return msgspec.convert(fact.value, _StoredKey), fact.version


def _plain(kept: _StoredKey) -> Any:
    return msgspec.json.decode(msgspec.json.encode(kept))


def _public(id: str, kept: _StoredKey, *, last_used: str | None = None) -> Key:
    fields = msgspec.structs.asdict(kept)
    del fields["digest"]
    return Key(id=id, last_used_at=None if last_used is None else from_micros(parse_moment(last_used)), **fields)
