"""The page about mashin is true: samples check and pass their tests, tables hold every word and no other.

A block marked `mashin` is a whole machine or a part of one. Nothing may be wrong with it, and a whole one has tests
that pass. A comment such as `<!-- words: recall -->` says which level of the language the table below it lists; what
is accepted but ignored is listed after the table, behind "Accepted but ignored:".
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest

import memoranda
from memoranda.agent import conversation as conversing
from memoranda.lang import diagnostics as faults_of_all
from memoranda.lang import grammar as layout
from memoranda.lang.expression import parser as parsing
from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR, Behaviour, Budget
from memoranda.mashin.contracts import FORMATS
from memoranda.mashin.expression import parser
from memoranda.mashin.expression.functions import CONSTANTS, FUNCTIONS
from memoranda.mashin.expression.methods import METHODS
from memoranda.mashin.formatter import format_text
from memoranda.mashin.keywords import CAPABILITIES, COVERS, LEVELS, SECTIONS
from memoranda.mashin.permissions import needs_of
from memoranda.mashin.runtime import flow
from memoranda.mashin.runtime import steps as asking
from memoranda.mashin.runtime.execution import FailureType
from memoranda.model.event import RUN_EVENTS, RUN_STATUSES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/memoranda/mashin"
REFERENCE = ROOT / "docs/languages/mashin.md"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def _neighbour(name: str) -> ModuleType:
    """Return a test of this folder as a module: the one that finds blocks, or the one that reads tables."""
    known = f"memoranda_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, Path(__file__).with_name(f"{name}.py"))
        assert spec and spec.loader
        sys.modules[known] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[known]


_BLOCKS = _neighbour("test_docs")
_TABLES = _neighbour("test_abl_docs")
TEXT = REFERENCE.read_text(encoding="utf-8")


# samples


def samples(page: Path) -> list[tuple[str, int]]:
    found = _BLOCKS.blocks(page.read_text(encoding="utf-8"))
    return [(block.text, block.line) for block in found if block.mark == "mashin"]


def is_whole(text: str) -> bool:
    return re.search(r"^machine ", text, re.MULTILINE) is not None


def faults(text: str) -> list[str]:
    """Return what is wrong with a sample: a whole machine, or any part of one."""
    found = memoranda.mashin.check(text, fragment=not is_whole(text))
    return [f"{one.severity}[{one.code}]: {one.message}" for one in found if one.severity != "note"]


@pytest.mark.parametrize("page", [page for page in PAGES if samples(page)], ids=lambda page: page.name)
def test_nothing_is_wrong_with_any_sample(page: Path) -> None:
    found = {f"{page.name}:{line}": wrong for text, line in samples(page) if (wrong := faults(text))}
    assert not found


def test_a_wrong_sample_is_found() -> None:
    step = '  implements\n    recall found\n      query: "x"\n      collection: "y"\n'
    assert faults(f"machine m\n{step}")
    assert faults('recall found\n  query: "x"\n')
    assert not faults(f"machine m\n  ensures\n    permissions\n      allowed to memory\n{step}")
    assert not faults('recall found\n  query: "x"\n  collection: "y"\n')


WHOLE = [(text, line) for text, line in samples(REFERENCE) if is_whole(text)]


@pytest.mark.parametrize(("text", "line"), WHOLE, ids=[f"line {line}" for _, line in WHOLE])
def test_every_machine_has_tests_that_pass(text: str, line: int) -> None:
    with memoranda.open(":memory:") as memory:
        report = memoranda.mashin.load(text, memory=memory).test()
    assert report.cases, f"{REFERENCE.name}:{line}: the machine has no tests"
    assert [(case.name, case.failure) for case in report.cases if not case.passed] == []


@pytest.mark.parametrize(("text", "line"), WHOLE, ids=[f"line {line}" for _, line in WHOLE])
def test_every_machine_is_written_as_it_parses(text: str, line: int) -> None:
    assert memoranda.mashin.parse(format_text(text)) == memoranda.mashin.parse(text)


def test_every_kind_of_step_and_every_section_has_a_sample() -> None:
    shown = "\n".join(text for text, _ in samples(REFERENCE))
    words = [word.name for word in LEVELS["implements"].keywords if word.name != "flows"]
    words += [word.name for word in SECTIONS.keywords if word.acted_on]
    assert "recall" in words and "verifies" in words
    assert [word for word in words if not re.search(rf"^ *{word}\b", shown, re.MULTILINE)] == []


# words


def words_of(text: str, level: str) -> tuple[list[tuple[str, tuple[str, ...]]], list[str]]:
    """Return the words that the page has for a level with their other spellings, and those that are only kept."""
    table = _TABLES.tables(text)[f"words: {level}"]
    return [(row.words[0], tuple(row.words[1:])) for row in table.rows], list(table.kept)


@pytest.mark.parametrize("level", LEVELS)
def test_the_reference_has_every_word_of_a_level_and_no_other(level: str) -> None:
    acted_on, kept = words_of(TEXT, level)
    known = LEVELS[level].keywords
    assert sorted(acted_on) == sorted((word.name, word.aliases) for word in known if word.acted_on)
    assert sorted(kept) == sorted(word.name for word in known if not word.acted_on)
    assert all(not word.aliases for word in known if not word.acted_on)


@pytest.mark.parametrize("level", [level.name for level in LEVELS.values() if level.required])
def test_the_reference_says_what_is_required(level: str) -> None:
    rows = _TABLES.tables(TEXT)[f"words: {level}"].rows
    documented = [row.words[0] for row in rows if row.cells[1].startswith("required: ")]
    assert documented == [word.name for word in LEVELS[level].required]


def test_a_table_that_lacks_a_word_or_invents_one_is_found() -> None:
    assert "| `threshold` |" in TEXT and "`expresses`." in TEXT
    acted_on, _ = words_of(TEXT.replace("| `threshold` |", "| `treshold` |"), "recall")
    assert "treshold" in dict(acted_on) and "threshold" not in dict(acted_on)
    _, kept = words_of(TEXT.replace("`expresses`.", "`impresses`."), "machine")
    assert "impresses" in kept and "expresses" not in kept


def test_every_table_of_words_is_about_a_level() -> None:
    named = [about.removeprefix("words: ") for about in _TABLES.tables(TEXT) if about.startswith("words")]
    assert sorted(named) == sorted(LEVELS)


# other tables


def rows_of(about: str) -> Any:
    found = _TABLES.tables(TEXT)[about].rows
    assert found, f"there is no table below <!-- {about} -->"
    return found


def first_words(about: str) -> list[str]:
    return sorted(word for row in rows_of(about) for word in row.words)


@pytest.mark.parametrize(
    ("about", "known"),
    [
        ("error types", get_args(FailureType)),
        ("events", RUN_EVENTS),
        ("statuses", RUN_STATUSES),
        ("formats", FORMATS),
    ],
)
def test_the_reference_has_every_name_of_a_table_and_no_other(about: str, known: Any) -> None:
    assert first_words(about) == sorted(known)


def test_the_reference_has_the_type_of_every_step_in_the_ledger() -> None:
    types: dict[Any, str] = flow._TYPES  # pyright: ignore[reportPrivateUsage]
    section = TEXT.partition("## The ledger of a run")[2].partition("\n## ")[0]
    listed = section.partition("The `type` of a step is")[2].partition(".")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == {*types.values(), "call"}


def test_the_reference_says_what_each_step_needs() -> None:
    implements = memoranda.mashin.parse(
        """
