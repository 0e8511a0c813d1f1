"""The pages about ABL are true: samples check, tables hold every word of the language and no other.

A block marked `abl` is a whole agent or a part of one; it is checked, and nothing may be wrong with it. A comment such
as `<!-- words: step + actions -->` says what the table below it lists: the words of a level, together with those of
groups that several levels share. Words that are accepted but ignored are in one table for all levels.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

import memoranda
from memoranda.abl.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.abl.checker import memory as recall
from memoranda.abl.expression.functions import FUNCTIONS
from memoranda.abl.keywords import LEVELS, Keyword
from memoranda.abl.runtime import constraints as rules
from memoranda.abl.runtime import flow as failures
from memoranda.abl.runtime.state import Status
from memoranda.abl.runtime.trace import EVENTS, Kind
from memoranda.abl.understanding import validation
from memoranda.abl.variables import SYSTEM
from memoranda.lang import diagnostics as faults_of_all
from memoranda.lang import grammar as layout
from memoranda.lang import scripts as reader
from memoranda.lang import yaml as unreadable

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/memoranda/abl"
REFERENCE = ROOT / "docs/languages/abl.md"
TUTORIAL = ROOT / "docs/languages/abl-tutorial.md"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

FORMS = {
    "text": "text",
    "texts": "texts",
    "template": "template",
    "condition": "condition",
    "expression": "expression",
    "name": "name",
    "names": "names",
    "path": "path",
    "integer": "integer",
    "boolean": "boolean",
    "type": "type",
    "mapping": "map",
    "target": "target",
    "block": "block",
    "list": "list",
}
"""What the tables call the kinds of values; where any value is allowed, they describe it in words."""


def _mechanism() -> ModuleType:
    """Return the test that runs the samples of all pages; it finds the blocks here too."""
    if "memoranda_docs" not in sys.modules:
        spec = importlib.util.spec_from_file_location("memoranda_docs", Path(__file__).with_name("test_docs.py"))
        assert spec and spec.loader
        sys.modules["memoranda_docs"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["memoranda_docs"]


# samples


def samples(page: Path) -> list[tuple[str, int]]:
    return [(block.text, block.line) for block in _mechanism().blocks(_text(page)) if block.mark == "abl"]


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def faults(text: str) -> list[str]:
    """Return what is wrong with a sample: a whole agent, or any part of one; one with a flow is made whole."""
    whole = re.search(r"^(AGENT|SUPERVISOR):", text, re.MULTILINE) is not None
    if not whole and re.search(r"^FLOW:", text, re.MULTILINE):
        text, whole = f"AGENT: Sample\nGOAL: Show\n{text}", True
    found = memoranda.abl.check(text, fragment=not whole)
    return [f"{one.severity}[{one.code}]: {one.message}" for one in found if one.severity != "note"]


@pytest.mark.parametrize("page", [page for page in PAGES if samples(page)], ids=lambda page: page.name)
def test_nothing_is_wrong_with_any_sample_in_abl(page: Path) -> None:
    found = {f"{page.name}:{line}": wrong for text, line in samples(page) if (wrong := faults(text))}
    assert not found


def test_nothing_is_wrong_with_the_sample_in_yaml(tmp_path: Path) -> None:
    found = [block.text for block in _mechanism().blocks(_text(REFERENCE)) if block.mark == "yaml"]
    assert len(found) == 1
    file = tmp_path / "sample.agent.yaml"
    file.write_text(found[0], encoding="utf-8")
    assert memoranda.abl.check(file) == ()
    assert memoranda.abl.parse(file).name is not None


def test_a_wrong_sample_is_found() -> None:
    assert faults("AGENT: A\nGOAL: g\nFLOW:\n  a:\n    REASONING: false\n    THEN: b\n")
    assert faults("FLOW:\n  a:\n    REASONING: false\n    THEN: b\n")
    assert faults("MEMORY:\n  remember:\n    - WHEN: x IS SETT\n      STORE: x -> user.x\n")
    assert faults("TRANSFORM:\n  SOURSE: a AS b\n")
    assert not faults("AGENT: A\nGOAL: g\nFLOW:\n  a:\n    REASONING: false\n    THEN: COMPLETE\n")
    assert not faults("SET: a = 1\nTHEN: elsewhere\n")


def test_every_section_of_the_language_has_a_sample() -> None:
    shown = "\n".join(text for text, _ in samples(REFERENCE))
    sections = [word.name for word in LEVELS["document"].keywords if word.acted_on and word.kind in ("block", "list")]
    assert "MEMORY" in sections and "HANDOFF" in sections
    assert [section for section in sections if f"\n{section}:" not in f"\n{shown}"] == []


# tables


class Row(NamedTuple):
    """A row of a table: its cells, without the marks of code around words."""

    cells: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The code spans of the first cell."""
        return tuple(re.findall(r"`([^`]+)`", self.cells[0]))


