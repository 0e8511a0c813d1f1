"""Test scripts in YAML: what reading, comparing and reporting them has in common in all languages."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

import msgspec

from memoranda.errors import NotFound, UsageError
from memoranda.lang.diagnostics import Diagnostics, did_you_mean
from memoranda.lang.expression.patterns import compile_pattern, search
from memoranda.lang.source import Source, Span
from memoranda.model.clock import from_micros, parse_duration, parse_moment
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.lang.yaml import YamlNode


class ScriptClock:
    """A clock that moves only when a test waits."""

    def __init__(self, moment: str) -> None:
        """Start at an ISO 8601 moment."""
        self._moment = datetime.fromisoformat(moment)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the current moment."""
        return self._moment

    def wait(self, seconds: float) -> None:
        """Advance by a number of seconds."""
        with self._lock:
            self._moment += timedelta(seconds=seconds)


ENDING = ".tests.yaml"
"""The ending of a test file; the tests of `hotel.abl` are in `hotel.tests.yaml`."""
_ENDINGS = (ENDING, ".tests.yml")


def programs_beside(tests: Path, endings: Iterable[str]) -> list[Path]:
    """Return the programs next to a test file that it may belong to."""
    stem = _stem_of(tests)
    return [beside for ending in endings if (beside := tests.with_name(stem + ending)).is_file() and beside != tests]


def _stem_of(tests: Path) -> str:
    ending = next((ending for ending in _ENDINGS if tests.name.endswith(ending)), tests.suffix)
    return tests.name.removesuffix(ending)


class Tested(msgspec.Struct, frozen=True):
    """A kind of program with tests in a file of their own: its name and article, and the endings of its files."""

    name: str
    article: str
    ending: str
    """The usual ending, for hints."""
    endings: tuple[str, ...]
    """All endings, longer ones first."""

    def tests_of(self, path: Path) -> Path:
        """Return the test file that belongs to a program; a test file is its own."""
        if path.name.endswith(_ENDINGS):
            return path
        for ending in self.endings:
            if path.name.endswith(ending):
                return path.with_name(path.name.removesuffix(ending) + ENDING)
        if path.suffix in (".yaml", ".yml"):
            return path
        raise UsageError(
            f"{quote(path.name)} is neither {self.article} {self.name} nor a file of tests",
            hint=f"{self.name.capitalize()}s end in {', '.join(self.endings)}, their tests in {ENDING}",
            path=str(path),
        )

    def program_of(self, tests: Path, named: str | None) -> Path:
        """Return the program that a test file names, or the one next to it."""
        if named is not None:
            return tests.parent / named
        beside = programs_beside(tests, self.endings)
        if not beside:
            hint = f"Name it in the file: `{self.name}: {_stem_of(tests)}{self.ending}`"
            raise NotFound(f"no {self.name} found for {quote(str(tests))}", hint=hint, path=str(tests))
        return beside[0]

    def text_of(self, tests: Path) -> str:
        """Return the text of a test file."""
        path = str(tests)
        try:
            return tests.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            example = f"those of `desk{self.ending}` in `desk{ENDING}`"
            hint = f"Write the tests of {self.article} {self.name} beside it: {example}"
            raise NotFound(f"the file {quote(path, longest=300)} does not exist", hint=hint, path=path) from None
        except UnicodeDecodeError:
            raise UsageError(f"{quote(path)} is not text in UTF-8", hint="Convert it", path=path) from None
        except OSError as error:
            message = f"{quote(path)} cannot be read: {error.strerror or error}"
            raise UsageError(message, hint="Name a file that can be read", path=path) from None


How = Literal["has", "is", "not", "matches"]


class Wording(msgspec.Struct, frozen=True):
    """An expectation about a text: it contains, equals, does not contain, or matches a pattern."""

    how: How
    text: str


def fits(wording: Wording, text: str) -> bool:
    """Return whether a text meets an expectation, ignoring surrounding white space."""
    match wording.how:
        case "is":
            return text.strip() == wording.text.strip()
        case "not":
            return wording.text not in text
        case "matches":
            return search(compile_pattern(wording.text), text) is not None
        case _:
            return wording.text in text


def describe(wording: Wording) -> str:
    """Return an expectation in words."""
    words = {"has": "", "is": "exactly ", "not": "not ", "matches": "what matches "}
    return words[wording.how] + quote(wording.text, longest=400)


