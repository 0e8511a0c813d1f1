"""G32, G33, G36, G39 on real files: what is erased is gone, provably, down to the bytes; what is deleted is on record.

Every assertion that something is absent is paired with one that it was present before and that a neighbour still is:
a store that kept nothing at all would fail each of these tests.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

import memoranda
from memoranda import Memory, Scope
from memoranda.model.value import encode, hash_content
from memoranda.store.sqlite import SqliteStore
from memoranda.testing import FakeClock, FaultyDisk

# bytes on disk


def files_of(path: str) -> list[Path]:
    return [file for file in (Path(path), Path(path + "-wal"), Path(path + "-shm")) if file.exists()]


def found_in(path: str, token: str) -> bool:
    """Say whether a text is anywhere in the bytes of the database, its log or its index."""
    return any(token.encode() in file.read_bytes() for file in files_of(path))


@dataclass
class Canaries:
    """High-entropy texts, by where they were put."""

    tokens: dict[str, str] = field(default_factory=dict[str, str])

    def new(self, where: str) -> str:
        self.tokens[where] = secrets.token_hex(16)
        return self.tokens[where]

    def seen(self, path: str) -> set[str]:
        return {where for where, token in self.tokens.items() if found_in(path, token)}


def plant(memory: Memory, user: str) -> Canaries:
    """Leave a canary of a user in each kind of memory that holds content."""
    canaries = Canaries()
    own = memory.scope(user=user)
    own.set("plain", canaries.new("value"))
    own.set("name", canaries.new("history"))
    own.set("name", "replaced")
    own.set("gone", canaries.new("deleted"))
    own.delete("gone")
    own.set("large", canaries.new("overflow page") + "x" * 20_000)
    memory.scope(user=user, agent="mail").set("draft", canaries.new("below"))
    own.set("once", canaries.new("idempotent write"), idempotency_key=canaries.new("idempotency key"))
    own.set("labelled", 1, domain=canaries.new("domain"), source=canaries.new("source"))
    own.session(f"session-{user}").set("step", canaries.new("session"))
    own.session(f"ended-{user}").set("step", canaries.new("ended session"))
    memory.scope(session=f"ended-{user}").end()
    agent = memory.acting_as("agent:a")
    with pytest.raises(memoranda.ApprovalRequired):
        agent.scope(user=user).set("asked", canaries.new("pending approval"))
    with pytest.raises(memoranda.ApprovalRequired), agent.batch() as batch:
        batch.set(agent.scope(project="shared"), "first", 1)
        batch.set(agent.scope(user=user), "second", canaries.new("approval that began elsewhere"))
    with memory.batch() as batch:
        batch.set(own, "batched", canaries.new("batch"))
    return canaries


@pytest.fixture
def memory(path: str) -> Iterator[Memory]:
    with memoranda.open(path, ledger_text=True, busy_timeout=0.2) as memory:
        memory.permissions.grant("agent:a", "memory.write", level="approve")
        yield memory


# G32: ids and versions are not used again, and an erasure can be proved without what it erased


def test_g32_ids_and_versions_are_never_used_again(memory: Memory):
    ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
    used = [ada.set("name", number) for number in range(5)]
    other = ada.set("other", 1)
    kept = bob.set("name", "Bob")
    memory.erase(user="ada")
    again = ada.set("name", "again")
    assert again.id not in {each.id for each in (*used, other)}
    assert again.version > max(each.version for each in used)
    with pytest.raises(memoranda.Conflict):
        ada.set("name", "late", expect=used[-1].version)
    memory.erase(user="ada")
    memory.erase(user="ada")
    assert ada.set("name", "third").version > again.version
    assert bob.set("name", "Bob!", expect=kept.version).id == kept.id  # the neighbour goes on as before


def test_g32_versions_of_an_owned_session_are_never_used_again(memory: Memory):
    session = memory.scope(user="ada").session("s1")
    used = [session.set("step", number) for number in range(5)]
    memory.erase(user="ada")
    again = memory.scope(user="bob").session("s1").set("step", "again")
    assert again.id not in {each.id for each in used}
    assert again.version > used[-1].version


def test_g32_versions_of_an_ended_session_are_never_used_again(memory: Memory):
    session = memory.scope(user="ada").session("s1")
    used = [session.set("step", number) for number in range(5)]
    session.end()
    memory.erase(session="s1")
    again = memory.scope(user="ada").session("s1").set("step", "again")
    assert again.id not in {each.id for each in used}
    assert again.version > used[-1].version


def test_g32_a_record_that_moves_takes_no_version_that_was_erased(memory: Memory):
    ada = memory.scope(user="ada")
    used = [ada.set("after", {}) for _ in range(3)]
    memory.erase(user="ada")
    memory.definitions.create(name="Moves", slug="before", schema={"type": "object"})
    ada.set("before", {})
    memory.definitions.update("before", slug="after")
    moved = ada.get("after")
    assert moved is not None
    assert moved.version > used[-1].version


def test_g32_an_erasure_is_proved_by_the_ledger_without_the_text(memory: Memory, path: str):
    canaries, sibling = plant(memory, "ada"), plant(memory, "bob")
    anchor = memory.ledger.anchor()
    receipt = memory.erase(user="ada")
    (event,) = [event for event in memory.ledger.events() if event.effect == "erase"]
    assert (event.resource, event.scope, event.position) == (receipt.id, "user:ada", receipt.position)
    assert event.detail["removed"] == receipt.removed
    assert min(receipt.removed[kind] for kind in ("facts", "revisions", "sessions", "approvals")) > 0
    assert memory.ledger.verify(anchor=anchor).ok  # the erased data was not part of the chain
    assert all(finding.ok for finding in memory.inspect())
    text = encode(memory.ledger.events()).decode()
    assert not [where for where, token in canaries.tokens.items() if token in text]
    assert sibling.tokens["value"] in text  # bob's ledger text is kept


@pytest.mark.parametrize(
    "subject",
    [Scope.of(user="ada"), Scope.of(project="p"), Scope.of(session="s"), Scope.of(user="ada", agent="mail")],
    ids=str,
)
def test_g32_after_an_erasure_the_ledger_does_not_confirm_a_guess(subject: Scope, memory: Memory, path: str):
    """A hash of `"yes"` is guessed at once, unless the key it was taken with is gone."""

    def confirmed(position: int, guess: Any) -> bool:
        content = memory.ledger.events(start=position, limit=1)[0].content
        with closing(apsw.Connection(path)) as connection:
            secrets = [bytes(key) for (key,) in connection.execute("SELECT key FROM content_keys")]
        return any(hash_content(key, encode(guess)) == content for key in secrets)

    memory.scope(user="bob").set("agrees", "yes")
    kept = memory.ledger.anchor().length
    memory.at(subject).set("agrees", "yes")
    position = memory.ledger.anchor().length
    assert confirmed(position, "yes") and not confirmed(position, "no")
    memory.erase(**dict(subject.parts))
    assert confirmed(kept, "yes")  # the neighbour's still can be checked
    assert not confirmed(position, "yes")


def test_g32_an_old_export_does_not_bring_back_what_was_erased(memory: Memory, tmp_path: Path):
    ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
    before = ada.set("name", "Ada")
    memory.scope(user="ada", agent="mail").set("draft", "text")
    bob.set("name", "Bob")
    assert memory.export(tmp_path / "export.jsonl") == 3
    memory.erase(user="ada")
    bob.delete("name")
    memory.definitions.create(name="Other", slug="other", schema={"type": "object"})
    imported = memory.import_file(tmp_path / "export.jsonl")
    assert (imported.erased, imported.kept, imported.written) == (2, 1, 0)
    assert ada.list() == [] and memory.scope(user="ada", agent="mail").list() == []
    fresh = ada.set("name", "new")  # she may come back herself
    assert fresh.version > before.version
    # The positive control: into a memory without erasures, the same file writes everything.
    with memoranda.open(":memory:") as elsewhere:
        assert elsewhere.import_file(tmp_path / "export.jsonl").written == 3


def test_g32_an_old_export_does_not_bring_back_an_owned_session(memory: Memory, tmp_path: Path):
    memory.scope(user="ada").session("ada-s").set("step", "ada's")
    memory.scope(user="bob").session("bob-s").set("step", "bob's")
    assert memory.export(tmp_path / "export.jsonl") == 2
    memory.erase(user="ada")
    assert memory.scope(session="ada-s").list() == []
    memory.import_file(tmp_path / "export.jsonl")
    assert memory.scope(session="bob-s").value("step") == "bob's"
    assert memory.scope(session="ada-s").list() == []


@pytest.mark.parametrize("back", [0, -1, -3600], ids=["standing", "a second back", "an hour back"])
def test_g32_an_old_export_stays_erased_whatever_the_clock_says(back: float, tmp_path: Path):
    """Writes are stamped after each other even when the clock is not; an erasure must come after them all."""
    clock = FakeClock()
    with memoranda.open(str(tmp_path / "memory.db"), clock=clock) as memory:
        ada = memory.scope(user="ada")
        ada.set("name", "Ada")
        ada.set("name", "Ada L.")
        assert memory.export(tmp_path / "export.jsonl") == 1
        clock.advance(back)
        memory.erase(user="ada")
        clock.advance(7200)
        imported = memory.import_file(tmp_path / "export.jsonl")
        assert ada.list() == []
        assert (imported.erased, imported.written) == (1, 0)


@pytest.mark.parametrize("ahead", [0, 3600], ids=["same clock", "file from an hour ahead"])
def test_g32_importing_a_file_twice_writes_it_once(ahead: float, tmp_path: Path):
    clock = FakeClock()
    clock.advance(ahead)
    with memoranda.open(str(tmp_path / "theirs.db"), clock=clock) as theirs:
        theirs.scope(user="ada").set("name", "Ada")
        assert theirs.export(tmp_path / "export.jsonl") == 1
    clock.advance(-ahead)
    with memoranda.open(str(tmp_path / "ours.db"), clock=clock) as ours:
        assert ours.import_file(tmp_path / "export.jsonl").written == 1
        assert ours.import_file(tmp_path / "export.jsonl").written == 0
        fact = ours.scope(user="ada").get("name")
        assert fact is not None and (fact.value, fact.version) == ("Ada", 1)


def test_g32_ledger_and_state_agree_about_a_session_that_nobody_owns_any_more(memory: Memory):
    ada = memory.scope(user="ada")
    ada.session("s1").set("step", 1)
    memory.erase(user="ada")
    ownerless = memory.scope(session="s1")
    ownerless.set("step", 2)  # this session was not declared as ada's
    memory.erase(user="ada")
    assert ownerless.value("step") == 2
    assert [finding for finding in memory.inspect() if not finding.ok] == []


# G33: the bytes


def test_g33_erased_text_is_gone_from_the_bytes(path: str, memory: Memory):
    ada, bob = plant(memory, "ada"), plant(memory, "bob")
    assert ada.seen(path) == set(ada.tokens)  # the positive control: each canary was in the bytes
    receipt = memory.erase(user="ada")
    assert receipt.scrubbed
    assert ada.seen(path) == set()
    # The neighbour keeps everything. Only of what ended by itself nothing need be left.
    kept = set(bob.tokens) - {"ended session"}
    assert kept <= bob.seen(path)
    memory.close()
    assert ada.seen(path) == set()
    assert kept <= bob.seen(path)
    with memoranda.open(path, ledger_text=True) as reopened:
        assert reopened.scope(user="bob").value("plain") == bob.tokens["value"]
        assert reopened.scope(user="ada").list() == []


def test_g33_an_erasure_reaches_sessions_of_sessions(path: str, memory: Memory):
    token, sibling = secrets.token_hex(16), secrets.token_hex(16)
    memory.scope(user="ada").session("outer").session("inner").set("step", token)
    memory.scope(user="bob").session("outer-b").session("inner-b").set("step", sibling)
    assert found_in(path, token) and found_in(path, sibling)
    memory.erase(user="ada")
    assert memory.scope(session="inner-b").value("step") == sibling
    assert memory.scope(session="inner").list() == []
    assert not found_in(path, token)


def test_g33_after_an_erasure_a_request_does_not_confirm_a_guess(memory: Memory):
    """A batch that began in another scope is remembered there, by a hash that covers the erased value too."""

    def ask(user: str, guess: str) -> str:
        try:
            with memory.batch(idempotency_key=f"of {user}") as batch:
                batch.set(memory.scope(project="shared"), "count", 1)
                batch.set(memory.scope(user=user), "agrees", guess)
        except memoranda.MemorandaError as error:
            return error.code
        return "done"

    for user in ("ada", "bob"):
        assert ask(user, "yes") == ask(user, "yes") == "done"
        assert ask(user, "no") == "idempotency_mismatch"
    memory.erase(user="ada")
    assert ask("ada", "no") == ask("ada", "yes")  # right or wrong, the answer is the same
    assert (ask("bob", "yes"), ask("bob", "no")) == ("done", "idempotency_mismatch")


def test_g33_an_erasure_that_was_approved_reaches_the_bytes_too(path: str, memory: Memory):
    token, sibling = secrets.token_hex(16), secrets.token_hex(16)
    memory.scope(user="ada").set("name", token)
    memory.scope(user="bob").set("name", sibling)
    memory.permissions.grant("agent:a", "memory.erase", level="approve")
    with pytest.raises(memoranda.ApprovalRequired) as asked:
        memory.acting_as("agent:a").erase(user="ada")
    assert found_in(path, token)  # nothing happened yet
    decided = memory.approvals.approve(asked.value.approval)
    assert decided.result.removed["facts"] == 1
    assert found_in(path, sibling)
    assert memory.scope(user="ada").list() == []
    assert decided.result.scrubbed and not found_in(path, token)


READER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM facts").fetchall()
print("reading", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
connection.close()
"""


