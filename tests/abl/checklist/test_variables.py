"""Variables while an agent runs: when they begin anew, where they are kept, and who may read and write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda.abl import Agent, Turn
from memoranda.abl.agent import start_fixture
from memoranda.api.memory import Memory
from memoranda.errors import SourceError, UsageError
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import present

Load = Callable[..., Agent]


def about(turn: Turn, kind: str) -> list[str]:
    return [one.about for one in turn.trace if one.kind == kind]


# --- RESET ------------------------------------------------------------------------------------------------------

COUNTING = """
AGENT: {name}
GOAL: "Count"
MEMORY:
  session:
    - count
      TYPE: number
      INITIAL: 10
      RESET: {reset}
FLOW:
  one:
    REASONING: false
    SET: count = count + 1
    RESPOND: "{{count}}"
    ON_INPUT:
      - IF: input == "stay"
        SET: count = count + 1
        RESPOND: "{{count}}"
      - IF: input == "again"
        THEN: one
      - IF: input == "show"
        RESPOND: "{{count}}"
      - ELSE:
        THEN: two
  two:
    REASONING: false
    SET: count = count + 1
    RESPOND: "{{count}}"
    ON_INPUT:
      - ELSE:
        THEN: one
"""


def counting(load: Load, reset: str, name: str = "Counter") -> Agent:
    return load(COUNTING.replace("{reset}", reset).replace("{name}", name))


def test_per_session_counts_through_steps_and_begins_anew_in_the_next_session(load: Load) -> None:
    agent = counting(load, "per_session")
    session = agent.start(user="ada")
    assert session.opening.messages == ["11"]
    assert [session.say(words).messages for words in ("stay", "again", "go", "go")] == [["12"], ["13"], ["14"], ["15"]]
    assert agent.start(user="ada").opening.messages == ["11"]
    assert session.say("again").messages == ["16"]


def test_per_step_begins_anew_with_every_transition_and_not_with_every_turn(load: Load, memory: Memory) -> None:
    session = counting(load, "per_step").start(user="ada")
    assert session.opening.messages == ["11"]
    assert [session.say(words).messages for words in ("stay", "stay", "again", "go")] == [
        ["12"],
        ["13"],
        ["11"],
        ["11"],
    ]
    session.say("back")
    session.say("stay")
    assert memoranda.abl.resume(memory, session.id).say("stay").messages == ["13"]


def test_per_step_begins_anew_before_the_guard_of_the_step(load: Load) -> None:
    text = """
MEMORY:
  session:
    - count
      INITIAL: 0
      RESET: {reset}
FLOW:
  one:
    REASONING: false
    SET: count = 5
    THEN: two
  two:
    REASONING: false
    WHEN: count == 0
    RESPOND: "two"
    THEN: three
  three:
    REASONING: false
    RESPOND: "three"
"""
    assert load(text.replace("{reset}", "per_step")).start().opening.messages == ["two", "three"]
    assert load(text.replace("{reset}", "per_session")).start().opening.messages == ["three"]


def test_per_step_does_not_begin_anew_while_a_step_gathers(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - count
              INITIAL: 0
              RESET: per_step
        FLOW:
          ask:
            REASONING: false
            SET: count = count + 1
            GATHER:
              - town: required
              - street: required
            RESPOND: "{{count}}"
            THEN: next
          next:
            REASONING: false
            RESPOND: "{{count}}"
        """
    )
    session = agent.start()
    session.say("Porto")
    assert session.vars["count"] == 1
    assert session.say("Rua Nova").messages == ["1", "0"]


def test_never_is_shared_by_the_sessions_and_users_of_one_agent_in_one_project(load: Load) -> None:
    agent = counting(load, "never", "Never_Ending")
    ada = agent.start(user="ada", project="never-1")
    assert ada.opening.messages == ["11"]
    bo = agent.start(user="bo", project="never-1")
    assert bo.opening.messages == ["12"]
    assert ada.say("show").messages == ["12"]
    ada.end()
    bo.end()
    assert agent.start(user="cy", project="never-1").opening.messages == ["13"]
    assert agent.start(user="ada", project="never-2").opening.messages == ["11"]
    assert counting(load, "never", "Never_Otherwise").start(project="never-1").opening.messages == ["11"]


