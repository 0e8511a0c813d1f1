"""What a model is shown of memory, over HTTP: policies, previews, and that the two agree."""

from __future__ import annotations

from itertools import product

import pytest

import memoranda

CORE = "- Rows before breakfast"
OWN_CORE = "- Has locker nine"
ARCHIVE = "- The green skiff leaks at the stern\n- Oars are painted in March"


@pytest.fixture
def known(talk):
    """A user of whom the agent `keeper` and others know something."""
    talk.write("core", CORE)
    talk.write("core", OWN_CORE, agent="keeper")
    talk.write("core", "- Owes the clerk a form", agent="clerk")
    talk.write("archival", ARCHIVE)
    return talk


def sent(provider):
    """Return what the model was sent last: the system's part, and the other messages."""
    messages = provider.asked[-1].body["messages"]
    system = "\n\n".join(one["content"] for one in messages if one["role"] == "system")
    return system, [one for one in messages if one["role"] != "system"]


def test_p1_by_default_both_cores_are_shown_and_nothing_of_the_archive(known):
    prompt = known.preview("Is the green skiff free?")
    assert "<user_memory>" in prompt["system"]
    assert CORE in prompt["system"] and OWN_CORE in prompt["system"]
    assert prompt["system_reminders"] == ""
    assert "stern" not in str(prompt)


@pytest.mark.parametrize("user", [True, False])
@pytest.mark.parametrize("agent", [True, False])
def test_p2_each_core_is_shown_or_not_by_its_own_switch(known, user, agent):
    policy = {"include_user_core": user, "include_agent_core": agent}
    system = known.preview("Good morning", memory_policy=policy)["system"]
    assert (CORE in system, OWN_CORE in system) == (user, agent)
    assert ("<user_memory>" in system) == (user or agent)


def test_p3_another_agents_core_is_never_shown(known):
    assert "Owes the clerk" not in known.preview("Good morning")["system"]
    assert "Owes the clerk" in known.preview("Good morning", "clerk")["system"]


def test_p4_auto_shows_matching_lines_as_hidden_reminders(known, provider):
    policy = {"archival_mode": "auto"}
    prompt = known.preview("Is the green skiff free?", memory_policy=policy)
    assert "leaks at the stern" in prompt["system_reminders"]
    assert "March" not in prompt["system_reminders"]
    assert "stern" not in prompt["system"] and "stern" not in str(prompt["messages"])
    known.say("Is the green skiff free?", memory_policy=policy)
    assert "leaks at the stern" in str(sent(provider)[1])
    shown = known.client.get("/api/v1/conversations/c1").json()
    assert [part["kind"] for part in shown["parts"]] == ["user", "agent_text"]
    assert "stern" not in str(shown)


def test_p4_auto_shows_no_more_than_the_limit_and_nothing_below_the_score(known):
    both = known.preview("skiff oars", memory_policy={"archival_mode": "auto"})["system_reminders"]
    assert "stern" in both and "March" in both
    one = known.preview("skiff oars", memory_policy={"archival_mode": "auto", "archival_limit": 1})["system_reminders"]
    assert ("stern" in one) != ("March" in one)
    none = known.preview("skiff oars", memory_policy={"archival_mode": "auto", "archival_min_score": 1e9})
    assert none["system_reminders"] == ""


def test_p5_auto_without_a_match_adds_nothing_and_looks_at_the_last_message_alone(known):
    policy = {"archival_mode": "auto"}
    assert known.preview("Lovely weather", memory_policy=policy)["system_reminders"] == ""
    known.say("Is the green skiff free?")
    after = known.preview("Lovely weather", conversation_id="c1", memory_policy=policy)
    assert after["system_reminders"] == "" and len(after["messages"]) == 3


def test_p6_off_and_tool_only_are_the_same_prompt_and_the_tool_works_in_both(known, provider, wire):
    off, tools = ({"archival_mode": mode} for mode in ("off", "tool_only"))
    assert known.preview("The skiff?", memory_policy=off) == known.preview("The skiff?", memory_policy=tools)
    for policy in (off, tools):
        provider.waiting += [wire.calls(("recall_memory", {"query": "skiff"})), wire.says("It leaks.")]
        answer = known.say("How is the skiff?", memory_policy=policy)
        results = [part["text"] for part in answer["parts"] if part["kind"] == "tool_response"]
        assert len(results) == 1 and "leaks at the stern" in results[0]


