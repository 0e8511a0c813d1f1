"""Parse the steps of `implements`, its flows, and what handles their failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from memoranda.lang.document import Raw
from memoranda.mashin import keywords
from memoranda.mashin.document import (
    Ask,
    AskMemory,
    Block,
    Branch,
    Compute,
    Config,
    Decide,
    Field,
    Flow,
    Implements,
    Item,
    Let,
    Recall,
    Remember,
    Result,
    Retry,
    RunFlow,
    WaitFor,
)
from memoranda.mashin.expression.parser import RESERVED
from memoranda.mashin.keywords import Level
from memoranda.mashin.lines import Line, join_raws
from memoranda.mashin.reader import Cursor, Reader, read_fields
from memoranda.model.text import quote

CONTINUES = (".", "?.", "|>", "&&", "||", "??", "? ", ": ")
"""How a line begins that continues the expression above it."""


def read_implements(reader: Reader, lines: Iterable[Line], owner: Line | None = None) -> Implements:
    """Read the section, or with no owner the loose steps of a fragment."""
    body = _Body(reader, flows=True)
    found = list(lines)
    for line in found:
        body.read(line)
    span = owner.span if owner else found[0].span
    return Implements(body=tuple(body.items), flows=tuple(body.flows.values()), on_failure=body.on_failure, span=span)


def is_step(line: Line) -> bool:
    """Return whether a line begins a step, a flow or `on failure`."""
    return _keyword(Cursor(line)) is not None


def _keyword(cursor: Cursor) -> str | None:
    """Take the keyword of a step; `recall: 3` and `ask.answer` have none."""
    for keyword in keywords.STEPS.keywords:
        before = cursor.at
        if cursor.takes(keyword.name):
            if cursor.ended or cursor.text[cursor.at] not in ":.=?[(,":
                return keyword.name
            cursor.at = before
    return None


class _Body:
    """Collects the steps of one block."""

    def __init__(self, reader: Reader, *, flows: bool = False, failures: bool = True, values: bool = False) -> None:
        self.reader = reader
        self.may_have_flows = flows
        self.may_fail = failures
        self.may_have_values = values
        self.items: list[Item] = []
        self.flows: dict[str, Flow] = {}
        self.on_failure: Block | None = None

    def read(self, line: Line) -> None:
        cursor = Cursor(line)
        word = _keyword(cursor)
        if word is None:
            self._value(line)
        elif word in ("flow", "flows", "on failure"):
            self._around(line, cursor, word)
        else:
            item = _READERS[word](self.reader, line, cursor)
            if item is not None:
                self.items.append(item)

    def _value(self, line: Line) -> None:
        value = line.expression()
        if line.text.startswith("action ") or not self.may_have_values or value is None:
            self.reader.note_unknown(line, keywords.STEPS)
        else:
            self.items.append(Result(value=value, span=line.span))

    def _around(self, line: Line, cursor: Cursor, word: str) -> None:
        if word == "on failure":
            self._failure(line, cursor)
        elif not self.may_have_flows:
            message = f"`{word}` cannot be inside another block"
            self.reader.diagnostics.error(
                "wrong_nesting", message, line.head, hint="Flows belong directly in `implements`"
            )
        elif word == "flow":
            self._flow(line, cursor)
        elif self.reader.require_end(cursor, "`flows`") and not self.reader.missing_below(line, "a flow"):
            for child in line.children:
                below = Cursor(child)
                if below.takes("flow"):
                    self._flow(child, below)
                else:
                    hint = "Write it as `flow name`, with its steps below"
                    self.reader.note_expected(Cursor(child), "`flow` and its name", hint=hint)

    def _failure(self, line: Line, cursor: Cursor) -> None:
        if not self.may_fail:
            message = "`on failure` cannot be inside a branch"
            self.reader.diagnostics.error(
                "wrong_nesting", message, line.head, hint="It closes a flow, or all of `implements`"
            )
            return
        if not self.reader.require_end(cursor, "`on failure`") or self.reader.missing_below(line, "a step"):
            return
        block = read_block(self.reader, line.children)
        if self.on_failure is not None:
            self.reader.note_duplicate(line.head, "`on failure`")
        else:
            self.on_failure = block

    def _flow(self, line: Line, cursor: Cursor) -> None:
        name = self.reader.name(cursor, "a flow")
        if name is None or not self.reader.require_end(cursor, "the name of a flow"):
            return
        if self.reader.missing_below(line, "a step"):
            return
        body = _Body(self.reader, values=True)
        for child in line.children:
            body.read(child)
        flow = Flow(name=name, body=tuple(body.items), on_failure=body.on_failure, span=line.span)
        self.reader.add(self.flows, name, flow, "the flow")


def read_block(reader: Reader, lines: Iterable[Line]) -> Block:
    """Read the steps of a branch: steps, flows that run, and expressions."""
    body = _Body(reader, failures=False, values=True)
    for line in lines:
        body.read(line)
    return tuple(body.items)


def _step_name(reader: Reader, line: Line, cursor: Cursor, word: str) -> Raw | None:
    """Take the name of a step that has lines below it."""
    name = reader.name(cursor, f"the {word} step")
    if name is None or not reader.require_end(cursor, "the name of a step"):
        return None
    reader.missing_below(line, f"the body of `{word} {name.text}`")
    return name


def _compute(reader: Reader, line: Line, cursor: Cursor) -> Item | None:
    name = _step_name(reader, line, cursor, "compute")
    if name is None:
        return None
    lets: dict[str, Let] = {}
    results: list[Raw] = []
    for start, whole in _expressions(line.children):
        if not start.takes("let"):
            results.append(whole)
            continue
        let = _let(reader, start, whole)
        if let is None:
            continue
        if results:
            message = "`let` cannot follow the result of a step"
            reader.diagnostics.error(
                "unexpected", message, let.name.span, hint="The result is the last line of the step"
            )
        reader.add(lets, let.name, let)
    for extra in results[1:]:
        hint = "A step has one expression as its result; give the others a name with `let`"
        reader.diagnostics.error(
            "unexpected", f"`compute {name.text}` has another result already", extra.span, hint=hint
        )
    if line.children and not results:
        hint = "The last line is an expression, such as `{ total: total }`"
        reader.diagnostics.error("missing", f"`compute {name.text}` has no result", line.head, hint=hint)
    return Compute(name=name, lets=tuple(lets.values()), result=results[0] if results else None, span=line.span)


def _expressions(lines: Iterable[Line]) -> list[tuple[Cursor, Raw]]:
    """Return the expressions of a body, each with the lines that continue it."""
    found: list[tuple[Cursor, Raw]] = []
    for line in lines:
        whole = line.expression()
        if whole is None:
            continue
        if found and line.text.startswith(CONTINUES):
            found[-1] = (found[-1][0], join_raws(found[-1][1], whole))
        else:
            found.append((Cursor(line), whole))
    return found


def _let(reader: Reader, cursor: Cursor, whole: Raw) -> Let | None:
    name = reader.name(cursor, "a value")
    if name is None:
        return None
    if name.text in RESERVED:
        message = f"{quote(name.text)} cannot name a value: expressions have a meaning for the word"
        reader.diagnostics.error("reserved_name", message, name.span, hint="Choose another name")
    if not cursor.mark("="):
        reader.note_expected(cursor, f"`=` after `let {name.text}`")
        return None
    _ = cursor.ended
    text = whole.text[cursor.at :]
    if not text.strip():
        reader.note_expected(cursor, f"the value of `{name.text}`")
        return None
    return Let(name=name, value=_from(whole, cursor.at), span=whole.span)


def _from(raw: Raw, start: int) -> Raw:
    """Return a raw text from an offset, without leading space."""
    start += len(raw.text[start:]) - len(raw.text[start:].lstrip())
    spans = [(here - start, there) for here, there in raw.runs if here > start]
    first = raw.excerpt.origin(start)
    runs = ((0, first), *spans)
    located = raw.excerpt.locate(start, len(raw.text))
    return Raw(raw.text[start:], runs=runs, span=located)


def _decide(reader: Reader, line: Line, cursor: Cursor) -> Item | None:
    name = _step_name(reader, line, cursor, "decide")
    if name is None:
        return None
    branches: list[Branch] = []
    otherwise: Block | None = None
    for child in line.children:
        below = Cursor(child)
        if below.takes("when") or below.takes("else if") or below.takes("if"):
            if otherwise is not None:
                message = "a branch cannot follow `otherwise`"
                reader.diagnostics.error("unexpected", message, child.head, hint="`otherwise` comes last")
            branch = _branch(reader, child, below)
            if branch is not None:
                branches.append(branch)
        elif below.takes("otherwise") or below.takes("else"):
            reader.spell(child, "otherwise")
            if not reader.require_end(below, "`otherwise`") or reader.missing_below(child, "a step or an expression"):
                continue
            if otherwise is not None:
                reader.note_duplicate(child.head, "`otherwise`")
            otherwise = read_block(reader, child.children)
        else:
            reader.note_unknown(child, keywords.DECIDE)
    return Decide(name=name, branches=tuple(branches), otherwise=otherwise, span=line.span)


def _branch(reader: Reader, line: Line, cursor: Cursor) -> Branch | None:
    if cursor.ended:
        reader.note_expected(cursor, "a condition")
        return None
    test = line.part(cursor.at, len(line.text))
    reader.spell(line, f"when {test.text}")
    if reader.missing_below(line, "a step or an expression"):
        return None
    return Branch(test=test, body=read_block(reader, line.children), span=line.span)


def _memory(kind: type[Remember | Recall], level: Level, reader: Reader, line: Line, cursor: Cursor) -> Item | None:
    name = _step_name(reader, line, cursor, level.name)
    if name is None:
        return None
    config, retry, _ = _read_config(reader, line, level)
    for one in config:
        if one.key.text in keywords.OLDER_FORM:
            reader.diagnostics.error(
                "older_form",
                f"`{one.key.text}` belongs to an older form of memory that cannot be searched",
                one.key.span,
                hint="Use `content` and `collection` to remember, `query` and `collection` to recall",
            )
    return kind(name=name, config=config, retry=retry, span=line.span)


def _read_config(
    reader: Reader, line: Line, level: Level
) -> tuple[tuple[Config, ...], Retry | None, tuple[Field, ...]]:
    found: dict[str, Config] = {}
    retry: Retry | None = None
    schema: tuple[Field, ...] = ()
    for child in line.children:
        cursor = Cursor(child)
        if level is not keywords.WAIT_FOR and cursor.takes("retry") and cursor.ended:
            retry = read_retry(reader, child)
            continue
        if level is keywords.WAIT_FOR and cursor.takes("schema") and cursor.ended:
            if not reader.missing_below(child, "a field"):
                schema = read_fields(reader, child.children)
            continue
        config = reader.config(child, level)
        if config is not None:
            reader.add(found, config.key, config)
    return tuple(found.values()), retry, schema


def _wait(reader: Reader, line: Line, cursor: Cursor) -> Item | None:
    name = _step_name(reader, line, cursor, "wait for")
    if name is None:
        return None
    config, _, schema = _read_config(reader, line, keywords.WAIT_FOR)
    return WaitFor(name=name, config=config, schema=schema, span=line.span)


def _retry(reader: Reader, line: Line, cursor: Cursor) -> Item | None:
    if not reader.require_end(cursor, "`retry`") or reader.missing_below(line, "a step"):
        return None
    found: dict[str, Config] = {}
    steps: list[Line] = []
    for child in line.children:
        below = Cursor(child)
        word = below.word()
        if word is not None and not is_step(child) and below.mark(":"):
            config = reader.config(child, keywords.RETRY)
            if config is not None:
                reader.add(found, config.key, config)
        else:
            steps.append(child)
    if not steps:
        reader.diagnostics.error(
            "missing", "a step is missing below `retry`", line.head, hint="Nest what is tried again below it"
        )
    return Retry(config=tuple(found.values()), steps=read_block(reader, steps), span=line.span)


def _run(reader: Reader, line: Line, cursor: Cursor) -> Item | None:
    word = "goto" if line.text.startswith("goto") else "run"
    hint = f"Write it as `{word} flow(name)`"
    if not (cursor.takes("flow") and cursor.mark("(")):
        reader.note_expected(cursor, "`flow(name)`", hint=hint)
        return None
    name = reader.name(cursor, "a flow")
    if name is None:
        return None
    if not cursor.mark(")"):
        reader.note_expected(cursor, "`)`", hint=hint)
        return None
    reader.require_end(cursor, f"`{word} flow({name.text})`")
    reader.refuse_below(line, f"`{word}`")
    return RunFlow(flow=name, jump=word == "goto", span=line.span)


_WITH = ("role", "task", "memory", "tools", "temperature", "max_tokens")
_WHO = {"using": "using", "from": "machine", "of": "machine"}


def read_ask(reader: Reader, line: Line, cursor: Cursor) -> Ask | None:
    """Read the head of an `ask` in all its spellings, and the lines below it."""
    name = reader.name(cursor, "the ask step")
    if name is None:
        return None
    given: dict[str, Any] = _head(reader, cursor, name, line)
    inputs: dict[str, Config] = {}
    for child in line.children:
        _item(reader, child, given, inputs)
    if "memory" in given:
        query: Raw | None = given["memory"] or given.get("task")
        given["memory"] = AskMemory(name=Raw(f"{name.text}.memory", span=name.span), query=query, span=line.span)
    return Ask(name=name, inputs=tuple(inputs.values()), span=line.span, **given)


def _head(reader: Reader, cursor: Cursor, name: Raw, line: Line) -> dict[str, Any]:
    given: dict[str, Any] = {}
    written = [f"ask {name.text}"]
    while not cursor.ended:
        cursor.mark(",")
        start = cursor.rest
        word = cursor.word()
        if word is None or (word.text not in _WHO and word.text != "to"):
            shown = word or start
            hint = reader.hints.did_you_mean(
                shown.text, (*_WHO, "to"), otherwise='Write it as `ask name, using: "provider:model"`'
            )
            message = f"expected `using`, `from`, `of` or `to`, found {quote(shown.text, longest=40)}"
            reader.diagnostics.error("expected", message, shown.span, hint=hint)
            return given
        cursor.mark(":")
        value = cursor.word() if word.text == "to" else cursor.string()
        if value is None:
            what = "a name" if word.text == "to" else "a text in quotes"
            reader.note_expected(cursor, f"{what} after `{word.text}`")
            return given
        role = _WHO.get(word.text, "to")
        if role in given or (role != "to" and ("using" in given or "machine" in given)):
            reader.note_duplicate(word.span, "who is asked" if role != "to" else "`to`")
        given.setdefault(role, value)
        shown = value.text if role == "to" else _as_written(line, value)
        written.append(f"{word.text}: {shown}")
    reader.spell(line, ", ".join(written))
    return given


def _as_written(line: Line, value: Raw) -> str:
    start = value.span.start - line.span.start
    return line.text[start : start + value.span.end - value.span.start]


def _item(reader: Reader, line: Line, given: dict[str, Any], inputs: dict[str, Config]) -> None:
    cursor = Cursor(line)
    if cursor.takes("with"):
        _with(reader, line, cursor, given)
        return
    for word in ("returns", "assuming", "retry"):
        if cursor.takes(word):
            if cursor.ended:
                if word in given:
                    reader.note_duplicate(line.head, f"`{word}`")
                if not reader.missing_below(line, f"what `{word}` says"):
                    given.setdefault(word, _block(reader, line, word))
                return
            cursor = Cursor(line)
    config = reader.config(line, keywords.ASK)
    if config is not None:
        reader.add(inputs, config.key, config)


def _block(reader: Reader, line: Line, word: str) -> Any:
    if word == "returns":
        return read_fields(reader, line.children)
    if word == "assuming":
        return reader.configs(line.children)
    return read_retry(reader, line)


def read_retry(reader: Reader, line: Line) -> Retry:
    """Read the lines that say how often a step is tried again."""
    reader.missing_below(line, "how often")
    return Retry(config=reader.configs(line.children, keywords.RETRY), span=line.span)


def _with(reader: Reader, line: Line, cursor: Cursor, given: dict[str, Any]) -> None:
    word = cursor.word()
    if word is None or word.text not in _WITH:
        shown = word or cursor.rest
        hint = reader.hints.did_you_mean(shown.text, _WITH, otherwise=f"One of {', '.join(_WITH)}")
        reader.diagnostics.error("unknown_keyword", f"{quote(shown.text)} cannot follow `with`", shown.span, hint=hint)
        return
    cursor.mark(":")
    value = cursor.expression()
    if value is None and word.text != "memory":
        message = f"the value of `with {word.text}` is missing"
        reader.diagnostics.error("missing", message, line.head, hint=f"with {word.text} …")
    elif word.text in given:
        reader.note_duplicate(word.span, f"`with {word.text}`")
    else:
        given[word.text] = value


_READERS: dict[str, Callable[[Reader, Line, Cursor], Item | None]] = {
    "compute": _compute,
    "ask": read_ask,
    "decide": _decide,
    "remember": partial(_memory, Remember, keywords.REMEMBER),
    "recall": partial(_memory, Recall, keywords.RECALL),
    "wait for": _wait,
    "retry": _retry,
    "run": _run,
    "goto": _run,
}