def test_g33_a_reader_elsewhere_is_told_of_and_scrub_finishes_the_job(
    path: str, memory: Memory, run_child: Callable[..., Any]
):
    token, sibling = secrets.token_hex(16), secrets.token_hex(16)
    memory.scope(user="ada").set("name", token)
    memory.scope(user="bob").set("name", sibling)
    reader = run_child(READER, path)
    assert reader.hear() == "reading"
    receipt = memory.erase(user="ada")
    assert not receipt.scrubbed
    assert memory.scope(user="ada").list() == []  # it is erased for every reader from now on, only not in the bytes
    assert found_in(path, token)  # which is what the receipt says
    assert not memory.scrub()
    reader.say("enough")
    reader.finish()
    assert memory.scrub()
    assert not found_in(path, token)
    assert found_in(path, sibling)
    assert memory.ledger.verify().ok


# G36: an idempotency key, another process, after a restart

SENDER = """
import sys, memoranda
with memoranda.open(sys.argv[1]) as memory:
    ada = memory.scope(user="ada")
    fact = ada.set("order", {"item": 1}, idempotency_key="order-1")
    with memory.batch(idempotency_key="batch-1") as batch:
        batch.set(ada, "left", 1)
        batch.set(ada, "right", 2)
    deleted = ada.delete("left", idempotency_key="delete-1")
    print(fact.id, fact.version, [each.version for each in batch.results], deleted, memory.ledger.anchor().length)
"""


