"""Programs and their runs, and the administration of a tenant: approvals, permissions, keys and the ledger."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from memoranda.client.aio.connection import AsyncCalls
from memoranda.client.requests import Request, body, parameters, path, seconds, without_none
from memoranda.errors import Corrupt
from memoranda.model.clock import Duration
from memoranda.model.event import Anchor, Language, RunStatus
from memoranda.model.guard import Action
from memoranda.model.limits import check_count
from memoranda.model.policy import Level
from memoranda.model.trust import OriginKind
from memoranda.wire.admin import (
    Deletion,
    Deletions,
    Detection,
    Detections,
    Epoch,
    Event,
    Events,
    Grant,
    Grants,
    GuardRule,
    GuardRules,
    Key,
    Keys,
    NewKey,
    Role,
    Roles,
    Rollback,
    Rollbacks,
    Tainted,
    Verification,
)
from memoranda.wire.chat import PastTurn, Session, SessionTurn
from memoranda.wire.memory import Restored
from memoranda.wire.runs import (
    Approval,
    Approvals,
    Conflict,
    Conflicts,
    Decided,
    ProgramList,
    ProgramSummary,
    ProgramVersion,
    ProgramVersions,
    Run,
    RunEvent,
    RunEvents,
    Runs,
    RunStep,
    RunSteps,
    RunSummary,
    RunVerification,
)


class AsyncAgentCalls(AsyncCalls):
    """The agents of the server: those in ABL, and those to chat with."""

    async def list(self, *, limit: int | None = None) -> builtins.list[ProgramSummary]:
        """Return the agents by name, with their inputs, bindings and diagnostics."""
        return await self._collect(ProgramList, lambda page: page.programs, limit, "agents")

    async def start(self, agent: str, *, project: str = "default", vars: Mapping[str, Any] | None = None) -> Session:
        """Start a session; its first turn is what the agent says before any input."""
        asked = body(**without_none(project=project, vars=vars))
        return await self._call(Session, "POST", "agents", agent, "sessions", body=asked)


class AsyncSessionCalls(AsyncCalls):
    """The sessions of the API key's user."""

    async def say(self, session: str, text: str, *, timeout: float | None = None) -> SessionTurn:
        """Send a message to a session and return the turn."""
        sent = body(text=text)
        return await self._call(SessionTurn, "POST", "sessions", session, "messages", body=sent, timeout=timeout)

    async def end(self, session: str, *, timeout: float | None = None) -> SessionTurn:
        """End a session: it is removed with its variables, but what it remembered stays."""
        return await self._call(SessionTurn, "POST", "sessions", session, "end", timeout=timeout)

    async def get(self, session: str) -> Session:
        """Return a session with its turns; raise NotFound if there is none."""
        turns: list[PastTurn] = []
        after: int | None = None
        while True:
            found = await self._get(Session, "sessions", session, after=after)
            turns += found.turns
            after = found.next
            if after is None:
                return msgspec.structs.replace(found, turns=turns)

    async def steps(self, session: str, *, limit: int | None = None) -> builtins.list[RunStep]:
        """Return what was recorded of the turns of a session, in order, at most `limit`."""
        return await self._collect(RunSteps, lambda page: page.steps, limit, "sessions", session, "steps")


class AsyncMachineCalls(AsyncCalls):
    """The machines of the server."""

    async def list(self, *, limit: int | None = None) -> builtins.list[ProgramSummary]:
        """Return the machines by name, with their inputs, bindings and diagnostics."""
        return await self._collect(ProgramList, lambda page: page.programs, limit, "machines")

    async def versions(self, machine: str) -> builtins.list[ProgramVersion]:
        """Return the texts of a machine by digest, newest first."""
        return (await self._get(ProgramVersions, "machines", machine, "versions")).versions

    async def run(
        self,
        machine: str,
        input: Mapping[str, Any] | None = None,
        *,
        mode: Literal["live", "test"] = "live",
        timeout: float | None = None,
    ) -> Run:
        """Run a machine until it ends or waits; a failed run has an `error`."""
        asked = body(input={} if input is None else input, mode=mode)
        return await self._call(Run, "POST", "machines", machine, "runs", body=asked, timeout=timeout)


