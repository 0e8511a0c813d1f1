"""Conversations that have settled are consolidated once, whatever happens meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from lessons import Lesson, Taught

import memoranda
from memoranda import Conflict, Denied, Memory, NotFound, Policy
from memoranda.chat.conversation import conversation_scope, list_conversations, read_conversation
from memoranda.chat.open_turn import OpenTurn
from memoranda.learning.extraction import Extracted, Known
from memoranda.learning.messages import Message
from memoranda.model.block import CORE_CHARACTERS, CORE_ENTRIES
from memoranda.model.conversation import Draft, Usage
from memoranda.model.job import MOST_ATTEMPTS
from memoranda.sleep.jobs import lease
from memoranda.sleep.worker import Looked, SleepWorker, extract_by_rules, run_due, run_sleep_time, settle, sleep_jobs
from memoranda.testing import FakeClock

SETTLED = 300


def broken(messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
    raise RuntimeError("no idea")


def test_w2_a_settled_conversation_is_consolidated_once(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    talk("I live in Porto.", "My favourite tea is rooibos.")
    assert settle(memory) == []
    clock.advance(SETTLED - 1)
    assert settle(memory) == []
    clock.advance(1)
    assert [job.mark for job in settle(memory)] == [4]
    assert settle(memory) == []
    [ran] = run_due(memory)
    assert ran.job.state == "done"
    assert (lines("core"), lines("archival")) == (["- Lives in Porto"], ["- Favourite tea: rooibos"])
    ledger = memory.ledger.anchor()
    assert (settle(memory), run_due(memory)) == ([], [])
    clock.advance(100_000)
    assert (settle(memory), run_due(memory)) == ([], [])
    assert memory.ledger.anchor() == ledger


def test_w2_not_while_a_reply_is_being_made(memory: Memory, clock: FakeClock, talk: Any, lines: Any) -> None:
    turn = talk.begin(Draft(kind="user", text="I live in Porto."))
    clock.advance(SETTLED)
    assert list_conversations(memory)[0].active
    assert settle(memory) == []
    with pytest.raises(Conflict):
        run_sleep_time(memory, "c1", user="ada")
    assert lines() == []
    turn.answer("Noted.", Usage())
    clock.advance(SETTLED)
    assert len(settle(memory)) == 1
    run_due(memory)
    assert lines() == ["- Lives in Porto"]


def test_w2_a_new_message_restarts_the_wait(memory: Memory, clock: FakeClock, talk: Any, lines: Any) -> None:
    talk("I live in Porto.")
    clock.advance(SETTLED)
    settle(memory)
    talk("I prefer tea.")
    [ran] = run_due(memory)
    assert (ran.consolidated, ran.job.state, ran.job.attempts) == (None, "waiting", 0)
    clock.advance(SETTLED - 1)
    assert (settle(memory), run_due(memory), lines()) == ([], [], [])
    clock.advance(1)
    settle(memory)
    [ran] = run_due(memory)
    assert ran.consolidated is not None and ran.consolidated.last_seq == 4
    assert lines() == ["- Lives in Porto", "- Prefers tea"]


def test_w2_a_reply_that_begins_before_the_job_runs_puts_it_off(memory: Memory, clock: FakeClock, talk: Any) -> None:
    talk("I live in Porto.")
    clock.advance(SETTLED)
    settle(memory)
    turn = talk.begin(Draft(kind="user", text="I prefer tea."))
    [ran] = run_due(memory)
    assert ran.consolidated is None
    turn.answer("Noted.", Usage())
    clock.advance(SETTLED)
    settle(memory)
    [ran] = run_due(memory)
    assert ran.consolidated is not None and len(ran.consolidated.changes) == 2


def test_w2_only_what_was_said_since_is_looked_at(memory: Memory, clock: FakeClock, talk: Any) -> None:
    extractor = Taught()
    talk("One.")
    run_sleep_time(memory, "c1", user="ada", extractor=extractor)
    talk("Two.", "Three.")
    run_sleep_time(memory, "c1", user="ada", extractor=extractor)
    run_sleep_time(memory, "c1", user="ada", extractor=extractor)
    assert extractor.seen == [[1, 2], [3, 4, 5, 6]]


def test_w2_a_rerun_is_a_no_op(memory: Memory, talk: Any, lines: Any) -> None:
    talk("I live in Porto.")
    first = run_sleep_time(memory, "c1", user="ada")
    assert [block.content for block in first.blocks] == ["- Lives in Porto"]
    ledger = memory.ledger.anchor()
    again = run_sleep_time(memory, "c1", user="ada")
    assert (again.changes, again.blocks, again.last_seq) == ((), (), 2)
    assert memory.ledger.anchor() == ledger


def test_a_conversation_that_teaches_nothing_is_done_and_writes_no_block(memory: Memory, talk: Any) -> None:
    talk("What time is it?")
    done = run_sleep_time(memory, "c1", user="ada")
    assert (done.changes, done.blocks) == ((), ())
    assert memory.scope(user="ada").blocks.list() == []
    assert [job.state for job in sleep_jobs(memory)] == ["done"]


def test_w3_losing_a_race_reads_again_and_the_edit_survives(memory: Memory, talk: Any, lines: Any) -> None:
    lines.write("- Has a boat")
    talk("I live in Porto. My favourite tea is rooibos.")

    def interrupted(messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
        lines.write("- Has a boat", "- Has a cat")
        return extract_by_rules(messages, known)

    done = run_sleep_time(memory, "c1", user="ada", extractor=interrupted)
    assert lines() == ["- Has a boat", "- Has a cat", "- Lives in Porto"]
    assert len(done.changes) == 2


def test_w3_a_writer_who_is_always_faster_never_loses_a_line(
    memory: Memory, talk: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer writes until the very moment of the write; the final write is one transaction."""
    talk("I live in Porto. My favourite tea is rooibos.")
    count = iter(range(5))
    perform = Memory.perform

    def overtaken(own: Memory, effect: Any) -> Any:
        if type(effect).__name__ in ("ReadStatements", "Learn"):
            lines.write(*lines("archival"), f"- edit {next(count)}", block="archival")
        return perform(own, effect)

    with monkeypatch.context() as patched:
        patched.setattr(Memory, "perform", overtaken)
        run_sleep_time(memory, "c1", user="ada")
    assert next(count) == 2
    assert lines() == ["- Lives in Porto"]
    assert lines("archival") == ["- edit 0", "- edit 1", "- Favourite tea: rooibos"]
    written = [one for one in memory.scope(user="ada").blocks.history("core") if one.origin.door == "sleep"]
    assert len(written) == 1