def test_g36_a_request_sent_again_after_a_restart_is_not_done_again(path: str, run_child: Callable[..., Any]):
    first = run_child(SENDER, path).finish()
    again = run_child(SENDER, path).finish()
    assert again == first  # the same ids, the same versions, and not one event more
    with memoranda.open(path) as memory:
        ada = memory.scope(user="ada")
        assert [revision.version for revision in ada.history("order")] == [1]
        assert [revision.change for revision in ada.history("left")] == ["set", "deleted"]
        with pytest.raises(memoranda.IdempotencyMismatch):
            ada.set("order", {"item": 2}, idempotency_key="order-1")
        # The positive control: under a fresh key the same request is a second write.
        assert ada.set("order", {"item": 1}, idempotency_key="order-2").version == 2


# G39: every deletion is on record


def test_g39_every_deletion_is_in_the_ledger(path: str):
    clock = FakeClock()
    with memoranda.open(path, clock=clock) as memory:
        for number in range(3):
            memory.permissions.grant("agent:janitor", ("memory", "definitions", "upkeep")[number])
        epoch = 3
        ada = memory.scope(user="ada")
        memory.definitions.create(name="Profile", slug="profile", schema={"type": "object"})
        facts = {key: ada.set(key, {}) for key in ("deleted", "batched", "profile", "kept")}
        facts["swept"] = ada.set("swept", {}, ttl="1s")
        session = ada.session("s")
        session.set("step", 1)
        before = memory.ledger.anchor().length

        janitor = memory.acting_as("agent:janitor", door="rest")
        own = janitor.scope(user="ada")
        assert own.delete("deleted")
        with janitor.batch() as batch:
            batch.delete(own, "batched")
        assert janitor.definitions.delete("profile") == 1
        assert janitor.scope(session="s").end()["facts"] == 1
        clock.advance(1)
        assert janitor.sweep().facts == 1
        assert [fact.key for fact in ada.list()] == ["kept"]
        receipt = janitor.erase(user="ada")
        events = memory.ledger.events(start=before + 1)
        assert memory.ledger.verify().ok

    ada_, fact = "user:ada", facts
    said = [(event.effect, event.scope, event.key, event.resource) for event in events]
    assert said[:3] == [
        ("delete_fact", ada_, "deleted", fact["deleted"].id),
        ("delete_fact", ada_, "batched", fact["batched"].id),
        ("delete_fact", ada_, "profile", fact["profile"].id),
    ]
    assert [each[:2] for each in said[3:]] == [
        ("delete_definition", ""),
        ("end_scope", "session:s"),
        ("expire_fact", ada_),
        ("erase", ada_),
    ]
    assert said[5] == ("expire_fact", ada_, "swept", fact["swept"].id)
    assert said[6][3] == receipt.id
    for event in events:
        assert (event.actor, event.door, event.epoch, event.decision) == ("agent:janitor", "rest", epoch, "allow")
        assert event.resource or event.effect == "end_scope"  # a session is named by its scope


