"""API keys: `mk_<id>_<secret>` in, whose it is out. Kept as facts of a tenant of their own, only by a hash.

A secret has 256 random bits, so a plain hash of it can be kept: nobody finds it by trying. A key that was found is
looked up again as soon as anything was written beside it: one that was revoked is refused from then on, by every
worker.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, get_args

import msgspec

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Conflict, NotFound, Unauthenticated, UsageError
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.duration import Duration, parse_duration
from memoranda.model.key import check_key
from memoranda.model.policy import Rule
from memoranda.model.scope import DEFAULT_TENANT, Scope
from memoranda.model.text import check_label, quote
from memoranda.wire.keys import Role

T = TypeVar("T")

ROLES: tuple[Role, ...] = get_args(Role)

SYSTEM_TENANT = "recollect.system"
"""Where keys are kept. No key and no token is of this tenant, so no request reaches it.

The name is from 0.1.0, when the project was called Recollect. Ledgers are hashed over it, so it stays."""

LONGEST_USER = 200
"""Signs of a user's id, so that there is room for it in the name that the ledger knows the user by."""

SHORTEST_ADMIN_KEY = 12

_MOST_KNOWN = 10_000
_USES_APART = timedelta(hours=1)
_USES_KEPT = "366d"
_FIRST = "first"
_ID_SECRET = "id_secret"
_OWN = "own"
_ADMIN_LABEL = "MEMORANDA_ADMIN_KEY"
_ADMIN_LABELS = (_ADMIN_LABEL, "RECOLLECT_ADMIN_KEY")
"""Labels of keys that the operator chose: this one, and the one of 0.1.0."""
_TOKEN = re.compile(r"[mr]k_([A-Za-z0-9]{1,64})_([A-Za-z0-9_-]{20,200})", re.ASCII)
_CHOSEN = re.compile(r"[!-~]+", re.ASCII)
_UNKNOWN = "the token of this request is not valid"
_ASK = "Ask whoever runs this server for a key: memoranda keys create"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a key; the key itself was shown once and is kept nowhere."""

    id: str
    tenant: str
    user: str
    role: Role
    allow: tuple[str, ...] = ()
    """Capabilities that the key is narrowed to; without any it may do what its role may."""
    label: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """When it was last used, to the hour."""

    def active_at(self, moment: datetime) -> bool:
        """Say whether the key still opens anything."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > moment)


