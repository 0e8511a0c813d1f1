"""A process that remembers, forgets and recalls is killed without warning, again and again; what it was told holds."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

import memoranda
from memoranda import Anchor, Memory
from memoranda.model.event import GENESIS
from memoranda.testing import Round, kill_rounds

# What thread number `thread` asks for as its `number`-th request. The parent runs this text too, so that it knows
# what was asked when the kill came.
REQUESTS = """
import random

def request(round, thread, number):
    choose = random.Random(f"{round}/{thread}/{number}")
    kind = choose.choice(["one", "many", "many", "replace", "forget", "recall"])
    # Own words for each, so that an entry is the best answer to its own name.
    names = [f"r{round}t{thread}n{number}{part}" for part in ("abc" if kind == "many" else "a")]
    return {"kind": kind, "names": names, "space": f"space{thread % 2}", "key": f"key{thread}"}

def send(memory, asked, made):
    '''Do what was asked; `made` are the ids of this thread's own entries that can still be forgotten.'''
    place, where = memory.scope(user="ada"), {"collection": "log", "namespace": asked["space"]}
    texts = [f"{name} was written down" for name in asked["names"]]
    if asked["kind"] == "recall":
        return {"found": place.recall(texts[0], limit=3, **where).count}
    if asked["kind"] == "replace":
        return {"ids": [place.remember(texts[0], key=asked["key"], **where).id]}
    if asked["kind"] == "forget":
        gone = made.pop() if made else None
        return {"gone": gone if gone and place.forget(gone, collection="log") else None}
    done = place.remember_many([{"content": text} for text in texts], **where)
    made += [one.id for one in done]
    return {"ids": [one.id for one in done]}
"""

WRITER = (
    REQUESTS
    + """
import itertools, json, os, sys, threading
import memoranda

address, round = sys.argv[1], int(sys.argv[2])
memory = memoranda.open(address, embedder="hashing:64")

def work(thread):
    made = []
    for number in itertools.count():
        answer = send(memory, request(round, thread, number), made)
        # One write of one whole line: the threads' lines do not mix.
        os.write(1, (json.dumps({"thread": thread, "number": number, **answer}) + "\\n").encode())

for thread in range(3):
    threading.Thread(target=work, args=(thread,)).start()
