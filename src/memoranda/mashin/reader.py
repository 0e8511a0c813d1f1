"""Read the words, configuration and fields of a line, and note what does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from memoranda.lang.diagnostics import Diagnostics, Suggestions, note_foreign_comment, note_missing_colon
from memoranda.lang.document import Raw
from memoranda.lang.source import Span
from memoranda.mashin.document import Config, Field, Type
from memoranda.mashin.keywords import MODIFIERS, TYPES, Level, homes
from memoranda.mashin.lines import Line, closing, comma_at, decode
from memoranda.model.text import quote

T = TypeVar("T")

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[^\W\d]\w*")
_DOTTED = re.compile(r"[^\W\d][\w\-]*(?:\.[^\W\d][\w\-]*)*")


class Cursor:
    """A position in the text of a line."""

    def __init__(self, line: Line) -> None:
        """Start before the first word."""
        self.line = line
        self.text = line.text
        self.at = 0

    def _skip(self) -> int:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at

    def _match(self, pattern: re.Pattern[str]) -> Raw | None:
        found = pattern.match(self.text, self._skip())
        if found is None:
            return None
        self.at = found.end()
        return self.line.part(found.start(), found.end())

    def word(self) -> Raw | None:
        """Take a name."""
        return self._match(_WORD)

    def dotted_name(self) -> Raw | None:
        """Take names joined by dots."""
        return self._match(_DOTTED)

    def takes(self, words: str) -> bool:
        """Take these words if they come next."""
        before = self.at
        for word in words.split():
            found = self._match(_WORD)
            if found is None or found.text != word:
                self.at = before
                return False
        return True

    def mark(self, character: str) -> bool:
        """Take a punctuation mark if it comes next."""
        if self.text.startswith(character, self._skip()):
            self.at += len(character)
            return True
        return False

    def string(self) -> Raw | None:
        """Take a text in quotes, and return its content."""
        written = self._enclosure("\"'")
        if written is None or len(written.text) < 2:
            return None
        return Raw(decode(written.text), runs=((0, written.span.start + 1),), literal=True, span=written.span)

    def brackets(self, opener: str) -> Raw | None:
        """Take everything up to the closing bracket, both brackets included."""
        return self._enclosure(opener)

    def _enclosure(self, openers: str) -> Raw | None:
        start = self._skip()
        if start >= len(self.text) or self.text[start] not in openers:
            return None
        end = closing(self.text, start)
        if end is None:
            return None
        self.at = end
        return self.line.part(start, end)

    def until_comma(self) -> Raw | None:
        """Take an expression up to the next comma outside brackets and quotes."""
        start = self._skip()
        self.at = comma_at(self.text, start)
        text = self.text[start : self.at].rstrip()
        return self.line.part(start, start + len(text)) if text else None

    def expression(self) -> Raw | None:
        """Take the rest of the line and the lines below that continue it."""
        start = self._skip()
        self.at = len(self.text)
        return self.line.expression(start)

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self._skip() >= len(self.text)

    @property
    def rest(self) -> Raw:
        """The rest of the first physical line, for messages."""
        start = self._skip()
        end = self.text.find("\n", start)
        return self.line.part(start, len(self.text) if end < 0 else end)


class Reader:
    """Notes what is wrong, and collects the canonical spelling of lines."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        """Note diagnostics with those of the file."""
        self.diagnostics = diagnostics
        self.spellings: dict[int, str] = {}
        self.hints = Suggestions()

    def spell(self, line: Line, text: str) -> None:
        """Set the canonical text of a line, where it differs."""
        if len(line.pieces) == 1 and text != line.text:
            self.spellings[line.span.start] = text

    def note_expected(self, cursor: Cursor, what: str, *, hint: str = "") -> None:
        """Note that something else was expected at the cursor."""
        rest = cursor.rest
        found = quote(rest.text, longest=40) if rest.text else "the end of the line"
        span = rest.span if rest.text else Span(cursor.line.head.end, cursor.line.head.end)
        self.diagnostics.error("expected", f"expected {what}, found {found}", span, hint=hint)

    def require_end(self, cursor: Cursor, after: str) -> bool:
        """Return whether the line ends here, or note what follows."""
        if cursor.ended:
            return True
        rest = cursor.rest
        message = f"{quote(rest.text, longest=40)} cannot follow {after}"
        self.diagnostics.error("unexpected", message, rest.span, hint="Remove it, or put it on a line of its own below")
        return False

    def note_unknown(self, line: Line, level: Level) -> None:
        """Note that a line does not begin with a keyword of a level; suggest one, or the place of the word."""
        if line.text.startswith("#"):
            note_foreign_comment(self.diagnostics, "#", "//", line.head)
            return
        first = _WORD.match(line.text)
        word = first[0] if first else line.text[:40]
        elsewhere = [place for place in homes(_two_words(line.text)) or homes(word) if place != level.where]
        hint = self.hints.did_you_mean(_two_words(line.text), level.names) or self.hints.did_you_mean(word, level.names)
        if elsewhere and (not hint or f"`{word}`" in hint):
            hint = f"It belongs {elsewhere[0]}; check the indentation"
        span = line.part(0, len(word)).span if first else line.head
        message = f"{quote(word, longest=40)} is not a keyword {level.where}"
        listed = ", ".join(keyword.name for keyword in level.keywords[:12])
        self.diagnostics.error("unknown_keyword", message, span, hint=hint or f"Known {level.where}: {listed}")

    def note_duplicate(self, span: Span, what: str) -> None:
        """Note that something is declared twice."""
        message = f"{what} is declared a second time"
        self.diagnostics.error("duplicate", message, span, hint="Keep one of them")

    def missing_below(self, line: Line, what: str) -> bool:
        """Return whether lines are missing below a line, and note it."""
        if line.children:
            return False
        self.diagnostics.error(
            "missing", f"{what} is missing below this line", line.head, hint="Indent it deeper than this line"
        )
        return True

    def refuse_below(self, line: Line, what: str) -> None:
        """Note lines below one that must not have any."""
        if line.children:
            self.diagnostics.error(
                "wrong_nesting",
                f"nothing can be nested below {what}",
                line.children[0].head,
                hint="Indent it like the line above, or remove it",
            )

    def name(self, cursor: Cursor, what: str) -> Raw | None:
        """Take a name, or note that it is missing."""
        name = cursor.word()
        if name is None:
            hint = "A name consists of letters, digits and underscores, and begins with a letter"
            self.note_expected(cursor, f"the name of {what}", hint=hint)
        return name

    def config(self, line: Line, level: Level | None = None) -> Config | None:
        """Read `key: expression`; with a level, any other line is an unknown keyword there."""
        cursor = Cursor(line)
        key = cursor.word()
        if key is None or not cursor.mark(":"):
            if key is not None and level is not None and level.find(key.text):
                note_missing_colon(self.diagnostics, key.text, key.span.start)
            elif level is not None:
                self.note_unknown(line, level)
            else:
                self.note_expected(Cursor(line), "`name: value`")
            return None
        value = cursor.expression()
        if value is None:
            self.diagnostics.error(
                "missing", f"the value of `{key.text}` is missing", line.head, hint=f"Write it as `{key.text}: …`"
            )
            return None
        return Config(key=key, value=value, span=line.span.to(value.span))

    def configs(self, lines: Iterable[Line], level: Level | None = None) -> tuple[Config, ...]:
        """Read lines of `key: expression`, each key once."""
        found: dict[str, Config] = {}
        for line in lines:
            config = self.config(line, level)
            if config is not None:
                self.add(found, config.key, config)
        return tuple(found.values())

    def add(self, found: dict[str, T], name: Raw, value: T, what: str = "") -> None:
        """Add a value under its name, or note that `what` of this name is declared already."""
        if name.text in found:
            self.note_duplicate(name.span, f"{what} `{name.text}`".lstrip())
        else:
            found[name.text] = value


def _two_words(text: str) -> str:
    return " ".join(text.split(maxsplit=2)[:2])


_DEEPEST_TYPE = 20
_TEXTS = ("description", "label")


def read_fields(reader: Reader, lines: Iterable[Line], *, output: bool = False) -> tuple[Field, ...]:
    """Read the fields of a contract, each name once; only an output can come `from` a step."""
    found: dict[str, Field] = {}
    for line in lines:
        field = _field(reader, line, output=output)
        if field is not None:
            reader.add(found, field.name, field, "the field")
    return tuple(found.values())


def _field(reader: Reader, line: Line, *, output: bool) -> Field | None:
    cursor = Cursor(line)
    name = reader.name(cursor, "a field")
    if name is None:
        return None
    if not cursor.takes("as"):
        reader.note_expected(cursor, f"`as` and a type after `{name.text}`", hint=f"Write it as `{name.text} as text`")
        return None
    type_ = _type(reader, cursor)
    if type_ is None:
        return None
    reader.refuse_below(line, "a field")
    given = _modifiers(reader, cursor, output=output)
    if given.pop("respelled", False):
        reader.spell(line, _with_is(line, type_))
    return Field(name=name, type=type_, span=line.span, **given)


def _with_is(line: Line, type_: Type) -> str:
    """Return a field's line with `is required` for a bare `required` after the type."""
    end = type_.span.end - line.span.start
    rest = line.text[end:].lstrip(" ,")
    return f"{line.text[:end]}, is {rest}" if rest.startswith("required") else line.text