class Table(NamedTuple):
    """What a comment says that a table lists, its rows, and the words behind it that are kept, in other languages."""

    about: str
    rows: tuple[Row, ...]
    kept: tuple[str, ...]


_MARK = re.compile(r"^<!-- (?P<about>[^>]+) -->$")
_KEPT = "Accepted but ignored:"


def tables(text: str) -> dict[str, Table]:
    """Return the tables of a page that follow a comment, by the text of the comment."""
    parts = re.split(r"^(?=<!-- |#{2,3} )", text, flags=re.MULTILINE)
    found: dict[str, Table] = {}
    for part in parts:
        first, _, rest = part.partition("\n")
        if mark := _MARK.match(first):
            about = mark["about"].strip()
            assert about not in found, f"two tables are about {about}"
            found[about] = Table(about, tuple(_rows(rest)), tuple(_kept(rest)))
    return found


def _rows(text: str) -> Iterator[Row]:
    lines = text.splitlines()
    for line in lines[2:] if lines and lines[0].startswith("| ") else ():
        if not line.startswith("|"):
            return
        # A bar inside a cell is escaped.
        cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        yield Row(tuple(cell.strip() for cell in cells))


def _kept(text: str) -> Iterator[str]:
    _, found, rest = text.partition(_KEPT)
    # The list ends with its full stop; what follows is not part of it.
    listed = re.match(r"(?:[\s,]*`[^`]+`)+", rest) if found else None
    yield from re.findall(r"`([^`]+)`", listed[0]) if listed else ()


class Listed(NamedTuple):
    """One word as the page has it."""

    names: tuple[str, ...]
    form: str
    acted_on: bool


def listed(table: Table) -> list[Listed]:
    return [Listed(row.words, row.cells[1], True) for row in table.rows]


def without_effect(text: str) -> dict[str, list[Listed]]:
    """Return the words of each level that are read and not acted on."""
    words: dict[str, list[Listed]] = {}
    for level, names, _ in (row.cells for row in tables(text)["without effect"].rows):
        words.setdefault(level, []).extend(Listed((word,), "", False) for word in re.findall(r"`([^`]+)`", names))
    return words


def levels_of(text: str) -> dict[str, list[Listed]]:
    """Return the words that the page has for each level, those of the groups it shares included."""
    found = {about.removeprefix("words: "): table for about, table in tables(text).items() if about.startswith("words")}
    alone = {about: listed(table) for about, table in found.items() if "+" not in about}
    inert = without_effect(text)
    words: dict[str, list[Listed]] = {}
    for about, table in found.items():
        level, *groups = (part.strip() for part in about.split("+"))
        if level in LEVELS:
            shared = (word for group in groups for word in alone[group])
            words[level] = [*listed(table), *shared, *inert.get(level, ())]
    return words