def test_never_is_pointed_out_when_the_agent_is_loaded(load: Load) -> None:
    assert [one.code for one in counting(load, "never").diagnostics] == ["shared_by_all"]
    assert [one.code for one in counting(load, "per_session").diagnostics] == []


def test_never_is_no_fact_of_the_session(load: Load, memory: Memory) -> None:
    kept = counting(load, "per_session").start(user="ada")
    assert memory.scope(session=kept.id).value("count") == 11
    shared = counting(load, "never", "Never_Kept").start(user="ada", project="never-3")
    assert memory.scope(session=shared.id).get("count") is None
    assert shared.vars["count"] == 11


PARENT = """
AGENT: Parent
GOAL: "Send on"
MEMORY:
  session:
    - whole
      INITIAL: 0
    - active
      INITIAL: 0
      RESET: per_activation
HANDOFF:
  - TO: Child
    WHEN: wants_child == true
    RETURN: true
    ON_RETURN:
      map:
        answer: answer
FLOW:
  one:
    REASONING: false
    RESPOND: "{{whole}} {{active}}"
    ON_INPUT:
      - IF: input == "child"
        SET:
          - whole = whole + 1
          - active = active + 1
          - wants_child = true
      - IF: input == "count"
        SET:
          - wants_child = false
          - whole = whole + 1
          - active = active + 1
        THEN: one
      - ELSE:
        SET: wants_child = false
        THEN: one
"""
CHILD = """
AGENT: Child
GOAL: "Answer"
MEMORY:
  session:
    - whole
      INITIAL: 0
    - active
      INITIAL: 0
      RESET: per_activation
FLOW:
  one:
    REASONING: false
    SET:
      - whole = whole + 1
      - active = active + 1
    RESPOND: "child {{whole}} {{active}}"
    ON_INPUT:
      - IF: input == "answer"
        SET: answer = "yes"
        THEN: COMPLETE
"""


def test_per_activation_begins_anew_when_control_comes_back(load: Load) -> None:
    session = load(PARENT, agents=[load(CHILD)]).start(user="ada")
    assert session.opening.messages == ["0 0"]
    assert session.say("count").messages == ["1 1"]
    assert session.say("count").messages == ["2 2"]
    session.say("child")
    assert session.agent == "Child"
    session.say("answer")
    assert (session.agent, session.vars["answer"]) == ("Parent", "yes")
    assert (session.vars["whole"], session.vars["active"]) == (3, 0)
    assert session.say("count").messages == ["4 1"]


def test_an_agent_that_is_called_twice_keeps_what_is_per_session(load: Load) -> None:
    session = load(PARENT, agents=[load(CHILD)]).start(user="ada")
    assert session.say("child").messages == ["child 1 1"]
    session.say("answer")
    session.say("show")
    assert session.say("child").messages == ["child 2 1"]


def test_per_activation_begins_anew_when_a_finished_agent_is_spoken_to(load: Load) -> None:
    text = """
MEMORY:
  session:
    - whole
      INITIAL: 0
    - active
      INITIAL: 0
      RESET: per_activation
FLOW:
  one:
    REASONING: false
    SET:
      - whole = whole + 1
      - active = active + 1
    RESPOND: "{{whole}} {{active}}"
    THEN: COMPLETE
"""
    session = load(text).start()
    assert (session.opening.messages, session.opening.status) == (["1 1"], "completed")
    assert session.say("again").messages == ["2 1"]


# --- INITIAL and TYPE -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", ["per_session", "per_step", "per_activation"])
def test_an_initial_value_is_copied_however_deep(load: Load, reset: str) -> None:
    text = f"MEMORY:\n  session:\n    - cart\n      INITIAL: {{lines: [[1], [2]]}}\n      RESET: {reset}\n"
    agent = load(text)
    first = agent.start()
    held = next(iter(first._frames)).names["cart"]
    held["lines"][0].append(99)  # even if the value is changed in place
    assert first.vars["cart"] == {"lines": [[1, 99], [2]]}
    assert agent.start().vars["cart"] == {"lines": [[1], [2]]}


