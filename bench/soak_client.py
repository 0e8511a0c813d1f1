"""Do everything that one person does through a server: facts, blocks, notes, chats, agents, machines, workflows.

A separate process, started by `soak.py`. The answers are in its journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from soak_ground import ABL_AGENT, AGENT, BOAT, MACHINE, NEVER, NOTES, WORKFLOW, Worker
from soak_journal import Journal
from soak_working import Start, Task, may_have_happened, meet, read_start, until_answered, work

import memoranda
from memoranda.errors import Busy, Conflict, MemorandaError, Unavailable

_SLOTS = 8
"""Keys that a worker writes again and again."""
_KEPT = 60
"""Notes that a worker keeps, and keys that it writes once; older ones go."""
_MESSAGES = 5
"""Messages of one conversation."""


class Person:
    """Does one thing at a time through a server."""

    def __init__(self, start: Start, worker: Worker, journal: Journal) -> None:
        """Open two clients: one that may do everything, and one that may only read."""
        sign = worker.person.sign
        self._sign, self._name, self._journal, self._ground = sign, worker.name, journal, start.ground
        self._client = memoranda.Client(start.address, start.ground.tokens[sign])
        self._reader = memoranda.Client(start.address, start.ground.reader_tokens[sign])
        self._notes: deque[tuple[str, str]] = deque()
        self._once: deque[str] = deque()
        self._chats = 0

    def tasks(self) -> dict[Task, int]:
        """Return what it does, and how often beside the others."""
        return {
            self.log: 6,
            self.write_once: 8,
            self.race: 4,
            self.be_refused: 3,
            self.note: 4,
            self.recall: 4,
            self.read: 6,
            self.block: 2,
            self.chat: 2,
            self.talk_to_agent: 2,
            self.run_machine: 2,
            self.run_workflow: 2,
        }

    def _value(self, n: int) -> dict[str, object]:
        return {"of": self._sign, "by": self._name, "n": n}

    def log(self) -> None:
        """Write one of a few facts, with an idempotency key: exactly once, however often it has to be sent."""
        n = self._journal.next
        key = f"log.{self._name}.k{n % _SLOTS}"
        self._journal.ask("log", key=key)
        once = f"{self._name}-{n}"
        fact = until_answered(lambda: self._client.facts.set(key, self._value(n), idempotency_key=once))
        self._journal.say(n, "answered", version=fact.version)

    def write_once(self) -> None:
        """Write a new fact without any means to repeat it, and delete an old one."""
        n = self._journal.next
        key = f"once.{self._name}.n{n}"
        self._journal.ask("once", key=key)
        self._try(n, lambda: {"version": self._client.facts.set(key, self._value(n)).version})
        self._once.append(key)
        if len(self._once) > _KEPT:
            old = self._once.popleft()
            n = self._journal.ask("delete", key=old)
            until_answered(lambda: self._client.facts.delete(old, idempotency_key=f"{self._name}-{n}"))
            self._journal.say(n, "answered")

    def race(self) -> None:
        """Change a fact that others change too, by compare-and-set: one of all who saw a version wins."""
        meet(self._ground)
        fact = until_answered(lambda: self._client.facts.get("shared.counter"))
        n = self._journal.next
        self._journal.ask("race", expect=fact.version if fact else 0)
        expect = fact.version if fact else 0
        self._try(
            n, lambda: {"version": self._client.facts.set("shared.counter", self._value(n), expect=expect).version}
        )

    def be_refused(self) -> None:
        """Ask for what is always refused: a wrong version, a value that a schema forbids, a write by a reader."""
        n = self._journal.next
        key, value = f"refused.{self._name}.n{n}", f"{NEVER} {self._name} {n}"
        ways: list[Callable[[], object]] = [
            lambda: self._client.facts.set(key, value, expect=7),
            lambda: self._client.facts.set(BOAT, value),
            lambda: self._reader.facts.set(key, value),
        ]
        self._journal.ask("refused", way=n % len(ways))
        try:
            until_answered(ways[n % len(ways)])
        except MemorandaError as error:
            self._journal.say(n, "refused", code=error.code)
        else:
            self._journal.say(n, "answered")

    def note(self) -> None:
        """Remember something, now and then twice, and forget what is old."""
        n = self._journal.next
        content = f"{self._sign}: {self._name} saw boat {n} pass buoy {n % 13}"
        if n % 5 == 0 and self._notes:
            content = self._notes[-1][1]
        self._journal.ask("note", content=content)
        kept = until_answered(lambda: self._client.collections.remember(content, collection=NOTES))
        self._journal.say(n, "answered", id=kept.id, duplicate=kept.duplicate)
        if not self._notes or self._notes[-1][1] != content:
            self._notes.append((kept.id, content))
        if len(self._notes) > _KEPT:
            entry, old = self._notes.popleft()
            n = self._journal.ask("forget", content=old)
            until_answered(lambda: self._client.collections.forget(entry, collection=NOTES))
            self._journal.say(n, "answered")

    def recall(self) -> None:
        """Look for notes; what is found has to be one's own."""
        n = self._journal.ask("recall")
        found = until_answered(lambda: self._client.collections.recall("a boat passes a buoy", collection=NOTES))
        foreign = [str(one.content) for one in found.results if not str(one.content).startswith(f"{self._sign}:")]
        self._journal.say(n, "answered", count=found.count, foreign=foreign)

    def read(self) -> None:
        """Read what was written last; it has to be one's own."""
        n = self._journal.next
        key = f"log.{self._name}.k{n % _SLOTS}"
        self._journal.ask("read", key=key)
        fact = until_answered(lambda: self._client.facts.get(key))
        foreign = [] if fact is None or fact.value["of"] == self._sign else [str(fact.value)]
        self._journal.say(n, "answered", version=fact.version if fact else 0, foreign=foreign)

    def block(self) -> None:
        """Replace a block by compare-and-set; no one else writes it."""
        agent = self._name
        before = until_answered(lambda: self._client.memory.get("core", scope="agent", agent_id=agent))
        n = self._journal.next
        text = f"- {self._sign} wrote line {n}"
        self._journal.ask("block", text=text)
        until_answered(
            lambda: self._client.memory.update(
                "core",
                text,
                expected_updated_at=before.updated_at if before else None,
                scope="agent",
                agent_id=agent,
                idempotency_key=f"{agent}-{n}",
            )
        )
        self._journal.say(n, "answered")

    def chat(self) -> None:
        """Say something about oneself, under the id of a message: it is said once, however often it is sent."""
        n, number = self._journal.next, self._chats
        self._chats += 1
        if number % _MESSAGES == 0:
            self._conversation = f"talk-{self._name}-{n}"
        message = f"I live in {self._sign}{n}."
        conversation = self._conversation
        self._journal.ask("chat", conversation=conversation, message=message)
        # While the answer of a process that was killed is still held to be under way, it is a conflict.
        answer = until_answered(
            lambda: self._client.chat(AGENT, message, conversation_id=conversation, message_id=f"m{n}"), Conflict
        )
        self._journal.say(n, "answered", right=message in answer.text, replayed=answer.replayed)

    def talk_to_agent(self) -> None:
        """Tell an ABL agent one thing, which it remembers."""
        session = until_answered(lambda: self._client.agents.start(ABL_AGENT)).id
        n = self._journal.next
        said = f"Berth {self._sign}{n}"
        self._journal.ask("agent", session=session, said=said)
        self._try(n, lambda: {"status": self._client.sessions.say(session, said).status})

    def run_machine(self) -> None:
        """Run a machine that remembers and recalls."""
        n = self._journal.next
        line = f"{self._sign} {self._name} {n}"
        self._journal.ask("machine", content=f"{self._sign}: {line}")

        def run() -> dict[str, object]:
            ran = self._client.machines.run(MACHINE, {"boat": self._sign, "line": line})
            lines: list[str] = (ran.output or {}).get("lines", [])
            foreign = [one for one in lines if not one.startswith(f"{self._sign}:")]
            return {"run": ran.id, "status": ran.status, "foreign": foreign}

        self._try(n, run)

    def run_workflow(self) -> None:
        """Run a workflow that asks, waits, and keeps the answer."""
        n = self._journal.next
        boat = f"{self._sign} {self._name} {n}"
        self._journal.ask("workflow", boat=boat)
        runs: list[str] = []

        def run() -> dict[str, object]:
            waiting = self._client.workflows.run(WORKFLOW, {"boat": boat})
            runs.append(waiting.id)
            ended = self._client.runs.deliver(waiting.id, {"text": f"{n} m"})
            return {"run": ended.id, "status": ended.status}

        self._try(n, run)

    def _try(self, n: int, call: Callable[[], dict[str, object]]) -> None:
        """Make a call once, and say what came of it."""
        try:
            self._journal.say(n, "answered", **call())
        except (Unavailable, Busy) as error:
            self._journal.say(n, "doubtful" if may_have_happened(error) else "unsent", code=error.code)
        except Conflict as error:
            self._journal.say(n, "doubtful" if error.details.get("repeated") else "refused", code=error.code)


def main() -> None:
    """Work until told to stop."""
    start, worker, journal = read_start()
    work(start, journal, Person(start, worker, journal).tasks())


if __name__ == "__main__":
    main()