def form_of(keyword: Keyword) -> str | None:
    """Return what the page has to say about the value of a word; None where that is said in words of its own."""
    if not keyword.acted_on:
        return ""
    if keyword.kind == "choice":
        return "one of " + ", ".join(f"`{choice}`" for choice in keyword.choices)
    form = FORMS.get(keyword.kind)
    return f"{form}, required" if form and keyword.required else form


WORDS = levels_of(_text(REFERENCE))


@pytest.mark.parametrize("level", LEVELS)
def test_the_reference_has_every_word_of_a_level_and_no_other(level: str) -> None:
    assert level in WORDS, f"there is no table for {level}"
    documented = sorted((word.names[0], tuple(sorted(word.names[1:])), word.acted_on) for word in WORDS[level])
    known = sorted((word.name, tuple(sorted(word.aliases)), word.acted_on) for word in LEVELS[level].keywords)
    assert documented == known


@pytest.mark.parametrize("level", LEVELS)
def test_the_reference_says_what_the_value_of_each_word_is(level: str) -> None:
    forms = {word.names[0]: word.form for word in WORDS[level]}
    wrong = {
        keyword.name: (forms[keyword.name], form)
        for keyword in LEVELS[level].keywords
        if (form := form_of(keyword)) is not None and forms[keyword.name] != form
    }
    assert not wrong
    silent = [word for word in LEVELS[level].keywords if word.kind == "anything" and word.acted_on]
    assert all(forms[keyword.name] for keyword in silent)


def test_a_table_that_lacks_a_word_or_invents_one_is_found() -> None:
    text = _text(REFERENCE)
    assert "| `TTL` | text |" in text and "| escalate | `routing`" in text
    without = levels_of(text.replace("| `TTL` | text |", "| `TLT` | text |"))["remember"]
    assert [word.names[0] for word in without] == ["WHEN", "STORE", "TLT"]
    kept = levels_of(text.replace("| escalate | `routing`", "| escalate | `OTHER`"))["escalate"]
    assert [word.names[0] for word in kept if not word.acted_on][:2] == ["OTHER", "on_human_complete"]


def test_every_table_of_words_is_about_a_level_or_belongs_to_one() -> None:
    named = [about.removeprefix("words: ") for about in tables(_text(REFERENCE)) if about.startswith("words")]
    groups = {part.strip() for about in named for part in about.split("+")[1:]}
    assert groups
    assert {about.split("+")[0].strip() for about in named} == {*LEVELS, *groups}


def rows_of(about: str) -> tuple[Row, ...]:
    found = tables(_text(REFERENCE))[about].rows
    assert found, f"there is no table below <!-- {about} -->"
    return found


def first_words(about: str) -> list[str]:
    return sorted(word for row in rows_of(about) for word in row.words)


def test_the_reference_has_every_function_with_its_arguments_and_no_other() -> None:
    documented: dict[str, tuple[int, int | None]] = {}
    for row in rows_of("functions"):
        name, _, arguments = row.words[0].removesuffix(")").partition("(")
        given = [argument.strip() for argument in re.split(r",(?![\"'])", arguments) if argument.strip()]
        needed = sum("=" not in argument and argument != "…" for argument in given)
        documented[name] = (needed, None if "…" in given else len(given))
    assert documented == {name: (function.least, function.most) for name, function in FUNCTIONS.items()}
    assert len(documented) == 38


def test_the_reference_has_every_choice_of_behaviour_with_its_default_and_no_other() -> None:
    documented = [(row.words[0], row.cells[1].strip("`")) for row in rows_of("behaviour")]
    fields = [field.name for field in msgspec.structs.fields(Behaviour)]
    defaults = {name: repr(getattr(DEFAULT_BEHAVIOUR, name)) for name in fields}
    assert DEFAULT_BEHAVIOUR.sleep is time.sleep
    defaults |= {"sleep": "time.sleep", "recording": "Recording()"}
    assert documented == list(defaults.items())


def test_the_reference_has_every_event_of_recall_and_no_other() -> None:
    forms: tuple[str, ...] = recall._FORMS  # pyright: ignore[reportPrivateUsage]
    assert first_words("events") == sorted(forms)


