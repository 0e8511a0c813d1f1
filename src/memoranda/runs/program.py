"""Programs of a language: their stored source texts, who may run them, and their peers.

A text is stored once, in the scope of its program, at `runs.sources.<digest>`. A caller that may write nothing but
runs stores it with each run, at `runs.source`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, Protocol, TypeVar

import msgspec

from memoranda.api.memory import Memory
from memoranda.engine.facts import GetFact, SetFact
from memoranda.errors import Conflict, Denied, Hint, NotFound, NotInstalled, NotVerified, UsageError
from memoranda.lang.source import digest_of
from memoranda.model.event import Language, RunSummary
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import encode
from memoranda.runs.storage import OWN_SOURCE, StoredRun

_SCOPE_KINDS: dict[Language, str] = {"mashin": "agent", "workflow": "workflow"}
PROGRAM_WORDS: dict[Language, str] = {"mashin": "machine", "workflow": "workflow"}
"""What messages call a program of each language."""


class ProgramText(msgspec.Struct, frozen=True):
    """The source text of a program and the name of its file."""

    source: str
    file: str

    @classmethod
    def of(cls, source: str, file: str) -> ProgramText:
        """Leave out the folders of the file: texts are exported, and folders identify people and computers."""
        return cls(source, PurePath(file).name)


def describe_program(summary: RunSummary) -> str:
    """Return the kind and the name of a run's program, for messages."""
    return f"{PROGRAM_WORDS[summary.language]} {quote(summary.program)}"


# stored texts


def store_source(memory: Memory, language: Language, name: str, digest: str, text: ProgramText) -> bool:
    """Store the text of a program once for all of its runs; return False where that is not allowed."""
    scope, key = _place(memory.tenant, language, name, digest)
    write = SetFact(scope=scope, key=key, payload=msgspec.Raw(encode(text)), expect=0)
    look = GetFact(scope=scope, key=key)
    if memory.may(look) and memory.perform(look) is not None:
        return True
    if not memory.may(write):
        return False
    try:
        memory.perform(write)
    except Conflict:
        pass  # Another process stored the same text at the same moment.
    return True


def source_write(run: Scope, text: ProgramText) -> SetFact:
    """Return the write that stores the text of a program with one run."""
    return SetFact(scope=run, key=OWN_SOURCE, payload=msgspec.Raw(encode(text)))


def read_source(memory: Memory, kept: StoredRun) -> ProgramText:
    """Return the text that a run began with; raise NotFound, or NotVerified where the stored text is another."""
    summary = kept.summary
    source: Any = kept.source
    if source is None:
        scope, key = _place(memory.tenant, summary.language, summary.program, summary.digest)
        fact: Fact | None = memory.perform(GetFact(scope=scope, key=key))
        if fact is None:
            raise NotFound(
                f"the text of the {describe_program(summary)} is not stored here",
                hint="Load it, and find the run there",
            )
        source = fact.value
    text = msgspec.convert(source, ProgramText)
    if digest_of(text.source) != summary.digest:
        raise NotVerified(
            f"the stored text of the {describe_program(summary)} is not the one that the run {quote(summary.id)} "
            "began with",
            hint="Load the program, and find the run there",
            run=summary.id,
        )
    return text


def _place(tenant: str, language: Language, name: str, digest: str) -> tuple[Scope, str]:
    return Scope.of(tenant=tenant, **{_SCOPE_KINDS[language]: name}), f"runs.sources.{digest}"


# who may run what


class Uninstalled(msgspec.Struct, frozen=True):
    """Why a program does not run: its text comes from the store, and was not loaded here."""

    run: RunSummary
    installed: str | None = None
    """The digest of the loaded program with the same name."""

    def error(self) -> NotInstalled:
        """Return the error to raise."""
        program = describe_program(self.run)
        if self.installed is None:
            message = f"the {program} of the run {quote(self.run.id)} is not installed here"
        else:
            message = (
                f"the {program} is installed here with the digest `{self.installed}`, and the run "
                f"{quote(self.run.id)} began with `{self.run.digest}`"
            )
        return NotInstalled(
            message,
            hint=(
                "Install the text that it began with",
                "Cancel the run",
                Hint("python", "Pass kept_text=True as the program that opened the memory"),
            ),
            run=self.run.id,
            expected=self.run.digest,
            actual=self.installed,
        )


def why_uninstalled(
    memory: Memory, kept_text: bool | None, summary: RunSummary, installed: str | None
) -> Uninstalled | None:
    """Return why a program from a stored text does not run; None where it may.

    A stored text is only as trustworthy as everyone who can write to the store. So it runs for the program that opened
    the store, and for other handles only where that program passed `kept_text`.
    """
    allowed = memory.is_owner if kept_text is None else kept_text
    return None if allowed else Uninstalled(summary, installed)


def check_language(summary: RunSummary, language: Language) -> None:
    """Refuse a run of another language."""
    if summary.language != language:
        raise UsageError(
            f"{_whose(summary)}, not of a {PROGRAM_WORDS[language]}",
            hint=Hint("python", f"Find it with memoranda.{summary.language}.find(…)"),
            value=summary.id,
        )


def check_program(summary: RunSummary, language: Language, name: str) -> None:
    """Refuse a run of another program."""
    if (summary.language, summary.program) != (language, name):
        hint = ("Load that one", Hint("python", f"Find it with memoranda.{summary.language}.find(…)"))
        raise UsageError(_whose(summary), hint=hint, value=summary.id)


def check_resumable(summary: RunSummary, *, digest: str, actor: str) -> None:
    """Refuse to resume a run that began with another text of its program, or for another actor."""
    if summary.digest != digest:
        raise Conflict(
            f"the run {quote(summary.id)} began with another text of the {describe_program(summary)}",
            hint=("Load that text", Hint("python", f"Use memoranda.{summary.language}.resume(…), which has it")),
            expected=summary.digest,
            actual=digest,
        )
    if summary.actor != actor:
        raise Denied(
            f"the run {quote(summary.id)} was begun by `{summary.actor}`, and `{actor}` has other rights",
            hint=f"Let `{summary.actor}` resume it",
            actor=actor,
        )


def _whose(summary: RunSummary) -> str:
    return f"the run {quote(summary.id)} is one of the {describe_program(summary)}"


# peers


class Program(Protocol):
    """A program that can call others of its language by name."""

    @property
    def name(self) -> str:
        """The name that other programs call it by."""
        ...

    def meet(self, others: Any, /) -> None:
        """Add programs that it can call."""
        ...


P = TypeVar("P", bound=Program)


def load_peers(
    given: Iterable[P | str | os.PathLike[str]],
    load: Callable[[str | os.PathLike[str]], P],
    language: Language,
) -> list[P]:
    """Load the programs that are given as sources, let them call all of the programs, and return these."""
    loaded: list[P] = []
    peers: list[P] = []
    for one in given:
        if isinstance(one, str | os.PathLike):
            loaded.append(load(one))
            peers.append(loaded[-1])
        else:
            peers.append(one)
    names = [program.name for program in peers]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"there are two {PROGRAM_WORDS[language]}s {quote(name)}", hint="Give each a name of its own"
            )
    for program in loaded:
        program.meet(peers)
    return peers
