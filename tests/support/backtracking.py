"""Proof that a regular expression of `re` takes linear time.

`re` tries one path after the other, so its time is the number of paths that lead through the pattern. That number grows
faster than the text exactly where the automaton of the pattern is infinitely ambiguous (Weber and Seidl, 1991): there
are states p and q and a word w with w leading from p to p, from p to q and from q to q. A search adds a state that
every character leads back to, because it begins anew at each position: `\\s+$` is quadratic, and `\\s+` is not.

The automaton accepts more paths than `re` tries: atomic groups (except around one character class) count as ordinary
ones and look-arounds longer than a character as always true. So what passes is linear, and what fails may be.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

# Private to `re`, but the only ones who know what it makes of a pattern.
sre: Any = import_module("re._constants")
sre_parser: Any = import_module("re._parser")

Use = Literal["search", "match", "fullmatch"]

LONGEST_BOUNDED = 200
"""A repeat with a larger bound counts as one without."""
_UNROLLED = 3
_SAMPLES = "".join(map(chr, range(128))) + "\x85\u00a0éÉßДд中٣²\u2028\u200d\u0301“”„«»…—–•’\u017f\u0131😂"


class Witness(NamedTuple):
    """A text that takes more than linear time: `prefix`, then `pump` again and again, then something that fails."""

    prefix: str
    pump: str

    def text(self, length: int) -> str:
        return self.prefix + self.pump * (length // len(self.pump))


def slow_text(pattern: re.Pattern[Any], use: Use) -> Witness | None:
    """Return a text that takes more than linear time to search with a pattern, or None if there is none."""
    return _Analysis(pattern, use).witness() if repeats_without_end(pattern) else None


def repeats_without_end(pattern: re.Pattern[Any]) -> bool:
    """Return whether a pattern can match texts of any length; one that cannot is linear."""
    repeats = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
    tree = sre_parser.parse(pattern.pattern, pattern.flags)
    return any(op in repeats and value[1] > LONGEST_BOUNDED for op, value in _walk(tree))


@lru_cache(maxsize=4)
def classes_of(pattern: re.Pattern[Any]) -> list[str]:
    """Return one character of each class that a pattern distinguishes."""
    source: Any = pattern.pattern
    tree = sre_parser.parse(source, pattern.flags)
    return _representatives(tree, source, pattern.flags)


class _Condition(NamedTuple):
    """What must hold between two characters; None allows any."""

    before: frozenset[int] | None = None
    after: frozenset[int] | None = None
    boundary: bool | None = None
    certain: bool = False
    """Whether there is a way on where it does not hold, as after a possessive repeat."""


class _Node:
    __slots__ = ("chars", "edges", "final")

    def __init__(self) -> None:
        self.chars: frozenset[int] | None = None
        """The characters that lead on, for a node that reads one; it has one edge then."""
        self.edges: list[tuple[_Condition | None, _Node]] = []
        self.final = False


_START = -1
"""The position before the first character."""


class _Analysis:
    def __init__(self, pattern: re.Pattern[Any], use: Use) -> None:
        source: Any = pattern.pattern
        tree = sre_parser.parse(source, pattern.flags)
        self._groups = {
            value[0]: (value[3], (own | value[1]) & ~value[2])
            for op, value, own in _walk_with_flags(tree, pattern.flags)
            if op is sre.SUBPATTERN and value[0] is not None
        }
        self._use = use
        self.samples = classes_of(pattern)
        self._word = frozenset(number for number, char in enumerate(self.samples) if _is_word(char, pattern.flags))
        self._newline = frozenset(number for number, char in enumerate(self.samples) if char == "\n")
        self._everything = frozenset(range(len(self.samples)))
        accept = _Node()
        accept.final = True
        self._begin = self._build(tree, pattern.flags, accept)
        self._closures: dict[int, tuple[list[tuple[tuple[_Condition, ...], _Node]], list[tuple[_Condition, ...]]]] = {}
        self._explore()

    def _chars(self, op: Any, value: Any, flags: int) -> frozenset[int]:
        return frozenset(number for number, char in enumerate(self.samples) if _holds((op, value), char, flags))

    # --- the automaton

    def _build(self, tree: Any, flags: int, end: _Node) -> _Node:
        for op, value in reversed(list(tree)):
            end = self._node(op, value, flags, end)
        return end

    def _node(self, op: Any, value: Any, flags: int, end: _Node) -> _Node:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            node = _Node()
            node.chars = self._chars(op, value, flags)
            node.edges = [(None, end)]
            return node
        if op is sre.BRANCH:
            return _fork(*((None, self._build(branch, flags, end)) for branch in value[1]))
        if op is sre.SUBPATTERN:
            _, add, remove, tree = value
            return self._build(tree, (flags | add) & ~remove, end)
        if op is sre.GROUPREF:
            # It reads what the group has read: a copy of the group reads that and more.
            tree, own = self._groups[value]
            return self._build(tree, own, end)
        if op is sre.ATOMIC_GROUP:
            inner = list(value)
            if len(inner) == 1 and inner[0][0] is sre.MAX_REPEAT and _is_class(inner[0][1][2]):
                return self._repeat(inner[0][1], flags, end, possessive=True)
            return self._build(value, flags, end)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self._repeat(value, flags, end, possessive=False)
        if op is sre.POSSESSIVE_REPEAT:
            return self._repeat(value, flags, end, possessive=_is_class(value[2]))
        if op is sre.AT:
            return _fork((self._position(value, flags), end))
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            return self._look(op is sre.ASSERT, value, flags, end)
        raise AssertionError(f"{op} is not known here")

    def _repeat(self, value: Any, flags: int, end: _Node, *, possessive: bool) -> _Node:
        low, high, body = value
        leave = None
        if possessive:
            (op, inside), own = _only_class(body, flags)
            leave = _Condition(after=self._everything - self._chars(op, inside, own), certain=True)
        if high > LONGEST_BOUNDED:
            loop = _Node()
            loop.edges = [(None, self._build(body, flags, loop)), (leave, end)]
            node = loop
            low = max(low, 0)
        else:
            node = end
            for _ in range(min(high - low, _UNROLLED)):
                node = _fork((None, self._build(body, flags, node)), (leave, end))
        for _ in range(min(low, _UNROLLED)):
            node = self._build(body, flags, node)
        return node

    def _position(self, at: Any, flags: int) -> _Condition:
        if at in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            lines = at is sre.AT_BEGINNING and flags & re.MULTILINE
            return _Condition(before=frozenset({_START}) | (self._newline if lines else frozenset()))
        if at in (sre.AT_END, sre.AT_END_STRING):
            return _Condition(after=self._newline if at is sre.AT_END else frozenset())
        return _Condition(boundary=at is sre.AT_BOUNDARY)

    def _look(self, wanted: bool, value: Any, flags: int, end: _Node) -> _Node:
        direction, tree = value
        if _is_class(tree):
            (op, inside), own = _only_class(tree, flags)
            chars = self._chars(op, inside, own)
            if direction > 0:
                return _fork((_Condition(after=chars if wanted else self._everything - chars), end))
            others = (self._everything - chars) | {_START}
            return _fork((_Condition(before=chars if wanted else others), end))
        if direction < 0:
            # A look behind has a fixed width, and costs the same everywhere.
            return _fork((_Condition(), end))
        return _fork((None, self._build(tree, flags, _Node())), (_Condition(), end))

    # --- its states: a node that has read a character, with that character where a condition asks for it

    def _closure(self, node: _Node) -> Any:
        found = self._closures.get(id(node))
        if found is None:
            ways: list[tuple[tuple[_Condition, ...], _Node]] = []
            ends: list[tuple[_Condition, ...]] = []
            self._follow(node, (), set(), ways, ends)
            found = self._closures[id(node)] = (ways, ends)
        return found

    def _follow(
        self, node: _Node, conditions: tuple[_Condition, ...], seen: set[tuple[int, int]], ways: Any, ends: Any
    ) -> None:
        if node.chars is not None:
            ways.append((conditions, node))
            return
        if node.final:
            ends.append(conditions)
            return
        for number, (condition, after) in enumerate(node.edges):
            # An iteration that reads nothing is not repeated, by `re` neither.
            if (id(node), number) not in seen:
                more = conditions if condition is None else (*conditions, condition)
                self._follow(after, more, seen | {(id(node), number)}, ways, ends)

    def _explore(self) -> None:
        """Number the states that can be reached and where each character leads from them, and how often."""
        self.numbers: dict[tuple[int, int], int] = {}
        self.steps: list[list[dict[int, int]]] = []
        self.accepts: list[bool] = []
        self.parents: list[tuple[int, int] | None] = []
        queue: deque[tuple[int, _Node, int]] = deque()
        searches = self._use == "search"

        def number(node: _Node, before: int, parent: tuple[int, int] | None) -> int:
            key = (id(node), self._kinds[before])
            if key not in self.numbers:
                self.numbers[key] = len(self.steps)
                self.steps.append([{} for _ in self.samples])
                self.accepts.append(False)
                self.parents.append(parent)
                queue.append((self.numbers[key], node, before))
            return self.numbers[key]

        root = _Node()
        root.edges = [(None, self._begin)]
        self._kinds = self._kinds_before(self._begin)
        self.root = number(root, _START, None)
        while queue:
            state, node, before = queue.popleft()
            inner = node.edges[0][1]
            ways, ends = self._closure(inner)
            if self._use != "fullmatch" and node is not root:
                self.accepts[state] = any(all(self._ends(one, before) for one in conditions) for conditions in ends)
            for char in range(len(self.samples)):
                targets = self.steps[state][char]
                if node is root and searches:
                    targets[number(root, char, (state, char))] = 1
                for conditions, after in ways:
                    if char in after.chars and all(self._allows(one, before, char) for one in conditions):
                        target = number(after, char, (state, char))
                        targets[target] = targets.get(target, 0) + 1
        self.roots = {state for (node, _), state in self.numbers.items() if node == id(root)}
        self._root_node = root  # keeps its id

    def _kinds_before(self, begin: _Node) -> dict[int, int]:
        """Return the kind of each character: what conditions tell apart once it has been read."""
        told: list[frozenset[int]] = []
        seen: set[int] = set()
        stack = [begin]
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            for condition, after in node.edges:
                if condition is not None and condition.before is not None:
                    told.append(condition.before)
                if condition is not None and condition.boundary is not None:
                    told.append(self._word)
                stack.append(after)
        kinds: dict[tuple[bool, ...], int] = {}
        return {
            char: kinds.setdefault(tuple(char in one for one in told), len(kinds))
            for char in (_START, *range(len(self.samples)))
        }

    def _allows(self, condition: _Condition, before: int, char: int) -> bool:
        if condition.before is not None and before not in condition.before:
            return False
        if condition.after is not None and char not in condition.after:
            return False
        return condition.boundary is None or ((before in self._word) != (char in self._word)) == condition.boundary

    def _ends(self, condition: _Condition, before: int) -> bool:
        if condition.certain:
            return True
        return condition.after is None and condition.boundary is None and before in (condition.before or ())

    # --- infinite ambiguity

    def witness(self) -> Witness | None:
        component = self._components()
        for state, ways in enumerate(self.steps):
            for char, targets in enumerate(ways):
                for target, times in targets.items():
                    if times > 1 and component[state] >= 0 and component[state] == component[target]:
                        back = self._path(target, {state}, within=component)
                        pump = self.samples[char] + "".join(self.samples[one] for one in back)
                        return Witness(self._prefix(state), pump)
        twice = self._twice(component)
        if twice is not None:
            return twice
        loops = [state for state, number in enumerate(component) if number >= 0]
        for p in loops:
            reach = self._reachable(p)
            for q in loops:
                if component[q] != component[p] and q in reach:
                    word = self._common(p, q, component)
                    if word is not None:
                        return Witness(self._prefix(p), "".join(self.samples[one] for one in word))
        return None

    def _twice(self, component: list[int]) -> Witness | None:
        """Return a word that leads from a state back to it in two ways: exponential."""
        parents: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {}
        back: dict[tuple[int, int], set[tuple[int, int]]] = {}
        queue: deque[tuple[int, int]] = deque()
        for state, number in enumerate(component):
            if number >= 0:
                parents[state, state] = None
                queue.append((state, state))
        apart: list[tuple[int, int]] = []
        while queue:
            here = queue.popleft()
            for char, there in self._pair_steps(here, component):
                back.setdefault(there, set()).add(here)
                if there not in parents:
                    parents[there] = (here, char)
                    apart.append(there)
                    queue.append(there)
        again = {pair for pair in parents if pair[0] == pair[1]}
        stack = list(again)
        while stack:
            for pair in back.get(stack.pop(), ()):
                if pair not in again:
                    again.add(pair)
                    stack.append(pair)
        pair = next((one for one in apart if one in again), None)
        if pair is None:
            return None
        home = pair
        while (before := parents[home]) is not None:
            home = before[0]
        word = [*_way(parents, pair), *self._path(pair[0], {home[0]}, within=component)]
        return Witness(self._prefix(home[0]), "".join(self.samples[one] for one in word))

    def _pair_steps(self, pair: tuple[int, int], component: list[int]) -> Iterator[tuple[int, tuple[int, int]]]:
        a, b = pair
        for char in range(len(self.samples)):
            for x in self.steps[a][char]:
                for y in self.steps[b][char]:
                    if component[x] == component[a] and component[y] == component[b]:
                        yield char, (min(x, y), max(x, y))

    def _common(self, p: int, q: int, component: list[int]) -> list[int] | None:
        """Return a word that leads from p to p, from p to q and from q to q."""
        first, last = component[p], component[q]
        begin, goal = (p, p, q), (p, q, q)
        towards = self._towards(q)
        parents: dict[tuple[int, int, int], tuple[tuple[int, int, int], int] | None] = {begin: None}
        queue = deque([begin])
        while queue:
            here = queue.popleft()
            a, b, c = here
            for char in range(len(self.samples)):
                for x in self.steps[a][char]:
                    if component[x] != first:
                        continue
                    for z in self.steps[c][char]:
                        if component[z] != last:
                            continue
                        for y in self.steps[b][char]:
                            there = (x, y, z)
                            if y in towards and there not in parents:
                                parents[there] = (here, char)
                                if there == goal:
                                    return _way(parents, goal)
                                queue.append(there)
        return None

    def _components(self) -> list[int]:
        """Return the strongly connected component of each state that is on a loop without an end; -1 for the others."""
        graph = [
            set()
            if self.accepts[state]
            else {target for targets in ways for target in targets if not self.accepts[target]}
            for state, ways in enumerate(self.steps)
        ]
        return _loops(graph)

    def _reachable(self, state: int) -> set[int]:
        seen, stack = {state}, [state]
        while stack:
            for targets in self.steps[stack.pop()]:
                for target in targets:
                    if target not in seen:
                        seen.add(target)
                        stack.append(target)
        return seen

    def _towards(self, goal: int) -> set[int]:
        """Return the states that lead to one."""
        if not hasattr(self, "_back"):
            self._back: list[set[int]] = [set() for _ in self.steps]
            for state, ways in enumerate(self.steps):
                for targets in ways:
                    for target in targets:
                        self._back[target].add(state)
        seen, stack = {goal}, [goal]
        while stack:
            for state in self._back[stack.pop()]:
                if state not in seen:
                    seen.add(state)
                    stack.append(state)
        return seen

    def _path(self, begin: int, goals: set[int], *, within: list[int]) -> list[int]:
        parents: dict[Any, Any] = {begin: None}
        queue = deque([begin])
        while queue:
            state = queue.popleft()
            if state in goals:
                return _way(parents, state)
            for char, targets in enumerate(self.steps[state]):
                for target in targets:
                    if within[target] == within[begin] and target not in parents:
                        parents[target] = (state, char)
                        queue.append(target)
        raise AssertionError("a component is strongly connected")

    def _prefix(self, state: int) -> str:
        chars: list[str] = []
        parent = self.parents[state]
        while parent is not None:
            chars.append(self.samples[parent[1]])
            parent = self.parents[parent[0]]
        return "".join(reversed(chars))


def _representatives(tree: Any, source: str | bytes, flags: int) -> list[str]:
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    candidates = set(_SAMPLES) | set(text) | {char.swapcase() for char in text if len(char.swapcase()) == 1}
    candidates |= {chr(code) for code in _range_ends(tree) if code < 0x110000}
    if isinstance(source, bytes):
        candidates = {char for char in candidates if ord(char) < 256}
    classes = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
    sets = [((op, value), own) for op, value, own in _walk_with_flags(tree, flags) if op in classes]
    found: dict[tuple[bool, ...], str] = {}
    for char in sorted(candidates, key=lambda char: (not char.isalnum() or char > "~", char)):
        signature = (*(_holds(one, char, own) for one, own in sets), _is_word(char, flags), char == "\n")
        found.setdefault(signature, char)
    return list(found.values())


def _range_ends(tree: Any) -> Iterator[int]:
    for op, value in _walk(tree):
        if op in (sre.LITERAL, sre.NOT_LITERAL):
            yield value
        elif op is sre.IN:
            for kind, part in value:
                if kind is sre.LITERAL:
                    yield part
                elif kind is sre.RANGE:
                    yield from (part[0], part[1], part[1] + 1)


def _is_word(char: str, flags: int) -> bool:
    return (char.isalnum() or char == "_") and (char.isascii() or bool(flags & re.UNICODE))


def _loops(graph: list[set[int]]) -> list[int]:
    """Return the number of the strongly connected component of each state, -1 for those on no loop (Kosaraju)."""
    back: list[set[int]] = [set() for _ in graph]
    for state, targets in enumerate(graph):
        for target in targets:
            back[target].add(state)
    component = [-1] * len(graph)
    placed: set[int] = set()
    for begin in reversed(_finished(graph)):
        if begin in placed:
            continue
        members, stack = [begin], [begin]
        placed.add(begin)
        while stack:
            new = back[stack.pop()] - placed
            placed |= new
            members += new
            stack += new
        if len(members) > 1 or begin in graph[begin]:
            for state in members:
                component[state] = begin
    return component


def _finished(graph: list[set[int]]) -> list[int]:
    """Return the states in the order in which a depth-first search is done with them."""
    order: list[int] = []
    seen: set[int] = set()
    for begin in range(len(graph)):
        stack = [(begin, iter(graph[begin]))] if begin not in seen else []
        seen.add(begin)
        while stack:
            state, targets = stack[-1]
            target = next((one for one in targets if one not in seen), None)
            if target is None:
                order.append(state)
                stack.pop()
            else:
                seen.add(target)
                stack.append((target, iter(graph[target])))
    return order


def _way(parents: dict[Any, Any], goal: Any) -> list[int]:
    word: list[int] = []
    step = parents[goal]
    while step is not None:
        word.append(step[1])
        step = parents[step[0]]
    return word[::-1]


def _fork(*edges: tuple[_Condition | None, _Node]) -> _Node:
    node = _Node()
    node.edges = list(edges)
    return node


def _is_class(tree: Any) -> bool:
    inner = list(tree)
    if len(inner) != 1:
        return False
    op, value = inner[0]
    if op is sre.SUBPATTERN:
        return _is_class(value[3])
    return op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)


def _only_class(tree: Any, flags: int) -> tuple[tuple[Any, Any], int]:
    op, value = next(iter(tree))
    if op is sre.SUBPATTERN:
        return _only_class(value[3], (flags | value[1]) & ~value[2])
    return (op, value), flags


def _walk(tree: Any) -> Iterator[tuple[Any, Any]]:
    for op, value, _ in _walk_with_flags(tree, 0):
        yield op, value


def _walk_with_flags(tree: Any, flags: int) -> Iterator[tuple[Any, Any, int]]:
    for op, value in tree:
        yield op, value, flags
        if op is sre.BRANCH:
            for branch in value[1]:
                yield from _walk_with_flags(branch, flags)
        elif op is sre.SUBPATTERN:
            yield from _walk_with_flags(value[3], (flags | value[1]) & ~value[2])
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            yield from _walk_with_flags(value[2], flags)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _walk_with_flags(value[1], flags)
        elif op is sre.ATOMIC_GROUP:
            yield from _walk_with_flags(value, flags)


_CATEGORIES = {
    sre.CATEGORY_DIGIT: "d",
    sre.CATEGORY_NOT_DIGIT: "D",
    sre.CATEGORY_SPACE: "s",
    sre.CATEGORY_NOT_SPACE: "S",
    sre.CATEGORY_WORD: "w",
    sre.CATEGORY_NOT_WORD: "W",
}


def _holds(one: tuple[Any, Any], char: str, flags: int) -> bool:
    op, value = one
    if op is sre.ANY:
        return bool(flags & re.DOTALL) or char != "\n"
    forms = {char}
    if flags & re.IGNORECASE:
        forms |= {form for form in (char.lower(), char.upper()) if len(form) == 1}
    if op is sre.LITERAL:
        return any(ord(form) == value for form in forms)
    if op is sre.NOT_LITERAL:
        return all(ord(form) != value for form in forms)
    negated = value[0][0] is sre.NEGATE
    return any(_in(part, form, flags) for part in value for form in forms) != negated


def _in(part: tuple[Any, Any], char: str, flags: int) -> bool:
    kind, value = part
    if kind is sre.LITERAL:
        return ord(char) == value
    if kind is sre.RANGE:
        return value[0] <= ord(char) <= value[1]
    if kind is sre.CATEGORY:
        return re.match(f"\\{_CATEGORIES[value]}", char, flags & re.ASCII) is not None
    return False