def test_an_initial_value_may_be_computed_anew_each_time(load: Load, clock: FakeClock) -> None:
    text = "MEMORY:\n  session:\n    - began\n      INITIAL: NOW()\n    - sum\n      INITIAL: 2 * 3\n"
    first = load(text).start().vars
    clock.advance(60)
    later = load(text).start().vars
    assert first["began"] < later["began"]
    assert first["sum"] == 6


TYPES = {
    "string": ("text", 1),
    "number": (1.5, "1.5"),
    "boolean": (False, 0),
    "date": ("2026-06-01", "some day"),
    "array": ([1], {"a": 1}),
    "object": ({"a": 1}, [1]),
}


@pytest.mark.parametrize("type_name", TYPES)
def test_a_value_of_another_type_is_stored_with_a_warning(load: Load, type_name: str) -> None:
    text = f"""
MEMORY:
  session:
    - it
      TYPE: {type_name}
FLOW:
  one:
    REASONING: false
    ON_INPUT:
      - IF: input == "right"
        SET: it = right
      - IF: input == "null"
        SET: it = nothing
      - ELSE:
        SET: it = wrong
"""
    right, wrong = TYPES[type_name]
    session = start_fixture(load(text), vars={"right": right, "wrong": wrong})
    assert about(session.say("right"), "warning") == []
    assert session.vars["it"] == right
    assert about(session.say("null"), "warning") == []
    assert session.vars["it"] is None
    assert about(session.say("wrong"), "warning") == [f"`it` is declared {type_name} and got another type"]
    assert session.vars["it"] == wrong


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("way", ["SET", "STORE"])
def test_a_fact_of_another_type_is_stored_with_a_warning(load: Load, memory: Memory, type_name: str, way: str) -> None:
    declared = f"MEMORY:\n  persistent:\n    - user.it\n      TYPE: {type_name}\n"
    remember = "  remember:\n    - WHEN: it IS SET\n      STORE: it -> user.it\n"
    listen = "FLOW:\n  one:\n    REASONING: false\n    ON_INPUT:\n      - ELSE:\n        SET: {target} = given\n"
    target = "user.it" if way == "SET" else "it"
    agent = load(declared + (remember if way == "STORE" else "") + listen.replace("{target}", target))
    right, wrong = TYPES[type_name]
    fitting = start_fixture(agent, user="ada", vars={"given": right}).say("go")
    assert (about(fitting, "warning"), memory.scope(user="ada").value("it")) == ([], right)
    odd = start_fixture(agent, user="bo", vars={"given": wrong}).say("go")
    stored = memory.scope(user="bo").value("it")
    if way == "STORE" and type_name == "array":
        assert (about(odd, "warning"), stored) == ([], [wrong])
    else:
        assert (len(about(odd, "warning")), stored) == (1, wrong)


# --- undeclared names -------------------------------------------------------------------------------------------


def test_an_undeclared_variable_lives_as_long_as_the_session(load: Load) -> None:
    agent = load(
        """
        FLOW:
          one:
            REASONING: false
            RESPOND: "[{{seen}}]"
            ON_INPUT:
              - ELSE:
                SET: seen = input
                THEN: two
          two:
            REASONING: false
            SET: seen = [seen]
            RESPOND: "{{seen}}"
            ON_INPUT:
              - ELSE:
                THEN: one
        """
    )
    session = agent.start(user="ada")
    assert session.say("x").messages == ['["x"]']
    assert session.say("y").messages == ['[["x"]]']
    assert agent.start(user="ada").opening.messages == ["[]"]


@pytest.mark.parametrize("name", ["user_id", "project_id", "tenant_id", "session_id", "_mine"])
def test_names_of_the_runtime_cannot_be_set(load: Load, name: str) -> None:
    text = "FLOW:\n  one:\n    REASONING: false\n    SET: {name} = 1\n    ON_INPUT:\n      - ELSE:\n"
    text = "MEMORY:\n  session:\n    - mine\n      INPUT: true\n" + text
    with pytest.raises(SourceError) as caught:
        load(text.replace("{name}", name))
    assert [one.code for one in caught.value.diagnostics if one.severity == "error"] == ["reserved_name"]
    session = load(text.replace("{name}", "mine")).start(user="ada")
    assert session.vars["mine"] == 1
    with pytest.raises(UsageError):
        session.vars[name] = 1
    session.vars["mine"] = 2
    assert session.vars["mine"] == 2


