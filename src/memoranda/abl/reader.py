"""Lines of one level and its table in; checked properties out, and a diagnostic for every line that does not fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memoranda.abl.document import Argument
from memoranda.abl.forms import elements, expanded, mapping, spread, text_of, texts
from memoranda.abl.keywords import LEVELS, MISPLACED, Keyword, Level, homes
from memoranda.abl.lines import note_remark
from memoranda.abl.tree import Line, Raw, Value
from memoranda.abl.values import inline_object, part, unquoted, verbatim
from memoranda.lang.diagnostics import Diagnostics, did_you_mean
from memoranda.lang.faults import note_foreign_comment, note_missing_colon
from memoranda.lang.source import Span
from memoranda.model.text import quote

_NAME = re.compile(r"[^\W\d][\w\-]*")
_TARGET = re.compile(r"[^\W\d]\w*(?:\.[\w\-]+)*")
_PATH = re.compile(r"[^\W\d][\w\-]*(?:\.[\w\-*]+|\[\d+\])*")
_INTEGER = re.compile(r"[0-9]{1,12}")
_REMARK = re.compile(r"(\S+)\s+#")
_WORDS = frozenset({"name", "path", "integer", "boolean", "choice", "target"})
_SCALARS = frozenset({"condition", "expression", "name", "path", "integer", "boolean", "choice", "target"})


class Entry(NamedTuple):
    """A line and the row of the table that it spells."""

    keyword: Keyword
    line: Line


class Reader:
    """Checks lines against tables, collects what is wrong, and remembers how each keyword is spelled canonically."""

    def __init__(self, said: Diagnostics, *, lowercase: bool = False) -> None:
        """Begin to read; `lowercase` is for the dialect whose keywords are written small."""
        self.said = said
        self.lowercase = lowercase
        self.spellings: dict[int, str] = {}

    def properties(self, lines: Iterable[Line], level: str, *, owner: Span, required: bool = True) -> Properties:
        """Check the entries of one level: unknown, doubled and missing words, and values of the wrong kind."""
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
                self.doubled(line, keyword.name)
                continue
            seen[keyword.name] = line
            if not keyword.acted_on:
                self.not_acted_on(line, keyword)
                kept.append(line)
            line = self._without_remark(expanded(line, keyword), keyword)
            if self._fits(line, keyword):
                entries.append(Entry(keyword, line))
        if required:
            self._missing(table, seen, owner)
        return Properties(entries, tuple(kept))

    def keyword(self, line: Line, table: Level) -> Keyword | None:
        """Return the keyword that a line begins with, or say what is wrong with it."""
        if line.key is None or line.dash:
            self.misplaced(line, table)
            return None
        keyword = table.find(line.key)
        if keyword is None:
            self.unknown(line, table)
            return None
        self.spell(line, keyword)
        return keyword

    def spell(self, line: Line, keyword: Keyword) -> None:
        """Remember how a keyword is written canonically, and warn where its case is unusual."""
        assert line.key is not None
        usual = keyword.name.isupper()
        either = not usual and line.key in (line.key.upper(), line.key.lower())
        self.spellings[line.key_span.start] = line.key if either or not keyword.acted_on else keyword.name
        if usual and not self.lowercase and not line.key.isupper():
            self.said.warning(
                "keyword_case",
                f"the keyword {quote(line.key)} is usually written `{line.key.upper()}`",
                line.key_span,
                hint="Keywords stand out in capitals",
            )

    def unknown(self, line: Line, table: Level) -> None:
        """Say that a word is not known here, which was probably meant, or where it does stand."""
        assert line.key is not None
        elsewhere = homes(line.key)
        near = MISPLACED.get((table.name, line.key.casefold())) or did_you_mean(line.key, table.names)
        if elsewhere and not near:
            near = f"It stands {elsewhere[0]}; check the indentation"
        hint = near or f"Known {table.where}: {', '.join(table.names[:12])}"
        note = self.said.warning if table.open else self.said.error
        note("unknown_keyword", f"{quote(line.key)} is no keyword {table.where}", line.key_span, hint=hint)

    def misplaced(self, line: Line, table: Level) -> None:
        """Say that a line is no entry where entries are expected."""
        word = line.text.split(maxsplit=1)[0] if line.text.strip() else ""
        if word.startswith("//"):
            note_foreign_comment(self.said, "//", "#", line.span)
            return
        hint = did_you_mean(word, table.names, otherwise=f"Expected one of {', '.join(table.names[:8])}")
        if line.key is None and table.find(word):
            note_missing_colon(self.said, word, line.span.start + line.text.index(word))
            return
        message = f"{quote(line.text, longest=40)} is no `KEYWORD: value` {table.where}"
        self.said.error("wrong_nesting", message, line.span, hint=hint)

    def doubled(self, line: Line, name: str) -> None:
        """Say that something is declared twice in the same place."""
        message = f"`{name}` is declared a second time"
        self.said.error("duplicate", message, line.key_span, hint="Keep one of them")

    def not_acted_on(self, line: Line, keyword: Keyword) -> None:
        """Say that a word is kept and has no effect."""
        self.said.note("not_acted_on", f"`{keyword.name}` is kept but not acted on: {keyword.meaning}", line.key_span)

    def _missing(self, table: Level, seen: dict[str, Line], owner: Span) -> None:
        for keyword in table.keywords:
            if keyword.required and keyword.name not in seen:
                self.said.error(
                    "missing",
                    f"`{keyword.name}` is missing {table.where}",
                    owner,
                    hint=f"{keyword.meaning}: add `{keyword.name}: …`",
                )

    def items(self, lines: Iterable[Line], name: str) -> list[Line]:
        """Return the lines that are list items; anything else among them is noted."""
        found: list[Line] = []
        for line in lines:
            if line.dash:
                found.append(spread(line))
                continue
            self.said.error(
                "wrong_nesting",
                f"{quote(line.text, longest=40)} is no item of `{name}`",
                line.span,
                hint="Begin the item with a dash: `- …`",
            )
        return found

    def refuse_doubles(self, names: Iterable[Raw]) -> None:
        """Say which names are declared more than once."""
        seen: set[str] = set()
        for name in names:
            if name.text in seen:
                message = f"{quote(name.text)} is declared a second time"
                self.said.error("duplicate", message, name.span, hint="Keep one of them")
            seen.add(name.text)

    # --- values ---------------------------------------------------------------------------------------------------

    def _fits(self, line: Line, keyword: Keyword) -> bool:
        if keyword.kind in _SCALARS:
            if line.value is None:
                self.expected(line, keyword, "a value on the same line")
                return False
        if keyword.kind != "anything" and line.value is not None:
            self.nothing_below(line, keyword.name)
        check = _CHECKS.get(keyword.kind)
        return check is None or check(self, line, keyword)

    def nothing_below(self, line: Line, name: str) -> None:
        """Say that lines are nested below one that has all it needs on the same line."""
        if line.children:
            self.said.error(
                "wrong_nesting",
                f"nothing can be nested below `{name}` with a value",
                line.children[0].span,
                hint=f"Indent it like `{name}`, or remove it",
            )

    def _without_remark(self, line: Line, keyword: Keyword) -> Line:
        """Return a line whose one word is not followed by a comment, which people put there all the same."""
        if line.value is None or line.value.style != "plain" or keyword.kind not in _WORDS:
            return line
        remark = _REMARK.match(line.value.text)
        if remark is None:
            return line
        note_remark(self.said, line.value.text[remark.end() - 1 :], line.value.span)
        word = part(verbatim(line.value), 0, remark.end(1))
        return replace(line, value=Value(word.text, "plain", word.runs, span=word.span))

    def expected(self, line: Line, keyword: Keyword, what: str) -> None:
        """Say that a value is not what its keyword needs."""
        found = quote(line.value.text, longest=40) if line.value else "nothing"
        span = line.value.span if line.value else line.key_span
        message = f"`{keyword.name}` needs {what}, not {found}"
        self.said.error("wrong_value", message, span, hint=f"{keyword.name}: {keyword.meaning}")

    def name(self, raw: Raw, what: str) -> Raw:
        """Return a name without a remark after it; say what is wrong with one that cannot be used."""
        return self._word(raw, _NAME, what, "letters, digits and underscores, and begins with a letter")

    def path(self, raw: Raw, what: str) -> Raw:
        """Return a dotted path without a remark after it; say what is wrong with one that cannot be used."""
        return self._word(raw, _PATH, what, "names with dots between them, such as `user.name`")

    def target(self, raw: Raw) -> Raw:
        """Return the dotted name of what is assigned, without a remark after it; say what cannot be assigned."""
        return self._word(raw, _TARGET, "a variable", "letters, digits and underscores, with dots between its parts")

    def _word(self, raw: Raw, pattern: re.Pattern[str], what: str, made_of: str) -> Raw:
        remark = _REMARK.match(raw.text)
        if remark:
            note_remark(self.said, raw.text[remark.end() - 1 :], raw.span)
            raw = part(raw, 0, remark.end(1))
        if not pattern.fullmatch(raw.text):
            message = f"{quote(raw.text)} cannot be the name of {what}"
            self.said.error("bad_name", message, raw.span, hint=f"A name consists of {made_of}")
        return raw


def _needs_text(reader: Reader, line: Line, keyword: Keyword) -> bool:
    if text_of(line) is None:
        reader.expected(line, keyword, "text")
        return False
    return True


def _is_name(reader: Reader, line: Line, keyword: Keyword) -> bool:
    assert line.value is not None
    if not _NAME.match(unquoted(line.value).text):
        reader.expected(line, keyword, "a name")
        return False
    return True


def _is_integer(reader: Reader, line: Line, keyword: Keyword) -> bool:
    assert line.value is not None
    if not _INTEGER.fullmatch(unquoted(line.value).text):
        reader.expected(line, keyword, "a whole number")
        return False
    return True


def _is_boolean(reader: Reader, line: Line, keyword: Keyword) -> bool:
    assert line.value is not None
    if unquoted(line.value).text.casefold() not in ("true", "false"):
        reader.expected(line, keyword, "true or false")
        return False
    return True


def _is_choice(reader: Reader, line: Line, keyword: Keyword) -> bool:
    assert line.value is not None
    raw = unquoted(line.value)
    if raw.text.casefold() not in keyword.choices:
        reader.said.error(
            "wrong_value",
            f"`{keyword.name}` cannot be {quote(raw.text, longest=40)}",
            raw.span,
            hint=did_you_mean(raw.text, keyword.choices, otherwise=f"One of {', '.join(keyword.choices)}"),
        )
        return False
    return True


def _is_list(reader: Reader, line: Line, keyword: Keyword) -> bool:
    for child in line.children:
        if child.body or (child.key is not None and not child.dash and keyword.kind == "names"):
            message = f"{quote(child.text, longest=40)} is no item of `{keyword.name}`"
            reader.said.error("wrong_nesting", message, child.span, hint="Write one `- item` a line, or [a, b]")
            return False
    return True


def _has_pairs(reader: Reader, line: Line, keyword: Keyword) -> bool:
    if line.value is not None and inline_object(verbatim(line.value)) is None:
        reader.expected(line, keyword, "`name: value` lines below it, or {name: value}")
        return False
    return True


def _has_nothing_beside(reader: Reader, line: Line, keyword: Keyword) -> bool:
    # `session: []` and the like say as much as nothing.
    if line.value is not None and line.value.text not in ("[]", "{}"):
        reader.expected(line, keyword, f"its {'items' if keyword.kind == 'list' else 'lines'} below it")
        return False
    return True


_CHECKS: dict[str, Callable[[Reader, Line, Keyword], bool]] = {
    "text": _needs_text,
    "template": _needs_text,
    "name": _is_name,
    "path": _is_name,
    "integer": _is_integer,
    "boolean": _is_boolean,
    "choice": _is_choice,
    "names": _is_list,
    "texts": _is_list,
    "mapping": _has_pairs,
    "block": _has_nothing_beside,
    "list": _has_nothing_beside,
}


class Properties:
    """The checked entries of one level, by name and in the order of the file."""

    def __init__(self, entries: Sequence[Entry], kept: tuple[Line, ...]) -> None:
        """Keep the entries, and the lines that are not acted on."""
        self.entries = tuple(entries)
        self.kept = kept
        self._lines: dict[str, Line] = {}
        for entry in entries:
            self._lines.setdefault(entry.keyword.name, entry.line)

    def line(self, name: str) -> Line | None:
        """Return the line of a keyword."""
        return self._lines.get(name)

    def text(self, name: str) -> Raw | None:
        """Return a text, a name or a condition, without quotes around it."""
        line = self._lines.get(name)
        return None if line is None else text_of(line)

    def expression(self, name: str) -> Raw | None:
        """Return an expression as it was written."""
        line = self._lines.get(name)
        return None if line is None or line.value is None else verbatim(line.value)

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

    def choice(self, name: str) -> str | None:
        """Return one of the words that the table allows."""
        raw = self.text(name)
        return None if raw is None else raw.text.casefold()

    def below(self, name: str) -> tuple[Line, ...]:
        """Return the lines below a keyword."""
        line = self._lines.get(name)
        return () if line is None else line.children
