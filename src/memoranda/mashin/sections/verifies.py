"""The lines of `verifies` in, tests out."""

from __future__ import annotations

from memoranda.mashin.document import Assumption, Mapping, Test
from memoranda.mashin.keywords import TEST
from memoranda.mashin.lines import Line
from memoranda.mashin.reader import Cursor, Reader


def read_tests(reader: Reader, line: Line) -> tuple[Test, ...]:
    """Read all tests of the section, each name once."""
    found: dict[str, Test] = {}
    for child in line.children:
        test = _test(reader, child)
        if test is None:
            continue
        if test.name.text in found:
            reader.doubled(test.name.span, f'the test "{test.name.text}"')
        else:
            found[test.name.text] = test
    return tuple(found.values())


def _test(reader: Reader, line: Line) -> Test | None:
    cursor = Cursor(line)
    if not cursor.takes("test"):
        reader.expected(cursor, "`test` and its name in quotes", hint='Write it as `test "what it shows"`')
        return None
    name = cursor.string()
    if name is None:
        reader.expected(cursor, "the name of the test in quotes", hint='Write it as `test "what it shows"`')
        return None
    reader.ended(cursor, "the name of a test")
    given: dict[str, Mapping] = {}
    assuming: list[Assumption] = []
    for child in line.children:
        _part(reader, child, given, assuming)
    for keyword in TEST.required:
        if keyword.name not in given:
            hint = f"{keyword.meaning}: add `{keyword.name} {{ … }}`"
            reader.said.error("missing", f"`{keyword.name}` is missing in the test", line.head, hint=hint)
    return Test(
        name=name, given=given.get("given"), assuming=tuple(assuming), expect=given.get("expect"), span=line.span
    )


def _part(reader: Reader, line: Line, given: dict[str, Mapping], assuming: list[Assumption]) -> None:
    cursor = Cursor(line)
    word = next((keyword.name for keyword in TEST.keywords if cursor.takes(keyword.name)), None)
    if word is None:
        reader.unknown(line, TEST)
        return
    step = reader.name(cursor, "the step that is assumed") if word == "assuming" else None
    if word == "assuming" and step is None:
        return
    mapping = _mapping(reader, line, cursor)
    if mapping is None:
        return
    if step is not None:
        if any(one.step == step for one in assuming):
            reader.doubled(step.span, f"`assuming {step.text}`")
        assuming.append(Assumption(step=step, gives=mapping, span=line.span))
    elif word in given:
        reader.doubled(line.head, f"`{word}`")
    else:
        given[word] = mapping


def _mapping(reader: Reader, line: Line, cursor: Cursor) -> Mapping | None:
    cursor.mark(":")
    below = bool(line.children) and not line.children[0].text.startswith("{")
    if cursor.ended and below:
        entries = reader.configs(line.children)
        return Mapping(entries=entries, span=line.span)
    value = cursor.expression()
    if value is None:
        reader.expected(cursor, "a map", hint="Write it as `{ name: value }`, or one `name: value` a line below")
        return None
    return Mapping(value=value, span=value.span)
