"""Sessions are saved after each turn, resume where they left off, run one turn at a time, and go when they end."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Memory
from memoranda.abl import Behaviour
from memoranda.testing import FakeClock

FORM = """
    MEMORY:
      session:
        - town
          TYPE: string
        - visits
          TYPE: number
          INITIAL: 0
      persistent:
        - user.town
      remember:
        - WHEN: town IS SET
          STORE: town -> user.town
    FLOW:
      ask:
        REASONING: false
        SET: visits = visits + 1
        GATHER:
          - town:
            prompt: "Which town?"
          - street:
            prompt: "Which street?"
        RESPOND: "{{street}} in {{town}}, visit {{visits}}."
        CLEAR: [town, street]
        THEN: more
      more:
        REASONING: false
        RESPOND: "More?"
        ON_INPUT:
          - IF: input == "yes"
            THEN: ask
          - ELSE:
            RESPOND: "Goodbye."
            THEN: COMPLETE
"""

OPEN_FORM = FORM.replace(
    "- town\n          TYPE: string\n", "- town\n          TYPE: string\n          INPUT: true\n", 1
)
OPEN_FORM = OPEN_FORM.replace(
    "      persistent:\n",
    "".join(f"        - {name}\n          INPUT: true\n" for name in ("street", "begun", "later", "box", "thing"))
    + "      persistent:\n",
)
"""The same, with variables that the program may set."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


@pytest.fixture
def on_disk(path: str) -> Iterator[Memory]:
    with memoranda.open(path) as memory:
        yield memory


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_variables_are_facts_of_the_session_s_scope(load: Any, memory: Memory):
    session = load(FORM).start(user="ada")
    session.say("Porto")
    facts = {fact.key: fact.value for fact in memory.scope(session=session.id).list()}
    assert (facts["town"], facts["visits"]) == ("Porto", 1)
    session.say("Rua Nova")
    facts = {fact.key: fact.value for fact in memory.scope(session=session.id).list()}
    assert "town" not in facts and facts["visits"] == 1


def test_every_turn_is_one_change_of_the_session_and_one_batch(load: Any, memory: Memory):
    session = load(FORM).start(user="ada")
    before = memory.ledger.tail(1)[0].position
    session.say("Porto")
    events = memory.ledger.events(start=before + 1)
    assert {event.effect for event in events} == {"set_fact"}
    assert {event.key for event in events} == {"town", "abl.session"}
    assert len({event.at for event in events}) == 1


def test_what_went_in_and_came_out_of_each_turn_can_be_read_afterwards(load: Any):
    session = load(FORM).start(user="ada")
    session.say("Porto")
    session.say("Rua Nova")
    assert [(turn.input, turn.messages) for turn in session.turns()] == [
        (None, ["Which town?"]),
        ("Porto", ["Which street?"]),
        ("Rua Nova", ["Rua Nova in Porto, visit 1.", "More?"]),
    ]


def test_the_program_may_give_variables_and_take_them_away(load: Any, memory: Memory):
    session = load(OPEN_FORM).start(user="ada", vars={"town": "Faro"})
    assert session.opening.messages == ["Which street?"]
    del session.vars["town"]
    session.vars["street"] = "Rua Nova"
    assert memory.scope(session=session.id).value("street") == "Rua Nova"
    assert memory.scope(session=session.id).get("town") is None
    assert session.say("hm").messages == ["Which town?"]
    assert session.say("Porto").messages[0] == "Rua Nova in Porto, visit 1."


def test_what_the_program_does_to_its_own_values_later_does_not_reach_the_session(load: Any, memory: Memory):
    begun, later = ["a"], {"list": ["a"]}
    session = load(OPEN_FORM).start(user="ada", vars={"begun": begun})
    session.vars["later"] = later
    begun.append("b")
    later["list"].append("b")
    session.say("Porto")
    assert (session.vars["begun"], session.vars["later"]) == (["a"], {"list": ["a"]})
    resumed = memoranda.abl.resume(memory, session.id)
    assert (resumed.vars["begun"], resumed.vars["later"]) == (["a"], {"list": ["a"]})


