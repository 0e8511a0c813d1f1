"""Recall instructions while an agent runs: each event at its moment, each action, and what happens when one fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda.abl import Agent, Behaviour, Turn
from memoranda.api.memory import Memory
from memoranda.engine.facts import GetFact, ListFacts
from memoranda.errors import Unavailable
from memoranda.model.policy import Policy, Rule
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import present

Load = Callable[..., Agent]

LIFE = """
AGENT: Clerk
GOAL: "Help visitors"
MEMORY:
  session:
    - tries
      INITIAL: 0
      RESET: per_step
  persistent:
    - user.name
      DEFAULT: "friend"
  recall:
    - ON: {event}
      {action}
ON_START:
  SET: started = true
HOOKS:
  before_agent:
    SET: hooked = true
  after_agent:
    SET: unhooked = true
FLOW:
  ask:
    REASONING: false
    WHEN: started == true
    SET: asking = true
    GATHER:
      - town: required
    THEN: look
  look:
    REASONING: false
    CALL: look(town)
    ON_SUCCESS:
      SET: found = call_result
    CALL: search_ships(town)
    RESPOND: "{{town}}"
"""
TOOLS = {"look": lambda town: town, "search_ships": lambda town: [town]}
INJECT = "PATHS: [user.name]"

MOMENTS = {
    "session:start": ["activated Clerk", "*", "hook before_agent"],
    "agent:Clerk:before": ["activated Clerk", "*", "hook before_agent"],
    "agent:*:before": ["activated Clerk", "*", "hook before_agent"],
    "step:enter:ask": ["entered ask", "*", "set asking"],
    "entity:town:extracted": ["gathered town", "*", "left ask"],
    "step:exit:ask": ["gathered town", "*", "left ask", "entered look"],
    "step:enter:look": ["left ask", "entered look", "*", "called look"],
    "tool:look:after": ["called look", "*", "set found"],
    "search:before": ["set found", "*", "called search_ships"],
    "tool:search_ships:after": ["called search_ships", "*", "left look"],
    "step:exit:look": ["called search_ships", "*", "left look"],
    "agent:Clerk:after": ["left look", "completed Clerk", "hook after_agent", "set unhooked", "*"],
    "agent:*:after": ["left look", "completed Clerk", "hook after_agent", "set unhooked", "*"],
    "session:end": ["set unhooked", "*", "ended"],
}
"""For each event, what happens right before and after it."""


def live(load: Load, event: str, action: str = INJECT) -> list[Turn]:
    """Take an agent through its whole life, and return its turns."""
    agent = load(LIFE.replace("{event}", event).replace("{action}", action), tools=TOOLS)
    session = agent.start(user="ada")
    turns = [session.opening, session.say("Porto")]
    assert turns[1].messages == ["Porto"]
    return [*turns, session.end()]


def told(turns: list[Turn]) -> list[str]:
    """Return what happened, in order; the recall of the event is a star."""
    kinds = ("activated", "hook", "entered", "left", "set", "gathered", "called", "completed", "ended", "recalled")
    happened = [one for turn in turns for one in turn.trace if one.kind in kinds]
    names = {"recalled": "*", "ended": "ended"}
    return [names.get(one.kind) or f"{one.kind} {one.about}" for one in happened]


# --- when -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", MOMENTS)
def test_an_event_fires_at_its_moment_and_once(load: Load, event: str) -> None:
    happened = told(live(load, event))
    around = MOMENTS[event]
    assert happened.count("*") == 1
    at = happened.index("*") - around.index("*")
    assert happened[at : at + len(around)] == around


def test_every_tool_has_an_event_of_its_own_and_one_in_common(load: Load) -> None:
    happened = told(live(load, "tool:*:after"))
    assert [happened[index - 1] for index, one in enumerate(happened) if one == "*"] == [
        "called look",
        "called search_ships",
    ]
    assert told(live(load, "tool:look:after")).count("*") == 1


def test_a_value_that_was_not_given_is_not_extracted(load: Load) -> None:
    agent = load(LIFE.replace("{event}", "entity:town:extracted").replace("{action}", INJECT), tools=TOOLS)
    session = agent.start(user="ada")
    assert told([session.opening, session.say("?")]).count("*") == 0
    assert told([session.say("Porto")]).count("*") == 1


def test_a_session_that_is_resumed_does_not_start_again(load: Load, memory: Memory) -> None:
    agent = load(LIFE.replace("{event}", "session:start").replace("{action}", INJECT), tools=TOOLS)
    session = agent.start(user="ada")
    assert told([session.opening]).count("*") == 1
    assert told([memoranda.abl.resume(memory, session.id).say("Porto")]).count("*") == 0


def test_an_agent_that_is_active_again_has_its_events_again(load: Load) -> None:
    agent = load(LIFE.replace("{event}", "agent:*:before").replace("{action}", INJECT), tools=TOOLS)
    session = agent.start(user="ada")
    session.say("Porto")
    assert session.status == "completed"
    assert told([session.say("Rome")]).count("*") == 1


def test_each_agent_of_a_handoff_has_its_own_events(load: Load, memory: Memory) -> None:
    first = """
