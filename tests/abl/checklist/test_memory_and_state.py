"""The two dozen constructs of memory and state, each in an agent of its own that runs on a real memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import memoranda
from memoranda.abl import Agent
from memoranda.abl.agent import start_fixture
from memoranda.api.memory import Memory
from memoranda.errors import NotFound, SourceError
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import present

Load = Callable[..., Agent]
DAY = 86_400.0


# --- session variables ------------------------------------------------------------------------------------------

FOUR_TYPES = """
MEMORY:
  session:
    - cabin
      TYPE: string
      DESCRIPTION: "The cabin the passenger asks about"
    - errand
      TYPE: string
      DESCRIPTION: "What the passenger came for"
    - wishes
      TYPE: object
      DESCRIPTION: "Changes that wait for a yes"
    - surcharge
      TYPE: number
      DESCRIPTION: "What the changes cost"
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - IF: input == "fill in"
        SET:
          - cabin = "B12"
          - errand = "move"
          - wishes = {deck: 3}
          - surcharge = 12.5
      - IF: input == "mix up"
        SET:
          - cabin = 12
          - errand = true
          - wishes = "deck 3"
          - surcharge = "a lot"
"""


def test_01_four_typed_variables_begin_as_null(load: Load) -> None:
    agent = load(FOUR_TYPES)
    described = present(agent.document.memory).session
    declared = [(one.name.text, one.type, one.initial, one.reset) for one in described]
    assert declared == [
        ("cabin", "string", None, "per_session"),
        ("errand", "string", None, "per_session"),
        ("wishes", "object", None, "per_session"),
        ("surcharge", "number", None, "per_session"),
    ]
    session = agent.start(user="ada")
    assert dict(session.vars) == {"cabin": None, "errand": None, "wishes": None, "surcharge": None}


def test_01_their_types_are_looked_at_when_they_get_a_value(load: Load) -> None:
    session = load(FOUR_TYPES).start(user="ada")
    right = session.say("fill in")
    assert [one.about for one in right.trace if one.kind == "warning"] == []
    assert dict(session.vars) == {"cabin": "B12", "errand": "move", "wishes": {"deck": 3}, "surcharge": 12.5}
    wrong = session.say("mix up")
    assert [one.detail["type"] for one in wrong.trace if one.kind == "warning"] == [
        "string",
        "string",
        "object",
        "number",
    ]
    assert dict(session.vars) == {"cabin": 12, "errand": True, "wishes": "deck 3", "surcharge": "a lot"}


def test_01_they_last_as_long_as_their_session(load: Load, memory: Memory) -> None:
    agent = load(FOUR_TYPES)
    session = agent.start(user="ada")
    session.say("fill in")
    assert memory.scope(session=session.id).value("cabin") == "B12"
    assert memoranda.abl.resume(memory, session.id).vars["cabin"] == "B12"
    assert dict(agent.start(user="ada").vars)["cabin"] is None
    session.end()
    assert memory.scope(session=session.id).list() == []
    with pytest.raises(NotFound):
        memoranda.abl.resume(memory, session.id)


def test_02_bare_names_take_values_of_any_type(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - passenger
            - fare
        FLOW:
          desk:
            REASONING: false
            SET:
              - passenger = {id: 7}
              - fare = "free"
            THEN: again
          again:
            REASONING: false
            SET:
              - passenger = "Ada"
              - fare = [1, 2]
            ON_INPUT:
              - ELSE:
        """
    )
    declared = present(agent.document.memory).session
    assert [(one.name.text, one.type) for one in declared] == [("passenger", None), ("fare", None)]
    session = agent.start(user="ada")
    assert [one.about for one in session.opening.trace if one.kind == "warning"] == []
    assert dict(session.vars) == {"passenger": "Ada", "fare": [1, 2]}


