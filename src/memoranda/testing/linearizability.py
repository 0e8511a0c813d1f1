"""Histories of concurrent calls in; a verdict on whether one register could have answered them out.

The register is a fact without a time to live. It holds a value or nothing, and counts: a write, and a delete
that finds something, takes the next version, and none is used twice. A reader sees the version of the value,
or 0 where nothing is. A compare-and-set names the version it expects to see, 0 for nothing.

`check` searches for an order that explains every answer (Wing and Gong 1993, with Lowe's memory of what was
tried). `check_versions` follows the versions in the answers, in one pass after sorting: weaker, but for runs
of any length.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from memoranda.testing.history import Operation, when_called

_State = tuple[bytes | None, int]  # the value as JSON, None where nothing is; the last version used


class Verdict(msgspec.Struct, frozen=True):
    """What a check found; the key and the explanation are empty where all is well."""

    ok: bool
    key: str = ""
    explanation: str = ""
    decided: bool = True
    """False: the search grew too large and was given up. `ok` is False then too, as nothing was shown."""


def check(history: Iterable[Operation], *, most: int = 100_000) -> Verdict:
    """Say whether each key's calls fit an order, true to time, in which one register answers like this.

    Each key begins with nothing there and version 0. A search that meets more than `most` different positions
    is given up, as may happen where many calls got no answer. Unless the versions alone say no, the verdict
    is then undecided.
    """

    def search(operations: Sequence[Operation]) -> Verdict:
        return _Search(operations, most).run()

    return _each_key(history, search)


def check_versions(history: Iterable[Operation]) -> Verdict:
    """Say whether the versions in the answers agree: one chain, no gaps, no going back.

    Each version was given once and each expected one consumed once; missing ones are accounted for by deletes
    and calls without an answer. What was read was written under that version by a call that had begun, and is
    not older than what anyone, the same client included, had been answered before the read began.
    """
    return _each_key(history, _versions)


def _each_key(history: Iterable[Operation], find: Callable[[Sequence[Operation]], Verdict]) -> Verdict:
    keys: defaultdict[str, list[Operation]] = defaultdict(list)
    for each in history:
        if each.returned is not None or each.kind != "read":  # a read that got no answer tells nothing
            keys[each.key].append(each)
    for key, operations in sorted(keys.items()):
        verdict = find(sorted(operations, key=when_called))
        if not verdict.ok:
            return msgspec.structs.replace(verdict, key=key)
    return Verdict(True)


def _bad(explanation: str, *operations: Operation) -> Verdict:
    return Verdict(False, explanation="\n  ".join([explanation, *map(describe, operations)]))


def describe(operation: Operation) -> str:
    """Return one line on an operation, for a person to read."""
    said = {name: getattr(operation, name) for name in ("argument", "expected", "result", "version")}
    details = " ".join(f"{name}={value!r}" for name, value in said.items() if value is not None)
    answer = "no answer" if operation.returned is None else operation.outcome
    span = f"{operation.called}..{'' if operation.returned is None else operation.returned}"
    return f"{operation.client}: {operation.kind} {answer} {details} [{span}]"


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _step(operation: Operation, state: _State) -> _State | None:
    """Return the state after an operation, or None if the register could not have answered like this."""
    value, used = state
    seen = 0 if value is None else used
    if operation.kind == "read" or operation.outcome == "conflict":
        right = operation.version in (None, seen) and operation.expected != seen
        if operation.kind == "read" and operation.version != 0:
            right = right and _json(operation.result) == (b"null" if value is None else value)
        return state if right else None
    if operation.expected is not None and operation.expected != seen:
        return None
    if operation.kind == "delete":
        if operation.result not in (None, value is not None):
            return None
        after = state if value is None else (None, used + 1)
    else:
        after = (_json(operation.argument), used + 1)
    return after if operation.version in (None, after[1]) else None


class _Search:
    """A search for an order, one key at a time."""

    def __init__(self, operations: Sequence[Operation], most: int) -> None:
        self.all = operations
        self.most = most
        self.sure = [index for index, each in enumerate(operations) if each.returned is not None]
        self.maybe = [index for index, each in enumerate(operations) if each.returned is None]
        self.still = {  # these change nothing, whatever the state: once they fit, no later place is better
            index for index, each in enumerate(operations) if each.returned is not None and not _changed(each)
        }
        # Who was answered with a version it made; nobody else's write may take that one.
        self.maker = {
            each.version: index
            for index, each in enumerate(operations)
            if each.version and each.returned is not None and index not in self.still
        }

    def run(self) -> Verdict:
        """Go down first, remembering positions; explain by the one that came furthest."""
        stack: list[tuple[int, _State, int]] = [(0, (None, 0), 0)]
        tried: set[tuple[int, _State]] = set()
        furthest, best = stack[0], -1
        while stack:
            done, state, low = stack.pop()
            if (done, state) in tried:
                continue
            if len(tried) >= self.most:
                return self._give_up()
            tried.add((done, state))
            while low < len(self.sure) and done >> self.sure[low] & 1:
                low += 1
            if low == len(self.sure):
                return Verdict(True)
            if (depth := done.bit_count()) > best:
                furthest, best = (done, state, low), depth
            stack.extend((after, new, low) for after, new in self._moves(done, state, low))
        done, (value, used), low = furthest
        window = [self.all[index] for index in self._window(done, low)[0]]
        held = "nothing" if value is None else value.decode()
        return _bad(
            f"after {done.bit_count()} of {len(self.all)} operations, with {held} at version {used},"
            " none of these can come next:",
            *window,
        )

    def _give_up(self) -> Verdict:
        verdict = _versions(self.all)
        given_up = f"undecided: gave up after {self.most} positions on {len(self.all)} operations"
        return verdict if not verdict.ok else Verdict(False, explanation=given_up, decided=False)

    def _window(self, done: int, low: int) -> tuple[list[int], float]:
        """Return the answered operations that may come next: called before any open one had returned."""
        bound = float("inf")
        window: list[int] = []
        for index in self.sure[low:]:
            if done >> index & 1:
                continue
            if self.all[index].called > bound:
                break
            window.append(index)
            returned = self.all[index].returned
            bound = min(bound, bound if returned is None else returned)
        return window, bound

    def _moves(self, done: int, state: _State, low: int) -> list[tuple[int, _State]]:
        """Return the positions after this one, the likeliest last."""
        window, bound = self._window(done, low)
        moves: list[tuple[int, _State]] = []
        for index in window:
            operation = self.all[index]
            after = _step(operation, state)
            if index in self.still:
                if after is not None:
                    return [(done | 1 << index, state)]
                if operation.version and operation.version < state[1]:
                    return []  # it saw a version that is over: no order from here can help it
            elif operation.version and operation.version <= state[1]:
                return []
            elif after is not None and (after == state or self.maker.get(after[1], index) == index):
                moves.append((done | 1 << index, after))
        # Calls without an answer are tried after those with one: most histories need few of them.
        guesses: list[tuple[int, _State]] = []
        for index in self.maybe:
            if self.all[index].called > bound:
                break
            if not done >> index & 1:
                after = _step(self.all[index], state)
                if after is not None and after != state and after[1] not in self.maker:
                    guesses.append((done | 1 << index, after))
        return guesses[::-1] + moves[::-1]


def _versions(operations: Sequence[Operation]) -> Verdict:
    """Check one key's operations, in the order of their calls."""
    return _chain(operations) or _times(operations) or Verdict(True)


