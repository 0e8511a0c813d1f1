"""Lost streams are resumed: no event is missing or repeated, and there is one answer."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

import memoranda
from memoranda.agent.models import Reply
from memoranda.chat.agent import Agent
from memoranda.chat.turn import chat

API = "/api/v1"
PATIENCE = 60.0


@pytest.fixture
def gate():
    """What a model waits for; open at the latest when the test is over."""
    opened = threading.Event()
    yield opened
    opened.set()


def sending(talk, **more):
    """Return a message that is sent as a stream."""
    return {"message": "Hello", "conversation_id": talk.id, "message_id": "m1"} | more


def listen(talk, last=None, agent="keeper", **more):
    """Send the message again, as one who has seen the events up to a number."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    return talk.client.post(f"{API}/agent/{agent}/chat", json=sending(talk, **more), headers=headers)


def heard_until(talk, events, word, agent="keeper"):
    """Send the message, and lose the connection once a word came; return what came until then."""
    text = ""
    with talk.client.stream("POST", f"{API}/agent/{agent}/chat", json=sending(talk)) as answer:
        for line in answer.iter_lines():
            text += f"{line}\n"
            if not line and word in text:
                break
    return events(text)


def words(found):
    return "".join(data["content"] for _, name, data in found if name == "delta")


def test_a_stream_that_was_lost_goes_on_while_the_answer_is_made(talk, provider, wire, events, gate):
    provider.waiting.append(wire.pauses(wire.says("The boat is tied to the pier."), gate, before="tied"))
    asked = len(provider.asked)
    first = heard_until(talk, events, " is")
    assert words(first) == "The boat is"
    going_on = threading.Timer(0.3, gate.set)
    going_on.start()
    rest = events(listen(talk, first[-1][0]).text)
    assert [(name, data["content"]) for _, name, data in rest] == [
        *(("delta", word) for word in (" tied", " to", " the", " pier.")),
        ("end", "The boat is tied to the pier."),
    ]
    numbers = [int(id) for id, _, _ in first + rest]
    assert numbers == sorted(set(numbers))
    assert len(provider.asked) == asked + 1
    kept = talk.client.get(f"{API}/conversations/c1").json()["parts"]
    assert [part["text"] for part in kept] == ["Hello", "The boat is tied to the pier."]


def test_of_an_answer_that_is_over_the_rest_comes_from_any_place(talk, provider, wire, events):
    provider.waiting += [
        wire.calls(("recall_memory", {"query": "boat"}), text="Let me see."),
        wire.says("It is at the pier."),
    ]
    told = events(listen(talk).text)
    asked = len(provider.asked)
    names = [name for _, name, _ in told]
    assert names == [
        "start",
        *["delta"] * 3,
        "tool_request",
        "tool_response",
        *["delta"] * 5,
        "end",
    ]
    for place in range(len(told)):
        rest = events(listen(talk, told[place][0]).text)
        assert words(rest) == words(told[place + 1 :]), place
        others = [name for name in names[place + 1 :] if name != "delta"]
        assert [name for _, name, _ in rest if name != "delta"] == others
        assert [id for id, _, _ in rest] == [id for id, _, _ in told[place + 1 :] if id in {one[0] for one in rest}]
        assert len(rest) <= len(others) + 2
    from_the_beginning = events(listen(talk, 0).text)
    assert words(from_the_beginning) == words(told)
    assert [name for _, name, _ in from_the_beginning] == [
        "start",
        "delta",
        "tool_request",
        "tool_response",
        "delta",
        "end",
    ]
    assert [name for _, name, _ in events(listen(talk).text)] == ["start", "delta", "end"]
    assert len(provider.asked) == asked


def test_many_may_listen_to_one_answer(talk, provider, wire, events, gate):
    provider.waiting.append(wire.pauses(wire.says("One two three."), gate, before="two"))
    first = heard_until(talk, events, "One")
    heard = []
    listening = [threading.Thread(target=lambda: heard.append(listen(talk, 0).text)) for _ in range(3)]
    for one in listening:
        one.start()
    time.sleep(0.2)
    gate.set()
    for one in listening:
        one.join(PATIENCE)
    assert [words(events(text)) for text in heard] == ["One two three."] * 3
    assert {events(text)[0][0] for text in heard} == {first[0][0]}


def test_without_a_number_a_message_whose_answer_is_made_is_still_refused(talk, provider, wire, events, gate):
    provider.waiting.append(wire.pauses(wire.says("One two."), gate, before="two"))
    first = heard_until(talk, events, "One")
    refused = listen(talk)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    other = listen(talk, first[-1][0], message_id="m2")
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    gate.set()
    assert words(events(listen(talk, first[-1][0]).text)) == " two."