class Difference(NamedTuple):
    """A place where a value is not as expected; a missing value is None."""

    path: tuple[str | int, ...]
    expected: Any
    got: Any

    @property
    def where(self) -> str:
        """The path as text: `items[0].name`."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).removeprefix(".")


def differences(expected: Any, got: Any, path: tuple[str | int, ...] = ()) -> Iterator[Difference]:
    """Yield every place where a JSON value is not as expected; 1 equals 1.0, but not true.

    Only expected keys of an object are compared; of a list, every item.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        found = cast("dict[str, Any]", got)
        for name, value in cast("dict[str, Any]", expected).items():
            yield from differences(value, found.get(name), (*path, name))
        return
    if isinstance(expected, list) and isinstance(got, list):
        wanted, items = cast("list[Any]", expected), cast("list[Any]", got)
        if len(wanted) == len(items):
            for at, (one, other) in enumerate(zip(wanted, items, strict=True)):
                yield from differences(one, other, (*path, at))
            return
    elif isinstance(expected, bool) == isinstance(got, bool) and expected == got:
        return
    yield Difference(path, expected, got)


Failure = TypeVar("Failure")


class Case(msgspec.Struct, Generic[Failure], frozen=True):
    """The result of one test."""

    name: str
    line: int
    failure: Failure | None = None

    @property
    def passed(self) -> bool:
        """Whether the test passed."""
        return self.failure is None


class Report(msgspec.Struct, Generic[Failure], frozen=True):
    """The results of a test file, in order."""

    path: str
    cases: tuple[Case[Failure], ...]

    @property
    def passed(self) -> int:
        """Number of tests that passed."""
        return sum(case.passed for case in self.cases)

    @property
    def failed(self) -> int:
        """Number of tests that failed."""
        return len(self.cases) - self.passed