def _type(reader: Reader, cursor: Cursor, depth: int = 0) -> Type | None:
    word = cursor.word()
    if word is None or depth > _DEEPEST_TYPE:
        reader.note_expected(cursor, "a type", hint=f"One of {', '.join(TYPES.names)}")
        return None
    item: Type | None = None
    choices: tuple[Raw, ...] = ()
    shape: Raw | None = None
    if word.text == "list" and cursor.takes("of"):
        item = _type(reader, cursor, depth + 1)
    elif word.text == "list" and cursor.mark("("):
        item = _type(reader, cursor, depth + 1)
        _close(reader, cursor)
    elif word.text == "enum":
        choices = _choices(reader, cursor)
    elif word.text in ("object", "map"):
        shape = cursor.brackets("{")
    end = cursor.line.part(max(cursor.at - 1, 0), cursor.at).span.end
    return Type(name=word.text, item=item, choices=choices, shape=shape, span=Span(word.span.start, end))


def _choices(reader: Reader, cursor: Cursor) -> tuple[Raw, ...]:
    if not cursor.mark("("):
        reader.note_expected(cursor, "the choices of `enum` in brackets", hint='Write it as `enum("a", "b")`')
        return ()
    found: list[Raw] = []
    while True:
        choice = cursor.string()
        if choice is None:
            reader.note_expected(cursor, "a choice in quotes", hint='Write it as `enum("a", "b")`')
            cursor.until_comma()
            return tuple(found)
        found.append(choice)
        if not cursor.mark(","):
            _close(reader, cursor)
            return tuple(found)


