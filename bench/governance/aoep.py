"""Episodes of always-on agents, after the protocol AOEP (arXiv 2606.30306): `python bench/governance/aoep.py [FILE]`.

The paper defines an envelope of events and seven probes, and scores obligations and negatives apart; it comes without
harness or corpus. The episodes are our own (`aoep.toml`), and FILE names others in the same form. They run on Memoranda
and on the floors. What a probe says is read from the store each time; what a write returned is never believed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table

from memoranda.testing.governance import FLOORS, MemorandaSystem, MemorySystem, Refused, Unsupported
from memoranda.testing.governance.system import Writer

EPISODES = Path(__file__).with_suffix(".toml")

Operation = Literal[
    "read", "write", "update", "delete", "tombstone", "share", "unshare", "validate", "quarantine", "deny", "rollback"
]
Probe = Literal["read", "list", "deletion_ledger", "rollback_ledger", "permission_epoch", "conflicts", "trust_tier"]
Trust = Literal["high", "medium", "low", "untrusted"]
Part = Literal["obligation", "negative", "control"]

_WRITERS: dict[Trust, Writer] = {"high": "user", "medium": "agent", "low": "tool_external", "untrusted": "unknown"}


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event, a restart, a note of the permission epoch, or a check."""

    op: Operation | None = None
    restart: bool = False
    note: str = ""
    check: Part | None = None
    probe: Probe | None = None
    id: str = ""
    actor: str = ""
    """Who acts; without one, the owner of the memory, or what the trust says."""
    trust: Trust = "high"
    scope: str = ""
    text: str = ""
    slot: str = ""
    """The key of what has one current value."""
    request: str = ""
    """The idempotency key."""
    parents: tuple[str, ...] = ()
    target: str = ""
    to: str = ""
    confirm: bool = False
    times: int = 1
    above: str = ""
    above_target: str = ""
    against: str = ""


