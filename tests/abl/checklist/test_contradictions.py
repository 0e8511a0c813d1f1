"""Where the language can be read in two ways: one test for each reading that was chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda.abl import Agent, Behaviour
from memoranda.abl.agent import start_fixture
from memoranda.api.memory import Memory
from memoranda.errors import SourceError
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import present

Load = Callable[..., Agent]
LISTEN = """
FLOW:
  listen:
    REASONING: false
    ON_INPUT:
      - ELSE:
"""


def codes(agent: Agent) -> list[str]:
    return [one.code for one in agent.diagnostics]


def faults(load: Load, text: str) -> list[str]:
    """Return the codes of what keeps a text from being loaded."""
    with pytest.raises(SourceError) as caught:
        load(text)
    return [one.code for one in caught.value.diagnostics if one.severity == "error"]


def recalled(turn: Any) -> list[str]:
    return [one.about for one in turn.trace if one.kind == "recalled"]


@pytest.mark.parametrize(
    ("properties", "does"),
    [
        ('INSTRUCTION: "Be kind"', "an instruction for the model"),
        ("PATHS: [user.name]", "user.name"),
        ('DOMAIN: "profile"', "profile"),
        ("PATHS: [user.name]\n      DOMAIN: profile", "user.name"),
        ('INSTRUCTION: "Be kind"\n      PATHS: [user.name]', "an instruction for the model"),
        ("ACTION: inject_context\n      PATHS: [user.name]", "user.name"),
        ('ACTION: load_memory\n      DOMAIN: "profile"', "profile"),
        ('ACTION: prompt_llm\n      INSTRUCTION: "Be kind"', "an instruction for the model"),
        ('ACTION: inject_context\n      PATHS: [user.name]\n      INSTRUCTION: "Be kind"', "user.name"),
    ],
)
def test_01_neither_the_action_nor_the_instruction_of_a_recall_is_required(
    load: Load, properties: str, does: str
) -> None:
    agent = load(f"MEMORY:\n  recall:\n    - ON: session:start\n      {properties}\n{LISTEN}")
    assert recalled(agent.start(user="ada").opening) == [does]


@pytest.mark.parametrize("properties", ["", "\n      ACTION: prompt_llm", "\n      ACTION: inject_context"])
def test_01_a_recall_that_says_nothing_is_a_fault(load: Load, properties: str) -> None:
    text = f"MEMORY:\n  recall:\n    - ON: session:start{properties}\n"
    assert faults(load, text + LISTEN) == ["recall_needs"]
    assert load(text + '      INSTRUCTION: "Be kind"\n      PATHS: [user.name]\n' + LISTEN).name == "Clerk"


@pytest.mark.parametrize("reset", ["per_session", "per_step", "never", "per_activation"])
def test_02_there_are_four_ways_to_reset(load: Load, reset: str) -> None:
    text = f"MEMORY:\n  session:\n    - seen\n      INITIAL: 5\n      RESET: {reset}\n{LISTEN}"
    assert load(text).start(project=f"contradiction-2-{reset}").vars["seen"] == 5
    assert faults(load, text.replace(reset, "per_month")) == ["wrong_value"]


@pytest.mark.parametrize(
    ("path", "scope", "place"),
    [
        ("user.note", "user", {"user": "ada"}),
        ("project.note", "project", {"project": "pier"}),
        ("workflow.note", "execution_tree", {"tree": "case-7"}),
    ],
)
def test_03_there_are_three_scopes(load: Load, memory: Memory, path: str, scope: str, place: dict[str, str]) -> None:
    agent = load(
        f"""
        MEMORY:
          persistent:
            - {path}
              SCOPE: {scope}
        FLOW:
          keep:
            REASONING: false
            SET: {path} = "kept"
            ON_INPUT:
              - ELSE:
        """
    )
    agent.start(user="ada", project="pier", tree="case-7")
    assert memory.scope(**place).value("note") == "kept"
    places = [{"user": "ada"}, {"project": "pier"}, {"tree": "case-7"}]
    assert [memory.scope(**one).get("note") is not None for one in places].count(True) == 1


@pytest.mark.parametrize(
    ("path", "scope", "place", "key"),
    [
        ("user.note", "project", {"project": "pier"}, "note"),
        ("project.note", "user", {"user": "ada"}, "note"),
        ("workflow.note", "project", {"project": "pier"}, "note"),
        ("project.note", None, {"project": "pier"}, "note"),
        ("workflow.note", None, {"tree": "case-7"}, "note"),
        ("shelf.note", None, {"user": "ada"}, "shelf.note"),
        ("shelf.note", "project", {"project": "pier"}, "shelf.note"),
    ],
)
def test_04_what_is_said_beats_how_a_path_begins_and_that_beats_the_user(
    load: Load, memory: Memory, path: str, scope: str | None, place: dict[str, str], key: str
) -> None:
    said = f"\n              SCOPE: {scope}" if scope else ""
    agent = load(
        f"""
        MEMORY:
          persistent:
            - {path}{said}
        FLOW:
          keep:
            REASONING: false
            SET: {path} = "kept"
            RESPOND: "{{{{{path}}}}}"
        """
    )
    assert agent.start(user="ada", project="pier", tree="case-7").opening.messages == ["kept"]
    assert memory.scope(**place).value(key) == "kept"
    places = [{"user": "ada"}, {"project": "pier"}, {"tree": "case-7"}]
    assert sum(len(memory.scope(**one).list()) for one in places) == 1


@pytest.mark.parametrize(
    "event",
    [
        "session:start",
        "session:end",
        "tool:look:after",
        "tool:*:after",
        "agent:Clerk:before",
        "agent:*:before",
        "agent:Clerk:after",
        "agent:*:after",
        "entity:town:extracted",
        "step:enter:ask",
        "step:exit:ask",
        "search:before",
    ],
)
def test_05_every_event_is_known_and_only_one_is_deprecated(load: Load, event: str) -> None:
    agent = load(
        f"""
        MEMORY:
          persistent:
            - user.name
          recall:
            - ON: {event}
              PATHS: [user.name]
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - town: required
            CALL: look
            CALL: search
        """,
        tools={"look": lambda: 1, "search": lambda: 2},
    )
    assert ("deprecated" in codes(agent)) is (event == "search:before")
    session = agent.start(user="ada")
    turns = [session.opening, session.say("Porto"), session.end()]
    fired = [one.detail["on"] for turn in turns for one in turn.trace if one.kind == "recalled"]
    expected = {"tool:*:after": ["tool:look:after", "tool:search:after"]}.get(event, [event.replace("*", "Clerk")])
    assert fired == expected


@pytest.mark.parametrize("event", ["tool:look:before", "ON_START", "session_start", "session:begin"])
def test_05_other_events_are_refused(load: Load, event: str) -> None:
    text = f"MEMORY:\n  recall:\n    - ON: {event}\n      PATHS: [user.name]\n{LISTEN}"
    assert faults(load, text) in (["unknown_event"], ["retired"])
    assert load(text.replace(event, "session:start")).name == "Clerk"


def test_06_paths_are_loaded_by_both_actions(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").set("name", "Ada")
    for action in ("inject_context", "load_memory"):
        text = (
            f"MEMORY:\n  recall:\n    - ON: session:start\n      ACTION: {action}\n      PATHS: [user.name]\n{LISTEN}"
        )
        assert load(text).start(user="ada").vars["user"] == {"name": "Ada"}
    assert "user" not in load(LISTEN).start(user="ada").vars


def test_07_set_persists_only_at_declared_paths(load: Load, memory: Memory) -> None:
    agent = load(
        """
        MEMORY:
          persistent:
            - user.kept
        FLOW:
          keep:
            REASONING: false
            SET:
              - user.kept = 1
              - user.passing = 2
              - passing = 3
            RESPOND: "{{user.kept}}{{user.passing}}{{passing}}"
            ON_INPUT:
              - ELSE:
        """
    )
    assert agent.start(user="ada").opening.messages == ["123"]
    assert [(fact.key, fact.value) for fact in memory.scope(user="ada").list()] == [("kept", 1)]
    assert any("user.passing" in one.message for one in agent.diagnostics if one.code == "undeclared_path")


def test_08_paths_are_bare_in_expressions_and_in_braces_in_texts(load: Load, memory: Memory) -> None:
    memory.scope(user="ada").set("name", "Ada")
    agent = load(
        """
        MEMORY:
          persistent:
            - user.name
        FLOW:
          greet:
            REASONING: false
            SET:
              - bare = COALESCE(user.name, "nobody")
              - text = "Dear {{user.name}}"
              - plain = "Dear user.name"
            RESPOND: "{{bare}} / {{text}} / {{plain}} / user.name / {{user.name}}"
        """
    )
    assert agent.start(user="ada").opening.messages == ["Ada / Dear Ada / Dear user.name / user.name / Ada"]


def test_09_recall_stores_nothing(load: Load, memory: Memory) -> None:
    text = """