def _changed(operation: Operation) -> bool:
    """Say whether an operation took a version, or may have."""
    if operation.kind == "read" or operation.outcome == "conflict":
        return False
    return operation.kind != "delete" or operation.result is not False


def _chain(operations: Sequence[Operation]) -> Verdict | None:
    """Find a version given or consumed twice, one left out, or a value that is not the one written."""
    made: dict[int, Operation] = {}
    consumed: dict[int, Operation] = {}
    named: set[int] = set()  # versions that somebody who was not told may have taken, where that is known
    unnamed = 0  # how many others may have been taken by somebody who was not told
    for each in filter(_changed, operations):
        if each.returned is not None and each.expected:
            if each.expected in consumed:
                return _bad(f"version {each.expected} was consumed twice:", consumed[each.expected], each)
            if each.version not in (None, each.expected + 1):
                return _bad(f"after version {each.expected} comes {each.expected + 1}:", each)
            consumed[each.expected] = each
        if each.version in made:
            return _bad(f"version {each.version} was given twice:", made[each.version], each)
        if each.version:
            made[each.version] = each
        elif each.expected:
            named.add(each.expected + 1)
        else:
            unnamed += 1
    seen: dict[int, Operation] = {}
    for each in operations:
        if each.kind == "read" and each.version:
            other = made.get(each.version) or seen.setdefault(each.version, each)
            value = other.result if other.kind == "read" else other.argument
            if other.kind == "delete" or _json(value) != _json(each.result):
                return _bad(f"version {each.version} is not one value:", other, each)
    highest = max([*made, *seen], default=0)
    known = made.keys() | {version for version in named if version <= highest}
    if highest - len(known) > unnamed:
        gap = next(version for version in range(1, highest + 1) if version not in known)
        return _bad(f"version {gap} is missing, and the {unnamed} calls without a version do not explain it")
    return None


def _times(operations: Sequence[Operation]) -> Verdict | None:
    """Find an answer older than one that somebody had before the call, or one that tells the future."""
    untold = [each for each in operations if _changed(each) and not each.version]
    first_untold = min((each.called for each in untold), default=float("inf"))
    first_delete = min(
        (each.called for each in operations if each.kind == "delete" and _changed(each)), default=float("inf")
    )
    made = {each.version for each in operations if _changed(each) and each.version}
    answered: list[tuple[int, int, int]] = []  # when, the version that was reached by then, who says so
    floor, witness = 0, operations[0]
    for index, each in enumerate(operations):
        while answered and answered[0][0] < each.called:
            _, version, who = heapq.heappop(answered)
            if version > floor:
                floor, witness = version, operations[who]
        if each.returned is None:
            continue
        changed = _changed(each)
        nothing = each.version == 0 or (each.kind == "delete" and each.result is False)
        if nothing and floor and first_delete > each.returned:
            return _bad("nothing was found, though nobody had deleted what was there:", witness, each)
        if each.version and (each.version < floor or (changed and each.version == floor)):
            return _bad(f"version {each.version} comes after {floor}:", witness, each)
        if each.version and not changed and each.version not in made and first_untold > each.returned:
            return _bad(f"version {each.version} was seen before anybody can have written it:", each)
        if each.outcome == "conflict" and each.version is not None and each.version == each.expected:
            return _bad("a conflict with the very version that was expected:", each)
        took = changed and (each.kind != "delete" or each.result is not None)
        reached = each.version or (floor + 1 if took else floor)
        heapq.heappush(answered, (each.returned, reached, index))
    return None
