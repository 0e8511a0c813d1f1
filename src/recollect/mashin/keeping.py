"""The text of a machine and what its run began with in, facts out; and back."""

from __future__ import annotations

from typing import Any

import msgspec

from recollect.api.memory import Memory
from recollect.errors import Conflict, NotFound
from recollect.mashin.behaviour import Budget
from recollect.model.effect import GetFact, SetFact
from recollect.model.fact import Fact
from recollect.model.run import RunSummary
from recollect.model.scope import Scope
from recollect.model.text import quote
from recollect.model.value import encode
from recollect.runs.keeping import run_scope

_OWN = "mashin.source"


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run began with."""

    input: dict[str, Any]
    context: dict[str, Any] = {}
    budget: Budget


def begun_of(kept: Any) -> Begun:
    """Return what a run began with, of what was kept of it."""
    return msgspec.convert(kept, Begun)


def keep_source(memory: Memory, name: str, digest: str, source: str, file: str) -> bool:
    """Keep the text of a machine once, so that its runs can be taken up where it is not loaded; say whether it is.

    Who may write nothing but runs keeps it with each of them, see `own_source`.
    """
    scope, key = _source_place(memory.tenant, name, digest)
    write = SetFact(scope=scope, key=key, payload=_written(source, file), expect=0)
    look = GetFact(scope=scope, key=key)
    if memory.may(look) and memory.perform(look) is not None:
        return True
    if not memory.may(write):
        return False
    try:
        memory.perform(write)
    except Conflict:
        pass  # Another process kept the same text at the same moment.
    return True


def own_source(run: Scope, source: str, file: str) -> SetFact:
    """Return the write that keeps the text of a machine with one run."""
    return SetFact(scope=run, key=_OWN, payload=_written(source, file))


def _written(source: str, file: str) -> msgspec.Raw:
    return msgspec.Raw(encode({"source": source, "file": file}))


def read_source(memory: Memory, summary: RunSummary) -> tuple[str, str]:
    """Return the text that a run's machine was made of and the name of its file, or raise NotFound."""
    places = (
        _source_place(memory.tenant, summary.machine, summary.digest),
        (run_scope(memory.tenant, summary.id), _OWN),
    )
    for scope, key in places:
        fact: Fact | None = memory.perform(GetFact(scope=scope, key=key))
        if fact is not None:
            return fact.value["source"], fact.value["file"]
    raise NotFound(
        f"the text of the machine {quote(summary.machine)} is not kept here", hint="Load it, and find the run there"
    )


def _source_place(tenant: str, name: str, digest: str) -> tuple[Scope, str]:
    return Scope.of(tenant=tenant, agent=name), f"mashin.sources.{digest}"