MEMORY:
  persistent:
    - user.name
      DEFAULT: "friend"
  recall:
    - ON: session:start
      PATHS: [user.name]
"""
    session = start_fixture(load(text + LISTEN), user="ada", vars={"typed": "Ada"})
    assert session.vars["user"] == {"name": "friend"}
    session.say("hello")
    assert memory.scope(user="ada").list() == []
    remember = "  remember:\n    - WHEN: typed IS SET\n      STORE: typed -> user.name\n"
    start_fixture(load(text + remember + LISTEN), user="ada", vars={"typed": "Ada"})
    assert memory.scope(user="ada").value("name") == "Ada"


def test_10_only_never_survives_the_session(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - short
              INITIAL: 0
            - long
              INITIAL: 0
              RESET: never
        FLOW:
          count:
            REASONING: false
            SET:
              - short = short + 1
              - long = long + 1
            RESPOND: "{{short}} {{long}}"
            ON_INPUT:
              - ELSE:
        """
    )
    first = agent.start(project="contradiction-10")
    assert first.opening.messages == ["1 1"]
    first.end()
    assert agent.start(project="contradiction-10").opening.messages == ["1 2"]


def test_11_a_cleared_variable_is_undefined_until_the_next_reset(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - tries
              INITIAL: 3
              RESET: per_step
            - whole
              INITIAL: 3
        FLOW:
          one:
            REASONING: false
            CLEAR: [tries, whole]
            RESPOND: "[{{tries}}] [{{whole}}]"
            THEN: two
          two:
            REASONING: false
            RESPOND: "[{{tries}}] [{{whole}}]"
        """
    )
    assert agent.start().opening.messages == ["[] []", "[3] []"]
    assert agent.start().opening.messages == ["[] []", "[3] []"]


@pytest.mark.parametrize("word", ["DEFAULT", "DEFAULT_VALUE"])
def test_12_both_words_for_a_default_are_read(load: Load, word: str) -> None:
    agent = load(
        f"""
        MEMORY:
          persistent:
            - user.contact_by
              {word}: "letter"
        FLOW:
          show:
            REASONING: false
            RESPOND: "by {{{{user.contact_by}}}}, {{{{user.other}}}}"
        """
    )
    assert agent.start(user="ada").opening.messages == ["by letter, "]


def test_13_on_fail_may_be_left_out_and_something_is_said(load: Load) -> None:
    rule = "CONSTRAINTS:\n  always:\n    - REQUIRE ready == true\n"
    agent = load(rule + LISTEN)
    assert "no_on_fail" in codes(agent)
    assert len(agent.start().say("go").messages) == 1
    answered = load(rule + '      ON_FAIL: "Not yet."\n' + LISTEN)
    assert "no_on_fail" not in codes(answered)
    assert answered.start().say("go").messages == ["Not yet."]
    assert start_fixture(agent, vars={"ready": True}).say("go").messages == []


def test_14_on_fail_is_a_step_a_block_or_an_answer_by_where_it_stands(load: Load) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    agent = load(
        """
        CONSTRAINTS:
          always:
            - REQUIRE ready == true BEFORE calling guarded
              ON_FAIL: "other"
        FLOW:
          start:
            REASONING: false
            CHECK: wants != "check"
            ON_FAIL: other
            THEN: call
          call:
            REASONING: false
            WHEN: wants == "call"
            CALL: fail
            ON_FAIL:
              RESPOND: "The call failed."
              THEN: COMPLETE
            THEN: guard
          guard:
            REASONING: false
            CALL: guarded
            ON_FAIL: other
          other:
            REASONING: false
            RESPOND: "The other step."
        """,
        tools={"fail": fail, "guarded": lambda: None},
    )
    assert start_fixture(agent, vars={"wants": "check"}).opening.messages == ["The other step."]
    assert start_fixture(agent, vars={"wants": "call"}).opening.messages == ["The call failed."]
    assert start_fixture(agent, vars={"wants": "rule"}).opening.messages == ["other"]


def test_14_one_step_named_beside_a_call_and_a_check_serves_both(load: Load) -> None:
    def look(works: bool) -> int:
        if not works:
            raise RuntimeError("broken")
        return 1

    agent = load(
        """
        FLOW:
          start:
            REASONING: false
            CALL: look(works)
            CHECK: enough == true
            ON_FAIL: other
            RESPOND: "Done."
          other:
            REASONING: false
            RESPOND: "The other step."
        """,
        tools={"look": look},
    )
    assert start_fixture(agent, vars={"works": False, "enough": True}).opening.messages == ["The other step."]
    assert start_fixture(agent, vars={"works": True, "enough": False}).opening.messages == ["The other step."]
    assert start_fixture(agent, vars={"works": True, "enough": True}).opening.messages == ["Done."]


@pytest.mark.parametrize(
    ("keyword", "stops", "warns"),
    [("REQUIRE", True, False), ("LIMIT", True, False), ("RESTRICT", False, False), ("WARN", False, True)],
)
def test_15_there_are_four_keywords_for_rules(load: Load, keyword: str, stops: bool, warns: bool) -> None:
    text = f'CONSTRAINTS:\n  always:\n    - {keyword} open == 1\n      ON_FAIL: "no"\n{LISTEN}'
    broken = start_fixture(load(text), vars={"open": 2}).say("go")
    assert (broken.messages == ["no"]) is stops
    assert ([one.about for one in broken.events if one.kind == "warning"] == ["no"]) is warns
    held = start_fixture(load(text), vars={"open": 1}).say("go")
    assert (held.messages == ["no"]) is (keyword == "RESTRICT")
    assert [one.about for one in held.events if one.kind == "warning"] == []


def test_16_a_rule_before_something_else_is_inert_and_that_is_said_aloud(load: Load) -> None:
    text = 'CONSTRAINTS:\n  always:\n    - REQUIRE ready == true BEFORE dinner\n      ON_FAIL: "no"\n'
    inert = load(text + LISTEN)
    assert [(one.code, one.severity) for one in inert.diagnostics] == [("inert_rule", "warning")]
    assert inert.start().say("go").messages == []
    assert load(text.replace(" BEFORE dinner", "") + LISTEN).start().say("go").messages == ["no"]


def test_17_else_without_then_stays_and_waits(load: Load) -> None:
    agent = load(
        """
        FLOW:
          ask:
            REASONING: false
            RESPOND: "Yes or no?"
            ON_INPUT:
              - IF: input == "yes"
                THEN: done
              - ELSE:
                RESPOND: "Pardon?"
          done:
            REASONING: false
            RESPOND: "Done."
        """
    )
    session = agent.start()
    for _ in range(3):
        turn = session.say("maybe")
        assert (turn.messages, turn.step, turn.status) == (["Pardon?"], "ask", "waiting")
    assert session.say("yes").messages == ["Done."]


def test_18_now_is_the_moment_with_and_without_parentheses(load: Load, clock: FakeClock) -> None:
    agent = load(
        """
        FLOW:
          show:
            REASONING: false
            SET:
              - word = now
              - call = NOW()
              - small = abl.now()
            ON_INPUT:
              - ELSE:
        """
    )
    first = agent.start().vars
    assert first["word"] == first["call"] == first["small"]
    clock.advance(60)
    later = agent.start().vars
    assert later["word"] == later["call"] > first["word"]


@pytest.mark.parametrize("test", ["abl.is_number(input)", "IS_NUMBER(input)", "input is_number"])
def test_19_there_are_three_ways_to_ask_for_a_number(load: Load, test: str) -> None:
    agent = load(
        f"""
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - IF: {test}
                RESPOND: "number"
              - ELSE:
                RESPOND: "text"
        """
    )
    session = agent.start()
    said = {words: session.say(words).messages for words in ("2", "2.5", "-3", "two", "2 apples", "")}
    assert [words for words, messages in said.items() if messages == ["number"]] == ["2", "2.5", "-3"]


def test_20_a_result_has_several_names(load: Load) -> None:
    agent = load(
        """
        FLOW:
          look:
            REASONING: false
            CALL: look
              AS: found
            SET: same = found == call_result AND found == result AND found == last_look_result
            RESPOND: "{{found.town}} {{call_result.town}} {{result.town}} {{last_look_result.town}} {{town}} {{same}}"
        """,
        tools={"look": lambda: {"town": "Porto"}},
    )
    assert agent.start().opening.messages == ["Porto Porto Porto Porto Porto true"]


def test_20_a_field_of_a_result_does_not_replace_a_variable_of_another_type(load: Load) -> None:
    text = """
MEMORY:
  session:
    - count
      TYPE: number
      INITIAL: 1
    - name
      TYPE: string
FLOW:
  look:
    REASONING: false
    SET: mine = "mine"
    CALL: look
    RESPOND: "{{count}} {{name}} {{mine}} {{other}}"
"""
    result = {"count": "many", "name": "Porto", "mine": "theirs", "other": "new"}
    tools = {"look": lambda: result}
    assert load(text, tools=tools).start().opening.messages == ["1 Porto mine new"]
    closed = load(text, tools=tools, behaviour=Behaviour(results_become_variables=False))
    assert closed.start().opening.messages == ["1  mine "]


@pytest.mark.parametrize(
    "head",
    [
        "TRANSFORM:\n      SOURCE: ships AS ship\n      INTO: cheap",
        "TRANSFORM:\n      SOURCE: ships\n      AS: ship\n      INTO: cheap",
        "TRANSFORM: ships AS ship INTO cheap",
    ],
)
def test_21_a_transform_is_written_in_three_ways(load: Load, head: str) -> None:
    step = f"FLOW:\n  work:\n    REASONING: false\n    {head}\n      FILTER: ship.fare < 50\n"
    session = start_fixture(load(step + "    ON_INPUT:\n      - ELSE:\n"), vars={"ships": [{"fare": 40}, {"fare": 60}]})
    assert session.vars["cheap"] == [{"fare": 40}]


def test_22_a_step_runs_in_the_order_it_is_written(load: Load) -> None:
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            SET: a = 1
            RESPOND: "first {{a}}{{call_result}}"
            CALL: look(a)
            RESPOND: "second {{call_result}}"
            SET: a = 2
            CHECK: a == 2
            ON_FAIL: other
            GATHER:
              - town: required
            RESPOND: "third {{a}} {{town}}"
            ON_INPUT:
              - ELSE:
                RESPOND: "fourth"
            THEN: other
          other:
            REASONING: false
            RESPOND: "other"
        """,
        tools={"look": lambda a: a + 10},
    )
    session = agent.start()
    assert session.opening.messages[:2] == ["first 1", "second 11"]
    assert session.say("Porto").messages == ["third 2 Porto", "fourth"]


