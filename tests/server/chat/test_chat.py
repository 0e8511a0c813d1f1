"""Chat over HTTP: answers as JSON and as events, retries, callers that go away, and whose conversations they are."""

from __future__ import annotations

import time

API = "/api/v1"
PATIENCE = 60.0


def test_an_answer_comes_as_json_with_what_it_took(talk, provider, wire):
    provider.waiting.append(wire.says("The door is open."))
    answer = talk.say("May I come in?")
    assert (answer["text"], answer["agent_id"], answer["replayed"]) == ("The door is open.", "keeper", False)
    assert [(part["kind"], part["text"]) for part in answer["parts"]] == [
        ("user", "May I come in?"),
        ("agent_text", "The door is open."),
    ]
    assert answer["usage"] == {"requests": 1, "tokens_in": 11, "tokens_out": 7}


def test_an_answer_comes_as_events_unless_told_otherwise(talk, provider, wire, events):
    provider.waiting.append(wire.says("Mind the\nstep."))
    body = {"message": "Hello", "conversation_id": "c1", "message_id": "m1"}
    answer = talk.client.post(f"{API}/agent/keeper/chat", json=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-cache", "no")
    found = events(answer.text)
    assert [name for _, name, _ in found] == ["start", "delta", "delta", "delta", "end"]
    assert [id for id, _, data in found] == [str(data["seq"]) for _, _, data in found]
    numbers = [data["seq"] for _, _, data in found]
    assert numbers == sorted(set(numbers))
    assert [data["content"] for _, _, data in found[1:]] == ["Mind", " the", "\nstep.", "Mind the\nstep."]
    assert found[-1][2]["metadata"] == {"requests": 1, "tokens_in": 11, "tokens_out": 7}
    assert {data["conversation_id"] for _, _, data in found} == {"c1"}
    more = talk.client.post(f"{API}/agent/keeper/chat", json=body | {"message": "And now?", "message_id": "m2"})
    assert min(data["seq"] for _, _, data in events(more.text)) > max(numbers)


def test_a_message_that_is_sent_again_is_answered_once(talk, provider, wire, events):
    provider.waiting.append(wire.says("Once."))
    first = talk.say("Hello", message_id="again")
    asked = len(provider.asked)
    second = talk.say("Hello", message_id="again")
    assert (second["text"], second["replayed"], first["replayed"]) == ("Once.", True, False)
    streamed = talk.send("Hello", message_id="again", stream=True)
    assert events(streamed.text)[0][2]["metadata"] == {"replayed": True}
    assert len(provider.asked) == asked
    other = talk.send("Something else", message_id="again")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    talk.say("Hello", message_id="new")
    assert len(provider.asked) == asked + 1


def test_a_turn_whose_caller_goes_away_is_taken_to_its_end(talk, provider, wire):
    def slow(asked):
        time.sleep(1.0)
        return wire.says("Worth waiting for.")(asked)

    provider.waiting.append(slow)
    body = {"message": "Hello", "conversation_id": "c1", "message_id": "m1"}
    with talk.client.stream("POST", f"{API}/agent/keeper/chat", json=body) as answer:
        assert answer.status_code == 200
        assert next(answer.iter_lines()).startswith("id:")
    standing = talk.client.get(f"{API}/conversations/c1").json()
    assert standing["has_active_generation"] is True
    ends = time.monotonic() + PATIENCE
    while standing["has_active_generation"] and time.monotonic() < ends:
        time.sleep(0.1)
        standing = talk.client.get(f"{API}/conversations/c1").json()
    assert [part["text"] for part in standing["parts"]] == ["Hello", "Worth waiting for."]
    assert talk.say("Hello", message_id="m1")["replayed"] is True


def test_while_an_answer_is_made_another_message_is_refused(talk, provider, wire):
    def slow(asked):
        time.sleep(1.0)
        return wire.says("Done.")(asked)

    provider.waiting.append(slow)
    body = {"message": "Hello", "conversation_id": "c1", "message_id": "m1"}
    with talk.client.stream("POST", f"{API}/agent/keeper/chat", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        refused = talk.send("Hurry", message_id="m2")
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        rest = list(lines)  # to the end: the words come before the answer is kept
    assert any("Done." in line for line in rest)
    assert talk.say("Hurry", message_id="m2")["text"]


def test_a_model_that_fails_is_told_as_an_event_or_as_a_problem_and_can_be_tried_again(talk, provider, wire, events):
    provider.waiting.append(wire.stops(wire.says("Half of what"), before="what"))
    broken = talk.send("Hello", message_id="m1", stream=True)
    assert [name for _, name, _ in events(broken.text)] == ["start", "delta", "delta", "error"]
    provider.waiting.append(wire.refuses(400, "out of order"))
    streamed = talk.send("Hello", message_id="m1", stream=True)
    found = events(streamed.text)
    assert [name for _, name, _ in found] == ["start", "error"]
    assert found[1][2]["metadata"]["code"] == "model_failed"
    provider.waiting.append(wire.refuses(400, "out of order"))
    answer = talk.send("Hello", message_id="m1")
    assert (answer.status_code, answer.json()["code"]) == (502, "model_failed")
    assert "sk-made-up" not in broken.text + streamed.text + answer.text
    provider.waiting.append(wire.says("Better."))
    assert [part["text"] for part in talk.say("Hello", message_id="m1")["parts"]] == ["Hello", "Better."]


def test_what_the_model_writes_is_in_the_users_block_at_once(talk, provider, wire):
    provider.waiting += [
        wire.calls(("update_memory", {"block": "core", "content": "- Sails on Sundays"})),
        wire.says("Noted."),
    ]
    answer = talk.say("I sail on Sundays")
    assert [part["kind"] for part in answer["parts"]] == ["user", "tool_request", "tool_response", "agent_text"]
    assert talk.client.get(f"{API}/memory/blocks/core").json()["content"] == "- Sails on Sundays"


def test_conversations_are_the_callers_own(served):
    ada, ben = served.client(served.key_for("ada-talks")), served.client(served.key_for("ben-talks"))
    body = {"message": "Between us", "conversation_id": "c1", "message_id": "m1", "stream": False}
    assert ada.post(f"{API}/agent/parrot/chat", json=body).status_code == 200
    assert ben.get(f"{API}/conversations/c1").status_code == 404
    assert ben.get(f"{API}/conversations").json() == {"conversations": [], "next": None}
    assert ben.post(f"{API}/agent/parrot/chat", json=body | {"message": "Mine"}).json()["text"] == "You said: Mine"
    assert [one["id"] for one in ada.get(f"{API}/conversations").json()["conversations"]] == ["c1"]
    texts = [part["text"] for part in ada.get(f"{API}/conversations/c1").json()["parts"]]
    assert texts == ["Between us", "You said: Between us"]
    last = ada.get(f"{API}/conversations/c1", params={"after": 1}).json()["parts"]
    assert [part["seq"] for part in last] == [2]


def test_conversations_come_in_pages(talk):
    for number in range(3):
        talk.say("Hello", "parrot", conversation_id=f"c{number}")
    first = talk.client.get(f"{API}/conversations", params={"limit": 2}).json()
    rest = talk.client.get(f"{API}/conversations", params={"limit": 2, "after": first["next"]}).json()
    found = first["conversations"] + rest["conversations"]
    assert [one["id"] for one in found] == ["c2", "c1", "c0"]
    assert rest["next"] is None


def test_a_page_goes_on_although_the_conversation_before_it_was_spoken_in_or_is_gone(served):
    ada = served.client(served.key_for("ada-turns-pages"))

    def say(conversation, message):
        body = {"message": "Hello", "conversation_id": conversation, "message_id": message, "stream": False}
        assert ada.post(f"{API}/agent/parrot/chat", json=body).status_code == 200

    def listed(**asked):
        page = ada.get(f"{API}/conversations", params={"limit": 1, **asked}).json()
        return [one["id"] for one in page["conversations"]], page["next"]

    for number in range(3):
        say(f"c{number}", "m1")
    first, after = listed()
    say(first[0], "m2")
    second, go_on = listed(after=after)
    assert ada.post(f"{API}/sleep/jobs/{second[0]}/forget").status_code == 200
    assert (first, second, listed(after=go_on)) == (["c2"], ["c1"], (["c0"], None))
    refused = ada.get(f"{API}/conversations", params={"after": "bm8"})
    assert (refused.status_code, refused.json()["path"]) == (422, "after")


def test_a_reader_looks_and_says_nothing(served):
    member, reader = (served.client(served.key_for("quiet", role=role)) for role in ("member", "reader"))
    body = {"message": "Hello", "conversation_id": "c1", "message_id": "m1"}
    refused = reader.post(f"{API}/agent/parrot/chat", json=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    assert member.post(f"{API}/agent/parrot/chat", json=body).status_code == 200
    assert reader.get(f"{API}/conversations/c1").status_code == 200
    looked = reader.post(f"{API}/agent/parrot/prompts/preview", json={"message": "Hello"})
    assert looked.json()["messages"][0]["text"] == "Hello"


def test_requests_that_do_not_fit_are_refused_with_their_path(talk):
    body = {"message": "Hello", "conversation_id": "c1", "message_id": "m1"}
    assert talk.client.post(f"{API}/agent/nobody/chat", json=body).status_code == 404
    assert talk.client.post(f"{API}/agent/nobody/prompts/preview", json={"message": "Hello"}).status_code == 404
    for missing in body:
        cut = {name: value for name, value in body.items() if name != missing}
        assert talk.client.post(f"{API}/agent/parrot/chat", json=cut).status_code == 422
    for extra in ({"user": "ada"}, {"tenant": "other"}, {"max_tokens": 0}, {"stream": "no"}):
        assert talk.client.post(f"{API}/agent/parrot/chat", json=body | extra).status_code == 422, extra
    assert talk.client.post(f"{API}/agent/parrot/chat", json=body | {"message": "  "}).status_code == 422
    assert talk.client.post(f"{API}/agent/parrot/chat", json=body).status_code == 200


def test_a_run_can_choose_its_model(talk, provider):
    asked = len(provider.asked)
    assert talk.say("Hello", model="demo:parrot")["text"] == "You said: Hello"
    assert len(provider.asked) == asked
    answer = talk.send("Hello", model="no such model")
    assert (answer.status_code, answer.json()["code"]) == (503, "model_unavailable")
