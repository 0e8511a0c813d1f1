"""The workflows of the instrument library: each does what its tests say, and every command of their page is run.

Models are scripted, or asked over the loopback in the wire formats of their providers; without the key that the page
exports, none is.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import anthropic_server
import openai_server
import pytest

import memoranda
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.python_functions import load_module
from memoranda.lang.source import Source
from memoranda.lang.yaml import compose
from memoranda.testing import FakeClock
from memoranda.workflow.keywords import LEVELS
from memoranda.workflow.runtime import execution as flow
from memoranda.workflow.runtime.task import do_task
from memoranda.workflow.scripts.file import read_scripts
from memoranda.workflow.scripts.run import run_scripts

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "workflows"
FILES = sorted(path for path in FOLDER.glob("*.yaml") if not path.name.endswith(".tests.yaml"))
PAGE = FOLDER / "README.md"
DESK = FOLDER / "support_desk.yaml"
DAY = 24 * 3600


def _load(path: Path, name: str) -> ModuleType:
    """Import a file of other tests under this name, because the tests are not a package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


MASHIN = _load(ROOT / "tests/examples/test_mashin.py", "memoranda_test_mashin")
ACTIONS = load_module(FOLDER / "actions.py", what="actions")


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


# the files


def test_the_page_names_every_workflow() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(FILES) == 5
    assert [path.name for path in FILES if f"`{path.name}`" not in text] == []


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_there_is_nothing_to_say_about_a_file(path: Path) -> None:
    assert memoranda.workflow.check(path, actions=[ACTIONS]) == ()
    assert [one.code for one in memoranda.workflow.check(DESK)] == ["unknown_action"] * 7


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_its_tests_pass_and_come_to_every_task_at_least_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: set[str] = set()

    def noting(work: Any, strand: Any, task: Any, resumed: Any) -> None:
        # Before it is done: of two carriers one is always cut off.
        begun.add(task.name)
        do_task(work, strand, task, resumed)

    monkeypatch.setattr(flow, "do_task", noting)
    report = run_scripts(path)
    assert [(case.name, case.failure) for case in report.cases if not case.passed] == []
    tasks = [one.name.text for one in memoranda.workflow.parse(path).defs if one.kind and one.kind.text == "task"]
    assert tasks and [task for task in tasks if task not in begun] == []


def test_a_workflow_that_breaks_its_promise_fails_its_tests(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "greeting.yaml").read_text(encoding="utf-8")
    assert "Good evening" in text
    assert run_scripts(tmp_path / "greeting.yaml").failed == 0
    (tmp_path / "greeting.yaml").write_text(text.replace("Good evening", "Good morning"), encoding="utf-8")
    assert run_scripts(tmp_path / "greeting.yaml").failed == 3


def definitions(path: Path) -> dict[str, dict[str, Any]]:
    """Return the definitions that the tests of a workflow begin with, by slug."""
    tests = path.with_suffix(".tests.yaml")
    read = read_scripts(tests.read_text(encoding="utf-8"), name=tests.name)
    fields = ("id", "name", "scope", "ttl", "schema")
    return {one.slug: {field: getattr(one, field) for field in fields} for one in read.definitions}


def test_the_tests_have_the_definitions_of_the_folder() -> None:
    known = definitions(DESK)
    assert sorted(known) == sorted(path.stem for path in (FOLDER / "definitions").glob("*.json"))
    for slug, one in known.items():
        assert json.loads((FOLDER / "definitions" / f"{slug}.json").read_text(encoding="utf-8")) == one["schema"]
    for path in FILES:
        assert {slug: one for slug, one in definitions(path).items() if one != known[slug]} == {}
    ids = {one["id"] for one in known.values()}
    named = {line.split()[-1] for path in FILES for line in path.read_text().splitlines() if "definition_id:" in line}
    assert named == ids


# the words that the desk uses