def test_what_is_changed_inside_of_a_variable_that_was_read_changes_nothing(load: Any, memory: Memory):
    session = load(OPEN_FORM).start(vars={"box": {"items": ["a"]}})
    session.vars["box"]["items"].append("b")
    assert session.vars["box"] == {"items": ["a"]}
    session.vars["box"] = {"items": ["a", "b"]}
    assert session.vars["box"] == memoranda.abl.resume(memory, session.id).vars["box"] == {"items": ["a", "b"]}


def test_the_state_of_a_session_does_not_grow_with_its_warnings(load: Any, memory: Memory):
    session = load("""
        CONSTRAINTS:
          rules:
            - WARN calm == true
              ON_FAIL: "Careful with {{input}}"
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - ELSE:
                RESPOND: "{{_constraint_warnings.length}}"
        """).start()
    heard = [session.say(f"word {number}").messages[0] for number in range(60)]
    assert heard[:3] == ["1", "2", "3"] and heard[-1] == heard[-2] == "50"
    assert "word 59" in str(memory.scope(session=session.id).value("abl.session"))


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), "\ud800", b"bytes", [[object()]]])
def test_a_value_that_cannot_be_kept_is_refused_when_it_is_given(load: Any, value: Any):
    agent = load(OPEN_FORM)
    with pytest.raises(memoranda.UsageError):
        agent.start(user="ada", vars={"thing": value})
    session = agent.start(user="ada", vars={"thing": "fine"})
    with pytest.raises(memoranda.UsageError):
        session.vars["thing"] = value
    assert session.vars["thing"] == "fine"
    assert session.say("Porto").messages == ["Which street?"]


@pytest.mark.parametrize("name", ["", "a b", "user_id", "input", "_hidden", "last_look_result", 7, None, "a.b"])
def test_a_name_that_no_variable_can_have_is_refused(load: Any, name: Any):
    agent = load(OPEN_FORM)
    with pytest.raises(memoranda.UsageError):
        agent.start(vars={name: 1})
    session = agent.start()
    with pytest.raises(memoranda.UsageError):
        session.vars[name] = 1
    session.vars["thing"] = 1
    assert session.vars["thing"] == 1


def test_null_takes_a_variable_away(load: Any, memory: Memory):
    session = load(OPEN_FORM).start(vars={"thing": 1})
    session.vars["thing"] = None
    session.vars["later"] = None
    resumed = memoranda.abl.resume(memory, session.id)
    for one in (session, resumed):
        assert (one.vars["thing"], one.vars["later"]) == (None, None)
    assert memory.scope(session=session.id).get("thing") is None
    assert session.vars["visits"] == resumed.vars["visits"] == 1


def test_words_that_are_no_text_or_too_many_are_refused_and_change_nothing(load: Any):
    session = load(FORM, behaviour=Behaviour(input_characters=10)).start()
    with pytest.raises(memoranda.UsageError):
        session.say(7)
    with pytest.raises(memoranda.LimitExceeded) as caught:
        session.say("x" * 11)
    assert (caught.value.details["limit"], caught.value.details["actual"]) == (10, 11)
    turn = session.say("x" * 10)
    assert (turn.number, turn.messages) == (1, ["Which street?"])


def test_the_program_says_on_which_channel_and_in_which_language_it_speaks(load: Any, memory: Memory):
    agent = load("""
        LANGUAGE: "en"
        MEMORY:
          session:
            - channel
              INPUT: true
            - language
              INPUT: true
        FLOW:
          ask:
            REASONING: false
            RESPOND: "{{channel}} {{language}}"
            ON_INPUT:
              - ELSE:
                RESPOND: "{{channel}} {{language}}"
        """)
    session = agent.start(vars={"channel": "voice", "language": "pt"})
    assert session.opening.messages == ["voice pt"]
    session.vars["channel"] = "mail"
    assert session.say("hm").messages == ["mail pt"]
    assert memoranda.abl.resume(memory, session.id).say("hm").messages == ["mail pt"]
    assert agent.start(vars={"channel": "voice"}).opening.messages == ["voice en"]
    for name in ("user_id", "input", "_mine", "call_result"):
        with pytest.raises(memoranda.UsageError):
            agent.start(vars={name: "x"})
        with pytest.raises(memoranda.UsageError):
            session.vars[name] = "x"