BASKET = """
MEMORY:
  session:
    - basket
      TYPE: array
      DESCRIPTION: "What the passenger takes on board"
      INITIAL: []
      RESET: per_session
    - tries
      TYPE: number
      INITIAL: 0
      RESET: per_step
FLOW:
  count:
    REASONING: false
    SET: tries = tries + 1
    RESPOND: "{{basket.length}} things, try {{tries}}"
    ON_INPUT:
      - IF: input == "again"
        THEN: count
      - IF: input == "more"
        SET: tries = tries + 1
        RESPOND: "try {{tries}}"
      - ELSE:
        SET: basket = [input]
        THEN: look
  look:
    REASONING: false
    RESPOND: "{{basket.length}} things, try {{tries}}"
    ON_INPUT:
      - ELSE:
"""


def test_03_an_initial_array_is_a_fresh_copy_in_every_session(load: Load) -> None:
    agent = load(BASKET.replace("    - basket\n", "    - basket\n      INPUT: true\n"))
    first = agent.start(user="ada")
    first.vars["basket"].append("hat")  # what is read is a copy
    assert first.vars["basket"] == []
    first.vars["basket"] = ["umbrella"]
    assert first.vars["basket"] == ["umbrella"]
    assert agent.start(user="ada").vars["basket"] == []
    assert agent.start(user="ada").opening.messages == ["0 things, try 1"]


def test_03_a_counter_per_step_begins_anew_at_each_step_and_the_basket_does_not(load: Load) -> None:
    session = load(BASKET).start(user="ada")
    assert session.say("more").messages == ["try 2"]
    assert session.say("again").messages == ["0 things, try 1"]
    assert session.say("umbrella").messages == ["1 things, try 0"]


def test_04_variables_stand_in_a_block_of_text(load: Load) -> None:
    agent = load(
        """
        FLOW:
          show:
            REASONING: false
            RESPOND: |
              Your crossing:
              Ship: {{chosen.name}}
              Passenger: {{passenger}}
              Fare: ${{fare}}
            THEN: COMPLETE
        """
    )
    known = start_fixture(agent, vars={"chosen": {"name": "Aurora"}, "passenger": "Ada", "fare": 48.0}).opening
    assert known.messages == ["Your crossing:\nShip: Aurora\nPassenger: Ada\nFare: $48"]
    assert known.status == "completed"
    unknown = start_fixture(agent, vars={"passenger": "Ada"}).opening
    assert unknown.messages == ["Your crossing:\nShip: \nPassenger: Ada\nFare: $"]


@pytest.mark.parametrize(
    ("given", "step"),
    [({"tries": 2}, "serve"), ({"tries": 3}, "send_away"), ({"tries": 4}, "send_away"), ({}, "serve")],
)
def test_05_a_check_goes_on_or_to_the_step_of_its_failure(load: Load, given: dict[str, Any], step: str) -> None:
    agent = load(
        """
        FLOW:
          may_go_on:
            REASONING: false
            CHECK: tries < 3
            ON_FAIL: send_away
            THEN: serve
          send_away:
            REASONING: false
            RESPOND: "send_away"
          serve:
            REASONING: false
            RESPOND: "serve"
        """
    )
    opening = start_fixture(agent, vars=given).opening
    assert opening.messages == [step]
    assert [one.about for one in opening.trace if one.kind == "entered"] == ["may_go_on", step]


# --- persistent variables ---------------------------------------------------------------------------------------


def test_06_four_paths_are_facts_of_the_user_and_one_has_a_default(load: Load, memory: Memory) -> None:
    agent = load(
        """
        MEMORY:
          persistent:
            - user.spoken_language
            - user.club_level
              SCOPE: user
            - user.crossings
              SCOPE: user
              TYPE: array
              DESCRIPTION: "Crossings of the last years"
            - user.contact_by
              TYPE: string
              DEFAULT: "letter"
              SCOPE: user
        FLOW:
          desk:
            REASONING: false
            RESPOND: "{{user.spoken_language}}/{{user.club_level}}/{{user.crossings}}/{{user.contact_by}}"
            ON_INPUT:
              - ELSE:
                SET:
                  - user.spoken_language = "pt"
                  - user.club_level = "gold"
                  - user.crossings = [1]
                  - user.contact_by = "phone"
                THEN: desk
        """
    )
    assert [(one.path.text, one.scope) for one in present(agent.document.memory).persistent] == [
        ("user.spoken_language", "user"),
        ("user.club_level", "user"),
        ("user.crossings", "user"),
        ("user.contact_by", "user"),
    ]
    session = agent.start(user="ada")
    assert session.opening.messages == ["///letter"]
    assert memory.scope(user="ada").list() == []
    assert session.say("set them").messages == ["pt/gold/[1]/phone"]
    assert {fact.key: fact.value for fact in memory.scope(user="ada").list()} == {
        "spoken_language": "pt",
        "club_level": "gold",
        "crossings": [1],
        "contact_by": "phone",
    }