def _close(reader: Reader, cursor: Cursor) -> None:
    if not cursor.mark(")"):
        reader.note_expected(cursor, "`)`")
        cursor.until_comma()


def _modifiers(reader: Reader, cursor: Cursor, *, output: bool) -> dict[str, Any]:
    """Read what follows the type, as arguments of a field; after an error continue behind the next comma."""
    given: dict[str, Any] = {}
    constraints: dict[str, Config] = {}
    first = True
    while not cursor.ended:
        comma = cursor.mark(",")
        if not (comma or first):
            reader.note_expected(cursor, "a comma")
            cursor.until_comma()
            continue
        bare = cursor.takes("required")
        if bare or cursor.takes("is required"):
            # The formatter can add the word only directly after the type.
            given["respelled"] = given.get("respelled", False) or (bare and first)
            given["required"] = True
        else:
            _modifier(reader, cursor, given, constraints, output=output)
        first = False
    return given | {"constraints": tuple(constraints.values())}


def _modifier(
    reader: Reader, cursor: Cursor, given: dict[str, Any], constraints: dict[str, Config], *, output: bool
) -> None:
    rest = cursor.rest
    word = cursor.word()
    if word is None or MODIFIERS.find(word.text) is None:
        # `is requird` is one modifier of two words.
        second = cursor.word() if word is not None and word.text == "is" else None
        shown = word or rest
        if word is not None and second is not None:
            shown = Raw(f"{word.text} {second.text}", span=word.span.to(second.span))
        hint = reader.hints.did_you_mean(shown.text, MODIFIERS.names, otherwise=f"One of {', '.join(MODIFIERS.names)}")
        message = f"{quote(shown.text, longest=40) if shown.text else 'nothing'} is not a modifier of a field"
        reader.diagnostics.error("unknown_modifier", message, shown.span, hint=hint)
        cursor.until_comma()
        return
    if word.text in given or word.text in constraints:
        reader.note_duplicate(word.span, f"`{word.text}`")
    if word.text == "from":
        _source(reader, cursor, given, word, output=output)
    elif word.text in _TEXTS:
        cursor.mark(":")
        text = cursor.string()
        if text is None:
            reader.note_expected(cursor, f"the {word.text} in quotes")
            cursor.until_comma()
        given.setdefault(word.text, text)
    else:
        _value(reader, cursor, given, constraints, word)


def _source(reader: Reader, cursor: Cursor, given: dict[str, Any], word: Raw, *, output: bool) -> None:
    path = cursor.dotted_name()
    if path is None:
        reader.note_expected(cursor, "the step that the output comes from")
        cursor.until_comma()
    elif not output:
        message = "only an output can come `from` a step"
        reader.diagnostics.error("unexpected", message, word.span.to(path.span), hint="Use it in `responds with`")
    else:
        given.setdefault("source", path)


def _value(reader: Reader, cursor: Cursor, given: dict[str, Any], constraints: dict[str, Config], word: Raw) -> None:
    colon = cursor.mark(":")
    if not colon and word.text != "default":
        note_missing_colon(reader.diagnostics, word.text, word.span.start)
    value = cursor.until_comma()
    if value is None:
        reader.note_expected(cursor, f"the value of `{word.text}`")
    elif word.text == "default":
        given.setdefault("default", value)
    else:
        constraints.setdefault(word.text, Config(key=word, value=value, span=word.span.to(value.span)))
