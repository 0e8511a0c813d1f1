"""Do everything that one person does with the engine in this process, on the file that the servers have open.

A separate process, started by `soak.py`; one of them is killed again and again.
"""

from __future__ import annotations

from soak_ground import NOTES, Ground, Worker
from soak_journal import Journal
from soak_working import Task, meet, read_start, until_answered, work

import memoranda
from memoranda.errors import Conflict
from memoranda.sleep.worker import run_due, settle

_SLOTS = 8
_NOTES = 40
"""Notes under keys: each replaces the one before."""
_SLEEP_DELAY = 5


class Insider:
    """Does one thing at a time in this process."""

    def __init__(self, memory: memoranda.Memory, ground: Ground, worker: Worker, journal: Journal) -> None:
        """Open the tenant of a person."""
        self._memory = memory.in_tenant(worker.person.tenant)
        self._scope = self._memory.scope(user=worker.person.user)
        self._sign, self._name, self._journal, self._ground = worker.person.sign, worker.name, journal, ground

    def tasks(self) -> dict[Task, int]:
        """Return what it does, and how often beside the others."""
        return {self.log: 6, self.pair: 4, self.race: 4, self.note: 4, self.recall: 4, self.read: 6, self.sleep: 1}

    def _value(self, n: int) -> dict[str, object]:
        return {"of": self._sign, "by": self._name, "n": n}

    def log(self) -> None:
        """Write one of a few facts."""
        n = self._journal.next
        key = f"log.{self._name}.k{n % _SLOTS}"
        self._journal.ask("log", key=key)
        fact = until_answered(lambda: self._scope.set(key, self._value(n), idempotency_key=f"{self._name}-{n}"))
        self._journal.say(n, "answered", version=fact.version)

    def pair(self) -> None:
        """Write two facts together: both or none."""
        n = self._journal.next
        self._journal.ask("pair", left=f"pair.{self._name}.left", right=f"pair.{self._name}.right")

        def write() -> None:
            with self._memory.batch(idempotency_key=f"{self._name}-{n}") as batch:
                batch.set(self._scope, f"pair.{self._name}.left", self._value(n))
                batch.set(self._scope, f"pair.{self._name}.right", self._value(n))

        until_answered(write)
        self._journal.say(n, "answered")

    def race(self) -> None:
        """Change a fact that others change too, by compare-and-set."""
        meet(self._ground)
        fact = until_answered(lambda: self._scope.get("shared.counter"))
        expect = fact.version if fact else 0
        n = self._journal.next
        self._journal.ask("race", expect=expect)
        try:
            won = until_answered(lambda: self._scope.set("shared.counter", self._value(n), expect=expect))
        except Conflict:
            self._journal.say(n, "refused")
        else:
            self._journal.say(n, "answered", version=won.version)

    def note(self) -> None:
        """Remember something under a key, replacing what was there."""
        n = self._journal.next
        key = f"{self._name}-{n % _NOTES}"
        content = f"{self._sign}: {self._name} heard boat {n} in the fog"
        self._journal.ask("keyed", key=key, content=content)
        until_answered(lambda: self._scope.remember(content, collection=NOTES, key=key))
        self._journal.say(n, "answered")

    def recall(self) -> None:
        """Look for notes; what is found has to be one's own."""
        n = self._journal.ask("recall")
        found = until_answered(lambda: self._scope.recall("a boat in the fog", collection=NOTES))
        foreign = [str(one.content) for one in found.results if not str(one.content).startswith(f"{self._sign}:")]
        self._journal.say(n, "answered", count=found.count, foreign=foreign)

    def read(self) -> None:
        """Read what was written last."""
        n = self._journal.next
        key = f"log.{self._name}.k{n % _SLOTS}"
        self._journal.ask("read", key=key)
        fact = until_answered(lambda: self._scope.get(key))
        foreign = [] if fact is None or fact.value["of"] == self._sign else [str(fact.value)]
        self._journal.say(n, "answered", version=fact.version if fact else 0, foreign=foreign)

    def sleep(self) -> None:
        """Do the sleep-time jobs that are due, beside the servers that look for the same ones."""
        n = self._journal.ask("sleep")
        settle(self._memory, delay=_SLEEP_DELAY)
        ran = run_due(self._memory, delay=_SLEEP_DELAY)
        self._journal.say(n, "answered", jobs=len(ran), failed=[one.job.error for one in ran if one.failed])


def main() -> None:
    """Work until told to stop."""
    start, worker, journal = read_start()
    with memoranda.open(start.ground.db, busy_timeout=start.ground.busy_timeout) as memory:
        work(start, journal, Insider(memory, start.ground, worker, journal).tasks())


if __name__ == "__main__":
    main()