USER_AND_PROJECT = """
MEMORY:
  persistent:
    - user.colours
      SCOPE: user
      DESCRIPTION: "Colours the passenger likes"

    - user.crossings_90d
      SCOPE: user
      TYPE: array
      ACCESS: readwrite
      DEFAULT: []

    - project.tariff
      SCOPE: project
      ACCESS: read
      DESCRIPTION: "Prices of today, the same for everyone"
FLOW:
  desk:
    REASONING: false
    RESPOND: "{{user.colours}} {{user.crossings_90d.length}} {{project.tariff.adult}}"
    ON_INPUT:
      - IF: input == "cheaper"
        SET: project.tariff = {adult: 0}
        THEN: desk
      - ELSE:
        SET: user.colours = input
        THEN: desk
"""
READING_ONLY = USER_AND_PROJECT.replace("        SET: project.tariff = {adult: 0}\n", "")


def test_07_two_users_differ_and_the_project_is_shared(load: Load, memory: Memory) -> None:
    memory.scope(project="pier").set("tariff", {"adult": 20})
    memory.scope(project="airport").set("tariff", {"adult": 900})
    memory.scope(user="ada").set("crossings_90d", [1, 2])
    agent = load(READING_ONLY)
    ada, bo = agent.start(user="ada", project="pier"), agent.start(user="bo", project="pier")
    assert ada.say("green").messages == ["green 2 20"]
    assert bo.say("blue").messages == ["blue 0 20"]
    assert agent.start(user="ada", project="pier").opening.messages == ["green 2 20"]
    assert (memory.scope(user="ada").value("colours"), memory.scope(user="bo").value("colours")) == ("green", "blue")


def test_07_a_write_to_what_may_only_be_read_is_seen_in_the_text(load: Load) -> None:
    assert load(READING_ONLY).name == "Clerk"
    with pytest.raises(SourceError) as caught:
        load(USER_AND_PROJECT)
    assert [one.code for one in caught.value.diagnostics if one.severity == "error"] == ["access"]


def test_07_a_write_to_what_may_only_be_read_is_refused_when_it_runs(load_unchecked: Load, memory: Memory) -> None:
    memory.scope(project="pier").set("tariff", {"adult": 20})
    session = load_unchecked(USER_AND_PROJECT).start(user="ada", project="pier")
    allowed = session.say("green")
    assert [one.about for one in allowed.trace if one.kind == "refused"] == []
    turn = session.say("cheaper")
    assert [one.about for one in turn.events if one.kind == "refused"] == ["project.tariff"]
    assert turn.messages == ["green 0 20"]
    fact = present(memory.scope(project="pier").get("tariff"))
    assert (fact.value, fact.version) == ({"adult": 20}, 1)
    denied = [(one.scope, one.key, one.door) for one in memory.ledger.tail(50) if one.decision == "deny"]
    assert denied == [("project:pier", "tariff", "abl")]


TRIO = """
MEMORY:
  persistent:
    - user.taste
      ACCESS: readwrite

    - user.standing
      ACCESS: read

    - user.visits
      ACCESS: write
FLOW:
  desk:
    REASONING: false
    SET:
      - user.taste = "sour"
      - user.standing = "banned"
      - user.visits = 2
    RESPOND: "[{{user.taste}}] [{{user.standing}}] [{{user.visits}}]"
    ON_INPUT:
      - ELSE:
"""