def test_the_reference_has_every_rule_about_the_value_of_a_field() -> None:
    known: dict[str, Any] = validation._RULES  # pyright: ignore[reportPrivateUsage]
    # `range` is compiled to `min` and `max`.
    documented = [word for word in first_words("validate") if word not in ("message", "range")]
    assert len(documented) == len(first_words("validate")) - 2
    # Several names may mean the same rule; one of them is enough here.
    assert {known[name] for name in documented} == set(known.values())


def test_the_reference_has_every_status_of_a_turn_and_no_other() -> None:
    assert first_words("statuses") == sorted(get_args(Status))


def test_the_reference_has_every_name_that_the_runtime_gives_and_no_other() -> None:
    # A row that explains a name may mention others in its second cell only.
    assert first_words("system names") == sorted(SYSTEM)


def test_the_reference_has_every_kind_of_happening_and_says_which_are_events() -> None:
    documented = {word: row.cells[2] == "yes" for row in rows_of("trace") for word in row.words}
    assert documented == {kind: kind in EVENTS for kind in get_args(Kind)}


COLLECTORS = ("diagnostics", "notes", "said", "reader", "self")
"""What the code calls the objects that collect diagnostics."""


def diagnostic_codes() -> dict[str, set[str]]:
    """Return the codes that the readers and checkers of ABL use, with their severities."""
    found: dict[str, set[str]] = {}
    # What every language that nests by indentation says of its layout, ABL says too; and what all files of tests say.
    shared = [Path(str(one.__file__)) for one in (layout, faults_of_all, unreadable, reader)]
    for path in (*SOURCE.rglob("*.py"), *shared):
        # What a turn notes is a trace, not a diagnostic.
        if "runtime" in path.parts:
            continue
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            severity = _severity(call, path)
            if severity and isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                found.setdefault(str(call.args[0].value), set()).add(severity)
    return found


def _severity(node: ast.AST, path: Path) -> str | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    owner: Any = node.func.value
    collects = getattr(owner, "attr", getattr(owner, "id", "")).strip("_") in COLLECTORS
    if collects and node.func.attr in ("error", "warning", "note"):
        return node.func.attr
    return "error" if node.func.attr in ("_note", "_fail") and "expression" in path.parts else None


def test_the_reference_has_every_code_of_a_diagnostic_and_no_other() -> None:
    documented = {row.words[0]: {part.strip() for part in row.cells[1].split(",")} for row in rows_of("diagnostics")}
    known = diagnostic_codes()
    assert known["unknown_step"] == {"error"} and known["unreachable"] == {"warning"}
    assert sorted(documented) == sorted(known)
    assert {code: documented[code] for code in known if not documented[code] >= known[code]} == {}


def test_the_reference_has_what_is_said_when_the_agent_says_nothing_else() -> None:
    text = " ".join(_text(REFERENCE).split())
    assert [message for message in (failures.DEFAULT_MESSAGE, rules.DEFAULT_MESSAGE) if message not in text] == []


# the tutorial


def test_the_tutorial_has_ten_steps_and_each_holds_a_conversation() -> None:
    steps = re.split(r"^## (?=\d)", _text(TUTORIAL), flags=re.MULTILINE)[1:]
    assert [step.partition(".")[0] for step in steps] == [str(number) for number in range(1, 11)]
    for step in steps:
        marks = [block.mark for block in _mechanism().blocks(step)]
        assert "python" in marks
        assert re.search(r"^(>>> |\$ memoranda |assert )", step, re.MULTILINE), step[:40]


def test_every_agent_of_the_tutorial_is_without_fault() -> None:
    agents = re.findall(r'"""(?:\\)?\n(AGENT:.*?)"""', _text(TUTORIAL), re.DOTALL)
    assert len(agents) >= 9
    assert {agent.splitlines()[0]: wrong for agent in agents if (wrong := faults(agent))} == {}