def test_a_message_may_wait_for_the_answer_that_is_being_made(talk, provider, wire, events, gate):
    provider.waiting.append(wire.pauses(wire.says("One two."), gate, before="two"))
    heard_until(talk, events, "One")
    assert listen(talk, stream=False).status_code == 409
    asked = len(provider.asked)
    going_on = threading.Timer(0.3, gate.set)
    going_on.start()
    answer = listen(talk, 0, stream=False).json()
    assert (answer["text"], answer["replayed"], len(provider.asked)) == ("One two.", True, asked)
    assert listen(talk, 0, stream=False, message="More", message_id="m2").json()["replayed"] is False


def test_a_stream_of_another_is_not_taken_up(talk, served, provider, wire, events, gate):
    provider.waiting.append(wire.pauses(wire.says("Only for me."), gate, before="me"))
    first = heard_until(talk, events, "Only")
    ben = served.client(served.key_for("ben-listens"))
    mine = ben.post(f"{API}/agent/parrot/chat", json=sending(talk), headers={"Last-Event-ID": first[-1][0]})
    assert words(events(mine.text)) == "You said: Hello"
    another = threading.Timer(0.2, gate.set)
    another.start()
    changed = events(listen(talk, first[-1][0], message="Another text").text)
    assert [(name, data["metadata"]["code"]) for _, name, data in changed] == [("error", "idempotency_mismatch")]
    assert words(events(listen(talk, first[-1][0]).text)) == " for me."


def test_a_turn_that_failed_is_taken_up_by_who_listens_again(talk, provider, wire, events):
    provider.waiting.append(wire.stops(wire.says("Half of what"), before="what"))
    failed = events(listen(talk).text)
    assert [name for _, name, _ in failed] == ["start", "delta", "delta", "error"]
    provider.waiting.append(wire.says("All of it."))
    again = events(listen(talk, failed[2][0]).text)
    assert again[0][1] == "start" and words(again) == "All of it."
    assert int(again[0][0]) > int(failed[-1][0])
    # Who saw only the half before the turn was taken up is told that it does not count.
    late = events(listen(talk, failed[2][0]).text)
    assert [name for _, name, _ in late] == ["start", "delta", "end"] and words(late) == "All of it."


class Elsewhere:
    """A model of a process that is not the server: it says half, and the rest when it is let go on."""

    name = "made:up"

    def __init__(self, gate, fails=False):
        self.gate = gate
        self.fails = fails
        self.begun = threading.Event()

    def reply(self, ask, *, timeout=30.0):
        raise AssertionError("somebody listens")

    def stream(self, ask, *, timeout=30.0):
        yield "Half"
        self.begun.set()
        self.gate.wait(PATIENCE)
        if self.fails:
            raise memoranda.ModelFailed("gone", reason="unreachable")
        yield " and half."
        yield Reply("Half and half.")


@pytest.mark.parametrize("fails", [False, True])
def test_a_turn_made_elsewhere_is_followed(talk, newcomer, served, provider, wire, events, gate, fails):
    told, model = [], Elsewhere(gate, fails)

    def make():
        send = {"user": newcomer, "conversation_id": talk.id, "message_id": "m1"}
        with memoranda.open(served.db) as memory, contextlib.suppress(memoranda.ModelFailed):
            chat(memory, Agent(id="keeper"), "Hello", model=model, on_event=told.append, **send)

    making = threading.Thread(target=make)
    making.start()
    assert model.begun.wait(PATIENCE)
    provider.waiting += [wire.says("Made here.")] if fails else []
    asked = len(provider.asked)
    lines = []
    with talk.client.stream(
        "POST", f"{API}/agent/keeper/chat", json=sending(talk), headers={"Last-Event-ID": str(told[-1].seq)}
    ) as answer:
        for line in answer.iter_lines():
            # It says that it is there before there is anything to say.
            gate.set()
            lines.append(line)
    making.join(PATIENCE)
    assert lines[0] == ": still here"
    found = events("\n".join(lines))
    if fails:
        assert words(found) == "Made here." and found[0][1] == "start"
    else:
        assert words(found) == " and half." and [name for _, name, _ in found] == ["delta", "end"]
    assert len(provider.asked) == asked + fails


@pytest.mark.parametrize("last", ["-1", "x", "1.5", "", "1" * 30])
def test_what_is_no_number_of_an_event_is_refused(talk, last):
    refused = listen(talk, last, agent="parrot")
    assert refused.status_code == 422, refused.text
    assert listen(talk, 7, agent="parrot").status_code == 200
