"""What a page stands on: who looks at it, the memory as far as they reach into it, and what their form says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
from litestar import Response
from litestar.connection import ASGIConnection

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Denied, Unauthenticated, UsageError
from memoranda.model.effect import (
    Effect,
    Erase,
    ListFacts,
    ReadApprovals,
    ReadCollections,
    ReadDefinitions,
    ReadLedger,
    ReadRuns,
    SetFact,
)
from memoranda.model.key import RESERVED
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.server.admin.rendering import answer, render
from memoranda.server.admin.signing import DOOR, SignedIn
from memoranda.server.callers import Access
from memoranda.server.programs import Programs

DONE = {
    "saved": "Saved.",
    "deleted": "Deleted.",
    "restored": "Brought back.",
    "forgotten": "Forgotten.",
    "approved": "Approved: it has happened.",
    "refused": "Refused.",
    "undone": "Taken back. It is not learned again.",
    "retried": "It is tried again now.",
    "unchanged": "There was nothing to change.",
}
"""What a page says after something was done, by the word in its address: no address can put other words there."""

PAGE_BYTES = 1_048_576
"""Bytes of the values that one page shows; a larger one is shown alone."""

OTHER_KEY = "Sign in with a key that may"

_SECTIONS = (
    ("overview", "Overview", ""),
    ("blocks", "Blocks", "/blocks"),
    ("facts", "Facts", "/facts"),
    ("definitions", "Definitions", "/definitions"),
    ("collections", "Collections", "/collections"),
    ("conversations", "Conversations", "/conversations"),
    ("sleep", "Sleep-time", "/sleep"),
    ("runs", "Runs", "/runs"),
    ("approvals", "Approvals", "/approvals"),
    ("ledger", "Ledger", "/ledger"),
    ("erase", "Erase a user", "/erase"),
)


class Desk:
    """Everything that a page needs. It decides nothing: whether something may be done is what the gate says."""

    def __init__(self, memory: Memory, signed_in: SignedIn, *, programs: Programs, form: Mapping[str, str]) -> None:
        """Stand on the memory of the whole server, for whoever signed in; `Protection` makes these."""
        self.caller = signed_in.caller
        self.memory = Access(memory, self.caller).memory.through(DOOR)
        self.programs = programs
        self._token = signed_in.form_token
        self._form = form

    # where, and whether

    @property
    def shared(self) -> Scope:
        """The scope of the whole tenant."""
        return Scope.of(tenant=self.caller.tenant)

    @property
    def sees_everybody(self) -> bool:
        """Whether this is somebody who reads the memory of every user, and not only their own."""
        return self.may(ListFacts(scope=self.shared))

    def whose(self, user: str = "") -> str | None:
        """Return whom a page is about: the user that was asked for, else everybody, None, or the caller alone."""
        return user.strip() or (None if self.sees_everybody else self.caller.user)

    def scope(self, path: str) -> Scope:
        """Return the scope of a text, that of the caller where there is none."""
        if path == str(self.shared):
            return self.shared
        return Scope.parse(path, tenant=self.caller.tenant) if path else self.caller.scope

    def at(self, path: str) -> ScopedMemory:
        """Return the memory of a scope, as far as the caller reaches into it."""
        return self.memory.at(self.scope(path))

    def may(self, effect: Effect) -> bool:
        """Say whether something would be done, or at least put before somebody, if it were asked for."""
        return self.memory.level(effect) != "deny"

    def ensure(self, effect: Effect) -> None:
        """Refuse a page that is there only to do something that the caller may not do."""
        if not self.may(effect):
            raise Denied(
                f"`{self.caller.actor}` may not do this: nothing grants {effect.capability} for `{effect.scope}`",
                hint=OTHER_KEY,
                capability=effect.capability,
            )

    def may_write(self, scope: Scope, key: str) -> bool:
        """Say whether the caller may change a fact."""
        return self.may(writing(scope, key))

    def may_edit(self, scope: Scope, key: str) -> bool:
        """Say whether the caller may change a fact here: what a door keeps of its own is changed through that door."""
        return key.partition(".")[0] not in RESERVED and self.may_write(scope, key)

    # what a form says

    def field(self, name: str) -> str:
        """Return what a form says in a field."""
        if name not in self._form:
            raise UsageError(f"the form has no field {quote(name)}", hint="Open the page again", path=name)
        return self._form[name]

    # what is shown

    def show(self, template: str, *, section: str, status: int = 200, done: str = "", **values: Any) -> Response[bytes]:
        """Return a page of a section."""
        return answer(
            render(
                template,
                section=section,
                sections=self._sections,
                caller=self.caller,
                form_token=self._token,
                done=DONE.get(done, ""),
                **values,
            ),
            status=status,
        )

    def sees(self, section: str) -> bool:
        """Say whether anything of a section is open to the caller."""
        return any(name == section for name, _, _ in self._sections)

    @cached_property
    def _sections(self) -> list[tuple[str, str, str]]:
        own, shared = self.caller.scope, self.shared
        # Runs stand in the tenant; whose they are is what the programs ask.
        runs = self.programs.handle(self.caller).level(ReadRuns(scope=shared, owner=own)) != "deny"
        memory = self.may(ListFacts(scope=own))
        open_to_them = {
            "blocks": memory,
            "facts": memory,
            "conversations": memory,
            "sleep": memory,
            "runs": runs,
            "definitions": self.may(ReadDefinitions(scope=shared)),
            "collections": self.may(ReadCollections(scope=own)),
            "approvals": self.may(ReadApprovals(scope=shared)),
            "ledger": self.may(ReadLedger(scope=shared)),
            "erase": self.may(Erase(scope=shared)),
        }
        return [one for one in _SECTIONS if open_to_them.get(one[0], True)]


def writing(scope: Scope, key: str) -> SetFact:
    """Return a write to a fact, for asking whether there may be one."""
    return SetFact(scope=scope, key=key, payload=msgspec.Raw(b"null"))


def desk_of(request: ASGIConnection[Any, Any, Any, Any]) -> Desk:
    """Return what the page of a request stands on."""
    desk: object = request.scope["auth"] if "auth" in request.scope else None
    if not isinstance(desk, Desk):
        raise Unauthenticated("nobody is signed in here", hint="Sign in with an API key")
    return desk