APPEND = """
MEMORY:
  persistent:
    - user.visits{declared}
  remember:
    - WHEN: town IS SET
      STORE: town -> user.visits
FLOW:
  ask:
    REASONING: false
    ON_INPUT:
      - ELSE:
        SET: town = {value}
"""
ARRAY = "\n      TYPE: array"


@pytest.mark.parametrize(
    ("declared", "value", "before", "option", "after"),
    [
        (ARRAY, "input", None, "append", ["Rome", "Oslo"]),
        (ARRAY, "input", ["Kiel"], "append", ["Kiel", "Rome", "Oslo"]),
        ("", "input", ["Kiel"], "append", ["Kiel", "Rome", "Oslo"]),
        ("", "input", None, "append", "Oslo"),
        ("", "input", "Kiel", "append", "Oslo"),
        (ARRAY, "[input]", ["Kiel"], "append", ["Oslo"]),
        (ARRAY, "input", ["Kiel"], "replace", "Oslo"),
        ("", "input", ["Kiel"], "replace", "Oslo"),
    ],
)
def test_23_one_value_is_appended_to_an_array_and_replaces_anything_else(
    load: Load, memory: Memory, declared: str, value: str, before: Any, option: Any, after: Any
) -> None:
    if before is not None:
        memory.scope(user="ada").set("visits", before)
    text = APPEND.replace("{declared}", declared).replace("{value}", value)
    session = load(text, behaviour=Behaviour(store_to_array=option)).start(user="ada")
    session.say("Rome")
    session.say("Oslo")
    assert memory.scope(user="ada").value("visits") == after