class Script(Protocol):
    """A test, as far as all languages share it."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def span(self) -> Span:
        """Its place in the file."""
        ...


S = TypeVar("S", bound=Script)
A = TypeVar("A")


def run_each(source: Source, scripts: Iterable[S], play: Callable[[S], Failure | None]) -> Report[Failure]:
    """Run the tests of a file one by one, and report how each ended; `play` returns why a test failed."""
    cases = (Case(one.name, source.position(one.span.start).line, play(one)) for one in scripts)
    return Report(source.name, tuple(cases))


class Answers(Generic[A]):
    """Scripted answers, given one after the other; the last one is repeated."""

    def __init__(self, answers: Iterable[A]) -> None:
        """Start with the first."""
        self._left = deque(answers)
        self._lock = threading.Lock()

    def next(self) -> A:
        """Return the next answer."""
        with self._lock:
            return self._left.popleft() if len(self._left) > 1 else self._left[0]


def json_text(value: Any) -> str:
    """Return a value as JSON, for a report."""
    return msgspec.json.encode(value).decode()


class ScriptReader(ABC):
    """Turns YAML nodes into values and collects diagnostics; each language adds its keywords.

    Words stay words: `say: yes` says `yes`, and a date is text.
    """

    def __init__(self, diagnostics: Diagnostics) -> None:
        """Start with the diagnostics of a source."""
        self.diagnostics = diagnostics

    @classmethod
    def read(cls, text: str, *, name: str) -> Any:
        """Return what the text of a test file says, or raise a SourceError with all of its diagnostics."""
        # Imported here: programs know their tests, and most of them never read YAML.
        from memoranda.lang.yaml import compose

        source = Source(name, text)
        reader = cls(Diagnostics(source))
        found = reader.file(compose(source, reader.diagnostics))
        reader.diagnostics.raise_if_failed()
        return found

    @abstractmethod
    def file(self, node: YamlNode | None) -> Any:
        """Return what a test file says; each language has its own keys."""

    def keys(self, node: YamlNode | None, what: str, known: Collection[str]) -> dict[str, YamlNode]:
        """Return the top-level keys of a file; an empty file is an error."""
        if node is not None:
            return dict(self.entries(node, what, known))
        if not self.diagnostics.failed:
            self.missing("the file declares no tests", Span(0, 0), "Begin it with `tests:`")
        return {}

    def tests(
        self, node: YamlNode | None, whole: YamlNode | None, read: Callable[[YamlNode], S | None]
    ) -> tuple[S, ...]:
        """Return the tests of a file, with unique names; `whole` is the place to report that there are none."""
        tests: list[S] = []
        names: set[str] = set()
        for item in self.items(node, "tests") if node is not None else ():
            test = read(item)
            if test is None:
                continue
            if test.name in names:
                message = f"{quote(test.name)} is declared a second time"
                self.diagnostics.error("duplicate", message, item.span, hint="Give each test a name of its own")
            names.add(test.name)
            tests.append(test)
        if not tests and whole is not None and not self.diagnostics.failed:
            self.missing("there are no tests in this file", whole.span, "Put them below `tests:`, as a list")
        return tuple(tests)

    def check_test(self, given: dict[str, Any], steps: str, node: YamlNode, hint: str) -> bool:
        """Return whether a test has a name, and note if it does nothing: `steps` is the key of what it does."""
        name = given.get("name")
        if not name:
            self.missing("a test needs a name", node.span, "Begin it with `- name: What it shows`")
        elif not given.get(steps) and not self.diagnostics.failed:
            self.missing(f"the test {quote(name)} does nothing", node.span, hint)
        return bool(name)

    # parts

    def entries(self, node: YamlNode, what: str, known: Collection[str]) -> Iterator[tuple[str, YamlNode]]:
        """Yield the entries of a mapping with known keys, each once; report the others."""
        if node.entries is None:
            self.wrong(f"{what} is keys and values", node.span, f"Its keys are {', '.join(known)}")
        for key, value in self.named(node):
            name = key.scalar or ""
            if name in known:
                yield name, value
            else:
                hint = did_you_mean(name, known, otherwise=f"Its keys are {', '.join(known)}")
                self.diagnostics.error("unknown_key", f"{quote(name)} is not a key of {what}", key.span, hint=hint)

    def named(self, node: YamlNode) -> Iterator[tuple[YamlNode, YamlNode]]:
        """Yield the entries of a mapping, each key once; report duplicates."""
        seen: set[str] = set()
        for key, value in node.entries or ():
            name = key.scalar or ""
            if name in seen:
                message = f"{quote(name)} is declared a second time"
                self.diagnostics.error("duplicate", message, key.span, hint="Keep one of them")
            else:
                seen.add(name)
                yield key, value

    def items(self, node: YamlNode, what: str) -> tuple[YamlNode, ...]:
        """Return the items of a list."""
        if node.items is None:
            self.wrong(f"`{what}` is a list", node.span, "Begin each item with a dash")
        return node.items or ()

    def mapping(self, node: YamlNode, what: str) -> dict[str, Any] | None:
        """Return names and values."""
        if node.entries is None:
            self.wrong(f"`{what}` is names and values", node.span, "Write `name: value` below it")
            return None
        return self.value(node)

    def value(self, node: YamlNode) -> Any:
        """Return any value; report duplicate keys in it."""
        self._look_through(node)
        return node.value

    def _look_through(self, node: YamlNode) -> None:
        for _, value in self.named(node):
            self._look_through(value)
        for item in node.items or ():
            self._look_through(item)

    def text(self, node: YamlNode, what: str, *, empty: bool = False) -> str | None:
        """Return a text; an empty one is an error unless `empty` allows it."""
        if node.scalar is None or not (node.scalar or empty):
            self.wrong(f"`{what}` is a text", node.span, "Write it after the colon")
        return node.scalar

    def texts(self, node: YamlNode, what: str) -> tuple[str, ...]:
        """Return one text or several."""
        nodes = node.items if node.items is not None else (node,)
        return tuple(text for one in nodes if (text := self.text(one, what)) is not None)

    def word(self, node: YamlNode, what: str, known: Collection[str]) -> str:
        """Return one of the known words."""
        word = node.scalar or ""
        if word not in known:
            hint = did_you_mean(word, known, otherwise=f"One of {', '.join(known)}")
            self.wrong(f"{quote(word)} is not a valid {what}", node.span, hint)
        return word

    def flag(self, node: YamlNode) -> bool:
        """Return true, the only valid value."""
        if node.value is not True:
            self.wrong("this can only be `true`", node.span, "Leave the line out for the opposite")
        return True

    def moment(self, node: YamlNode) -> str | None:
        """Return a moment as ISO 8601 text."""
        moment = self.parse(node, parse_moment, node.scalar or "")
        return None if moment is None else from_micros(moment).isoformat()

    def seconds(self, node: YamlNode) -> int:
        """Return a duration, such as `90s` or `2h`, in seconds."""
        return self.parse(node, parse_duration, node.scalar or "") or 0

    def comparisons(self, node: YamlNode, known: Collection[How]) -> Iterator[Wording]:
        """Yield the expectations of a mapping from a comparison to one or several texts."""
        for how, value in self.entries(node, "an expectation", known):
            for text in self.texts(value, how):
                if how == "matches":
                    self.parse(value, compile_pattern, text)
                yield Wording(cast("How", how), text)

    def parse(self, node: YamlNode, parse: Callable[[Any], A], written: Any) -> A | None:
        """Return what a function makes of a written value; report what it refuses."""
        try:
            return parse(written)
        except UsageError as error:
            self.wrong(error.message, node.span, error.hint)
            return None

    # faults

    def wrong(self, message: str, span: Span, hint: str) -> None:
        """Report an invalid value."""
        self.diagnostics.error("wrong_value", message, span, hint=hint)

    def missing(self, message: str, span: Span, hint: str) -> None:
        """Report something missing."""
        self.diagnostics.error("missing", message, span, hint=hint)
