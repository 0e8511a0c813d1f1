"""What a document reads and writes in; facts used against their `ACCESS`, or without a declaration, out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memoranda.abl.checker.outline import Outline
from memoranda.abl.document import PREFIXES, Context, Escalate
from memoranda.abl.tree import Raw
from memoranda.abl.variables import SYSTEM_PATHS
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.source import Span
from memoranda.model.text import quote

_Place = tuple[str, Span]


def check_access(whole: Outline, said: Diagnostics) -> None:
    """Check every use of a fact against what its declaration allows."""
    for path, span in _read(whole):
        fact = whole.fact(path)
        if fact is not None and fact.access == "write":
            what = "it" if path == fact.path.text else quote(fact.path.text)
            message = f"{quote(path)} cannot be read: {what} is declared with `ACCESS: write`"
            said.error("access", message, span, hint="Declare `ACCESS: readwrite`, or keep the value in a variable")
    for write in whole.writes:
        fact = whole.fact(write.path.text)
        if fact is not None and fact.access == "read":
            message = f"`{write.by}` cannot change {quote(write.path.text)}: it is declared with `ACCESS: read`"
            said.error("access", message, write.path.span, hint="Declare `ACCESS: readwrite`, or write somewhere else")
    _grants(whole, said)
    _declared(whole, said)


def _read(whole: Outline) -> Iterator[_Place]:
    """Give the paths whose values are read, in programs and by name."""
    for read in whole.reads:
        # In a loop, a field of an item may have the name.
        if not read.looped:
            yield read.text, read.span
    yield from _places(_recalled(whole))
    yield from _places(_passed(whole))


def _places(raws: Iterable[Raw]) -> Iterator[_Place]:
    for raw in raws:
        yield raw.text, raw.span


def _recalled(whole: Outline) -> list[Raw]:
    memory = whole.document.memory
    return [path for recall in memory.recall for path in recall.paths] if memory else []


def _passed(whole: Outline) -> Iterator[Raw]:
    for part, _ in whole.parts:
        if isinstance(part, Context):
            yield from part.values
        elif isinstance(part, Escalate):
            yield from part.context_for_human


def _grants(whole: Outline, said: Diagnostics) -> None:
    for part, _ in whole.parts:
        for grant in part.memory_grants if isinstance(part, Context) else ():
            fact = whole.fact(grant.path.text)
            if grant.path.text.partition(".")[0] not in PREFIXES:
                begins = ", ".join(f"`{prefix}.`" for prefix in PREFIXES)
                message = f"{quote(grant.path.text)} begins with none of {begins}, so no agent can use it undeclared"
                said.warning("no_effect", message, grant.path.span, hint="Declare it in the other agent")
            if fact is not None and fact.access not in ("readwrite", grant.access):
                granted = f"{quote(grant.path.text)} is granted as `{grant.access}`"
                message = f"{granted}, but this agent itself may only {fact.access} it"
                hint = f"An agent cannot give more than it has: grant `{fact.access}`"
                said.warning("access", message, grant.path.span, hint=hint)


def _declared(whole: Outline, said: Diagnostics) -> None:
    """Warn once of each path that looks like a fact and is declared nowhere."""
    if not whole.closed and whole.document.memory is None:
        return
    own = {*whole.session, *(write.name for write in whole.writes if "." not in write.path.text)}
    names = {head: [path.partition(".")[2] for path in whole.facts if path.startswith(f"{head}.")] for head in PREFIXES}
    warned: set[str] = set()
    for path, span, effect in _mentioned(whole):
        head, _, rest = path.partition(".")
        if head not in PREFIXES or head in own or not rest or path in warned or _is_known(whole, path):
            continue
        warned.add(path)
        # The scope is the same, so that it says nothing about how near a name is.
        near = whole.hints.nearest(rest, names[head])
        hint = f"Did you mean `{head}.{near}`?" if near else f"Add `- {path}` below `persistent` of `MEMORY`"
        said.warning("undeclared_path", f"{quote(path)} is declared nowhere; {effect}", span, hint=hint)


def _is_known(whole: Outline, path: str) -> bool:
    """Say whether a path is declared, lies in one that is, holds one that is, or is given by the runtime."""
    system = ".".join(path.split(".")[:2]) in SYSTEM_PATHS
    return system or path in whole.groups or whole.fact(path) is not None


def _mentioned(whole: Outline) -> Iterator[tuple[str, Span, str]]:
    """Give each path with its place, and what happens there although nobody declared it."""
    for write in whole.writes:
        kept = "it is kept as a fact all the same" if write.by == "STORE" else "it is kept for this session only"
        yield write.path.text.partition("[")[0], write.path.span, kept
    for path, span in _read(whole):
        yield path.removesuffix(".length"), span, "it is read as a fact all the same"
    for part, _ in whole.parts:
        for grant in part.memory_grants if isinstance(part, Context) else ():
            yield grant.path.text, grant.path.span, "it is granted all the same"
