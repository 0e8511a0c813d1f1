"""A run resumes only if the ledger confirms its saved state; one that was edited in the file can be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import memoranda
from memoranda.errors import NotVerified
from memoranda.model.value import canonical, hash_body

FLOW = """
defs:
  first: {kind: task, action: set_context, inputs: {values: {paid: "='no'"}}}
  hear: {kind: task, action: wait_for_reply, inputs: {}}
  second: {kind: task, action: send_text_message, inputs: {text: "='Paid: ' & $context.paid"}}
flow:
  - do: first
  - do: hear
  - do: second
"""
MACHINE = """
machine till "Wait for a coin"
  implements
    compute paid
      "no"
    wait for coin
      event: "coin"
    compute said
      "Paid: ${paid}"
"""
LANGUAGES = ["workflow", "machine"]
Edit = Callable[[str], None]


def open_run(memory: memoranda.Memory, language: str, id: str) -> Any:
    if language == "workflow":
        return memoranda.workflow.load(FLOW, memory=memory, name="till").find(id)
    return memoranda.mashin.load(MACHINE, memory=memory).find(id)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def run(file: Path, language: str) -> str:
    with memoranda.open(file) as memory:
        if language == "workflow":
            begun: Any = memoranda.workflow.load(FLOW, memory=memory, name="till").run(owner="ada")
        else:
            begun = memoranda.mashin.load(MACHINE, memory=memory).run()
        assert begun.status == "waiting"
        memory.scope(user="ada").set("something", "else")  # the ledger goes on
        return begun.id


def edit_fact(file: Path, run: str, key: str, old: bytes, new: bytes) -> None:
    connection = apsw.Connection(str(file))
    [(payload,)] = connection.execute("SELECT payload FROM facts WHERE scope = ? AND key = ?", (f"run:{run}", key))
    assert old in payload
    connection.execute(
        "UPDATE facts SET payload = ? WHERE scope = ? AND key = ?", (payload.replace(old, new), f"run:{run}", key)
    )
    connection.close()


def attempt(file: Path, language: str, run: str) -> None:
    """See that the run does not go on, and that it can be cancelled."""
    with memoranda.open(file) as memory:
        with pytest.raises(NotVerified) as caught:
            open_run(memory, language, run).deliver("a coin")
        assert caught.value.run == run
        assert memory.runs.get(run).status == "waiting"
        assert open_run(memory, language, run).cancel().status == "cancelled"


def test_a_run_that_nobody_touched_goes_on(file: Path, language: str, run: str) -> None:
    with memoranda.open(file) as memory:
        done = open_run(memory, language, run).deliver("a coin")
        assert done.status == "completed"
        assert "Paid: no" in (done.messages if language == "workflow" else [done.output])


def test_an_edited_state_does_not_go_on(file: Path, language: str, run: str) -> None:
    if language == "workflow":
        edit_fact(file, run, "runs.journal.000000", b'"paid":"no"', b'"paid":"si"')
    else:
        edit_fact(file, run, "runs.begun", b'"input":{}', b'"input":{"x":1}')
    attempt(file, language, run)


def test_an_edited_record_does_not_go_on(file: Path, language: str, run: str) -> None:
    edit_fact(file, run, "runs.run", b'"mode":"live"', b'"mode":"test"')
    attempt(file, language, run)


def test_a_record_whose_position_in_the_ledger_was_edited_does_not_go_on(file: Path, language: str, run: str) -> None:
    edit_fact(file, run, "runs.run", b'"position":', b'"position":1')
    attempt(file, language, run)


def test_a_fact_that_is_missing_is_missed(file: Path, language: str, run: str) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("DELETE FROM facts WHERE scope = ? AND key = 'runs.output'", (f"run:{run}",))
    assert connection.changes() == 1
    connection.close()
    attempt(file, language, run)


def test_a_state_from_an_earlier_pause_does_not_come_back(file: Path) -> None:
    twice = FLOW.replace("  - do: second", "  - do: second\n  - do: hear")
    with memoranda.open(file) as memory:
        flow = memoranda.workflow.load(twice, memory=memory, name="twice")
        run = flow.run(owner="ada")
        connection = apsw.Connection(str(file))
        kept = list(connection.execute("SELECT version, payload FROM facts WHERE key = 'runs.journal.000000'"))
        run = run.deliver("one")
        assert run.status == "waiting"
        connection.execute("UPDATE facts SET version = ?, payload = ? WHERE key = 'runs.journal.000000'", kept[0])
        connection.close()
        with pytest.raises(NotVerified):
            flow.find(run.id).deliver("two")


def test_an_edited_event_keeps_a_run_from_going_on(file: Path, language: str, run: str) -> None:
    connection = apsw.Connection(str(file))
    [(position, body)] = list(
        connection.execute("SELECT position, body FROM events WHERE run = ? ORDER BY position LIMIT 1", (run,))
    )
    told = msgspec.json.decode(body)
    told["detail"]["digest"] = "0" * 64
    connection.execute(
        "UPDATE events SET body = ?, hash = ? WHERE position = ?",
        (canonical(told), hash_body(canonical(told)), position),
    )
    connection.close()
    attempt(file, language, run)


def test_a_kept_text_that_was_edited_is_not_compiled(file: Path, language: str, run: str) -> None:
    connection = apsw.Connection(str(file))
    connection.execute(
        "UPDATE facts SET payload = CAST(replace(CAST(payload AS TEXT), 'Paid', 'Free') AS BLOB) "
        "WHERE key LIKE 'runs.sources.%'"
    )
    assert connection.changes() == 1
    connection.close()
    find = memoranda.workflow.find if language == "workflow" else memoranda.mashin.find
    with memoranda.open(file) as memory, pytest.raises(NotVerified, match="not the one"):
        find(memory, run)


def test_nothing_is_approved_for_a_run_that_was_edited(file: Path) -> None:
    text = """