def test_w3_people_and_sleep_write_at_once_and_both_are_kept(memory: Memory, talk: Any, lines: Any) -> None:
    for number in range(8):
        talk(f"I prefer tea number {number}.", conversation=f"c{number}")

    def edit() -> None:
        core = memory.scope(user="ada").blocks
        for number in range(8):
            while True:
                standing = core.get("core")
                text = f"{standing.content}\n- edit {number}" if standing else f"- edit {number}"
                try:
                    core.update("core", text, expected_updated_at=standing and standing.updated_at)
                    break
                except Conflict:
                    continue

    editing = threading.Thread(target=edit)
    editing.start()
    for number in range(8):
        run_sleep_time(memory, f"c{number}", user="ada")
    editing.join()
    wanted = {f"- edit {number}" for number in range(8)} | {f"- Prefers tea number {number}" for number in range(8)}
    assert set(lines()) == wanted


def test_w4_a_failure_is_kept_with_the_job_and_tried_again(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    talk("I live in Porto.")
    clock.advance(SETTLED)
    settle(memory)
    [ran] = run_due(memory, extractor=broken)
    assert (ran.job.state, ran.job.error, ran.job.attempts) == ("waiting", "RuntimeError: no idea", 1)
    assert sleep_jobs(memory) == [ran.job]
    assert run_due(memory) == []
    clock.set(ran.job.due_at)
    [ran] = run_due(memory)
    assert (ran.job.state, ran.job.error) == ("done", "")
    assert lines() == ["- Lives in Porto"]


def test_w4_a_failure_never_affects_the_conversation(memory: Memory, clock: FakeClock, talk: Any) -> None:
    talk("I live in Porto.")
    before = read_conversation(memory, "ada", "c1")
    clock.advance(SETTLED)
    settle(memory)
    for _ in range(MOST_ATTEMPTS):
        run_due(memory, extractor=broken)
        clock.advance(10_000)
    [job] = sleep_jobs(memory)
    assert (job.state, job.attempts) == ("dead", MOST_ATTEMPTS)
    assert settle(memory) == [] and run_due(memory) == []
    assert read_conversation(memory, "ada", "c1") == before
    assert memory.scope(user="ada").blocks.list() == []
    talk("I prefer tea.")
    assert read_conversation(memory, "ada", "c1").last_seq == 4
    clock.advance(SETTLED)
    settle(memory)
    [ran] = run_due(memory)
    assert ran.job.state == "done"


def test_w4_what_is_asked_for_by_hand_fails_aloud_and_can_be_asked_again(memory: Memory, talk: Any, lines: Any) -> None:
    talk("I live in Porto.")
    for _ in range(MOST_ATTEMPTS + 1):
        with pytest.raises(RuntimeError, match="no idea"):
            run_sleep_time(memory, "c1", user="ada", extractor=broken)
    assert run_sleep_time(memory, "c1", user="ada").changes
    assert lines() == ["- Lives in Porto"]


def test_w4_output_obeys_the_limits(memory: Memory, talk: Any, lines: Any) -> None:
    talk("Hello.")
    many = Taught(*(Lesson(f"fact {number} " + "x" * 280, seqs=(1,)) for number in range(60)))
    done = run_sleep_time(memory, "c1", user="ada", extractor=many)
    core, archival = (memory.scope(user="ada").blocks.get(block) for block in ("core", "archival"))
    assert core is not None and archival is not None
    assert 3_000 < len(core.content) <= CORE_CHARACTERS and len(lines()) <= CORE_ENTRIES
    assert 7_000 < len(archival.content) <= 8_000
    kept = len(lines()) + len(lines("archival"))
    assert kept + [one.why for one in done.left_out].count("no_room") == 60


def test_an_extractor_that_wants_everything_gone_takes_only_what_was_learned(
    memory: Memory, talk: Any, lines: Any
) -> None:
    lines.write("- Has a boat", "- Sails on Sundays")
    talk("I live in Porto.")
    run_sleep_time(memory, "c1", user="ada")
    talk("Bye.")
    everything = ("- Has a boat", "- Sails on Sundays", "- Lives in Porto")
    wipe = Taught(Lesson("Nothing is known", seqs=(3,), replaces=everything))
    done = run_sleep_time(memory, "c1", user="ada", extractor=wipe)
    assert lines() == ["- Has a boat", "- Sails on Sundays", "- Nothing is known"]
    assert [one.why for one in done.left_out] == ["kept", "kept"]


def test_agent_lines_go_to_the_agent_that_was_spoken_with(memory: Memory, talk: Any, lines: Any) -> None:
    talk("Hello.", agent="harbour")
    lessons = (Lesson("Wants tides in metres", scope="agent", seqs=(1,)), Lesson("Has a boat", seqs=(1,)))
    run_sleep_time(memory, "c1", user="ada", extractor=Taught(*lessons))
    assert lines(agent="harbour") == ["- Wants tides in metres"]
    assert (lines(), lines(agent="desk")) == (["- Has a boat"], [])


def test_the_extractor_is_told_what_is_known(memory: Memory, talk: Any, lines: Any) -> None:
    lines.write("- Has a boat", "", "- Sails")
    extractor = Taught()
    talk("Hello.")
    run_sleep_time(memory, "c1", user="ada", extractor=extractor)
    assert extractor.known == [["- Has a boat", "- Sails"]]


def test_blocks_book_and_job_are_written_in_one_transaction(
    memory: Memory, talk: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write of the job fails; then no block may have changed."""
    from memoranda.sleep import worker
    from memoranda.sleep.jobs import finish_effect

    talk("I live in Porto. My favourite tea is rooibos.")

    def stale(memory: Memory, job: Any, **more: Any) -> Any:
        import msgspec

        return msgspec.structs.replace(finish_effect(memory, job, **more), expect=99)

    with monkeypatch.context() as patched:
        patched.setattr(worker, "finish_effect", stale)
        with pytest.raises(Conflict):
            run_sleep_time(memory, "c1", user="ada")
    assert memory.scope(user="ada").blocks.list() == []
    assert memory.scope(user="ada").get("sleep.learned") is None
    run_sleep_time(memory, "c1", user="ada")
    assert len(memory.scope(user="ada").blocks.list()) == 2


def test_a_worker_that_lost_its_lease_leaves_the_job_to_the_other(memory: Memory, clock: FakeClock, talk: Any) -> None:
    talk("I live in Porto.")
    scope = conversation_scope(memory, "ada", "c1")

    def slow(messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
        clock.advance(1_000)
        [job] = sleep_jobs(memory)
        assert lease(memory, job, worker="other") is not None
        return extract_by_rules(messages, known)

    with pytest.raises(Conflict):
        run_sleep_time(memory, "c1", user="ada", extractor=slow)
    [job] = sleep_jobs(memory)
    assert (job.scope, job.state, job.worker) == (scope, "running", "other")
    assert memory.scope(user="ada").blocks.list() == []
    with pytest.raises(Conflict, match="another worker"):
        run_sleep_time(memory, "c1", user="ada")
    clock.advance(1_000)
    assert run_sleep_time(memory, "c1", user="ada").changes


def test_a_conversation_that_is_not_there_is_not_found(memory: Memory, talk: Any) -> None:
    talk("I live in Porto.")
    with pytest.raises(NotFound):
        run_sleep_time(memory, "c2", user="ada")
    with pytest.raises(NotFound):
        run_sleep_time(memory, "c1", user="bob")
    assert run_sleep_time(memory, "c1", user="ada").changes


def test_a_conversation_erased_while_it_is_looked_at_leaves_nothing(
    memory: Memory, clock: FakeClock, talk: Any
) -> None:
    talk("I live in Porto.")
    clock.advance(SETTLED)
    settle(memory)

    def erasing(messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
        memory.erase(user="ada")
        return extract_by_rules(messages, known)

    assert run_due(memory, extractor=erasing) == []
    assert (sleep_jobs(memory), memory.scope(user="ada").blocks.list()) == ([], [])


def test_old_settled_conversations_come_first(memory: Memory, clock: FakeClock, talk: Any, lines: Any) -> None:
    talk("I live in Porto.", conversation="old")
    clock.advance(10)
    talk("I live in Faro.", conversation="new")
    clock.advance(SETTLED)
    settle(memory)
    [first] = run_due(memory, limit=1)
    assert first.job.scope == conversation_scope(memory, "ada", "old")
    run_due(memory)
    assert lines() == ["- Lives in Faro"]


# the worker


def test_the_worker_consolidates_beside_the_program(memory: Memory, clock: FakeClock, talk: Any, lines: Any) -> None:
    talk("I live in Porto.")
    clock.advance(SETTLED)
    seen = threading.Event()

    def watched(messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
        seen.set()
        return extract_by_rules(messages, known)

    worker = SleepWorker(memory, extractor=watched, every=0.01)
    worker.start()
    worker.start()
    assert seen.wait(60)
    worker.stop()
    worker.stop()
    assert (lines(), worker.failure) == (["- Lives in Porto"], "")
    talk("I prefer tea.")
    clock.advance(SETTLED)
    assert lines() == ["- Lives in Porto"]  # it has ended
    assert len(worker.look()) == 1
    assert lines() == ["- Lives in Porto", "- Prefers tea"]


def test_the_worker_goes_on_after_a_look_that_failed(memory: Memory, clock: FakeClock, talk: Any, lines: Any) -> None:
    talk("I live in Porto.")
    clock.advance(SETTLED)
    failed, done = threading.Event(), threading.Event()
    outsider = memory.acting_as("outsider", policy=Policy())

    def handles() -> list[Memory]:
        if not failed.is_set():
            failed.set()
            return [outsider]
        done.set()
        return [memory]

    worker = SleepWorker(handles, every=0.01)
    worker.start()
    assert done.wait(60)
    worker.stop()
    assert (lines(), worker.failure) == (["- Lives in Porto"], "")


def test_what_is_wrong_with_one_tenant_keeps_no_other_from_its_memory(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    talk("I live in Porto.")
    clock.advance(SETTLED)
    reports: list[Looked] = []
    told = threading.Event()

    def report(looked: Looked) -> None:
        reports.append(looked)
        if len(reports) >= 3:
            told.set()

    outsider = memory.acting_as("outsider", policy=Policy())

    def handles() -> Iterator[Memory]:
        yield outsider
        yield memory
        raise OSError("the list of tenants ends in the middle")

    worker = SleepWorker(handles, every=60, report=report)
    worker.start()
    assert told.wait(60)
    worker.stop()
    refused, done, unlisted = reports
    assert (refused.memory, type(refused.failure), refused.ran) == (outsider, Denied, ())
    assert (done.failure, [one.failed for one in done.ran], dict(done.jobs)) == (None, [False], {"done": 1})
    assert (unlisted.memory, type(unlisted.failure)) == (None, OSError)
    assert lines() == ["- Lives in Porto"]
    assert worker.failure.startswith("denied: ")


def test_a_worker_that_is_stopped_finishes_the_job_at_hand_and_leaves_the_next(
    memory: Memory, clock: FakeClock, talk: Any
) -> None:
    for number in range(3):
        talk(f"I prefer tea number {number}.", conversation=f"c{number}")
    clock.advance(SETTLED)
    begun, go_on = threading.Event(), threading.Event()

    def slow(messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
        begun.set()
        assert go_on.wait(60)
        return []

    worker = SleepWorker(memory, extractor=slow, every=60)
    worker.start()
    assert begun.wait(60)
    worker.stop(timeout=0)
    go_on.set()
    states = ["waiting"]
    while "running" in states or "done" not in states:
        states = sorted(job.state for job in sleep_jobs(memory))
    assert states == ["done", "waiting", "waiting"]


def test_a_worker_that_is_stopped_gives_back_what_it_reads_by_rules(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    for number in range(3):
        talk(f"I live in Porto. {'The sea is calm and the wind is warm. ' * 3_000}", conversation=f"c{number}")
    clock.advance(SETTLED)
    began = time.thread_time()
    extract_by_rules([Message(role="user", text=part.text) for part in read_conversation(memory, "ada", "c0").parts])
    whole = time.thread_time() - began
    begun = threading.Event()
    spent: list[float] = []

    def rules(messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
        begun.set()
        before = time.thread_time()
        try:
            return extract_by_rules(list(messages) * 50, known)
        finally:
            spent.append(time.thread_time() - before)

    worker = SleepWorker(memory, extractor=rules, every=60)
    worker.start()
    assert begun.wait(60)
    worker.stop()
    assert len(spent) == 1 and spent[0] < 10 * whole
    assert [(job.state, job.attempts, job.error) for job in sleep_jobs(memory)] == [("waiting", 0, "")] * 3
    assert worker.failure == "" and lines() == []

    assert [ran.failed for ran in run_due(memory)] == [False] * 3
    assert lines() == ["- Lives in Porto"]


def test_a_worker_that_is_started_again_leaves_the_thread_that_was_not_waited_for_to_end(
    memory: Memory, clock: FakeClock, talk: Any
) -> None:
    talk("I prefer tea.")
    clock.advance(SETTLED)
    begun, go_on = threading.Event(), threading.Event()

    def slow(messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
        begun.set()
        assert go_on.wait(60)
        return extract_by_rules(messages, known)

    def at_work() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "memoranda-sleep"]

    worker = SleepWorker(memory, extractor=slow, every=60)
    worker.start()
    assert begun.wait(60)
    [first] = at_work()
    worker.stop(timeout=0)
    worker.start()
    assert len(at_work()) == 2
    go_on.set()
    first.join(20)
    assert not first.is_alive() and len(at_work()) == 1
    worker.stop()
    assert at_work() == []


def test_two_processes_consolidate_each_conversation_once(tmp_path: Path, run_child: Any) -> None:
    with memoranda.open(tmp_path / "m.db") as memory:
        from memoranda.chat.conversation import read_history
        from memoranda.chat.open_turn import begin_turn

        for number in range(10):
            history = read_history(memory, "ada", f"c{number}")
            turn = begin_turn(
                memory, "ada", f"c{number}", history=history, agent_id="desk", message_id="m",
                drafts=[Draft(kind="user", text=f"I prefer tea number {number}.")], lease=60,
            )  # fmt: skip
            assert isinstance(turn, OpenTurn)
            turn.answer("Noted.", Usage())
        script = """
            import sys, memoranda
            from memoranda.sleep.worker import run_due, settle
            with memoranda.open(sys.argv[1]) as memory:
                print("ready", flush=True); input()
                settle(memory, delay=0)
                print(sum(len(one.consolidated.changes) for one in run_due(memory, delay=0) if one.consolidated))
        """
        children = [run_child(script, tmp_path / "m.db") for _ in range(3)]
        for child in children:
            assert child.hear() == "ready"
        for child in children:
            child.say()
        changed = [int(child.finish()[0]) for child in children]
        settle(memory, delay=0)
        run_due(memory, delay=0)  # a race for a lease may leave a job to the next look
        core = memory.scope(user="ada").blocks.get("core")
        assert core is not None
        assert sorted(core.content.split("\n")) == sorted(f"- Prefers tea number {number}" for number in range(10))
        assert 0 < sum(changed) <= 10
        written = [one for one in memory.scope(user="ada").blocks.history("core") if one.change == "set"]
        assert len(written) == 10
