"""What was forgotten since a run or a session began is not told to a model.

The journal of a run and the variables of a session stay as they are: a run is verified against its ledger, and takes
the same way when it resumes. So what was forgotten is left out of each request to a model instead, whatever of the
program's state it was made of. What was said again since is not left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from memoranda.agent.models import Ask, Model, Reply, Said
from memoranda.api.memory import Memory
from memoranda.engine.omissions import ReadOmissions
from memoranda.model.event import RunSummary
from memoranda.model.omission import Omissions
from memoranda.model.scope import Scope
from memoranda.model.value import encode

SaidSince = Iterable[tuple[datetime | None, Any]]
"""What was said to a program, with the moments; what is delivered now has none."""


class ForgetfulModel:
    """A model that is not told what was forgotten."""

    def __init__(self, model: Model, omissions: Callable[[], Omissions]) -> None:
        """Wrap a model; `omissions` is called for each request."""
        self._model = model
        self._omissions = omissions

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        """Return the reply of the model to what is left of a request."""
        return self._model.reply(leave_out_of_ask(ask, self._omissions()), timeout=timeout)


def leave_out_of_ask(ask: Ask, omissions: Omissions) -> Ask:
    """Return a request without what was forgotten."""
    if not omissions:
        return ask
    messages = tuple(_leave_out_of_message(said, omissions) for said in ask.messages)
    return replace(ask, instructions=omissions.leave_out(ask.instructions), messages=messages)


def _leave_out_of_message(said: Said, omissions: Omissions) -> Said:
    text = omissions.leave_out_of_json(said.text) if said.role == "tool" else omissions.leave_out(said.text)
    calls = tuple(replace(call, arguments=omissions.leave_out_of(call.arguments)) for call in said.calls)
    return replace(said, text=text, calls=calls)


def omissions_of_run(memory: Memory, summary: RunSummary, said: Callable[[], SaidSince]) -> Callable[[], Omissions]:
    """Return what reads what was forgotten since a run began, but for what was said to it again."""
    tenant = memory.tenant
    owner = Scope.parse(summary.scope, tenant=tenant) if summary.scope else Scope(tenant)
    effect = ReadOmissions(scope=owner, key="runs", since=summary.started_at)

    def omissions() -> Omissions:
        # Who may not read the memory of the owner has nothing of it to quote.
        found: Omissions = memory.perform(effect) if memory.may(effect) else Omissions()
        return found.renewed_by((at, _text_of(value)) for at, value in said()) if found else found

    return omissions


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else encode(value).decode()