def used(steps: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield every word of a flow, with the table that lists it."""
    for step in steps:
        [(word, body)] = step.items()
        yield "flow", word
        if word == "do":
            continue
        yield from ((word, key) for key in body)
        yield from (("strategy", body[key]) for key in ("strategy",) if key in body)
        yield from (("loop type", body[key]) for key in ("type",) if key in body)
        for key in ("for_each", "accumulate"):
            yield from ((key, inner) for inner in body.get(key, {}))
        for branch in body.get("when", ()):
            yield from (("branch", key) for key in branch)
            yield from used(branch["steps"])
        yield from used(body.get("else", []))
        yield from used(body.get("steps", []))


def read(path: Path) -> dict[str, Any]:
    source = Source(path.name, path.read_text(encoding="utf-8"))
    node = compose(source, Diagnostics(source))
    assert node is not None
    return node.value


FLOW = ("flow", "parallel", "strategy", "conditional", "branch", "loop", "loop type", "for_each", "accumulate")


def test_the_desk_uses_every_keyword_of_the_flow() -> None:
    found = set(used(read(DESK)["flow"]))
    assert {(level, word.name) for level in FLOW for word in LEVELS[level].keywords} == found


def test_the_desk_uses_every_section_and_every_setting_of_a_task() -> None:
    text = read(DESK)
    assert set(text) == set(LEVELS["workflow"].names)
    assert set(text["inputs"]) == set(LEVELS["inputs"].names) and set(text["defaults"]) == set(LEVELS["defaults"].names)
    policies = [text["defaults"]["settings"], *(one.get("settings", {}) for one in text["defs"].values())]
    assert set(LEVELS["settings"].names) <= {key for settings in policies for key in settings}
    retries = {key for settings in policies for key in settings.get("retries", {})}
    assert retries == set(LEVELS["retries"].names)
    bound = {kind for one in text["defs"].values() for kind in one.get("bindings", {})}
    # A server of tools needs a program that gives them.
    assert bound == set(LEVELS["bindings"].names) - {"mcp"}


def test_the_desk_keeps_memory_in_every_scope_and_does_every_direct_action() -> None:
    assert {one["scope"] for one in definitions(DESK).values()} == {"global", "workflow", "thread", "run"}
    actions = {one.get("action") for one in read(DESK)["defs"].values()}
    direct = {"update_memory", "send_text_message", "set_context", "call_workflow", "wait_for_reply"}
    assert direct <= actions and {"ai_infer_object", "ai_generate_reply"} <= actions
    assert {name for name in vars(ACTIONS) if hasattr(getattr(ACTIONS, name), "__action__")} <= actions


# by hand


class Scripted:
    """A model that gives one reply after the other, and keeps what it was asked."""

    name = "scripted"

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        return self.replies.pop(0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[memoranda.Memory]:
    with memoranda.open(":memory:", clock=clock) as opened:
        for slug, one in definitions(DESK).items():
            opened.definitions.create(slug=slug, **one)
        yield opened


def test_a_player_who_signed_up_is_greeted_by_name(memory: memoranda.Memory) -> None:
    greeting = memoranda.workflow.load(FOLDER / "greeting.yaml", memory=memory)
    assert greeting.run(owner="ada").messages == ["Good evening, dear guest!"]
    sign_up = memoranda.workflow.load(FOLDER / "sign_up.yaml", memory=memory)
    sign_up.run({"first_name": "Ada", "plays": ["cello"]}, owner="ada").check()
    assert greeting.run(owner="ada").messages == ["Good evening, Ada!"]
    assert greeting.run(owner="noor").messages == ["Good evening, dear guest!"]
    assert memory.scope(user="ada").value("player_profile") == {"first_name": "Ada", "instruments": ["cello"]}


def test_a_reply_reads_the_conversation_and_what_is_remembered(memory: memoranda.Memory) -> None:
    update = {"memory": {"player_profile": {"first_name": "Ada", "language": "en"}}}
    model = Scripted(
        Reply(calls=(ToolCall("1", "update_memory", update),)),
        Reply("Welcome, Ada."),
        Reply("You said that you are Ada."),
    )
    reply = memoranda.workflow.load(FOLDER / "reply.yaml", memory=memory, model=model)
    assert reply.run({"text": "I am Ada"}, owner="ada", thread="letters").check().output == {"reply": "Welcome, Ada."}
    reply.run({"text": "Who am I?"}, owner="ada", thread="letters").check()
    first, _, last = model.asked
    assert "# Working Memory" not in first.instructions
    assert last.instructions.endswith("\n\n# Working Memory\n## Player profile\n- First name: Ada\n- Language: en")
    assert [(one.role, one.text) for one in last.messages] == [
        ("user", "I am Ada"),
        ("assistant", "Welcome, Ada."),
        ("user", "Who am I?"),
    ]


def reading(*faults: tuple[str, str]) -> Reply:
    listed = [{"instrument": instrument, "fault": fault} for instrument, fault in faults]
    return Reply(value={"wants": "repair", "faults": listed})


def desk(memory: memoranda.Memory, *replies: Reply) -> Any:
    return memoranda.workflow.load(
        DESK, memory=memory, actions=[ACTIONS], workflows=[FOLDER / "repair_visit.yaml"], model=Scripted(*replies)
    )


def test_a_repair_goes_from_the_letter_to_the_day_of_the_visit(memory: memoranda.Memory, clock: FakeClock) -> None:
    run = desk(memory, reading(("cello", "crack"), ("trombone", "slide"), ("bow", "string"))).run(
        {"text": "Cello and bow are broken"}, owner="ada", thread="letters"
    )
    assert run.messages == ["cello, crack: 180; bow, string: 45. That is 225 in all. Shall we?"]
    clock.advance(DAY)
    kit = {"actions": [ACTIONS], "workflows": [FOLDER / "repair_visit.yaml"]}
    run = memoranda.workflow.find(memory, run.id, **kit).deliver("yes, please")
    assert run.waiting is not None and run.waiting.run is not None
    visit = memory.runs.get(run.waiting.run)
    assert (run.status, visit.program, visit.parent) == ("waiting", "repair_visit", run.id)
    clock.advance(2 * DAY)
    run = memoranda.workflow.find(memory, run.id, **kit).deliver({"text": "thursday"}).check()
    assert {**run.output, "received": ""} == {
        "state": "booked",
        "total": 225,
        "day": "Thursday",
        "cases": 1,
        "received": "",
    }
    assert run.messages[-1] == "Day: Thursday. The part is at old town."
    assert run.verify().ok and memory.ledger.verify().ok
    ada = {"user": "ada"}
    assert memory.scope(**ada, thread="letters").value("case") == {
        "subject": "Cello and bow are broken",
        "state": "booked",
        "visit": "Thursday",
    }
    assert memory.scope(**ada, workflow="support_desk").value("desk_log")["cases"] == 1
    assert memory.scope(**ada, run=run.id).value("worksheet") is None


def test_an_offer_that_nobody_answers_ends_after_two_days(memory: memoranda.Memory, clock: FakeClock) -> None:
    run = desk(memory, reading(("cello", "crack"))).run({"text": "A crack!"}, owner="ada", thread="letters")
    clock.advance(2 * DAY - 1)
    assert run.resume().status == "waiting"
    clock.advance(1)
    assert run.resume().output["state"] == "declined"


def test_two_players_know_nothing_of_each_other(memory: memoranda.Memory) -> None:
    question = Reply(value={"wants": "question", "faults": []})
    flow = desk(memory, question, Reply("At ten."), question, Reply("At ten."))
    first = flow.run({"text": "When do you open?"}, owner="ada", thread="letters").check()
    second = flow.run({"text": "When do you open?"}, owner="noor", thread="letters").check()
    assert (first.output["cases"], second.output["cases"]) == (1, 1)
    memory.erase(user="ada")
    assert memory.scope(user="ada", thread="letters").value("case") is None
    assert memory.scope(user="noor", thread="letters").value("case")["state"] == "answered"


# the page

_READ = {"wants": "repair", "faults": [{"instrument": "cello", "fault": "crack"}]}


def _told(wire: ModuleType) -> Any:
    """Return an answer that reads a letter where an object is wanted, and is polite elsewhere."""

    def answer(asked: Any) -> Any:
        tools = json.dumps(asked.body.get("tools", []))
        if "give_answer" not in tools:
            return wire.says("With pleasure, Ada.")(asked)
        faults = [{**fault, "instrument": "clarinet"} for fault in _READ["faults"]]
        read = {**_READ, "faults": faults} if "clarinet" in json.dumps(asked.body) else _READ
        return wire.calls(("give_answer", read))(asked)

    return answer


def test_every_command_of_the_page_prints_what_the_page_shows(tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with anthropic_server.AnthropicServer() as claude, openai_server.OpenAIServer() as gpt:
        claude.default, gpt.default = _told(anthropic_server), _told(openai_server)
        MASHIN.run_page(PAGE, folder, ANTHROPIC_BASE_URL=claude.url, OPENAI_BASE_URL=gpt.url)
        asked = [json.dumps(one.body) for one in claude.asked]
    first, second = asked
    assert "First name: Ada" in first and "And a bow?" not in first
    assert "Do you have a cello for me?" in second and "With pleasure, Ada." in second
    assert not (FOLDER / "library.db").exists()
