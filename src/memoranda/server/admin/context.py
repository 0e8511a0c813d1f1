"""The context of an admin page: who is signed in, their memory handle, and the form they sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from litestar import Response
from litestar.connection import ASGIConnection
from litestar.params import QueryParameter

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.collections import ReadCollections
from memoranda.engine.definitions import ReadDefinitions
from memoranda.engine.erasure import Erase
from memoranda.engine.facts import FindFacts, ListFacts, SetFact
from memoranda.errors import NEUTRAL_WORDS, Denied, MemorandaError, Unauthenticated, UsageError, render_hint
from memoranda.governance.approvals import ReadApprovals
from memoranda.governance.ledger import ReadLedger
from memoranda.governance.runs import ReadRuns
from memoranda.model.effect import Effect
from memoranda.model.names import is_internal
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.server.admin.html import html_response, render
from memoranda.server.auth.principals import Access
from memoranda.server.problems import STATUSES
from memoranda.server.programs import Programs

if TYPE_CHECKING:
    from memoranda.server.admin.sessions import SignedIn

DOOR = "admin"
"""The door under which the ledger records writes of these pages."""

DONE = {
    "saved": "Saved.",
    "deleted": "Deleted.",
    "restored": "Restored.",
    "forgotten": "Forgotten.",
    "approved": "Approved and carried out.",
    "refused": "Refused.",
    "undone": "Undone. It will not be learned again.",
    "retried": "Retrying now.",
    "unchanged": "There was nothing to change.",
}
"""Confirmation messages by the `done` parameter of a page. A fixed table, so that no link can show other text."""

PAGE_BYTES = 1_048_576
"""Maximum bytes of values on one page; a larger value is shown alone."""

OTHER_KEY = "Sign in with a key that is allowed to do this"

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


class PageContext:
    """Everything that a page needs. It decides nothing itself: permissions are checked by the gate."""

    def __init__(self, memory: Memory, signed_in: SignedIn, *, programs: Programs, form: Mapping[str, str]) -> None:
        """Wrap the memory of the whole server for the user who signed in."""
        self.principal = signed_in.principal
        self.memory = Access(memory, self.principal).memory.through(DOOR)
        self.programs = programs
        self._token = signed_in.form_token
        self._form = form

    @property
    def shared(self) -> Scope:
        """The scope of the whole tenant."""
        return Scope.of(tenant=self.principal.tenant)

    @property
    def sees_everybody(self) -> bool:
        """Whether the user may read the memory of every user of the tenant."""
        return self.may(FindFacts(scope=self.shared, key=""))

    def target_user(self, user: str = "") -> str | None:
        """Return the user that a page shows: `user` if given; else None (all users), or the caller alone."""
        return user.strip() or (None if self.sees_everybody else self.principal.user)

    def scope(self, path: str) -> Scope:
        """Parse a scope; an empty text means the caller's own."""
        if path == str(self.shared):
            return self.shared
        return Scope.parse(path, tenant=self.principal.tenant) if path else self.principal.scope

    def at(self, path: str) -> ScopedMemory:
        """Return the memory of a scope."""
        return self.memory.at(self.scope(path))

    def may(self, effect: Effect) -> bool:
        """Return whether an effect would be allowed, at once or after approval."""
        return self.memory.level(effect) != "deny"

    def ensure(self, effect: Effect) -> None:
        """Raise Denied unless the effect is allowed; for pages that exist only to carry it out."""
        if not self.may(effect):
            raise Denied(
                f"`{self.principal.actor}` may not do this: {self.memory.reason(effect)}",
                hint=OTHER_KEY,
                capability=effect.capability,
            )

    def may_write(self, scope: Scope, key: str) -> bool:
        """Return whether the caller may change a fact."""
        return self.may(write_effect(scope, key))

    def may_edit(self, scope: Scope, key: str) -> bool:
        """Return whether the caller may edit a fact here; internal facts are changed by what writes them."""
        return not is_internal(scope, key) and self.may_write(scope, key)

    def field(self, name: str, default: str | None = None) -> str:
        """Return a field of the form, or the default of one that may be missing."""
        if name not in self._form and default is not None:
            return default
        if name not in self._form:
            raise UsageError(f"the form has no field {quote(name)}", hint="Reload the page", path=name)
        return self._form[name]

    def show(
        self,
        template: str,
        *,
        section: str,
        status: int = 200,
        done: str = "",
        field_error: FieldError | None = None,
        **values: Any,
    ) -> Response[bytes]:
        """Render a page of a section; one that shows an error of a field has the status of that error."""
        return html_response(
            render(
                template,
                section=section,
                sections=self._sections,
                principal=self.principal,
                form_token=self._token,
                done=DONE.get(done, ""),
                field_error=field_error,
                **values,
            ),
            status=status if field_error is None else field_error.status,
        )

    def sees(self, section: str) -> bool:
        """Return whether the caller may see a section."""
        return any(name == section for name, _, _ in self._sections)

    @cached_property
    def _sections(self) -> list[tuple[str, str, str]]:
        own, shared = self.principal.scope, self.shared
        # Run records are in the scope of the tenant; `Programs` checks who owns each.
        runs = self.programs.handle(self.principal).level(ReadRuns(scope=shared, owner=own)) != "deny"
        memory = self.may(ListFacts(scope=own))
        visible = {
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
        return [one for one in _SECTIONS if visible.get(one[0], True)]


def write_effect(scope: Scope, key: str) -> SetFact:
    """Return a write to a fact, to ask whether it would be allowed."""
    return SetFact(scope=scope, key=key, payload=msgspec.Raw(b"null"))


def current_context(request: ASGIConnection[Any, Any, Any, Any]) -> PageContext:
    """Return the context of a request; raise Unauthenticated if no one is signed in."""
    context: object = request.scope["auth"] if "auth" in request.scope else None
    if not isinstance(context, PageContext):
        raise Unauthenticated("you are not signed in", hint="Sign in with an API key")
    return context


Place = Annotated[str, QueryParameter(name="scope")]
"""A scope, as text; empty for the caller's own."""
Question = Annotated[str, QueryParameter(name="query")]
"""A search query."""


class FieldError(msgspec.Struct, frozen=True, kw_only=True):
    """An error shown beside the form field that caused it."""

    field: str
    message: str
    hint: str = ""
    path: str = ""
    """The place inside the JSON of the field."""
    status: int = 422
    """The HTTP status of the page."""


def field_error(error: MemorandaError, *, field: str, fields: tuple[str, ...] = ()) -> FieldError:
    """Return an error as one of a form field: the one that its details name, else `field`."""
    named = error.details.get("field") or error.details.get("path")
    path = error.details.get("path")
    return FieldError(
        field=str(named) if named in fields else field,
        message=error.message,
        hint=render_hint(error.advice, NEUTRAL_WORDS),
        path=str(path) if isinstance(path, str) and path.startswith("$") else "",
        status=STATUSES.get(error.code, 500),
    )


def read_json(text: str, field: str) -> Any:
    """Parse the JSON of a field; errors name the line and column."""
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"this is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}",
            hint="Put text in double quotes, and no comma after the last item of a list",
            field=field,
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this JSON cannot be stored: {error}", hint="Correct the value", field=field) from None


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")