# --- facts: SCOPE, prefix, ACCESS -------------------------------------------------------------------------------

PLACES = {"user": {"user": "ada"}, "project": {"project": "pier"}, "execution_tree": {"tree": "case"}}
BEGINNINGS = {"user": "user", "project": "project", "execution_tree": "workflow"}
FACT = """
MEMORY:
  persistent:
    - {path}
      SCOPE: {scope}
      ACCESS: {access}
      DEFAULT: "default"
FLOW:
  one:
    REASONING: false
    ON_INPUT:
      - IF: input == "{word}"
        {action}
"""


@pytest.mark.parametrize("scope", PLACES)
@pytest.mark.parametrize("access", ["read", "write", "readwrite"])
@pytest.mark.parametrize("begins", ["as the scope", "otherwise"])
def test_reading_follows_access_in_every_scope(
    load: Load, load_unchecked: Load, memory: Memory, scope: str, access: str, begins: str
) -> None:
    path = f"{BEGINNINGS[scope]}.note" if begins == "as the scope" else "shelf.note"
    key = path.removeprefix(f"{BEGINNINGS[scope]}.")
    text = FACT.replace("{path}", path).replace("{scope}", scope).replace("{access}", access)
    text = text.replace("{word}", "read").replace("{action}", f'RESPOND: "[{{{{{path}}}}}]"')
    start: dict[str, Any] = {"user": "ada", "project": "pier", "tree": "case"}
    session = (load_unchecked if access == "write" else load)(text).start(**start)
    empty = session.say("read")
    memory.scope(**PLACES[scope]).set(key, "fact")
    filled = session.say("read")
    if access == "write":
        assert (empty.messages, filled.messages) == (["[]"], ["[]"])
        assert about(filled, "refused") == ["a read"]
    else:
        assert (empty.messages, filled.messages) == (["[default]"], ["[fact]"])
        assert about(filled, "refused") == []


@pytest.mark.parametrize("scope", PLACES)
@pytest.mark.parametrize("access", ["read", "write", "readwrite"])
@pytest.mark.parametrize("way", ["SET", "nested SET", "CLEAR", "AS", "INTO"])
def test_writing_follows_access_in_every_scope(
    load: Load, load_unchecked: Load, memory: Memory, scope: str, access: str, way: str
) -> None:
    path = f"{BEGINNINGS[scope]}.note"
    action, after = {
        "SET": (f'SET: {path} = "new"', "new"),
        "nested SET": (f'SET: {path}.below = "new"', {"old": 1, "below": "new"}),
        "CLEAR": (f"CLEAR: [{path}]", None),
        "AS": (f"CALL: give\n          AS: {path}", "new"),
        "INTO": (f"TRANSFORM: things AS thing INTO {path}", ["new"]),
    }[way]
    text = FACT.replace("{path}", path).replace("{scope}", scope).replace("{access}", access)
    text = text.replace('"default"', "null").replace("{word}", "write").replace("{action}", action)
    place = memory.scope(**PLACES[scope])
    place.set("note", {"old": 1})
    agent = (load_unchecked if access == "read" else load)(text, tools={"give": lambda: "new"})
    turn = start_fixture(agent, user="ada", project="pier", tree="case", vars={"things": ["new"]}).say("write")
    denied = [(one.key, one.door) for one in memory.ledger.tail(50) if one.decision == "deny"]
    if access == "read":
        note = present(place.get("note"))
        assert (note.value, note.version) == ({"old": 1}, 1)
        assert (about(turn, "refused"), denied) == ([path], [("note", "abl")])
    else:
        assert place.value("note") == after
        assert (about(turn, "refused"), denied) == ([], [])