class NewKey(msgspec.Struct, frozen=True):
    """A key that was just made: its token, which cannot be shown again, and what is known about it."""

    token: str
    key: Key

    def __repr__(self) -> str:
        """Return what is known about the key; the token is left out, since a `repr` ends up in logs."""
        return f"NewKey(token=…, key={self.key!r})"


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A key as the database holds it."""

    tenant: str
    user: str
    role: Role
    allow: tuple[str, ...] = ()
    label: str = ""
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


# making


def create_key(
    memory: Memory,
    *,
    tenant: str,
    user: str,
    role: Role,
    allow: Sequence[str] = (),
    expires: Duration | datetime | None = None,
    label: str = "",
) -> NewKey:
    """Make a key for a user of a tenant and return it with its token, which is not kept.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     made = create_key(memory, tenant="acme", user="ada", role="member", expires="90d")
    ...     find_key(memory, made.token).user
    'ada'
    """
    token, id = _new_token(memory)
    now = memory.clock.now()
    kept = _kept(token, tenant, user, role, tuple(allow), label, now, _end(expires, now))
    _place(memory).set(_name(id), _plain(kept), expect=0)
    return NewKey(token, _shown(id, kept))


def rotate_key(memory: Memory, id: str, *, grace: Duration | None = None) -> NewKey:
    """Make a key that stands for the same user and rights; the old one ends now, or after `grace`.

    A key that was to expire gets as much time as the old one had when it was made.
    """
    old, version = _read(memory, id)
    now = memory.clock.now()
    if not _shown(id, old).active_at(now):
        raise Conflict(f"key `{id}` no longer opens anything", hint="Make another: memoranda keys create")
    token, new_id = _new_token(memory)
    end = None if old.expires_at is None else now + (old.expires_at - old.created_at)
    new = _kept(token, old.tenant, old.user, old.role, old.allow, old.label, now, end)
    if grace is None:
        ended = msgspec.structs.replace(old, revoked_at=now)
    else:
        until = now + timedelta(seconds=parse_duration(grace))
        ended = msgspec.structs.replace(old, expires_at=until if old.expires_at is None else min(until, old.expires_at))
    place = _place(memory)
    with memory.batch() as batch:
        batch.set(place, _name(new_id), _plain(new), expect=0)
        batch.set(place, _name(id), _plain(ended), expect=version)
    return NewKey(token, _shown(new_id, new))


def first_key(memory: Memory, *, admin_key: str | None = None) -> NewKey | None:
    """Make an admin's key where there is no key at all, and return it; None where nothing is to be shown.

    With an `admin_key` of one's own, that one is made to work instead, and the one before it ends. Of several servers
    that start at once, one makes the key.
    """
    place = _place(memory)
    _rename_own_keys(memory, _id_secret(memory))
    if admin_key is not None:
        _keep_admin_key(memory, admin_key)
        return None
    if place.list("keys", limit=1):
        return None
    token, id = _new_token(memory)
    now = memory.clock.now()
    kept = _kept(token, DEFAULT_TENANT, "admin", "admin", (), "made at the first start", now, None)
    try:
        with memory.batch() as batch:
            batch.set(place, _FIRST, id, expect=0)
            batch.set(place, _name(id), _plain(kept), expect=0)
    except Conflict:
        return None
    return NewKey(token, _shown(id, kept))


# finding


def find_key(memory: Memory, token: str) -> Key:
    """Return the key that a token is, or refuse it.

    Who does not hold the whole token learns nothing: an unknown id and a wrong secret look the same.
    """
    return _find(memory, token)[0]


def _find(memory: Memory, token: str) -> tuple[Key, int]:
    """Return the key that a token is, and the version at which it is kept."""
    place, digest = _place(memory), _digest(token)
    for id in _possible_ids(place, token, digest):
        fact = place.get(_name(id))
        # The digest is compared also where there is no such key, so that the time it takes says nothing either.
        kept = None if fact is None else msgspec.convert(fact.value, _Kept)
        right = hmac.compare_digest(digest, kept.digest if kept is not None else _digest(""))
        if fact is None or kept is None or not right:
            continue
        key = _shown(id, kept)
        if key.revoked_at is not None:
            raise Unauthenticated("the key of this request was revoked", hint=_ASK, genuine=True)
        if not key.active_at(memory.clock.now()):
            raise Unauthenticated("the key of this request has expired", hint=_ASK, genuine=True)
        return key, fact.version
    raise Unauthenticated(_UNKNOWN, hint=_ASK)


def _possible_ids(place: ScopedMemory, token: str, digest: str) -> Iterator[str]:
    """Yield the ids under which a token may be kept: the one that its hash has here, and the one that it names.

    A ledger that records reads keeps the ids that are looked up, so nothing is looked up under a bare hash.
    """
    secret = place.get(_ID_SECRET)
    if secret is not None:
        yield _own_id(secret.value, digest)
    elif any(fact.key == _name(_released_id(digest)) for fact in place.list("keys")):
        yield _released_id(digest)
    match = _TOKEN.fullmatch(token)
    if match:
        yield match[1]


class _Known(msgspec.Struct, Generic[T], frozen=True):
    mark: Hashable
    key: Key
    version: int
    made: T


class KnownKeys(Generic[T]):
    """Tokens in, what was made of their keys out; each looked up again only after somebody has changed a key."""

    def __init__(self, memory: Memory, make: Callable[[Key], T]) -> None:
        """Know none yet; `make` is given a key, and gives what stands for it for as long as that does not change."""
        self._memory = memory
        self._place = _place(memory)
        self._make = make
        self._known: dict[str, _Known[T]] = {}

    def find(self, token: str, now: datetime, mark: Hashable) -> T:
        """Return what was made of the key that a token is, or refuse it, as `find_key` does.

        `mark` is one that the memory gave for `SYSTEM_TENANT` after the token had arrived. It is kept with what is read
        after it.
        """
        digest = _digest(token)
        known = self._known.get(digest)
        if known is None or not known.key.active_at(now):
            found = self._look_up(token, mark)
        elif known.mark == mark:
            return known.made
        else:
            fact = self._place.get(_name(known.key.id))
            # No version is used twice: at the same one it is the same key, and nothing about it has to be read again.
            same = fact is not None and fact.version == known.version
            found = _Known(mark, known.key, known.version, known.made) if same else self._look_up(token, mark)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[digest] = found
        return found.made

    def _look_up(self, token: str, mark: Hashable) -> _Known[T]:
        key, version = _find(self._memory, token)
        return _Known(mark, key, version, self._make(key))


def is_chosen(id: str) -> bool:
    """Say whether a key is one that the operator chose, which unlike the others might be guessed."""
    return id.startswith(_OWN)


def list_keys(memory: Memory, *, tenant: str | None = None) -> list[Key]:
    """Return all keys, or those of a tenant, oldest first, those that were revoked too."""
    place = _place(memory)
    uses = {fact.key.removeprefix("uses."): fact.value for fact in place.list("uses")}
    keys = [
        _shown(id, msgspec.convert(fact.value, _Kept), last_used=uses.get(id))
        for fact in place.list("keys")
        for id in (fact.key.removeprefix("keys."),)
    ]
    return sorted(
        (key for key in keys if tenant is None or key.tenant == tenant), key=lambda key: (key.created_at, key.id)
    )


def revoke_key(memory: Memory, id: str) -> Key:
    """End a key for good and return it; revoking twice changes nothing."""
    kept, version = _read(memory, id)
    if kept.revoked_at is None:
        kept = msgspec.structs.replace(kept, revoked_at=memory.clock.now())
        _place(memory).set(_name(id), _plain(kept), expect=version)
    return _shown(id, kept)


def note_use(memory: Memory, id: str) -> None:
    """Keep that a key was used now, if the last use that is kept was more than an hour ago."""
    place = _place(memory)
    now = memory.clock.now()
    last = place.get(f"uses.{id}")
    if last is None or now - from_micros(parse_moment(last.value)) >= _USES_APART:
        place.set(f"uses.{id}", now.isoformat(), ttl=_USES_KEPT)


def check_caller(tenant: str, user: str) -> None:
    """Refuse a tenant or a user that nobody can call as."""
    Scope.of(tenant=tenant, user=user)
    if tenant == SYSTEM_TENANT:
        raise UsageError(f"`{SYSTEM_TENANT}` is where keys are kept, nobody's tenant", hint="Name another tenant")
    if len(user) > LONGEST_USER:
        raise UsageError(f"the user id has {len(user)} characters, the limit is {LONGEST_USER}", hint="Shorten it")


# how a key is written


def _new_token(memory: Memory) -> tuple[str, str]:
    id = memory.ids.new("key").removeprefix("key_")
    return f"mk_{id}_{secrets.token_urlsafe(32)}", id


def _own_id(secret: str, digest: str) -> str:
    """Return the id of a key that the operator chose.

    Ids are in logs and lists, and a chosen key may be guessable: without the secret of this database, no guess can be
    held against its id.
    """
    return f"{_OWN}{hmac.digest(bytes.fromhex(secret), digest.encode(), 'sha256').hex()[:32]}"


def _released_id(digest: str) -> str:
    """Return the id that 0.1.0 gave to a chosen key: a bare hash of it."""
    return f"{_OWN}{digest[:32]}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _kept(
    token: str,
    tenant: str,
    user: str,
    role: Role,
    allow: tuple[str, ...],
    label: str,
    now: datetime,
    end: datetime | None,
) -> _Kept:
    check_caller(tenant, user)
    if role not in ROLES:
        raise UsageError(f"{quote(role)} is not a role", hint=f"Roles are {', '.join(ROLES)}", value=role)
    for capability in allow:
        Rule("allow", capability)
    check_label("label", label or None)
    return _Kept(
        tenant=tenant,
        user=user,
        role=role,
        allow=allow,
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
        raise UsageError(f"{quote(end.isoformat())} is over already", hint="Name a moment to come, such as 90d")
    return end


def _keep_admin_key(memory: Memory, token: str) -> None:
    """Let a token of the operator's own choice open everything in the default tenant, in place of the one before."""
    if len(token) < SHORTEST_ADMIN_KEY or not _CHOSEN.fullmatch(token) or token.count(".") == 2:
        raise UsageError(
            f"{_ADMIN_LABEL} cannot be used as a key",
            hint=f"Use at least {SHORTEST_ADMIN_KEY} letters, digits and signs without blanks, chosen at random",
        )
    place, digest, now = _place(memory), _digest(token), memory.clock.now()
    present = {fact.key: (msgspec.convert(fact.value, _Kept), fact.version) for fact in place.list("keys")}
    for name, (before, _) in present.items():
        if before.digest == digest:
            if not _shown(name, before).active_at(now):
                raise UsageError(f"{_ADMIN_LABEL} was revoked or has expired", hint="Set another one")
            return
    kept = _kept(token, DEFAULT_TENANT, "admin", "admin", (), _ADMIN_LABEL, now, None)
    id = _own_id(_id_secret(memory), digest)
    try:
        with memory.batch() as batch:
            batch.set(place, _name(id), _plain(kept), expect=0)
            for name, (before, version) in present.items():
                if before.label in _ADMIN_LABELS and before.revoked_at is None:
                    ended = msgspec.structs.replace(before, revoked_at=now)
                    batch.set(place, name, _plain(ended), expect=version)
    except Conflict:
        find_key(memory, token)  # another server that starts now has kept it


