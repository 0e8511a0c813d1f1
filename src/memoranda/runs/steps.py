"""Step records: what each step of a run, or each turn of an agent, was given, said to models, read, wrote and returned.

They are for looking into a run, and nothing resumes from them: a run without them is the same run. They are facts in
the scope of the run or session, under `steps`, written together with its outcome; so they are erased with its owner,
and expire by a time to live of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar, Token
from datetime import timedelta
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, cast

import msgspec

from memoranda.agent.models import Ask, Model, Reply, Said
from memoranda.api.memory import Memory
from memoranda.engine.facts import SetFact
from memoranda.errors import MemorandaError, UsageError
from memoranda.model.clock import Clock, Duration, parse_duration, utc_now
from memoranda.model.effect import Effect
from memoranda.model.entry import Entry, Match, Recalled, Remembered
from memoranda.model.event import StepStatus
from memoranda.model.fact import Fact
from memoranda.model.limits import check_count
from memoranda.model.names import is_internal, step_key
from memoranda.model.ref import Ref
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode, hash_content
from memoranda.runs.outcome import Failure, Paused, StepFailed, details_of
from memoranda.runs.redaction import Redaction, to_json

StepValues: TypeAlias = Literal["none", "hashes", "full"]
"""What is kept of a step: nothing at all, its times and hashes of its values, or everything."""

_PART_BYTES = 400_000
"""Size of a part of the step records in one fact."""
_MOST_REFS = 100
_MESSAGE_SHARE = 8
"""How many times the bytes of one value the messages of one step may take together."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded of the steps of a run; pass one to the `Behaviour` of a language.

    >>> Recording(values="full", redact=("email",)).steps
    1000
    """

    values: StepValues = "none"
    ttl: Duration | None = "30d"
    """How long step records are kept; None for as long as their run or session."""
    value_bytes: int = 16_384
    """Maximum bytes of one input, output or message; a longer one is cut, and says so."""
    steps: int = 1_000
    """Maximum number of steps recorded of one run, or of one turn of an agent; the last record counts the others."""
    run_bytes: int = 4_000_000
    """Maximum bytes recorded by one execution; later steps are recorded without values, and say so."""
    redact: tuple[str, ...] = ()
    """Names of fields that are not recorded, at any depth, nor their texts elsewhere; credentials never are."""

    def __post_init__(self) -> None:
        """Reject invalid options."""
        if self.values not in ("none", "hashes", "full"):
            raise UsageError(f"{quote(self.values)} is not what can be recorded", hint="Use none, hashes or full")
        check_count("number of bytes", self.value_bytes, least=64)
        check_count("number of steps", self.steps, least=1)
        check_count("number of bytes", self.run_bytes, least=64)
        if self.ttl is not None:
            parse_duration(self.ttl)

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self.values != "none"


NO_RECORDING = Recording()


class OpenStep:
    """A step that runs, and what is to be recorded of it; `with` makes it the one that reads and requests belong to."""

    __slots__ = (
        "_begun",
        "_log",
        "_seen",
        "_token",
        "attempts",
        "error",
        "inputs",
        "messages",
        "number",
        "output",
        "parent",
        "reads",
        "run",
        "seconds",
        "started_at",
        "status",
        "step",
        "type",
        "writes",
    )

    def __init__(self, log: StepLog, step: str, type: str) -> None:
        """Begin a step within the one that runs now."""
        around = _current.get()
        self._log = log
        self._token: Token[OpenStep | None] | None = None
        self._begun = time.perf_counter()
        self._seen = 0
        self.number = next(log.numbers)
        self.parent = around.number if around is not None and around._log is log else None
        self.step = step
        self.type = type
        self.started_at = utc_now(log.clock)
        self.status: StepStatus | None = None
        """Given by how its `with` block ends, unless it is set before."""
        self.seconds = 0.0
        self.attempts = 1
        self.inputs: Any = None
        self.output: Any = None
        """Its output, or a `Raw` of it."""
        self.messages: list[dict[str, Any]] = []
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.error: dict[str, Any] | None = None
        self.run: str | None = None
        """The run of the program that it called."""

    def __enter__(self) -> Self:
        """Let reads, writes and requests to models belong to this step."""
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Record the step, as failed, waiting or stopped if it is left by an exception."""
        if self._token is not None:
            _current.reset(self._token)
        self.seconds = time.perf_counter() - self._begun
        if self.status is None:
            if isinstance(error, StepFailed):
                self.fail(error.failure)
            elif isinstance(error, MemorandaError):
                self.fail(Failure(type=error.code, message=error.message, step=self.step, details=details_of(error)))
            else:
                self.status = "completed" if error is None else "waiting" if isinstance(error, Paused) else "stopped"
        self._log.add(self)

    def fail(self, failure: Failure) -> None:
        """Say why the step failed."""
        self.status, self.error = "failed", msgspec.to_builtins(failure)

    def hear(self, ask: Ask, reply: Reply, model: str) -> None:
        """Record a request to a model as far as it is new, and the reply."""
        new = ask.messages[self._seen :]
        if not self._seen and ask.instructions:
            self.messages.append({"role": "system", "text": ask.instructions})
        if self._seen and new and new[0].role == "assistant":
            new = new[1:]  # the reply to the request before, which is recorded
        self.messages += map(_message, new)
        said = _message(Said("assistant", reply.text, reply.calls))
        said |= {"model": model, "tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out}
        self.messages.append(said if reply.value is None else {**said, "value": reply.value})
        self._seen = len(ask.messages)

    def note(self, refs: Iterable[str], *, written: bool) -> None:
        """Add refs of memory that was read or written."""
        noted = self.writes if written else self.reads
        for ref in refs:
            if len(noted) > _MOST_REFS:
                return
            noted[ref] = None


class _NoStep:
    """What takes the place of a step where nothing is recorded."""

    def __enter__(self) -> _NoStep:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __setattr__(self, name: str, value: object) -> None:
        pass

    def fail(self, failure: Failure) -> None:
        pass

    def note(self, refs: Iterable[str], *, written: bool) -> None:
        pass


NO_STEP = cast("OpenStep", _NoStep())
_current: ContextVar[OpenStep | None] = ContextVar("_current", default=None)


def current_step() -> OpenStep:
    """Return the step that runs in this context; one that records nothing if there is none."""
    return _current.get() or NO_STEP


def _message(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": said.role, "text": said.text}
    if said.calls:
        message["calls"] = [{"id": one.id, "name": one.name, "arguments": one.arguments} for one in said.calls]
    if said.tool:
        message |= {"tool": said.tool, "call_id": said.call_id}
    return message


class StepLog:
    """The step records of one execution of a run, or of one turn."""

    def __init__(
        self,
        recording: Recording,
        *,
        clock: Clock,
        salt: str,
        last: int = 0,
        is_known: Callable[[], bool] = lambda: False,
        hide: Callable[[Any], Any] | None = None,
    ) -> None:
        """Continue after the record with the number `last`.

        `salt` goes into hashes of values. `is_known` says, when a step ends, whether an earlier execution recorded it.
        `hide` removes what its program calls sensitive.
        """
        self._recording = recording
        self._salt = salt.encode()[:64]
        self._is_known = is_known
        self._hide = hide
        self._first = last
        self._size = 0
        self._left_out = 0
        self._records: dict[int, bytes] = {}
        self._secrets_known: dict[int, int] = {}
        """How many texts to redact were known when each step was recorded."""
        self._redaction = Redaction(recording.redact)
        self.clock = clock
        self.numbers = count(last + 1)

    def step(self, step: str, type: str) -> OpenStep:
        """Return a step that begins."""
        return OpenStep(self, step, type)

    def part_of(self, step: OpenStep, number: int, *, after: float) -> OpenStep:
        """Return a part of a step, with a number of its own, that happened some seconds after it began."""
        part = OpenStep(self, "", "")
        part.number, part.parent, part.started_at = number, step.number, step.started_at + timedelta(seconds=after)
        return part

    def add(self, step: OpenStep) -> None:
        """Record a step that has ended, or waits; one that was recorded is recorded anew."""
        if self._is_known():
            return
        if len(self._records) >= self._recording.steps and step.number not in self._records:
            self._left_out += 1
            return
        record: dict[str, Any] = {
            "number": step.number,
            "step": step.step,
            "type": step.type,
            "status": step.status or "completed",
            "started_at": step.started_at,
            "seconds": round(step.seconds, 6),
        }
        if step.parent is not None:
            record["parent"] = step.parent
        if step.attempts > 1:
            record["attempts"] = step.attempts
        if step.run is not None:
            record["run"] = step.run
        truncated: list[str] = []
        for name, refs in (("reads", step.reads), ("writes", step.writes)):
            if refs:
                record[name] = list(refs)[:_MOST_REFS]
                if len(refs) > _MOST_REFS:
                    truncated.append(name)
        self._add_values(record, step, truncated)
        if truncated:
            record["truncated"] = truncated
        payload = encode(record)
        self._size += len(payload)
        self._records[step.number] = payload
        self._secrets_known[step.number] = self._redaction.count

    def _add_values(self, record: dict[str, Any], step: OpenStep, truncated: list[str]) -> None:
        """Add the values of a step to its record; `truncated` gets the names of those that were cut."""
        values = {
            name: value
            for name, value in (
                ("step", step.step),  # in a turn of an agent, it may be what the user said
                ("inputs", step.inputs),
                ("output", step.output),
                ("messages", step.messages or None),
                ("error", step.error),
            )
            if value is not None
        }
        if self._size >= self._recording.run_bytes:
            record["step"] = self._redact({"step": values.pop("step")}, is_request=False)["step"]
            truncated.extend(values)
            return
        values = self._redact(values, is_request="http" in step.type)
        record["step"] = values.pop("step")
        keep = self._digest if self._recording.values == "hashes" else self._bound
        messages = cast("list[dict[str, Any]]", values.pop("messages", ()))
        for name, value in values.items():
            record[name], cut = keep(value)
            if cut:
                truncated.append(name)
        if messages:
            record["messages"], cut = self._bound_messages(messages, keep)
            if cut:
                truncated.append("messages")
        if "error" in values and keep == self._digest:
            record["error"] = {"type": values["error"].get("type", "")}

    def _redact(self, values: dict[str, Any], *, is_request: bool) -> dict[str, Any]:
        redaction = self._redaction
        if redaction.applies_to(b"\n".join(map(to_json, values.values())), is_request=is_request):
            stripped = {
                name: redaction.strip(one, is_request=is_request and name == "inputs") for name, one in values.items()
            }
            values = {name: redaction.blank(one) for name, one in stripped.items()}
        if self._hide is None:
            return values
        return self._hide(
            {name: decode(bytes(one)) if isinstance(one, msgspec.Raw) else one for name, one in values.items()}
        )

    def learn_secrets(self, value: Any) -> None:
        """Take note of redacted fields of a value: their texts are not recorded in other values either."""
        if self._redaction.applies_to(to_json(value)):
            self._redaction.strip(value)

    def _bound(self, value: Any) -> tuple[Any, bool]:
        """Return a value as it is recorded, and whether it was too long: then it is the beginning of its JSON."""
        payload, most = to_json(value), self._recording.value_bytes
        if len(payload) <= most:
            return msgspec.Raw(payload), False
        start = payload[:most].decode("utf-8", "ignore")
        return {"truncated": True, "bytes": len(payload), "start": start}, True

    def _digest(self, value: Any) -> tuple[Any, bool]:
        payload = to_json(value)
        return {"hash": hash_content(self._salt, payload), "bytes": len(payload)}, False

    def _bound_messages(
        self, messages: list[dict[str, Any]], keep: Callable[[Any], tuple[Any, bool]]
    ) -> tuple[list[Any], bool]:
        kept: list[Any] = []
        size, any_cut = 0, False
        for message in messages:
            bounded, cut = keep(message)
            if isinstance(bounded, dict):
                told = {name: message[name] for name in _TOLD if name in message}
                bounded, any_cut = {**told, **cast("dict[str, Any]", bounded)}, any_cut or cut
            size += len(to_json(bounded))
            if size > self._recording.value_bytes * _MESSAGE_SHARE:
                return kept, True
            kept.append(bounded)
        return kept, any_cut

    def _blank_record(self, payload: bytes) -> bytes:
        """Return a record without the texts that were learned after it was made."""
        redaction = self._redaction
        if not redaction.has_secret(payload) and b'"truncated"' not in payload:
            return payload
        record: dict[str, Any] = decode(payload)
        for name in ("step", "inputs", "output", "messages", "error"):
            if name in record:
                record[name] = redaction.blank(record[name])
        values = (record.get("inputs"), record.get("output"), *record.get("messages", ()), record.get("error"))
        for value in values:
            fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
            if fields.get("truncated") is True and isinstance(fields.get("start"), str):
                fields["start"] = redaction.blank_start(fields["start"])
        return encode(record)

    @property
    def last(self) -> int:
        """The number of the newest record."""
        return max(self._records, default=self._first)

    def writes(self, scope: Scope) -> tuple[SetFact, ...]:
        """Return the writes of what was recorded; a step that ends later is not recorded."""
        if self._left_out:
            number = self.last + 1
            told = {"number": number, "step": "", "type": "left_out", "status": "stopped", "seconds": 0.0}
            self._records[number] = encode(
                {**told, "started_at": utc_now(self.clock), "output": {"steps": self._left_out}}
            )
        for number, known in dict(self._secrets_known).items():
            if known < self._redaction.count:
                self._records[number] = self._blank_record(self._records[number])
                self._secrets_known[number] = self._redaction.count
        ttl = None if self._recording.ttl is None else parse_duration(self._recording.ttl)
        return tuple(
            SetFact(scope=scope, key=step_key(last), payload=msgspec.Raw(part), ttl=ttl, echo=False)
            for last, part in _parts(dict(self._records))
        )


_TOLD = ("role", "tool", "model", "tokens_in", "tokens_out")
"""What is said of a message of which only a hash or the beginning is kept."""


def _parts(records: dict[int, bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the records as JSON lists that fit into one fact each, with the number of the last one."""
    waiting: list[bytes] = []
    size = last = 0
    for number in sorted(records):
        if waiting and size + len(records[number]) > _PART_BYTES:
            yield last, b"[" + b",".join(waiting) + b"]"
            waiting, size = [], 0
        waiting.append(records[number])
        size, last = size + len(records[number]), number
    if waiting:
        yield last, b"[" + b",".join(waiting) + b"]"


# what steps do


class WatchedModel:
    """A model whose requests and replies are recorded with the step that makes them."""

    def __init__(self, model: Model) -> None:
        """Wrap a model."""
        self._model = model

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        """Return the reply of the model, and record both."""
        step = _current.get()
        try:
            reply = self._model.reply(ask, timeout=timeout)
        except MemorandaError as error:
            if step is not None:
                step.hear(ask, Reply(), self._model.name)
                step.messages[-1]["error"] = error.message
            raise
        if step is not None:
            step.hear(ask, reply, self._model.name)
        return reply


def watch_memory(memory: Memory) -> Memory:
    """Return a handle whose reads and writes are recorded with the step that makes them."""
    return memory.observed(_note_refs)


def _note_refs(effect: Effect, result: Any) -> None:
    step = _current.get()
    if step is not None:
        step.note(_refs(result), written=effect.mutates)


def _refs(result: Any) -> Iterator[str]:
    """Yield the refs of memory in what an effect returned, without what the runtime keeps for itself."""
    if isinstance(result, Fact):
        if not is_internal(result.scope, result.key):
            yield str(Ref("fact", result.scope, result.key))
    elif isinstance(result, Entry | Match) or (isinstance(result, Remembered) and result.stored):
        yield result.ref
    elif isinstance(result, Recalled):
        yield from _refs(result.results)
    elif isinstance(result, list | tuple):
        for one in cast("list[Any]", result):
            yield from _refs(one)