@pytest.mark.parametrize(("option", "versions"), [("changes", [0, 1, 1, 2, 2, 3]), ("every_turn", [0, 1, 2, 3, 3, 4])])
def test_24_a_trigger_stores_when_its_condition_becomes_true_or_its_value_changes(
    load: Load, memory: Memory, option: Any, versions: list[int]
) -> None:
    agent = load(
        """
        MEMORY:
          remember:
            - WHEN: town IS SET
              STORE: town -> user.town
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - IF: input == "nothing"
              - IF: input == "forget"
                CLEAR: [town]
              - ELSE:
                SET: town = input
        """,
        behaviour=Behaviour(remember=option),
    )
    session = agent.start(user="ada")
    seen: list[int] = []
    for words in ("nothing", "Rome", "Rome", "Oslo", "forget", "Oslo"):
        session.say(words)
        fact = memory.scope(user="ada").get("town")
        seen.append(fact.version if fact else 0)
    assert seen == versions


def test_24_a_moment_in_the_value_is_no_change_of_it(load: Load, memory: Memory, clock: FakeClock) -> None:
    agent = load(
        """
        MEMORY:
          remember:
            - WHEN: town IS SET
              STORE: {town: town, at: now} -> user.visits
              TTL: 1h
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - IF: input == "nothing"
              - ELSE:
                SET: town = input
        """
    )
    session = agent.start(user="ada")
    session.say("Rome")
    first = present(memory.scope(user="ada").get("visits"))
    clock.advance(60)
    session.say("nothing")
    assert memory.scope(user="ada").get("visits") == first
    session.say("Oslo")
    second = present(memory.scope(user="ada").get("visits"))
    assert (second.value["town"], second.version) == ("Oslo", 2)
    assert second.value["at"] > first.value["at"]
    assert present(second.expires_at) > present(first.expires_at)