class AsyncWorkflowCalls(AsyncCalls):
    """The workflows of the server."""

    async def list(self, *, limit: int | None = None) -> builtins.list[ProgramSummary]:
        """Return the workflows by name, with their inputs, bindings and diagnostics."""
        return await self._collect(ProgramList, lambda page: page.programs, limit, "workflows")

    async def versions(self, workflow: str) -> builtins.list[ProgramVersion]:
        """Return the texts of a workflow by digest, newest first."""
        return (await self._get(ProgramVersions, "workflows", workflow, "versions")).versions

    async def run(
        self,
        workflow: str,
        input: Mapping[str, Any] | None = None,
        *,
        thread: str | None = None,
        timeout: float | None = None,
    ) -> Run:
        """Run a workflow until it ends or waits; `thread` is the conversation it belongs to."""
        asked = body(input={} if input is None else input, **without_none(thread=thread))
        return await self._call(Run, "POST", "workflows", workflow, "runs", body=asked, timeout=timeout)


class AsyncRunCalls(AsyncCalls):
    """The runs of the API key's user."""

    async def list(
        self,
        *,
        status: RunStatus | None = None,
        program: str | None = None,
        language: Language | None = None,
        limit: int | None = None,
    ) -> builtins.list[RunSummary]:
        """Return the runs, newest first; all, or those of one status, program or language."""
        asked = parameters(status=status, program=program, language=language)
        return await self._collect(Runs, lambda page: page.runs, limit, "runs", query=asked)

    async def get(self, run: str) -> Run:
        """Return a run; raise NotFound if there is none."""
        return await self._get(Run, "runs", run)

    async def deliver(self, run: str, payload: Any = None, *, timeout: float | None = None) -> Run:
        """Deliver the event that a run waits for, and return it once it has ended or waits again."""
        return await self._call(Run, "POST", "runs", run, "deliver", body=body(payload=payload), timeout=timeout)

    async def resume(self, run: str, *, timeout: float | None = None) -> Run:
        """Resume a run if what it waits for has happened: a decision, a timer, or the end of another run."""
        return await self._call(Run, "POST", "runs", run, "resume", timeout=timeout)

    async def approve(self, run: str, *, step: str | None = None, reason: str = "") -> Approval:
        """Approve the pending step of another user's run; it continues when its owner resumes it."""
        sent = body(reason=reason, **without_none(step=step))
        return await self._call(Approval, "POST", "runs", run, "approve", body=sent)

    async def refuse(self, run: str, *, step: str | None = None, reason: str = "") -> Approval:
        """Refuse the pending step of another user's run."""
        sent = body(reason=reason, **without_none(step=step))
        return await self._call(Approval, "POST", "runs", run, "refuse", body=sent)

    async def verify(self, run: str) -> RunVerification:
        """Verify the hash chain of a run."""
        return await self._get(RunVerification, "runs", run, "verify")

    async def cancel(self, run: str, *, reason: str = "", force: bool = False) -> Run:
        """Cancel a waiting run; with `force`, also one that seems to be active."""
        return await self._call(Run, "POST", "runs", run, "cancel", body=body(reason=reason, force=force))

    async def events(self, run: str, *, limit: int | None = None) -> builtins.list[RunEvent]:
        """Return the ledger events of a run, in order, at most `limit`."""
        return await self._collect(RunEvents, lambda page: page.events, limit, "runs", run, "events")

    async def steps(self, run: str, *, limit: int | None = None) -> builtins.list[RunStep]:
        """Return what was recorded of the steps of a run, in order, at most `limit`."""
        return await self._collect(RunSteps, lambda page: page.steps, limit, "runs", run, "steps")


class AsyncApprovalCalls(AsyncCalls):
    """Pending effects of the tenant; needs a key that may decide."""

    async def list(
        self, *, status: Literal["pending", "approved", "refused", "all"] = "pending", limit: int | None = None
    ) -> builtins.list[Approval]:
        """Return the pending approvals, or those with another status, oldest first."""
        asked = parameters(status=status)
        return await self._collect(Approvals, lambda page: page.approvals, limit, "approvals", query=asked)

    async def get(self, approval: str) -> Approval:
        """Return an approval by its id; raise NotFound if there is none."""
        return await self._get(Approval, "approvals", approval)

    async def approve(self, approval: str, *, reason: str = "") -> Decided:
        """Carry out a pending effect; return the decision and its result."""
        return await self._call(Decided, "POST", "approvals", approval, "approve", body=body(reason=reason))

    async def refuse(self, approval: str, *, reason: str = "") -> Decided:
        """Refuse a pending effect."""
        return await self._call(Decided, "POST", "approvals", approval, "refuse", body=body(reason=reason))


class AsyncConflictCalls(AsyncCalls):
    """Writes that wait because they contradict something more trusted; needs a key that may decide."""

    async def list(self, *, scope: str | None = None, limit: int | None = None) -> builtins.list[Conflict]:
        """Return both sides of each conflict, oldest first; those at and below a scope if one is given."""
        return await self._collect(
            Conflicts, lambda page: page.conflicts, limit, "conflicts", query=parameters(scope=scope)
        )

    async def resolve(self, conflict: str, verdict: Literal["keep", "take"], *, reason: str = "") -> Decided:
        """Keep what is current, or take what was proposed; return the decision and its result."""
        return await self._call(Decided, "POST", "conflicts", conflict, body=body(verdict=verdict, reason=reason))


