"""The lines of `MEMORY` in; variables, remember triggers and recall instructions out."""

from __future__ import annotations

from typing import cast

from memoranda.abl.document import (
    Access,
    Memory,
    MemoryScope,
    PersistentVariable,
    Recall,
    Remember,
    SessionVariable,
)
from memoranda.abl.keywords import LEVELS, RETIRED_EVENTS
from memoranda.abl.reader import Properties, Reader
from memoranda.abl.tree import Line, Raw
from memoranda.abl.values import arrow, part, unquoted, verbatim
from memoranda.lang.source import Span
from memoranda.model.text import quote


def read_memory(reader: Reader, lines: tuple[Line, ...], span: Span) -> Memory:
    """Read the whole section."""
    found = reader.properties(lines, "memory", owner=span)
    declared = [_persistent(reader, line) for line in reader.items(found.below("persistent"), "persistent")]
    short = _short_declarations(reader, found)
    session = [_session(reader, line) for line in reader.items(found.below("session"), "session")]
    reader.refuse_doubles(variable.name for variable in session)
    reader.refuse_doubles(variable.path for variable in declared)
    return Memory(
        session=tuple(session),
        persistent=(*declared, *short),
        remember=tuple(
            filter(None, [_remember(reader, line) for line in reader.items(found.below("remember"), "remember")])
        ),
        recall=tuple(filter(None, [_recall(reader, line) for line in reader.items(found.below("recall"), "recall")])),
        span=span,
    )


def _named(reader: Reader, line: Line, level: str, keyword: str) -> tuple[Raw, Properties]:
    """Return the name of an item, bare or as a property, and the rest of its properties."""
    if line.key is None or not LEVELS[level].find(line.key):
        # `- name:` with properties below it is written too.
        bare = line.raw if line.key is None else line.name
        if line.value is not None:
            message = f"{quote(line.value.text, longest=40)} cannot stand beside a name"
            reader.said.error("wrong_nesting", message, line.value.span, hint="Put properties on lines below it")
        return bare, reader.properties(line.body, level, owner=line.span)
    found = reader.properties(line.entries, level, owner=line.span)
    raw = found.text(keyword)
    if raw is None:
        reader.said.error(
            "missing", f"`{keyword}` is missing {LEVELS[level].where}", line.span, hint="Name the variable"
        )
        raw = Raw("", span=line.span)
    return raw, found


def _session(reader: Reader, line: Line) -> SessionVariable:
    bare, found = _named(reader, line, "session variable", "NAME")
    return SessionVariable(
        name=reader.name(bare, "a session variable") if bare.text else bare,
        type=found.choice("TYPE"),
        description=found.text("DESCRIPTION"),
        initial=found.expression("INITIAL"),
        reset=found.choice("RESET") or "per_session",
        input=found.flag("INPUT"),
        span=line.span,
    )


def _persistent(reader: Reader, line: Line) -> PersistentVariable:
    bare, found = _named(reader, line, "persistent variable", "PATH")
    return PersistentVariable(
        path=reader.path(bare, "a persistent variable") if bare.text else bare,
        declared_scope=cast("MemoryScope | None", found.choice("SCOPE")),
        access=cast("Access", found.choice("ACCESS") or "readwrite"),
        type=found.choice("TYPE"),
        unit=found.text("UNIT"),
        default=found.expression("DEFAULT"),
        description=found.text("DESCRIPTION"),
        sensitive=found.flag("SENSITIVE"),
        kept=found.kept,
        span=line.span,
    )


def _short_declarations(reader: Reader, found: Properties) -> list[PersistentVariable]:
    """Return the paths of READS and WRITES; one that stands in both may be read and written."""
    access: dict[str, tuple[Raw, Access]] = {}
    for name, direction in (("READS", "read"), ("WRITES", "write")):
        for path in found.names(name):
            path = reader.path(path, "a persistent variable")
            both = path.text in access and access[path.text][1] != direction
            access[path.text] = (path, "readwrite" if both else cast("Access", direction))
    return [PersistentVariable(path=path, access=way, span=path.span) for path, way in access.values()]


def _remember(reader: Reader, line: Line) -> Remember | None:
    if line.key is None and line.text[:5].upper() == "WHEN ":
        # `- WHEN condition`, without a colon, is written too.
        when = part(line.raw, 5, len(line.text))
        found = reader.properties(line.body, "remember", owner=line.span, required=False)
        if found.line("STORE") is None:
            reader.said.error(
                "missing", "`STORE` is missing in an item of `remember`", line.span, hint="STORE: value -> path"
            )
    else:
        found = reader.properties(line.entries, "remember", owner=line.span)
        when = found.text("WHEN")
    store = found.line("STORE")
    if when is None or store is None:
        return None
    if store.value is None:
        reader.said.error(
            "wrong_value", "`STORE` needs a value and a path", store.key_span, hint="STORE: value -> path"
        )
        return None
    sides = arrow(unquoted(store.value) if store.value.style == "quoted" else verbatim(store.value))
    if sides is None or not sides[0].text or not sides[1].text:
        message = f"`STORE` does not say where {quote(store.value.text, longest=40)} goes"
        reader.said.error("wrong_value", message, store.value.span, hint="Write it as `value -> path`")
        return None
    value, target = sides
    return Remember(
        when=when,
        value=value,
        target=reader.path(target, "a persistent variable"),
        ttl=found.text("TTL"),
        span=line.span,
    )


def _recall(reader: Reader, line: Line) -> Recall | None:
    retired = RETIRED_EVENTS.get(line.key.upper()) if line.key else None
    if retired and line.key and line.value:
        reader.said.warning(
            "retired",
            f"`{line.key}` is the name of an event in an earlier version of the language",
            line.key_span,
            hint=f"Write `- ON: {retired}` and the text as `INSTRUCTION:` below it",
        )
        found = reader.properties(line.body, "recall", owner=line.span, required=False)
        on = Raw(retired, runs=((0, line.key_span.start),), span=line.key_span)
        instruction = unquoted(line.value)
    else:
        found = reader.properties(line.entries, "recall", owner=line.span)
        on, instruction = found.text("ON"), found.text("INSTRUCTION")
    if on is None:
        return None
    return Recall(
        on=on,
        action=found.choice("ACTION"),
        instruction=instruction,
        paths=tuple(reader.path(path, "a persistent variable") for path in found.names("PATHS")),
        domain=found.text("DOMAIN"),
        span=line.span,
    )