def test_08_three_kinds_of_access_are_kept_when_the_agent_runs(load_unchecked: Load, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    for key in ("taste", "standing", "visits"):
        ada.set(key, 1)
    opening = load_unchecked(TRIO).start(user="ada").opening
    assert opening.messages == ["[sour] [1] []"]
    assert (ada.value("taste"), ada.value("standing"), ada.value("visits")) == ("sour", 1, 2)
    refused = [one for one in opening.events if one.kind == "refused"]
    assert [one.about for one in refused] == ["user.standing", "a read"]
    assert "user.visits" in refused[1].detail["why"]


def test_08_each_breach_that_can_be_seen_is_named(load: Load) -> None:
    with pytest.raises(SourceError) as caught:
        load(TRIO)
    errors = [one for one in caught.value.diagnostics if one.severity == "error"]
    assert [one.code for one in errors] == ["access", "access"]
    assert "user.standing" in errors[0].message
    assert "user.visits" in errors[1].message


def test_09_a_fallback_greets_until_the_name_is_known(load: Load, memory: Memory) -> None:
    agent = load(
        """
        MEMORY:
          persistent:
            - user.name
            - user.club_level
        FLOW:
          hello:
            REASONING: false
            SET: salute = COALESCE(user.name, "dear guest")
            RESPOND: "Good to see you, {{salute}}! You are a {{user.club_level}} member."
            ON_INPUT:
              - ELSE:
                SET:
                  - user.name = input
                  - user.club_level = "silver"
        """
    )
    session = agent.start(user="ada")
    assert session.opening.messages == ["Good to see you, dear guest! You are a  member."]
    session.say("Ada")
    later = agent.start(user="ada").opening
    assert later.messages == ["Good to see you, Ada! You are a silver member."]
    other = agent.start(user="bo").opening
    assert other.messages == ["Good to see you, dear guest! You are a  member."]


# --- remember and recall ----------------------------------------------------------------------------------------

TWO_TRIGGERS = """
MEMORY:
  persistent:
    - user.name
    - user.tongue
    - user.crossings

  remember:
    - WHEN: told_name IS SET
      STORE: told_name -> user.name
      TTL: "90d"
    - WHEN: told_tongue IS SET
      STORE: told_tongue -> user.tongue
FLOW:
  desk:
    REASONING: false
    RESPOND: "{{user.name}} speaks {{user.tongue}}"
    ON_INPUT:
      - IF: input contains "nothing"
      - ELSE:
        SET:
          - told_name = input
          - told_tongue = "pt"
"""


def test_10_a_name_expires_after_ninety_days_and_a_language_never(load: Load, memory: Memory, clock: FakeClock) -> None:
    agent = load(TWO_TRIGGERS)
    session = agent.start(user="ada")
    session.say("nothing yet")
    assert memory.scope(user="ada").list() == []
    turn = session.say("Ada")
    assert [one.about for one in turn.events if one.kind == "remembered"] == ["user.name", "user.tongue"]
    name, tongue = (present(memory.scope(user="ada").get(key)) for key in ("name", "tongue"))
    assert name.expires_at == name.updated_at + timedelta(days=90)
    assert tongue.expires_at is None
    clock.advance(90 * DAY - 1)
    assert agent.start(user="ada").opening.messages == ["Ada speaks pt"]
    clock.advance(1)
    assert agent.start(user="ada").opening.messages == [" speaks pt"]
    assert memory.scope(user="ada").get("name") is None
    clock.advance(20_000 * DAY)
    assert memory.scope(user="ada").value("tongue") == "pt"


def test_11_a_computed_object_is_stored_at_a_path_that_nobody_declared(
    load: Load, memory: Memory, clock: FakeClock
) -> None:
    agent = load(
        """
        MEMORY:
          remember:
            - WHEN: crossing_closed == true
              STORE: {ship: chosen_ship, kind: errand, at: now} -> user.crossings
        FLOW:
          desk:
            REASONING: false
            ON_INPUT:
              - IF: input == "close"
                SET: crossing_closed = true
              - ELSE:
        """
    )
    assert [one.code for one in agent.diagnostics if "user.crossings" in one.message] == ["undeclared_path"]
    session = start_fixture(agent, user="ada", vars={"chosen_ship": "Aurora", "errand": "outing"})
    session.say("wait")
    assert memory.scope(user="ada").get("crossings") is None
    session.say("close")
    stored = memory.scope(user="ada").value("crossings")
    assert list(stored) == ["ship", "kind", "at"]
    assert (stored["ship"], stored["kind"]) == ("Aurora", "outing")
    assert memoranda.abl.evaluate("at == now", {"at": stored["at"]}, clock=clock)


RECALL_AT_THE_START = """
MEMORY:
  recall:
    - ON: session:start
      ACTION: inject_context
      PATHS: [user.name, user.tongue, user.desk]
    - ON: session:start
      ACTION: prompt_llm
      INSTRUCTION: "Use the name {{user.name}} when you know it"
FLOW:
  talk:
    REASONING: true
    GOAL: "Be useful"
"""


def test_12_facts_and_an_instruction_are_recalled_at_the_start_in_this_order(
    load: Load, memory: Memory, puppet: Any
) -> None:
    ada = memory.scope(user="ada")
    ada.set("name", "Ada")
    ada.set("tongue", "pt")
    model = puppet()
    session = load(RECALL_AT_THE_START, model=model).start(user="ada")
    opening = session.opening
    recalled = [one for one in opening.trace if one.kind == "recalled"]
    assert [(one.about, one.detail["on"]) for one in recalled] == [
        ("user.name, user.tongue, user.desk", "session:start"),
        ("an instruction for the model", "session:start"),
    ]
    assert session.vars["user"] == {"name": "Ada", "tongue": "pt", "desk": None}
    assert "Use the name Ada when you know it" in model.asked[0].instructions
    first = [one.kind for one in opening.trace]
    assert first.index("recalled") < first.index("entered")


def test_12_the_order_is_that_of_the_file(load: Load, puppet: Any) -> None:
    one, two = RECALL_AT_THE_START.index("    - ON"), RECALL_AT_THE_START.rindex("    - ON")
    end = RECALL_AT_THE_START.index("FLOW:")
    turned = RECALL_AT_THE_START[:one] + RECALL_AT_THE_START[two:end] + RECALL_AT_THE_START[one:two]
    opening = load(turned + RECALL_AT_THE_START[end:], model=puppet()).start(user="ada").opening
    assert [one.about for one in opening.trace if one.kind == "recalled"] == [
        "an instruction for the model",
        "user.name, user.tongue, user.desk",
    ]


BEFORE_A_SEARCH = """
MEMORY:
  recall:
    - ON: search:before
      ACTION: load_memory
      DOMAIN: "sea_habits"
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - IF: input == "look"
        CALL: search_ships(user.berth, user.sea_habits.deck)
        RESPOND: "{{user.berth}}, {{user.sea_habits.deck}}"
      - ELSE:
        CALL: book(user.berth)
        RESPOND: "{{user.berth}}"
"""


def test_13_the_facts_of_a_domain_are_there_before_a_search(load: Load, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    ada.set("berth", "window", domain="sea_habits")
    ada.set("sea_habits.deck", 3)
    ada.set("shoe_size", 38)
    seen: list[tuple[Any, Any]] = []

    def search_ships(berth: Any, deck: Any) -> list[str]:
        seen.append((berth, deck))
        return []

    session = load(BEFORE_A_SEARCH, tools={"search_ships": search_ships, "book": lambda berth: None}).start(user="ada")
    other = session.say("book")
    assert [one.about for one in other.trace if one.kind == "recalled"] == []
    assert "user" not in session.vars
    turn = session.say("look")
    happened = [one.kind for one in turn.trace if one.kind in ("recalled", "called")]
    assert happened == ["recalled", "called"]
    assert session.vars["user"] == {"berth": "window", "sea_habits": {"deck": 3}}
    assert seen == [("window", 3)]
    assert turn.messages == ["window, 3"]


def test_14_an_instruction_of_three_lines_reaches_the_model(load: Load, puppet: Any) -> None:
    model = puppet("Welcome aboard.")
    agent = load(
        """
        MEMORY:
          recall:
            - ON: session:start
              ACTION: prompt_llm
              INSTRUCTION: |
                See whether an earlier crossing left a name or a habit.
                If it did, mention it in the first sentence.
                If it did not, say who you are.
        FLOW:
          talk:
            REASONING: true
            GOAL: "Be useful"
        """,
        model=model,
    )
    session = agent.start(user="ada")
    assert session.opening.messages == ["Welcome aboard."]
    text = (
        "See whether an earlier crossing left a name or a habit.\n"
        "If it did, mention it in the first sentence.\n"
        "If it did not, say who you are."
    )
    assert text in model.asked[0].instructions
    session.say("hello")
    assert model.asked[1].instructions.count(text) == 1


REMEMBER_AND_RECALL = """
MEMORY:
  session:
    - chosen_ship
      TYPE: string
    - errand
      TYPE: string

  persistent:
    - user.crossings
    - user.taste

  remember:
    - WHEN: crossing_closed == true
      STORE: {ship: chosen_ship, kind: errand, at: now} -> user.crossings
    - WHEN: new_taste IS SET
      STORE: new_taste -> user.taste

  recall:
    - ON: session:start
      ACTION: inject_context
      PATHS: [user.crossings, user.taste]
    - ON: tool:list_crossings:after
      ACTION: inject_context
      PATHS: [user.taste]
FLOW:
  desk:
    REASONING: false
    RESPOND: "{{user.crossings.ship}}, {{user.taste}}"
    ON_INPUT:
      - IF: input == "close"
        SET:
          - chosen_ship = "Aurora"
          - errand = "outing"
          - crossing_closed = true
      - IF: input == "list"
        CALL: list_crossings
      - IF: input == "other"
        CALL: count_crossings
      - ELSE:
        SET: new_taste = input
"""


def test_15_the_next_session_sees_what_this_one_stored(load: Load, memory: Memory) -> None:
    agent = load(REMEMBER_AND_RECALL, tools={"list_crossings": list, "count_crossings": int})
    session = agent.start(user="ada")
    assert session.vars["user"] == {"crossings": None, "taste": None}
    session.say("close")
    session.say("window seats")
    session.end()
    later = agent.start(user="ada")
    assert later.opening.messages == ["Aurora, window seats"]
    assert later.vars["user"]["taste"] == "window seats"
    assert later.vars["user"]["crossings"]["kind"] == "outing"
    assert agent.start(user="bo").vars["user"] == {"crossings": None, "taste": None}


def test_15_a_fact_is_injected_again_after_the_tool_that_is_named(load: Load, memory: Memory) -> None:
    agent = load(REMEMBER_AND_RECALL, tools={"list_crossings": lambda: ["Aurora"], "count_crossings": lambda: 1})
    session = agent.start(user="ada")
    memory.scope(user="ada").set("taste", "the bow")
    session.say("other")
    assert session.vars["user"]["taste"] is None
    turn = session.say("list")
    assert [one.about for one in turn.trace if one.kind == "recalled"] == ["user.taste"]
    assert session.vars["user"]["taste"] == "the bow"


# --- SET, CLEAR, TRANSFORM --------------------------------------------------------------------------------------


def test_16_assignments_see_those_above_them(load: Load) -> None:
    agent = load(
        """
        FLOW:
          reckon:
            REASONING: false
            SET:
              - fare = days * rate
              - tax = fare * 0.12
              - total = fare + tax
            RESPOND: "That makes ${{total}}, ${{tax}} of it tax."
            THEN: show
          show:
            REASONING: false
            ON_INPUT:
              - ELSE:
        """
    )
    session = start_fixture(agent, vars={"days": 3, "rate": 100})
    assert session.opening.messages == ["That makes $336, $36 of it tax."]
    assert (session.vars["fare"], session.vars["tax"], session.vars["total"]) == (300, 36, 336)
    assert session.step == "show"


def test_17_a_call_by_position_binds_its_result(load: Load) -> None:
    agent = load(
        """
        FLOW:
          look_around:
            REASONING: false
            CALL: find_ships(harbour, first_day, last_day, heads)
            ON_SUCCESS:
              SET:
                - how_many = call_result.ships.length
                - lowest = call_result.ships[0].fare
              RESPOND: "{{how_many}} ships, from ${{lowest}}."
              THEN: choose
          choose:
            REASONING: false
            ON_INPUT:
              - ELSE:
        """,
        tools={"find_ships": lambda a, b, c, d: {"ships": [{"fare": 30, "given": [a, b, c, d]}, {"fare": 45}]}},
    )
    given = {"harbour": "Kiel", "first_day": "2026-06-01", "last_day": "2026-06-04", "heads": 2}
    session = start_fixture(agent, vars=given)
    assert session.opening.messages == ["2 ships, from $30."]
    assert (session.vars["how_many"], session.vars["lowest"]) == (2, 30)
    assert session.vars["ships"][0]["given"] == ["Kiel", "2026-06-01", "2026-06-04", 2]
    assert session.step == "choose"


def test_18_dots_make_an_object(load: Load) -> None:
    text = """
SET:
  - crossing.passenger = passenger
  - crossing.from = first_day
  - crossing.total = total
"""
    assert memoranda.abl.parse(text, fragment=True).body is not None
    step = "FLOW:\n  fill:\n    REASONING: false" + text.replace("\n", "\n    ") + "ON_INPUT:\n      - ELSE:\n"
    session = start_fixture(load(step), vars={"passenger": "Ada", "first_day": "2026-06-01", "total": 336})
    assert session.vars["crossing"] == {"passenger": "Ada", "from": "2026-06-01", "total": 336}


CHOOSE = """
FLOW:
  choose:
    REASONING: false
    RESPOND: "Which ship?"
    ON_INPUT:
      - IF: abl.is_number(input) AND input >= 1 AND input <= ships.length
        SET:
          - chosen = ships[input - 1]
          - wants_quote = true
        THEN: who
      - ELSE:
        RESPOND: "Give me the number of a ship."
  who:
    REASONING: false
    RESPOND: "Who travels?"
    ON_INPUT:
      - ELSE:
"""


@pytest.mark.parametrize("said", ["x", "0", "99", "", "-1", "1x"])
def test_19_words_that_choose_nothing_stay_in_the_step(load: Load, said: str) -> None:
    session = start_fixture(load(CHOOSE), vars={"ships": ["Aurora", "Borealis", "Ceres"]})
    turn = session.say(said)
    assert (turn.messages, turn.step) == (["Give me the number of a ship."], "choose")
    assert "chosen" not in session.vars
    turn = session.say("2")
    assert (turn.messages, turn.step) == (["Who travels?"], "who")
    assert (session.vars["chosen"], session.vars["wants_quote"]) == ("Borealis", True)


def test_20_cleared_variables_are_undefined(load: Load) -> None:
    agent = load(
        """
        FLOW:
          begin_anew:
            REASONING: false
            CLEAR: [harbour, first_day, last_day, ships]
            RESPOND: "From the beginning ({{harbour}}{{first_day}}{{last_day}}{{ships}}). Which harbour?"
            THEN: ask
          ask:
            REASONING: false
            SET:
              - gone = harbour IS NOT SET AND first_day IS NOT SET AND last_day IS NOT SET AND ships IS NOT SET
              - there = heads IS SET
            ON_INPUT:
              - ELSE:
        """
    )
    given = {"harbour": "Kiel", "first_day": "2026-06-01", "last_day": "2026-06-04", "ships": ["Aurora"], "heads": 2}
    session = start_fixture(agent, vars=given)
    assert session.opening.messages == ["From the beginning (). Which harbour?"]
    assert dict(session.vars) == {"heads": 2, "gone": True, "there": True}
    assert session.step == "ask"


def test_21_a_sub_intent_clears_asks_again_and_stays(load: Load) -> None:
    agent = load(
        """
        FLOW:
          ask_for_trip:
            REASONING: false
            GATHER:
              - destination: required
              - first_day:
                type: date
              - last_day:
                type: date

            SUB_INTENTS:
              - INTENT: "change destination"
                CLEAR: [destination]
                RESPOND: "Which harbour instead?"
              - INTENT: "change dates"
                CLEAR: [first_day, last_day]
                RESPOND: "Which days instead?"

            COMPLETE_WHEN: destination AND first_day AND last_day
            THEN: look_around
          look_around:
            REASONING: false
            RESPOND: "{{destination}}, {{first_day}} to {{last_day}}"
            ON_INPUT:
              - ELSE:
        """
    )
    session = agent.start()
    assert session.say("Lisbon").step == "ask_for_trip"
    assert session.say("2026-06-01").step == "ask_for_trip"
    assert (session.vars["destination"], session.vars["first_day"]) == ("Lisbon", "2026-06-01")
    turn = session.say("I want to change the dates")
    assert (turn.messages, turn.step) == (["Which days instead?"], "ask_for_trip")
    assert dict(session.vars) == {"destination": "Lisbon"}
    assert session.say("2026-07-01").step == "ask_for_trip"
    turn = session.say("2026-07-04")
    assert (turn.messages, turn.step) == (["Lisbon, 2026-07-01 to 2026-07-04"], "look_around")


SHIPS = [
    {"name": "Aurora", "fare": 90, "stars": 4, "decks": 3},
    {"name": "Borealis", "fare": 250, "stars": 5},
    {"name": "Ceres", "fare": 40, "stars": 2},
    {"name": "Dione", "fare": 100, "stars": 3},
    {"name": "Elara", "fare": 60, "stars": 4},
    {"name": "Freya", "fare": 70, "stars": 1},
    {"name": "Gaia", "fare": 80, "stars": 4},
]


def test_22_an_array_is_filtered_mapped_sorted_and_cut(load: Load) -> None:
    agent = load(
        """
        FLOW:
          narrow:
            REASONING: false
            TRANSFORM:
              SOURCE: found AS ship
              INTO: cheap
              FILTER: ship.fare <= purse
              MAP:
                name: ship.name
                fare: ship.fare
                stars: ship.stars
              SORT_BY: fare asc
              LIMIT: 5
            RESPOND: |
              {{cheap.length}} ships that you can afford:
              {{#each cheap}}
              {{add @index 1}}. {{name}}: ${{fare}}, {{stars}} stars
              {{/each}}
            THEN: choose
          choose:
            REASONING: false
            ON_INPUT:
              - ELSE:
        """
    )
    session = start_fixture(agent, vars={"found": [dict(ship) for ship in SHIPS], "purse": 100})
    assert session.opening.messages == [
        "5 ships that you can afford:\n"
        "1. Ceres: $40, 2 stars\n"
        "2. Elara: $60, 4 stars\n"
        "3. Freya: $70, 1 stars\n"
        "4. Gaia: $80, 4 stars\n"
        "5. Aurora: $90, 4 stars"
    ]
    assert session.vars["cheap"][4] == {"name": "Aurora", "fare": 90, "stars": 4}
    assert session.vars["found"] == SHIPS
    assert session.step == "choose"
    session.vars["cheap"][4]["fare"] = 0
    assert session.vars["found"] == SHIPS


def transformed(load: Load, fragment: str, **given: Any) -> dict[str, Any]:
    assert memoranda.abl.parse(fragment, fragment=True).body is not None
    step = "FLOW:\n  work:\n    REASONING: false" + fragment.replace("\n", "\n    ") + "ON_INPUT:\n      - ELSE:\n"
    return dict(start_fixture(load(step), vars=given).vars)


def test_23_a_filter_alone_keeps_whole_items(load: Load) -> None:
    crossings = [{"id": 1, "state": "open", "extra": [1]}, {"id": 2, "state": "done"}, {"id": 3, "state": "open"}]
    after = transformed(
        load,
        """
TRANSFORM:
  SOURCE: crossings AS crossing
  INTO: running
  FILTER: crossing.state == "open"
""",
        crossings=crossings,
    )
    assert after["running"] == [{"id": 1, "state": "open", "extra": [1]}, {"id": 3, "state": "open"}]
    assert after["crossings"] == crossings


def test_24_a_map_alone_keeps_every_item_in_its_new_form(load: Load) -> None:
    raw = [{"name": "Aurora", "remark": "old", "page": "/a", "fare": 9}, {"name": "Ceres"}]
    after = transformed(
        load,
        """
TRANSFORM:
  SOURCE: raw AS entry
  INTO: cards
  MAP:
    title: entry.name
    summary: entry.remark
    link: entry.page
""",
        raw=raw,
    )
    assert after["cards"] == [
        {"title": "Aurora", "summary": "old", "link": "/a"},
        {"title": "Ceres", "summary": None, "link": None},
    ]
    assert after["raw"] == raw
