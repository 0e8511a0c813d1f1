"""What machines and workflows have in common: one program, one handle of a run, one order of checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Conflict, Memory, NotInstalled, UsageError

MACHINE = """
machine ferry
  implements
    wait for tide
      event: "high"
    compute left
      { after: "NOTE" }
"""
WORKFLOW = """
defs:
  tide: {kind: task, action: wait_for_reply}
  left: {kind: task, action: set_context, inputs: {values: {after: NOTE}}}
flow:
  - do: tide
  - do: left
"""


class Language:
    """How a program of one language is loaded, begun and found."""

    def __init__(self, text: str, module: Any, load: dict[str, Any], run: dict[str, Any]) -> None:
        self._text, self._module, self._load, self._run = text, module, load, run

    def load(self, memory: Memory, note: str = "six") -> Any:
        return self._module.load(self._text.replace("NOTE", note), memory=memory, **self._load)

    def begin(self, memory: Memory) -> Any:
        run = self.load(memory).run(**self._run)
        assert run.status == "waiting"
        return run

    def find(self, memory: Memory, id: str, **options: Any) -> Any:
        return self._module.find(memory, id, **options)


@pytest.fixture(params=["mashin", "workflow"])
def language(request: pytest.FixtureRequest) -> Language:
    if request.param == "mashin":
        return Language(MACHINE, memoranda.mashin, {}, {"user": "ada"})
    return Language(WORKFLOW, memoranda.workflow, {"name": "ferry"}, {"owner": "ada"})


@pytest.fixture
def memory() -> Iterator[Memory]:
    with memoranda.open(":memory:") as memory:
        yield memory


def deliver(run: Any) -> Any:
    return run.deliver({"text": "high"})


def resume(run: Any) -> Any:
    return run.resume()


def cancel(run: Any) -> Any:
    return run.cancel()


@pytest.mark.parametrize("act", [deliver, resume])
def test_a_text_that_is_not_installed_is_refused_first(language: Language, memory: Memory, act: Any) -> None:
    run = language.begin(memory)
    waits = language.find(memory, run.id, kept_text=False)
    deliver(run)
    over = language.find(memory, run.id, kept_text=False)
    for one in (waits, over):
        with pytest.raises(NotInstalled):
            act(one)


def test_a_run_that_is_over_waits_for_nothing(language: Language, memory: Memory) -> None:
    done = deliver(language.begin(memory))
    assert done.status == "completed"
    for act in (deliver, resume, cancel):
        with pytest.raises((Conflict, UsageError), match=done.id):
            act(done)


def test_a_handle_is_stale_once_the_run_has_moved(language: Language, memory: Memory) -> None:
    run = language.begin(memory)
    other = language.find(memory, run.id)
    deliver(run)
    for act in (deliver, cancel):
        with pytest.raises(Conflict, match="resumed elsewhere"):
            act(other)


def test_a_run_resumes_with_the_text_that_it_began_with(language: Language, memory: Memory) -> None:
    run = language.begin(memory)
    with pytest.raises(Conflict, match="another text"):
        deliver(language.load(memory, note="seven").find(run.id))
    assert deliver(language.find(memory, run.id)).status == "completed"


def test_a_run_whose_text_is_not_installed_can_be_cancelled(language: Language, memory: Memory) -> None:
    run = language.begin(memory)
    cancelled = language.find(memory, run.id, kept_text=False).cancel(reason="no tide")
    assert (cancelled.status, cancelled.error.message, cancelled.verify().ok) == ("cancelled", "no tide", True)
    assert language.find(memory, run.id).status == "cancelled"


def test_a_program_on_another_handle_is_the_same_program(language: Language, memory: Memory) -> None:
    program = language.load(memory)
    other = program.on(memory.through("cli"))
    assert program.on(program.memory) is program is not other
    assert (other.name, other.plan, repr(other)) == (program.name, program.plan, repr(program))


AGENT = """
AGENT: Porter
GOAL: "Greet"
FLOW:
  hello:
    REASONING: false
    RESPOND: "Good evening."
    THEN: COMPLETE
"""
TESTED = {
    "porter.abl": AGENT,
    "porter.tests.yaml": "tests:\n  - name: It greets\n    steps:\n      - expect: Good evening\n",
    "ferry.yaml": WORKFLOW,
    "ferry.tests.yaml": "tests:\n  - name: It waits\n    expect: {status: waiting}\n",
    "ferry.mashin": MACHINE
    + """\
  verifies
    test "it leaves"
      given {}
      assuming tide { high: true }
      expect { after: "NOTE" }
""",
}


@pytest.mark.parametrize("name", ["porter.abl", "ferry.yaml", "ferry.mashin"])
def test_every_program_runs_its_tests(memory: Memory, tmp_path: Path, name: str) -> None:
    for file, text in TESTED.items():
        (tmp_path / file).write_text(text)
    modules = {".abl": memoranda.abl, ".yaml": memoranda.workflow, ".mashin": memoranda.mashin}
    program = modules[Path(name).suffix].load(tmp_path / name, memory=memory)
    report = program.test()
    assert [case.failure for case in report.cases] == [None]


def test_a_machine_and_an_agent_are_replayed_and_a_workflow_is_not(memory: Memory) -> None:
    machine = memoranda.mashin.load(MACHINE, memory=memory)
    assert machine.replay(machine.run().id).same
    agent = memoranda.abl.load(AGENT, memory=memory)
    assert agent.replay(agent.start(user="ada").id).same
    workflow = memoranda.workflow.load(WORKFLOW, memory=memory, name="ferry")
    with pytest.raises(UsageError, match="cannot be replayed"):
        workflow.replay(workflow.run(owner="ada").id)
