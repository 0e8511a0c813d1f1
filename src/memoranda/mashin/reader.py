"""A line in, its words one after the other out; and a diagnostic for everything that does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memoranda.lang.diagnostics import Diagnostics, closest
from memoranda.lang.faults import note_foreign_comment, note_missing_colon
from memoranda.lang.source import Span
from memoranda.lang.tree import Raw
from memoranda.mashin.document import Config
from memoranda.mashin.keywords import Level, homes
from memoranda.mashin.lines import Line
from memoranda.mashin.scanning import closing, comma_at, decode
from memoranda.model.text import quote

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[^\W\d]\w*")
_DOTTED = re.compile(r"[^\W\d][\w\-]*(?:\.[^\W\d][\w\-]*)*")
_COMPARISONS = 3_000
"""Known words that are compared for hints in one file; a file of a thousand faults needs no more help."""


class Cursor:
    """Goes through the text of a line."""

    def __init__(self, line: Line) -> None:
        """Begin before the first word."""
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

    def dotted(self) -> Raw | None:
        """Take names with dots between them."""
        return self._match(_DOTTED)

    def takes(self, words: str) -> bool:
        """Take these words if they stand here, whatever room is between them."""
        before = self.at
        for word in words.split():
            found = self._match(_WORD)
            if found is None or found.text != word:
                self.at = before
                return False
        return True

    def mark(self, character: str) -> bool:
        """Take a punctuation mark if it stands here."""
        if self.text.startswith(character, self._skip()):
            self.at += len(character)
            return True
        return False

    def string(self) -> Raw | None:
        """Take a text in quotes, and return what it says."""
        written = self._enclosed("\"'")
        if written is None or len(written.text) < 2:
            return None
        return Raw(decode(written.text), runs=((0, written.span.start + 1),), literal=True, span=written.span)

    def brackets(self, opener: str) -> Raw | None:
        """Take everything up to the bracket that closes this one, both included."""
        return self._enclosed(opener)

    def _enclosed(self, openers: str) -> Raw | None:
        start = self._skip()
        if start >= len(self.text) or self.text[start] not in openers:
            return None
        end = closing(self.text, start)
        if end is None:
            return None
        self.at = end
        return self.line.part(start, end)

    def until_comma(self) -> Raw | None:
        """Take an expression up to the next comma outside of brackets and quotes."""
        start = self._skip()
        self.at = comma_at(self.text, start)
        text = self.text[start : self.at].rstrip()
        return self.line.part(start, start + len(text)) if text else None

    def expression(self) -> Raw | None:
        """Take the rest of the line and the lines below that it goes on over."""
        start = self._skip()
        self.at = len(self.text)
        return self.line.expression(start)

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self._skip() >= len(self.text)

    @property
    def rest(self) -> Raw:
        """What is left of the first line, for messages."""
        start = self._skip()
        end = self.text.find("\n", start)
        return self.line.part(start, len(self.text) if end < 0 else end)


class Reader:
    """Collects what is wrong, and remembers how each line is written canonically."""

    def __init__(self, said: Diagnostics) -> None:
        """Begin to read."""
        self.said = said
        self.spellings: dict[int, str] = {}
        self._left = _COMPARISONS

    def spell(self, line: Line, text: str) -> None:
        """Remember the canonical text of a line, where it is another."""
        if len(line.pieces) == 1 and text != line.text:
            self.spellings[line.span.start] = text

    def meant(self, word: str, known: Iterable[str], *, otherwise: str = "") -> str:
        """Return a hint that names the word that was probably meant, or what to say when there is none."""
        words = tuple(known)
        self._left -= len(words)
        near = closest(word, words) if self._left >= 0 else None
        return f"Did you mean `{near}`?" if near else otherwise

    def expected(self, cursor: Cursor, what: str, *, hint: str = "") -> None:
        """Say that something else was expected where the cursor stands."""
        rest = cursor.rest
        found = quote(rest.text, longest=40) if rest.text else "the end of the line"
        span = rest.span if rest.text else Span(cursor.line.head.end, cursor.line.head.end)
        self.said.error("expected", f"expected {what}, found {found}", span, hint=hint)

    def ended(self, cursor: Cursor, after: str) -> bool:
        """Say whether the line ends here; what follows is noted."""
        if cursor.ended:
            return True
        rest = cursor.rest
        message = f"{quote(rest.text, longest=40)} cannot follow {after}"
        self.said.error("unexpected", message, rest.span, hint="Remove it, or put it on a line of its own below")
        return False

    def unknown(self, line: Line, level: Level) -> None:
        """Say that a line does not begin with a word of a place, which was meant, or where the word does stand."""
        if line.text.startswith("#"):
            note_foreign_comment(self.said, "#", "//", line.head)
            return
        first = _WORD.match(line.text)
        word = first[0] if first else line.text[:40]
        elsewhere = [place for place in homes(_two_words(line.text)) or homes(word) if place != level.where]
        hint = self.meant(_two_words(line.text), level.names) or self.meant(word, level.names)
        if elsewhere and (not hint or f"`{word}`" in hint):
            hint = f"It stands {elsewhere[0]}; check the indentation"
        span = line.part(0, len(word)).span if first else line.head
        message = f"{quote(word, longest=40)} is no keyword {level.where}"
        listed = ", ".join(keyword.name for keyword in level.keywords[:12])
        self.said.error("unknown_keyword", message, span, hint=hint or f"Known {level.where}: {listed}")

    def doubled(self, span: Span, what: str) -> None:
        """Say that something is declared twice in the same place."""
        message = f"{what} is declared a second time"
        self.said.error("duplicate", message, span, hint="Keep one of them")

    def missing_below(self, line: Line, what: str) -> bool:
        """Say whether lines are missing below a line, and note it."""
        if line.children:
            return False
        self.said.error(
            "missing", f"{what} is missing below this line", line.head, hint="Indent it deeper than this line"
        )
        return True

    def nothing_below(self, line: Line, what: str) -> None:
        """Say that lines are nested below one that has all it needs."""
        if line.children:
            self.said.error(
                "wrong_nesting",
                f"nothing can be nested below {what}",
                line.children[0].head,
                hint="Indent it like the line above, or remove it",
            )

    def name(self, cursor: Cursor, what: str) -> Raw | None:
        """Take a name, or say that it is missing."""
        name = cursor.word()
        if name is None:
            hint = "A name consists of letters, digits and underscores, and begins with a letter"
            self.expected(cursor, f"the name of {what}", hint=hint)
        return name

    def config(self, line: Line, level: Level | None = None) -> Config | None:
        """Read `key: expression`; with a level, a line that is none is an unknown word of that place."""
        cursor = Cursor(line)
        key = cursor.word()
        if key is None or not cursor.mark(":"):
            if key is not None and level is not None and level.find(key.text):
                note_missing_colon(self.said, key.text, key.span.start)
            elif level is not None:
                self.unknown(line, level)
            else:
                self.expected(Cursor(line), "`name: value`")
            return None
        value = cursor.expression()
        if value is None:
            self.said.error(
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
                self.add(found, config)
        return tuple(found.values())

    def add(self, found: dict[str, Config], config: Config) -> None:
        """Put a configuration with those of the same place, unless its key is there already."""
        if config.key.text in found:
            self.doubled(config.key.span, f"`{config.key.text}`")
        else:
            found[config.key.text] = config


def _two_words(text: str) -> str:
    return " ".join(text.split(maxsplit=2)[:2])
