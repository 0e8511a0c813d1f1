"""`memoranda runs` and `memoranda ledger show RUN`: the status of runs, and what they did."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import memoranda
from memoranda.engine.facts import SetFact
from memoranda.governance.runs import RecordRun
from memoranda.model.event import GENESIS, RunNote
from memoranda.model.names import RUN_RECORD
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.testing import FakeClock

START, END = RunNote(kind="exec_start", detail={"machine": "glaze"}), RunNote(kind="exec_end")
STEP = RunNote(kind="step_record", step="mix", decision="deny", payload=b'{"secret":1}', detail={"capability": "http"})


def record(memory: memoranda.Memory, run: str, *notes: RunNote, **said: Any) -> None:
    """Record a whole run of the machine `glaze`, or of another."""
    about = {"language": "mashin", "program": "glaze", "digest": "d1", "actor": "machine:glaze"}
    summary = {**about, "started_at": memory.clock.now(), **said}
    write = SetFact(scope=Scope.of(run=run), key=RUN_RECORD, payload=msgspec.Raw(encode(summary)))
    effect = RecordRun(scope=Scope.of(run=run), run=run, index=0, previous=GENESIS, notes=notes, writes=(write,))
    memory.perform(effect)


@pytest.fixture
def runs() -> None:
    """Three runs in memory.db."""
    clock = FakeClock()
    with memoranda.open("memory.db", clock=clock) as memory:
        error = {"type": "permission_denied", "step": "mix", "message": "not allowed to http"}
        record(memory, "r1", START, STEP, END, status="failed", error=error, steps=1)
        clock.advance(1)
        ada = {"scope": "user:ada", "parent": "r1"}
        record(memory, "r2", START, END, status="completed", language="workflow", program="press", **ada)
        clock.advance(1)
        waiting = {"kind": "approval", "step": "mix", "capability": "http", "approval": "a1"}
        record(memory, "r3", START, status="waiting", waiting=waiting)


def test_runs_are_listed_newest_first(cli, runs):
    for call in (("runs",), ("runs", "list")):
        lines = [line.split() for line in cli(*call).out.splitlines()]
        assert [line[:4] for line in lines if line[0][0] == "r" and line[0] != "run"] == [
            ["r3", "machine", "glaze", "waiting"],
            ["r2", "workflow", "press", "completed"],
            ["r1", "machine", "glaze", "failed"],
        ]
    text = cli("runs").out
    assert "approval at mix: http" in text and "permission_denied at mix" in text


def test_the_list_is_narrowed(cli, runs):
    def ids(*options: str) -> list[str]:
        return [run["id"] for run in cli("runs", *options, "--json").json]

    assert ids() == ["r3", "r2", "r1"]
    assert ids("--program", "glaze") == ["r3", "r1"]
    assert ids("--language", "workflow") == ["r2"]
    assert ids("--language", "mashin", "--status", "waiting") == ["r3"]
    assert ids("--status", "failed") == ["r1"]
    assert ids("--status", "cancelled") == []
    assert ids("--limit", "1") == ["r3"]
    assert ids("--program", "nothing") == []
    assert cli("runs", "--status", "lost").code == 2
    assert cli("runs", "--language", "abl").code == 2
    assert cli("runs", "--limit", "0").code == 2


def test_where_nothing_ran_there_is_nothing_to_list(cli):
    cli("facts", "set", "k", "v")
    done = cli("runs")
    assert (done.code, done.out) == (0, "")
    assert "No runs" in done.err
    assert cli("runs", "--json").json == []


def test_one_run_is_shown(cli, runs):
    text = cli("runs", "show", "r1").out
    assert "permission_denied at mix: not allowed to http" in text
    assert "machine:glaze" in text and "ok, 3 events" in text
    pairs = [line.split() for line in cli("runs", "show", "r2").out.splitlines()]
    assert ["program", "press"] in pairs and ["language", "workflow"] in pairs
    assert "r1" in cli("runs", "show", "r2").out and "user:ada" in cli("runs", "show", "r2").out
    shown = cli("runs", "show", "r1", "--json").json
    assert (shown["status"], shown["events"], shown["verified"]["ok"]) == ("failed", 3, True)
    assert shown["error"]["step"] == "mix"


def test_the_events_of_a_run_are_shown_and_verified(cli, runs):
    done = cli("ledger", "show", "r1")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines if line[:1].isdigit()] == ["1", "2", "3"]
    step = next(line for line in lines if line.startswith("2 "))
    assert step.split()[2:] == ["step_record", "mix", "deny", "capability=http"]
    assert lines[-1].startswith("ok, 3 events, head sha256:")
    assert "secret" not in done.out
    shown = cli("ledger", "show", "r1", "--json").json
    assert [event["kind"] for event in shown["events"]] == ["exec_start", "step_record", "exec_end"]
    assert shown["events"][1]["prev_hash"] == shown["events"][0]["hash"]
    assert (shown["run"], shown["verified"]["ok"]) == ("r1", True)


def test_events_that_somebody_changed_are_shown_as_broken(cli, runs, tamper):
    position = cli("ledger", "show", "r1", "--json").json["events"][2]["position"]
    assert cli("runs", "show", "r1").code == 0
    tamper("memory.db", position)
    done = cli("ledger", "show", "r1", "--json")
    assert (done.code, done.json["verified"]["ok"], done.json["verified"]["index"]) == (1, False, 3)
    assert "broken at event 3: " in cli("ledger", "show", "r1").out
    assert "broken at event 3: " in cli("runs", "show", "r1").out
    assert cli("ledger", "show", "r2").code == 0


@pytest.mark.parametrize("call", [("runs", "show"), ("ledger", "show")])
@pytest.mark.parametrize("run", ["nothing", "9" * 30, "\x1b[2J"])
def test_a_run_that_does_not_exist_is_not_found(cli, runs, call, run):
    done = cli(*call, run, "--json")
    assert (done.code, done.error["code"]) == (1, "not_found")
    assert cli(*call, "r1").code == 0
    assert "\x1b" not in cli(*call, run).err


def test_a_run_is_seen_by_those_who_may(cli, runs):
    cli("permissions", "grant", "clerk", "runs.read")
    assert cli("runs", "--actor", "clerk").code == 0
    assert cli("ledger", "show", "r1", "--actor", "clerk").code == 0
    cli("permissions", "grant", "guest", "ledger.read")
    for call in (("runs",), ("runs", "show", "r1"), ("ledger", "show", "r1")):
        assert cli(*call, "--actor", "guest", "--json").error["code"] == "denied"
    assert cli("ledger", "show", "1", "--actor", "guest").code == 0


def test_the_steps_of_a_run_are_shown(cli, runs):
    with open("tea.mashin", "w", encoding="utf-8") as file:
        file.write(
            'machine tea\n  accepts\n    leaf as text\n  implements\n    compute cup\n      "hot ${input.leaf}"\n'
        )
    run = cli("run", "tea.mashin", "--input", '{"leaf": "oolong"}', "--json").json["run"]
    [step] = cli("runs", "show", run, "--steps", "--json").json["step_records"]
    assert (step["step"], step["output"], step["status"]) == ("cup", "hot oolong", "completed")
    shown = cli("runs", "show", run, "--steps").out
    assert "1. cup (compute): completed" in shown and "out: hot oolong" in shown
    assert "hot oolong" not in cli("runs", "show", run).out
    assert "Nothing was recorded" in cli("runs", "show", "r1", "--steps").err
