"""Compare the journals of all workers with the memory they wrote."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from soak_ground import BERTHS, BOAT, NEVER, NOTES, PERSONS, WORKERS, Ground, Person, Worker
from soak_journal import Deed, read_deeds

import memoranda
from memoranda.api.scoped import ScopedMemory
from memoranda.chat.conversation import list_conversations, read_conversation
from memoranda.sleep.worker import sleep_jobs


@dataclass
class Checked:
    """One promise: how often it was looked at, and each time that it was not kept."""

    what: str
    looked_at: int = 0
    wrong: list[str] = field(default_factory=list)

    def see(self, kept: bool, *about: object) -> None:
        """Count one look."""
        self.looked_at += 1
        if not kept:
            self.wrong.append(" ".join(map(str, about)))


@dataclass
class Book:
    """What one worker did, and the memory of the person it worked for."""

    worker: Worker
    deeds: list[Deed]
    memory: memoranda.Memory
    """That of the tenant."""

    @property
    def scope(self) -> ScopedMemory:
        """Where the facts and notes of the person are."""
        return self.memory.scope(user=self.worker.person.user)

    def of(self, *ops: str) -> list[Deed]:
        """Return the deeds of these kinds, in the order they were asked for."""
        return [deed for deed in self.deeds if deed.op in ops]


def check_memory(ground: Ground, memory: memoranda.Memory, clients: Mapping[Person, memoranda.Client]) -> list[Checked]:
    """Hold everything that was answered against what is there; `clients` reach a server that runs."""
    books = [
        Book(worker, read_deeds(ground.journal(worker.name)), memory.in_tenant(worker.person.tenant))
        for worker in WORKERS
    ]
    return [
        _answered(books),
        _logs(books),
        _written_once(books),
        _pairs(books),
        _races(books),
        _refused(books),
        _notes(books),
        _blocks(books),
        _conversations(books),
        _sleep(memory, books),
        _sessions(books, clients),
        _runs(books, clients),
        _apart(memory, books),
        *check_ledgers(memory, "at the end"),
        _inspected(memory),
    ]


def check_ledgers(memory: memoranda.Memory, when: str) -> list[Checked]:
    """Walk the chain of every tenant."""
    checked = Checked(f"ledger verified for every tenant, {when}")
    for tenant in memory.tenants():
        found = memory.in_tenant(tenant).ledger.verify()
        checked.see(found.ok, tenant, found.position, found.reason)
    return [checked]


def _answered(books: Iterable[Book]) -> Checked:
    checked = Checked("a call ended as it may: answered, refused for its reason, or lost with a process")
    for book in books:
        for deed in book.deeds:
            checked.see(deed.op != "fault", book.worker.name, deed.what, deed.got)
    return checked


def _logs(books: Iterable[Book]) -> Checked:
    """With an idempotency key: versions count up one by one, each with the value that was answered for it."""
    checked = Checked("idempotent writes: there once, versions count up")
    for book in books:
        for key, deeds in _by(book.of("log"), "key").items():
            revisions = {one.version: one.value for one in book.scope.history(key)}
            answered = [deed for deed in deeds if deed.outcome == "answered"]
            for deed in answered:
                value = revisions.get(deed.got["version"])
                checked.see(value is not None and value["n"] == deed.n, key, deed.n, deed.got, value)
            for one, other in pairwise(answered):
                checked.see(one.got["version"] < other.got["version"], key, one.n, other.n, "did not count up")
            written = Counter(value["n"] for value in revisions.values())
            checked.see(not written or max(written.values()) == 1, key, "was written twice for one call")
            checked.see(set(written) <= {deed.n for deed in deeds}, key, "has a value that no one wrote")
    return checked


def _written_once(books: Iterable[Book]) -> Checked:
    """Without any means to repeat: there when answered, maybe there when in doubt, never there when not sent."""
    checked = Checked("plain writes: there when answered, gone when deleted, absent when never sent")
    for book in books:
        there = {fact.key: fact.value["n"] for fact in book.scope.list(f"once.{book.worker.name}")}
        deleted = {deed.what["key"] for deed in book.of("delete") if deed.outcome == "answered"}
        maybe_deleted = {deed.what["key"] for deed in book.of("delete")}
        for deed in book.of("once"):
            key = deed.what["key"]
            found = there.get(key)
            if key in deleted or deed.outcome == "unsent":
                checked.see(found is None, key, deed.outcome, "should not be there")
            elif deed.outcome == "answered" and key not in maybe_deleted:
                checked.see(found == deed.n, key, "was answered and is not there")
            else:
                checked.see(found in (None, deed.n), key, found)
    return checked


def _pairs(books: Iterable[Book]) -> Checked:
    checked = Checked("batches: both facts or none")
    for book in books:
        deeds = book.of("pair")
        if not deeds:
            continue
        left, right = (
            [one.value["n"] for one in book.scope.history(f"pair.{book.worker.name}.{side}")]
            for side in ("left", "right")
        )
        checked.see(left == right, book.worker.name, "the two sides differ")
        for deed in deeds:
            count = left.count(deed.n)
            checked.see(count == 1 or (count == 0 and deed.outcome != "answered"), book.worker.name, deed.n, count)
    return checked


def _races(books: Iterable[Book]) -> Checked:
    """Of all who saw a version, one wins: no version was answered to two, and each holds what its winner wrote."""
    checked = Checked("compare-and-set: one winner of each version")
    for person in PERSONS:
        mine = [book for book in books if book.worker.person == person]
        revisions = mine[0].scope.history("shared.counter")
        versions = [one.version for one in revisions]
        checked.see(versions == list(range(1, len(versions) + 1)), person.sign, "versions do not count up")
        written = {(one.value["by"], one.value["n"]): one.version for one in revisions}
        checked.see(len(written) == len(revisions), person.sign, "one call won twice")
        for deed in (deed for book in mine for deed in book.of("race")):
            version = written.get((deed.by, deed.n))
            if deed.outcome == "answered":
                kept = version == deed.got["version"] == deed.what["expect"] + 1
            else:
                kept = version is None or (deed.outcome == "doubtful" and version == deed.what["expect"] + 1)
            checked.see(kept, deed.by, deed.n, deed.outcome, deed.got, "the version is", version)
    return checked


def _refused(books: Iterable[Book]) -> Checked:
    """What was refused is nowhere: not in a fact, not in its history."""
    checked = Checked("what was refused is not there")
    for book in books:
        for deed in book.of("refused"):
            checked.see(deed.outcome != "answered", book.worker.name, deed.n, "was not refused")
        checked.see(not book.scope.list(f"refused.{book.worker.name}"), book.worker.name, "a refused key is there")
        checked.see(NEVER not in _text(one.value for one in book.scope.history(BOAT)), book.worker.name, BOAT)
    return checked


def _notes(books: Iterable[Book]) -> Checked:
    checked = Checked("entries: there once when remembered, gone when forgotten or replaced")
    for person in PERSONS:
        mine = [book for book in books if book.worker.person == person]
        scope = mine[0].scope
        there = Counter(str(one.content) for one in scope.entries(collection=NOTES))
        berths = Counter(str(one.content) for one in scope.entries(collection=BERTHS))
        for book in mine:
            forgotten = {deed.what["content"] for deed in book.of("forget")}
            for deed in book.of("note"):
                content = deed.what["content"]
                wanted = {0} if content in forgotten else {1} if deed.outcome == "answered" else {0, 1}
                checked.see(there[content] in wanted, book.worker.name, deed.n, deed.outcome, there[content])
            for key, deeds in _by(book.of("keyed"), "key").items():
                newest = {deed.what["content"] for deed in _last_answered(deeds)}
                found = [deed.what["content"] for deed in deeds if there[deed.what["content"]]]
                checked.see(len(found) == 1 and found[0] in newest, book.worker.name, key, found)
            for deed in book.of("machine"):
                count = berths[deed.what["content"]]
                checked.see(count == 1 or (count == 0 and deed.outcome != "answered"), deed.by, deed.n, count)
    return checked


def _blocks(books: Iterable[Book]) -> Checked:
    checked = Checked("blocks: the text that was acknowledged last is there")
    for book in books:
        deeds = book.of("block")
        if not deeds:
            continue
        blocks = book.memory.scope(user=book.worker.person.user, agent=book.worker.name).blocks
        block = blocks.get("core")
        allowed = {deed.what["text"] for deed in _last_answered(deeds)}
        checked.see(block is not None and block.content in allowed, book.worker.name, block, allowed)
        texts = [one.value for one in blocks.history("core")]
        checked.see(len(set(texts)) == len(texts), book.worker.name, "a text was written twice")
    return checked


def _conversations(books: Iterable[Book]) -> Checked:
    checked = Checked("chat: every message that was answered is there once, with its answer")
    for book in books:
        for conversation, deeds in _by(book.of("chat"), "conversation").items():
            parts = read_conversation(book.memory, book.worker.person.user, conversation).parts
            said = Counter(part.text for part in parts if part.kind == "user")
            replies = [part.text for part in parts if part.kind == "agent_text"]
            for deed in deeds:
                message = deed.what["message"]
                answers = sum(one.startswith(f"You said: {message}") for one in replies)
                if deed.outcome == "answered":
                    kept = said[message] == 1 and answers == 1 and deed.got["right"]
                else:
                    kept = said[message] <= 1 and answers <= 1
                checked.see(kept, conversation, deed.n, deed.outcome, said[message], answers)
    return checked


def _sleep(memory: memoranda.Memory, books: Iterable[Book]) -> Checked:
    """Every conversation became memory; of all the places that a person named, one is left."""
    checked = Checked("sleep-time: every conversation consolidated, what it taught is there once")
    for tenant in dict.fromkeys(person.tenant for person in PERSONS):
        there = memory.in_tenant(tenant)
        jobs = {str(job.scope): job for job in sleep_jobs(there)}
        for one in list_conversations(there):
            job = next((job for scope, job in jobs.items() if scope.endswith(one.id)), None)
            done = job is not None and job.state == "done" and job.done >= one.last_seq
            checked.see(done, tenant, one.id, one.last_seq, job and (job.state, job.done, job.error))
    for person in PERSONS:
        mine = [book for book in books if book.worker.person == person]
        block = mine[0].scope.blocks.get("core")
        said = {deed.what["message"][len("I live in ") : -1] for book in mine for deed in book.of("chat")}
        lines = block.content.splitlines() if block else []
        places = [line.removeprefix("- Lives in ") for line in lines]
        checked.see(len(places) == 1 and places[0] in said if said else not lines, person.sign, lines)
    return checked


def _sessions(books: Iterable[Book], clients: Mapping[Person, memoranda.Client]) -> Checked:
    checked = Checked("ABL agents: a turn is there as a whole or not at all")
    for book in books:
        for deed in book.of("agent"):
            session = clients[book.worker.person].sessions.get(deed.what["session"])
            heard = [turn.input for turn in session.turns if turn.input is not None]
            if deed.outcome == "answered":
                kept = heard == [deed.what["said"]] and session.status == "completed"
            else:
                kept = heard in ([], [deed.what["said"]])
            checked.see(kept, deed.by, deed.n, deed.outcome, heard, session.status)
        berths = [one.value for one in book.scope.history("berth")]
        checked.see(all(str(one).startswith(book.worker.person.sign) for one in berths), book.worker.name, "berth")
    return checked


def _runs(books: Iterable[Book], clients: Mapping[Person, memoranda.Client]) -> Checked:
    checked = Checked("machines and workflows: what was answered has ended, its chain is whole, its record is there")
    for book in books:
        boats = Counter(str(one.value["name"]) for one in book.scope.history(BOAT))
        for deed in book.of("machine", "workflow"):
            if deed.outcome == "answered":
                verified = clients[book.worker.person].runs.verify(deed.got["run"])
                checked.see(verified.ok and deed.got["status"] == "completed", deed.by, deed.n, deed.got, verified)
            if deed.op == "workflow":
                count = boats[deed.what["boat"]]
                checked.see(count == 1 or (count == 0 and deed.outcome != "answered"), deed.by, deed.n, count)
    return checked


def _apart(memory: memoranda.Memory, books: Iterable[Book]) -> Checked:
    """What belongs to a person contains their mark and no one else's; so does what was recalled."""
    checked = Checked("memory of one person never shows up for another")
    signs = {person.sign for person in PERSONS}
    for person in PERSONS:
        scope = memory.in_tenant(person.tenant).scope(user=person.user)
        foreign = signs - {person.sign}
        texts = (
            *(fact.value for fact in scope.list()),
            *(one.content for name in (NOTES, BERTHS) for one in scope.entries(collection=name)),
            *(one.content for one in scope.blocks.list(scope="all")),
        )
        for value in texts:
            text = _text([value])
            checked.see(not any(sign in text for sign in foreign), person.sign, text)
    for book in books:
        for deed in book.of("read", "recall", "machine"):
            if deed.outcome == "answered":
                checked.see(not deed.got["foreign"], deed.by, deed.n, deed.got["foreign"])
    return checked


def _inspected(memory: memoranda.Memory) -> Checked:
    checked = Checked("`memory.inspect()` finds nothing")
    for one in memory.inspect():
        checked.see(one.ok, one.what, one.detail)
    return checked


def _last_answered(deeds: list[Deed]) -> list[Deed]:
    """Return the last deed that was answered, and those after it, which may have happened."""
    last = max((place for place, deed in enumerate(deeds) if deed.outcome == "answered"), default=0)
    return deeds[last:]


def _by(deeds: Iterable[Deed], name: str) -> dict[str, list[Deed]]:
    grouped: dict[str, list[Deed]] = defaultdict(list)
    for deed in deeds:
        grouped[deed.what[name]].append(deed)
    return grouped


def _text(values: Iterable[object]) -> str:
    return json.dumps(list(values), ensure_ascii=False, default=str)