class Episode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault and what has to hold around it."""

    name: str
    pattern: str
    steps: tuple[Step, ...]


class _File(msgspec.Struct, frozen=True):
    episode: tuple[Episode, ...]


class Result(msgspec.Struct, frozen=True):
    """How many checks of a part held in an episode, of how many; and why not all."""

    held: Counter[str]
    total: Counter[str]
    why: tuple[str, ...]


def load(file: Path = EPISODES) -> tuple[Episode, ...]:
    """Return the episodes of a file."""
    return msgspec.toml.decode(file.read_bytes(), type=_File).episode


class Reducer:
    """Apply events to a memory system, and answer the seven probes from it."""

    def __init__(self, system: MemorySystem) -> None:
        """Start with an empty system."""
        self._system = system
        self._refs: dict[str, str] = {}
        self._waiting: dict[str, str] = {}
        self._epochs: dict[str, int] = {}
        self._operations: dict[Operation, Callable[[Step], object]] = {
            "read": self._read,
            "write": self._write,
            "update": self._update,
            "delete": lambda step: system.forget(step.scope, self._refs[step.target]),
            "tombstone": lambda step: system.reject(step.scope, step.text),
            "share": lambda step: system.allow(step.to, step.scope),
            "unshare": lambda step: system.disallow(step.to, step.scope),
            "deny": lambda step: system.disallow(step.to, step.scope),
            "validate": self._validate,
            "quarantine": lambda step: system.contain(step.scope, self._refs[step.target]),
            "rollback": lambda step: system.roll_back(step.scope, self._refs[step.target]),
        }
        self._probes: dict[Probe, Callable[[Step], bool]] = {
            "read": self._is_read,
            "list": lambda step: sum(step.text in one for one in system.listing(step.scope)) >= step.times,
            "deletion_ledger": self._is_deleted,
            "rollback_ledger": lambda step: any(
                self._refs[step.target] in one.refs and one.dependents for one in system.rollbacks()
            ),
            "permission_epoch": self._epoch_holds,
            "conflicts": lambda step: (step.text, step.against) in system.conflicts(step.scope),
            "trust_tier": lambda step: self._rank(step, step.target) > self._rank(step, step.above_target),
        }

    def apply(self, step: Step) -> None:
        """Carry out an event; one that is refused changes nothing."""
        if step.op is not None:
            try:
                self._operations[step.op](step)
            except Refused:
                return

    def restart(self) -> None:
        """Restart the system."""
        self._system.settle()
        self._system.restart()

    def note(self, step: Step) -> None:
        """Note the permission epoch under a name."""
        self._epochs[step.note] = self._system.epoch(step.scope)

    def holds(self, step: Step) -> bool:
        """Return whether what a check names is there."""
        assert step.probe is not None, "a check names a probe"
        self._system.settle()
        return self._probes[step.probe](step)

    def _read(self, step: Step) -> None:
        self._system.search(step.scope, step.text)
        self._system.settle()  # so that the read is on record before what comes next

    def _write(self, step: Step) -> None:
        before = self._held(step) if step.confirm else []
        try:
            self._refs[step.id] = self._store(step)
        except Refused:
            new = [held for held in self._held(step) if held not in before] if step.confirm else []
            if new:
                self._waiting[step.id] = new[0]
            raise

    def _held(self, step: Step) -> list[str]:
        return self._system.pending(step.scope)

    def _store(self, step: Step) -> str:
        if step.actor and step.actor != f"user:{step.scope}":
            return self._system.write_as(step.actor, step.scope, step.text)
        return self._system.write(
            step.scope,
            step.text,
            key=step.slot,
            writer=_WRITERS[step.trust],
            request=step.request,
            sources=[self._refs[parent] for parent in step.parents],
            confirm=step.confirm,
        )

    def _update(self, step: Step) -> None:
        self._refs[step.id] = self._system.supersede(step.scope, self._refs[step.target], step.text)

    def _validate(self, step: Step) -> None:
        held = self._waiting.get(step.target)
        if held is not None:
            self._system.release(step.scope, held, actor=step.actor)
        else:
            self._system.validate(step.scope, self._refs[step.target], actor=step.actor)

    def _is_read(self, step: Step) -> bool:
        found = self._system.search(step.scope, step.text, 20)
        return any(step.text in one.text for one in found if not one.valid_to)

    def _is_deleted(self, step: Step) -> bool:
        ref = self._refs[step.target]
        return any(
            one.resource and ref.endswith(one.resource) and one.user == step.scope and one.actor
            for one in self._system.deletions()
        )

    def _epoch_holds(self, step: Step) -> bool:
        return self._system.epoch(step.scope) > self._epochs[step.above]

    def _rank(self, step: Step, name: str) -> int:
        return self._system.origin(step.scope, self._refs[name]).rank


def play(episode: Episode, system: type[MemorySystem]) -> Result:
    """Play an episode on a new system; if a probe breaks or is missing, no check of the episode has held."""
    total = Counter(step.check for step in episode.steps if step.check in ("obligation", "negative"))
    with tempfile.TemporaryDirectory(prefix="aoep-") as folder:
        opened = system(Path(folder))
        try:
            checked = _checked(episode, Reducer(opened))
        except Unsupported as missing:
            return Result(Counter(), Counter(map(str, total.elements())), (f"no `{missing}`",))
        except Exception as error:  # a system that is measured may raise anything: that is its result, never ours
            return Result(Counter(), Counter(map(str, total.elements())), (f"{type(error).__name__}: {error}",))
        finally:
            opened.close()
    # An absence says something only if what had to be there was there.
    is_shown = all(there for step, there in checked if step.check != "negative")
    held = Counter[str]()
    why: list[str] = []
    for step, there in checked:
        is_met = (is_shown and not there) if step.check == "negative" else there
        if step.check is not None and step.check != "control":
            held[step.check] += is_met
        if not is_met:
            why.append(f"{step.check}: {step.probe} {step.text or step.target or step.above}")
    return Result(held, Counter(map(str, total.elements())), tuple(why))


def _checked(episode: Episode, reducer: Reducer) -> list[tuple[Step, bool]]:
    found: list[tuple[Step, bool]] = []
    for step in episode.steps:
        if step.check is not None:
            found.append((step, reducer.holds(step)))
        elif step.restart:
            reducer.restart()
        elif step.note:
            reducer.note(step)
        else:
            reducer.apply(step)
    return found


def scores(episodes: Sequence[Episode], system: type[MemorySystem]) -> tuple[Counter[str], Counter[str], list[str]]:
    """Return what held, what was checked, and why not all of it held; obligations and negatives are never added."""
    held, total, why = Counter[str](), Counter[str](), list[str]()
    for episode in episodes:
        result = play(episode, system)
        held += result.held
        total += result.total
        why += [f"{episode.pattern}: {one}" for one in result.why]
    return held, total, why


def main() -> None:
    """Play all episodes on Memoranda and on the floors, and print both scores of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?", default=EPISODES, help="other episodes, in the same form")
    asked = parser.parse_args()
    if not asked.file.is_file():
        parser.error(f"there is no {asked.file}; the episodes that come with this program are {EPISODES.name}")
    episodes = load(asked.file)
    table = Table("system", "obligations", "negatives", title=f"{len(episodes)} episodes", title_justify="left")
    console = Console()
    for system in (MemorandaSystem, *FLOORS):
        held, total, why = scores(episodes, system)
        cells = (f"{held[part]} of {total[part]}" for part in ("obligation", "negative"))
        table.add_row(system.describe(), *cells)
        if system is MemorandaSystem:
            for line in why:
                console.print(f"NOT MET: {line}", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main()
