"""Read lines with the keyword tables: checked properties, or a diagnostic for each line that does not fit.

The functions above `Reader` accept texts, lists and mappings in every form in which people write them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from memoranda.abl.document import Argument
from memoranda.abl.keywords import LEVELS, MISPLACED, PRIORITIES, TYPES, Keyword, Level, places_of, variable_type
from memoranda.abl.lines import Line, Value, list_elements, note_remark, object_fields, part, split, unquote
from memoranda.lang.diagnostics import Diagnostics, did_you_mean, note_foreign_comment, note_missing_colon
from memoranda.lang.document import Raw
from memoranda.lang.source import Span
from memoranda.model.text import quote


def expand_value(line: Line, keyword: Keyword) -> Line:
    """Turn an inline `{…}` or `[…]` into lines below, where the keyword expects lines there."""
    if line.value is None or line.children:
        return line
    if keyword.kind == "list" and line.value.text.startswith("["):
        children = tuple(_as_line(element, dash=True) for element in _pieces(line.value.raw))
    elif keyword.kind == "block" and line.value.text.startswith("{"):
        children = _as_lines(line.value.raw)
    else:
        return line
    return replace(line, value=None, children=children) if children else line


def expand_item(line: Line) -> Line:
    """Turn an item `- {a: x, b: y}` into an item with these entries."""
    if line.key is not None or not line.text.startswith("{"):
        return line
    entries = _as_lines(line.raw)
    if not entries:
        return line
    head, *rest = entries
    return replace(head, dash=True, properties=(*rest, *line.body), comments=line.comments, span=line.span)


def _pieces(raw: Raw) -> list[Raw]:
    inner = part(raw, raw.text.index("[") + 1, raw.text.rindex("]") if "]" in raw.text else len(raw.text))
    return [element for element in split(inner, ",") if element.text]


def _as_lines(raw: Raw) -> tuple[Line, ...]:
    return tuple(_as_line(value, name=name) for name, value in object_fields(raw) or ())


def _as_line(raw: Raw, *, name: Raw | None = None, dash: bool = False) -> Line:
    if name is None:
        return Line(raw.text, dash=dash, key_span=raw.span, span=raw.span)
    quoted = unquote(raw) is not raw
    value = Value(raw.text, "quoted" if quoted else "plain", raw.runs, span=raw.span)
    return Line(raw.text, key=name.text, key_span=name.span, value=value, span=name.span.to(raw.span))


def text_of(line: Line) -> Raw | None:
    """Return the value of a line without quotes, or the bare lines below it; None without either."""
    if line.value is not None:
        return line.value.unquoted
    if line.children and all(child.key is None and not child.dash and not child.body for child in line.children):
        first, last = line.children[0].span, line.children[-1].span
        runs: list[tuple[int, int]] = []
        length = 0
        for child in line.children:
            runs.append((length, child.span.start))
            length += len(child.text) + 1
        text = "\n".join(child.text for child in line.children)
        return Raw(text, runs=tuple(runs), span=first.to(last))
    return None


def item_text(line: Line) -> Raw:
    """Return the whole text of a list item, including a colon."""
    if line.value is not None and line.value.style == "block":
        return line.value.unquoted
    if line.key is None:
        return unquote(line.raw)
    # White space around the colon is layout.
    written = line.text[: line.key_span.end - line.key_span.start].rstrip()
    if line.value is None:
        return Raw(f"{written}:", runs=((0, line.span.start),), span=line.span)
    runs = ((0, line.span.start), (len(written) + 2, line.value.span.start))
    return Raw(f"{written}: {line.value.text}", runs=runs, span=line.span)


def elements(line: Line) -> list[Raw]:
    """Return the names or texts of a line: `[a, b]`, `a, b`, or one item per line."""
    if line.value is not None:
        return list_elements(line.value.raw)
    return [item_text(child) for child in line.children if child.dash or child.key is None]


def texts(line: Line) -> list[Raw]:
    """Return the texts of a line: one text, one item per line, or `["a", "b"]`."""
    if line.value is not None:
        inline = line.value.style == "plain" and line.value.text.startswith("[")
        return list_elements(line.value.raw) if inline else [line.value.unquoted]
    return [item_text(child) for child in line.children]


def mapping(line: Line) -> list[Argument]:
    """Return the pairs of a line: `{a: x, b}`, or `name: value` lines below it."""
    if line.value is not None:
        # People also write the object in quotes: "{a: x}".
        pairs = object_fields(unquote(line.value.raw)) or []
        return [Argument(name, value, span=name.span.to(value.span)) for name, value in pairs]
    return [_pair(child) for child in line.children]


def _pair(line: Line) -> Argument:
    given = {(entry.key or "").casefold(): entry for entry in line.entries} if line.dash else {}
    if "key" in given and "value" in given:
        # A list of `key` and `value` entries allows a name to occur twice.
        return Argument(_as_expression(given["key"]), _as_expression(given["value"]), span=line.span)
    if line.key is None:
        return Argument(line.raw, line.raw, span=line.span)
    return Argument(line.name, _as_expression(line), span=line.span)


def _as_expression(line: Line) -> Raw:
    """Return the value of a line, or the lines below it written as `{…}` or `[…]`."""
    if line.value is not None:
        return line.value.raw
    parts = [child.text if child.key is None else f"{child.key}: {_as_expression(child).text}" for child in line.body]
    inner = ", ".join(parts)
    if any(child.dash and child.key is None for child in line.body):
        return Raw(f"[{inner}]", runs=((0, line.span.start),), span=line.span)
    return Raw(f"{{{inner}}}" if parts else "null", runs=((0, line.span.start),), span=line.span)


_NAME = re.compile(r"[^\W\d][\w\-]*")
_TARGET = re.compile(r"[^\W\d]\w*(?:\.[\w\-]+)*")
_PATH = re.compile(r"[^\W\d][\w\-]*(?:\.[\w\-*]+|\[\d+\])*")
_INTEGER = re.compile(r"[0-9]{1,12}")
_REMARK = re.compile(r"(\S+)\s+#")
_WORDS = frozenset({"name", "path", "integer", "boolean", "choice", "type", "target"})
_SCALARS = frozenset({"condition", "expression", "name", "path", "integer", "boolean", "choice", "type", "target"})


class Entry(NamedTuple):
    """A line and its row of the keyword table."""

    keyword: Keyword
    line: Line


_ValueCheck: TypeAlias = Callable[["Reader", Line, Keyword], bool]


class Reader:
    """Checks lines against keyword tables and records the canonical spelling of each keyword."""

    def __init__(self, diagnostics: Diagnostics, *, lowercase: bool = False) -> None:
        """Create a reader; `lowercase` is for the YAML dialect, whose keywords are written in lower case."""
        self.diagnostics = diagnostics
        self.error = diagnostics.error
        self.warning = diagnostics.warning
        self.note = diagnostics.note
        self.lowercase = lowercase
        self.spellings: dict[int, str] = {}

    def properties(self, lines: Iterable[Line], level: str, *, owner: Span, required: bool = True) -> Properties:
        """Check the entries of one level: unknown, duplicate and missing keywords, and values of the wrong kind."""
        table = LEVELS[level]
        entries: list[Entry] = []
        kept: list[Line] = []
        seen: dict[str, Line] = {}
        for line in lines:
            keyword = self.keyword(line, table)
            if keyword is None:
                if table.open and line.key is not None:
                    kept.append(line)
                continue
            if keyword.name in seen and not keyword.repeatable:
                self.note_duplicate(line, keyword.name)
                continue
            seen[keyword.name] = line
            if not keyword.acted_on:
                self.note_not_acted_on(line, keyword)
                kept.append(line)
            line = self._without_remark(expand_value(line, keyword), keyword)
            if self._fits(line, keyword):
                entries.append(Entry(keyword, line))
        if required:
            self._note_missing(table, seen, owner)
        return Properties(entries, tuple(kept))

    def keyword(self, line: Line, table: Level) -> Keyword | None:
        """Return the keyword of a line, or None with a diagnostic."""
        if line.key is None or line.dash:
            self.note_misplaced(line, table)
            return None
        keyword = table.find(line.key)
        if keyword is None:
            self.note_unknown(line, table)
            return None
        self.spell(line, keyword)
        return keyword

    def spell(self, line: Line, keyword: Keyword) -> None:
        """Record the canonical spelling of a keyword, and warn about unusual case."""
        assert line.key is not None
        usual = keyword.name.isupper()
        either = not usual and line.key in (line.key.upper(), line.key.lower())
        self.spellings[line.key_span.start] = line.key if either or not keyword.acted_on else keyword.name
        if usual and not self.lowercase and not line.key.isupper():
            self.warning(
                "keyword_case",
                f"the keyword {quote(line.key)} is usually written `{line.key.upper()}`",
                line.key_span,
                hint="Write keywords in capitals",
            )

    def note_unknown(self, line: Line, table: Level) -> None:
        """Report an unknown keyword, with the nearest one or the place where it belongs."""
        assert line.key is not None
        elsewhere = places_of(line.key)
        near = MISPLACED.get((table.name, line.key.casefold())) or did_you_mean(line.key, table.names)
        if elsewhere and not near:
            near = f"It belongs {elsewhere[0]}; check the indentation"
        hint = near or f"Known {table.where}: {', '.join(table.names[:12])}"
        note = self.diagnostics.warning if table.open else self.diagnostics.error
        note("unknown_keyword", f"{quote(line.key)} is not a keyword {table.where}", line.key_span, hint=hint)

    def note_misplaced(self, line: Line, table: Level) -> None:
        """Report a line that is not an entry where entries are expected."""
        word = line.text.split(maxsplit=1)[0] if line.text.strip() else ""
        if word.startswith("//"):
            note_foreign_comment(self.diagnostics, "//", "#", line.span)
            return
        hint = did_you_mean(word, table.names, otherwise=f"Expected one of {', '.join(table.names[:8])}")
        if line.key is None and table.find(word):
            note_missing_colon(self.diagnostics, word, line.span.start + line.text.index(word))
            return
        message = f"{quote(line.text, longest=40)} is not a `KEYWORD: value` {table.where}"
        self.error("wrong_nesting", message, line.span, hint=hint)

    def note_duplicate(self, line: Line, name: str) -> None:
        """Report a second declaration in the same place."""
        message = f"`{name}` is declared a second time"
        self.error("duplicate", message, line.key_span, hint="Keep one of them")

    def note_not_acted_on(self, line: Line, keyword: Keyword) -> None:
        """Warn that a keyword has no effect."""
        self.warning("not_acted_on", f"`{keyword.name}` has no effect: {keyword.meaning}", line.key_span)

    def _note_missing(self, table: Level, seen: dict[str, Line], owner: Span) -> None:
        for keyword in table.keywords:
            if keyword.required and keyword.name not in seen:
                self.error(
                    "missing",
                    f"`{keyword.name}` is missing {table.where}",
                    owner,
                    hint=f"{keyword.meaning}: add `{keyword.name}: …`",
                )

    def items(self, lines: Iterable[Line], name: str) -> list[Line]:
        """Return the list items among lines; the others become diagnostics."""
        found: list[Line] = []
        for line in lines:
            if line.dash:
                found.append(expand_item(line))
                continue
            self.error(
                "wrong_nesting",
                f"{quote(line.text, longest=40)} is not an item of `{name}`",
                line.span,
                hint="Begin the item with a dash: `- …`",
            )
        return found

    def note_duplicates(self, names: Iterable[Raw]) -> None:
        """Report names that are declared more than once."""
        seen: set[str] = set()
        for name in names:
            if name.text in seen:
                message = f"{quote(name.text)} is declared a second time"
                self.error("duplicate", message, name.span, hint="Keep one of them")
            seen.add(name.text)

    # --- values ---------------------------------------------------------------------------------------------------

    def _fits(self, line: Line, keyword: Keyword) -> bool:
        if keyword.kind in _SCALARS:
            if line.value is None:
                self.note_wrong_value(line, keyword, "a value on the same line")
                return False
        if keyword.kind != "anything" and line.value is not None and not keyword.below:
            self.refuse_nested(line, keyword.name)
        check = _CHECKS.get(keyword.kind)
        return check is None or check(self, line, keyword)

    def refuse_nested(self, line: Line, name: str) -> None:
        """Report lines below a keyword that already has its value on the same line."""
        if line.children:
            self.error(
                "wrong_nesting",
                f"nothing can be nested below `{name}` with a value",
                line.children[0].span,
                hint=f"Indent it like `{name}`, or remove it",
            )

    def _without_remark(self, line: Line, keyword: Keyword) -> Line:
        """Remove a comment after a one-word value, with a warning."""
        if line.value is None or line.value.style != "plain" or keyword.kind not in _WORDS:
            return line
        remark = _REMARK.match(line.value.text)
        if remark is None:
            return line
        note_remark(self.diagnostics, line.value.text[remark.end() - 1 :], line.value.span)
        word = part(line.value.raw, 0, remark.end(1))
        return replace(line, value=Value(word.text, "plain", word.runs, span=word.span))

    def note_wrong_value(self, line: Line, keyword: Keyword, what: str) -> None:
        """Report a value that is not what its keyword needs."""
        found = quote(line.value.text, longest=40) if line.value else "nothing"
        span = line.value.span if line.value else line.key_span
        message = f"`{keyword.name}` needs {what}, not {found}"
        self.error("wrong_value", message, span, hint=f"{keyword.name}: {keyword.meaning}")

    def name(self, raw: Raw, what: str) -> Raw:
        """Return a name without a trailing comment, and report one that is not valid."""
        return self._word(raw, _NAME, what, "letters, digits and underscores, and begins with a letter")

    def path(self, raw: Raw, what: str) -> Raw:
        """Return a dotted path without a trailing comment, and report one that is not valid."""
        return self._word(raw, _PATH, what, "names with dots between them, such as `user.name`")

    def target(self, raw: Raw) -> Raw:
        """Return the name of an assigned variable without a trailing comment, and report one that is not valid."""
        return self._word(raw, _TARGET, "a variable", "letters, digits and underscores, with dots between its parts")

    def _word(self, raw: Raw, pattern: re.Pattern[str], what: str, made_of: str) -> Raw:
        remark = _REMARK.match(raw.text)
        if remark:
            note_remark(self.diagnostics, raw.text[remark.end() - 1 :], raw.span)
            raw = part(raw, 0, remark.end(1))
        if not pattern.fullmatch(raw.text):
            message = f"{quote(raw.text)} cannot be the name of {what}"
            self.error("bad_name", message, raw.span, hint=f"A name consists of {made_of}")
        return raw


def _needs_text(reader: Reader, line: Line, keyword: Keyword) -> bool:
    if text_of(line) is None:
        reader.note_wrong_value(line, keyword, "text")
        return False
    return True


def _matching(test: Callable[[str], object], what: str) -> _ValueCheck:
    """Return a check that the text of a value passes a test."""

    def check(reader: Reader, line: Line, keyword: Keyword) -> bool:
        assert line.value is not None
        if not test(line.value.unquoted.text):
            reader.note_wrong_value(line, keyword, what)
            return False
        return True

    return check


def _is_choice(reader: Reader, line: Line, keyword: Keyword) -> bool:
    assert line.value is not None
    raw = line.value.unquoted
    if raw.text.casefold() not in keyword.choices and not (raw.text.isdecimal() and keyword.choices == PRIORITIES):
        reader.error(
            "wrong_value",
            f"`{keyword.name}` cannot be {quote(raw.text, longest=40)}",
            raw.span,
            hint=did_you_mean(raw.text, keyword.choices, otherwise=f"One of {', '.join(keyword.choices)}"),
        )
        return False
    return True


def _is_type(reader: Reader, line: Line, keyword: Keyword) -> bool:
    assert line.value is not None
    raw = line.value.unquoted
    if variable_type(raw.text) is None:
        reader.error(
            "wrong_value",
            f"`{keyword.name}` cannot be {quote(raw.text, longest=40)}",
            raw.span,
            hint=did_you_mean(raw.text, TYPES, otherwise=f"One of {', '.join(TYPES)}"),
        )
        return False
    return True


def _is_list(reader: Reader, line: Line, keyword: Keyword) -> bool:
    for child in line.children:
        if child.body or (child.key is not None and not child.dash and keyword.kind == "names"):
            message = f"{quote(child.text, longest=40)} is not an item of `{keyword.name}`"
            reader.error("wrong_nesting", message, child.span, hint="Write one `- item` per line, or [a, b]")
            return False
    return True


def _has_pairs(reader: Reader, line: Line, keyword: Keyword) -> bool:
    if line.value is not None and object_fields(unquote(line.value.raw)) is None:
        reader.note_wrong_value(line, keyword, "`name: value` lines below it, or {name: value}")
        return False
    return True


def _has_nothing_beside(reader: Reader, line: Line, keyword: Keyword) -> bool:
    # `session: []` is the same as an empty section.
    if line.value is not None and line.value.text not in ("[]", "{}"):
        reader.note_wrong_value(line, keyword, f"its {'items' if keyword.kind == 'list' else 'lines'} below it")
        return False
    return True


_is_name = _matching(_NAME.match, "a name")

_CHECKS: dict[str, _ValueCheck] = {
    "text": _needs_text,
    "template": _needs_text,
    "name": _is_name,
    "path": _is_name,
    "integer": _matching(_INTEGER.fullmatch, "a whole number"),
    "boolean": _matching(lambda text: text.casefold() in ("true", "false"), "true or false"),
    "choice": _is_choice,
    "type": _is_type,
    "names": _is_list,
    "texts": _is_list,
    "mapping": _has_pairs,
    "block": _has_nothing_beside,
    "list": _has_nothing_beside,
}


class Properties:
    """The checked entries of one level, by name and in the order of the file."""

    def __init__(self, entries: Sequence[Entry], kept: tuple[Line, ...]) -> None:
        """Store the entries, and the lines that are not acted on."""
        self.entries = tuple(entries)
        self.kept = kept
        self._lines: dict[str, Line] = {}
        for entry in entries:
            self._lines.setdefault(entry.keyword.name, entry.line)

    def line(self, name: str) -> Line | None:
        """Return the line of a keyword."""
        return self._lines.get(name)

    def text(self, name: str) -> Raw | None:
        """Return a text, a name or a condition without surrounding quotes."""
        line = self._lines.get(name)
        return None if line is None else text_of(line)

    def expression(self, name: str) -> Raw | None:
        """Return an expression as written."""
        line = self._lines.get(name)
        return None if line is None or line.value is None else line.value.raw

    def names(self, name: str) -> tuple[Raw, ...]:
        """Return the names of a list."""
        line = self._lines.get(name)
        return () if line is None else tuple(elements(line))

    def texts(self, name: str) -> tuple[Raw, ...]:
        """Return the texts of a list."""
        line = self._lines.get(name)
        return () if line is None else tuple(texts(line))

    def mapping(self, name: str) -> tuple[Argument, ...]:
        """Return the pairs of a mapping."""
        line = self._lines.get(name)
        return () if line is None else tuple(mapping(line))

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return true or false."""
        raw = self.text(name)
        return default if raw is None else raw.text.casefold() == "true"

    def integer(self, name: str) -> int | None:
        """Return a whole number."""
        raw = self.text(name)
        return None if raw is None else int(raw.text)

    def type(self, name: str) -> str | None:
        """Return the type of a variable."""
        raw = self.text(name)
        return None if raw is None else variable_type(raw.text)

    def choice(self, name: str) -> str | None:
        """Return one of the choices of the table, in lower case."""
        raw = self.text(name)
        return None if raw is None else raw.text.casefold()

    def below(self, name: str) -> tuple[Line, ...]:
        """Return the lines below a keyword."""
        line = self._lines.get(name)
        return () if line is None else line.children