def test_a_session_that_rests_goes_on_as_if_it_had_not(load: Any):
    agent = load(OPEN_FORM, behaviour=Behaviour(awake=1))
    ada, bob = agent.start(user="ada"), agent.start(user="bob")
    assert (ada._frames, len(bob._frames)) == ([], 1)  # the one that had no turn for longest has let go
    assert ada.say("Porto").messages == ["Which street?"]
    assert (len(ada._frames), bob._frames) == (1, [])
    assert bob.say("Rome").messages == ["Which street?"]
    assert (ada.status, ada.step, ada.agent, ada.vars["town"]) == ("waiting", "ask", "Desk", "Porto")
    assert (ada.opening.messages, ada.user) == (["Which town?"], "ada")
    ada.vars["town"] = "Lisbon"
    assert ada.say("Rua Nova").messages[0] == "Rua Nova in Lisbon, visit 1."
    assert bob.say("Via Appia").messages[0] == "Via Appia in Rome, visit 1."


# --- resumed --------------------------------------------------------------------------------------------------------


def test_a_session_is_resumed_where_it_stands(load: Any, memory: Memory):
    agent = load(FORM)
    session = agent.start(user="ada", project="quay")
    session.say("Porto")
    for resumed in (memoranda.abl.resume(memory, session.id), agent.resume(session.id)):
        assert (resumed.id, resumed.user, resumed.project) == (session.id, "ada", "quay")
        assert (resumed.agent, resumed.step, resumed.status) == ("Desk", "ask", "waiting")
        assert dict(resumed.vars) == dict(session.vars)
        assert (resumed.opening.messages, resumed.opening.number) == (session.opening.messages, 0)
        assert len(resumed.opening.trace) == 0 < len(session.opening.trace)
    assert resumed.say("Rua Nova").messages[0] == "Rua Nova in Porto, visit 1."


def test_a_session_is_resumed_without_loading_its_agent_from_the_text_that_was_kept(
    path: str, write: Any, tmp_path: Path
):
    tools = {"look": lambda: {"beds": 3}}
    text = write("""
        FLOW:
          ask:
            REASONING: false
            RESPOND: "Look?"
            ON_INPUT:
              - ELSE:
                CALL: look()
                ON_SUCCESS:
                  RESPOND: "{{call_result.beds}} beds."
                ON_FAIL:
                  RESPOND: "No books here."
        """)
    with memoranda.open(path) as memory:
        session = memoranda.abl.load(text, memory=memory, tools=tools).start(user="ada")
        assert session.say("look").messages == ["3 beds."]
    with memoranda.open(path) as memory:
        assert memoranda.abl.resume(memory, session.id, tools=tools).say("look").messages == ["3 beds."]
    with memoranda.open(path) as memory:
        # Functions are not saved with the text: without them there is nothing to call.
        assert memoranda.abl.resume(memory, session.id).say("look").messages == ["No books here."]


def test_all_agents_of_a_session_are_found_by_the_texts_that_were_kept(path: str, write: Any):
    def side(name: str, other: str) -> str:
        return write(
            f"""
            HANDOFF:
              - TO: {other}
                WHEN: input == "swap"
            FLOW:
              only:
                REASONING: false
                RESPOND: "{name}."
                THEN: COMPLETE
            """,
            name=name,
        )

    with memoranda.open(path) as memory:
        right = memoranda.abl.load(side("Right", "Left"), memory=memory)
        session = memoranda.abl.load(side("Left", "Right"), memory=memory, agents=[right]).start(user="ada")
        session.say("x")
    with memoranda.open(path) as memory:
        resumed = memoranda.abl.resume(memory, session.id)
        for _ in range(3):
            assert resumed.say("x").status == "completed"
            resumed = memoranda.abl.resume(memory, session.id)


