r"""Parser of ABL templates.

`{{x}}`, `{{a.b}}`, `{{UPPER(name)}}`, `{{add @index 1}}` show a value; `{{#if …}}`, `{{else if …}}`, `{{else}}`,
`{{/if}}`, `{{#each …}}` and `{{/each}}` are blocks; `{{! …}}` is a comment. A block tag or comment alone on its line
takes the line with it. `\{{` is two braces. Nothing is escaped for HTML.
"""

from __future__ import annotations

import re

import msgspec

from memoranda.abl.expression.parser import Place, parse_stretch
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.expression.nodes import Constant, Node
from memoranda.lang.source import Excerpt, Span
from memoranda.lang.template import Choice, Loop, Template
from memoranda.model.text import quote

_BLOCKS = ("if", "each")
_MARK = re.compile(r"""["'{}]""")
_QUOTED = {quote: re.compile(rf"{quote}(?:[^{quote}\\\n]|\\.)*+") for quote in "\"'"}
"""A quoted text without its closing quote."""
_LINE_START = re.compile(r"[ \t]*")
_LINE_END = re.compile(r"[ \t]*(?:\r?\n|\Z)")


class _Tag(msgspec.Struct, frozen=True):
    start: int
    end: int
    """The end of the whole tag; `start` is its beginning."""
    inner: int
    outer: int
    """The range of its content, without braces and surrounding space."""


class _Block(msgspec.Struct):
    """A block that is not closed yet."""

    kind: str
    tag: _Tag
    test: Node | None
    parts: list[Node]
    before: list[Node]
    """The parts before `{{else}}`."""
    halved: bool = False
    chained: bool = False
    """Whether it was opened by `{{else if}}`, and is closed with the block around it."""


def parse_template(text: Excerpt, place: Place) -> Template | None:
    """Parse a template; None, with diagnostics, if it has errors."""
    limit = place.bounds.template
    if len(text.text) > limit:
        place.diagnostics.error(
            "too_long", f"the template has {len(text.text):,} characters, the limit is {limit:,}", text.locate(0, 1)
        )
        return None
    return _TemplateParser(text, place).whole()


class _Stop(Exception):
    """Parsing cannot go on; the diagnostic exists already."""


