"""The declarations and triggers of `MEMORY` in; wrong types, names and lifetimes out."""

from __future__ import annotations

from memoranda.abl.checker.literals import mismatch
from memoranda.abl.checker.outline import Outline
from memoranda.abl.document import PREFIXES, Memory, SessionVariable
from memoranda.abl.tree import Raw
from memoranda.abl.variables import FROM_OUTSIDE, READ_ONLY, SYSTEM
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.durations import refuse_duration
from memoranda.lang.expression.nodes import Name
from memoranda.model.text import quote

_WORDS = frozenset({"true", "false", "null", "undefined"})
_GIVEN = frozenset({"intent", "language", "locale", "channel", "result", "call_result", "handoff", "escalate", "now"})
"""Names that the runtime gives a value, and that an agent may give another."""


def check_memory(whole: Outline, said: Diagnostics) -> None:
    """Check what `MEMORY` declares, and how long its facts live."""
    memory = whole.document.memory
    if memory is None:
        return
    _names(memory, said)
    _types(whole, memory, said)
    for variable in memory.session:
        if variable.input:
            _input(variable, said)
        if variable.reset == "never":
            message = f"{quote(variable.name.text)} is shared by all sessions and all users, until the process ends"
            hint = "Declare it under `persistent` to keep it for each user, or remove `RESET: never`"
            said.warning("shared_by_all", message, variable.name.span, hint=hint)
    for trigger in memory.remember:
        if trigger.ttl is not None:
            _lifetime(trigger.ttl, said)
            fact = whole.fact(trigger.target.text)
            if fact is not None and fact.path.text != trigger.target.text:
                message = (
                    f"{quote(trigger.target.text)} is a field of {quote(fact.path.text)}, all of which gets this `TTL`"
                )
                hint = f"Add `- {trigger.target.text}` below `persistent` to make it a fact of its own"
                said.warning("whole_fact", message, trigger.ttl.span, hint=hint)


def _names(memory: Memory, said: Diagnostics) -> None:
    for variable in memory.session:
        name = variable.name.text
        if variable.input and name in _GIVEN:
            continue  # `_input` says which of these the program around a session may give.
        if name in _GIVEN:
            message = f"the runtime gives {quote(name)} a value too"
            said.warning("reserved_name", message, variable.name.span, hint="Choose another name to keep them apart")
        elif name in SYSTEM or name in _WORDS or name.startswith("_"):
            message = f"{quote(name)} cannot be a session variable: the name is reserved"
            said.error("reserved_name", message, variable.name.span, hint="Choose another name")
    declared = {variable.name.text for variable in memory.session}
    paths: set[str] = set()
    for fact in memory.persistent:
        path = fact.path.text
        if path in paths:
            said.error("duplicate", f"{quote(path)} is declared a second time", fact.path.span, hint="Keep one of them")
        paths.add(path)
        if path.partition(".")[0] in declared:
            message = f"{quote(path)} can never be read: a session variable has the same name"
            said.warning("hidden", message, fact.path.span, hint="Rename one of them")


def _input(variable: SessionVariable, said: Diagnostics) -> None:
    name = variable.name.text
    if name in PREFIXES or name in _GIVEN - FROM_OUTSIDE:
        why = "facts are read below that name" if name in PREFIXES else "the runtime gives it a value"
        message = f"{quote(name)} cannot be an input: {why}"
        said.error("reserved_name", message, variable.name.span, hint="Choose another name")
    if variable.reset == "never":
        message = f"{quote(name)} cannot be an input: with `RESET: never`, one caller would set it for all users"
        said.error("wrong_value", message, variable.name.span, hint="Remove `INPUT` or `RESET: never`")


def _types(whole: Outline, memory: Memory, said: Diagnostics) -> None:
    for variable in memory.session:
        _value(whole, variable.initial, variable.type, "INITIAL", variable.name.text, said)
    for fact in memory.persistent:
        _value(whole, fact.default, fact.type, "DEFAULT", fact.path.text, said)


def _value(whole: Outline, raw: Raw | None, kind: str | None, word: str, name: str, said: Diagnostics) -> None:
    node = whole.programs.node(raw) if raw else None
    if raw is None or node is None:
        return
    found = mismatch(node, kind)
    if found is not None:
        message = f"`{word}` of {quote(name)} is {found}, but its type is `{kind}`"
        hint = f'Put it in quotes: {word}: "{raw.text}"' if found == "a subtraction" else "Change one of them"
        said.error("wrong_type", message, raw.span, hint=hint)
    elif isinstance(node, Name):
        bare_word(whole, raw, node, word, said)


def bare_word(whole: Outline, raw: Raw, node: Name, word: str, said: Diagnostics) -> None:
    """Warn of a word without quotes where nothing in the document is called that: it was meant as text."""
    known = node.name in whole.session or node.name in SYSTEM or node.name in whole.facts
    if known or node.name in whole.written:
        return
    message = f"{quote(raw.text)} is read as the name of a variable, and none is called that"
    said.warning("bare_word", message, raw.span, hint=f'If it is text, put it in quotes: {word}: "{raw.text}"')


def _lifetime(ttl: Raw, said: Diagnostics) -> None:
    hint = refuse_duration(ttl.text, weeks=False)
    if hint is not None:
        said.error("wrong_value", f"`TTL` needs a duration, not {quote(ttl.text, longest=40)}", ttl.span, hint=hint)


def reserved(name: str) -> bool:
    """Say whether a variable may not be written by an agent."""
    return name in READ_ONLY or name.startswith("_")