AGENT: First
GOAL: "Begin"
MEMORY:
  recall:
    - ON: agent:*:after
      PATHS: [user.name]
    - ON: agent:Second:before
      PATHS: [user.other]
FLOW:
  go:
    REASONING: false
    ON_INPUT:
      - ELSE:
        THEN: HANDOFF Second
"""
    second = """
AGENT: Second
GOAL: "Go on"
MEMORY:
  recall:
    - ON: agent:Second:before
      PATHS: [user.name]
FLOW:
  go:
    REASONING: false
    RESPOND: "Second."
    ON_INPUT:
      - IF: input == "never"
"""
    memory.scope(user="ada").set("name", "Ada")
    session = load(first, agents=[load(second)]).start(user="ada")
    assert [one.about for one in session.opening.trace if one.kind == "recalled"] == []
    turn = session.say("go")
    assert (turn.messages, session.agent) == (["Second."], "Second")
    assert [(one.about, one.detail["on"]) for one in turn.trace if one.kind == "recalled"] == [
        ("user.name", "agent:First:after"),
        ("user.name", "agent:Second:before"),
    ]
    assert session.vars["user"] == {"name": "Ada"}


def test_which_tools_search_can_be_said(load: Load) -> None:
    text = LIFE.replace("{event}", "search:before").replace("{action}", INJECT)
    usual = load(text, tools=TOOLS).start(user="ada").say("Porto")
    assert told([usual]).index("*") == told([usual]).index("called search_ships") - 1
    other = load(text, tools=TOOLS, behaviour=Behaviour(searches=("look",))).start(user="ada").say("Porto")
    assert told([other]).index("*") == told([other]).index("called look") - 1


def test_what_recalls_by_meaning_is_a_search(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          recall:
            - ON: search:before
              PATHS: [user.name]
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - IF: input == "keep"
                CALL: memory.remember("Tea at four")
              - ELSE:
                CALL: memory.recall(input)
        """
    )
    session = agent.start(user="ada")
    assert told([session.say("keep")]).count("*") == 0
    assert told([session.say("When is tea?")]).count("*") == 1


def test_a_step_that_is_skipped_is_entered_and_left(load: Load) -> None:
    text = """
MEMORY:
  recall:
    - ON: step:enter:{step}
      PATHS: [user.name]
FLOW:
  first:
    REASONING: false
    WHEN: never == true
    THEN: second
  second:
    REASONING: false
    RESPOND: "Second."
  third:
    REASONING: false
"""
    assert told([load(text.replace("{step}", "first")).start(user="ada").opening]).count("*") == 1
    assert told([load(text.replace("{step}", "second")).start(user="ada").opening]).count("*") == 1
    assert told([load(text.replace("{step}", "third")).start(user="ada").opening]).count("*") == 0


def test_a_counter_of_the_step_is_reset_before_its_entering_is_told(load: Load, puppet: Any) -> None:
    model = puppet()
    agent = load(
        """
        MEMORY:
          session:
            - tries
              INITIAL: 0
              RESET: per_step
          recall:
            - ON: step:enter:talk
              INSTRUCTION: "tries is {{tries}}"
        FLOW:
          first:
            REASONING: false
            SET: tries = 5
            THEN: talk
          talk:
            REASONING: true
            GOAL: "Talk"
        """,
        model=model,
    )
    agent.start(user="ada")
    assert "tries is 0" in model.asked[0].instructions


# --- what -------------------------------------------------------------------------------------------------------

ACTIONS = {
    "inject_context": "ACTION: inject_context\n      PATHS: [user.name]",
    "load_memory": 'ACTION: load_memory\n      DOMAIN: "profile"',
    "prompt_llm": 'ACTION: prompt_llm\n      INSTRUCTION: "Be kind"',
}
TOLD = {"inject_context": "user.name", "load_memory": "profile", "prompt_llm": "an instruction for the model"}


@pytest.mark.parametrize("event", MOMENTS)
@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_works_at_every_event(load: Load, event: str, action: str) -> None:
    turns = live(load, event, ACTIONS[action])
    recalled = [one for turn in turns for one in turn.trace if one.kind == "recalled"]
    assert [one.about for one in recalled] == [TOLD[action]]
    assert [one.about for turn in turns for one in turn.trace if one.kind == "warning"] == []


