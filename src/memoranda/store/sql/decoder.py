"""Decoding database rows into values of the model.

A row that does not decode is damage, not a bug of the caller: it raises `Corrupt`, which names the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from memoranda.errors import Corrupt, InvalidScope
from memoranda.model.clock import from_micros
from memoranda.model.definition import Definition
from memoranda.model.effect import Approval, effect_decoder
from memoranda.model.entry import Collection, Entry, Indexed, Space
from memoranda.model.event import Event, event_body
from memoranda.model.fact import Fact, Origin, Revision
from memoranda.model.policy import Grant, Rule
from memoranda.model.scope import Scope
from memoranda.model.value import decode
from memoranda.store.base import ContentKey, Erasure, Replay, Session

Row = tuple[Any, ...]
T = TypeVar("T")

# There are few spaces, and every write of an entry reads one.
_decode_space = lru_cache(maxsize=64)(msgspec.json.Decoder(Space).decode)
_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode
_decode_event = msgspec.json.Decoder(Event).decode
_decode_results = msgspec.json.Decoder(tuple[tuple[str, int | None], ...]).decode
_decode_rule = msgspec.json.Decoder(Rule).decode


class _Indexed(msgspec.Struct, frozen=True, gc=False):
    version: int


_decode_index = msgspec.json.Decoder(_Indexed).decode


# Creating a scope validates its text, and the same few are read again and again.
_scope = lru_cache(maxsize=1_024)(Scope)


class RowDecoder:
    """Decodes the rows of one database."""

    def __init__(self, url: str) -> None:
        """Remember the address for errors."""
        self._url = url

    def fact(self, scope: Scope, key: str, row: Row) -> Fact:
        """Return the fact of a key from its other columns."""
        id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload = row
        try:
            value = decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.corrupt(f"the value of `{key}` in `{scope}`", error) from error
        return Fact(
            id=id,
            scope=scope,
            key=key,
            value=value,
            version=version,
            created_at=from_micros(created_at),
            updated_at=from_micros(updated_at),
            expires_at=None if expires_at is None else from_micros(expires_at),
            domain=domain,
            origin=Origin(actor, door, source),
        )

    def bare_fact(self, scope: Scope, key: str, row: Row) -> Fact:
        """Return the fact of a key from its other columns, without value and origin."""
        id, version, created_at, updated_at, expires_at, domain = row
        return Fact(
            id=id,
            scope=scope,
            key=key,
            value=None,
            version=version,
            created_at=from_micros(created_at),
            updated_at=from_micros(updated_at),
            expires_at=None if expires_at is None else from_micros(expires_at),
            domain=domain,
        )

    def facts(self, tenant: str, rows: Iterable[Row]) -> Iterator[Fact]:
        """Yield the facts of rows that start with scope and key."""
        scope: Scope | None = None
        for path, key, *rest in rows:
            if scope is None or path != scope.path:  # rows of one scope come together
                scope = self.scope(tenant, path)
            yield self.fact(scope, key, tuple(rest))

    def revision(self, scope: Scope, row: Row) -> Revision:
        """Return a revision from its row, which starts with the key."""
        (key, version, fact_id, change, at, created_at, expires_at), rest = row[:7], row[7:]
        domain, actor, door, source, forgotten, payload = rest
        return Revision(
            fact_id=fact_id,
            scope=scope,
            key=key,
            version=version,
            change=change,
            value=None if payload is None else self._parse(decode, payload, f"version {version} of `{key}`"),
            at=from_micros(at),
            created_at=from_micros(created_at),
            expires_at=None if expires_at is None else from_micros(expires_at),
            domain=domain,
            origin=Origin(actor, door, source),
            forgotten=bool(forgotten),
        )

    def collection(self, tenant: str, row: Row) -> Collection:
        """Return a collection from its row."""
        name, created_at, space, successor = row
        what = f"collection `{name}`"
        return Collection(
            tenant=tenant,
            name=name,
            space=self._parse(_decode_space, space, what),
            created_at=from_micros(created_at),
            successor=None if successor is None else self._parse(_decode_space, successor, what),
        )

    def entries(self, tenant: str, rows: Iterable[Row]) -> Iterator[Entry]:
        """Yield the entries of rows that start with their scope."""
        scope: Scope | None = None
        origin = Origin()
        for row in rows:
            path, collection, namespace, sequence, id, key, created_at, expires_at, ended_at = row[:9]
            actor, door, source, metadata, payload = row[9:]
            if scope is None or path != scope.path:
                scope = self.scope(tenant, path)
            if actor != origin.actor or door != origin.door or source != origin.source:
                origin = Origin(actor, door, source)
            try:
                content = decode(payload)
                fields = _decode_metadata(metadata)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise self.corrupt(f"entry {sequence} in `{scope}`", error, sequence=sequence) from error
            yield Entry(
                id=id,
                scope=scope,
                collection=collection,
                namespace=namespace,
                key=key,
                content=content,
                metadata=fields,
                created_at=from_micros(created_at),
                expires_at=None if expires_at is None else from_micros(expires_at),
                ended_at=None if ended_at is None else from_micros(ended_at),
                origin=origin,
                sequence=sequence,
            )

    def index_rows(self, namespace: str, rows: Iterable[Row], size: int | None) -> Iterator[Indexed]:
        """Yield what an index needs; `size` is the length of a vector in bytes, None if it is not known."""
        for sequence, metadata, expires_at, analysis, vector in rows:
            if len(vector) != size and (size is not None or len(vector) % 4):
                why = ValueError(f"it has {len(vector)} bytes")
                raise self.corrupt(f"the vector of entry {sequence}", why, sequence=sequence)
            yield Indexed(sequence, namespace, metadata, expires_at, analysis, vector)

    def definition(self, tenant: str, row: Row) -> Definition:
        """Return a definition from its row."""
        id, name, slug, scope, ttl, created_at, updated_at, schema = row
        return Definition(
            id=id,
            tenant=tenant,
            name=name,
            slug=slug,
            scope=scope,
            ttl=ttl,
            schema=self._parse(decode, schema, f"definition `{id}`"),
            created_at=from_micros(created_at),
            updated_at=from_micros(updated_at),
        )

    def grant(self, tenant: str, row: Row) -> Grant:
        """Return a grant from its row."""
        id, actor, rule = row
        return Grant(id=id, tenant=tenant, actor=actor, rule=self._parse(_decode_rule, rule, f"grant `{id}`"))

    def approval(self, tenant: str, row: Row) -> Approval:
        """Return an approval from its row."""
        id, scope, actor, door, capability, requested_at, status, decided_by, decided_at, reason, effect = row
        return Approval(
            id=id,
            tenant=tenant,
            scope=scope,
            actor=actor,
            door=door,
            capability=capability,
            effect=None if effect is None else self._parse(effect_decoder().decode, effect, f"approval `{id}`"),
            requested_at=from_micros(requested_at),
            status=status,
            decided_by=decided_by,
            decided_at=None if decided_at is None else from_micros(decided_at),
            reason=reason,
        )

    def session(self, tenant: str, row: Row) -> Session:
        """Return a session from its row."""
        path, owner, started_at, ended_at = row
        return Session(
            scope=self.scope(tenant, path),
            owner=None if owner is None else self.scope(tenant, owner),
            started_at=from_micros(started_at),
            ended_at=None if ended_at is None else from_micros(ended_at),
        )

    def replay(self, tenant: str, row: Row) -> Replay:
        """Return the record of an idempotency key from its row."""
        path, key, request, at, results = row
        return Replay(
            scope=self.scope(tenant, path),
            key=key,
            request=request,
            results=self._parse(_decode_results, results, f"idempotency key `{key}`"),
            at=from_micros(at),
        )

    def erasure(self, tenant: str, row: Row) -> Erasure:
        """Return an erasure from its row."""
        id, scope, at, version_floor = row
        return Erasure(id=id, scope=self.scope(tenant, scope), at=from_micros(at), version_floor=version_floor)

    def content_key(self, tenant: str, row: Row) -> ContentKey:
        """Return a content key from its row."""
        return ContentKey(tenant, *row)

    def event(self, tenant: str, row: Row) -> Event:
        """Return an event from its row: the body, with the hash and the text that are stored beside it."""
        position, hash, body, text = row
        where = f"event {position} of tenant `{tenant}`"
        event = self._parse(_decode_event, body, where, position=position)
        if (event.tenant, event.position) != (tenant, position) or event_body(event) != body:
            # It claims to be another event, or was not written in the bytes that were hashed.
            raise self.corrupt(where, ValueError("it is not what was written there"), position=position)
        content = None if text is None else self._parse(decode, text, f"the text of {where}", position=position)
        return msgspec.structs.replace(event, hash=hash, text=content)

    def run_head(self, tenant: str, row: Row) -> tuple[int, str]:
        """Return the index and hash of a run's event from its row."""
        position, hash, body = row
        where = f"event {position} of tenant `{tenant}`"
        return self._parse(_decode_index, body, where, position=position).version, hash

    def scope(self, tenant: str, path: str) -> Scope:
        """Return the scope of a stored path."""
        try:
            return _scope(tenant, path)
        except InvalidScope as error:
            raise self.corrupt(f"scope `{path}`", error) from error

    def _parse(self, parse: Callable[[bytes], T], payload: bytes, what: str, **details: Any) -> T:
        try:
            return parse(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.corrupt(what, error, **details) from error

    def corrupt(self, what: str, why: Exception, **details: Any) -> Corrupt:
        """Return the error that names what is damaged, and why."""
        return Corrupt(
            f"`{self._url}`: {what} cannot be read: {why}",
            hint="Keep a copy of the database as it is, and restore a backup",
            url=self._url,
            **details,
        )