def test_g39_a_deletion_that_did_not_happen_is_not_in_the_ledger(memory: Memory):
    ada = memory.scope(user="ada")
    kept = ada.set("kept", 1)
    before = memory.ledger.anchor()
    assert not ada.delete("absent")
    with pytest.raises(memoranda.Conflict):
        ada.delete("kept", expect=kept.version + 1)
    assert memory.sweep().facts == 0
    assert memory.ledger.anchor() == before
    assert ada.delete("kept")  # the positive control
    assert memory.ledger.tail(1)[0].effect == "delete_fact"


def test_g39_an_expired_fact_that_an_import_replaces_is_in_the_ledger(tmp_path: Path):
    """An expiry is recorded, whether a write, a sweep or an import discovers it."""
    clock = FakeClock()
    with memoranda.open(str(tmp_path / "other.db"), clock=clock) as other:
        clock.advance(60)
        other.scope(user="ada").set("name", "from elsewhere")
        other.export(tmp_path / "export.jsonl")
    clock.advance(-60)
    with memoranda.open(str(tmp_path / "memory.db"), clock=clock) as memory:
        ada = memory.scope(user="ada")
        short = ada.set("name", "short", ttl="1s")
        clock.advance(120)
        assert ada.get("name") is None
        assert memory.import_file(tmp_path / "export.jsonl").written == 1
        assert ada.value("name") == "from elsewhere"
        events = [(event.effect, event.resource) for event in memory.ledger.events()]
        assert ("expire_fact", short.id) in events
        assert [revision.change for revision in ada.history("name")] == ["set", "expired", "set"]