recall a
  query: "x"
  collection: "c"
remember b
  content: "x"
  collection: "c"
ask d, using: "p:m"
  with task "t"
ask e, from: "name"
compute f
  1
decide g
  when true
    1
wait for h
  event: "e"
""",
        fragment=True,
    ).implements
    assert implements is not None
    needs = [" and ".join(map(str, needs_of(step))) or "nothing" for step in implements.body]  # type: ignore[arg-type]
    table = TEXT.partition("| step | needs |")[2].partition("\n\n")[0]
    documented = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", table.partition("|---|---|")[2], re.MULTILINE))
    assert documented["`recall`"] == f"`{needs[0]}`"
    assert documented["`remember`"] == f"`{needs[1]}`"
    assert documented["`ask … using`"] == f"`{needs[2]}`"
    assert needs[3] in next(value for key, value in documented.items() if key.startswith("`ask … from"))
    assert needs[4:] == ["nothing"] * 3
    assert [value for key, value in documented.items() if key.startswith("`compute`")] == ["nothing"]
    assert set(COVERS) == {"memory"} and CAPABILITIES.find("memory.read") is not None


def test_the_reference_has_every_field_of_a_budget_with_its_default() -> None:
    documented = [(row.words[0], row.cells[1].strip("`")) for row in rows_of("budget")]
    fields = [field.name for field in msgspec.structs.fields(Budget)]
    assert documented == [(name, repr(getattr(Budget(), name))) for name in fields]


def test_the_reference_has_every_choice_of_behaviour_with_its_default_and_no_other() -> None:
    documented = [(row.words[0], row.cells[1].strip("`")) for row in rows_of("behaviour")]
    fields = [field.name for field in msgspec.structs.fields(Behaviour)]
    defaults = {name: repr(getattr(DEFAULT_BEHAVIOUR, name)) for name in fields}
    assert DEFAULT_BEHAVIOUR.sleep is time.sleep and DEFAULT_BEHAVIOUR.budget == Budget()
    defaults |= {"sleep": "time.sleep", "budget": "Budget()", "recording": "Recording()"}
    assert documented == list(defaults.items())


def test_the_reference_says_how_often_a_model_is_asked_again() -> None:
    section = TEXT.partition("### ask a model")[2].partition("\n### ")[0]
    assert conversing.CORRECTIONS == 2 and "at most twice" in section
    assert asking.ROUNDS == 8 and "eight rounds" in section


# expressions


def test_the_reference_has_every_operator_and_no_other() -> None:
    powers: dict[str, int] = parser._POWERS  # pyright: ignore[reportPrivateUsage]
    aliases: dict[str, str] = parser._ALIASES  # pyright: ignore[reportPrivateUsage]
    worded: Any = parser._WORDED  # pyright: ignore[reportPrivateUsage]
    known = {*powers, *aliases, *(" ".join(words) for words, _ in worded)}
    # The first row and the last two hold forms with operands; those between hold operators alone.
    rows = [[word.replace("\\|", "|") for word in row.words] for row in rows_of("operators")][1:-2]
    assert sorted(word for row in rows for word in row) == sorted(known)
    meant = {" ".join(words): sign for words, sign in worded} | aliases
    strengths = [{powers[meant.get(word, word)] for word in row} for row in rows]
    assert all(len(each) == 1 for each in strengths)
    assert strengths == sorted(strengths, key=min)
    prefixes: dict[str, str] = parser._PREFIXES  # pyright: ignore[reportPrivateUsage]
    prefixed = rows_of("operators")[-2].words
    assert sorted(form.removesuffix("a").strip() for form in prefixed) == sorted(prefixes)


def test_the_reference_has_every_method_for_each_kind_of_value_and_no_other() -> None:
    kinds: dict[str, tuple[type, ...]] = {
        "lists": (list,),
        "texts": (str,),
        "maps": (dict,),
        "numbers": (int, float),
        "booleans": (bool,),
    }
    documented = {row.cells[0]: sorted(re.findall(r"`(\w+)`", row.cells[1])) for row in rows_of("methods")}
    assert documented == {
        name: sorted(method.name for method in METHODS.values() if all(kind in method.on for kind in types))
        for name, types in kinds.items()
    }


def test_the_reference_has_every_function_and_no_other() -> None:
    documented = [
        f"{row.words[0]}.{name}" if row.words else name
        for row in rows_of("functions")
        for name in re.findall(r"`(\w+)`", row.cells[1])
    ]
    assert sorted(documented) == sorted(name for name in (*FUNCTIONS, *CONSTANTS) if name != "..")


# diagnostics


COLLECTORS = ("diagnostics", "notes", "said", "reader", "self")
"""What the code calls the objects that collect diagnostics."""


def diagnostic_codes() -> dict[str, set[str]]:
    """Return the codes that the readers and checkers of mashin use, with their severities."""
    found: dict[str, set[str]] = {}
    # What every language that nests by indentation says of its layout, mashin says too.
    shared = [Path(str(module.__file__)) for module in (layout, faults_of_all, parsing)]
    for path in (*SOURCE.rglob("*.py"), *shared):
        # What a run notes is an event, not a diagnostic.
        if "runtime" in path.parts:
            continue
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            severities = _severities(call, path)
            if severities and isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                found.setdefault(str(call.args[0].value), set()).update(severities)
    return found


def _severities(node: ast.AST, path: Path) -> set[str]:
    if not isinstance(node, ast.Call):
        return set()
    if isinstance(node.func, ast.Name):
        # A checker that chooses between two severities calls what it chose `note`.
        return {"error", "warning"} if node.func.id == "note" else set()
    if not isinstance(node.func, ast.Attribute):
        return set()
    owner: Any = node.func.value
    collects = getattr(owner, "attr", getattr(owner, "id", "")).strip("_") in COLLECTORS
    if collects and node.func.attr in ("error", "warning", "note"):
        return {node.func.attr}
    return {"error"} if node.func.attr in ("_note", "_fail") and "expression" in path.parts else set()


def test_the_reference_has_every_code_of_a_diagnostic_and_no_other() -> None:
    documented = {row.words[0]: {part.strip() for part in row.cells[1].split(",")} for row in rows_of("diagnostics")}
    known = diagnostic_codes()
    assert known["unknown_step"] == {"error"} and known["unreachable_flow"] == {"warning"}
    assert known["later_step"] == {"error", "warning"}
    assert documented == known