class _TemplateParser:
    def __init__(self, text: Excerpt, place: Place) -> None:
        self._text = text
        self._place = place
        self._open: list[_Block] = [_Block("", _Tag(0, 0, 0, 0), None, [], [])]
        self._sound = True
        self._trimmed = False

    def whole(self) -> Template | None:
        try:
            self._read()
        except _Stop:
            return None
        for block in self._open[1:]:
            if not block.chained:
                self._note_unclosed(block)
        if not self._sound:
            return None
        end = len(self._text.text)
        return Template(self._text.locate(0, end), tuple(self._open[0].parts), self._trimmed)

    def _read(self) -> None:
        content = self._text.text
        done = 0
        while (start := content.find("{{", done)) >= 0:
            if start > done and content[start - 1] == "\\":
                self._add_text(done, start - 1)
                self._add_text(start, start + 2)
                done = start + 2
                continue
            tag = self._find_end(start)
            if tag is None:
                hint = "Write `}}`, or `\\{{` for two braces"
                self._fail("unclosed_tag", "`{{` is not closed", start, start + 2, hint)
                return
            done = self._tag(tag, done)
        self._add_text(done, len(content))

    # Tags

    def _find_end(self, start: int) -> _Tag | None:
        content, depth = self._text.text, 0
        place, unclosed = start + 2, {"'": 0, '"': 0}
        while found := _MARK.search(content, place):
            mark, at, place = found[0], found.start(), found.end()
            if mark in _QUOTED:
                # If a quote has no end, the quotes that it ran over have none either.
                if at >= unclosed[mark]:
                    quoted = _QUOTED[mark].match(content, at)
                    assert quoted is not None
                    closed = content.startswith(mark, quoted.end())
                    place = quoted.end() + 1 if closed else place
                    unclosed[mark] = 0 if closed else quoted.end()
            elif mark == "{":
                depth += 1
            elif depth:
                depth -= 1
            elif content.startswith("}}", at):
                return self._trim_braces(start, at)
        return None

    def _trim_braces(self, start: int, end: int) -> _Tag:
        inner, outer = start + 2, end
        if self._text.text[inner] == "{" and self._text.text[outer - 1] == "}" and outer - inner > 1:
            # Others write `{{{x}}}` for an unescaped value; here nothing is escaped.
            inner, outer = inner + 1, outer - 1
        whole = self._text.text[inner:outer]
        return _Tag(start, end + 2, inner + len(whole) - len(whole.lstrip()), inner + len(whole.rstrip()))

    def _tag(self, tag: _Tag, done: int) -> int:
        """Add the text before a tag and the tag; return the offset after it."""
        content = self._text.text[tag.inner : tag.outer]
        is_else = content == "else" or content.startswith(("else ", "else\t", "else\n"))
        if not (is_else or content.startswith(("#", "/", "!"))):
            self._add_text(done, tag.start)
            self._show(tag)
            return tag.end
        before, after = self._around_tag(tag)
        self._add_text(done, before)
        if is_else:
            self._otherwise(tag, content)
        elif content.startswith("#"):
            self._begin(tag, content)
        elif content.startswith("/"):
            self._close(tag, content[1:].strip())
        return after

    def _around_tag(self, tag: _Tag) -> tuple[int, int]:
        """Return the end of the text before a tag and the start of the text after it.

        A tag that is alone on its line takes the line with it.
        """
        content = self._text.text
        line = content.rfind("\n", 0, tag.start) + 1
        found = _LINE_END.match(content, tag.end)
        if found is None or _LINE_START.fullmatch(content, line, tag.start) is None:
            return tag.start, tag.end
        if found.end() == len(content) and not content.endswith("\n"):
            self._trimmed = True
        return line, found.end()

    def _show(self, tag: _Tag) -> None:
        if tag.inner >= tag.outer:
            self._fail("empty_tag", "there is nothing between the braces", tag.start, tag.end, "Name a value")
            return
        node = parse_stretch(self._text, tag.inner, tag.outer, self._here, tag=True)
        self._sound = self._sound and node is not None
        if node is not None:
            self._open[-1].parts.append(node)

    # Blocks

    def _begin(self, tag: _Tag, content: str) -> None:
        kind, _, _ = content[1:].lstrip().replace("\n", " ").partition(" ")
        if kind not in _BLOCKS:
            hint = did_you_mean(kind, _BLOCKS, otherwise="Blocks are #if and #each")
            self._fail("unknown_block", f"{quote('#' + kind)} is not a block", tag.inner, tag.outer, hint)
            return
        start = self._text.text.index(kind, tag.inner) + len(kind)
        self._open_block(kind, tag, start)

    def _open_block(self, kind: str, tag: _Tag, start: int, *, chained: bool = False) -> None:
        if len(self._open) > self._place.bounds.blocks:
            limit = self._place.bounds.blocks
            self._fail("too_deep", f"blocks are nested more than {limit} levels deep", tag.start, tag.end)
            raise _Stop
        test = parse_stretch(self._text, start, tag.outer, self._here)
        self._sound = self._sound and test is not None
        self._open.append(_Block(kind, tag, test, [], [], chained=chained))

    def _otherwise(self, tag: _Tag, content: str) -> None:
        block = self._open[-1]
        if not block.kind or block.halved:
            self._fail("stray_else", "`{{else}}` is outside a block, or twice in one", tag.start, tag.end)
            return
        block.halved, block.before, block.parts = True, block.parts, []
        rest = content[4:].lstrip()
        if rest.startswith("if") and rest[2:3].isspace():
            self._open_block("if", tag, tag.outer - len(rest) + 2, chained=True)
        elif rest:
            self._fail("unexpected_token", f"{quote(rest)} follows `else`", tag.inner, tag.outer, "Only `if` may")

    def _close(self, tag: _Tag, kind: str) -> None:
        while self._open[-1].chained:
            self._finish(tag)
        block = self._open[-1]
        if not block.kind:
            hint = "Remove it, or open the block before"
            self._fail("stray_close", f"{quote('/' + kind)} closes nothing", tag.inner, tag.outer, hint)
            return
        if block.kind != kind and not any(around.kind == kind for around in self._open):
            hint = f"Write `{{{{/{block.kind}}}}}`: the block that is open is #{block.kind}"
            self._fail("wrong_close", f"{quote('/' + kind)} does not close it", tag.inner, tag.outer, hint)
        elif block.kind != kind:
            # This closes an outer block, so the inner ones were not closed.
            while self._open[-1].kind != kind:
                self._note_unclosed(self._open.pop())
        self._finish(tag)

    def _note_unclosed(self, block: _Block) -> None:
        hint = f"Write `{{{{/{block.kind}}}}}` where it ends"
        self._fail("unclosed_block", f"`#{block.kind}` is not closed", block.tag.start, block.tag.end, hint)

    def _finish(self, tag: _Tag) -> None:
        block = self._open.pop()
        first, second = (block.before, block.parts) if block.halved else (block.parts, [])
        span = self._text.locate(block.tag.start, tag.end)
        if block.test is None:
            return
        node_of = Choice if block.kind == "if" else Loop
        self._open[-1].parts.append(node_of(span, block.test, self._part(first, span), self._part(second, span)))

    def _part(self, parts: list[Node], span: Span) -> Template:
        return Template(span, tuple(parts))

    # Text, places and faults

    @property
    def _here(self) -> Place:
        looping = any(block.kind == "each" for block in self._open)
        return self._place.looping() if looping else self._place

    def _add_text(self, start: int, end: int) -> None:
        if end > start:
            self._open[-1].parts.append(Constant(self._text.locate(start, end), self._text.text[start:end]))

    def _fail(self, code: str, message: str, start: int, end: int, hint: str = "") -> None:
        self._sound = False
        self._place.diagnostics.error(code, message, self._text.locate(start, end), hint=hint)
