"""The page about workflows is true: samples check, tables hold every word, action, setting and code, and no other.

A block marked `yaml` is a whole workflow, or a file of its tests; nothing may be wrong with either. A comment such as
`<!-- words: loop -->` says which level of the language the table below it lists.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import memoranda
from memoranda.agent import conversation as conversing
from memoranda.model.event import RUN_EVENTS, RUN_STATUSES
from memoranda.workflow.actions import ai, builtin
from memoranda.workflow.actions.base import Action, Call, Place
from memoranda.workflow.actions.builtin import BUILTIN
from memoranda.workflow.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.workflow.jsonata import UNDEFINED
from memoranda.workflow.jsonata_functions import DEFAULT_BOUNDS, Bounds
from memoranda.workflow.keywords import LEVELS
from memoranda.workflow.runtime.plan import Policy, Retrying
from memoranda.workflow.scripts import file
from memoranda.workflow.threads import MOST_MESSAGES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/memoranda/workflow"
REFERENCE = ROOT / "docs/languages/workflows.md"
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
    """Return the whole workflows of a page: blocks marked `yaml`, and texts of Python that are one."""
    found: list[tuple[str, int]] = []
    for block in _BLOCKS.blocks(page.read_text(encoding="utf-8")):
        if block.mark == "yaml" and is_whole(block.text):
            found.append((block.text, block.line))
        elif block.mark == "python" and ">>>" not in block.text:
            texts = [one for one in ast.walk(ast.parse(block.text)) if isinstance(one, ast.Constant)]
            found += [(str(one.value), block.line + one.lineno - 1) for one in texts if is_whole(one.value)]
    return found


def is_whole(text: object) -> bool:
    return isinstance(text, str) and bool(re.search(r"^\{?defs:", text, re.MULTILINE))


def faults(text: str) -> list[str]:
    """Return what is wrong with a workflow; that an action is not built in is none: samples have their own."""
    found = memoranda.workflow.check(text)
    return [f"{one.severity}[{one.code}]: {one.message}" for one in found if one.code != "unknown_action"]


WHOLE = [(page, text, line) for page in PAGES for text, line in samples(page)]


@pytest.mark.parametrize(("page", "text", "line"), WHOLE, ids=[f"{page.name} line {line}" for page, _, line in WHOLE])
def test_nothing_is_wrong_with_any_sample(page: Path, text: str, line: int) -> None:
    assert faults(text) == []


def test_a_wrong_sample_is_found() -> None:
    task = "defs:\n  a: {kind: task, action: send_text_message, inputs: {text: hello}}\n"
    assert faults(f"{task}flow:\n  - do: b\n")
    assert faults(f"{task}flow:\n  - do: a\nouputs: {{}}\n")
    assert not faults(f"{task}flow:\n  - do: a\n")
    assert len([page for page, _, _ in WHOLE if page == REFERENCE]) > 10


def test_every_keyword_of_the_flow_and_every_action_has_a_sample() -> None:
    shown = "\n".join(text for page, text, _ in WHOLE if page == REFERENCE)
    levels = ("workflow", "flow", "parallel", "conditional", "branch", "loop", "for_each", "accumulate", "retries")
    words = [word.name for level in levels for word in LEVELS[level].keywords]
    assert "accumulate" in words and "outputs" in words
    assert [word for word in words if not re.search(rf"\b{word}:", shown)] == []
    assert [name for name in BUILTIN if not re.search(rf"\baction: {name}\b", shown)] == []


# words


def words_of(text: str, level: str) -> list[str]:
    """Return the words that the page has for a level; variables are written with their sign."""
    rows = _TABLES.tables(text)[f"words: {level}"].rows
    return [row.words[0].removeprefix("$") for row in rows]


@pytest.mark.parametrize("level", LEVELS)
def test_the_reference_has_every_word_of_a_level_and_no_other(level: str) -> None:
    assert words_of(TEXT, level) == [word.name for word in LEVELS[level].keywords]


@pytest.mark.parametrize("level", [level.name for level in LEVELS.values() if level.required])
def test_the_reference_says_what_is_required(level: str) -> None:
    rows = _TABLES.tables(TEXT)[f"words: {level}"].rows
    documented = [row.words[0] for row in rows if row.cells[1].startswith("required: ")]
    assert documented == [word.name for word in LEVELS[level].required]


def test_a_table_that_lacks_a_word_or_invents_one_is_found() -> None:
    assert "| `until` |" in TEXT
    wrong = words_of(TEXT.replace("| `until` |", "| `untill` |"), "loop")
    assert "untill" in wrong and "until" not in wrong


def test_every_table_of_words_is_about_a_level() -> None:
    named = [about.removeprefix("words: ") for about in _TABLES.tables(TEXT) if about.startswith("words")]
    assert sorted(named) == sorted(LEVELS)


# actions


def rows_of(about: str) -> Any:
    found = _TABLES.tables(TEXT)[about].rows
    assert found, f"there is no table below <!-- {about} -->"
    return found


def taken(schema: dict[str, Any]) -> dict[str, bool]:
    """Return the names of what an action takes, and whether each is required."""
    return {name: name in schema.get("required", ()) for name in schema.get("properties", {})}


def listed(cell: str) -> dict[str, bool]:
    return {part.split("`")[1]: "(required)" in part for part in cell.split(", ") if part}


def test_the_reference_has_every_action_with_what_it_takes_and_no_other() -> None:
    documented = {row.words[0]: (listed(row.cells[1]), listed(row.cells[2])) for row in rows_of("actions")}
    assert documented == {name: (taken(one.inputs), taken(one.settings)) for name, one in BUILTIN.items()}


@pytest.mark.parametrize("name", BUILTIN)
def test_the_reference_says_what_an_action_gives(name: str) -> None:
    described = (BUILTIN[name].act.__doc__ or "").replace("\n", " ")
    fields = re.findall(r"Gives\s+`\{([^}]*)", described)
    [row] = [row for row in rows_of("actions") if row.words[0] == name]
    for given in fields:
        assert all(part.split(":")[0].strip() in row.cells[3] for part in given.split(","))


def test_only_actions_that_ask_a_model_use_bindings() -> None:
    using = {name: one.bindings for name, one in BUILTIN.items() if one.bindings}
    assert set(using) == {name for name in BUILTIN if name.startswith("ai_")} and len(using) == 5
    assert {tuple(sorted(kinds)) for kinds in using.values()} == {tuple(sorted(LEVELS["bindings"].names))}


def of_models(part: str) -> set[str]:
    return {name for one in BUILTIN.values() if one.bindings for name in taken(getattr(one, part))}


@pytest.mark.parametrize("part", ["inputs", "settings"])
def test_the_reference_explains_what_actions_that_ask_a_model_take(part: str) -> None:
    assert sorted(row.words[0] for row in rows_of(f"{part} of models")) == sorted(of_models(part))


def test_the_reference_has_the_numbers_that_hold_unless_a_task_says_otherwise() -> None:
    def said(about: str, name: str) -> str:
        return next(row.cells[1] for row in rows_of(about) if row.words[0] == name)

    assert said("inputs of models", "messages_limit").endswith(f"{ai.MESSAGES} by default")
    assert (
        f"{builtin.REQUEST_SECONDS} by default" in TEXT.partition("`http_request` reads JSON")[2].partition("\n\n")[0]
    )
    assert conversing.CORRECTIONS == 2 and "sent back with what was wrong, at most twice" in TEXT
    assert f"| messages that are read at once | {MOST_MESSAGES:,} |" in TEXT
    retrying = Retrying()
    assert not retrying.enabled and "false by default" in said("words: retries", "enabled")
    for name in ("max_attempts", "backoff_ms", "max_delay_ms", "jitter", "multiplier"):
        assert said("words: retries", name).endswith(f"{getattr(retrying, name):,g} by default")
    assert Policy().timeout_ms == 0
    assert "0, which is also the default" in said("words: settings", "timeout_ms")


def test_the_reference_names_only_what_a_call_and_its_place_have() -> None:
    section = TEXT.partition("| of a `Call` | is |")[2].partition("\n\n")[0]
    places = set(re.findall(r"`call\.place\.(\w+)", section))
    rest = re.findall(r"`call\.place\.\w+\([^`]*`(?:, `\.(\w+))?", section)
    known = {name for name in vars(Place) if not name.startswith("_")}
    assert places and places | {name for name in rest if name} <= known
    assert set(re.findall(r"`call\.(\w+)", section)) <= set(Call.__struct_fields__)
    assert {"name", "act", "inputs"} <= set(Action.__struct_fields__)


# files of tests


@pytest.mark.parametrize(
    ("about", "known"),
    [
        ("test file", file._FILE),  # pyright: ignore[reportPrivateUsage]
        ("test", (*file._PARTS, "steps", "expect")),  # pyright: ignore[reportPrivateUsage]
        ("test step", tuple(file._STEPS)),  # pyright: ignore[reportPrivateUsage]
        ("test expectation", ("status", "error", "messages", *file.COMPARED)),
    ],
)
def test_the_reference_has_every_key_of_a_file_of_tests_and_no_other(about: str, known: tuple[str, ...]) -> None:
    assert [row.words[0] for row in rows_of(about)] == list(known)


def test_the_reference_has_every_status_that_a_test_can_expect_and_every_way_to_compare_words() -> None:
    said = {row.words[0]: row.cells[1] for row in rows_of("test expectation")}
    assert re.findall(r"`(\w+)`", said["status"]) == list(file.STATUSES)
    assert re.findall(r"`(\w+)`", said["messages"]) == list(file.COMPARISONS)


# behaviour and limits


def test_the_reference_has_every_choice_of_behaviour_with_its_default_and_no_other() -> None:
    documented = [(row.words[0], row.cells[1].strip("`")) for row in rows_of("behaviour")]
    fields = [field.name for field in msgspec.structs.fields(Behaviour)]
    defaults = {name: repr(getattr(DEFAULT_BEHAVIOUR, name)) for name in fields}
    assert DEFAULT_BEHAVIOUR.sleep is time.sleep and DEFAULT_BEHAVIOUR.bounds == DEFAULT_BOUNDS
    defaults |= {"sleep": "time.sleep", "bounds": "Bounds()", "recording": "Recording()"}
    assert documented == list(defaults.items())


def test_the_reference_has_every_bound_of_an_expression_with_its_default_and_no_other() -> None:
    documented = [(row.words[0], row.cells[1].strip("`")) for row in rows_of("bounds")]
    fields = [field.name for field in msgspec.structs.fields(Bounds)]
    assert documented == [(name, repr(getattr(DEFAULT_BOUNDS, name))) for name in fields]


def test_the_reference_has_every_status_of_a_run_and_no_other() -> None:
    assert sorted(row.words[0] for row in rows_of("statuses")) == sorted(RUN_STATUSES)


def test_the_reference_has_every_event_of_a_run_but_decisions() -> None:
    assert sorted(row.words[0] for row in rows_of("events")) == sorted(RUN_EVENTS - {"policy_decision"})


def test_the_surprises_of_jsonata_are_as_the_table_has_them() -> None:
    table = TEXT.partition("| written | gives | write |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([^`]+)`[^|]*\| ([^|]*) \| `([^`]+)` \|$", table, re.MULTILINE)
    assert len(rows) == 5
    one = {"input": {"crates": [{"kilos": 20}]}}
    values = [[memoranda.workflow.evaluate(text, one) for text in (written, better)] for written, _, better in rows]
    assert values == [
        [{"kilos": 20}, [{"kilos": 20}]],
        [20, [20]],
        [False, True],
        [UNDEFINED, True],
        ["x", ["x"]],
    ]


# diagnostics


COLLECTORS = ("diagnostics", "notes", "said", "reader", "self")
"""What the code calls the objects that collect diagnostics."""


def diagnostic_codes() -> dict[str, set[str]]:
    """Return the codes that the reader and the checker use, with their severities."""
    found: dict[str, set[str]] = {"too_large": {"error"}}
    parts = [SOURCE / name for name in ("parser.py", "compiler.py", "expressions.py", "keywords.py")]
    shared = [SOURCE.parent / "lang" / name for name in ("yaml.py", "diagnostics.py")]
    for path in (*parts, *(SOURCE / "checker").glob("*.py"), *shared):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and call.args and (severities := _severities(call)):
                for code in _codes(call.args[0]):
                    found.setdefault(code, set()).update(severities)
    return found


def _severities(call: ast.Call) -> set[str]:
    if isinstance(call.func, ast.Name):
        # What is an error in one place and a warning in another is chosen before it is said.
        return {"error", "warning"} if call.func.id == "say" else set()
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("error", "warning", "note"):
        return set()
    owner: Any = call.func.value
    collects = getattr(owner, "attr", getattr(owner, "id", "")).strip("_") in COLLECTORS
    return {call.func.attr} if collects else set()


def _codes(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Constant):
        return {str(node.value)}
    if isinstance(node, ast.JoinedStr):
        # What is said of inputs is said of settings.
        first: Any = node.values[0]
        return {f"{first.value}{what}" for what in ("input", "setting")}
    assert isinstance(node, ast.Name) and node.id == "code"
    return {"never_runs", "never_used"}


def test_the_reference_has_every_code_of_a_diagnostic_and_no_other() -> None:
    documented = {row.words[0]: {part.strip() for part in row.cells[1].split(",")} for row in rows_of("diagnostics")}
    known = diagnostic_codes()
    assert known["unknown_task"] == {"error"} and known["reads_later"] == {"warning"}
    assert known["unknown_setting"] == {"error", "warning"}
    assert documented == known
