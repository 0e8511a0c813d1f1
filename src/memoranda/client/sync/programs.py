# Made from client/aio/programs.py by memoranda.client.generate: change that one.
"""What the server has loaded: agents and their sessions, machines and workflows and their runs."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from memoranda.client.calls import Call, body, given, parameters, path
from memoranda.client.sync.connection import Connection
from memoranda.client.sync.pages import collect
from memoranda.model.run import Language, RunStatus
from memoranda.wire.approvals import Approval
from memoranda.wire.runs import Run, RunEvent, RunEvents, Runs, RunSummary, RunVerification
from memoranda.wire.sessions import Session, SessionTurn


class AgentCalls:
    """The agents that the server has loaded."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.agents` makes these."""
        self._connection = connection

    def start(self, agent: str, *, project: str = "default", vars: Mapping[str, Any] | None = None) -> Session:
        """Start a session; its first turn is what the agent says before any input."""
        asked = body(**given(project=project, vars=vars))
        return self._connection.fetch(Call(method="POST", path=path("agents", agent, "sessions"), body=asked), Session)


class SessionCalls:
    """The sessions of the user that the API key belongs to."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.sessions` makes these."""
        self._connection = connection

    def say(self, session: str, text: str, *, timeout: float | None = None) -> SessionTurn:
        """Say something in a session and return what came of it."""
        place = path("sessions", session, "messages")
        call = Call(method="POST", path=place, body=body(text=text), timeout=timeout)
        return self._connection.fetch(call, SessionTurn)

    def end(self, session: str, *, timeout: float | None = None) -> SessionTurn:
        """End a session: its variables go, what it remembered stays, and it is not found any more."""
        call = Call(method="POST", path=path("sessions", session, "end"), timeout=timeout)
        return self._connection.fetch(call, SessionTurn)

    def get(self, session: str) -> Session:
        """Return where a session stands, with what was said in it; raise NotFound where there is none."""
        found = self._read(session, None)
        turns, after = [*found.turns], found.next
        while after is not None:
            rest = self._read(session, after)
            turns += rest.turns
            after = rest.next
        return msgspec.structs.replace(found, turns=turns, next=None)

    def _read(self, session: str, after: int | None) -> Session:
        call = Call(method="GET", path=path("sessions", session), query=parameters(after=after), repeatable=True)
        return self._connection.fetch(call, Session)


class MachineCalls:
    """The machines that the server has loaded."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.machines` makes these."""
        self._connection = connection

    def run(
        self,
        machine: str,
        input: Mapping[str, Any] | None = None,
        *,
        mode: Literal["live", "test"] = "live",
        timeout: float | None = None,
    ) -> Run:
        """Run a machine until it ends or waits; a run that failed says why in its `error`."""
        asked = body(input={} if input is None else input, mode=mode)
        call = Call(method="POST", path=path("machines", machine, "runs"), body=asked, timeout=timeout)
        return self._connection.fetch(call, Run)


class WorkflowCalls:
    """The workflows that the server has loaded."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.workflows` makes these."""
        self._connection = connection

    def run(
        self,
        workflow: str,
        input: Mapping[str, Any] | None = None,
        *,
        thread: str | None = None,
        timeout: float | None = None,
    ) -> Run:
        """Run a workflow until it ends or waits; `thread` is the conversation that it stands in."""
        asked = body(input={} if input is None else input, **given(thread=thread))
        call = Call(method="POST", path=path("workflows", workflow, "runs"), body=asked, timeout=timeout)
        return self._connection.fetch(call, Run)


class RunCalls:
    """The runs of the user that the API key belongs to."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.runs` makes these."""
        self._connection = connection

    def list(
        self,
        *,
        status: RunStatus | None = None,
        program: str | None = None,
        language: Language | None = None,
        limit: int | None = None,
    ) -> builtins.list[RunSummary]:
        """Return where runs stand, those that started last first; all, or those of one status, program or language."""
        asked = parameters(status=status, program=program, language=language)
        return collect(self._connection, path("runs"), asked, Runs, lambda page: page.runs, limit)

    def get(self, run: str) -> Run:
        """Return a run as it stands; raise NotFound where there is none."""
        return self._connection.fetch(Call(method="GET", path=path("runs", run), repeatable=True), Run)

    def deliver(self, run: str, payload: Any = None, *, timeout: float | None = None) -> Run:
        """Give a run the event that it waits for, and return it once it has ended or waits again."""
        call = Call(method="POST", path=path("runs", run, "deliver"), body=body(payload=payload), timeout=timeout)
        return self._connection.fetch(call, Run)

    def resume(self, run: str, *, timeout: float | None = None) -> Run:
        """Let a run go on if what it waits for is there: a decision, the end of a time, the end of another run."""
        call = Call(method="POST", path=path("runs", run, "resume"), timeout=timeout)
        return self._connection.fetch(call, Run)

    def approve(self, run: str, *, step: str | None = None, reason: str = "") -> Approval:
        """Approve the step that a run of somebody else waits with; it goes on when its owner resumes it."""
        call = Call(method="POST", path=path("runs", run, "approve"), body=body(reason=reason, **given(step=step)))
        return self._connection.fetch(call, Approval)

    def refuse(self, run: str, *, step: str | None = None, reason: str = "") -> Approval:
        """Refuse the step that a run of somebody else waits with."""
        call = Call(method="POST", path=path("runs", run, "refuse"), body=body(reason=reason, **given(step=step)))
        return self._connection.fetch(call, Approval)

    def verify(self, run: str) -> RunVerification:
        """Walk the chain of a run and say whether it is whole."""
        call = Call(method="GET", path=path("runs", run, "verify"), repeatable=True)
        return self._connection.fetch(call, RunVerification)

    def cancel(self, run: str, *, reason: str = "", force: bool = False) -> Run:
        """End a run that waits; with `force`, also one whose process may be gone."""
        call = Call(method="POST", path=path("runs", run, "cancel"), body=body(reason=reason, force=force))
        return self._connection.fetch(call, Run)

    def events(self, run: str, *, limit: int | None = None) -> builtins.list[RunEvent]:
        """Return what the ledger says of a run, in order, page by page until all or `limit` are there."""
        place = path("runs", run, "events")
        return collect(self._connection, place, {}, RunEvents, lambda page: page.events, limit)
