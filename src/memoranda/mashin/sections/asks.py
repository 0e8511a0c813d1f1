"""The lines of an `ask` in; a question to a model or another machine out."""

from __future__ import annotations

from typing import Any

from memoranda.lang.tree import Raw
from memoranda.mashin.document import Ask, Config, Retry
from memoranda.mashin.keywords import ASK, RETRY
from memoranda.mashin.lines import Line
from memoranda.mashin.reader import Cursor, Reader
from memoranda.mashin.sections.fields import read_fields
from memoranda.model.text import quote

_WITH = ("role", "task", "tools", "temperature", "max_tokens")
_WHO = {"using": "using", "from": "machine", "of": "machine"}


def read_ask(reader: Reader, line: Line, cursor: Cursor) -> Ask | None:
    """Read the head of an `ask` in all its spellings, and what stands below it."""
    name = reader.name(cursor, "the ask step")
    if name is None:
        return None
    given: dict[str, Any] = _head(reader, cursor, name, line)
    inputs: dict[str, Config] = {}
    for child in line.children:
        _item(reader, child, given, inputs)
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
            hint = reader.meant(shown.text, (*_WHO, "to"), otherwise='Write it as `ask name, using: "provider:model"`')
            message = f"expected `using`, `from`, `of` or `to`, found {quote(shown.text, longest=40)}"
            reader.said.error("expected", message, shown.span, hint=hint)
            return given
        cursor.mark(":")
        value = cursor.word() if word.text == "to" else cursor.string()
        if value is None:
            what = "a name" if word.text == "to" else "a text in quotes"
            reader.expected(cursor, f"{what} after `{word.text}`")
            return given
        role = _WHO.get(word.text, "to")
        if role in given or (role != "to" and ("using" in given or "machine" in given)):
            reader.doubled(word.span, "who is asked" if role != "to" else "`to`")
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
                    reader.doubled(line.head, f"`{word}`")
                if not reader.missing_below(line, f"what `{word}` says"):
                    given.setdefault(word, _block(reader, line, word))
                return
            cursor = Cursor(line)
    config = reader.config(line, ASK)
    if config is not None:
        reader.add(inputs, config)


def _block(reader: Reader, line: Line, word: str) -> Any:
    if word == "returns":
        return read_fields(reader, line.children)
    if word == "assuming":
        return reader.configs(line.children)
    return read_retry(reader, line)


def read_retry(reader: Reader, line: Line) -> Retry:
    """Read the lines that say how often a step is tried again."""
    reader.missing_below(line, "how often")
    return Retry(config=reader.configs(line.children, RETRY), span=line.span)


def _with(reader: Reader, line: Line, cursor: Cursor, given: dict[str, Any]) -> None:
    word = cursor.word()
    if word is None or word.text not in _WITH:
        shown = word or cursor.rest
        hint = reader.meant(shown.text, _WITH, otherwise=f"One of {', '.join(_WITH)}")
        reader.said.error("unknown_keyword", f"{quote(shown.text)} cannot follow `with`", shown.span, hint=hint)
        return
    cursor.mark(":")
    value = cursor.expression()
    if value is None:
        message = f"the value of `with {word.text}` is missing"
        reader.said.error("missing", message, line.head, hint=f"with {word.text} …")
    elif word.text in given:
        reader.doubled(word.span, f"`with {word.text}`")
    else:
        given[word.text] = value