def test_p7_a_preview_is_what_the_chat_sends_and_writes_nothing(known, served, provider):
    known.say("Good morning")
    policies = (None, {"archival_mode": "auto"}, {"include_user_core": False})
    for policy, stream in product(policies, (False, True)):
        before, written = known.client.get("/api/v1/conversations/c1").json(), writes(served)
        prompt = known.preview("Is the green skiff free?", conversation_id="c1", memory_policy=policy)
        assert known.client.get("/api/v1/conversations/c1").json() == before and writes(served) == written
        asked = known.send("Is the green skiff free?", memory_policy=policy, stream=stream)
        assert asked.status_code == 200 and writes(served) > written
        system, messages = sent(provider)
        assert provider.asked[-1].body.get("stream", False) is stream
        assert system == prompt["system"]
        reminded = [prompt["system_reminders"]] if prompt["system_reminders"] else []
        assert [one["content"] for one in messages] == [one["text"] for one in prompt["messages"]] + reminded
        tools = [one["function"] for one in provider.asked[-1].body["tools"]]
        shown = [{name: one[name] for name in ("name", "description", "parameters")} for one in tools]
        assert shown == prompt["tools"]


def writes(served):
    """Return how many effects wrote anything, in the memory of everybody."""
    with memoranda.open(served.db) as memory:
        return sum(1 for event in memory.ledger.events() if event.effect not in ("recall_blocks", "context"))


def test_p8_a_reminder_stays_in_the_history_as_it_was(known, provider):
    known.say("Is the green skiff free?", memory_policy={"archival_mode": "auto"})
    reminded = sent(provider)[1][-1]["content"]
    assert "leaks at the stern" in reminded
    known.write("archival", "- The green skiff was sold")
    known.say("And tomorrow?")
    assert reminded in [one["content"] for one in sent(provider)[1]]
    assert "was sold" not in str(sent(provider))


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({"archival_mode": "always"}, "$.memory_policy.archival_mode"),
        ({"archival_limit": 0}, "$.memory_policy.archival_limit"),
        ({"archival_limit": 101}, "$.memory_policy.archival_limit"),
        ({"archival_min_score": "high"}, "$.memory_policy.archival_min_score"),
        ({"include_user_core": "yes"}, "$.memory_policy.include_user_core"),
        ({"include_everything": True}, "$.memory_policy"),
    ],
)
def test_p9_a_policy_that_is_none_is_refused_with_its_path(known, policy, path):
    refused = known.send("Good morning", memory_policy=policy)
    looked = known.client.post(
        "/api/v1/agent/keeper/prompts/preview", json={"message": "Good morning", "memory_policy": policy}
    )
    for answer in (refused, looked):
        assert (answer.status_code, answer.json()["path"]) == (422, path), answer.text
    assert known.client.get("/api/v1/conversations").json()["conversations"] == []


def test_p9_a_policy_left_out_is_the_agents_own_and_a_part_of_one_fills_up_from_it(known):
    default = {
        "archival_mode": "tool_only",
        "archival_limit": 10,
        "archival_min_score": None,
        "include_user_core": True,
        "include_agent_core": True,
    }
    assert (
        known.preview("skiff")
        == known.preview("skiff", memory_policy=default)
        == known.preview("skiff", memory_policy={})
    )
    own = known.preview("skiff oars", "eager")["system_reminders"]
    partly = known.preview("skiff oars", "eager", memory_policy={"include_user_core": False})
    assert partly["system_reminders"] == own != ""
    assert CORE not in partly["system"]


def test_p10_an_edited_core_is_in_the_next_request(known, provider):
    known.say("Good morning")
    assert CORE in sent(provider)[0]
    known.write("core", "- Rows at night")
    known.say("Good evening")
    assert "- Rows at night" in sent(provider)[0] and CORE not in sent(provider)[0]