class AsyncQuarantineCalls(AsyncCalls):
    """What the guard held back; needs a key that may decide."""

    async def list(self, *, scope: str | None = None, limit: int | None = None) -> builtins.list[Approval]:
        """Return what waits, with what was found in it, oldest first; at and below a scope if one is given."""
        asked = parameters(scope=scope)
        return await self._collect(Approvals, lambda page: page.approvals, limit, "quarantine", query=asked)

    async def release(self, held: str, *, reason: str = "") -> Decided:
        """Store what was held; return the decision and its result."""
        return await self._call(Decided, "POST", "quarantine", held, "release", body=body(reason=reason))

    async def discard(self, held: str, *, reason: str = "") -> Decided:
        """Drop what was held."""
        return await self._call(Decided, "POST", "quarantine", held, "discard", body=body(reason=reason))


class AsyncGuardCalls(AsyncCalls):
    """What is looked for in writes, and what then happens, by scope and kind of origin."""

    async def set(
        self,
        scope: str | None = None,
        *,
        origins: Sequence[OriginKind],
        instructions: Action | None = None,
        secrets: Action | None = None,
        payment: Action | None = None,
        codes: Action | None = None,
        protected: Action | None = None,
        largest: int | None = None,
    ) -> builtins.list[GuardRule]:
        """Say what happens to what these kinds of origins write at and below a scope; return their rules there.

        An action is `allow`, `warn`, `redact`, `hold` or `refuse`. What is not given stays as it was.
        """
        said = without_none(
            scope=scope,
            instructions=instructions,
            secrets=secrets,
            payment=payment,
            codes=codes,
            protected=protected,
            largest=largest,
        )
        sent = body(origins=builtins.list(origins), **said)
        return (await self._call(GuardRules, "PUT", "guard", body=sent, repeatable=True)).rules

    async def reset(self, scope: str | None = None, *, origin: OriginKind | None = None) -> None:
        """Forget what was said about a scope, or about one kind of origin there."""
        query = parameters(scope=scope, origin=origin)
        await self._connection.send(Request(method="DELETE", path=path("guard"), query=query))

    async def list(self) -> builtins.list[GuardRule]:
        """Return what was said about scopes and kinds of origins, where that is not the default."""
        return (await self._get(GuardRules, "guard")).rules

    async def check(self, content: Any) -> builtins.list[Detection]:
        """Return what would be found in a text or another JSON value; nothing is stored."""
        sent = body(content=content)
        return (await self._call(Detections, "POST", "guard", "check", body=sent, repeatable=True)).detections


class AsyncPermissionCalls(AsyncCalls):
    """Grants of the tenant: to its users in shared and project scopes, and to programs that open the memory."""

    async def grant(
        self,
        actor: str,
        capability: str,
        *,
        level: Level = "allow",
        scope: str | None = None,
        path: str = "",
        own: bool = False,
    ) -> Grant:
        """Store a rule for an actor (`*` for all): allow, approve (each use needs an approval) or deny.

        The actor `role:support` is the role of that name: with `own`, the rule is about the memory of those who have
        it. The capability `roles.support` gives an actor the role.
        """
        rule = {"level": level, "path": path, **({"own": True} if own else {}), **without_none(scope=scope)}
        asked = body(actor=actor, capability=capability, **rule)
        return await self._call(Grant, "POST", "permissions", body=asked)

    async def revoke(self, grant: str) -> None:
        """Revoke a grant by its id; raise NotFound if there is none."""
        await self._connection.send(Request(method="DELETE", path=path("permissions", grant)))

    async def list(self, *, limit: int | None = None) -> builtins.list[Grant]:
        """Return every grant, oldest first."""
        return await self._collect(Grants, lambda page: page.grants, limit, "permissions")

    async def epoch(self, scope: str | None = None) -> int:
        """Return the permission epoch of a scope: it grows with each change of what anyone may do there."""
        return (await self._get(Epoch, "permissions", "epoch", scope=scope)).epoch


