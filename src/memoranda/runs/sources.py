"""The text of a program in, a fact out; and back, so that its runs can be taken up where the program is not loaded.

A text is kept once, in the scope of its program, at `runs.sources.<digest>`. Who may write nothing but runs keeps it
with each of them, at `runs.source`.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import msgspec

from memoranda.api.memory import Memory
from memoranda.errors import Conflict, NotFound, NotInstalled, NotVerified
from memoranda.lang.source import digest_of
from memoranda.model.effect import GetFact, SetFact
from memoranda.model.fact import Fact
from memoranda.model.run import Language, RunSummary
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import encode
from memoranda.runs.keeping import OWN_SOURCE, KeptRun

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


class Uninstalled(msgspec.Struct, frozen=True):
    """Why a program does not run: its text is kept in the store, and who goes on with its runs did not load it."""

    run: RunSummary
    installed: str | None = None
    """The digest of the program of that name that is loaded."""

    def error(self) -> NotInstalled:
        """Return the error that says so."""
        program = program_of(self.run)
        if self.installed is None:
            message = f"the {program} of the run {quote(self.run.id)} is not installed here"
        else:
            message = (
                f"the {program} is installed here with the digest `{self.installed}`, and the run "
                f"{quote(self.run.id)} began with `{self.run.digest}`"
            )
        return NotInstalled(
            message,
            hint="Install the text that it began with, or cancel the run; the program that opened the memory may also "
            "pass kept_text=True",
            run=self.run.id,
            expected=self.run.digest,
            actual=self.installed,
        )


def why_uninstalled(
    memory: Memory, kept_text: bool | None, summary: RunSummary, installed: str | None
) -> Uninstalled | None:
    """Return why a program made of its kept text does not run; None where it may.

    A text in the store is as trustworthy as everybody who writes there. So it runs for the program that opened the
    store, and for a handle that it handed out only where it said so with `kept_text`.
    """
    allowed = memory.is_owner if kept_text is None else kept_text
    return None if allowed else Uninstalled(summary, installed)


def read_source(memory: Memory, kept: KeptRun) -> ProgramText:
    """Return the text that a run's program was made of; raise NotFound, or NotVerified where it is another text."""
    summary = kept.summary
    source: Any = kept.source
    if source is None:
        scope, key = _place(memory.tenant, summary.language, summary.program, summary.digest)
        fact: Fact | None = memory.perform(GetFact(scope=scope, key=key))
        if fact is None:
            raise NotFound(
                f"the text of the {program_of(summary)} is not kept here",
                hint="Load it, and find the run there",
            )
        source = fact.value
    text = msgspec.convert(source, ProgramText)
    if digest_of(text.source) != summary.digest:
        raise NotVerified(
            f"the text that is kept of the {program_of(summary)} is not the one that the run {quote(summary.id)} "
            "began with",
            hint="Load the program, and find the run there",
            run=summary.id,
        )
    return text


def _written(text: ProgramText) -> msgspec.Raw:
    return msgspec.Raw(encode(text))


def _place(tenant: str, language: Language, name: str, digest: str) -> tuple[Scope, str]:
    return Scope.of(tenant=tenant, **{_HOMES[language]: name}), f"runs.sources.{digest}"
