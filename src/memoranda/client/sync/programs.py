# Generated from client/aio/programs.py by memoranda.client.generate; do not edit.
"""Agents and their sessions, machines and workflows and their runs."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from memoranda.client.requests import Request, body, parameters, path, without_none
from memoranda.client.sync.connection import Connection, collect
from memoranda.model.event import Language, RunStatus
from memoranda.wire.chat import Session, SessionTurn
from memoranda.wire.runs import Approval, Run, RunEvent, RunEvents, Runs, RunSummary, RunVerification


class AgentCalls:
    """The ABL agents of the server."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.agents`."""
        self._connection = connection

    def start(self, agent: str, *, project: str = "default", vars: Mapping[str, Any] | None = None) -> Session:
        """Start a session; its first turn is what the agent says before any input."""
        asked = body(**without_none(project=project, vars=vars))
        return self._connection.fetch(
            Request(method="POST", path=path("agents", agent, "sessions"), body=asked), Session
        )


class SessionCalls:
    """The sessions of the API key's user."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.sessions`."""
        self._connection = connection

    def say(self, session: str, text: str, *, timeout: float | None = None) -> SessionTurn:
        """Send a message to a session and return the turn."""
        place = path("sessions", session, "messages")
        request = Request(method="POST", path=place, body=body(text=text), timeout=timeout)
        return self._connection.fetch(request, SessionTurn)

    def end(self, session: str, *, timeout: float | None = None) -> SessionTurn:
        """End a session: it is removed with its variables, but what it remembered stays."""
        request = Request(method="POST", path=path("sessions", session, "end"), timeout=timeout)
        return self._connection.fetch(request, SessionTurn)

    def get(self, session: str) -> Session:
        """Return a session with its turns; raise NotFound if there is none."""
        found = self._read(session, None)
        turns, after = [*found.turns], found.next
        while after is not None:
            rest = self._read(session, after)
            turns += rest.turns
            after = rest.next
        return msgspec.structs.replace(found, turns=turns, next=None)

    def _read(self, session: str, after: int | None) -> Session:
        request = Request(method="GET", path=path("sessions", session), query=parameters(after=after), repeatable=True)
        return self._connection.fetch(request, Session)


class MachineCalls:
    """The machines of the server."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.machines`."""
        self._connection = connection

    def run(
        self,
        machine: str,
        input: Mapping[str, Any] | None = None,
        *,
        mode: Literal["live", "test"] = "live",
        timeout: float | None = None,
    ) -> Run:
        """Run a machine until it ends or waits; a failed run has an `error`."""
        asked = body(input={} if input is None else input, mode=mode)
        request = Request(method="POST", path=path("machines", machine, "runs"), body=asked, timeout=timeout)
        return self._connection.fetch(request, Run)


class WorkflowCalls:
    """The workflows of the server."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.workflows`."""
        self._connection = connection

    def run(
        self,
        workflow: str,
        input: Mapping[str, Any] | None = None,
        *,
        thread: str | None = None,
        timeout: float | None = None,
    ) -> Run:
        """Run a workflow until it ends or waits; `thread` is the conversation it belongs to."""
        asked = body(input={} if input is None else input, **without_none(thread=thread))
        request = Request(method="POST", path=path("workflows", workflow, "runs"), body=asked, timeout=timeout)
        return self._connection.fetch(request, Run)


class RunCalls:
    """The runs of the API key's user."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.runs`."""
        self._connection = connection

    def list(
        self,
        *,
        status: RunStatus | None = None,
        program: str | None = None,
        language: Language | None = None,
        limit: int | None = None,
    ) -> builtins.list[RunSummary]:
        """Return the runs, newest first; all, or those of one status, program or language."""
        asked = parameters(status=status, program=program, language=language)
        return collect(self._connection, path("runs"), asked, Runs, lambda page: page.runs, limit)

    def get(self, run: str) -> Run:
        """Return a run; raise NotFound if there is none."""
        return self._connection.fetch(Request(method="GET", path=path("runs", run), repeatable=True), Run)

    def deliver(self, run: str, payload: Any = None, *, timeout: float | None = None) -> Run:
        """Deliver the event that a run waits for, and return it once it has ended or waits again."""
        request = Request(method="POST", path=path("runs", run, "deliver"), body=body(payload=payload), timeout=timeout)
        return self._connection.fetch(request, Run)

    def resume(self, run: str, *, timeout: float | None = None) -> Run:
        """Resume a run if what it waits for has happened: a decision, a timer, or the end of another run."""
        request = Request(method="POST", path=path("runs", run, "resume"), timeout=timeout)
        return self._connection.fetch(request, Run)

    def approve(self, run: str, *, step: str | None = None, reason: str = "") -> Approval:
        """Approve the pending step of another user's run; it continues when its owner resumes it."""
        request = Request(
            method="POST", path=path("runs", run, "approve"), body=body(reason=reason, **without_none(step=step))
        )
        return self._connection.fetch(request, Approval)

    def refuse(self, run: str, *, step: str | None = None, reason: str = "") -> Approval:
        """Refuse the pending step of another user's run."""
        request = Request(
            method="POST", path=path("runs", run, "refuse"), body=body(reason=reason, **without_none(step=step))
        )
        return self._connection.fetch(request, Approval)

    def verify(self, run: str) -> RunVerification:
        """Verify the hash chain of a run."""
        request = Request(method="GET", path=path("runs", run, "verify"), repeatable=True)
        return self._connection.fetch(request, RunVerification)

    def cancel(self, run: str, *, reason: str = "", force: bool = False) -> Run:
        """Cancel a waiting run; with `force`, also one that seems to be active."""
        request = Request(method="POST", path=path("runs", run, "cancel"), body=body(reason=reason, force=force))
        return self._connection.fetch(request, Run)

    def events(self, run: str, *, limit: int | None = None) -> builtins.list[RunEvent]:
        """Return the ledger events of a run, in order, at most `limit`."""
        place = path("runs", run, "events")
        return collect(self._connection, place, {}, RunEvents, lambda page: page.events, limit)