def test_the_agent_that_began_finds_the_others_after_it_handed_over_for_good(load: Any, memory: Memory):
    def side(name: str, other: str, **options: Any) -> Any:
        return load(
            f"""
            HANDOFF:
              - TO: {other}
                WHEN: input == "{other}"
            FLOW:
              only:
                REASONING: false
                RESPOND: "{name}."
                ON_INPUT:
                  - ELSE:
                    RESPOND: "{name} heard."
            """,
            name=name,
            **options,
        )

    session = side("Left", "Right", agents=[side("Right", "Left")]).start()
    assert session.say("Right").agent == "Right"
    turn = memoranda.abl.resume(memory, session.id).say("Left")
    assert (turn.agent, turn.messages[-1]) == ("Left", "Left.")


def test_an_agent_whose_text_is_not_kept_or_not_loaded_is_named(load: Any, memory: Memory):
    session = load(FORM).start()
    with memoranda.open(":memory:") as other:
        with pytest.raises(memoranda.NotFound, match=session.id):
            memoranda.abl.resume(other, session.id)
    memory.erase(agent="Desk")
    fresh = memory.through("other")
    with pytest.raises(memoranda.NotFound, match="Desk"):
        memoranda.abl.resume(fresh, session.id)
    assert memoranda.abl.resume(memory, session.id).step == "ask"


def test_an_edited_agent_goes_on_with_the_session_at_the_beginning_of_its_step(load: Any, memory: Memory):
    session = load(FORM).start(user="ada")
    session.say("Porto")
    edited = load(FORM.replace("Which street?", "And the street?"))
    resumed = edited.resume(session.id)
    assert resumed.vars["town"] == "Porto"
    # The question that these words answered is gone with the old text, so it is asked anew.
    assert resumed.say("Rua Nova").messages == ["And the street?"]
    assert resumed.say("Rua Nova").messages == ["Rua Nova in Porto, visit 2.", "More?"]


def test_an_edited_agent_that_has_no_such_step_begins_anew_with_what_is_known(load: Any, memory: Memory):
    session = load(FORM).start(user="ada")
    session.say("Porto")
    edited = load("""
        FLOW:
          other:
            REASONING: false
            RESPOND: "Another flow, {{town}}."
            ON_INPUT:
              - ELSE:
                RESPOND: "Heard {{input}}."
        """)
    resumed = edited.resume(session.id)
    assert resumed.say("hello").messages[0] == "Another flow, Porto."
    assert resumed.step == "other"


def test_an_edited_agent_may_be_resumed_at_any_point(load: Any, memory: Memory):
    said = ["Porto", "Rua Nova", "yes", "Faro", "Rua Velha", "no", "Lagos"]
    edited = [
        FORM.replace("visits + 1", "visits + 2"),
        FORM.replace("more:", "again:").replace("THEN: more", "THEN: again"),
        FORM.replace('          - street:\n            prompt: "Which street?"\n', ""),
        FORM + "    HOOKS:\n      before_turn:\n        SET: hooked = true\n",
    ]
    for place in range(len(said)):
        for text in edited:
            session = load(FORM).start(user="ada")
            for words in said[:place]:
                session.say(words)
            resumed = load(text).resume(session.id)
            for words in said[place:]:
                assert resumed.say(words).status in ("waiting", "completed")
            assert resumed.turns()[-1].input == "Lagos"


# --- one turn at a time ---------------------------------------------------------------------------------------------


