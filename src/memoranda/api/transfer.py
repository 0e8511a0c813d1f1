"""Exports as JSON Lines: a header, then one definition, session, fact or entry a line."""

from __future__ import annotations

import codecs
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from memoranda.api.arguments import check_collection, check_namespace, make_item
from memoranda.engine.transfer import ExportedPart, Import
from memoranda.errors import LimitExceeded, UsageError
from memoranda.model.clock import parse_moment
from memoranda.model.definition import Definition
from memoranda.model.fact import Fact
from memoranda.model.limits import Limits, larger_limit
from memoranda.model.names import check_key, check_label, require_label
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.model.transfer import (
    ImportedDefinition,
    ImportedEntry,
    ImportedFact,
    ImportedRejection,
    ImportedSession,
)
from memoranda.model.value import decode, encode, encode_checked
from memoranda.store.base import Session

_FORMAT = 1
_PART = re.compile(r"(.+)\.[0-9a-f]{8}\.part")
_ABANDONED = 86_400
"""Seconds after which nothing more is written to the part of an export."""


class _Line(msgspec.Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    memoranda: int | None = None
    recollect: int | None = None
    """The header of exports of 0.1.0."""
    tenant: str | None = None
    at: datetime | None = None
    definition: ImportedDefinition | None = None
    session: ImportedSession | None = None
    rejection: ImportedRejection | None = None
    fact: ImportedFact | None = None
    entry: ImportedEntry | None = None


_decoder = msgspec.json.Decoder(_Line)


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write an export to a file, which is replaced when it is complete; to a pipe or a device directly."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.writelines(lines)
        return
    path = path.resolve()  # where it is a link, the file that it leads to is replaced
    half = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")  # its own: others may export there meanwhile
    try:
        with half.open("wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
            written = os.fstat(file.fileno()).st_mtime
        half.replace(path)
        remove_parts(path.parent, written, path.name)
    finally:
        half.unlink(missing_ok=True)


def remove_parts(folder: Path, now: float, name: str = "") -> int:
    """Remove what exports left in a folder when their process was killed, of one file or of all; return how many.

    `now` is in seconds since 1970: a part that was written in the last day may be in use.
    """
    removed = 0
    for file in folder.iterdir():
        found = _PART.fullmatch(file.name)
        with suppress(OSError):  # another process may have removed it
            if found and found[1] == (name or found[1]) and file.stat().st_mtime < now - _ABANDONED:
                file.unlink()
                removed += 1
    return removed


def lines_of(tenant: str, at: datetime, parts: Iterable[ExportedPart]) -> Iterator[bytes]:
    """Yield the lines of an export: the header, then one for each part."""
    yield _encode(_Line(memoranda=_FORMAT, tenant=tenant, at=at))
    for part in parts:
        if not isinstance(part, Session) or part.owner is not None:
            yield _encode(_line_of(part))


def is_counted(line: bytes) -> bool:
    """Return whether a line is a fact or an entry."""
    return line.startswith((b'{"fact":', b'{"entry":'))


def _encode(line: _Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _line_of(part: ExportedPart) -> _Line:
    if isinstance(part, Definition):
        return _Line(
            definition=ImportedDefinition(
                id=part.id, name=part.name, slug=part.slug, scope=part.scope, ttl=part.ttl, schema=part.schema
            )
        )
    if isinstance(part, Session):
        owner = part.owner.path if part.owner is not None else ""
        return _Line(session=ImportedSession(scope=part.scope.path, owner=owner))
    if isinstance(part, StoredRejection):
        return _Line(
            rejection=ImportedRejection(
                id=part.id,
                scope=part.scope.path,
                key=part.key,
                at=part.at,
                actor=part.actor,
                reason=part.reason,
                salt=part.salt.hex(),
                digests=part.digests,
            )
        )
    if isinstance(part, Fact):
        return _Line(
            fact=ImportedFact(
                scope=part.scope.path,
                key=part.key,
                payload=msgspec.Raw(encode(part.value)),
                updated_at=part.updated_at,
                expires_at=part.expires_at,
                domain=part.domain,
                trust=part.origin.trust,
            )
        )
    return _Line(
        entry=ImportedEntry(
            scope=part.scope.path,
            collection=part.collection,
            namespace=part.namespace,
            key=part.key,
            payload=msgspec.Raw(encode(part.content)),
            metadata=msgspec.Raw(encode(part.metadata)),
            created_at=part.created_at,
            expires_at=part.expires_at,
            trust=part.origin.trust,
        )
    )


def _check_fact(fact: ImportedFact, number: int, limits: Limits) -> ImportedFact:
    """Return a fact of a file, checked like one from a caller."""
    check_key(fact.key)
    check_label("domain", fact.domain)
    Scope(path=fact.scope)
    _check_moments(fact.updated_at, fact.expires_at)
    payload = encode_checked(_decode_value(fact.payload, number), limits)
    return msgspec.structs.replace(fact, payload=msgspec.Raw(payload))


def _check_entry(entry: ImportedEntry, number: int, limits: Limits) -> ImportedEntry:
    """Return an entry of a file, checked like one from a caller."""
    Scope(path=entry.scope)
    _check_moments(entry.created_at, entry.expires_at)
    check_collection(entry.collection)
    check_namespace(entry.namespace)
    content, metadata = _decode_value(entry.payload, number), _decode_value(entry.metadata, number)
    item = make_item(content, metadata, entry.key, limits)
    return msgspec.structs.replace(entry, payload=item.payload, metadata=item.metadata)


def _check_rejection(rejection: ImportedRejection, number: int) -> ImportedRejection:
    """Return a rejection of a file, or raise UsageError for what no rejection has."""
    Scope(path=rejection.scope)
    for label in (rejection.id, rejection.actor):
        require_label("rejection", label)
    if rejection.key is not None:
        check_key(rejection.key)
    _check_moments(rejection.at)
    hashes = (rejection.salt, *rejection.digests)
    if not rejection.digests or any(_DIGITS.fullmatch(one) is None for one in hashes):
        raise _not_a_line(number, ValueError("a rejection has a salt and digests in hexadecimal digits"))
    return rejection


_DIGITS = re.compile(r"(?:[0-9a-f]{2}){8,64}")


def _check_moments(*moments: datetime | None) -> None:
    """Raise UsageError for a moment that has no representation in UTC."""
    for moment in moments:
        if moment is not None:
            parse_moment(moment)


def _decode_value(payload: msgspec.Raw, number: int) -> Any:
    try:
        return decode(bytes(payload))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_a_line(number, error) from error


def _not_a_line(number: int, error: Exception) -> UsageError:
    return UsageError(f"line {number} is not a line of an export: {error}", hint="Export it again", line=number)


def parse_lines(lines: Iterable[bytes], scope: Scope, source: str, limits: Limits) -> Import:
    """Return the import of these lines, or raise what is wrong with them, naming the line."""
    definitions: list[ImportedDefinition] = []
    sessions: list[ImportedSession] = []
    rejections: list[ImportedRejection] = []
    facts: list[ImportedFact] = []
    entries: list[ImportedEntry] = []
    decoded = _decode_lines(lines, limits)
    number, header = next(decoded, (1, _Line()))
    if _FORMAT not in (header.memoranda, header.recollect):
        raise UsageError(
            "the file does not begin as an export of this version does",
            hint='Its first line should be {"memoranda":1,…}',
            line=number,
        )
    for number, line in decoded:
        if line.definition is not None:
            definitions.append(line.definition)
        if line.session is not None:
            sessions.append(line.session)
        if line.rejection is not None:
            rejections.append(_check_rejection(line.rejection, number))
        if line.fact is not None:
            facts.append(_check_fact(line.fact, number, limits))
        if line.entry is not None:
            entries.append(_check_entry(line.entry, number, limits))
    return Import(
        scope=scope,
        source=source,
        definitions=tuple(definitions),
        sessions=tuple(sessions),
        rejections=tuple(rejections),
        facts=tuple(facts),
        entries=tuple(entries),
    )


def _decode_lines(lines: Iterable[bytes], limits: Limits) -> Iterator[tuple[int, _Line]]:
    size = 0
    for number, text in enumerate(lines, start=1):
        size += len(text)
        if size > limits.import_bytes:
            raise LimitExceeded(
                f"the file is larger than {limits.import_bytes:,} bytes",
                hint=("Split it", larger_limit("import_bytes")),
                limit=limits.import_bytes,
                actual=size,
            )
        if number == 1:
            text = text.removeprefix(codecs.BOM_UTF8)  # which some editors put there
        if not text.strip():
            continue
        try:
            yield number, _decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _not_a_line(number, error) from error
