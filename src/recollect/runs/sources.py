"""The text of a program in, a fact out; and back, so that its runs can be taken up where the program is not loaded.

A text is kept once, in the scope of its program, at `runs.sources.<digest>`. Who may write nothing but runs keeps it
with each of them, at `runs.source`.
"""

from __future__ import annotations

from pathlib import PurePath

import msgspec

from recollect.api.memory import Memory
from recollect.errors import Conflict, NotFound
from recollect.model.effect import GetFact, SetFact
from recollect.model.fact import Fact
from recollect.model.run import Language, RunSummary
from recollect.model.scope import Scope
from recollect.model.text import quote
from recollect.model.value import encode
from recollect.runs.keeping import OWN_SOURCE, KeptRun

_HOMES: dict[Language, str] = {"mashin": "agent", "workflow": "workflow"}
"""The kind of scope that a program is, by its language."""
WORDS: dict[Language, str] = {"mashin": "machine", "workflow": "workflow"}
"""What a program is called, by its language."""


class ProgramText(msgspec.Struct, frozen=True):
    """What a program was made of: its text, and the name of its file."""

    source: str
    file: str

    @classmethod
    def of(cls, source: str, file: str) -> ProgramText:
        """Return it without the folders of the file: it is exported, and folders tell about people and machines."""
        return cls(source, PurePath(file).name)


def program_of(summary: RunSummary) -> str:
    """Return what a run is a run of, for a sentence: the machine or the workflow, by its name."""
    return f"{WORDS[summary.language]} {quote(summary.program)}"


def keep_source(memory: Memory, language: Language, name: str, digest: str, text: ProgramText) -> bool:
    """Keep the text of a program once for all of its runs, and say whether it is kept; see `own_source`."""
    scope, key = _place(memory.tenant, language, name, digest)
    write = SetFact(scope=scope, key=key, payload=_written(text), expect=0)
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


def own_source(run: Scope, text: ProgramText) -> SetFact:
    """Return the write that keeps the text of a program with one run."""
    return SetFact(scope=run, key=OWN_SOURCE, payload=_written(text))


def read_source(memory: Memory, kept: KeptRun) -> ProgramText:
    """Return the text that a run's program was made of, or raise NotFound."""
    if kept.source is not None:
        return msgspec.convert(kept.source, ProgramText)
    summary = kept.summary
    scope, key = _place(memory.tenant, summary.language, summary.program, summary.digest)
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=key))
    if fact is not None:
        return msgspec.convert(fact.value, ProgramText)
    raise NotFound(
        f"the text of the {program_of(summary)} is not kept here",
        hint="Load it, and find the run there",
    )


def _written(text: ProgramText) -> msgspec.Raw:
    return msgspec.Raw(encode(text))


def _place(tenant: str, language: Language, name: str, digest: str) -> tuple[Scope, str]:
    return Scope.of(tenant=tenant, **{_HOMES[language]: name}), f"runs.sources.{digest}"