def test_of_two_that_say_something_at_once_one_wins_and_nothing_of_the_other_is_kept(load: Any, memory: Memory):
    agent = load("""
        MEMORY:
          persistent:
            - user.set
            - user.kept
            - user.log
              TYPE: array
          remember:
            - WHEN: heard IS SET
              STORE: heard -> user.kept
            - WHEN: heard IS SET
              STORE: heard -> user.log
        FLOW:
          ask:
            REASONING: false
            RESPOND: "Yes?"
            ON_INPUT:
              - IF: input == "forget"
                CLEAR: [user.set]
                RESPOND: "Forgotten."
              - ELSE:
                SET:
                  - heard = input
                  - user.set = input
                RESPOND: "Heard {{input}}."
        """)
    one = agent.start(user="ada")
    two = agent.resume(one.id)
    assert one.say("first").messages == ["Heard first."]
    for words in ("second", "forget"):
        two = agent.resume(one.id)
        one.say("first")
        with pytest.raises(memoranda.Conflict) as caught:
            two.say(words)
        assert caught.value.details["actual"] == caught.value.details["expected"] + 1
        ada = memory.scope(user="ada")
        assert (ada.value("set"), ada.value("kept"), ada.value("log")) == ("first", "first", ["first"])
        assert memory.scope(session=one.id).value("heard") == "first"
    # The loser's handle reads the session again, and the same can be said once more.
    assert two.say("second").messages == ["Heard second."]
    assert memory.scope(user="ada").value("log") == ["first", "second"]
    assert [turn.input for turn in two.turns()] == [None, "first", "first", "first", "second"]


def test_many_threads_may_use_one_handle(load: Any, memory: Memory):
    session = load("""
        MEMORY:
          session:
            - count
              INITIAL: 0
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET: count = count + 1
                RESPOND: "{{count}}"
        """).start(user="ada")
    heard: list[str] = []

    def talk() -> None:
        for _ in range(10):
            heard.extend(session.say("x").messages)

    threads = [threading.Thread(target=talk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, heard)) == list(range(1, 41))
    assert memory.scope(session=session.id).value("count") == 40


