"""Omissions: leave out of prompts what was forgotten after a conversation began.

A conversation keeps what was said in it. When something that it may quote is forgotten, deleted or rejected, hashes of
that are stored in the same transaction, and each prompt is made without it; `model.omission` says what is compared.
What was forgotten at a user concerns their conversations, sessions and runs; at a place without a user, everyone's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from memoranda.engine.derivation import MESSAGES, message_refs, messages_for
from memoranda.engine.embedding import text_of
from memoranda.engine.entries import value_of_statement
from memoranda.engine.facts import content_key
from memoranda.engine.refs import Lines, Target
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.model.block import lines_of
from memoranda.model.effect import Demand, ReadEffect
from memoranda.model.entry import Entry
from memoranda.model.fact import Fact
from memoranda.model.names import is_internal
from memoranda.model.omission import Omission, Omissions, Quotes
from memoranda.model.scope import Scope
from memoranda.store.base import ContentKey, EntryQuery, Reader, Session, Transaction

_PERSONAL = frozenset({"user", "session", "run", "tree"})
"""Kinds of scopes whose memory is part of no one else's conversations."""
_SOURCE = re.compile(r"conversation:(.+)#(\d+)")
_PORTION = 500


def subject_of(scope: Scope) -> Scope:
    """Return whose conversations may quote what is remembered at a scope; the shared scope for everyone."""
    if scope.parts and scope.parts[0][0] in _PERSONAL:
        return Scope(scope.tenant, scope.subject)
    return Scope(scope.tenant, "")


class Forgetting:
    """What a call forgets: collected before it ends, and stored as omissions afterwards."""

    def __init__(self, rows: Transaction, call: Call) -> None:
        """Start with nothing."""
        self._rows = rows
        self._call = call
        self._quotes: dict[Scope, Quotes] = {}

    def add(self, targets: Iterable[Target], kept: Mapping[str, str] | None = None) -> None:
        """Add entries, facts and lines; what is `kept` of one, by its ref, stays."""
        kept = kept or {}
        bare: list[Entry] = []
        for target in targets:
            if isinstance(target, Entry):
                if target.content is None:
                    bare.append(target)
                else:
                    self._add_entry(target, kept)
            elif isinstance(target, Fact):
                self._add_fact(target)
            else:
                self._add_lines(target, kept)
        for start in range(0, len(bare), _PORTION):
            some = bare[start : start + _PORTION]
            query = EntryQuery(tenant=some[0].scope.tenant, sequences=[one.sequence for one in some])
            for entry in self._rows.entries(query):
                self._add_entry(entry, kept)

    def add_lines(self, block: Fact, lines: Iterable[str]) -> None:
        """Add lines of a block."""
        quotes = self._at(block.scope)
        for line in lines:
            quotes.add_text(line)

    def add_identifier(self, scope: Scope, identifier: str) -> None:
        """Add an identifier that was asked for by name."""
        self._at(scope).add_phrase(identifier)

    def add_value(self, scope: Scope, value: Any, key: str | None) -> None:
        """Add a value, of a key or of any."""
        if key is None and isinstance(value, str):
            self._at(scope).add_text(value)
        else:
            self._at(scope).add_value(value, key or "")

    def store(self, undo: str | None = None) -> None:
        """Store what was added, with the token that brings it back."""
        for scope, quotes in self._quotes.items():
            for phrases, clauses in quotes.parts():
                self._rows.put(
                    Omission(
                        id=self._call.ids.new("omission"),
                        scope=scope,
                        subject=subject_of(scope).path,
                        at=self._call.now,
                        undo=undo or "",
                        phrases=phrases,
                        clauses=clauses,
                    )
                )

    def _at(self, scope: Scope) -> Quotes:
        quotes = self._quotes.get(scope)
        if quotes is None:
            secret = content_key(self._rows, scope.tenant, subject_of(scope).path)
            quotes = self._quotes[scope] = Quotes(secret, known=[id for _, id in scope.parts])
        return quotes

    def _add_entry(self, entry: Entry, kept: Mapping[str, str]) -> None:
        quotes, text = self._at(entry.scope), text_of(entry.content)
        quotes.add_text(text, kept=kept.get(entry.ref, ""))
        stated = value_of_statement(entry.collection, entry.key, entry.metadata)
        for source in self._sources_of(entry, message_refs(entry)):
            quotes.add_source(source, text, stated)

    def _add_fact(self, fact: Fact) -> None:
        if is_internal(fact.scope, fact.key) and not fact.key.startswith("blocks."):
            return
        whole = fact if fact.value is not None else self._rows.fact(fact.scope, fact.key)
        if whole is None:
            return
        if is_internal(fact.scope, fact.key):
            self.add_lines(whole, (line for _, line in lines_of(whole.value)))
            return
        quotes = self._at(fact.scope)
        quotes.add_value(whole.value, fact.key)
        for source in self._sources_of(whole, ()):
            quotes.add_source(source, f"{fact.key.replace('.', ' ')} {text_of(whole.value)}", text_of(whole.value))

    def _add_lines(self, target: Lines, kept: Mapping[str, str]) -> None:
        quotes, lines = self._at(target.block.scope), dict(lines_of(target.block.value))
        for number, ref in zip(target.numbers, target.refs, strict=True):
            quotes.add_text(lines[number], kept=kept.get(ref, ""))

    def _sources_of(self, target: Entry | Fact, named: Sequence[str]) -> Iterator[str]:
        """Yield the texts of the messages that something was read in, or written for."""
        for _, message in messages_for(self._rows, target.scope.tenant, named, target.origin.trust):
            yield _message_text(message)
        labelled = _SOURCE.fullmatch(target.origin.source or "")
        user = dict(target.scope.parts).get("user")
        if labelled is not None and user is not None:
            place = Scope.of(tenant=target.scope.tenant, user=user, thread=labelled[1])
            for prefix in MESSAGES:
                message = self._rows.fact(place, f"{prefix}.{labelled[2]:0>12}")
                if message is not None:
                    yield _message_text(message)