class AsyncRoleCalls(AsyncCalls):
    """The roles of the tenant; needs an administrator's key."""

    async def define(self, role: str, *, allow: Sequence[str] = (), own: Sequence[str] = ()) -> Role:
        """Give a role capabilities in the whole tenant and in one's own memory, in place of those that it has."""
        sent = body(allow=builtins.list(allow), own=builtins.list(own))
        return await self._call(Role, "PUT", "roles", role, body=sent, repeatable=True)

    async def list(self) -> builtins.list[Role]:
        """Return the built-in roles and those that were defined."""
        return (await self._get(Roles, "roles")).roles

    async def delete(self, role: str) -> None:
        """Delete a role, and the grants that give it; raise NotFound if there is none."""
        await self._connection.send(Request(method="DELETE", path=path("roles", role)))


class AsyncKeyCalls(AsyncCalls):
    """The keys of the tenant; needs an administrator's key."""

    async def list(self, *, limit: int | None = None) -> builtins.list[Key]:
        """Return the keys, oldest first, without their tokens."""
        return await self._collect(Keys, lambda page: page.keys, limit, "keys")

    async def create(
        self,
        user: str,
        *,
        role: str = "member",
        allow: Sequence[str] = (),
        origin: OriginKind = "user",
        expires: Duration | None = None,
        label: str = "",
    ) -> NewKey:
        """Create a key for a user of the tenant. Its `token` is stored as a hash, so it is returned only this once.

        `origin` is what writes with it, such as `tool_external`: that says how far it is trusted.
        """
        asked = without_none(expires=seconds(expires), origin=None if origin == "user" else origin)
        sent = body(user=user, role=role, allow=builtins.list(allow), label=label, **asked)
        return await self._call(NewKey, "POST", "keys", body=sent)

    async def rotate(self, key: str, *, grace: Duration | None = None) -> NewKey:
        """Create a key with the same user and permissions; the old one ends now, or after `grace`."""
        sent = body(**without_none(grace=seconds(grace)))
        return await self._call(NewKey, "POST", "keys", key, "rotate", body=sent)

    async def revoke(self, key: str) -> Key:
        """Revoke a key and return it; revoking twice is allowed."""
        return await self._call(Key, "DELETE", "keys", key, repeatable=True)


class AsyncLedgerCalls(AsyncCalls):
    """The ledger of the tenant; needs an administrator's key."""

    async def list(self, *, start: int = 1, limit: int | None = None) -> builtins.list[Event]:
        """Return the events from a position on, oldest first, at most `limit`."""
        return await self._collect(Events, lambda page: page.events, limit, "ledger", query=parameters(start=start))

    async def tail(self, limit: int = 20) -> builtins.list[Event]:
        """Return the newest events, oldest first; at most 1,000."""
        check_count("limit", limit)
        if limit == 0:
            return []
        return (await self._get(Events, "ledger", "tail", limit=limit)).events

    async def verify(self, *, anchor: Anchor | None = None) -> Verification:
        """Verify the hash chain; an earlier anchor also detects a truncated ledger."""
        asked = {} if anchor is None else {"length": anchor.length, "head": anchor.head}
        return await self._get(Verification, "ledger", "verify", **asked)

    async def deletions(self, scope: str | None = None) -> builtins.list[Deletion]:
        """Return what was deleted in the tenant, or at and below a scope, oldest first."""
        return (await self._get(Deletions, "ledger", "deletions", scope=scope)).deletions

    async def rollbacks(self, scope: str | None = None) -> builtins.list[Rollback]:
        """Return what was undone, oldest first, and the reads that had been given the state before."""
        return (await self._get(Rollbacks, "ledger", "rollbacks", scope=scope)).rollbacks

    async def taint(
        self,
        *,
        ref: str | None = None,
        actor: str | None = None,
        source: str | None = None,
        origin: OriginKind | None = None,
        event: int | None = None,
        run: str | None = None,
        scope: str | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> Tainted:
        """Quarantine what one of these names, with all that was derived from it, in one transaction."""
        asked = without_none(ref=ref, actor=actor, source=source, origin=origin, event=event, run=run, scope=scope)
        return await self._call(Tainted, "POST", "taint", body=body(**asked, reason=reason, dry_run=dry_run))

    async def undo(self, done: Tainted | str) -> Restored:
        """Bring back what a taint ended, with its origins, by its result or its `undo`."""
        token = done.undo if isinstance(done, Tainted) else done
        if token is None:
            return Restored()
        return await self._call(Restored, "POST", "taint", "undo", body=body(token=token))

    async def anchor(self) -> Anchor:
        """Return the length and head of the chain, to be stored out of reach of those who can write to the database."""
        found = await self.verify()
        if not found.ok:
            raise Corrupt(
                f"the ledger is broken at position {found.position}: {found.reason}",
                hint="Find out what happened before you trust this ledger",
                position=found.position,
            )
        return Anchor(found.length, found.head)