@pytest.mark.parametrize(
    ("properties", "action"),
    [
        ('INSTRUCTION: "Be kind"\n      PATHS: [user.name]\n      DOMAIN: profile', "prompt_llm"),
        ("PATHS: [user.name]\n      DOMAIN: profile", "inject_context"),
        ("DOMAIN: profile", "load_memory"),
    ],
)
def test_an_action_that_is_not_said_follows_from_what_is(load: Load, properties: str, action: str) -> None:
    (recalled,) = [
        one for turn in live(load, "step:enter:look", properties) for one in turn.trace if one.kind == "recalled"
    ]
    assert recalled.about == TOLD[action]


def test_injected_facts_stand_at_their_paths_and_missing_ones_are_null_or_the_default(
    load: Load, memory: Memory
) -> None:
    memory.scope(user="ada").set("name", "Ada")
    memory.scope(user="ada").set("home", {"town": "Porto", "street": "Rua"})
    memory.scope(project="pier").set("season", "spring")
    agent = load(
        """
        MEMORY:
          persistent:
            - user.name
            - user.tongue
              DEFAULT: "pt"
            - user.age
            - user.home
            - project.season
            - club.level
          recall:
            - ON: session:start
              PATHS: [user.name, user.tongue, user.age, user.home, project.season, club.level]
        """
    )
    assert dict(agent.start(user="ada", project="pier").vars) == {
        "user": {"name": "Ada", "tongue": "pt", "age": None, "home": {"town": "Porto", "street": "Rua"}},
        "project": {"season": "spring"},
        "club": {"level": None},
    }