def test_25_a_fact_belongs_to_a_domain_by_its_tag_or_by_how_its_path_begins(load: Load, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    ada.set("seat", "window", domain="travel")
    ada.set("travel.pace", "slow")
    ada.set("travel", {"whole": 1})
    ada.set("traveller", "no")
    ada.set("food.travel", "no")
    ada.set("diet", "no", domain="food")
    memory.scope(project="pier").set("travel.season", "spring")
    memory.scope(user="bo").set("travel.pace", "fast")
    text = f"MEMORY:\n  recall:\n    - ON: session:start\n      DOMAIN: travel\n{LISTEN}"
    session = load(text).start(user="ada", project="pier")
    loaded = {name: session.vars[name] for name in ("user", "project")}
    assert loaded == {
        "user": {"seat": "window", "travel": {"whole": 1, "pace": "slow"}},
        "project": {"travel": {"season": "spring"}},
    }


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("missing != null", False),
        ("there != null", True),
        ("missing != 1", True),
        ("there != 1", False),
        ("missing == null", True),
        ("missing == undefined", True),
        ("NOT there == 2", True),
        ("NOT there == 1", False),
        ("(NOT there) == false", True),
        ("NOT missing == null", False),
    ],
)
def test_26_unequal_is_the_opposite_of_equal_and_not_negates_the_comparison(
    load: Load, condition: str, holds: bool
) -> None:
    agent = load(
        f"""
        FLOW:
          test:
            REASONING: false
            CHECK: {condition}
            ON_FAIL: no
            RESPOND: "holds"
          no:
            REASONING: false
            RESPOND: "does not"
        """
    )
    assert start_fixture(agent, vars={"there": 1}).opening.messages == ["holds" if holds else "does not"]
    assert memoranda.abl.evaluate(condition, {"there": 1}) is holds
    assert ("not_over_comparison" in codes(agent)) is condition.startswith("NOT ")


def test_27_keywords_are_written_in_capitals_and_read_in_any_case(load: Load) -> None:
    text = """
MEMORY:
  session:
    - tries
      TYPE: number
      INITIAL: 2
FLOW:
  show:
    REASONING: false
    SET: more = tries + 1
    RESPOND: "{{more}}"
"""
    usual = load(text)
    assert [one.code for one in usual.diagnostics] == []
    assert usual.start().opening.messages == ["3"]
    small = text
    for word in ("TYPE", "INITIAL", "REASONING", "SET", "RESPOND", "FLOW", "MEMORY"):
        small = small.replace(f"{word}:", f"{word.lower()}:")
    odd = load(small)
    assert set(codes(odd)) == {"keyword_case"}
    assert len(codes(odd)) == 7
    assert odd.start().opening.messages == ["3"]
    assert load(text.replace("session:", "SESSION:")).start().opening.messages == ["3"]
