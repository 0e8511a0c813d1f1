"""Lines in; texts, lists and mappings out, in every form in which people write them."""

from __future__ import annotations

from msgspec.structs import replace

from memoranda.abl.document import Argument
from memoranda.abl.keywords import Keyword
from memoranda.abl.tree import Line, Raw, Value
from memoranda.abl.values import inline_object, listed, part, split, unquote, unquoted, verbatim


def expanded(line: Line, keyword: Keyword) -> Line:
    """Return a line whose `{…}` or `[…]` stands below it as lines, where lines are expected there."""
    if line.value is None or line.children:
        return line
    if keyword.kind == "list" and line.value.text.startswith("["):
        children = tuple(_as_line(element, dash=True) for element in _pieces(verbatim(line.value)))
    elif keyword.kind == "block" and line.value.text.startswith("{"):
        children = _as_lines(verbatim(line.value))
    else:
        return line
    return replace(line, value=None, children=children) if children else line


def spread(line: Line) -> Line:
    """Return an item `- {a: x, b: y}` as an item with these entries."""
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
    return tuple(_as_line(value, name=name) for name, value in inline_object(raw) or ())


def _as_line(raw: Raw, *, name: Raw | None = None, dash: bool = False) -> Line:
    if name is None:
        return Line(raw.text, dash=dash, key_span=raw.span, span=raw.span)
    quoted = unquote(raw) is not raw
    value = Value(raw.text, "quoted" if quoted else "plain", raw.runs, span=raw.span)
    return Line(raw.text, key=name.text, key_span=name.span, value=value, span=name.span.to(raw.span))


def text_of(line: Line) -> Raw | None:
    """Return the text of a line: its value without quotes, or bare lines below it; None when there is neither."""
    if line.value is not None:
        return unquoted(line.value)
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
    """Return the whole text of a list item, even if it holds a colon."""
    if line.value is not None and line.value.style == "block":
        return unquoted(line.value)
    if line.key is None:
        return unquote(line.raw)
    # The room around the colon is layout; the words on both sides are not.
    written = line.text[: line.key_span.end - line.key_span.start].rstrip()
    if line.value is None:
        return Raw(f"{written}:", runs=((0, line.span.start),), span=line.span)
    runs = ((0, line.span.start), (len(written) + 2, line.value.span.start))
    return Raw(f"{written}: {line.value.text}", runs=runs, span=line.span)


def elements(line: Line) -> list[Raw]:
    """Return the names or texts of a line: `[a, b]`, `a, b`, or one item a line."""
    if line.value is not None:
        return listed(verbatim(line.value))
    return [item_text(child) for child in line.children if child.dash or child.key is None]


def texts(line: Line) -> list[Raw]:
    """Return the texts of a line: one, or one item a line, or `["a", "b"]`."""
    if line.value is not None:
        inline = line.value.style == "plain" and line.value.text.startswith("[")
        return listed(verbatim(line.value)) if inline else [unquoted(line.value)]
    return [item_text(child) for child in line.children]


def mapping(line: Line) -> list[Argument]:
    """Return the pairs of a line: `{a: x, b}`, `name: value` lines below it, or `name = value` lines."""
    if line.value is not None:
        pairs = inline_object(verbatim(line.value)) or []
        return [Argument(name, value, span=name.span.to(value.span)) for name, value in pairs]
    return [_pair(child) for child in line.children]


def _pair(line: Line) -> Argument:
    given = {(entry.key or "").casefold(): entry for entry in line.entries} if line.dash else {}
    if "key" in given and "value" in given:
        # A list of key and value is written where a name may come twice.
        return Argument(_written(given["key"]), _written(given["value"]), span=line.span)
    if line.key is None:
        return Argument(line.raw, line.raw, span=line.span)
    return Argument(line.name, _written(line), span=line.span)


def _written(line: Line) -> Raw:
    """Return the value of a line as an expression: what was written, or `{…}` and `[…]` for lines below it."""
    if line.value is not None:
        return verbatim(line.value)
    parts = [child.text if child.key is None else f"{child.key}: {_written(child).text}" for child in line.body]
    inner = ", ".join(parts)
    if any(child.dash and child.key is None for child in line.body):
        return Raw(f"[{inner}]", runs=((0, line.span.start),), span=line.span)
    return Raw(f"{{{inner}}}" if parts else "null", runs=((0, line.span.start),), span=line.span)
