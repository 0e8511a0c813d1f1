"""A run that is kept and a program in; nothing out, or why this program does not take the run up."""

from __future__ import annotations

from memoranda.errors import Conflict, Denied, UsageError
from memoranda.model.run import Language, RunSummary
from memoranda.model.text import quote
from memoranda.runs.sources import WORDS, program_of


def check_language(summary: RunSummary, language: Language) -> None:
    """Refuse a run of the other language."""
    if summary.language != language:
        raise UsageError(
            f"{_whose(summary)}, no {WORDS[language]}'s",
            hint=f"Take it up with memoranda.{summary.language}.find(…)",
            value=summary.id,
        )


def check_program(summary: RunSummary, language: Language, name: str) -> None:
    """Refuse a run of another program."""
    if (summary.language, summary.program) != (language, name):
        hint = f"Load that one, or take it up with memoranda.{summary.language}.find(…)"
        raise UsageError(_whose(summary), hint=hint, value=summary.id)


def check_ours(summary: RunSummary, *, digest: str, actor: str) -> None:
    """Refuse to go on with a run that began with another text of its program, or for somebody else."""
    if summary.digest != digest:
        raise Conflict(
            f"the run {quote(summary.id)} was begun with another text of the {program_of(summary)}",
            hint=f"Take it up with memoranda.{summary.language}.resume(…), which uses the text that was kept",
            expected=summary.digest,
            actual=digest,
        )
    if summary.actor != actor:
        raise Denied(
            f"the run {quote(summary.id)} was begun by `{summary.actor}`, and `{actor}` has other rights",
            hint=f"Let `{summary.actor}` go on with it",
            actor=actor,
        )


def _whose(summary: RunSummary) -> str:
    return f"the run {quote(summary.id)} is one of the {program_of(summary)}"
