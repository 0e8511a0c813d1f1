"""G59: a writer is killed without warning, again and again, on one database; whatever it acknowledged is there."""

from __future__ import annotations

import json
from typing import Any

import pytest

import memoranda
from memoranda import Anchor, Fact, Memory
from memoranda.model.event import GENESIS
from memoranda.testing import Round, kill_rounds

# What thread number `thread` asks for as its `number`-th request. The parent runs this text too, so that it knows
# what was asked when the kill came and can ask again.
REQUESTS = """
import random

def request(round, thread, number):
    choose = random.Random(f"{round}/{thread}/{number}")
    kind = choose.choice(["set", "set", "update", "batch", "delete"])
    return {"id": f"{round}/{thread}/{number}", "kind": kind, "key": f"key{choose.randrange(4)}", "user": f"u{thread}"}

def send(memory, asked):
    own, id, key = memory.scope(user=asked["user"]), asked["id"], asked["key"]
    if asked["kind"] == "set":
        fact = own.set(key, {"id": id}, source=id, idempotency_key=id)
        return {"version": fact.version}
    if asked["kind"] == "update":
        fact = memory.scope(project="shared").update("count", lambda count: count + 1, default=0)
        return {"version": fact.version, "value": fact.value}
    if asked["kind"] == "batch":
        with memory.batch(idempotency_key=id) as batch:
            batch.set(own, key, {"id": id})
            batch.set(own, "both", {"id": id})
            batch.delete(own, "never there")
        return {"versions": [batch.results[0].version, batch.results[1].version]}
    return {"deleted": own.delete(key, source=id, idempotency_key=id)}
"""

WRITER = (
    REQUESTS
    + """
import itertools, json, os, sys, threading
import memoranda

address, round = sys.argv[1], int(sys.argv[2])
memory = memoranda.open(address)

def work(thread):
    for number in itertools.count():
        asked = request(round, thread, number)
        answer = send(memory, asked)
        # One write of one whole line: the threads' lines do not mix.
        os.write(1, (json.dumps({"thread": thread, "number": number, **answer}) + "\\n").encode())

for thread in range(4):
    threading.Thread(target=work, args=(thread,)).start()
"""
)

_requests: dict[str, Any] = {}
exec(REQUESTS, _requests)
request, send = _requests["request"], _requests["send"]


class Checks:
    """What has to hold after each kill."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.anchor = Anchor(0, GENESIS)
        self.acknowledged: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.sent_again = 0
        self.had_happened = 0
        self.kinds: set[str] = set()

    def __call__(self, round: Round) -> None:
        assert round.killed
        answers = [json.loads(line) for line in round.acknowledged]
        asked = [request(round.number, answer["thread"], answer["number"]) for answer in answers]
        self.acknowledged += zip(asked, answers, strict=True)
        self.kinds |= {each["kind"] for each in asked}
        with memoranda.open(self.address) as memory:
            memory.settle()  # whatever is chained a moment after its commit
            assert memory.ledger.verify(anchor=self.anchor).ok  # it only grew
            assert [finding for finding in memory.inspect() if not finding.ok] == []
            for each, answer in zip(asked, answers, strict=True):
                self.check_answer(memory, each, answer)
            for thread in range(4):
                numbers = [answer["number"] for answer in answers if answer["thread"] == thread]
                assert numbers == list(range(len(numbers)))
                self.send_again(memory, request(round.number, thread, len(numbers)))
            if asked:
                self.send_again(memory, asked[-1])
            self.anchor = memory.ledger.anchor()

    def check_answer(self, memory: Memory, asked: dict[str, Any], answer: dict[str, Any]) -> None:
        """Find an acknowledged write in the history, under the version that was told and with its value."""
        own, key, id = memory.scope(user=asked["user"]), asked["key"], asked["id"]
        if asked["kind"] == "set":
            assert self.revision(own, key, answer["version"]).value == {"id": id}
        elif asked["kind"] == "update":
            shared = memory.scope(project="shared")
            assert self.revision(shared, "count", answer["version"]).value == answer["value"]
        elif asked["kind"] == "batch":
            for name, version in zip((key, "both"), answer["versions"], strict=True):
                assert self.revision(own, name, version).value == {"id": id}
        else:
            made = [each for each in own.history(key) if each.origin.source == id]
            assert [each.change for each in made] == ["deleted"] * answer["deleted"]

    def revision(self, place: memoranda.ScopedMemory, key: str, version: int) -> memoranda.Revision:
        (found,) = [each for each in place.history(key) if each.version == version]
        return found

    def send_again(self, memory: Memory, asked: dict[str, Any]) -> None:
        """Send a request that may or may not have arrived: after that it was done exactly once."""
        if asked["kind"] == "update":
            return  # it has no idempotency key: who is not answered looks first
        self.sent_again += 1
        before = self.writes_of(memory, asked)
        answers = [send(memory, asked), send(memory, asked)]
        assert answers[0] == answers[1]
        done = self.writes_of(memory, asked)
        once = {"set": 1, "batch": 2, "delete": int(answers[0].get("deleted", False))}[asked["kind"]]
        assert done == once
        assert before in (0, once)  # a batch was there as a whole or not at all
        self.had_happened += before > 0

    def writes_of(self, memory: Memory, asked: dict[str, Any]) -> int:
        own = memory.scope(user=asked["user"])
        histories = [revision for key in (asked["key"], "both") for revision in own.history(key)]
        return sum(
            revision.origin.source == asked["id"] or revision.value == {"id": asked["id"]} for revision in histories
        )


@pytest.mark.slow
@pytest.mark.capability("crash")
def test_g59_nothing_acknowledged_is_lost_to_a_kill(address: str, backend: str, deep: bool):
    rounds = 300 if deep else 15 if backend == "sqlite" else 6  # one takes twice as long on PostgreSQL
    checks = Checks(address)
    done = kill_rounds(WRITER, address, rounds=rounds, acknowledgements=(1, 60), linger=0.02, check=checks)
    assert len(done) == rounds
    assert checks.kinds == {"set", "update", "batch", "delete"}
    assert checks.sent_again > rounds and checks.had_happened > 0
    # What was acknowledged in the first rounds has survived all later kills.
    with memoranda.open(address) as memory:
        for asked, answer in checks.acknowledged:
            checks.check_answer(memory, asked, answer)
        count = memory.scope(project="shared").get("count")
        assert count is None or self_consistent(memory, count)


def self_consistent(memory: Memory, count: Fact) -> bool:
    """The shared counter was only ever changed by one at a time: its versions and values go together."""
    history = memory.scope(project="shared").history("count")
    return [each.value for each in history] == list(range(1, count.value + 1)) and count.version == len(history)


BOASTER = (
    REQUESTS
    + """
import json, os, sys, time
import memoranda
with memoranda.open(sys.argv[1]) as memory:
    memory.scope(user="u0").set("key0", {"id": "first"})
    os.write(1, (json.dumps({"thread": 0, "number": 0, "version": 99, "versions": [99, 99], "value": 99,
                             "deleted": True}) + "\\n").encode())
    time.sleep(60)
"""
)


def test_a_writer_that_boasts_is_found_out(address: str):
    """The control: an acknowledgement without a write does not pass."""
    with pytest.raises((AssertionError, ValueError)):
        kill_rounds(BOASTER, address, rounds=1, acknowledgements=(1, 1), check=Checks(address))
