"""Hints in the words of the command line: commands and options."""

from __future__ import annotations

import shlex

from memoranda.errors import NEUTRAL_WORDS, Hint, MemorandaError, Words, render_hint

_OPTIONS = {
    "actions": "Name the module that has it with --tools",
    "machines": "Name its file with --machines",
    "model": "Name one with --model",
    "workflows": "Name its file with --workflows",
}


def _grant(hint: Hint) -> str:
    where = ["--scope", hint.scope] if hint.scope else []
    words = ["memoranda", "permissions", "grant", hint.actor, hint.target, *where]
    return f"Grant it with `{shlex.join(words)}`"


CLI_WORDS: Words = {
    **NEUTRAL_WORDS,
    "approve": lambda hint: f"{NEUTRAL_WORDS['approve'](hint)}: memoranda approvals approve {hint.target}",
    "embedder": lambda _: "Name it with --embedder or MEMORANDA_EMBEDDER",
    "grant": _grant,
    "list": lambda hint: f"List them with `memoranda {hint.target} list`",
    "load": lambda hint: _OPTIONS[hint.target],
    "read": lambda _: "Read it; then write a fact with --expect VERSION, a block with --replace",
    "split": lambda _: "Remember it in parts with --chunk 1200",
    "withdraw": lambda hint: (
        f"If it is right after all: memoranda withdraw {hint.target} --scope {shlex.quote(hint.scope)}"
    ),
}


def hint_of(error: MemorandaError) -> str:
    """Return what to do about an error at a prompt.

    >>> from memoranda.errors import NotFound
    >>> hint_of(NotFound("unknown run `r1`", hint=Hint("list", "runs")))
    'List them with `memoranda runs list`'
    """
    return render_hint(error.advice, CLI_WORDS)