def _id_secret(memory: Memory) -> str:
    """Return the secret that ids of chosen keys are made with; the first call on a database makes it."""
    place = _place(memory)
    if place.get(_ID_SECRET) is None:
        try:
            place.set(_ID_SECRET, secrets.token_hex(32), expect=0)
        except Conflict:
            pass  # another server that starts now has made it
    return place.value(_ID_SECRET)


def _rename_own_keys(memory: Memory, secret: str) -> None:
    """Give keys whose id 0.1.0 made of nothing but a hash of them an id that says nothing about them."""
    place = _place(memory)
    for fact in place.list("keys"):
        digest = msgspec.convert(fact.value, _Kept).digest
        if fact.key == _name(_released_id(digest)):
            id = _own_id(secret, digest)
            try:
                with memory.batch() as batch:
                    batch.set(place, _name(id), fact.value, expect=0)
                    batch.delete(place, fact.key, expect=fact.version)
            except Conflict:
                continue  # another server that starts now has done it
            place.delete(f"uses.{_released_id(digest)}")


# where keys are kept


_PLACE = Scope(tenant=SYSTEM_TENANT)


def _place(memory: Memory) -> ScopedMemory:
    return memory.at(_PLACE)


def _name(id: str) -> str:
    return f"keys.{id}"


def _read(memory: Memory, id: str) -> tuple[_Kept, int]:
    fact = _place(memory).get(check_key(_name(id)))
    if fact is None:
        # What was given is not repeated: by a slip of the hand it may be a whole token.
        raise NotFound("there is no key of that id", hint="List them with `memoranda keys list`")
    return msgspec.convert(fact.value, _Kept), fact.version


def _plain(kept: _Kept) -> Any:
    return msgspec.json.decode(msgspec.json.encode(kept))


def _shown(id: str, kept: _Kept, *, last_used: str | None = None) -> Key:
    return Key(
        id=id,
        tenant=kept.tenant,
        user=kept.user,
        role=kept.role,
        allow=kept.allow,
        label=kept.label,
        created_at=kept.created_at,
        expires_at=kept.expires_at,
        revoked_at=kept.revoked_at,
        last_used_at=None if last_used is None else from_micros(parse_moment(last_used)),
    )