# what was undone was never there


def test_rules_of_an_import_that_was_undone_do_not_hold(memory: Memory, tmp_path: Path):
    """An import makes its definitions and then fails: neither they nor anything compiled from them may stay."""
    strict = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with memoranda.open(":memory:") as elsewhere:
        elsewhere.definitions.create(name="Undone", slug="undone", schema=strict)
        elsewhere.scope(user="ada").set("undone", {"n": 1})
        elsewhere.export(tmp_path / "export.jsonl")
    bad = (tmp_path / "export.jsonl").read_bytes().replace(b'"payload":{"n":1}', b'"payload":{"n":"x"}')
    with pytest.raises(memoranda.SchemaViolation):
        memory.import_lines(bad.splitlines(), source="bad")
    assert memory.definitions.list() == []

    memory.definitions.create(name="Real", slug="real", schema=strict)
    ada = memory.scope(user="ada")
    assert ada.set("undone", {"n": "free"}).version == 1  # no definition speaks about it
    assert ada.set("real", {"n": 1}).version == 1
    with pytest.raises(memoranda.SchemaViolation):
        ada.set("real", {"n": "x"})


def test_a_grant_that_was_undone_grants_nothing(path: str):
    """A grant and a write under it share one commit, and the disk is full: afterwards nothing is granted."""
    with FaultyDisk() as disk:
        store = SqliteStore(path, vfs=disk.vfs)
        with Memory(store) as memory:
            agent = memory.acting_as("agent:a").scope(user="ada")
            with pytest.raises(memoranda.Denied):
                agent.set("name", "before")
            answers: dict[str, Any] = {}

            def keep(name: str, call: Callable[[], Any]) -> threading.Thread:
                def run() -> None:
                    try:
                        answers[name] = call()
                    except memoranda.MemorandaError as error:
                        answers[name] = error

                return threading.Thread(target=run)

            entered, leave = threading.Event(), threading.Event()

            def hold_the_writer(rows: Any) -> None:
                entered.set()
                leave.wait()

            holding = keep("hold", lambda: store.transact(hold_the_writer))
            granting = keep("grant", lambda: memory.permissions.grant("agent:a", "memory.write"))
            writing = keep("write", lambda: agent.set("name", "under the grant"))
            holding.start()
            entered.wait()
            granting.start()
            wait_until(lambda: waiting(store) == 1)
            writing.start()
            wait_until(lambda: waiting(store) == 2)
            disk.fail(at=1, persistent=True, error="full")
            leave.set()
            for thread in (holding, granting, writing):
                thread.join()
            disk.heal()
            assert isinstance(answers["grant"], memoranda.Full) and isinstance(answers["write"], memoranda.Full)
            assert memory.permissions.list() == []

            memory.permissions.grant("agent:b", "memory.write")  # the next change of permissions
            with pytest.raises(memoranda.Denied):
                agent.set("name", "without any grant")
            assert memory.acting_as("agent:b").scope(user="ada").set("name", "allowed").version == 1


def waiting(store: SqliteStore) -> int:
    """How many works wait for the next commit: the one thing here that no door shows."""
    return len(store._writer._queue)  # pyright: ignore[reportPrivateUsage]


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it did not come to that")