@pytest.mark.parametrize("scope", PLACES)
@pytest.mark.parametrize("access", ["read", "write", "readwrite"])
def test_remembering_follows_access_in_every_scope(
    load: Load, load_unchecked: Load, memory: Memory, scope: str, access: str
) -> None:
    path = f"{BEGINNINGS[scope]}.note"
    remember = f"  remember:\n    - WHEN: given IS SET\n      STORE: given -> {path}\n"
    text = FACT.replace("{path}", path).replace("{scope}", scope).replace("{access}", access)
    text = text.replace("{word}", "x").replace("{action}", 'RESPOND: "x"').replace("FLOW:", f"{remember}FLOW:")
    place = memory.scope(**PLACES[scope])
    place.set("note", "old")
    agent = (load_unchecked if access == "read" else load)(text)
    opening = start_fixture(agent, user="ada", project="pier", tree="case", vars={"given": "new"}).opening
    assert place.value("note") == ("old" if access == "read" else "new")
    assert about(opening, "refused") == ([path] if access == "read" else [])
    assert about(opening, "remembered") == ([] if access == "read" else [path])


def test_a_grant_lets_the_next_agent_read_and_no_more(load: Load, memory: Memory) -> None:
    first = """
AGENT: First
GOAL: "Begin"
MEMORY:
  persistent:
    - project.rate
HANDOFF:
  - TO: Second
    CONTEXT:
      memory_grants:
        - path: project.rate
          access: {access}
FLOW:
  go:
    REASONING: false
    THEN: HANDOFF Second
"""
    second = """
AGENT: Second
GOAL: "Go on"
FLOW:
  go:
    REASONING: false
    SET: project.rate = 2
    RESPOND: "{{project.rate}}"
    ON_INPUT:
      - IF: input == "never"
"""
    rate = memory.scope(project="pier")
    rate.set("rate", 1)
    reader = load(first.replace("{access}", "read"), agents=[load(second)]).start(user="ada", project="pier")
    assert (reader.opening.messages, about(reader.opening, "refused"), rate.value("rate")) == (
        ["1"],
        ["project.rate"],
        1,
    )
    assert [one.key for one in memory.ledger.tail(50) if one.decision == "deny"] == ["rate"]
    writer = load(first.replace("{access}", "readwrite"), agents=[load(second)]).start(user="ada", project="pier")
    assert (writer.opening.messages, about(writer.opening, "refused"), rate.value("rate")) == (["2"], [], 2)


