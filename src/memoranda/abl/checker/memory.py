"""Check `MEMORY`: types, names, lifetimes, recall events, and access to facts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from memoranda.abl.checker.outline import Outline
from memoranda.abl.document import PREFIXES, Context, Escalate, Memory, MemoryScope, Recall, SessionVariable, scope_of
from memoranda.abl.keywords import RETIRED_EVENTS
from memoranda.abl.variables import FROM_OUTSIDE, READ_ONLY, SYSTEM, SYSTEM_PATHS, fits, key_of
from memoranda.lang.diagnostics import Diagnostics, did_you_mean, duration_hint
from memoranda.lang.document import Raw
from memoranda.lang.expression.nodes import UNKNOWN, Binary, Constant, Name, Node, literal
from memoranda.lang.source import Span
from memoranda.lang.template import Template
from memoranda.model.names import find_internal
from memoranda.model.scope import Scope
from memoranda.model.text import quote

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_KIND_NAMES: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
}


def in_words(value: Any) -> str:
    """Return the kind of a value, for a message."""
    return next((word for kind, word in _KIND_NAMES.items() if type(value) is kind), "null")


def mismatch(node: Node | None, type_name: str | None) -> str | None:
    """Return the kind of a literal that does not fit a declared type; None if it fits or is unknown."""
    if node is None or type_name is None:
        return None
    if isinstance(node, Template):
        return None if type_name in ("string", "date", "datetime") else "text"
    if type_name in ("date", "datetime") and _is_unquoted_date(node):
        return "a subtraction"
    value = literal(node)
    if value is UNKNOWN or fits(value, type_name):
        return None
    return "text that is not a date" if type_name in ("date", "datetime") and type(value) is str else in_words(value)


def cannot_become(node: Node | None, type_name: str) -> str | None:
    """Return the kind of a literal that cannot be converted to a type, as arguments of tools are."""
    value = literal(node)
    if type(value) is str and type_name == "number":
        return None if _NUMBER.fullmatch(value.strip()) else "text"
    if type(value) is str and type_name == "boolean":
        return None if value.casefold() in ("true", "false", "yes", "no") else "text"
    if type(value) in (list, dict) and type_name in ("string", "number", "boolean", "date", "datetime"):
        return in_words(value)
    return None


def _is_unquoted_date(node: Node) -> bool:
    """Return whether a date was written without quotes, which makes it two subtractions."""
    return isinstance(node, Binary) and node.operator == "-" and isinstance(node.right, Constant)


_LITERAL_NAMES = frozenset({"true", "false", "null", "undefined"})
_GIVEN = frozenset({"intent", "language", "locale", "channel", "result", "call_result", "handoff", "escalate", "now"})
"""Names that the runtime sets and an agent may set too."""


def check_memory(whole: Outline, diagnostics: Diagnostics) -> None:
    """Check the declarations of `MEMORY` and the lifetimes of its facts."""
    memory = whole.document.memory
    if memory is None:
        return
    _check_names(memory, diagnostics)
    _check_types(whole, memory, diagnostics)
    for variable in memory.session:
        if variable.input:
            _check_input(variable, diagnostics)
        if variable.reset == "never":
            message = f"{quote(variable.name.text)} is shared by all sessions and all users, until the process ends"
            hint = "Declare it under `persistent` to keep it for each user, or remove `RESET: never`"
            diagnostics.warning("shared_by_all", message, variable.name.span, hint=hint)
    for trigger in memory.remember:
        _check_stored(whole, trigger.target, diagnostics)
        if trigger.ttl is not None:
            _check_lifetime(trigger.ttl, diagnostics)
            fact = whole.fact(trigger.target.text)
            if fact is not None and fact.path.text != trigger.target.text:
                message = (
                    f"{quote(trigger.target.text)} is a field of {quote(fact.path.text)}, all of which gets this `TTL`"
                )
                hint = f"Add `- {trigger.target.text}` below `persistent` to make it a fact of its own"
                diagnostics.warning("whole_fact", message, trigger.ttl.span, hint=hint)


def _check_stored(whole: Outline, target: Raw, diagnostics: Diagnostics) -> None:
    """Check that a trigger stores something that outlives the session."""
    head = target.text.partition(".")[0]
    if whole.fact(target.text) is not None or head in PREFIXES:
        return
    if head in whole.session:
        message = f"{quote(target.text)} is a variable of the session, so nothing would be remembered there"
        diagnostics.error("not_persistent", message, target.span, hint=f"Store it as `user.{target.text}`")
    else:
        message = f"{quote(target.text)} is not declared; it is stored as a fact of the user"
        hint = f"Write `user.{target.text}`, or add `- {target.text}` below `persistent` of `MEMORY`"
        diagnostics.warning("undeclared_path", message, target.span, hint=hint)


def _check_names(memory: Memory, diagnostics: Diagnostics) -> None:
    for variable in memory.session:
        name = variable.name.text
        if variable.input and name in _GIVEN:
            continue  # `_check_input` reports which of these a caller may set.
        if name in _GIVEN:
            message = f"the runtime gives {quote(name)} a value too"
            diagnostics.warning(
                "reserved_name", message, variable.name.span, hint="Choose another name to keep them apart"
            )
        elif name in SYSTEM or name in _LITERAL_NAMES or name.startswith("_"):
            message = f"{quote(name)} cannot be a session variable: the name is reserved"
            diagnostics.error("reserved_name", message, variable.name.span, hint="Choose another name")
    declared = {variable.name.text for variable in memory.session}
    paths: set[str] = set()
    for fact in memory.persistent:
        path = fact.path.text
        if path in paths:
            diagnostics.error(
                "duplicate", f"{quote(path)} is declared a second time", fact.path.span, hint="Keep one of them"
            )
        paths.add(path)
        if path.partition(".")[0] in declared:
            message = f"{quote(path)} can never be read: a session variable has the same name"
            diagnostics.warning("hidden", message, fact.path.span, hint="Rename one of them")


def _check_input(variable: SessionVariable, diagnostics: Diagnostics) -> None:
    name = variable.name.text
    if name in PREFIXES or name in _GIVEN - FROM_OUTSIDE:
        why = "facts are read below that name" if name in PREFIXES else "the runtime gives it a value"
        message = f"{quote(name)} cannot be an input: {why}"
        diagnostics.error("reserved_name", message, variable.name.span, hint="Choose another name")
    if variable.reset == "never":
        message = f"{quote(name)} cannot be an input: with `RESET: never`, one caller would set it for all users"
        diagnostics.error("wrong_value", message, variable.name.span, hint="Remove `INPUT` or `RESET: never`")


def _check_types(whole: Outline, memory: Memory, diagnostics: Diagnostics) -> None:
    for variable in memory.session:
        _check_value(whole, variable.initial, variable.type, "INITIAL", variable.name.text, diagnostics)
    for fact in memory.persistent:
        _check_value(whole, fact.default, fact.type, "DEFAULT", fact.path.text, diagnostics)


def _check_value(
    whole: Outline, raw: Raw | None, kind: str | None, word: str, name: str, diagnostics: Diagnostics
) -> None:
    node = whole.programs.node(raw) if raw else None
    if raw is None or node is None:
        return
    found = mismatch(node, kind)
    if found is not None:
        message = f"`{word}` of {quote(name)} is {found}, but its type is `{kind}`"
        hint = f'Put it in quotes: {word}: "{raw.text}"' if found == "a subtraction" else "Change one of them"
        diagnostics.error("wrong_type", message, raw.span, hint=hint)
    elif isinstance(node, Name):
        check_bare_word(whole, raw, node, word, diagnostics)


def check_bare_word(whole: Outline, raw: Raw, node: Name, word: str, diagnostics: Diagnostics) -> None:
    """Warn about a word without quotes that is not a variable, and was probably meant as text."""
    known = node.name in whole.session or node.name in SYSTEM or node.name in whole.facts
    if known or node.name in whole.written:
        return
    message = f"{quote(raw.text)} is read as the name of a variable, which does not exist"
    diagnostics.warning("bare_word", message, raw.span, hint=f'If it is text, put it in quotes: {word}: "{raw.text}"')


def _check_lifetime(ttl: Raw, diagnostics: Diagnostics) -> None:
    hint = duration_hint(ttl.text, weeks=False)
    if hint is not None:
        diagnostics.error(
            "wrong_value", f"`TTL` needs a duration, not {quote(ttl.text, longest=40)}", ttl.span, hint=hint
        )


def is_read_only(name: str) -> bool:
    """Return whether an agent may not write a variable."""
    return name in READ_ONLY or name.startswith("_")


_NAME = r"[^\W\d][\w.\-]*"
_EVENT = re.compile(
    rf"session:(?:start|end)|search:before|tool:(?P<tool>{_NAME}|\*):after|agent:(?:{_NAME}|\*):(?:before|after)"
    rf"|entity:(?P<entity>{_NAME}):extracted|step:(?:enter|exit):(?P<step>{_NAME})"
)
_BEFORE_TOOL = re.compile(r"tool:(.+):before")
_FORMS = (
    "session:start",
    "session:end",
    "search:before",
    "tool:NAME:after",
    "agent:NAME:before",
    "agent:NAME:after",
    "entity:FIELD:extracted",
    "step:enter:NAME",
    "step:exit:NAME",
)


def check_recall(whole: Outline, diagnostics: Diagnostics) -> None:
    """Check each recall instruction: its event, and what its action needs."""
    memory = whole.document.memory
    for recall in memory.recall if memory else ():
        _check_event(whole, recall, diagnostics)
        _check_needs(recall, diagnostics)


def _check_event(whole: Outline, recall: Recall, diagnostics: Diagnostics) -> None:
    event, span = recall.on.text, recall.on.span
    retired = RETIRED_EVENTS.get(event.upper())
    before = _BEFORE_TOOL.fullmatch(event)
    found = _EVENT.fullmatch(event)
    if retired is not None:
        message = f"{quote(event)} is the name of an event in an earlier version of the language"
        diagnostics.error("retired", message, span, hint=f"Write `ON: {retired}`")
    elif before is not None:
        message = f"unknown event {quote(event)}: nothing is recalled before a tool is called"
        hint = f"Use `tool:{before[1]}:after`, or a rule with `BEFORE calling {before[1]}`"
        diagnostics.error("unknown_event", message, span, hint=hint)
    elif found is None:
        diagnostics.error("unknown_event", f"unknown event {quote(event)}", span, hint=_right_form(event))
    elif event == "search:before":
        message = "`search:before` is deprecated in the language; it still works"
        diagnostics.warning("deprecated", message, span, hint="Prefer `session:start`, or `tool:NAME:after`")
    elif whole.closed:
        _check_fires(whole, recall, found, diagnostics)


def _right_form(event: str) -> str:
    """Return a hint with the events of the same kind, else the nearest, else all."""
    alike = [form for form in _FORMS if form.partition(":")[0] == event.partition(":")[0].casefold()]
    if alike:
        return f"Write {' or '.join(f'`{form}`' for form in alike)}"
    return did_you_mean(event, _FORMS, otherwise=f"One of {', '.join(_FORMS)}")


def _check_fires(whole: Outline, recall: Recall, found: re.Match[str], diagnostics: Diagnostics) -> None:
    fields = {field.name.text for field, _ in whole.fields} | {w.name for w in whole.writes if w.by == "COLLECT"}
    known: tuple[tuple[str, Collection[str], str], ...] = (
        ("step", whole.steps, "step"),
        ("entity", fields, "field"),
        ("tool", {*whole.tools, *(call.tool.text for call in whole.calls)} if whole.tools else (), "tool"),
    )
    for group, names, what in known:
        name = found[group]
        if name is None or name == "*" or name in names or (group == "tool" and not whole.tools):
            continue
        message = f"{quote(recall.on.text)} never happens: unknown {what} {quote(name)}"
        diagnostics.warning("never_happens", message, recall.on.span, hint=whole.hints.did_you_mean(name, names))


def _check_needs(recall: Recall, diagnostics: Diagnostics) -> None:
    action = recall.does
    if action is None:
        message = "this recall says neither what to load nor what to tell the model"
        diagnostics.error("recall_needs", message, recall.on.span, hint="Add `PATHS`, `DOMAIN` or `INSTRUCTION`")
        return
    lacking = {
        "prompt_llm": "" if recall.instruction is not None else "`INSTRUCTION`",
        "inject_context": "" if recall.paths else "`PATHS`",
        "load_memory": "" if recall.paths or recall.domain is not None else "`DOMAIN` or `PATHS`",
    }[action]
    if lacking:
        diagnostics.error(
            "recall_needs", f"`{action}` needs {lacking}", recall.on.span, hint=f"Add {lacking} below `ON`"
        )


_Place = tuple[str, Span]


def check_access(whole: Outline, diagnostics: Diagnostics) -> None:
    """Check every use of a fact against what its declaration allows."""
    for path, span in _read_paths(whole):
        fact = whole.fact(path)
        if fact is not None and fact.access == "write":
            what = "it" if path == fact.path.text else quote(fact.path.text)
            message = f"{quote(path)} cannot be read: {what} is declared with `ACCESS: write`"
            diagnostics.error(
                "access", message, span, hint="Declare `ACCESS: readwrite`, or keep the value in a variable"
            )
    for write in whole.writes:
        fact = whole.fact(write.path.text)
        if fact is not None and fact.access == "read":
            message = f"`{write.by}` cannot change {quote(write.path.text)}: it is declared with `ACCESS: read`"
            diagnostics.error(
                "access", message, write.path.span, hint="Declare `ACCESS: readwrite`, or write somewhere else"
            )
    _check_internal(whole, diagnostics)
    _check_grants(whole, diagnostics)
    _check_declared(whole, diagnostics)


_SCOPES: dict[MemoryScope, Scope] = {
    "user": Scope.of(user="-"),
    "project": Scope.of(project="-"),
    "execution_tree": Scope.of(tree="-"),
}
"""Scopes of the shapes in which agents store facts."""


def _check_internal(whole: Outline, diagnostics: Diagnostics) -> None:
    """Report paths that only the runtime can write: each write would be refused."""
    memory = whole.document.memory
    facts = {fact.path.text: fact for fact in memory.persistent} if memory else {}
    declared = [fact.path for fact in facts.values() if fact.access != "read"]
    stored = [write.path for write in whole.writes if write.by == "STORE" and whole.fact(write.path.text) is None]
    for path in (*declared, *stored):
        scope = facts[path.text].scope if path.text in facts else scope_of(path.text)
        internal = find_internal(_SCOPES[scope], key_of(path.text))
        if internal is not None:
            message = f"{quote(path.text)} is internal: only {internal.writer} can write it"
            diagnostics.warning("reserved_name", message, path.span, hint="Choose another path, or add `ACCESS: read`")


def _read_paths(whole: Outline) -> Iterator[_Place]:
    """Yield the paths that are read, in programs and by name."""
    for read in whole.reads:
        # In a loop, a field of an item may have the name.
        if not read.looped:
            yield read.text, read.span
    yield from _places(_recall_paths(whole))
    yield from _places(_context_paths(whole))


def _places(raws: Iterable[Raw]) -> Iterator[_Place]:
    for raw in raws:
        yield raw.text, raw.span


def _recall_paths(whole: Outline) -> list[Raw]:
    memory = whole.document.memory
    return [path for recall in memory.recall for path in recall.paths] if memory else []


def _context_paths(whole: Outline) -> Iterator[Raw]:
    for part, _ in whole.parts:
        if isinstance(part, Context):
            yield from part.values
        elif isinstance(part, Escalate):
            yield from part.context_for_human


def _check_grants(whole: Outline, diagnostics: Diagnostics) -> None:
    for part, _ in whole.parts:
        for grant in part.memory_grants if isinstance(part, Context) else ():
            fact = whole.fact(grant.path.text)
            if grant.path.text.partition(".")[0] not in PREFIXES:
                begins = ", ".join(f"`{prefix}.`" for prefix in PREFIXES)
                message = f"{quote(grant.path.text)} begins with none of {begins}, so no agent can use it undeclared"
                diagnostics.warning("no_effect", message, grant.path.span, hint="Declare it in the other agent")
            if fact is not None and fact.access not in ("readwrite", grant.access):
                granted = f"{quote(grant.path.text)} is granted as `{grant.access}`"
                message = f"{granted}, but this agent itself may only {fact.access} it"
                hint = f"An agent cannot give more than it has: grant `{fact.access}`"
                diagnostics.warning("access", message, grant.path.span, hint=hint)


def _check_declared(whole: Outline, diagnostics: Diagnostics) -> None:
    """Warn once about each path that looks like a fact and is not declared."""
    if not whole.closed and whole.document.memory is None:
        return
    own = {*whole.session, *(write.name for write in whole.writes if "." not in write.path.text)}
    names = {head: [path.partition(".")[2] for path in whole.facts if path.startswith(f"{head}.")] for head in PREFIXES}
    warned: set[str] = set()
    for path, span, effect in _all_mentions(whole):
        head, _, rest = path.partition(".")
        if head not in PREFIXES or head in own or not rest or path in warned or _is_known(whole, path):
            continue
        warned.add(path)
        # Compare without the scope, which is the same for all of them.
        near = whole.hints.closest(rest, names[head])
        hint = f"Did you mean `{head}.{near}`?" if near else f"Add `- {path}` below `persistent` of `MEMORY`"
        diagnostics.warning("undeclared_path", f"{quote(path)} is not declared; {effect}", span, hint=hint)


def _is_known(whole: Outline, path: str) -> bool:
    """Return whether a path is declared, above or below a declared one, or set by the runtime."""
    system = ".".join(path.split(".")[:2]) in SYSTEM_PATHS
    return system or path in whole.groups or whole.fact(path) is not None


def _all_mentions(whole: Outline) -> Iterator[tuple[str, Span, str]]:
    """Yield each path with its span, and what happens to it without a declaration."""
    for write in whole.writes:
        kept = "it is stored as a fact anyway" if write.by == "STORE" else "it is kept for this session only"
        yield write.path.text.partition("[")[0], write.path.span, kept
    for path, span in _read_paths(whole):
        yield path.removesuffix(".length"), span, "it is read as a fact anyway"
    for part, _ in whole.parts:
        for grant in part.memory_grants if isinstance(part, Context) else ():
            yield grant.path.text, grant.path.span, "it is granted anyway"