def test_two_users_in_many_threads_never_see_each_other(on_disk: Memory, write: Any):
    agent = memoranda.abl.load(
        write("""
        MEMORY:
          session:
            - own
          persistent:
            - user.secret
            - user.log
              TYPE: array
            - workflow.secret
          remember:
            - WHEN: own IS SET
              STORE: own -> user.secret
            - WHEN: own IS SET
              STORE: own -> user.log
        FLOW:
          ask:
            REASONING: false
            RESPOND: "[{{user.secret}}][{{workflow.secret}}][{{own}}]"
            ON_INPUT:
              - IF: input == "show"
                RESPOND: "[{{user.secret}}][{{workflow.secret}}][{{own}}]"
              - ELSE:
                SET:
                  - own = input
                  - workflow.secret = input
                RESPOND: "ok"
        """),
        memory=on_disk,
    )
    problems: list[str] = []
    seen: list[int] = []

    def use(user: str, number: int) -> None:
        try:
            session = agent.start(user=user)
            mine = f"{user}-{number}"
            opening = session.opening.messages[0]
            session.say(mine)
            shown = session.say("show").messages[0]
            if user not in shown or not shown.endswith(f"[{mine}][{mine}]"):
                problems.append(shown)
            other = "bo" if user == "ada" else "ada"
            if other in opening or other in shown:
                problems.append(f"{user} saw {opening} {shown}")
            seen.append(number)
        except BaseException as error:  # pragma: no cover
            problems.append(repr(error))

    threads = [threading.Thread(target=use, args=(user, n)) for n in range(12) for user in ("ada", "bo")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(seen) == 24
    for user in ("ada", "bo"):
        log = on_disk.scope(user=user).value("log")
        assert sorted(log) == sorted(f"{user}-{n}" for n in range(12))


# --- the end --------------------------------------------------------------------------------------------------------


def test_an_ended_session_leaves_what_it_remembered_and_nothing_of_itself(load: Any, memory: Memory):
    session = load(FORM).start(user="ada")
    other = memoranda.abl.resume(memory, session.id)
    session.say("Porto")
    assert memory.scope(session=session.id).list()
    turn = session.end()
    assert [happening.kind for happening in turn.trace][-1] == "ended"
    assert memory.scope(session=session.id).list() == []
    assert memory.scope(user="ada").value("town") == "Porto"
    for use in (lambda: session.say("x"), session.end, lambda: session.vars.update(x=1)):
        with pytest.raises(memoranda.ScopeEnded):
            use()
    with pytest.raises(memoranda.NotFound, match="ended"):
        memoranda.abl.resume(memory, session.id)
    with pytest.raises((memoranda.ScopeEnded, memoranda.Conflict, memoranda.NotFound)):
        other.say("x")
    with pytest.raises(memoranda.ScopeEnded):
        load(FORM).start(id=session.id)
    assert load(FORM).start(user="ada").opening.messages == ["Which town?"]


def test_an_id_in_use_is_not_begun_a_second_time(load: Any, memory: Memory):
    agent = load(FORM)
    session = agent.start(user="ada", id="desk-1")
    session.say("Porto")
    with pytest.raises(memoranda.Conflict):
        agent.start(user="ada", id="desk-1")
    with pytest.raises(memoranda.UsageError):
        agent.start(user="bo", id="desk-1")
    assert memoranda.abl.resume(memory, "desk-1").vars["town"] == "Porto"
    assert agent.start(user="ada", id="desk-2").id == "desk-2"


def test_an_id_in_use_is_refused_before_any_tool_is_called(load: Any):
    called: list[int] = []
    agent = load(
        """
        ON_START:
          CALL: ring()
        FLOW:
          wait:
            REASONING: false
            GATHER: [town]
            THEN: COMPLETE
        """,
        tools={"ring": lambda: called.append(1)},
    )
    agent.start(user="ada", id="desk-1")
    with pytest.raises(memoranda.Conflict, match="the session `desk-1` already exists"):
        agent.start(user="ada", id="desk-1")
    assert called == [1]
    agent.start(user="ada", id="desk-2")
    assert called == [1, 1]


def test_erasing_a_user_takes_the_sessions_and_their_trees_along(load: Any, memory: Memory):
    text = """
        MEMORY:
          persistent:
            - user.name
            - workflow.case
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET:
                  - user.name = input
                  - workflow.case = input
                  - kept = input
                RESPOND: "Noted."
        """
    agent = load(text)
    ada, bo = agent.start(user="ada"), agent.start(user="bo")
    for session in (ada, bo):
        session.say(f"private of {session.user}")
    memory.erase(user="ada")
    for scope in ({"user": "ada"}, {"session": ada.id}, {"tree": ada.id}):
        assert memory.scope(**scope).list() == []
    for scope in ({"user": "bo"}, {"session": bo.id}, {"tree": bo.id}):
        assert memory.scope(**scope).list() != []
    with pytest.raises(memoranda.NotFound):
        memoranda.abl.resume(memory, ada.id)
    with pytest.raises(memoranda.ScopeEnded, match="was erased"):
        ada.say("still here")
    assert memory.scope(user="ada").list() == []
    assert bo.say("more").messages == ["Noted."]


# --- variables of the process ---------------------------------------------------------------------------------------

SHARED = """
    MEMORY:
      session:
        - hits
          INITIAL: 10
          RESET: never
    FLOW:
      ask:
        REASONING: false
        SET: hits = hits + 1
        RESPOND: "{{hits}}"
        ON_INPUT:
          - ELSE:
            RESPOND: "{{hits}}"
"""


def test_a_variable_of_the_process_is_not_shared_with_another_database_or_tenant(load: Any, memory: Memory):
    agent = load(SHARED)
    assert agent.start(user="ada").opening.messages == ["11"]
    assert agent.start(user="bo").opening.messages == ["12"]
    with memoranda.open(":memory:") as other:
        assert load(SHARED, on=other).start(user="ada").opening.messages == ["11"]
    assert agent.start(user="ada").opening.messages == ["13"]


def test_a_variable_of_the_process_begins_anew_where_a_session_is_resumed_in_another(path: str, write: Any):
    text = write(SHARED)
    with memoranda.open(path) as memory:
        session = memoranda.abl.load(text, memory=memory).start(user="ada")
        assert session.say("x").messages == ["11"]
    with memoranda.open(path) as memory:
        # Opening the file again simulates another process: the variable begins with its initial value.
        assert memoranda.abl.resume(memory, session.id).say("x").messages == ["10"]


# --- what a turn costs ----------------------------------------------------------------------------------------------


def test_a_turn_leaves_nothing_behind_that_only_the_collector_finds(load: Any):
    session = load(FORM).start(user="ada")
    session.say("Porto")
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        session.say("Rua das Flores")
        circle: list[Any] = ["found by the collector alone"]
        circle.append(circle)
        del circle
        gc.collect()
        left = [type(one).__name__ for one in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert "list" in left
    assert not {"ActiveTurn", "Run", "Happening", "TurnClock"}.intersection(left)


@pytest.mark.parametrize("microseconds", [0, 700, 123_456])
def test_the_moment_of_a_turn_is_kept_as_iso_8601_in_utc(load: Any, clock: FakeClock, microseconds: int):
    clock.advance(microseconds / 1_000_000)
    session = load(FORM).start(user="ada")
    assert session.turns()[0].at == clock.now().isoformat()
    assert session.turns()[0].at.endswith("+00:00")


NEVER = """
    MEMORY:
      session:
        - served
          INITIAL: 0
          RESET: never
    FLOW:
      serve:
        REASONING: false
        ON_INPUT:
          - IF: input == "forget"
            CLEAR: [served]
          - ELSE:
            SET: served = COALESCE(served, 0) + 1
            RESPOND: "{{served}}"
"""


def test_what_becomes_of_a_variable_of_the_process_is_seen_by_all_however_it_came_about(load: Any):
    agent = load(NEVER)
    one, two = agent.start(user="ada"), agent.start(user="bo")
    assert (one.say("serve").text, two.say("serve").text) == ("1", "2")
    two.say("forget")
    assert (one.say("serve").text, two.say("serve").text) == ("1", "2")


def test_a_replay_changes_no_variable_of_the_process(load: Any):
    session = load(NEVER).start(user="ada")
    assert session.say("serve").text == "1"
    session.replay()
    assert session.say("serve").text == "2"


def test_a_replay_reads_what_others_wrote_between_two_turns(load: Any, memory: Memory, clock: FakeClock):
    agent = load(
        """
        MEMORY:
          persistent:
            - user.tea
        FLOW:
          pour:
            REASONING: false
            ON_INPUT:
              - IF: input == "which"
                RESPOND: "{{user.tea}}"
              - ELSE:
                SET: user.tea = input
        """
    )
    session = agent.start(user="ada")
    for said in ("green", "which"):
        clock.advance(seconds=60)
        session.say(said)
    clock.advance(seconds=60)
    memory.scope(user="ada").set("tea", "black")
    clock.advance(seconds=60)
    assert session.say("which").text == "black"
    replay = session.replay()
    assert [turn.says for turn in replay.turns] == [[], [], ["green"], ["black"]]


ORDERS = """
    MEMORY:
      session:
        - dish
          INPUT: true
      persistent:
        - user.dishes
          TYPE: array
      remember:
        - WHEN: dish IS SET
          STORE: {dish: dish} -> user.dishes
      recall:
        - ON: session:start
          INSTRUCTION: "Be brief."
    FLOW:
      ask:
        REASONING: false
        GATHER: [dish]
        THEN: more
      more:
        REASONING: false
        GATHER:
          - drink:
            prompt: "And to drink?"
        THEN: COMPLETE
"""


def test_an_edited_agent_does_not_store_again_what_it_stored(load: Any, memory: Memory):
    session = load(ORDERS).start(user="ada")
    session.say("soup")
    edited = ORDERS.replace("And to drink?", "Something to drink?").replace(
        "remember:", "remember:\n        - WHEN: drink IS SET\n          STORE: drink -> user.drink"
    )
    resumed = memoranda.abl.resume(memory, session.id, agent=load(edited))
    assert resumed.say("tea").text == "Something to drink?"
    resumed.say("tea")
    assert memory.scope(user="ada").value("dishes") == [{"dish": "soup"}]
    assert memory.scope(user="ada").value("drink") == "tea"
    resumed.vars["dish"] = "stew"
    resumed.say("more")
    assert memory.scope(user="ada").value("dishes") == [{"dish": "soup"}, {"dish": "stew"}]