def test_facts_of_a_tree_are_shared_inside_it_only(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          persistent:
            - workflow.case
        FLOW:
          one:
            REASONING: false
            RESPOND: "[{{workflow.case}}]"
            ON_INPUT:
              - ELSE:
                SET: workflow.case = input
        """
    )
    first = agent.start(user="ada", tree="case")
    first.say("A-7")
    assert agent.start(user="bo", tree="case").opening.messages == ["[A-7]"]
    assert agent.start(user="ada", tree="other").opening.messages == ["[]"]
    assert agent.start(user="ada").opening.messages == ["[]"]


# --- without a user ---------------------------------------------------------------------------------------------

ANONYMOUS = """
MEMORY:
  persistent:
    - user.name
      DEFAULT: "friend"
    - project.season
  remember:
    - WHEN: typed IS SET
      STORE: typed -> user.typed
FLOW:
  one:
    REASONING: false
    RESPOND: "[{{user.name}}]"
    ON_INPUT:
      - IF: input == "clear"
        CLEAR: [user.name]
        THEN: one
      - ELSE:
        SET:
          - typed = input
          - user.name = input
          - project.season = input
        THEN: one
"""


def test_without_a_user_nothing_of_users_is_read_or_written(load: Load, memory: Memory) -> None:
    agent = load(ANONYMOUS)
    session = agent.start()
    assert session.opening.messages == ["[friend]"]
    turn = session.say("Ada")
    assert turn.messages == ["[friend]"]
    assert about(turn, "refused") == ["user.name", "user.typed"]
    assert "has no user" in next(one for one in turn.events if one.kind == "refused").detail["why"]
    assert about(session.say("clear"), "refused") == ["user.name"]
    assert memory.scope(project="default").value("season") == "Ada"
    assert agent.start().opening.messages == ["[friend]"]
    written = {one.scope.partition(":")[0] for one in memory.ledger.events() if one.key in ("name", "typed", "season")}
    assert written == {"project"}
    assert {"session"} == {
        one.scope.partition(":")[0] for one in memory.ledger.events() if one.key == "abl.session" and one.scope
    }


def test_with_a_user_the_same_is_read_and_written(load: Load, memory: Memory) -> None:
    session = load(ANONYMOUS).start(user="ada")
    turn = session.say("Ada")
    assert (turn.messages, about(turn, "refused")) == (["[Ada]"], [])
    assert (memory.scope(user="ada").value("name"), memory.scope(user="ada").value("typed")) == ("Ada", "Ada")
    assert session.say("clear").messages == ["[friend]"]


# --- DEFAULT ----------------------------------------------------------------------------------------------------


def test_a_default_is_read_and_never_written(load: Load, memory: Memory, clock: FakeClock) -> None:
    agent = load(
        """
        MEMORY:
          persistent:
            - user.visits
              TYPE: array
              DEFAULT: []
            - user.since
              DEFAULT: NOW()
            - user.name
              DEFAULT: "friend"
          recall:
            - ON: session:start
              PATHS: [user.visits, user.since, user.name]
        FLOW:
          one:
            REASONING: false
            SET: seen = user.visits
            RESPOND: "{{user.visits.length}} {{user.name}} {{COALESCE(user.name, 'nobody')}}"
            CHECK: user.since IS SET
            ON_INPUT:
              - ELSE:
        """
    )
    session = agent.start(user="ada")
    assert session.opening.messages == ["0 friend friend"]
    session.vars["seen"].append("x")
    session.say("go")
    session.end()
    assert memory.scope(user="ada").list() == []
    assert agent.start(user="ada").opening.messages == ["0 friend friend"]
    memory.scope(user="ada").set("name", "Ada")
    assert agent.start(user="ada").opening.messages == ["0 Ada Ada"]


def test_a_fact_that_expired_gives_way_to_the_default(load: Load, memory: Memory, clock: FakeClock) -> None:
    memory.scope(user="ada").set("name", "Ada", ttl="1h")
    text = 'MEMORY:\n  persistent:\n    - user.name\n      DEFAULT: "friend"\nFLOW:\n  one:\n    REASONING: false\n'
    agent = load(text + '    RESPOND: "{{user.name}}"\n')
    assert agent.start(user="ada").opening.messages == ["Ada"]
    clock.advance(3_600)
    assert agent.start(user="ada").opening.messages == ["friend"]


# --- SET and CLEAR of facts -------------------------------------------------------------------------------------

HOME = """
MEMORY:
  persistent:
    - user.home
      DEFAULT: {town: "nowhere"}
    - user.home.floor
ON_ERROR:
  validation_error:
    RESPOND: "That cannot be set."
    THEN: CONTINUE
FLOW:
  one:
    REASONING: false
    ON_INPUT:
      - IF: input == "town"
        SET: user.home.town = "Porto"
      - IF: input == "deep"
        SET: user.home.street.number = 7
      - IF: input == "floor"
        SET: user.home.floor = 3
      - IF: input == "whole"
        SET: user.home = "a tent"
      - IF: input == "clear town"
        CLEAR: [user.home.town]
      - IF: input == "clear"
        CLEAR: [user.home]
      - ELSE:
        RESPOND: "{{user.home.town}} {{user.home.street.number}} {{user.home.floor}}"
"""


def test_set_below_a_declared_path_changes_that_part_of_the_fact(load: Load, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    session = load(HOME).start(user="ada")
    assert session.say("show").messages == ["nowhere  "]
    session.say("town")
    assert ada.value("home") == {"town": "Porto"}
    session.say("deep")
    assert ada.value("home") == {"town": "Porto", "street": {"number": 7}}
    assert session.say("show").messages == ["Porto 7 "]


def test_the_longest_declared_path_is_the_one_that_is_meant(load: Load, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    ada.set("home", {"town": "Rome", "floor": 1})
    session = load(HOME).start(user="ada")
    ada.set("home.floor", 2)
    assert session.say("show").messages == ["Rome  2"]
    session.say("floor")
    assert (ada.value("home"), ada.value("home.floor")) == ({"town": "Rome", "floor": 1}, 3)
    assert session.say("show").messages == ["Rome  3"]


def test_a_declared_path_without_a_fact_is_a_field_of_the_object_above_it(load: Load, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    ada.set("home", {"town": "Rome", "floor": 1})
    session = load(HOME).start(user="ada")
    assert session.say("show").messages == ["Rome  1"]
    session.say("floor")
    assert (ada.value("home"), ada.get("home.floor")) == ({"town": "Rome", "floor": 3}, None)
    assert session.say("show").messages == ["Rome  3"]


def test_what_is_no_object_cannot_hold_a_part(load: Load, memory: Memory) -> None:
    session = load(HOME).start(user="ada")
    session.say("whole")
    turn = session.say("town")
    assert turn.messages == ["That cannot be set."]
    assert memory.scope(user="ada").value("home") == "a tent"
    assert about(turn, "error") == ["validation_error"]


def test_clear_forgets_a_fact_or_a_part_of_it(load: Load, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    session = load(HOME).start(user="ada")
    session.say("town")
    session.say("deep")
    session.say("clear town")
    assert ada.value("home") == {"street": {"number": 7}}
    assert session.say("show").messages == [" 7 "]
    session.say("clear")
    assert ada.get("home") is None
    assert session.say("show").messages == ["nowhere  "]
    assert [one.change for one in ada.history("home")] == ["set", "set", "set", "deleted"]


def test_set_writes_through_and_another_session_sees_it(load: Load, memory: Memory) -> None:
    agent = load(
        """
        MEMORY:
          persistent:
            - user.name
        FLOW:
          one:
            REASONING: false
            ON_INPUT:
              - IF: input == "show"
                RESPOND: "{{user.name}}"
              - ELSE:
                SET: user.name = input
                RESPOND: "{{user.name}}"
        """
    )
    one, two = agent.start(user="ada"), agent.start(user="ada")
    assert one.say("Ada").messages == ["Ada"]
    assert two.say("show").messages == ["Ada"]
    fact = present(memory.scope(user="ada").get("name"))
    assert fact.origin.door == "abl"


# --- undeclared paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "place", "key"),
    [
        ("user.found", {"user": "ada"}, "found"),
        ("project.found", {"project": "pier"}, "found"),
        ("workflow.found", {"tree": "case"}, "found"),
        ("shelf.found", {"user": "ada"}, "shelf.found"),
    ],
)
def test_a_path_that_is_only_stored_to_is_declared_by_that(
    load: Load, memory: Memory, path: str, place: dict[str, str], key: str
) -> None:
    agent = load(
        f"""
        MEMORY:
          remember:
            - WHEN: found IS SET
              STORE: found -> {path}
        FLOW:
          one:
            REASONING: false
            ON_INPUT:
              - IF: input == "show"
                RESPOND: "{{{{{path}}}}}"
              - IF: input == "set"
                SET: {path} = "set"
              - ELSE:
                SET: found = input
        """
    )
    session = agent.start(user="ada", project="pier", tree="case")
    session.say("treasure")
    assert memory.scope(**place).value(key) == "treasure"
    assert session.say("show").messages == ["treasure"]
    session.say("set")
    assert memory.scope(**place).value(key) == "set"


def test_a_path_that_is_only_recalled_is_declared_by_that(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").set("desk", "north")
    recall = "MEMORY:\n  recall:\n    - ON: session:start\n      PATHS: [user.desk]\n"
    show = 'FLOW:\n  one:\n    REASONING: false\n    RESPOND: "{{user.desk}}"\n    SET: user.desk = "south"\n'
    agent = load(recall + show)
    assert [one.code for one in agent.diagnostics] == ["undeclared_path"]
    assert agent.start(user="ada").opening.messages == ["north"]
    assert memory.scope(user="ada").value("desk") == "south"


def test_a_path_that_is_only_read_is_read_from_the_fact(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").set("desk", "north")
    agent = load('FLOW:\n  one:\n    REASONING: false\n    RESPOND: "[{{user.desk}}] [{{user.nothing}}]"\n')
    assert agent.start(user="ada").opening.messages == ["[north] []"]
    assert agent.start(user="bo").opening.messages == ["[] []"]


def test_a_path_that_is_only_set_belongs_to_the_session(load: Load, memory: Memory) -> None:
    text = 'FLOW:\n  one:\n    REASONING: false\n    SET: user.desk = "south"\n    RESPOND: "{{user.desk}}"\n'
    assert load(text).start(user="ada").opening.messages == ["south"]
    assert memory.scope(user="ada").get("desk") is None
    load("MEMORY:\n  persistent:\n    - user.desk\n" + text).start(user="ada")
    assert memory.scope(user="ada").value("desk") == "south"