"""
)

_requests: dict[str, Any] = {}
exec(REQUESTS, _requests)
request = _requests["request"]

ALL = 100_000


class Checks:
    """What has to hold after each kill."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.anchor = Anchor(0, GENESIS)
        self.stored: dict[str, str] = {}
        """Acknowledged: text by id."""
        self.gone: set[str] = set()
        """Acknowledged as forgotten, or replaced by what was acknowledged."""
        self.maybe: set[str] = set()
        """Texts that were asked for when the kill came."""
        self.keyed: dict[int, str] = {}
        """The entry under the key of each thread."""
        self.kinds: Counter[str] = Counter()

    def __call__(self, round: Round) -> None:
        assert round.killed
        answers = [json.loads(line) for line in round.acknowledged]
        open_forgets: set[str] = set()
        for thread in range(3):
            own = [answer for answer in answers if answer["thread"] == thread]
            assert [answer["number"] for answer in own] == list(range(len(own)))
            open_forgets |= self.follow(round.number, thread, own)
        limits = memoranda.Limits(recall=ALL)
        with memoranda.open(self.address, embedder="hashing:64", limits=limits) as memory:
            assert memory.ledger.verify(anchor=self.anchor).ok  # it only grew
            assert [finding for finding in memory.inspect() if not finding.ok] == []
            self.check_entries(memory, open_forgets)
            memory.settle()
            self.anchor = memory.ledger.anchor()

    def follow(self, round: int, thread: int, answers: list[dict[str, Any]]) -> set[str]:
        """Note what one thread was told; return the ids that it may have ended besides, in its last moment."""
        forgettable: list[str] = []
        for answer in answers:
            asked = request(round, thread, answer["number"])
            self.kinds[asked["kind"]] += 1
            texts = [f"{name} was written down" for name in asked["names"]]
            self.stored |= zip(answer.get("ids", []), texts, strict=False)
            if asked["kind"] == "replace":
                if thread in self.keyed:
                    self.gone.add(self.keyed[thread])
                self.keyed[thread] = answer["ids"][0]
            elif asked["kind"] == "forget" and forgettable:
                last = forgettable.pop()
                assert answer["gone"] == last, "an entry that was acknowledged could not be forgotten"
                self.gone.add(last)
            elif asked["kind"] in ("one", "many"):
                forgettable += answer["ids"]
        asked = request(round, thread, len(answers))
        self.maybe |= {f"{name} was written down" for name in asked["names"]}
        open_ends = {"forget": forgettable[-1:], "replace": [self.keyed.get(thread, "")]}
        return set(open_ends.get(asked["kind"], []))

    def check_entries(self, memory: Memory, open_forgets: set[str]) -> None:
        ada = memory.scope(user="ada")
        listed = {entry.id: entry.content for entry in ada.entries(collection="log")}
        recalled = ada.recall("written down", collection="log", limit=ALL)
        found = Counter(match.id for match in recalled.results)
        assert set(found) == set(listed) and set(found.values()) <= {1}
        doubled = [text for text, count in Counter(listed.values()).items() if count > 1]
        assert doubled == [], f"{doubled} is there twice"
        for id, text in self.stored.items():
            if id in self.gone:
                assert id not in found, f"`{text}` was forgotten and is found"
            elif id not in open_forgets:
                assert listed.get(id) == text, f"`{text}` was acknowledged and is not found"
            elif id not in found:
                self.gone.add(id)
        for id, text in listed.items():
            assert id in self.stored or text in self.maybe, f"nobody asked for `{text}`"
            if id not in self.stored:
                self.adopt(id, text, ada)

    def adopt(self, id: str, text: str, ada: memoranda.ScopedMemory) -> None:
        """Count an unacknowledged write that was committed as stored from now on; a batch must be committed whole."""
        self.stored[id] = text
        name = text.split()[0]
        if text.startswith("r") and name[-1] == "c":
            mates = {f"{name[:-1]}{part} was written down" for part in "ab"}
            assert mates <= {entry.content for entry in ada.entries(collection="log")}
        for entry in ada.entries(collection="log"):
            if entry.id == id and entry.key is not None:
                thread = int(entry.key.removeprefix("key"))
                if thread in self.keyed:
                    self.gone.add(self.keyed[thread])
                self.keyed[thread] = id


@pytest.mark.slow
@pytest.mark.capability("crash")
def test_nothing_acknowledged_is_lost_to_a_kill(address: str, deep: bool):
    rounds = 150 if deep else 6
    checks = Checks(address)
    done = kill_rounds(WRITER, address, rounds=rounds, acknowledgements=(1, 40), linger=0.02, seed=7, check=checks)
    assert len(done) == rounds
    assert set(checks.kinds) == {"one", "many", "replace", "forget", "recall"}
    assert checks.gone and set(checks.stored) - checks.gone


BOASTER = (
    REQUESTS
    + """
import itertools, json, os, sys, time
import memoranda

def boast(thread, number):
    asked = request(0, thread, number)
    print(json.dumps({"thread": thread, "number": number, "ids": [f"{name}-id" for name in asked["names"]],
                      "gone": None, "found": 0}), flush=True)

with memoranda.open(sys.argv[1], embedder="hashing:64") as memory:
    memory.scope(user="ada").remember("something else", collection="log")
for number in range(4):
    boast(0, number)
time.sleep(60)
"""
)


def test_a_writer_that_boasts_is_found_out(address: str):
    """The control: an acknowledgement without an entry does not pass."""
    assert {"one", "many"} & {request(0, 0, number)["kind"] for number in range(4)}
    with pytest.raises(AssertionError, match=r"was acknowledged and is not found|could not be forgotten"):
        kill_rounds(BOASTER, address, rounds=1, acknowledgements=(4, 4), check=Checks(address))
