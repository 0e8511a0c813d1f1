"""Recording what many clients did at once, and checking that it is linearizable."""

from __future__ import annotations

import heapq
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

Kind = Literal["read", "write", "cas", "delete"]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One call as its client saw it: what it asked, what came back, and when both happened."""

    client: str
    key: str
    kind: Kind
    argument: Any = None
    """What a write or compare-and-set wanted to store."""
    expected: int | None = None
    """The version a compare-and-set, or a delete that has one, wanted to see; 0 for nothing there."""
    outcome: Literal["ok", "conflict"] = "ok"
    """`conflict`: another version than the expected one was seen, and nothing was changed."""
    result: Any = None
    """What a read saw, None for nothing; whether a delete found something, None if it did not say."""
    version: int | None = None
    """The version read (0: nothing there), written, or met in a conflict; None if the answer did not say."""
    called: int
    returned: int | None = None
    """None: no answer came (a timeout, a crash). It may have happened any time after the call, or never."""


class Call:
    """A call that is under way: say `ok` or `conflict` as soon as the answer is there, or `failed`."""

    def __init__(self) -> None:
        """Begin without an answer."""
        self.answer: dict[str, Any] = {}
        self.happened = True

    def ok(self, result: Any = None, *, version: int | None = None) -> None:
        """Note that the call did what it says."""
        self.answer = {"outcome": "ok", "result": result, "version": version, "returned": time.monotonic_ns()}

    def conflict(self, version: int | None = None) -> None:
        """Note that another version was found than the expected one, and which."""
        self.answer = {"outcome": "conflict", "version": version, "returned": time.monotonic_ns()}

    def failed(self) -> None:
        """Note that the call certainly changed nothing, as when it is refused: it is left out."""
        self.happened = False


class Recorder:
    """Writes down calls from many threads, stamped with a clock that all processes of a Linux machine share.

    >>> recorder = Recorder()
    >>> with recorder.call("ada", "city", "write", argument="Paris") as call:
    ...     call.ok(version=1)
    >>> recorder.history[0].version
    1
    """

    def __init__(self) -> None:
        """Begin with an empty history."""
        self._lock = threading.Lock()
        self._history: list[Operation] = []

    @property
    def history(self) -> list[Operation]:
        """The calls so far that are over."""
        with self._lock:
            return list(self._history)

    @contextmanager
    def call(
        self, client: str, key: str, kind: Kind, *, argument: Any = None, expected: int | None = None
    ) -> Generator[Call]:
        """Record the call made in this block. Without an answer, as after an exception, it is a "maybe"."""
        call = Call()
        called = time.monotonic_ns()
        try:
            yield call
        finally:
            if call.happened:
                done = Operation(
                    client=client,
                    key=key,
                    kind=kind,
                    argument=argument,
                    expected=expected,
                    called=called,
                    **call.answer,
                )
                with self._lock:
                    self._history.append(done)


def merge(*histories: Iterable[Operation]) -> list[Operation]:
    """Put histories of several processes of one machine together, in the order of their calls."""
    return sorted((each for history in histories for each in history), key=when_called)


def save(history: Iterable[Operation], path: Path) -> None:
    """Write a history as JSON lines."""
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in history))


def load(path: Path) -> list[Operation]:
    """Read a history that was saved."""
    return msgspec.json.Decoder(Operation).decode_lines(path.read_bytes())


def when_called(operation: Operation) -> int:
    """Return when an operation was called: the order in which a history is read."""
    return operation.called


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
            index for index, each in enumerate(operations) if each.returned is not None and not _is_change(each)
        }
        # Writes that were told their version; no other write may have that one.
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


def _is_change(operation: Operation) -> bool:
    """Say whether an operation took a version, or may have."""
    if operation.kind == "read" or operation.outcome == "conflict":
        return False
    return operation.kind != "delete" or operation.result is not False


def _chain(operations: Sequence[Operation]) -> Verdict | None:
    """Find a version given or consumed twice, one left out, or a value that is not the one written."""
    made: dict[int, Operation] = {}
    consumed: dict[int, Operation] = {}
    named: set[int] = set()  # versions that writes without an answer may have, where that is known
    unnamed = 0  # how many others may belong to writes without an answer
    for each in filter(_is_change, operations):
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
    """Find an answer older than one that was given before the call, or one from the future."""
    untold = [each for each in operations if _is_change(each) and not each.version]
    first_untold = min((each.called for each in untold), default=float("inf"))
    first_delete = min(
        (each.called for each in operations if each.kind == "delete" and _is_change(each)), default=float("inf")
    )
    made = {each.version for each in operations if _is_change(each) and each.version}
    answered: list[tuple[int, int, int]] = []  # when, the version that was reached by then, who says so
    floor, witness = 0, operations[0]
    for index, each in enumerate(operations):
        while answered and answered[0][0] < each.called:
            _, version, who = heapq.heappop(answered)
            if version > floor:
                floor, witness = version, operations[who]
        if each.returned is None:
            continue
        changed = _is_change(each)
        nothing = each.version == 0 or (each.kind == "delete" and each.result is False)
        if nothing and floor and first_delete > each.returned:
            return _bad("nothing was found, though nothing had been deleted:", witness, each)
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
