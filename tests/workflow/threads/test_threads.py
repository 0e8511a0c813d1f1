"""Threads: which conversation goes on, what was said in it, and what goes when it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Limits, Memory, Policy, Rule
from memoranda.engine.facts import ListFacts
from memoranda.errors import (
    Denied,
    InvalidDuration,
    InvalidKey,
    InvalidScope,
    InvalidValue,
    LimitExceeded,
    NotFound,
    SchemaViolation,
    ScopeEnded,
    UsageError,
)
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.runs.records import load_memory
from memoranda.testing import FakeClock
from memoranda.workflow.threads import (
    MOST_MESSAGES,
    Thread,
    add_message,
    close_thread,
    current_thread,
    messages,
    open_thread,
)

HOUR, DAY = 3_600, 86_400


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(tmp_path / "m.db", clock=clock) as opened:
        yield opened


def say(memory: Memory, thread: Thread, *texts: str) -> None:
    for text in texts:
        add_message(memory, thread, text, sender=thread.owner, by_owner=True)


def stored(memory: Memory) -> int:
    """Return how many events there are: one for each write."""
    return memory.ledger.verify().length


def texts(memory: Memory, thread: Thread, limit: int = 100) -> list[str]:
    return [message.text for message in messages(memory, thread, limit)]


# which thread goes on


def test_a_thread_begins_empty_and_open(memory: Memory, clock: FakeClock) -> None:
    thread = current_thread(memory, owner="iris", channel="counter")
    assert (thread.owner, thread.channel, thread.count, thread.closed) == ("iris", "counter", 0, False)
    assert thread.opened_at == thread.last_at == clock.now()
    assert messages(memory, thread, 5) == []


def test_a_thread_is_reused_until_the_window_has_passed_and_then_closed(memory: Memory, clock: FakeClock) -> None:
    first = current_thread(memory, owner="iris")
    clock.advance(DAY - 0.001)
    assert current_thread(memory, owner="iris") == first
    clock.advance(0.001)
    second = current_thread(memory, owner="iris")
    assert second.id != first.id
    assert open_thread(memory, owner="iris", id=first.id).closed
    assert not open_thread(memory, owner="iris", id=second.id).closed
    assert current_thread(memory, owner="iris") == second


def test_each_message_begins_the_window_anew(memory: Memory, clock: FakeClock) -> None:
    thread = current_thread(memory, owner="iris", window="2h")
    for _ in range(3):
        clock.advance(2 * HOUR - 1)
        say(memory, thread, "Still here")
    assert current_thread(memory, owner="iris", window="2h").id == thread.id
    clock.advance(2 * HOUR)
    assert current_thread(memory, owner="iris", window="2h").id != thread.id


def test_asking_for_the_thread_writes_nothing_while_it_goes_on(memory: Memory) -> None:
    thread = current_thread(memory, owner="iris")
    before = stored(memory)
    assert current_thread(memory, owner="iris") == thread
    assert stored(memory) == before
    say(memory, thread, "A message does")
    assert stored(memory) != before


def test_the_memory_of_the_next_thread_starts_empty(memory: Memory, clock: FakeClock) -> None:
    schema = {"type": "object", "properties": {"plant": {"type": "string"}}}
    order = memory.definitions.create(name="Order", slug="order", scope="thread", schema=schema)
    first = current_thread(memory, owner="iris")
    load_memory(memory, owner="iris", thread=first.id, definition_ids=[order.id]).write({"order": {"plant": "fern"}})
    say(memory, first, "A fern, please")
    clock.advance(DAY)
    second = current_thread(memory, owner="iris")
    assert load_memory(memory, owner="iris", thread=second.id, definition_ids=[order.id]).values == {}
    assert texts(memory, second) == []
    kept = load_memory(memory, owner="iris", thread=first.id, definition_ids=[order.id]).values
    assert kept == {"order": {"plant": "fern"}}
    assert texts(memory, first) == ["A fern, please"]


def test_owners_channels_and_tenants_have_threads_of_their_own(tmp_path: Path, memory: Memory) -> None:
    iris = current_thread(memory, owner="iris")
    say(memory, iris, "Iris at the counter")
    others = [current_thread(memory, owner="otto"), current_thread(memory, owner="iris", channel="phone")]
    with memoranda.open(tmp_path / "m.db", tenant="branch") as branch:
        assert texts(branch, current_thread(branch, owner="iris")) == []
        with pytest.raises(NotFound):
            messages(branch, iris, 5)
    assert [texts(memory, other) for other in others] == [[], []]
    assert len({iris.id, *(other.id for other in others)}) == 3
    assert texts(memory, iris) == ["Iris at the counter"]


def test_a_thread_of_somebody_else_is_not_found_under_ones_own_name(memory: Memory) -> None:
    iris = current_thread(memory, owner="iris")
    say(memory, iris, "Between us")
    stolen = Thread(id=iris.id, owner="otto", opened_at=iris.opened_at, last_at=iris.last_at)
    with pytest.raises(NotFound):
        messages(memory, stolen, 5)
    with pytest.raises(NotFound):
        add_message(memory, stolen, "Me too", sender="otto", by_owner=True)
    assert texts(memory, iris) == ["Between us"]


def test_channels_whose_names_begin_alike_are_apart(memory: Memory) -> None:
    names = ["web", "web.chat", "web chat", "Web", "wéb"]
    threads = {name: current_thread(memory, owner="iris", channel=name).id for name in names}
    assert len(set(threads.values())) == len(names)
    assert {name: current_thread(memory, owner="iris", channel=name).id for name in names} == threads


def test_a_thread_lives_on_when_the_file_is_opened_again(tmp_path: Path, clock: FakeClock) -> None:
    with memoranda.open(tmp_path / "m.db", clock=clock) as memory:
        thread = current_thread(memory, owner="iris")
        say(memory, thread, "Until tomorrow")
    clock.advance(HOUR)
    with memoranda.open(tmp_path / "m.db", clock=clock) as memory:
        again = current_thread(memory, owner="iris")
        assert (again.id, again.count, again.opened_at) == (thread.id, 1, thread.opened_at)
        assert texts(memory, again) == ["Until tomorrow"]


# closing, and ids of one's own


def test_a_closed_thread_takes_no_message_and_its_channel_begins_another(memory: Memory) -> None:
    thread = current_thread(memory, owner="iris")
    say(memory, thread, "Before")
    assert close_thread(memory, thread).closed
    with pytest.raises(ScopeEnded, match="closed"):
        say(memory, thread, "After")
    assert texts(memory, thread) == ["Before"]
    following = current_thread(memory, owner="iris")
    assert following.id != thread.id
    say(memory, following, "After")
    assert texts(memory, following) == ["After"]


def test_closing_twice_changes_nothing(memory: Memory) -> None:
    thread = current_thread(memory, owner="iris")
    before = stored(memory)
    closed = close_thread(memory, thread)
    once = stored(memory)
    assert once != before
    assert close_thread(memory, thread) == closed
    assert stored(memory) == once


def test_a_thread_under_an_id_of_ones_own_is_begun_once_and_outlives_every_window(
    memory: Memory, clock: FakeClock
) -> None:
    begun = open_thread(memory, owner="iris", id="order-17")
    say(memory, begun, "Two ferns")
    clock.advance(400 * DAY)
    again = open_thread(memory, owner="iris", id="order-17")
    assert (again.id, again.channel, again.count, again.closed) == ("order-17", None, 1, False)
    assert again.opened_at == begun.opened_at
    assert open_thread(memory, owner="otto", id="order-17").count == 0
    assert current_thread(memory, owner="iris").id != "order-17"


# messages


def test_the_newest_messages_come_oldest_first(memory: Memory) -> None:
    thread = current_thread(memory, owner="iris")
    said = [f"Line {number}" for number in range(1, 13)]
    say(memory, thread, *said)
    for limit in (1, 4, 11, 12, 13, MOST_MESSAGES):
        assert texts(memory, thread, limit) == said[-limit:]
    # A thread that was read long ago knows less, and says the same.
    assert thread.count == 0
    assert open_thread(memory, owner="iris", id=thread.id).count == 12


def test_a_message_says_who_spoke_and_when(memory: Memory, clock: FakeClock) -> None:
    thread = current_thread(memory, owner="iris")
    asked = add_message(memory, thread, "Où est la fougère ? 🌿\n=1+1", sender="iris", by_owner=True)
    clock.advance(5)
    answered = add_message(memory, thread, "By the door", sender="nursery", by_owner=False)
    assert (asked.sender, asked.by_owner, asked.at) == ("iris", True, "2026-01-01T00:00:00+00:00")
    assert (answered.sender, answered.by_owner, answered.at) == ("nursery", False, "2026-01-01T00:00:05+00:00")
    assert messages(memory, thread, 2) == [asked, answered]
    assert current_thread(memory, owner="iris").last_at == clock.now()


def test_messages_do_not_go_back_in_time_when_the_clock_does(memory: Memory, clock: FakeClock) -> None:
    thread = current_thread(memory, owner="iris")
    first = add_message(memory, thread, "Noon", sender="iris", by_owner=True)
    clock.advance(-3 * DAY)
    second = add_message(memory, thread, "Earlier, says the clock", sender="iris", by_owner=True)
    assert second.at == first.at
    assert current_thread(memory, owner="iris").id == thread.id
    clock.advance(3 * DAY + 60)
    third = add_message(memory, thread, "Right again", sender="iris", by_owner=True)
    assert third.at > second.at
    assert messages(memory, thread, 3) == [first, second, third]


def test_a_message_costs_the_same_however_long_the_thread_is(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = current_thread(memory, owner="iris")

    def cost() -> tuple[int, int]:
        before = stored(memory)
        say(memory, thread, "One more")
        record = memory.scope(user="iris", thread=thread.id).value("threads.thread")
        return stored(memory) - before, len(encode(record))

    events, size = cost()
    say(memory, thread, *["Small talk"] * 250)
    assert cost() == (events, size + 2)  # three digits of the count instead of one, and nothing else

    read: list[int] = []
    perform = memory.perform

    def counting(effect: Any) -> Any:
        value = perform(effect)
        if isinstance(effect, ListFacts):
            read.append(len(value))
        return value

    monkeypatch.setattr(memory, "perform", counting)
    assert len(messages(memory, thread, 4)) == 4
    assert read == [4]


# what goes together


def test_erasing_the_owner_takes_threads_messages_and_records(memory: Memory) -> None:
    schema = {"type": "object", "properties": {"plant": {"type": "string"}}}
    order = memory.definitions.create(name="Order", slug="order", scope="thread", schema=schema)
    threads = {owner: current_thread(memory, owner=owner) for owner in ("iris", "otto")}
    for owner, thread in threads.items():
        say(memory, thread, f"{owner} was here")
        load_memory(memory, owner=owner, thread=thread.id, definition_ids=[order.id]).write({"order": {"plant": "ivy"}})
    receipt = memory.erase(user="iris")
    assert receipt.removed["facts"] == 4  # the channel, the thread, a message and a record
    assert memory.scope(user="iris").list() == []
    gone = memory.scope(user="iris", thread=threads["iris"].id)
    assert gone.list() == gone.history("threads.messages.000000000001") == []
    assert [record.scope.subject for record in memory.definitions.records("order")] == ["user:otto"]
    for forgotten in (messages, lambda memory, thread, _: say(memory, thread, "Back again")):
        with pytest.raises(NotFound):
            forgotten(memory, threads["iris"], 5)
    assert texts(memory, threads["otto"]) == ["otto was here"]
    anew = current_thread(memory, owner="iris")
    assert anew.id != threads["iris"].id
    say(memory, anew, "A new leaf")
    assert texts(memory, anew) == ["A new leaf"]
    assert all(finding.ok for finding in memory.inspect())


def test_erasing_a_thread_takes_its_messages_and_records_and_leaves_the_owners_own(memory: Memory) -> None:
    schema = {"type": "object", "properties": {"plant": {"type": "string"}}}
    order = memory.definitions.create(name="Order", slug="order", scope="thread", schema=schema)
    memory.scope(user="iris").set("garden", "shady")
    thread, other = current_thread(memory, owner="iris"), current_thread(memory, owner="iris", channel="phone")
    say(memory, thread, "A fern")
    say(memory, other, "Hello?")
    load_memory(memory, owner="iris", thread=thread.id, definition_ids=[order.id]).write({"order": {"plant": "fern"}})
    memory.erase(user="iris", thread=thread.id)
    assert memory.scope(user="iris", thread=thread.id).list() == memory.definitions.records("order") == []
    assert memory.scope(user="iris").value("garden") == "shady"
    assert texts(memory, other) == ["Hello?"]
    following = current_thread(memory, owner="iris")
    assert following.id != thread.id
    assert texts(memory, following) == []


def test_a_conversation_travels_with_an_export(tmp_path: Path, memory: Memory, clock: FakeClock) -> None:
    thread = current_thread(memory, owner="iris")
    say(memory, thread, "One", "Two")
    memory.export(tmp_path / "e.jsonl", scope=Scope.of(user="iris"))
    with memoranda.open(tmp_path / "other.db", clock=clock) as other:
        other.import_file(tmp_path / "e.jsonl")
        moved = current_thread(other, owner="iris")
        assert (moved.id, texts(other, moved)) == (thread.id, ["One", "Two"])
        say(other, moved, "Three")
        assert texts(other, moved) == ["One", "Two", "Three"]
    assert texts(memory, thread) == ["One", "Two"]


def test_messages_that_an_import_adds_are_not_written_over(tmp_path: Path, memory: Memory, clock: FakeClock) -> None:
    thread = current_thread(memory, owner="iris")
    say(memory, thread, "One")
    memory.export(tmp_path / "left.jsonl")
    with memoranda.open(tmp_path / "other.db", clock=clock) as other:
        other.import_file(tmp_path / "left.jsonl")
        clock.advance(1)
        say(other, thread, "Two elsewhere", "Three elsewhere", "Four elsewhere")
        other.export(tmp_path / "right.jsonl")
    clock.advance(1)
    say(memory, thread, "Two here")
    memory.import_file(tmp_path / "right.jsonl")
    assert open_thread(memory, owner="iris", id=thread.id).count == 2  # what happened here was later
    say(memory, thread, "Five")
    assert texts(memory, thread) == ["One", "Two here", "Three elsewhere", "Four elsewhere", "Five"]
    assert open_thread(memory, owner="iris", id=thread.id).count == 5


def test_who_may_only_reach_one_owner_reaches_only_their_threads(memory: Memory) -> None:
    otto = current_thread(memory, owner="otto")
    say(memory, otto, "Mine")
    rules = tuple(Rule("allow", what, scope=Scope.of(user="iris")) for what in ("memory.read", "memory.write"))
    desk = memory.acting_as("desk", policy=Policy(rules=rules))
    thread = current_thread(desk, owner="iris")
    add_message(desk, thread, "How can I help?", sender="desk", by_owner=False)
    assert texts(desk, thread) == ["How can I help?"]
    refused: list[Callable[[], object]] = [
        lambda: current_thread(desk, owner="otto"),
        lambda: messages(desk, otto, 5),
        lambda: say(desk, otto, "Hello"),
    ]
    for attempt in refused:
        with pytest.raises(Denied):
            attempt()
    assert texts(memory, otto) == ["Mine"]


def test_the_facts_of_a_thread_are_not_for_writing(memory: Memory) -> None:
    thread = current_thread(memory, owner="iris")
    iris = memory.scope(user="iris")
    with pytest.raises(InvalidKey, match="conversations with workflows"):
        iris.set("threads.current.default", "elsewhere")
    with pytest.raises(InvalidKey, match="conversations with workflows"):
        iris.delete("threads.current.default")
    assert iris.set("threads.of_wool", 3).value == 3
    assert current_thread(memory, owner="iris") == thread


def test_a_definition_of_the_same_name_does_not_get_in_the_way(memory: Memory) -> None:
    schema = {"type": "object", "properties": {"color": {"type": "string"}}}
    for scope in ("global", "thread"):
        memory.definitions.create(name="Threads", slug="threads", schema=schema, scope=scope)
        thread = current_thread(memory, owner="iris")
        say(memory, thread, "Hello")
        record = memory.scope(user="iris", **({} if scope == "global" else {"thread": thread.id}))
        assert record.set("threads", {"color": "red"}).value == {"color": "red"}
        with pytest.raises(SchemaViolation):
            record.set("threads", {"color": 5})
        assert texts(memory, thread)[-1] == "Hello"
        memory.definitions.delete("threads")


# what is refused


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", InvalidValue),
        (" \n", InvalidValue),
        (None, InvalidValue),
        (17, InvalidValue),
        (b"fern", InvalidValue),
        ("a\0b", InvalidValue),
        ("\ud800", InvalidValue),
        ("é" * 32_769, LimitExceeded),
    ],
)
def test_a_message_that_cannot_be_kept_is_refused_and_nothing_is_stored(
    memory: Memory, text: Any, error: type[Exception]
) -> None:
    thread = current_thread(memory, owner="iris")
    say(memory, thread, "é" * 32_768)
    before = stored(memory)
    with pytest.raises(error):
        add_message(memory, thread, text, sender="iris", by_owner=True)
    assert stored(memory) == before
    assert open_thread(memory, owner="iris", id=thread.id).count == 1


def test_how_long_a_message_may_be_is_set_when_the_memory_is_opened(tmp_path: Path) -> None:
    with memoranda.open(tmp_path / "small.db", limits=Limits(content_bytes=5)) as memory:
        thread = current_thread(memory, owner="iris")
        say(memory, thread, "fiver")
        with pytest.raises(LimitExceeded) as caught:
            say(memory, thread, "sixers")
        assert (caught.value.limit, caught.value.actual) == (5, 6)
        assert texts(memory, thread) == ["fiver"]


@pytest.mark.parametrize("options", [{"sender": ""}, {"sender": None}, {"sender": "a\u200b"}, {"by_owner": 1}])
def test_a_message_without_a_speaker_is_refused(memory: Memory, options: dict[str, Any]) -> None:
    thread = current_thread(memory, owner="iris")
    with pytest.raises(UsageError):
        add_message(memory, thread, "Who?", **{"sender": "iris", "by_owner": True, **options})
    assert texts(memory, thread) == []
    add_message(memory, thread, "Who?", sender="iris", by_owner=True)
    assert texts(memory, thread) == ["Who?"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"owner": ""}, InvalidScope),
        ({"owner": None}, InvalidScope),
        ({"channel": ""}, UsageError),
        ({"channel": None}, UsageError),
        ({"channel": "a..b"}, InvalidKey),
        ({"channel": "x" * 257}, UsageError),
        ({"window": "soon"}, InvalidDuration),
        ({"window": 0}, InvalidDuration),
        ({"window": "1.5h"}, InvalidDuration),
    ],
)
def test_a_thread_that_cannot_be_named_is_refused(
    memory: Memory, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        current_thread(memory, **{"owner": "iris", **options})
    assert stored(memory) == 0
    current_thread(memory, owner="iris", channel="x" * 256, window=1)
    assert stored(memory) > 0


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        (0, UsageError),
        (-1, UsageError),
        (None, UsageError),
        (True, UsageError),
        (1.5, UsageError),
        (MOST_MESSAGES + 1, LimitExceeded),
    ],
)
def test_a_limit_that_says_nothing_is_refused(memory: Memory, limit: Any, error: type[Exception]) -> None:
    thread = current_thread(memory, owner="iris")
    say(memory, thread, "One")
    with pytest.raises(error):
        messages(memory, thread, limit)
    assert len(messages(memory, thread, 1)) == 1
