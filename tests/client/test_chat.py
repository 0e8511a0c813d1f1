"""Chat through the client: messages that happen once, streams that end or say why not, programs and their runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_server import Answer, LoopbackServer, answers, hangs_up, problem

import memoranda
from memoranda.client.sse import EventReader, ServerEvent
from memoranda.wire.chat import MemoryPolicy

SAID = {
    "text": "Six it is",
    "agent_id": "beds",
    "conversation_id": "c1",
    "message_id": "m1",
    "parts": [{"seq": 1, "kind": "user", "text": "Water at six", "at": "2026-03-01T08:00:00Z", "message_id": "m1"}],
    "usage": {"requests": 1, "tokens_in": 5, "tokens_out": 3},
}


def events(*told: dict[str, Any], end: bytes = b"\n") -> bytes:
    common = {"conversation_id": "c1", "message_id": "m1", "timestamp": "2026-03-01T08:00:00Z"}
    return b"".join(
        b"id: %d%bevent: %b%bdata: %b%b%b"
        % (seq, end, one["type"].encode(), end, json.dumps({**common, "seq": seq, **one}).encode(), end, end)
        for seq, one in enumerate(told, 1)
    )


def test_a_message_gets_ids_of_its_own_unless_they_are_given(client: Any, loopback: LoopbackServer) -> None:
    loopback.default = answers(SAID)
    answer = client.chat("beds", "Water at six")
    client.chat("beds", "Water at six")
    client.chat("beds", "Water at six", conversation_id="c1", message_id="m1")
    assert (answer.text, answer.parts[0].kind, answer.usage.tokens_in) == ("Six it is", "user", 5)
    first, second, third = (asked.body for asked in loopback.asked)
    assert loopback.asked[0].target == "/api/v1/agent/beds/chat"
    assert first["stream"] is False and first["message"] == "Water at six"
    assert len({first["conversation_id"], second["conversation_id"], "c1"}) == 3
    assert len({first["message_id"], second["message_id"], "m1"}) == 3
    assert (third["conversation_id"], third["message_id"]) == ("c1", "m1")
    assert "memory_policy" not in first


def test_a_message_whose_answer_was_lost_is_sent_again_under_its_id(client: Any, loopback: LoopbackServer) -> None:
    loopback.waiting = [hangs_up, problem(503, "unavailable")]
    loopback.default = answers(SAID)
    client.chat("beds", "Water at six")
    assert len(loopback.asked) == 3
    assert len({asked.content for asked in loopback.asked}) == 1
    assert {asked.headers.get("last-event-id") for asked in loopback.asked} == {"0"}


@pytest.mark.parametrize(
    "policy", [{"archival_mode": "auto", "archival_limit": 3}, MemoryPolicy(archival_mode="auto", archival_limit=3)]
)
def test_a_policy_says_only_what_was_given(client: Any, loopback: LoopbackServer, policy: Any) -> None:
    loopback.default = answers(SAID)
    client.chat("beds", "Water at six", memory_policy=policy, model="demo:parrot", max_tokens=9)
    assert loopback.asked[0].body["memory_policy"] == {"archival_mode": "auto", "archival_limit": 3}
    assert (loopback.asked[0].body["model"], loopback.asked[0].body["max_tokens"]) == ("demo:parrot", 9)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_stream_gives_its_events_as_they_are(client: Any, loopback: LoopbackServer, end: bytes) -> None:
    told = ({"type": "start"}, {"type": "delta", "content": "Six\u2028it is \U0001f331"}, {"type": "end"})
    noise = b": still here" + end + end + b"event: mood" + end + b"data: {}" + end + end
    loopback.default = Answer(200, noise + events(*told, end=end), {"content-type": "text/event-stream"})
    found = list(client.stream("beds", "Water at six"))
    assert [(one.type, one.seq, one.content) for one in found] == [
        ("start", 1, ""),
        ("delta", 2, "Six\u2028it is \U0001f331"),
        ("end", 3, ""),
    ]
    assert loopback.asked[0].body["stream"] is True


def test_a_stream_that_fails_raises_what_chat_would(client: Any, loopback: LoopbackServer) -> None:
    failed = {"type": "error", "content": "the model was too slow", "metadata": {"code": "model_failed"}}
    loopback.waiting = [Answer(200, events({"type": "start"}, failed)), problem(404, "not_found", "no such agent")]
    seen = []
    with pytest.raises(memoranda.ModelFailed, match="the model was too slow"):
        for event in client.stream("beds", "Water at six"):
            seen.append(event.type)
    assert seen == ["start"]
    with pytest.raises(memoranda.NotFound, match="no such agent"):
        list(client.stream("nobody", "Water at six"))
    loopback.waiting = [Answer(200, events({"type": "error", "metadata": {"code": "interrupted"}}))]
    with pytest.raises(memoranda.Unavailable) as raised:
        list(client.stream("beds", "Water at six"))
    assert raised.value.remote_code == "interrupted"


def test_a_stream_that_breaks_off_is_no_answer(client: Any, loopback: LoopbackServer) -> None:
    whole = events({"type": "start"}, {"type": "delta", "content": "Six"}, {"type": "end"})
    for answer in (Answer(200, whole, cut=len(whole) - 9), Answer(200, events({"type": "start"}))):
        loopback.waiting = [answer] * 3
        with pytest.raises(memoranda.Unavailable) as raised:
            list(client.stream("beds", "Water at six"))
        assert raised.value.sent is True
    loopback.waiting = [Answer(200, b"event: delta\ndata: {half\n\n")]
    with pytest.raises(memoranda.Unavailable, match="cannot decode"):
        list(client.stream("beds", "Water at six"))
    loopback.waiting = [Answer(200, whole)]
    assert len(list(client.stream("beds", "Water at six"))) == 3


def before(id: int, told: bytes) -> Answer:
    """Answer with a stream that is lost in the middle of an event."""
    return Answer(200, told, cut=told.index(b"id: %d" % id) + 9)


TOLD = events({"type": "start"}, *({"type": "delta", "content": word} for word in "abc"), {"type": "end"})


def test_a_lost_stream_is_taken_up_after_the_last_event_that_came(client: Any, loopback: LoopbackServer) -> None:
    rest = TOLD[TOLD.index(b"id: 3") :]
    last = TOLD[TOLD.index(b"id: 5") :]
    loopback.waiting = [hangs_up, before(3, TOLD), problem(503, "unavailable"), before(5, rest), Answer(200, last)]
    found = list(client.stream("beds", "Water at six"))
    assert [(one.seq, one.type) for one in found] == [
        (1, "start"),
        (2, "delta"),
        (3, "delta"),
        (4, "delta"),
        (5, "end"),
    ]
    assert [asked.headers.get("last-event-id") for asked in loopback.asked] == [None, "0", "2", "2", "4"]
    assert len({asked.content for asked in loopback.asked}) == 1


def test_a_stream_is_not_taken_up_for_ever_nor_where_it_was_refused(client: Any, loopback: LoopbackServer) -> None:
    loopback.waiting = [before(3, TOLD), hangs_up, hangs_up, Answer(200, TOLD)]
    with pytest.raises(memoranda.Unavailable):
        list(client.stream("beds", "Water at six"))
    assert len(loopback.asked) == 3
    loopback.waiting = [before(3, TOLD), problem(409, "conflict"), Answer(200, TOLD)]
    with pytest.raises(memoranda.Conflict):
        list(client.stream("beds", "Water at six"))
    assert len(loopback.asked) == 5
    assert len(list(client.stream("beds", "Water at six"))) == 5


def test_a_stream_that_is_late_is_not_taken_up(connect: Any, loopback: LoopbackServer) -> None:
    loopback.waiting = [loopback.stays_silent]
    with pytest.raises(memoranda.Unavailable, match="did not answer within"):
        list(connect(loopback.url, timeout=0.2).stream("beds", "Water at six"))
    assert len(loopback.asked) == 1


def test_events_are_the_same_however_their_bytes_are_cut() -> None:
    sent = "id: 7\r\nevent: a\r\ndata: ü\ndata:two\r\r: x\n\ndata\n\nid:\0\ndata: last \u2028\n\ndata: lost".encode()
    expected = [
        ServerEvent(event="a", data="ü\ntwo", id="7"),
        ServerEvent(data="", id="7"),
        ServerEvent(data="last \u2028", id="7"),
    ]
    for size in range(1, len(sent) + 1):
        reader = EventReader()
        found = [one for at in range(0, len(sent), size) for one in reader.feed(sent[at : at + size])]
        assert found == expected, size


def test_runs_are_begun_given_what_they_wait_for_and_ended(client: Any, loopback: LoopbackServer) -> None:
    run = {"id": "run_1", "program": "p", "status": "completed", "output": {"n": 1}}
    loopback.default = answers({**run, "language": "mashin", "digest": "d1", "started_at": "2026-05-01T08:00:00Z"})
    assert client.machines.run("digest", {"of": "week"}, mode="test").output == {"n": 1}
    client.workflows.run("greet", {"name": "Mara"}, thread="t1")
    client.runs.get("run_1")
    client.runs.deliver("run_1", {"ok": True})
    client.runs.cancel("run_1", reason="late", force=True)
    assert [(asked.method, asked.target.removeprefix("/api/v1")) for asked in loopback.asked] == [
        ("POST", "/machines/digest/runs"),
        ("POST", "/workflows/greet/runs"),
        ("GET", "/runs/run_1"),
        ("POST", "/runs/run_1/deliver"),
        ("POST", "/runs/run_1/cancel"),
    ]
    bodies = [asked.body for asked in loopback.asked if asked.content]
    assert bodies == [
        {"input": {"of": "week"}, "mode": "test"},
        {"input": {"name": "Mara"}, "thread": "t1"},
        {"payload": {"ok": True}},
        {"reason": "late", "force": True},
    ]
    loopback.waiting = [hangs_up]
    with pytest.raises(memoranda.Unavailable):
        client.machines.run("digest")
    assert len(loopback.asked) == 6


def test_a_session_is_begun_spoken_in_and_read(client: Any, loopback: LoopbackServer) -> None:
    session = {"id": "s1", "agent": "Bed_Helper", "project": "default", "status": "waiting"}
    turn = {"number": 1, "messages": ["Which bed?"], "status": "waiting", "agent": "Bed_Helper", "step": "ask"}
    loopback.waiting = [answers({**session, "turns": []}, 201), answers(turn), answers({**session, "turns": []})]
    begun = client.agents.start("Bed_Helper", vars={"season": "spring"})
    said = client.sessions.say(begun.id, "Hello")
    assert (said.messages, said.status, said.step) == (["Which bed?"], "waiting", "ask")
    assert client.sessions.get(begun.id).status == "waiting"
    assert [asked.target.removeprefix("/api/v1") for asked in loopback.asked] == [
        "/agents/Bed_Helper/sessions",
        "/sessions/s1/messages",
        "/sessions/s1",
    ]
    assert [asked.body for asked in loopback.asked[:2]] == [
        {"project": "default", "vars": {"season": "spring"}},
        {"text": "Hello"},
    ]


# against a server


CHAT = """
[agents.beds]
model = "demo:parrot"
instructions = "Help with the garden."
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "chat.toml").write_text(CHAT, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def served(serve: Any, programs: Path) -> Any:
    return serve(agents=str(programs))


def test_an_agent_answers_at_once_and_as_a_stream_and_once_only(connect: Any, served: Any) -> None:
    mara = connect(served.url, served.key("mara"))
    mara.memory.update("core", "- Grows tomatoes", expected_updated_at=(_stamp(mara)))
    answer = mara.chat("beds", "Good morning", conversation_id="c-1", message_id="m-1")
    assert "Good morning" in answer.text and "- Grows tomatoes" in answer.text
    assert (answer.conversation_id, answer.message_id) == ("c-1", "m-1")
    again = mara.chat("beds", "Good morning", conversation_id="c-1", message_id="m-1")
    assert (again.text, again.replayed) == (answer.text, True)
    told = list(mara.stream("beds", "And now?", conversation_id="c-1"))
    assert [told[0].type, told[-1].type] == ["start", "end"]
    words = [one.content for one in told if one.type == "delta"]
    assert "".join(words) == told[-1].content and "And now?" in told[-1].content and len(words) > 3
    found = mara.conversations.get("c-1")
    assert [part.kind for part in found.parts] == ["user", "agent_text"] * (len(found.parts) // 2)
    assert [one.id for one in mara.conversations.list()] == ["c-1"]
    assert mara.conversations.get("c-2") is None
    noor = connect(served.url, served.key("noor"))
    assert noor.conversations.get("c-1") is None and noor.conversations.list() == []


class Cutting(httpx.HTTPTransport):
    """A transport that drops the connection after a number of pieces of the response."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pieces = pieces
        self.asked: list[str | None] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.headers.get("last-event-id"))
        answer = super().handle_request(request)
        assert isinstance(answer.stream, httpx.SyncByteStream)
        return httpx.Response(
            answer.status_code, headers=answer.headers, stream=Cut(answer.stream, self.pieces), request=request
        )


class Cut(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, pieces: int) -> None:
        self.stream = stream
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for place, piece in enumerate(self.stream):
            if place == self.pieces:
                raise httpx.ReadError("the network is down")
            yield piece

    def close(self) -> None:
        self.stream.close()


@pytest.mark.parametrize("pieces", [1, 3])
def test_an_answer_is_heard_whole_and_made_once_over_a_network_that_breaks(served: Any, pieces: int) -> None:
    network = Cutting(pieces)
    with memoranda.Client(served.url, served.key(f"iris-{pieces}"), transport=network) as iris:
        said = " ".join(f"word{number}" for number in range(20))
        told = list(iris.stream("beds", said, conversation_id="c-1"))
        assert len(network.asked) > 2 and network.asked[0] is None
        assert [told[0].type, told[-1].type] == ["start", "end"]
        assert {one.type for one in told[1:-1]} == {"delta"}
        assert "".join(one.content for one in told[1:-1]) == told[-1].content and said in told[-1].content
        numbers = [one.seq for one in told]
        assert numbers == sorted(set(numbers))
        network.pieces = 1_000
        found = iris.conversations.get("c-1")
        assert found is not None and [part.kind for part in found.parts] == ["user", "agent_text"]


def test_a_preview_shows_the_prompt_and_writes_nothing(connect: Any, served: Any) -> None:
    ines = connect(served.url, served.key("ines"))
    ines.memory.update("core", "- Allergic to nettles", expected_updated_at=_stamp(ines))
    prompt = ines.preview("beds", "What shall I weed?")
    assert "Allergic to nettles" in prompt.system and prompt.token_estimate > 0
    assert prompt.messages[-1].text == "What shall I weed?"
    hidden = ines.preview("beds", "What shall I weed?", memory_policy={"include_user_core": False})
    assert "nettles" not in hidden.system
    assert ines.conversations.list() == []
    with pytest.raises(memoranda.UsageError):
        ines.preview("beds", "x", memory_policy={"archival_mode": "psychic"})
    with pytest.raises(memoranda.NotFound):
        ines.preview("nobody", "x")


def _stamp(client: Any) -> Any:
    core = client.memory.get("core")
    return None if core is None else core.updated_at