def test_a_part_of_a_fact_can_be_injected(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").set("home", {"town": "Porto", "street": "Rua"})
    text = """
MEMORY:
  persistent:
    - user.home
  recall:
    - ON: session:start
      PATHS: [{path}]
"""
    assert load(text.replace("{path}", "user.home")).start(user="ada").vars["user"]["home"]["town"] == "Porto"
    assert load(text.replace("{path}", "user.home.town")).start(user="ada").vars["user"]["home"]["town"] == "Porto"


def test_injecting_again_brings_what_changed_in_the_meantime(load: Load, memory: Memory) -> None:
    agent = load(LIFE.replace("{event}", "step:enter:look").replace("{action}", INJECT), tools=TOOLS)
    session = agent.start(user="ada")
    assert "user" not in session.vars
    memory.scope(user="ada").set("name", "Ada")
    session.say("Porto")
    assert session.vars["user"] == {"name": "Ada"}


def test_entries_for_one_moment_are_done_in_the_order_of_the_file(load: Load) -> None:
    text = """
MEMORY:
  recall:
    - ON: tool:look:after
      PATHS: [user.a]
    - ON: tool:*:after
      PATHS: [user.b]
    - ON: tool:look:after
      INSTRUCTION: "Be kind"
    - ON: tool:*:after
      PATHS: [user.c]
FLOW:
  look:
    REASONING: false
    CALL: look("Porto")
"""
    opening = load(text, tools=TOOLS).start(user="ada").opening
    recalled = [one.about for one in opening.trace if one.kind == "recalled"]
    assert recalled == ["user.a", "user.b", "an instruction for the model", "user.c"]


TALK = """
MEMORY:
  session:
    - enough
      INPUT: true
  persistent:
    - user.name
  recall:
    - ON: step:enter:talk
      INSTRUCTION: "Say {{user.name}} often"
    - ON: step:enter:listen
      INSTRUCTION: "Listen well"
FLOW:
  talk:
    REASONING: true
    GOAL: "Talk"
    EXIT_WHEN: enough == true
    THEN: listen
  listen:
    REASONING: true
    GOAL: "Listen"
"""


def test_an_instruction_is_kept_for_the_rest_of_the_session_and_said_once(
    load: Load, memory: Memory, puppet: Any
) -> None:
    memory.scope(user="ada").set("name", "Ada")
    model = puppet()
    session = load(TALK, model=model).start(user="ada")
    assert "Say Ada often" in model.asked[0].instructions
    assert "Listen well" not in model.asked[0].instructions
    session.vars["enough"] = True
    session.say("go on")
    later = model.asked[-1].instructions
    assert (later.count("Say Ada often"), later.count("Listen well")) == (1, 1)
    memoranda.abl.resume(memory, session.id).say("and?")
    assert "Say Ada often" in model.asked[-1].instructions


def test_an_instruction_that_is_recalled_twice_is_told_once(load: Load, puppet: Any) -> None:
    model = puppet()
    agent = load(
        """
        MEMORY:
          recall:
            - ON: tool:*:after
              INSTRUCTION: "Be kind to {{town}}"
        FLOW:
          look:
            REASONING: false
            SET: town = "Porto"
            CALL: look(town)
            CALL: look(town)
            SET: town = "Rome"
            CALL: look(town)
            THEN: talk
          talk:
            REASONING: true
            GOAL: "Talk"
        """,
        tools=TOOLS,
        model=model,
    )
    opening = agent.start(user="ada").opening
    assert len([one for one in opening.trace if one.kind == "recalled"]) == 3
    told_to_it = model.asked[0].instructions
    assert (told_to_it.count("Be kind to Porto"), told_to_it.count("Be kind to Rome")) == (1, 1)


def test_without_a_model_an_instruction_is_only_noted(load: Load) -> None:
    text = (
        'MEMORY:\n  recall:\n    - ON: session:start\n      INSTRUCTION: "Be kind"\nFLOW:\n  a:\n    REASONING: false\n'
    )
    opening = load(text + '    RESPOND: "Hello"\n').start(user="ada").opening
    assert opening.messages == ["Hello"]
    assert [one.about for one in opening.trace if one.kind == "recalled"] == ["an instruction for the model"]


# --- load_memory ------------------------------------------------------------------------------------------------

TRAVEL = """
MEMORY:
  persistent:
    - user.diary
      ACCESS: write
  recall:
    - ON: {event}
      ACTION: load_memory
      DOMAIN: "travel"
FLOW:
  ask:
    REASONING: false
    ON_INPUT:
      - ELSE:
        CALL: search_ships(input)
        RESPOND: "{{recalled.travel}}"
"""


def test_a_domain_is_loaded_by_tag(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").set("seat", "window", domain="travel")
    memory.scope(user="ada").set("shoe_size", 38, domain="clothes")
    session = load(TRAVEL.replace("{event}", "session:start"), tools=TOOLS).start(user="ada")
    assert session.vars["user"] == {"seat": "window"}


def test_a_domain_is_loaded_by_how_keys_begin(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").set("travel.pace", "slow")
    memory.scope(user="ada").set("travel.by.night", True)
    memory.scope(user="ada").set("traveller", "no")
    memory.scope(project="default").set("travel.season", "spring")
    memory.scope(tree="case").set("travel.case", 7)
    session = load(TRAVEL.replace("{event}", "session:start"), tools=TOOLS).start(user="ada", tree="case")
    assert dict(session.vars) == {
        "user": {"travel": {"pace": "slow", "by": {"night": True}}},
        "project": {"travel": {"season": "spring"}},
        "workflow": {"travel": {"case": 7}},
    }


def test_a_domain_is_loaded_from_a_collection_of_its_name(load: Load, memory: Memory) -> None:
    for text in ("She likes slow trains", "She gets seasick", "Her brother lives in Kiel"):
        memory.scope(user="ada").remember(text, collection="travel")
    memory.scope(user="ada").remember("She likes green tea", collection="food")
    memory.scope(user="bo").remember("He likes fast trains", collection="travel")
    session = load(TRAVEL.replace("{event}", "search:before"), tools=TOOLS, behaviour=Behaviour(loaded=1)).start(
        user="ada"
    )
    assert session.say("Which train does she like?").messages == ['["She likes slow trains"]']
    all_of_them = load(TRAVEL.replace("{event}", "search:before"), tools=TOOLS).start(user="ada")
    said = all_of_them.say("Which train does she like?").messages[0]
    assert "She likes slow trains" in said
    assert "fast" not in said
    assert "tea" not in said


def test_entries_of_a_domain_are_there_at_the_start_too(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").remember("She gets seasick", collection="travel")
    text = TRAVEL.replace("{event}", "session:start")
    opening = load(text, tools=TOOLS).start(user="ada").opening
    (recalled,) = [one for one in opening.trace if one.kind == "recalled"]
    assert (recalled.detail["facts"], recalled.detail["entries"]) == (0, 1)
    assert load(text, tools=TOOLS).start(user="ada").say("x").messages == ['["She gets seasick"]']


def test_entries_of_a_domain_are_told_to_the_model_once(load: Load, memory: Memory, puppet: Any) -> None:
    memory.scope(user="ada").remember("She gets seasick", collection="travel")
    model = puppet()
    text = """
        MEMORY:
          recall:
            - ON: session:start
              ACTION: load_memory
              DOMAIN: "travel"
        FLOW:
          talk:
            REASONING: true
            GOAL: "Talk"
        """
    load(text, model=model).start(user="ada")
    assert model.asked[0].instructions.count("She gets seasick") == 1


def test_a_domain_of_another_user_stays_theirs(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").set("travel.pace", "slow")
    memory.scope(user="ada").set("seat", "window", domain="travel")
    agent = load(TRAVEL.replace("{event}", "session:start"), tools=TOOLS)
    assert "user" in agent.start(user="ada").vars
    assert "user" not in agent.start(user="bo").vars
    assert "user" not in agent.start().vars


def test_what_may_not_be_read_and_what_expired_is_not_loaded(load: Load, memory: Memory, clock: FakeClock) -> None:
    ada = memory.scope(user="ada")
    ada.set("diary", "secret", domain="travel")
    ada.set("seat", "window", domain="travel", ttl="1h")
    agent = load(TRAVEL.replace("{event}", "session:start"), tools=TOOLS)
    assert agent.start(user="ada").vars["user"] == {"seat": "window"}
    clock.advance(3_600)
    assert "user" not in agent.start(user="ada").vars


# --- when it fails ----------------------------------------------------------------------------------------------

FAILING = """
MEMORY:
  persistent:
    - user.name
  recall:
    - ON: session:start
      {action}
    - ON: session:start
      PATHS: [project.season]
FLOW:
  hello:
    REASONING: false
    RESPOND: "Hello."
"""


@pytest.mark.parametrize(
    ("action", "effect"), [("PATHS: [user.name]", GetFact), ("DOMAIN: travel", ListFacts)], ids=["inject", "load"]
)
def test_a_store_that_cannot_be_reached_stops_neither_the_turn_nor_the_next_recall(
    load: Load, memory: Memory, monkeypatch: pytest.MonkeyPatch, action: str, effect: type[Any]
) -> None:
    agent = load(FAILING.replace("{action}", action))
    usual = agent.start(user="ada").opening
    assert [one.about for one in usual.events if one.kind == "warning"] == []
    perform = Memory.perform

    def fail(self: Memory, asked: Any) -> Any:
        if type(asked) is effect and asked.scope.path.endswith("user:ada"):
            raise Unavailable("the disk is gone", hint="Look for it")
        return perform(self, asked)

    monkeypatch.setattr(Memory, "perform", fail)
    opening = agent.start(user="ada").opening
    assert opening.messages == ["Hello."]
    (warning,) = [one for one in opening.events if one.kind == "warning"]
    assert (warning.about, warning.detail["why"]) == ("recall at session:start failed", "the disk is gone")
    assert [one.about for one in opening.events if one.kind == "recalled"] == ["project.season"]


def test_what_the_gate_refuses_is_noted_and_the_turn_goes_on(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").set("name", "Ada")
    secret = Rule("deny", "memory.read", memory.scope(user="ada").scope, "name")
    narrow = memory.narrowed(Policy(rules=(Rule("allow", "*"), secret)))
    for action in ("PATHS: [user.name]", "DOMAIN: travel"):
        text = FAILING.replace("{action}", action)
        opening = load(text, memory=narrow).start(user="ada").opening
        assert opening.messages == ["Hello."]
        assert [one.kind for one in opening.events if one.kind in ("refused", "warning")] != []
        assert "Ada" not in str(opening.trace)
        free = load(text).start(user="ada").opening
        assert [one.kind for one in free.events if one.kind in ("refused", "warning")] == []


def test_without_a_user_the_facts_of_users_are_defaults(load: Load, memory: Memory) -> None:
    memory.scope(project="default").set("season", "spring")
    agent = load(FAILING.replace("{action}", "PATHS: [user.name]"))
    assert dict(agent.start().vars) == {"user": {"name": None}, "project": {"season": "spring"}}


def test_what_an_agent_changes_stays_in_its_domain(load: Load, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    for key in ("window", "floors"):
        ada.set(key, ["old"], domain="delivery")
    agent = load(
        """
        MEMORY:
          persistent:
            - user.window
            - user.floors
            - user.other
          remember:
            - WHEN: floor IS SET
              STORE: floor -> user.floors
          recall:
            - ON: tool:deliver:after
              ACTION: load_memory
              DOMAIN: "delivery"
        FLOW:
          plan:
            REASONING: false
            SET:
              - user.window = "noon"
              - user.other = 1
              - floor = 4
            THEN: COMPLETE
        """
    )
    agent.start(user="ada")
    assert {fact.key: fact.value for fact in ada.list(domain="delivery")} == {"window": "noon", "floors": ["old", 4]}
    assert present(ada.get("other")).domain is None
