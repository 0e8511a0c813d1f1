"""Internal facts: the table has all that the runtime writes, no door writes it, and no lookalike is taken for it."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import memoranda
from memoranda import Memory, Scope
from memoranda.agent.models import Ask, Reply
from memoranda.api.scoped import ScopedMemory
from memoranda.chat import Agent, chat, list_conversations, read_conversation
from memoranda.errors import InvalidKey, NotFound
from memoranda.model.names import INTERNALS, Internal, is_internal
from memoranda.sleep import run_due, settle, sleep_jobs
from memoranda.workflow.threads import current_thread

DATABASES = Path(__file__).parents[1] / "fixtures" / "databases"
ONCE_RESERVED = ("abl", "blocks", "chat", "jobs", "runs", "sleep", "threads")
NATURAL = ("chat.theme", "jobs.current", "runs.total", "threads.x", "sleep.hours", "abl.x", "blocks.x", "jobs", "chat")

CASES = [
    pytest.param(one, shape, name.removesuffix(".*") + below, id=f"{'-'.join(shape)} {name}{below}")
    for one in INTERNALS
    for shape in one.shapes
    for name in one.keys
    for below in (("", ".x.y") if not name.endswith(".*") else (".sleep", ".x.y"))
]


class Polite:
    """A model that says one thing."""

    name = "polite:1"

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        return Reply("Noted.")


def scope_of(shape: tuple[str, ...]) -> Scope:
    return Scope.of(**dict.fromkeys(shape, "x"))


def exported_facts(memory: Memory, file: Path) -> list[tuple[Scope, str]]:
    """Return the places of all facts of a tenant, as an export has them."""
    memory.export(file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [(Scope.parse(one["fact"]["scope"]), one["fact"]["key"]) for one in lines if "fact" in one]


@pytest.mark.parametrize("release", ["0.1.0", "now"])
def test_all_that_the_runtime_writes_is_in_the_table_and_exported(tmp_path: Path, release: str) -> None:
    file = tmp_path / "memory.db"
    if release == "now":
        runpy.run_path(str(DATABASES / "writing.py"))["write"](file)
    else:
        shutil.copyfile(DATABASES / f"{release}.db", file)
    with memoranda.open(file) as memory:
        found = [
            fact
            for fact in exported_facts(memory, tmp_path / "all.jsonl")
            if fact[1].partition(".")[0] in ONCE_RESERVED
        ]
        assert {key.partition(".")[0] for _, key in found} == set(ONCE_RESERVED)
        assert [place for place in found if not is_internal(*place)] == []
        assert [one.id for one in list_conversations(memory, "wren")] == ["apples"]
        assert len(read_conversation(memory, "wren", "apples").parts) == 2
        assert {one.state for one in sleep_jobs(memory)} == {"done"} and "workflow" in {
            run.language for run in memory.runs.list()
        }
        assert memory.scope(user="ida").blocks.get("core") is not None
        assert all(not is_internal(fact.scope, fact.key) for fact in memory.scope(user="ida").list())


@pytest.mark.parametrize(("internal", "shape", "key"), CASES)
def test_no_call_writes_an_internal_fact(internal: Internal, shape: tuple[str, ...], key: str) -> None:
    with memoranda.open(":memory:") as memory:
        place, other = memory.at(scope_of(shape)), memory.scope(project="x", agent="y")

        def batched(place: ScopedMemory) -> None:
            with memory.batch() as batch:
                batch.set(place, key, 1)

        calls: list[Callable[[ScopedMemory], Any]] = [
            lambda place: place.set(key, 1),
            lambda place: place.create(key, 1),
            lambda place: place.update(key, lambda _: 1, default=0),
            lambda place: place.delete(key),
            batched,
        ]
        for call in calls:
            with pytest.raises(InvalidKey, match=internal.writer) as refused:
                call(place)
            assert key in refused.value.message and refused.value.value == key
            other.delete(key)
            call(other)  # the same key is free where the runtime does not write it
        assert place.list(internal=True) == [] and memory.ledger.verify().ok


@pytest.mark.parametrize(("internal", "shape", "key"), CASES)
def test_an_import_of_state_to_resume_from_or_that_cannot_be_read_is_refused(
    tmp_path: Path, internal: Internal, shape: tuple[str, ...], key: str
) -> None:
    file, free = tmp_path / "forged.jsonl", Scope.of(project="x", agent="y")
    with memoranda.open(":memory:") as memory:
        memory.at(free).set(key, "- a line")
        memory.export(file)
    forged = file.read_text() + "".join(
        line.replace('"project:x/agent:y"', json.dumps(scope_of(shape).path)) + "\n"
        for line in file.read_text().splitlines()
        if '"project:x/agent:y"' in line
    )
    file.write_text(forged)
    with memoranda.open(":memory:") as memory:
        try:
            done = memory.import_file(file)
        except InvalidKey:
            assert internal.writer == "memory blocks" and key.endswith(".x.y")
            return
        # Of the others, only blocks and the name of the current thread can be read if they are text.
        text = internal.writer == "memory blocks" or key == "threads.current.x.y"
        assert [one.key for one in done.refusals] == ([] if text else [key])
        assert memory.at(free).value(key) == "- a line"
        assert (memory.at(scope_of(shape)).get(key) is None) == (not text)


@pytest.mark.parametrize("key", NATURAL)
def test_keys_that_look_natural_are_free(key: str) -> None:
    with memoranda.open(":memory:") as memory:
        for ids in ({"user": "ada"}, {"user": "ada", "thread": "t"}, {"session": "s"}, {"agent": "a"}, {}):
            if key == "jobs.current" and "thread" in ids:
                continue  # there, the second segment is the kind of a job, whatever it is
            place = memory.scope(**ids)
            assert place.set(key, "amber").value == place.value(key) == "amber"
            assert [fact.key for fact in place.list()] == [key]
        found = memory.scope(user="ada").recall("amber", kinds=["fact"])
        assert {match.key for match in found} == {key}


def test_lookalikes_of_users_are_never_taken_for_internal_facts(tmp_path: Path) -> None:
    with memoranda.open(tmp_path / "memory.db") as memory:
        agent = Agent(id="desk", model=Polite())
        for message in ("I live in Faro.", "I prefer trains."):
            chat(memory, agent, message, user="ada", conversation_id="c1", message_id=message)
        thread = current_thread(memory, owner="ada")
        settle(memory, delay=0)
        run_due(memory, delay=0)
        before = (list_conversations(memory), sleep_jobs(memory), memory.scope(user="ada").blocks.list(scope="all"))
        real = {
            (fact.scope, fact.key): fact.value
            for scope in (
                Scope.of(user="ada"),
                Scope.of(user="ada", thread="c1"),
                Scope.of(user="ada", thread=thread.id),
            )
            for fact in memory.at(scope).list(internal=True)
        }
        assert len(real) > 6
        # Every value that the runtime wrote, word for word, in every scope where its key is free.
        shapes = ({}, {"user": "ada"}, {"user": "ada", "agent": "desk"}, {"project": "p"}, {"user": "ada", "run": "r"})
        copies = 0
        for ids in (*shapes, {"user": "ada", "project": "p", "thread": "c1"}, {"user": "ada", "session": "s"}):
            for (_, key), value in real.items():
                if not is_internal(Scope.of(**ids), key):
                    memory.scope(**ids).set(key, value)
                    copies += 1
        assert copies > 30
        assert before == (
            list_conversations(memory),
            sleep_jobs(memory),
            memory.scope(user="ada").blocks.list(scope="all"),
        )
        assert settle(memory, delay=0) == [] and run_due(memory, delay=0) == []
        assert current_thread(memory, owner="ada") == thread
        ada = memory.scope(user="ada")
        assert {match.scope for match in ada.recall("Faro", kinds=["message"])} == {Scope.of(user="ada", thread="c1")}
        assert {match.scope for match in ada.recall("Faro", kinds=["line"])} == {Scope.of(user="ada")}
        assert all(finding.ok for finding in memory.inspect())


def test_variables_are_read_from_the_record_of_an_agent_s_session_alone() -> None:
    with memoranda.open(":memory:") as memory:
        for ids in ({"user": "ada", "session": "s"}, {"user": "ada"}):
            place = memory.scope(**ids)
            place.set("abl.session", {"vars": {"city": "Porto"}})
            assert place.get("city") is None and [fact.key for fact in place.list()] == ["abl.session"]
            with pytest.raises(NotFound):
                memoranda.abl.load(TALLY, memory=memory).resume("s")


TALLY = dedent("""
    AGENT: Tally
    GOAL: "Count"
    MEMORY:
      persistent:
        - user.jobs
        - user.chat.theme
        - user.blocks.core
        - user.sleep.learned
        - user.threads.current.default
    FLOW:
      count:
        REASONING: false
        SET:
          - user.jobs = 3
          - user.chat.theme = "amber"
          - user.blocks.core = "forged"
          - user.sleep.learned = "forged"
          - user.threads.current.default = "forged"
        RESPOND: "Done."
    """)


def test_an_agent_writes_natural_keys_and_no_internal_ones() -> None:
    with memoranda.open(":memory:") as memory:
        session = memoranda.abl.load(TALLY, memory=memory).start(user="ada")
        assert session.opening.messages == ["Done."]
        ada = memory.scope(user="ada")
        assert {fact.key: fact.value for fact in ada.list(internal=True)} == {"jobs": 3, "chat.theme": "amber"}
        refused = [entry.about for entry in session.opening.trace if entry.kind == "refused"]
        assert refused == ["user.blocks.core", "user.sleep.learned", "user.threads.current.default"]


@pytest.mark.parametrize("slug", ONCE_RESERVED)
def test_a_record_of_such_a_name_is_a_record_and_nothing_else(slug: str) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    with memoranda.open(":memory:") as memory:
        for scope in ("global", "thread"):
            memory.definitions.create(name=slug, slug=slug, schema=schema, scope=scope)
            ids = {"user": "ada", **({"thread": "c1"} if scope == "thread" else {})}
            memory.scope(**ids).set(slug, {"core": "forged", "current": {"default": "forged"}, "conversation": {}})
            said = chat(
                memory, Agent(id="desk", model=Polite()), "Hi", user="ada", conversation_id="c1", message_id=scope
            )
            assert said.text == "Noted." and memory.scope(user="ada").blocks.list(scope="all") == []
            assert current_thread(memory, owner="ada").id != "forged"
            memory.definitions.delete(slug)