machine vault "Keep what somebody agreed to"
  accepts
    note as text, is required
  ensures
    permissions
      requires approval for
        memory
  implements
    remember kept
      content: input.note
      collection: "vault"
"""
    with memoranda.open(file) as memory:
        vault = memoranda.mashin.load(text, memory=memory)
        run = vault.run({"note": "mine"}, user="ada")
        edit_fact(file, run.id, "runs.begun", b'"mine"', b'"ours"')
        with pytest.raises(NotVerified):
            vault.find(run.id).approve()
        assert [one.status for one in memory.approvals.list()] == ["pending"]
        edit_fact(file, run.id, "runs.begun", b'"ours"', b'"mine"')
        assert vault.find(run.id).approve().status == "completed"


def test_a_run_that_was_called_is_verified_before_its_output_is_used(file: Path) -> None:
    inner = FLOW.replace("flow:", "outputs: {said: =$context.paid}\nflow:")
    outer = """
defs:
  ask: {kind: task, action: call_workflow, inputs: {workflow: inner}}
  tell: {kind: task, action: send_text_message, inputs: {text: "=$output.ask.said"}}
flow:
  - do: ask
  - do: tell
"""
    with memoranda.open(file) as memory:
        called = memoranda.workflow.load(inner, memory=memory, name="inner")
        flow = memoranda.workflow.load(outer, memory=memory, name="outer", workflows=[called])
        run = flow.run(owner="ada")
        assert run.waiting is not None and run.waiting.run is not None
        id = run.waiting.run
        assert called.find(id).deliver("x").status == "completed"
        edit_fact(file, id, "runs.output", b'"no"', b'"si"')
        with pytest.raises(NotVerified):
            flow.find(run.id).resume()
        edit_fact(file, id, "runs.output", b'"si"', b'"no"')
        done = flow.find(run.id).resume()
        assert (done.status, done.messages[-1]) == ("completed", "no")
