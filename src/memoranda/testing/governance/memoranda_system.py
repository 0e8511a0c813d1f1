"""Memoranda as the system that is measured, through its public Python API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import memoranda
from memoranda.agent.prompt import unescape
from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Conflict, NotFound, UsageError
from memoranda.errors import Refused as GateRefused
from memoranda.model.effect import Approval
from memoranda.model.lineage import Tainted
from memoranda.model.policy import Policy, Quota, Rule
from memoranda.model.trust import ORIGIN_KINDS, RANK_OF, check_origin
from memoranda.model.trust import Origin as Stamp
from memoranda.testing.fakes import FakeClock
from memoranda.testing.governance.system import (
    Claim,
    Containment,
    Contest,
    Deletion,
    Found,
    MemorySystem,
    Message,
    Origin,
    ParsedPrompt,
    Refused,
    Rollback,
    Writer,
)

_WRITER = Policy.of(allow=("memory.read", "memory.write"))
_REVIEWER = Policy.of(allow=("memory", "approvals"))
_DELETIONS = frozenset({"delete_fact", "forget", "erase", "expire_fact", "expire_entry", "end_scope"})
_MEMORY = re.compile(r"<memory [^>]*>\n(.*?)\n</memory>", re.DOTALL)
_LEARNED, _MESSAGES = "statements", "conversations"


class MemorandaSystem(MemorySystem):
    """Memoranda on a SQLite file, with its default embedder and policies."""

    name = "Memoranda"
    version = memoranda.__version__

    def __init__(self, folder: Path) -> None:
        """Open a new database in a folder."""
        super().__init__(folder)
        self._clock = FakeClock()
        self._memory = self._open()
        self._grants: dict[tuple[str, str], str] = {}
        self._limited: dict[tuple[str, str], Memory] = {}
        self._undos: dict[str, str] = {}

    def _open(self) -> Memory:
        return memoranda.open(self.folder / "memory.db", clock=self._clock)

    def close(self) -> None:
        """Close the database."""
        self._memory.close()

    def _place(self, user: str, writer: Writer = "user") -> ScopedMemory:
        memory = self._memory
        if writer != "user":
            memory = memory.acting_as(f"{writer}:x", policy=_WRITER, origin=writer)
        try:
            return memory.scope(user=user)
        except UsageError as error:
            raise Refused(error.message) from error

    # writing and reading

    def write(
        self,
        user: str,
        text: str,
        *,
        key: str = "",
        writer: Writer = "user",
        metadata: Mapping[str, str] | None = None,
        ttl: int | None = None,
        request: str = "",
        sources: Sequence[str] = (),
        confirm: bool = False,
    ) -> str:
        """Set a fact under a key, or remember an entry."""
        place = self._place(user, writer)
        options: dict[str, Any] = {"ttl": ttl}
        options |= {"derived_from": list(sources)} if sources else {}
        options |= {"requires_confirmation": True} if confirm else {}
        self._clock.advance(1)
        if key:
            _perform(lambda: place.set(key, text, **options))
            return f"fact:{place.scope.path}#{key}"
        options |= {"metadata": metadata}
        if request:
            with place.batch(idempotency_key=request) as batch:
                batch.remember(text, collection="notes", **options)
            done = batch.results[0]
            assert isinstance(done, memoranda.Remembered)
        else:
            done = _perform(lambda: place.remember(text, collection="notes", **options))
        if not done.stored and not done.duplicate:
            raise Refused("it was not stored")
        return done.ref

    def read(self, user: str, key: str) -> str | None:
        """Return the value of a fact."""
        return self._place(user).value(key)

    def search(self, user: str, query: str, limit: int = 5) -> list[Found]:
        """Recall over everything."""
        return [
            Found(match.ref, str(match.content), match.valid_from.isoformat(), _text_of(match.valid_to))
            for match in self._place(user).recall(query, limit=limit)
        ]

    def listing(self, user: str) -> list[str]:
        """Return facts and entries, without the messages of conversations."""
        place = self._place(user)
        entries = [str(entry.content) for entry in place.entries() if entry.collection != _MESSAGES]
        return [*entries, *(str(fact.value) for fact in place.list())]

    def prompt(self, user: str, query: str, *, limit: int = 5, budget: int | None = None) -> str:
        """Return a context."""
        return self._place(user).context(query, limit=limit, budget=budget or 1_500).text

    def parse_prompt(self, prompt: str) -> ParsedPrompt:
        """Read a context back."""
        return ParsedPrompt(
            tuple(unescape(text) for text in _MEMORY.findall(prompt)), _MEMORY.sub("<memory></memory>", prompt)
        )

    def history(self, user: str, ref: str) -> list[str]:
        """Return the chain of an entry."""
        return [str(entry.content) for entry in self._place(user).entry_history(ref)]

    # correcting and removing

    def supersede(self, user: str, ref: str, text: str) -> str:
        """Supersede an entry."""
        self._clock.advance(1)
        done: memoranda.Superseded = _perform(lambda: self._place(user).supersede(ref, text))
        self._undos[done.ref] = done.undo
        return done.ref

    def forget(self, user: str, ref: str) -> None:
        """Forget by ref."""
        place = self._place(user)
        _perform(lambda: place.forget(ref))

    def forget_identifier(self, user: str, identifier: str) -> None:
        """Forget by identifier."""
        self._place(user).forget(identifier=identifier)

    def forget_about(self, user: str, about: str) -> None:
        """Forget by description."""
        self._place(user).forget(about=about)

    def erase(self, user: str) -> None:
        """Erase a user, and rewrite the file."""
        self._memory.erase(user=user)
        self._memory.scrub()

    def reject(self, user: str, text: str) -> None:
        """Reject a text."""
        self._clock.advance(1)
        self._place(user).reject(text)

    def retract(self, user: str, ref: str) -> None:
        """Reject what a ref names."""
        self._clock.advance(1)
        self._place(user).reject(ref)

    def probes(self, user: str, text: str) -> dict[str, bool | None]:
        """Return the leak probes."""
        return self._place(user).leak_probes(text).places

    # conversations

    def feed(self, user: str, messages: Sequence[Message], *, conversation: str = "c1") -> None:
        """Learn from a conversation."""
        self._clock.advance(1)
        said = [{"role": role, "content": text} for role, text in messages]
        self._place(user).learn(said, conversation=conversation)

    def claims(self, user: str) -> list[Claim]:
        """Return the statements, with the messages they were said in."""
        place = self._place(user)
        found: list[Claim] = []
        for entry in place.entries(collection=_LEARNED):
            messages = [place.entry(ref) for ref in entry.metadata.get("said_in", ())]
            found.append(Claim(entry.ref, str(entry.content), tuple(str(one.content) for one in messages if one)))
        return found

    def forget_source(self, user: str, text: str) -> None:
        """Forget the messages with this text."""
        place = self._place(user)
        for entry in place.entries(collection=_MESSAGES):
            if entry.content == text:
                place.forget(entry.ref)

    # copies

    def share(self, user: str, ref: str, to: str) -> str:
        """Copy a memory to another user."""
        return self._place(user).copy(ref, to=self._place(to).scope).ref

    def export(self, file: Path) -> None:
        """Export everything."""
        self._memory.export(file)

    def restore(self, file: Path) -> None:
        """Import an export."""
        self._clock.advance(1)
        _perform(lambda: self._memory.import_file(file))

    # time and upkeep

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self._clock.advance(seconds)

    def settle(self) -> None:
        """Wait for what is deferred."""
        self._memory.settle()

    def maintain(self) -> None:
        """Sweep, and do the sleep-time jobs that are due."""
        from memoranda.sleep import run_due, settle

        self._memory.settle()
        self._memory.sweep()
        settle(self._memory, delay=0)
        run_due(self._memory)

    def reindex(self) -> None:
        """Compute the vectors of every collection again, by way of another embedder, and drop what is in memory."""
        for holding in self._memory.collections.list():
            self._memory.collections.reembed(holding.name, "hashing:64")
            self._memory.collections.reembed(holding.name, holding.embedder.partition(":")[0])
        self.restart()

    def restart(self) -> None:
        """Close and open the file."""
        self._memory.close()
        self._memory = self._open()

    # authority and trust

    def origin(self, user: str, ref: str) -> Origin:
        """Read the stamp of a fact or an entry."""
        place = self._place(user)
        kind, _, name = ref.partition(":")
        found = place.get(name.partition("#")[2]) if kind == "fact" else place.entry(ref)
        assert found is not None, f"{ref} is not there"
        stamp: Stamp = found.origin
        return Origin(stamp.kind, RANK_OF[stamp.trust])

    def validate(self, user: str, ref: str, *, actor: str) -> None:
        """Validate as another principal."""
        prefix = actor.partition(":")[0]
        kind = check_origin(prefix) if prefix in ORIGIN_KINDS else None
        handle = self._memory.acting_as(actor, policy=Policy.of(allow=("memory",)), origin=kind)
        validate = handle.scope(user=user).validate
        _perform(lambda: validate(ref, reason="checked"))

    def corroboration(self, user: str, text: str) -> int:
        """Return the corroboration of the match that says so."""
        for match in self._place(user).recall(text, limit=5):
            if match.content == text:
                return match.corroboration
        return 0

    def conflicts(self, user: str) -> list[Contest]:
        """Return the conflicts."""
        return [Contest(str(one.current), str(one.proposed)) for one in self._memory.conflicts()]

    def _waiting(self) -> list[Approval]:
        return [one for one in self._memory.approvals.list() if one.status == "pending" and one.cause != "conflict"]

    def pending(self, user: str) -> list[str]:
        """Return what waits for a review or for confirmation."""
        return [one.id for one in self._waiting() if one.scope == f"user:{user}"]

    def release(self, user: str, held: str, *, actor: str) -> None:
        """Approve what waits."""
        reviewer = self._memory.acting_as(actor, policy=_REVIEWER)
        _perform(lambda: reviewer.approvals.approve(held, reason="it is right"))

    def allow(self, actor: str, user: str) -> None:
        """Grant reading and writing."""
        scope = self._place(user).scope
        self._grants[actor, user] = self._memory.permissions.grant(actor, "memory.write", scope=scope).id

    def disallow(self, actor: str, user: str) -> None:
        """Revoke the grant."""
        self._memory.permissions.revoke(self._grants.pop((actor, user)))

    def write_as(self, actor: str, user: str, text: str) -> str:
        """Remember as an actor under what is granted to them."""
        memory = self._limited.get((actor, user)) or self._memory.acting_as(actor)
        self._clock.advance(1)
        return _perform(lambda: memory.scope(user=user).remember(text, collection="notes")).ref

    def epoch(self, user: str) -> int:
        """Read the permission epoch of a scope."""
        return self._memory.permissions.epoch(self._place(user).scope)

    def limit_writes(self, actor: str, user: str, writes: int) -> None:
        """Give an actor a policy with a quota."""
        rules = (Rule("allow", "memory", self._place(user).scope),)
        policy = Policy(rules=rules, quota=Quota(writes=writes, per="1h"))
        self._limited[actor, user] = self._memory.acting_as(actor, policy=policy)

    # what happened

    def deletions(self) -> list[Deletion]:
        """Return the deletions in the ledger."""
        self._memory.settle()
        return [
            Deletion(event.resource or "", event.scope.removeprefix("user:"), event.actor, event.epoch)
            for event in self._memory.ledger.events()
            if event.effect in _DELETIONS and event.decision in ("allow", "approved")
        ]

    def rollbacks(self) -> list[Rollback]:
        """Return the rollbacks in the ledger."""
        self._memory.settle()
        listed = self._memory.ledger.rollbacks()
        return [Rollback(tuple(one.refs), tuple(_read(served) for served in one.dependants)) for one in listed]

    def audit(self) -> list[str]:
        """Return the events of the ledger."""
        self._memory.settle()
        return [repr(event) for event in self._memory.ledger.events()]

    def undo(self, token: object) -> None:
        """Undo a containment."""
        assert isinstance(token, Tainted)
        self._memory.undo(token)

    def roll_back(self, user: str, ref: str) -> None:
        """Undo the supersede that made an entry."""
        self._place(user).undo(self._undos[ref])

    def contain(self, user: str, ref: str) -> Containment:
        """Taint a memory."""
        tainted = self._memory.taint(ref=ref, scope=self._place(user).scope, reason="poisoned")
        reads = tuple(_read(served) for served in tainted.served)
        return Containment((*tainted.refs, *tainted.descendants), reads, tainted)


def _read(served: Any) -> str:
    return f"{served.effect} at {served.position}"


def _text_of(moment: Any) -> str:
    return "" if moment is None else moment.isoformat()


def _perform(call: Callable[[], Any]) -> Any:
    """Return what a call gives; raise Refused where the gate, or a check before it, says no."""
    try:
        return call()
    except (GateRefused, UsageError, NotFound, Conflict) as error:
        raise Refused(f"{error.code}: {error.message}") from error
