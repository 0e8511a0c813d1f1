"""Bad input gets a typed error that names the fault and says what to do, and changes nothing."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import memoranda
from memoranda import errors
from memoranda.model.policy import Policy, Quota
from memoranda.model.scope import Scope
from memoranda.store.memory import MemoryStore
from memoranda.store.sqlite import SqliteStore
from memoranda.testing.conformance.base import snapshot
from memoranda.testing.fakes import FakeClock

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture(params=[MemoryStore, lambda: SqliteStore(":memory:")], ids=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest) -> Iterator[memoranda.Memory]:
    """Return a memory that already holds something of everything, so that harm would show."""
    with memoranda.Memory(request.param(), clock=FakeClock()) as memory:
        memory.definitions.create(name="Counter", slug="counter", schema=SCHEMA)
        memory.permissions.grant("agent", "memory")
        ada = memory.scope(user="ada")
        ada.set("k", {"n": 1})
        ada.set("counter", {"n": 1})
        yield memory


def label(value: object) -> str:
    """Return a name for a parameter that is the same in every process."""
    shown = ascii(value)
    return type(value).__name__ if " at 0x" in shown or " object " in shown else shown[:24]


def refused(
    memory: memoranda.Memory, attempt: Callable[[], object], kind: type[errors.MemorandaError] = errors.UsageError
) -> errors.MemorandaError:
    """Make the attempt; check that it is refused as this kind of error and changes nothing at all."""
    store = memory._gate._store
    before = snapshot(store)
    with pytest.raises(kind) as caught:
        attempt()
    assert snapshot(store) == before
    assert memory.scope(user="ada").set("still works", 1).key == "still works"
    memory.scope(user="ada").delete("still works")
    error = caught.value
    assert isinstance(error, ValueError)
    assert error.code == errors._slug(type(error).__name__)
    assert error.message and len(error.message) < 2000
    assert error.hint
    assert str(error) == f"{error.message}. {error.hint}"
    assert "`" in error.message or set(error.details) & {"path", "limit", "value"}, "it names what is wrong"
    return error


# values

BAD_VALUES: list[tuple[Any, str]] = [
    (object(), "$"),
    ({1, 2}, "$"),
    (b"bytes", "$"),
    (bytearray(b"x"), "$"),
    ((1, 2), "$"),
    (datetime(2026, 1, 1, tzinfo=UTC), "$"),
    (timedelta(1), "$"),
    (Decimal("1.5"), "$"),
    (1j, "$"),
    (len, "$"),
    (float, "$"),
    ([1, object()], "$[1]"),
    ({"a": {"b": [0, (1,)]}}, "$.a.b[1]"),
    ({1: "x"}, "$"),
    ({"a": {None: 1}}, "$.a"),
    ({("t",): 1}, "$"),
    ({b"k": 1}, "$"),
    (math.nan, "$"),
    (math.inf, "$"),
    (-math.inf, "$"),
    ({"a": [math.nan]}, "$.a[0]"),
    (2**63, "$"),
    (-(2**63) - 1, "$"),
    ({"n": 10**30}, "$.n"),
    ("\ud800", "$"),
    ({"a": "x\udfff"}, "$"),
    ({"\ud800": 1}, "$"),
    ("a\0b", "$"),
    ({"a": ["\0"]}, "$.a[0]"),
    ({"a\0b": 1}, "$"),
]


@pytest.mark.parametrize(("value", "path"), BAD_VALUES, ids=label)
def test_a_value_that_is_not_json_is_refused_with_its_path(memory: memoranda.Memory, value: Any, path: str) -> None:
    ada = memory.scope(user="ada")
    assert refused(memory, lambda: ada.set("k", value), errors.InvalidValue).path == path
    refused(memory, lambda: ada.create("new", value), errors.InvalidValue)
    refused(memory, lambda: ada.update("k", lambda _: value), errors.InvalidValue)

    def batch() -> None:
        with memory.batch() as batch:
            batch.set(ada, "good", 1)
            batch.set(ada, "bad", value)

    refused(memory, batch, errors.InvalidValue)


def _cyclic_list() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _cyclic_dict() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = {"again": value}
    return value


def _deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("make", [_cyclic_list, _cyclic_dict, lambda: _deep(65), lambda: _deep(500)])
def test_a_value_that_holds_itself_or_is_too_deep_is_refused(memory: memoranda.Memory, make: Callable[[], Any]) -> None:
    refused(memory, lambda: memory.scope(user="ada").set("k", make()), errors.LimitExceeded)


def test_a_value_of_the_greatest_depth_is_kept(memory: memoranda.Memory) -> None:
    memory.scope(user="ada").set("k", _deep(64))
    assert memory.scope(user="ada").value("k") == _deep(64)


def test_a_value_that_is_too_large_is_refused_naming_the_limit(memory: memoranda.Memory) -> None:
    ada = memory.scope(user="ada")
    for value in ("x" * 10_000_000, ["é" * 10] * 100_000, {str(n): n for n in range(200_000)}):
        error = refused(memory, lambda value=value: ada.set("k", value), errors.LimitExceeded)
        assert error.limit == 1_048_576
        assert error.actual > error.limit
        assert "1,048,576" in error.message
        assert "Limits(value_bytes" in error.hint


def test_a_value_of_exactly_the_largest_size_is_kept(memory: memoranda.Memory) -> None:
    ada = memory.scope(user="ada")
    ada.set("k", "x" * (1_048_576 - 2))
    error = refused(memory, lambda: ada.set("k", "x" * (1_048_576 - 1)), errors.LimitExceeded)
    assert error.actual == 1_048_577


def test_limits_can_be_changed() -> None:
    with memoranda.Memory(MemoryStore(), limits=memoranda.Limits(value_bytes=10, depth=1)) as memory:
        ada = memory.scope(user="ada")
        assert ada.set("k", "x" * 8).version == 1
        for value in ("x" * 9, [[1]]):
            with pytest.raises(errors.LimitExceeded):
                ada.set("k", value)


# keys

BAD_KEYS: list[Any] = [
    "",
    "x" * 513,
    "x" * 600,
    "a..b",
    ".a",
    "a.",
    ".",
    "a\0b",
    "a\nb",
    "a\tb",
    "a\x7fb",
    "a\u202eb",
    "a\u200bb",
    "\ufeffa",
    "a\u2028b",
    "e\u0301",
    "a ",
    " a",
    "\u00a0a",
    "\ud800",
    None,
    5,
    True,
    b"k",
    ("a", "b"),
    ["a"],
    object(),
]


@pytest.mark.parametrize("key", BAD_KEYS, ids=label)
def test_a_key_that_cannot_name_a_fact_is_refused(memory: memoranda.Memory, key: Any) -> None:
    ada = memory.scope(user="ada")
    for attempt in (
        lambda: ada.get(key),
        lambda: ada.value(key),
        lambda: ada.set(key, 1),
        lambda: ada.create(key, 1),
        lambda: ada.update(key, lambda value: value, default=1),
        lambda: ada.delete(key),
        lambda: ada.history(key),
        lambda: memory.batch().set(ada, key, 1),
        lambda: memory.batch().delete(ada, key),
    ):
        assert refused(memory, attempt, errors.InvalidKey).value is key
    if key not in ("", None):
        refused(memory, lambda: ada.list(key), errors.InvalidKey)


def test_keys_that_look_unusual_but_are_visible_are_kept(memory: memoranda.Memory) -> None:
    ada = memory.scope(user="ada")
    for key in ("x" * 512, "é", "日本.語", "a b", "a/b:c", "%", "_", "'; drop table facts; --", "🧠", "-", "0"):
        assert ada.set(key, key).key == key
        assert ada.value(key) == key


# scopes

BAD_IDS: list[Any] = [
    "",
    "x" * 257,
    "a\0b",
    "a\u202eb",
    "a\u200bb",
    "e\u0301",
    "a ",
    " a",
    "a\nb",
    "\ud800",
    5,
    True,
    b"a",
    ("a",),
    object(),
]


@pytest.mark.parametrize("id", BAD_IDS, ids=label)
@pytest.mark.parametrize("kind", ["user", "agent", "session", "tenant"])
def test_an_id_that_cannot_name_a_memory_is_refused(memory: memoranda.Memory, kind: str, id: Any) -> None:
    for attempt in (
        lambda: memory.scope(**{kind: id}),
        lambda: memory.erase(**({"user": "ada"} | {kind: id})),
    ):
        error = refused(memory, attempt, errors.InvalidScope)
        assert error.value is id
        assert error.kind == kind
    if kind == "session":
        refused(memory, lambda: memory.scope(user="ada").session(id), errors.InvalidScope)


def test_an_unknown_kind_of_scope_is_refused(memory: memoranda.Memory) -> None:
    for kind in ("users", "User", "team", "x"):
        error = refused(memory, lambda kind=kind: memory.scope(**{kind: "a"}), errors.InvalidScope)
        assert kind in error.message
        assert "user" in error.hint


@pytest.mark.parametrize(
    "text",
    ["user", "user:", ":ada", "nobody:ada", "user:ada/", "/user:ada", "user:ada//agent:x", "agent:x/user:ada",
     "user:a/user:b", "user:a%2fb", "user:a%", "user: ada", "user:e\u0301", "USER:ada", 5, None, b"user:ada"],
)  # fmt: skip
def test_text_that_is_not_a_canonical_scope_is_refused(memory: memoranda.Memory, text: Any) -> None:
    refused(memory, lambda: memory.at(text).get("k"), errors.InvalidScope)


# durations

BAD_DURATIONS: list[Any] = [
    "",
    "0d",
    "-1d",
    "+1d",
    "1.5h",
    "1y",
    "90",
    "1 d",
    " 1d",
    "1d ",
    "1d\n",
    "01d",
    "1D",
    "1d12h",
    "d",
    "٣d",
    "1e3s",
    "9999999999999w",
    "9" * 5000 + "s",
    "36601d",
    True,
    False,
    0,
    -5,
    1.5,
    1e9,
    math.nan,
    math.inf,
    10**12,
    timedelta(0),
    timedelta(seconds=-1),
    timedelta(milliseconds=1500),
    timedelta(days=36_601),
    timedelta.max,
    [],
    b"1d",
    object(),
]


@pytest.mark.parametrize("ttl", BAD_DURATIONS, ids=label)
def test_a_duration_that_is_none_is_refused(memory: memoranda.Memory, ttl: Any) -> None:
    ada = memory.scope(user="ada")
    for attempt in (
        lambda: ada.set("k", 1, ttl=ttl),
        lambda: ada.create("new", 1, ttl=ttl),
        lambda: ada.update("k", lambda value: value, ttl=ttl),
        lambda: memory.batch().set(ada, "k", 1, ttl=ttl),
        lambda: memory.definitions.create(name="N", slug="n", schema=SCHEMA, ttl=ttl),
        lambda: memory.definitions.update("counter", ttl=ttl),
    ):
        assert refused(memory, attempt, errors.InvalidDuration).value is ttl


# the other arguments of facts


@pytest.mark.parametrize("expect", ["1", -1, True, False, 1.0, [], object()], ids=label)
def test_an_expected_version_is_a_whole_number(memory: memoranda.Memory, expect: Any) -> None:
    ada = memory.scope(user="ada")
    for attempt in (
        lambda: ada.set("k", 1, expect=expect),
        lambda: ada.delete("k", expect=expect),
        lambda: memory.batch().set(ada, "k", 1, expect=expect),
        lambda: memory.batch().delete(ada, "k", expect=expect),
    ):
        refused(memory, attempt)


BAD_LABELS: list[Any] = ["", " ", "x" * 257, "a\0b", "a\u202eb", "a ", "e\u0301", "\ud800", 5, True, b"x", object()]


@pytest.mark.parametrize("text", BAD_LABELS, ids=label)
def test_idempotency_keys_domains_and_sources_are_short_visible_text(memory: memoranda.Memory, text: Any) -> None:
    ada = memory.scope(user="ada")
    for attempt in (
        lambda: ada.set("k", 1, idempotency_key=text),
        lambda: ada.delete("k", idempotency_key=text),
        lambda: ada.set("k", 1, domain=text),
        lambda: ada.create("new", 1, domain=text),
        lambda: ada.set("k", 1, source=text),
        lambda: ada.delete("k", source=text),
    ):
        refused(memory, attempt)


@pytest.mark.parametrize("text", BAD_LABELS, ids=label)
def test_the_idempotency_key_of_a_batch_is_short_visible_text(memory: memoranda.Memory, text: Any) -> None:
    def batch() -> None:
        with memory.batch(idempotency_key=text) as batch:
            batch.set(memory.scope(user="ada"), "k", 1)

    refused(memory, batch)


LIMITED: dict[str, Callable[[memoranda.Memory, Any], object]] = {
    "list": lambda memory, limit: memory.scope(user="ada").list(limit=limit),
    "records": lambda memory, limit: memory.definitions.records("counter", limit=limit),
    "events": lambda memory, limit: memory.ledger.events(limit=limit),
    "tail": lambda memory, limit: memory.ledger.tail(limit),
}


@pytest.mark.parametrize("limit", [-1, "5", 1.5, True, [], 2**63], ids=repr)
@pytest.mark.parametrize("verb", LIMITED)
def test_a_limit_is_a_whole_number_from_zero(memory: memoranda.Memory, verb: str, limit: Any) -> None:
    refused(memory, lambda: LIMITED[verb](memory, limit))


@pytest.mark.parametrize("start", [0, -1, "1", 1.5, 2**63], ids=repr)
def test_a_ledger_begins_at_one(memory: memoranda.Memory, start: Any) -> None:
    refused(memory, lambda: memory.ledger.events(start=start))


@pytest.mark.parametrize(
    "moment",
    ["", "yesterday", "2026-13-01", "2026-01-01T25:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
     5, True, object()],
    ids=label,
)  # fmt: skip
def test_a_moment_is_a_datetime_or_its_text(memory: memoranda.Memory, moment: Any) -> None:
    ada = memory.scope(user="ada")
    for attempt in (
        lambda: ada.get("k", as_of=moment),
        lambda: ada.value("k", as_of=moment),
        lambda: ada.list(as_of=moment),
    ):
        refused(memory, attempt)


@pytest.mark.parametrize(
    "moment",
    [datetime.min, datetime.max, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)],
    ids=str,
)
def test_the_most_distant_moments_can_be_asked_about(memory: memoranda.Memory, moment: Any) -> None:
    ada = memory.scope(user="ada")
    found = ada.get("k", as_of=moment)
    assert (found is not None) == str(moment).startswith("9999")
    assert bool(ada.list(as_of=moment)) == str(moment).startswith("9999")


@pytest.mark.parametrize("argument", ["after", "domain", "prefix"])
def test_arguments_of_a_list_are_text(memory: memoranda.Memory, argument: str) -> None:
    wrong: tuple[Any, ...] = (5, b"x", object())
    for value in wrong:
        refused(memory, lambda value=value: memory.scope(user="ada").list(**{argument: value}))


def test_update_needs_at_least_one_attempt(memory: memoranda.Memory) -> None:
    for attempts in (0, -1):
        refused(memory, lambda n=attempts: memory.scope(user="ada").update("k", lambda value: value, attempts=n))


# definitions, permissions, approvals


def _cyclic_schema() -> Any:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["self"] = schema
    return schema


def _deep_schema() -> Any:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(3000):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": object()}},
        {"type": "object", "properties": {"a": {1, 2}}},
        {"type": "object", "properties": {"a": {"const": b"bytes"}}},
        {"type": "object", "properties": {"a": {"const": datetime(2026, 1, 1)}}},
        {"type": "object", "properties": {"a": {"const": math.nan}}},
        {"type": "object", "properties": {"a": {"minimum": math.inf}}},
        {"type": "object", "properties": {"a": {"const": "\ud800"}}},
        {"type": "object", "properties": {5: {"type": "string"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        _cyclic_schema(),
        _deep_schema(),
    ],
    ids=["object", "set", "bytes", "datetime", "NaN", "infinity", "surrogate", "int name", "regex", "cyclic", "deep"],
)
def test_a_schema_that_is_not_json_is_refused(memory: memoranda.Memory, schema: Any) -> None:
    refused(memory, lambda: memory.definitions.create(name="N", slug="n", schema=schema))
    refused(memory, lambda: memory.definitions.update("counter", schema=schema))


@pytest.mark.parametrize(
    "arguments",
    [
        {"capability": 5},
        {"capability": None},
        {"level": 5},
        {"actor": 5},
        {"actor": "a\0b"},
        {"scope": "user:ada"},
        {"scope": 5},
        {"path": 5},
        {"path": "a..b"},
        {"path": "a\0"},
    ],
    ids=str,
)
def test_a_grant_of_wrong_types_is_refused(memory: memoranda.Memory, arguments: dict[str, Any]) -> None:
    good: dict[str, Any] = {"actor": "agent", "capability": "memory"}
    refused(memory, lambda: memory.permissions.grant(**(good | arguments)))


NAMED: dict[str, Callable[[memoranda.Memory, Any], object]] = {
    "get definition": lambda memory, name: memory.definitions.get(name),
    "records": lambda memory, name: memory.definitions.records(name),
    "update definition": lambda memory, name: memory.definitions.update(name, name="X"),
    "delete definition": lambda memory, name: memory.definitions.delete(name),
    "revoke": lambda memory, name: memory.permissions.revoke(name),
    "get approval": lambda memory, name: memory.approvals.get(name),
    "approve": lambda memory, name: memory.approvals.approve(name),
}


@pytest.mark.parametrize("name", [5, None, object(), "\ud800"], ids=label)
@pytest.mark.parametrize("verb", NAMED)
def test_names_that_cannot_exist_are_not_found(memory: memoranda.Memory, verb: str, name: Any) -> None:
    with pytest.raises((errors.NotFound, errors.UsageError)):
        NAMED[verb](memory, name)


UNFIT: dict[str, Callable[[memoranda.Memory], object]] = {
    "scope of a definition": lambda memory: memory.definitions.create(name="N", slug="n", schema=SCHEMA, scope=[]),  # type: ignore[arg-type]
    "status of approvals": lambda memory: memory.approvals.list(status="waiting"),  # type: ignore[arg-type]
    "anchor": lambda memory: memory.ledger.verify(anchor={"length": 1, "head": "x"}),  # type: ignore[arg-type]
    "embedder": lambda memory: memory.collections.reembed("notes", 5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_is_of_no_fitting_type_is_refused_in_words(memory: memoranda.Memory, what: str) -> None:
    refused(memory, lambda: UNFIT[what](memory))


@pytest.mark.parametrize("actor", ["", "a\0b", "a\u202eb", 5, None], ids=repr)
def test_an_actor_is_short_visible_text(memory: memoranda.Memory, actor: Any) -> None:
    refused(memory, lambda: memory.acting_as(actor, policy=Policy.of(allow=("*",))).scope(user="ada").set("k", 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Policy.of(allow=("memory.reed",)),
        lambda: Policy.of(deny=("",)),
        lambda: Policy.of(access={"k": "rw"}),  # type: ignore[dict-item]
        lambda: Policy.of(access={"diary.": "none"}),
        lambda: Policy.of(allow="memory"),  # type: ignore[arg-type]
        lambda: Policy(rules=("memory",)),  # type: ignore[arg-type]
        lambda: Policy.of(allow=("memory",), quota=100),  # type: ignore[arg-type]
        lambda: Policy.of(access={5: "none"}),  # type: ignore[dict-item]
        lambda: Policy.of(allow=("memory",), quota=Quota(writes=1, per="1y")),
        lambda: Policy.of(allow=("memory",), quota=Quota(writes=-1)),
    ],
)
def test_a_policy_that_cannot_mean_anything_is_refused_when_it_is_made(make: Callable[[], Policy]) -> None:
    with pytest.raises(errors.UsageError) as caught:
        make()
    assert caught.value.hint


def test_opening_with_nonsense_is_refused() -> None:
    for arguments in (
        {"url": "mongodb://x"},
        {"url": ":memory:", "ledger": "some"},
        {"url": ":memory:", "durability": "wishful"},
        {"url": ":memory:", "tenant": ""},
        {"url": ""},
        {"url": " "},
        {"url": "sqlite://"},
        {"url": "sqlite:///"},
        *({"url": ":memory:", "busy_timeout": wait} for wait in (-1, "5", True, math.nan, math.inf)),
    ):
        with pytest.raises(errors.UsageError) as caught:
            memoranda.open(**arguments)  # type: ignore[arg-type]
        assert caught.value.hint


# the errors themselves


def _tree(kind: type[errors.MemorandaError] = errors.MemorandaError) -> list[type[errors.MemorandaError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _tree(child))]


OURS = [kind for kind in _tree() if kind.__module__ == "memoranda.errors"]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in OURS]
    assert len(set(codes)) == len(codes) > 20
    assert all(code.replace("_", "").isalpha() and code == code.lower() for code in codes)
    assert errors.InvalidKey.code == "invalid_key"
    assert errors.MemorandaError.code == "memoranda_error"


def test_every_error_is_exported_and_described() -> None:
    for kind in OURS:
        assert getattr(memoranda, kind.__name__) is kind
        assert kind.__name__ in memoranda.__all__
        assert kind.__doc__
        assert kind.__name__ in str(errors.__doc__)


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.code)
def test_an_error_travels_whole(kind: type[errors.MemorandaError]) -> None:
    error = kind("what happened", hint="What to do", limit=5, path="$.a", value={"n": [1]}, scope=Scope.of(user="a"))
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert str(again) == str(error) == "what happened. What to do"
        assert again.details == error.details
        assert (again.limit, again.path, again.hint, again.code) == (5, "$.a", "What to do", kind.code)
    with pytest.raises(AttributeError):
        error.nothing_of_that_name  # noqa: B018
    assert str(kind("only this")) == "only this"


def test_errors_are_caught_as_their_builtin_kin() -> None:
    assert issubclass(errors.UsageError, ValueError)
    assert issubclass(errors.NotFound, LookupError)
    assert issubclass(errors.IdempotencyMismatch, errors.Conflict)


class _Named(str):
    """A text that is not plain `str`."""


def test_the_name_of_a_collection_is_refused_however_often_a_like_one_was_good(memory: memoranda.Memory) -> None:
    ada = memory.scope(user="ada")
    wrong: tuple[Any, ...] = (
        1, True, 1.0, b"1", ["1"], {"1"}, "", " 1", "1.", "a..b", "\u200b", "n" * 257
    )  # fmt: skip
    for _ in range(2):
        ada.remember("The kiln is warm", collection="1")
        assert [one.content for one in ada.entries(collection=_Named("1"))] == ["The kiln is warm"]
        for name in wrong:
            refused(memory, lambda name=name: ada.remember("The kiln is warm", collection=name))
        refused(memory, lambda: ada.remember("The kiln is warm", collection=_Named("1 ")))


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"content": "a", "metadata": {"$in": "x"}}, "$.$in"),
        ({"content": "a", "metadata": {"s": "a\0b"}}, "$.s"),
        ({"content": "a", "metadata": {"s": "\ud800"}}, "$"),
        ({"content": "a", "metadata": {"n": math.inf}}, "$.n"),
        ({"content": "a", "metadata": {"n": 2**63}}, "$.n"),
        ({"content": "a", "metadata": {1: "x"}}, "$"),
        ({"content": "a", "metadata": {"t": ("x",)}}, "$.t"),
        ({"content": "a", "metadata": "text"}, "$"),
        ({"content": "a\0b"}, "$"),
        ({"content": " "}, "$"),
    ],
    ids=label,
)
def test_of_many_things_the_one_that_is_wrong_is_named(memory: memoranda.Memory, item: Any, path: str) -> None:
    ada = memory.scope(user="ada")
    with pytest.raises(errors.InvalidValue) as raised:
        ada.remember_many([{"content": "fine", "metadata": {"s": "$5"}}, {"content": "fine too"}, item])
    assert raised.value.message.startswith("item 2: ")
    assert (raised.value.details["item"], raised.value.details["path"]) == (2, path)
    assert ada.entries() == []


def test_metadata_above_the_limit_are_refused_by_their_size() -> None:
    with memoranda.open(":memory:", limits=memoranda.Limits(metadata_bytes=40)) as small:
        ada = small.scope(user="ada")
        assert ada.remember("a", metadata={"s": "x" * 32}).stored
        with pytest.raises(errors.LimitExceeded) as raised:
            ada.remember("b", metadata={"s": "x" * 33})
    assert (raised.value.details["limit"], raised.value.details["actual"]) == (40, 41)