def _message_text(message: Entry | Fact) -> str:
    if isinstance(message, Entry):
        return text_of(message.content)
    value: Any = message.value
    return str(cast("dict[str, Any]", value).get("text", "")) if isinstance(value, dict) else text_of(value)


def withdraw_omissions(rows: Transaction, scopes: Iterable[Scope], undo: str) -> None:
    """Remove the omissions of a call that is undone."""
    for subject in dict.fromkeys(subject_of(scope) for scope in scopes):
        for omission in rows.scan(Omission, subject.tenant, below=subject):
            if omission.undo == undo:
                rows.remove(Omission, subject.tenant, omission.id)


def omissions_for(rows: Reader, scopes: Iterable[Scope], since: datetime) -> Omissions:
    """Return what was forgotten since a moment that a conversation at or for these scopes may quote."""
    found: list[tuple[bytes, Omission]] = []
    for subject in dict.fromkeys(one for scope in scopes for one in (subject_of(scope), Scope(scope.tenant, ""))):
        made = [one for one in rows.scan(Omission, subject.tenant, below=subject) if one.at >= since]
        key = rows.get(ContentKey, subject.tenant, subject.path) if made else None
        found += [] if key is None else [(key.secret, one) for one in made]
    return Omissions(found)


class ReadOmissions(ReadEffect, frozen=True, kw_only=True, tag="read_omissions"):
    """Read what was forgotten since a conversation began, as hashes to compare its texts with."""

    key: str
    """The record of the conversation: who may read it may compare."""
    owner: Scope | None = None
    """The scope of the memory that it quotes, where that is another."""
    since: datetime | None = None
    """None for the beginning of the session whose scope it is."""

    def demands(self) -> Iterator[Demand]:
        """Yield the right to read the conversation."""
        yield self.capability, self.scope, self.key


@verb(ReadOmissions)
def read_omissions(rows: Reader, effect: ReadOmissions, call: Call) -> Outcome[Omissions]:
    """Return what was forgotten since. Nothing is noted: what the prompt shows is."""
    scopes = (effect.scope,) if effect.owner is None else (effect.scope, effect.owner)
    since = effect.since
    if since is None:
        session = rows.get(Session, effect.scope)
        if session is None:
            return Outcome(Omissions())
        since = session.started_at
    return Outcome(omissions_for(rows, scopes, since))
