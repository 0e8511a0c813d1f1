"""The vendor's reference page "Memory and State": one test for each of its statements."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda import Memory
from memoranda.testing import FakeClock

# --- key concepts -------------------------------------------------------------------------------------------------


def test_s1_01_agents_have_two_kinds_of_memory(load: Any, memory: Memory) -> None:
    """Agents have session memory and persistent memory."""
    agent = load(
        """
        MEMORY:
          session:
            - plate
          persistent:
            - user.dish
        FLOW:
          table:
            REASONING: false
            SET:
              - plate = "full"
              - user.dish = "stew"
        """
    )
    session = agent.start(user="ada")
    assert memory.scope(session=session.id).value("plate") == "full"
    assert memory.scope(user="ada").value("dish") == "stew"
    assert (memory.scope(user="ada").get("plate"), agent.start(user="bo").vars["plate"]) == (None, "full")


def test_s1_02_session_memory_holds_what_one_conversation_needs(load: Any, memory: Memory) -> None:
    """Session memory is for what the user gave, for marks and for results on the way, and goes with the session."""
    agent = load(
        """
        MEMORY:
          session:
            - jars
              TYPE: number
            - counted
              TYPE: boolean
              INITIAL: false
            - lids
              TYPE: number
        FLOW:
          cellar:
            REASONING: false
            GATHER:
              - jars:
                type: number
            SET:
              - counted = true
              - lids = jars * 2
            THEN: COMPLETE
        """
    )
    session = agent.start()
    session.say("4")
    assert (session.vars["jars"], session.vars["counted"], session.vars["lids"]) == (4, True, 8)
    session.end()
    assert memory.scope(session=session.id).list() == []


def test_s1_03_persistent_memory_has_three_scopes(load: Any, memory: Memory) -> None:
    """Persistent variables belong to a user, to a project, or to an execution tree."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.a
              SCOPE: user
            - project.b
              SCOPE: project
            - workflow.c
              SCOPE: execution_tree
        FLOW:
          fill:
            REASONING: false
            SET:
              - user.a = 1
              - project.b = 2
              - workflow.c = 3
        """
    )
    session = agent.start(user="ada", project="mill")
    scopes = [memory.scope(user="ada"), memory.scope(project="mill"), memory.scope(tree=session.id)]
    assert [{fact.key: fact.value for fact in scope.list()} for scope in scopes] == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_s1_04_recall_loads_by_itself(load: Any, memory: Memory) -> None:
    """Recall loads persistent values into the session at events such as its start or a search."""
    memory.scope(user="ada").set("yarn", "wool")
    memory.scope(user="ada").set("needle", 5)
    agent = load(
        """
        MEMORY:
          persistent:
            - user.yarn
            - user.needle
          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.yarn]
            - ON: search:before
              ACTION: inject_context
              PATHS: [user.needle]
        FLOW:
          shop:
            REASONING: false
            ON_INPUT:
              - ELSE:
                CALL: search_patterns(input)
        """,
        tools={"search_patterns": lambda words: []},
    )
    session = agent.start(user="ada")
    assert session.vars["user"] == {"yarn": "wool"}
    session.say("socks")
    assert session.vars["user"] == {"yarn": "wool", "needle": 5}


def test_s1_05_triggers_store_by_themselves(load: Any, memory: Memory) -> None:
    """Remember triggers store values when their condition is met, without a statement in the flow."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.hobby
          remember:
            - WHEN: hobby == "chess"
              STORE: hobby -> user.hobby
        FLOW:
          club:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET: hobby = input
        """
    )
    session = agent.start(user="ada")
    session.say("go")
    assert memory.scope(user="ada").get("hobby") is None
    session.say("chess")
    assert memory.scope(user="ada").value("hobby") == "chess"


def test_s1_06_a_flow_changes_state(load: Any) -> None:
    """A flow assigns values with `SET`, removes variables with `CLEAR` and reshapes arrays with `TRANSFORM`."""
    agent = load(
        """
        FLOW:
          sort:
            REASONING: false
            SET:
              - beads = [3, 1, 2]
              - glue = "wet"
            TRANSFORM:
              SOURCE: beads AS bead
              INTO: big
              FILTER: bead > 1
            CLEAR: [glue]
            ON_INPUT:
              - ELSE:
        """
    )
    assert dict(agent.start().vars) == {"beads": [3, 1, 2], "big": [3, 2]}


# --- session memory -----------------------------------------------------------------------------------------------


def test_s1_07_session_variables_live_from_start_to_end(load: Any, memory: Memory) -> None:
    """Session variables are created at the start of a session and discarded at its end, except with `RESET: never`."""
    agent = load(
        """
        MEMORY:
          session:
            - cups
              INITIAL: 1
            - refills
              INITIAL: 1
              RESET: never
        FLOW:
          bar:
            REASONING: false
            SET:
              - cups = cups + 1
              - refills = refills + 1
            RESPOND: "{{cups}} {{refills}}"
        """,
        name="Barkeeper",
    )
    first = agent.start(project="s1-07")
    assert first.opening.text == "2 2"
    first.end()
    assert memory.scope(session=first.id).list() == []
    assert agent.start(project="s1-07").opening.text == "2 3"


def test_s1_08_a_session_section_declares_variables(load: Any) -> None:
    """A `session` section below `MEMORY` declares variables with types and descriptions."""
    agent = load(
        """
        MEMORY:
          session:
            - loom
              TYPE: string
              DESCRIPTION: "The loom in use"
            - task
              TYPE: string
              DESCRIPTION: "What to weave"
            - changes
              TYPE: object
              DESCRIPTION: "Changes that wait for a yes"
            - price
              TYPE: number
              DESCRIPTION: "Price of the changes"
        """
    )
    assert dict(agent.start().vars) == {"loom": None, "task": None, "changes": None, "price": None}
    assert [one.severity for one in agent.diagnostics if one.code != "no_model"] == []


def test_s1_09_a_variable_has_a_required_name(load: Any, faults: Any) -> None:
    """A session variable needs a name, which is its key in the context of the session."""
    assert faults('MEMORY:\n  session:\n    - DESCRIPTION: "Nameless"\n') == ["missing"]
    assert load("MEMORY:\n  session:\n    - spindle\n      INITIAL: 2\n").start().vars["spindle"] == 2


def test_s1_10_a_type_is_one_of_six_and_checked(load: Any, faults: Any, told: Any) -> None:
    """`TYPE` is optional, one of six types, and used for checks at runtime."""
    for kind in ("string", "number", "boolean", "date", "array", "object"):
        assert faults(f"MEMORY:\n  session:\n    - wool\n      TYPE: {kind}\n") == []
    assert faults("MEMORY:\n  session:\n    - wool\n      TYPE: fleece\n") == ["wrong_value"]
    agent = load(
        """
        MEMORY:
          session:
            - wool
              TYPE: boolean
            - silk
        FLOW:
          spin:
            REASONING: false
            SET:
              - wool = "much"
              - silk = "much"
        """
    )
    assert len(told(agent.start().opening, "warning")) == 1


def test_s1_11_a_description_is_optional(load: Any, script: Any) -> None:
    """`DESCRIPTION` is optional and says for people what a variable is for."""
    model = script()
    load('MEMORY:\n  session:\n    - wool\n      DESCRIPTION: "Balls of wool"\n    - silk\n', model=model).start()
    assert ("Balls of wool" in model.asked[0].instructions, "silk" in model.asked[0].instructions) == (True, True)


def test_s1_12_initial_is_null_unless_given(load: Any) -> None:
    """`INITIAL` is the value at the start of the session, and null by default."""
    agent = load("MEMORY:\n  session:\n    - wool\n      INITIAL: [1, 2]\n    - silk\n")
    assert dict(agent.start().vars) == {"wool": [1, 2], "silk": None}


STITCHES = """
        MEMORY:
          session:
            - stitches
              INITIAL: 10
              {reset}
        FLOW:
          knit:
            REASONING: false
            SET: stitches = stitches + 1
            THEN: purl
          purl:
            REASONING: false
            SET: stitches = stitches + 1
            RESPOND: "{{stitches}}"
            ON_INPUT:
              - ELSE:
                THEN: knit
        """


def test_s1_13_reset_is_per_session_unless_given(load: Any) -> None:
    """`RESET` says when a variable is reset, and is `per_session` by default."""
    said = []
    for reset in ("", "RESET: per_session", "RESET: per_step"):
        session = load(STITCHES.replace("{reset}", reset)).start()
        said.append([session.opening.text, session.say("on").text])
    assert said == [["12", "14"], ["12", "14"], ["11", "11"]]


def test_s1_14_per_session_is_initialized_and_cleared_with_the_session(load: Any, memory: Memory) -> None:
    """`per_session`: set to `INITIAL` when a session starts, cleared when it ends."""
    agent = load(STITCHES.replace("{reset}", "RESET: per_session"))
    first = agent.start()
    assert (first.opening.text, memory.scope(session=first.id).value("stitches")) == ("12", 12)
    first.end()
    assert memory.scope(session=first.id).get("stitches") is None
    assert agent.start().opening.text == "12"


def test_s1_15_per_step_starts_anew_in_each_step(load: Any) -> None:
    """`per_step`: set to `INITIAL` whenever a step begins, so that it adds up within one step."""
    agent = load(
        """
        MEMORY:
          session:
            - sum
              INITIAL: 0
              RESET: per_step
        FLOW:
          count:
            REASONING: false
            ON_INPUT:
              - IF: abl.is_number(input)
                SET: sum = sum + TO_NUMBER(input)
                RESPOND: "{{sum}}"
              - ELSE:
                THEN: rest
          rest:
            REASONING: false
            RESPOND: "rest {{sum}}"
        """
    )
    session = agent.start()
    assert [session.say(words).text for words in ("2", "3", "done")] == ["2", "5", "rest 0"]


def test_s1_16_never_is_kept_by_the_process(load: Any) -> None:
    """`never`: the variable lives as long as the process, over sessions and users."""
    agent = load(STITCHES.replace("{reset}", "RESET: never"), name="Knitter")
    said = [agent.start(user=user, project="s1-16").opening.text for user in ("ada", "bo")]
    assert said == ["12", "14"]
    usual = load(STITCHES.replace("{reset}", ""), name="Knitter_Too")
    assert [usual.start(user=user, project="s1-16").opening.text for user in ("ada", "bo")] == ["12", "12"]


OFFICE = """
        MEMORY:
          session:
            - calls
              INITIAL: 0
              RESET: {reset}
        HANDOFF:
          - TO: Archive
            WHEN: topic == "archive"
            RETURN: true
            ON_RETURN:
              action: continue
        FLOW:
          desk:
            REASONING: false
            ON_INPUT:
              - IF: input == "archive"
                SET: topic = "archive"
              - IF: input == "call"
                SET:
                  - topic = "calls"
                  - calls = calls + 1
                RESPOND: "{{calls}}"
        """
ARCHIVE = """
        MEMORY:
          session:
            - folders
              INITIAL: 0
              RESET: {reset}
        FLOW:
          shelf:
            REASONING: false
            SET: folders = folders + 1
            RESPOND: "folder {{folders}}"
            ON_INPUT:
              - IF: input == "back"
                THEN: COMPLETE
        """


def activations(load: Any, reset: str) -> list[str]:
    """Return what two agents count that hand over to each other twice."""
    archive = load(ARCHIVE.replace("{reset}", reset), name="Archive")
    session = load(OFFICE.replace("{reset}", reset), name="Office", agents=[archive]).start(user="ada")
    said = ("call", "call", "archive", "back", "call", "archive")
    return [session.say(words).text for words in said]


def test_s1_17_per_activation_starts_anew_when_an_agent_is_activated(load: Any) -> None:
    """`per_activation`: set to `INITIAL` whenever its agent becomes active, also when control comes back to it."""
    assert activations(load, "per_activation")[4] == "1"
    assert activations(load, "per_session")[4] == "3"


def test_s1_18_per_activation_starts_anew_when_the_same_agent_is_activated_again(load: Any) -> None:
    """`per_activation` also applies when an agent is activated for a second time."""
    said = activations(load, "per_activation")
    assert (said[2], said[5]) == ("folder 1", "folder 1")
    said = activations(load, "per_session")
    assert (said[2], said[5]) == ("folder 1", "folder 2")


def test_s1_19_a_bare_name_is_enough(load: Any, told: Any) -> None:
    """A variable can be declared by its bare name, without a type."""
    agent = load(
        """
        MEMORY:
          session:
            - patron_id
            - fine
        FLOW:
          desk:
            REASONING: false
            SET:
              - patron_id = 17
              - fine = "none"
              - fine = 2.5
        """
    )
    session = agent.start()
    assert (dict(session.vars), told(session.opening, "warning")) == ({"patron_id": 17, "fine": 2.5}, [])


def test_s1_20_variables_have_initial_values_and_resets(load: Any) -> None:
    """A list that lasts for the session and a counter per step can be declared with `INITIAL` and `RESET`."""
    agent = load(
        """
        MEMORY:
          session:
            - books
              TYPE: array
              DESCRIPTION: "Books on the counter"
              INITIAL: []
              RESET: per_session
            - tries
              TYPE: number
              INITIAL: 0
              RESET: per_step
        FLOW:
          counter:
            REASONING: false
            ON_INPUT:
              - IF: input == "done"
                THEN: pack
              - ELSE:
                SET:
                  - books = books + [input]
                  - tries = tries + 1
                RESPOND: "{{books.length}} after {{tries}}"
          pack:
            REASONING: false
            RESPOND: "{{books.length}} after {{tries}}"
        """
    )
    session = agent.start()
    assert dict(session.vars) == {"books": [], "tries": 0}
    said = [session.say(words).text for words in ("Emma", "Ulysses", "done")]
    assert said == ["1 after 1", "2 after 2", "2 after 0"]
    assert agent.start().vars["books"] == []


def test_s1_21_replies_show_session_variables(load: Any) -> None:
    """A reply of several lines shows variables by name in double braces, also fields of objects."""
    agent = load(
        """
        MEMORY:
          session:
            - picked
              INPUT: true
            - reader
              INPUT: true
            - fee
              INPUT: true
        FLOW:
          slip:
            REASONING: false
            RESPOND: |
              Loan slip:
              Book: {{picked.title}}
              Reader: {{reader}}
              Fee: ${{fee}}
            THEN: COMPLETE
        """
    )
    opening = agent.start(vars={"picked": {"title": "Emma"}, "reader": "Ada", "fee": 3}).opening
    assert opening.messages == ["Loan slip:\nBook: Emma\nReader: Ada\nFee: $3"]
    assert opening.status == "completed"


def test_s1_22_a_check_reads_session_variables(load: Any) -> None:
    """`CHECK` in a step reads session variables: the step goes on, or to the step that `ON_FAIL` names."""
    agent = load(
        """
        MEMORY:
          session:
            - loans
              INPUT: true
        FLOW:
          gate:
            REASONING: false
            CHECK: loans < 5
            ON_FAIL: enough
            THEN: lend
          enough:
            REASONING: false
            RESPOND: "Bring some back first."
          lend:
            REASONING: false
            RESPOND: "Take it."
        """
    )
    said = [agent.start(vars={"loans": loans}).opening.text for loans in (4, 5)]
    assert said == ["Take it.", "Bring some back first."]


def test_s1_23_a_rule_reads_session_variables(load: Any) -> None:
    """Constraint expressions read session variables."""
    agent = load(
        """
        MEMORY:
          session:
            - overdue
              INPUT: true
        CONSTRAINTS:
          loans:
            - REQUIRE overdue == 0
              ON_FAIL: "{{overdue}} overdue."
        FLOW:
          desk:
            REASONING: false
            ON_INPUT:
              - ELSE:
                RESPOND: "Take it."
        """
    )
    assert [agent.start(vars={"overdue": n}).say("lend").text for n in (2, 0)] == ["2 overdue.", "Take it."]


def test_s1_24_branches_of_on_input_read_session_variables(load: Any) -> None:
    """Conditions of `ON_INPUT` read session variables."""
    agent = load(
        """
        MEMORY:
          session:
            - member
              INPUT: true
        FLOW:
          desk:
            REASONING: false
            ON_INPUT:
              - IF: member == true AND input == "renew"
                RESPOND: "Renewed."
              - ELSE:
                RESPOND: "Members only."
        """
    )
    assert [agent.start(vars={"member": m}).say("renew").text for m in (True, False)] == ["Renewed.", "Members only."]


def test_s1_25_a_variable_is_undefined_until_a_step_sets_it(load: Any) -> None:
    """A template shows nothing for a variable until the step that sets it has run."""
    agent = load(
        """
        FLOW:
          early:
            REASONING: false
            RESPOND: "[{{shelfmark}}]"
            THEN: find
          find:
            REASONING: false
            SET: shelfmark = "Q 12"
            THEN: late
          late:
            REASONING: false
            RESPOND: "[{{shelfmark}}]"
        """
    )
    assert agent.start().opening.messages == ["[]", "[Q 12]"]


def test_s1_26_longer_lived_values_need_another_reset(load: Any) -> None:
    """A `per_step` variable is cleared at each transition; `per_session` and `never` keep it."""
    text = """
        MEMORY:
          session:
            - mark
              RESET: {reset}
        FLOW:
          one:
            REASONING: false
            SET: mark = "seen"
            THEN: two
          two:
            REASONING: false
            RESPOND: "[{{mark}}]"
        """
    said = {
        reset: load(text.replace("{reset}", reset), name=f"Marker_{reset}").start(project="s1-26").opening.text
        for reset in ("per_step", "per_session", "never")
    }
    assert said == {"per_step": "[]", "per_session": "[seen]", "never": "[seen]"}


MEASURE = """
        MEMORY:
          session:
            - width
              TYPE: number
        FLOW:
          measure:
            REASONING: false
            ON_INPUT:
              - IF: input startsWith "raw"
                SET: width = REPLACE(input, "raw ", "")
              - ELSE:
                SET: width = TO_NUMBER(input)
        """


def test_s1_27_a_value_of_another_type_is_logged(load: Any, caplog: pytest.LogCaptureFixture, told: Any) -> None:
    """If a text is assigned to a variable with `TYPE: number`, the runtime logs a warning."""
    session = load(MEASURE).start()
    with caplog.at_level("WARNING"):
        assert (told(session.say("12"), "warning"), caplog.messages) == ([], [])
        assert len(told(session.say("raw wide"), "warning")) == 1
    assert any("width" in message for message in caplog.messages)


def test_s1_28_values_can_be_converted_to_the_declared_type(load: Any, told: Any) -> None:
    """Converting what a user or a tool gives to the declared type avoids the warning."""
    agent = load(
        """
        MEMORY:
          session:
            - height
              TYPE: number
            - raw_height
              TYPE: number
        FLOW:
          measure:
            REASONING: false
            CALL: ruler
            SET:
              - height = TO_NUMBER(call_result.text)
              - raw_height = call_result.text
        """,
        tools={"ruler": lambda: {"text": "30 "}},
    )
    session = agent.start()
    assert session.vars["height"] == 30
    assert len(told(session.opening, "warning")) == 1


# --- persistent memory --------------------------------------------------------------------------------------------


def test_s1_29_persistent_variables_survive_in_the_store(load: Any, memory: Memory) -> None:
    """Persistent variables are in the store of facts and survive the session."""
    agent = load(
        """
        MEMORY:
          session:
            - song
          persistent:
            - user.song
        FLOW:
          stage:
            REASONING: false
            RESPOND: "[{{user.song}}] [{{song}}]"
            ON_INPUT:
              - ELSE:
                SET:
                  - user.song = input
                  - song = input
        """
    )
    first = agent.start(user="ada")
    first.say("Halo")
    first.end()
    assert agent.start(user="ada").opening.text == "[Halo] []"
    assert memory.scope(user="ada").value("song") == "Halo"


def test_s1_30_paths_are_declared_in_a_persistent_section(load: Any, memory: Memory) -> None:
    """Paths are declared below `persistent`, bare or with properties."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.voice
            - user.rank
              SCOPE: user
            - user.concerts
              SCOPE: user
              TYPE: array
              DESCRIPTION: "Concerts so far"
            - user.reached_by
              TYPE: string
              DEFAULT: "letter"
              SCOPE: user
        FLOW:
          choir:
            REASONING: false
            RESPOND: "{{user.voice}}/{{user.rank}}/{{user.concerts}}/{{user.reached_by}}"
            ON_INPUT:
              - ELSE:
                SET:
                  - user.voice = "alto"
                  - user.rank = 2
                  - user.concerts = ["May"]
        """
    )
    session = agent.start(user="ada")
    assert session.opening.text == "///letter"
    session.say("join")
    assert {fact.key: fact.value for fact in memory.scope(user="ada").list()} == {
        "voice": "alto",
        "rank": 2,
        "concerts": ["May"],
    }


def test_s1_31_the_first_segment_is_the_scope_and_the_second_the_name(load: Any, memory: Memory) -> None:
    """The first segment of a path gives the scope, the second the name of the field."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.hall
            - project.hall
        FLOW:
          a:
            REASONING: false
            SET:
              - user.hall = "small"
              - project.hall = "large"
        """
    )
    agent.start(user="ada", project="choir")
    assert (memory.scope(user="ada").value("hall"), memory.scope(project="choir").value("hall")) == ("small", "large")


def test_s1_32_workflow_is_the_prefix_of_an_execution_tree(load: Any, memory: Memory) -> None:
    """A path that begins with `workflow.` belongs to the execution tree."""
    agent = load(
        "MEMORY:\n  persistent:\n    - workflow.hall\nFLOW:\n  a:\n    REASONING: false\n    SET: workflow.hall = 7\n"
    )
    session = agent.start(user="ada")
    assert memory.scope(tree=session.id).value("hall") == 7
    assert memory.scope(user="ada").get("hall") is None


def test_s1_33_the_scope_is_the_user_unless_given(load: Any, memory: Memory) -> None:
    """`SCOPE` is `user` by default, and one of three words."""
    agent = load(
        "MEMORY:\n  persistent:\n    - robe.size\nFLOW:\n  a:\n    REASONING: false\n    SET: robe.size = 40\n"
    )
    agent.start(user="ada", project="choir")
    assert memory.scope(user="ada").value("robe.size") == 40
    assert memory.scope(project="choir").list() == []


SECOND = """
        MEMORY:
          persistent:
            - {path}
              SCOPE: {scope}
        FLOW:
          hear:
            REASONING: false
            RESPOND: "second [{{{path}}}]"
            ON_INPUT:
              - ELSE:
        """
FIRST = """
        MEMORY:
          persistent:
            - {path}
              SCOPE: {scope}
        FLOW:
          say:
            REASONING: false
            RESPOND: "first [{{{path}}}]"
            ON_INPUT:
              - ELSE:
                SET: {path} = input
                THEN: HANDOFF Second
        """


def duo(load: Any, path: str, scope: str) -> Any:
    """Return an agent that sets a path to the user's message and hands over to another that shows it."""
    first, second = (text.replace("{path}", path).replace("{scope}", scope) for text in (FIRST, SECOND))
    return load(first, name="First", agents=[load(second, name="Second")])


def test_s1_34_an_execution_tree_spans_agents(load: Any) -> None:
    """`execution_tree` is one scope for a whole execution across agents."""
    session = duo(load, "workflow.cue", "execution_tree").start(user="ada")
    assert session.opening.text == "first []"
    assert session.say("now").messages == ["second [now]"]


def test_s1_35_scope_takes_precedence_over_the_path(load: Any, memory: Memory) -> None:
    """If `SCOPE` and the first segment of the path differ, `SCOPE` decides."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.anthem
              SCOPE: project
            - project.note
              SCOPE: user
            - user.draft
              SCOPE: execution_tree
        FLOW:
          a:
            REASONING: false
            SET:
              - user.anthem = "A"
              - project.note = "N"
              - user.draft = "D"
        """
    )
    session = agent.start(user="ada", project="choir")
    scopes = [memory.scope(project="choir"), memory.scope(user="ada"), memory.scope(tree=session.id)]
    assert [{fact.key: fact.value for fact in scope.list()} for scope in scopes] == [
        {"anthem": "A"},
        {"note": "N"},
        {"draft": "D"},
    ]


def test_s1_36_access_is_readwrite_unless_given(load: Any, memory: Memory) -> None:
    """`ACCESS` is `readwrite` by default."""
    memory.scope(user="ada").set("scores", ["Bach"])
    agent = load(
        """
        MEMORY:
          persistent:
            - user.scores
        FLOW:
          a:
            REASONING: false
            SET: user.scores = user.scores + ["Verdi"]
            RESPOND: "{{user.scores.length}}"
        """
    )
    assert agent.start(user="ada").opening.text == "2"
    assert memory.scope(user="ada").value("scores") == ["Bach", "Verdi"]


def test_s1_37_access_is_one_of_three_words(faults: Any) -> None:
    """`ACCESS` is `read`, `write` or `readwrite`; another word is an error."""
    text = "MEMORY:\n  persistent:\n    - user.scores\n      ACCESS: {access}\n"
    assert {access: faults(text.replace("{access}", access)) for access in ("read", "write", "readwrite", "peek")} == {
        "read": [],
        "write": [],
        "readwrite": [],
        "peek": ["wrong_value"],
    }


def test_s1_38_the_type_of_a_persistent_value_is_checked(load: Any, told: Any) -> None:
    """`TYPE` of a persistent variable is optional, one of six types, and checked at runtime."""
    right = {
        "string": '"a"',
        "number": "1",
        "boolean": "true",
        "date": '"2026-05-01"',
        "array": "[1]",
        "object": "{a: 1}",
    }
    wrong = {"string": "1", "number": '"a"', "boolean": '"a"', "date": "[1]", "array": "{a: 1}", "object": "1"}
    text = """
        MEMORY:
          persistent:
            - user.thing
              TYPE: {kind}
        FLOW:
          a:
            REASONING: false
            SET: user.thing = {value}
        """
    for kind in right:
        good = load(text.replace("{kind}", kind).replace("{value}", right[kind])).start(user="ada").opening
        bad = load(text.replace("{kind}", kind).replace("{value}", wrong[kind])).start(user="ada").opening
        assert (told(good, "warning"), len(told(bad, "warning"))) == ([], 1), kind


def test_s1_39_a_unit_changes_nothing(load: Any, memory: Memory) -> None:
    """`UNIT` is informational: values are stored and shown without it."""
    text = """
        MEMORY:
          persistent:
            - user.fee
              TYPE: number
              {unit}
        FLOW:
          a:
            REASONING: false
            SET: user.fee = 20
            RESPOND: "{{user.fee}}"
        """
    said = {load(text.replace("{unit}", unit)).start(user="ada").opening.text for unit in ("UNIT: USD", "")}
    assert (said, memory.scope(user="ada").value("fee")) == ({"20"}, 20)


def test_s1_40_a_default_stands_in_for_a_missing_fact(load: Any, memory: Memory) -> None:
    """`DEFAULT` is used when the store has no fact, and is null by default."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.key
              DEFAULT: "C major"
            - user.pitch
        FLOW:
          a:
            REASONING: false
            RESPOND: "[{{user.key}}] [{{user.pitch}}]"
        """
    )
    assert agent.start(user="ada").opening.text == "[C major] []"
    memory.scope(user="ada").set("key", "D minor")
    memory.scope(user="ada").set("pitch", 442)
    assert agent.start(user="ada").opening.text == "[D minor] [442]"


def test_s1_41_a_persistent_description_is_optional(load: Any, script: Any) -> None:
    """`DESCRIPTION` of a persistent variable is optional and for people; a model is told it."""
    model = script()
    load(
        'MEMORY:\n  persistent:\n    - user.key\n      DESCRIPTION: "Favourite key"\n    - user.pitch\n', model=model
    ).start(user="ada")
    shown = model.asked[0].instructions
    assert ("Favourite key" in shown, "user.pitch" in shown) == (True, True)


def test_s1_42_user_scope_is_for_one_user(load: Any) -> None:
    """User scope: each signed-in user has values of their own, also in one project."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.part
              SCOPE: user
        FLOW:
          a:
            REASONING: false
            RESPOND: "[{{user.part}}]"
            ON_INPUT:
              - ELSE:
                SET: user.part = input
        """
    )
    agent.start(user="ada", project="choir").say("alto")
    agent.start(user="bo", project="choir").say("bass")
    assert [agent.start(user=user, project="choir").opening.text for user in ("ada", "bo")] == ["[alto]", "[bass]"]


def test_s1_43_project_scope_is_for_all_users_of_a_project(load: Any) -> None:
    """Project scope: values are shared by all users within a project."""
    agent = load(
        """
        MEMORY:
          persistent:
            - project.programme
              SCOPE: project
        FLOW:
          a:
            REASONING: false
            RESPOND: "[{{project.programme}}]"
            ON_INPUT:
              - ELSE:
                SET: project.programme = input
        """
    )
    agent.start(user="ada", project="choir").say("Requiem")
    assert agent.start(user="bo", project="choir").opening.text == "[Requiem]"
    assert agent.start(user="bo", project="band").opening.text == "[]"


def test_s1_44_execution_tree_scope_is_for_one_tree(load: Any, memory: Memory) -> None:
    """Execution-tree scope: values are shared within one tree of handoffs only."""
    agent = duo(load, "workflow.cue", "execution_tree")
    session = agent.start(user="ada")
    assert session.say("now").text == "second [now]"
    assert agent.start(user="ada").opening.text == "first []"
    session.end()
    assert memory.scope(tree=session.id).list() == []


def test_s1_45_an_execution_tree_carries_state_between_agents(load: Any) -> None:
    """Execution-tree scope carries state such as a token to the next agent; session variables do not go along."""
    second = """
        MEMORY:
          persistent:
            - workflow.token
              SCOPE: execution_tree
        FLOW:
          a:
            REASONING: false
            RESPOND: "[{{workflow.token}}] [{{token}}]"
            ON_INPUT:
              - ELSE:
        """
    first = """
        MEMORY:
          persistent:
            - workflow.token
              SCOPE: execution_tree
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET:
                  - workflow.token = "t-1"
                  - token = "t-1"
                THEN: HANDOFF Teller
        """
    session = load(first, agents=[load(second, name="Teller")]).start(user="ada")
    assert session.say("go").messages == ["[t-1] []"]


def test_s1_46_scopes_and_access_combine(load: Any, memory: Memory) -> None:
    """Facts of the user, an array with a default, and read-only reference data of the project work side by side."""
    memory.scope(project="choir").set("fees", {"adult": 9})
    agent = load(
        """
        MEMORY:
          persistent:
            - user.composers
              SCOPE: user
              DESCRIPTION: "Composers the singer likes"

            - user.rehearsals_30d
              SCOPE: user
              TYPE: array
              ACCESS: readwrite
              DEFAULT: []

            - project.fees
              SCOPE: project
              ACCESS: read
              DESCRIPTION: "Fees, the same for all"
        FLOW:
          a:
            REASONING: false
            RESPOND: "{{user.composers}} {{user.rehearsals_30d.length}} {{project.fees.adult}}"
            ON_INPUT:
              - ELSE:
                SET:
                  - user.composers = input
                  - user.rehearsals_30d = user.rehearsals_30d + [1]
                THEN: a
        """
    )
    assert agent.start(user="ada", project="choir").say("Bach").messages == ["Bach 1 9"]
    assert agent.start(user="bo", project="choir").opening.text == " 0 9"


LOCKS = """
        MEMORY:
          persistent:
            - user.taste
              ACCESS: readwrite

            - user.standing
              ACCESS: read

            - user.visits
              ACCESS: write
        FLOW:
          a:
            REASONING: false
            {action}
        """


def test_s1_47_each_path_has_its_own_access(load: Any, faults: Any, memory: Memory) -> None:
    """Access is set per path; what it allows works, and what it forbids is refused."""
    memory.scope(user="ada").set("standing", "good")
    allowed = """SET:
              - user.taste = "sour"
              - user.visits = 1
            RESPOND: "{{user.taste}} {{user.standing}}\""""
    assert load(LOCKS.replace("{action}", allowed)).start(user="ada").opening.text == "sour good"
    assert memory.scope(user="ada").value("visits") == 1
    assert faults(LOCKS.replace("{action}", 'SET: user.standing = "bad"')) == ["access"]
    assert faults(LOCKS.replace("{action}", 'RESPOND: "{{user.visits}}"')) == ["access"]


def with_model(load: Any, script: Any, memory: Memory, access: str, path: str) -> Any:
    """Return what a model is shown of a path, and what the path is after the model tried to set it."""
    memory.scope(user="ada").set(path, "old")
    model = script("Hello.", {"set_variables": {"values": {f"user.{path}": "new"}}}, "Tried.")
    agent = load(f"MEMORY:\n  persistent:\n    - user.{path}\n      ACCESS: {access}\n", model=model)
    agent.start(user="ada").say("change it")
    return "old" in model.asked[0].instructions, memory.scope(user="ada").value(path)


def test_s1_48_read_allows_no_change(load: Any, faults: Any, script: Any, memory: Memory) -> None:
    """`read`: the agent can read the value but not modify it, neither in its text nor through its model."""
    text = """
        MEMORY:
          persistent:
            - user.level
              ACCESS: read
        FLOW:
          a:
            REASONING: false
            {action}
        """
    memory.scope(user="bo").set("level", 3)
    assert load(text.replace("{action}", 'RESPOND: "{{user.level}}"')).start(user="bo").opening.text == "3"
    assert faults(text.replace("{action}", "SET: user.level = 4")) == ["access"]
    assert faults(text.replace("{action}", "CLEAR: [user.level]")) == ["access"]
    assert with_model(load, script, memory, "read", "rank")[1] == "old"


def test_s1_49_write_allows_no_reading(load: Any, faults: Any, script: Any, memory: Memory) -> None:
    """`write`: the agent can write the value but not read it, neither in its text nor through its model."""
    text = """
        MEMORY:
          persistent:
            - user.log
              ACCESS: write
        FLOW:
          a:
            REASONING: false
            {action}
        """
    load(text.replace("{action}", "SET: user.log = 4")).start(user="bo")
    assert memory.scope(user="bo").value("log") == 4
    assert faults(text.replace("{action}", "SET: copy = user.log")) == ["access"]
    assert with_model(load, script, memory, "write", "trail") == (False, "new")


def test_s1_50_readwrite_allows_both(load: Any, script: Any, memory: Memory) -> None:
    """`readwrite`: the agent can read and modify the value."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.points
              ACCESS: readwrite
        FLOW:
          a:
            REASONING: false
            SET: user.points = user.points * 2
            RESPOND: "{{user.points}}"
        """
    )
    memory.scope(user="ada").set("points", 21)
    assert (agent.start(user="ada").opening.text, memory.scope(user="ada").value("points")) == ("42", 42)
    assert with_model(load, script, memory, "readwrite", "badge") == (True, "new")


def test_s1_51_a_persistent_path_is_read_in_full(load: Any, memory: Memory) -> None:
    """A persistent variable is read by its full dotted path, in `SET` and in the braces of a reply."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.name
            - user.level
        FLOW:
          a:
            REASONING: false
            SET: salute = COALESCE(user.name, "dear reader")
            RESPOND: "Hello {{salute}}, level {{user.level}}, [{{level}}]"
        """
    )
    assert agent.start(user="ada").opening.text == "Hello dear reader, level , []"
    memory.scope(user="ada").set("name", "Ada")
    memory.scope(user="ada").set("level", "gold")
    assert agent.start(user="ada").opening.text == "Hello Ada, level gold, []"


def test_s1_52_braces_read_a_path_in_set(load: Any, memory: Memory) -> None:
    """A text in `SET` may contain a persistent path in double braces."""
    memory.scope(user="ada").set("name", "Ada")
    agent = load(
        """
        MEMORY:
          persistent:
            - user.name
        FLOW:
          a:
            REASONING: false
            SET: line = "For {{user.name}}"
        """
    )
    assert [agent.start(user=user).vars["line"] for user in ("ada", "bo")] == ["For Ada", "For "]


def test_s1_53_the_first_session_has_no_value_yet(load: Any, memory: Memory) -> None:
    """In the first session a persistent value is null; `DEFAULT` and `COALESCE` give a fallback."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.plain
            - user.fallback
              DEFAULT: "d"
        FLOW:
          a:
            REASONING: false
            RESPOND: "[{{user.plain}}] [{{user.fallback}}] [{{COALESCE(user.plain, 'c')}}]"
        """
    )
    assert agent.start(user="ada").opening.text == "[] [d] [c]"
    memory.scope(user="ada").set("plain", "p")
    assert agent.start(user="ada").opening.text == "[p] [d] [p]"


def test_s1_54_declaring_a_path_does_not_fill_it(load: Any, memory: Memory) -> None:
    """A value is persisted by a trigger or by `SET`; declaring the path alone stores nothing."""
    agent = load(
        """
        MEMORY:
          session:
            - declared
              INITIAL: 1
          persistent:
            - user.declared
              DEFAULT: 1
            - user.by_set
            - user.by_trigger
          remember:
            - WHEN: declared IS SET
              STORE: declared -> user.by_trigger
        FLOW:
          a:
            REASONING: false
            SET: user.by_set = 1
        """
    )
    agent.start(user="ada")
    assert {fact.key: fact.value for fact in memory.scope(user="ada").list()} == {"by_set": 1, "by_trigger": 1}


def test_s1_55_only_user_scope_keeps_users_apart(load: Any, memory: Memory) -> None:
    """Project values are seen by all users, user values only by their own user, who must be signed in."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.secret
            - project.notice
        FLOW:
          a:
            REASONING: false
            RESPOND: "[{{user.secret}}] [{{project.notice}}]"
            ON_INPUT:
              - ELSE:
                SET:
                  - user.secret = input
                  - project.notice = input
        """
    )
    agent.start(user="ada").say("psst")
    said = [agent.start(user=user).opening.text for user in ("ada", "bo", None)]
    assert said == ["[psst] [psst]", "[] [psst]", "[] [psst]"]
    agent.start().say("anonymous")
    assert [fact.value for fact in memory.scope(user="ada").list()] == ["psst"]


# --- remember triggers --------------------------------------------------------------------------------------------


def test_s1_56_two_triggers_store_two_values(load: Any, memory: Memory, clock: FakeClock) -> None:
    """Triggers write to persistent memory when their condition becomes true, each with a TTL of its own or without."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.nick
            - user.dialect
            - user.trips
          remember:
            - WHEN: nick IS SET
              STORE: nick -> user.nick
              TTL: "90d"
            - WHEN: dialect IS SET
              STORE: dialect -> user.dialect
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - IF: input == "Platt"
                SET: dialect = input
              - ELSE:
                SET: nick = input
        """
    )
    session = agent.start(user="ada")
    ada = memory.scope(user="ada")
    session.say("Adi")
    assert {fact.key for fact in ada.list()} == {"nick"}
    session.say("Platt")
    assert {fact.key for fact in ada.list()} == {"nick", "dialect"}
    clock.advance(90 * 86_400)
    assert {fact.key for fact in ada.list()} == {"dialect"}


def test_s1_57_a_gathered_value_fires_a_trigger(load: Any, memory: Memory) -> None:
    """A value from `GATHER` makes a trigger store it."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.town
          remember:
            - WHEN: town IS SET
              STORE: town -> user.town
        FLOW:
          a:
            REASONING: false
            GATHER:
              - town: required
            THEN: COMPLETE
        """
    )
    session = agent.start(user="ada")
    assert memory.scope(user="ada").get("town") is None
    session.say("Porto")
    assert memory.scope(user="ada").value("town") == "Porto"


def test_s1_58_an_assigned_value_fires_a_trigger(load: Any, memory: Memory) -> None:
    """A value from `SET` makes a trigger store it."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.town
          remember:
            - WHEN: town IS SET
              STORE: town -> user.town
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - IF: input == "no"
                SET: village = input
              - ELSE:
                SET: town = input
        """
    )
    session = agent.start(user="ada")
    session.say("no")
    assert memory.scope(user="ada").get("town") is None
    session.say("Faro")
    assert memory.scope(user="ada").value("town") == "Faro"


def test_s1_59_a_result_of_a_tool_fires_a_trigger(load: Any, memory: Memory) -> None:
    """A value from the result of a tool makes a trigger store it."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.town
          remember:
            - WHEN: town IS SET
              STORE: town -> user.town
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - IF: input == "time"
                CALL: clock_tower
              - ELSE:
                CALL: locate
        """,
        tools={"locate": lambda: {"town": "Évora"}, "clock_tower": lambda: {"hour": 7}},
    )
    session = agent.start(user="ada")
    session.say("time")
    assert memory.scope(user="ada").get("town") is None
    session.say("where")
    assert memory.scope(user="ada").value("town") == "Évora"


def test_s1_60_ninety_days_are_ninety_days(load: Any, memory: Memory, clock: FakeClock) -> None:
    """`TTL: "90d"` means that the fact expires after 90 days."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.pin
          remember:
            - WHEN: pin IS SET
              STORE: pin -> user.pin
              TTL: "90d"
        FLOW:
          a:
            REASONING: false
            SET: pin = 4
        """
    )
    agent.start(user="ada")
    clock.advance(90 * 86_400 - 1)
    assert memory.scope(user="ada").value("pin") == 4
    clock.advance(1)
    assert memory.scope(user="ada").get("pin") is None


def test_s1_61_when_is_required_and_evaluated_after_each_turn(load: Any, faults: Any, memory: Memory) -> None:
    """`WHEN` is required, and evaluated after each turn."""
    text = """
        MEMORY:
          persistent:
            - user.max
          remember:
            {trigger}
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET: top = TO_NUMBER(input)
        """
    assert faults(text.replace("{trigger}", "- STORE: top -> user.max")) == ["missing"]
    agent = load(text.replace("{trigger}", "- WHEN: top > 5\n              STORE: top -> user.max"))
    session, kept = agent.start(user="ada"), []
    for words in ("4", "6", "3", "8"):
        session.say(words)
        kept.append(memory.scope(user="ada").value("max"))
    assert kept == [None, 6, 6, 8]


def test_s1_62_store_is_required_with_an_arrow(faults: Any) -> None:
    """`STORE` is required, in the form `expression -> path`."""
    text = "MEMORY:\n  remember:\n    - WHEN: top IS SET\n{store}"
    assert faults(text.replace("{store}", "")) == ["missing"]
    assert faults(text.replace("{store}", "      STORE: top\n")) == ["wrong_value"]
    assert faults(text.replace("{store}", "      STORE: top * 2 -> user.top\n")) == []


def test_s1_63_a_ttl_is_optional_and_a_duration(load: Any, faults: Any, memory: Memory, clock: FakeClock) -> None:
    """`TTL` is optional: a number and `s`, `m`, `h` or `d`; afterwards the value is deleted."""
    text = "MEMORY:\n  remember:\n    - WHEN: always\n      STORE: 1 -> user.n\n      {ttl}\n"
    assert faults(text.replace("{ttl}", 'TTL: "1y"')) == ["wrong_value"]
    for user, ttl in (("s", "30s"), ("m", "30m"), ("h", "24h"), ("d", "30d")):
        load(text.replace("{ttl}", f'TTL: "{ttl}"')).start(user=user)
    load(text.replace("{ttl}", "")).start(user="permanent")
    left = []
    for seconds in (30, 29 * 60 + 30, 23 * 3_600 + 1_800, 29 * 86_400):
        clock.advance(seconds)
        left.append([user for user in ("s", "m", "h", "d", "permanent") if memory.scope(user=user).get("n")])
    assert left == [["m", "h", "d", "permanent"], ["h", "d", "permanent"], ["d", "permanent"], ["permanent"]]


def test_s1_64_a_trigger_stores_a_computed_object(load: Any, memory: Memory, clock: FakeClock) -> None:
    """A trigger can store an object that is computed from several variables and the current time."""
    agent = load(
        """
        MEMORY:
          remember:
            - WHEN: repair_done == true
              STORE: {bike: bike_id, work: kind, at: now} -> user.repairs
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - IF: input == "later"
                SET: kind = "chain"
              - ELSE:
                SET:
                  - bike_id = "B-1"
                  - repair_done = true
        """
    )
    session = agent.start(user="ada")
    session.say("later")
    assert memory.scope(user="ada").get("repairs") is None
    session.say("done")
    stored = memory.scope(user="ada").value("repairs")
    assert (stored["bike"], stored["work"], stored["at"][:10]) == ("B-1", "chain", clock.now().date().isoformat())


# --- recall -------------------------------------------------------------------------------------------------------


def test_s1_65_remember_stores_and_recall_loads(load: Any, memory: Memory) -> None:
    """Together, a trigger stores a value once its condition holds, and a recall loads it at a later event."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.room
          remember:
            - WHEN: room IS SET
              STORE: room -> user.room
          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.room]
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET: room = input
        """
    )
    first = agent.start(user="ada")
    assert first.vars["user"] == {"room": None}
    first.say("12")
    assert agent.start(user="ada").vars["user"] == {"room": "12"}


def test_s1_66_a_new_session_gets_its_paths_and_its_instruction(load: Any, memory: Memory, script: Any) -> None:
    """At the start of a session, three paths are injected and an instruction is given to the model."""
    memory.scope(user="ada").set("nick", "Adi")
    memory.scope(user="ada").set("dialect", "Platt")
    model = script()
    agent = load(
        """
        MEMORY:
          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.nick, user.dialect, user.guide]
            - ON: session:start
              ACTION: prompt_llm
              INSTRUCTION: "Use the nickname, if there is one"
        FLOW:
          talk:
            REASONING: true
            GOAL: "Guide"
        """,
        model=model,
    )
    assert agent.start(user="ada").vars["user"] == {"nick": "Adi", "dialect": "Platt", "guide": None}
    assert "Use the nickname, if there is one" in model.asked[0].instructions


def test_s1_67_on_is_required_and_a_known_event(load: Any, faults: Any, memory: Memory) -> None:
    """`ON` is required and names an event, such as `session:start` or `tool:<name>:after`."""
    text = "MEMORY:\n  recall:\n    - {on}ACTION: inject_context\n      PATHS: [user.nick]\n"
    assert faults(text.replace("{on}", "")) == ["missing"]
    assert faults(text.replace("{on}", "ON: session:noon\n      ")) == ["unknown_event"]
    memory.scope(user="ada").set("nick", "Adi")
    agent = load(
        """
        MEMORY:
          recall:
            - ON: tool:ring:after
              ACTION: inject_context
              PATHS: [user.nick]
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - IF: input == "ring"
                CALL: ring
              - ELSE:
                CALL: knock
        """,
        tools={"ring": lambda: True, "knock": lambda: True},
    )
    session = agent.start(user="ada")
    session.say("knock")
    assert "user" not in session.vars
    session.say("ring")
    assert session.vars["user"] == {"nick": "Adi"}


def test_s1_68_action_is_one_of_three(faults: Any) -> None:
    """`ACTION` is one of three words; it may be omitted, because the other page has a default for it."""
    recall = "MEMORY:\n  recall:\n    - ON: session:start\n      {action}\n"
    needs = {"inject_context": "PATHS: [user.nick]", "load_memory": 'DOMAIN: "d"', "prompt_llm": 'INSTRUCTION: "i"'}
    for action, need in needs.items():
        assert faults(recall.replace("{action}", f"ACTION: {action}\n      {need}")) == []
        assert faults(recall.replace("{action}", need)) == []
    assert faults(recall.replace("{action}", 'ACTION: shout\n      INSTRUCTION: "i"')) == ["wrong_value"]


def test_s1_69_paths_are_what_inject_context_retrieves(load: Any, memory: Memory) -> None:
    """`PATHS` lists what `inject_context` retrieves."""
    memory.scope(user="ada").set("bed", "soft")
    memory.scope(user="ada").set("tea", "mint")
    text = "MEMORY:\n  recall:\n    - ON: session:start\n      ACTION: inject_context\n      PATHS: [{paths}]\n"
    assert load(text.replace("{paths}", "user.bed")).start(user="ada").vars["user"] == {"bed": "soft"}
    both = load(text.replace("{paths}", "user.bed, user.tea")).start(user="ada")
    assert both.vars["user"] == {"bed": "soft", "tea": "mint"}


def test_s1_70_paths_are_what_load_memory_retrieves(load: Any, memory: Memory) -> None:
    """`PATHS` can also say what `load_memory` retrieves."""
    memory.scope(user="ada").set("bed", "soft")
    memory.scope(user="ada").set("tea", "mint")
    agent = load("MEMORY:\n  recall:\n    - ON: session:start\n      ACTION: load_memory\n      PATHS: [user.tea]\n")
    assert agent.start(user="ada").vars["user"] == {"tea": "mint"}


def test_s1_71_a_domain_is_what_load_memory_retrieves(load: Any, memory: Memory) -> None:
    """`DOMAIN` names the memory domain that `load_memory` retrieves."""
    memory.scope(user="ada").set("bed", "soft", domain="nights")
    memory.scope(user="ada").set("nights.hours", 8)
    memory.scope(user="ada").set("tea", "mint", domain="drinks")
    agent = load('MEMORY:\n  recall:\n    - ON: session:start\n      ACTION: load_memory\n      DOMAIN: "nights"\n')
    assert agent.start(user="ada").vars["user"] == {"bed": "soft", "nights": {"hours": 8}}


def test_s1_72_an_instruction_shapes_what_the_model_does(load: Any, script: Any) -> None:
    """`INSTRUCTION` is the text that `prompt_llm` gives to the model; other actions do not need one."""
    told, untold = script(), script()
    text = """
        MEMORY:
          recall:
            - ON: session:start
              ACTION: {action}
        FLOW:
          a:
            REASONING: true
            GOAL: "Talk"
        """
    prompt, inject = (
        'prompt_llm\n              INSTRUCTION: "Offer tea"',
        "inject_context\n              PATHS: [user.tea]",
    )
    load(text.replace("{action}", prompt), model=told).start(user="ada")
    load(text.replace("{action}", inject), model=untold).start(user="ada")
    assert ("Offer tea" in told.asked[0].instructions, "Offer tea" in untold.asked[0].instructions) == (True, False)


def test_s1_73_session_start_is_before_any_input(load: Any, memory: Memory) -> None:
    """`session:start` happens when a new session begins, before any input."""
    memory.scope(user="ada").set("tea", "mint")
    agent = load(
        """
        MEMORY:
          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.tea]
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - ELSE:
        """
    )
    session = agent.start(user="ada")
    assert session.vars["user"] == {"tea": "mint"}
    memory.scope(user="ada").set("tea", "sage")
    session.say("hello")
    assert session.vars["user"] == {"tea": "mint"}
    assert agent.start(user="ada").vars["user"] == {"tea": "sage"}


def test_s1_74_search_before_is_before_a_search(load: Any, memory: Memory, told: Any) -> None:
    """`search:before` happens before a search or a retrieval, and before no other call."""
    agent = load(
        """
        MEMORY:
          recall:
            - ON: search:before
              ACTION: inject_context
              PATHS: [user.tea]
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - IF: input == "note"
                CALL: write_note(input)
              - IF: input == "look"
                CALL: search_notes(input)
              - ELSE:
                CALL: retrieve_note(input)
        """,
        tools=dict.fromkeys(("write_note", "search_notes", "retrieve_note"), lambda words: []),
    )
    session = agent.start(user="ada")
    assert told(session.say("note"), "recalled") == []
    assert told(session.say("look"), "recalled") == ["user.tea"]
    assert told(session.say("the last one"), "recalled") == ["user.tea"]


def test_s1_75_inject_context_fills_session_variables(load: Any, memory: Memory) -> None:
    """`inject_context` loads its paths directly into session variables."""
    memory.scope(user="ada").set("tea", "mint")
    memory.scope(project="house").set("kettle", "red")
    agent = load(
        """
        MEMORY:
          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.tea, project.kettle]
        """
    )
    assert dict(agent.start(user="ada", project="house").vars) == {
        "user": {"tea": "mint"},
        "project": {"kettle": "red"},
    }
    assert dict(agent.start(user="bo", project="shed").vars) == {"user": {"tea": None}, "project": {"kettle": None}}


def test_s1_76_load_memory_loads_all_facts_of_a_domain(load: Any, memory: Memory) -> None:
    """`load_memory` loads all facts of a domain into the context."""
    for place in range(12):
        memory.scope(user="ada").set(f"cup{place}", place, domain="cupboard")
    memory.scope(user="ada").set("spoon", 1, domain="drawer")
    agent = load('MEMORY:\n  recall:\n    - ON: session:start\n      ACTION: load_memory\n      DOMAIN: "cupboard"\n')
    assert agent.start(user="ada").vars["user"] == {f"cup{place}": place for place in range(12)}


def test_s1_77_prompt_llm_is_what_a_recall_does_by_default(load: Any, script: Any) -> None:
    """`prompt_llm` gives its text to the model, and is the default."""
    by_default, by_name, none = script(), script(), script()
    step = 'FLOW:\n  a:\n    REASONING: true\n    GOAL: "Talk"\n'
    recall = 'MEMORY:\n  recall:\n    - ON: session:start\n      {action}INSTRUCTION: "Pour slowly"\n'
    load(recall.replace("{action}", "") + step, model=by_default).start()
    load(recall.replace("{action}", "ACTION: prompt_llm\n      ") + step, model=by_name).start()
    load(step, model=none).start()
    assert by_default.asked[0].instructions == by_name.asked[0].instructions
    assert ["Pour slowly" in model.asked[0].instructions for model in (by_default, none)] == [True, False]


def test_s1_78_a_search_can_use_the_facts_of_a_domain(load: Any, memory: Memory) -> None:
    """Facts of a domain are loaded before a search, so that the search can use them."""
    memory.scope(user="ada").set("genre", "crime", domain="reading")
    memory.scope(user="ada").set("shoe", 38, domain="clothes")
    asked: list[Any] = []
    agent = load(
        """
        MEMORY:
          recall:
            - ON: search:before
              ACTION: load_memory
              DOMAIN: "reading"
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - ELSE:
                CALL: search_books(input, user.genre)
        """,
        tools={"search_books": lambda words, genre: asked.append((words, genre))},
    )
    session = agent.start(user="ada")
    assert "user" not in session.vars
    session.say("new ones")
    assert (asked, session.vars["user"]) == ([("new ones", "crime")], {"genre": "crime"})


def test_s1_79_an_instruction_may_have_several_lines(load: Any, script: Any) -> None:
    """An instruction of several lines reaches the model as it is, instead of variables."""
    model = script()
    agent = load(
        """
        MEMORY:
          recall:
            - ON: session:start
              ACTION: prompt_llm
              INSTRUCTION: |
                Look for a favourite book from earlier talks.
                If there is one, mention it.
                Otherwise ask for one.
        FLOW:
          a:
            REASONING: true
            GOAL: "Talk"
        """,
        model=model,
    )
    session = agent.start(user="ada")
    lines = "Look for a favourite book from earlier talks.\nIf there is one, mention it.\nOtherwise ask for one."
    assert lines in model.asked[0].instructions
    assert "user" not in session.vars


PATTERN = """
        MEMORY:
          session:
            - book
              TYPE: string
            - deed
              TYPE: string

          persistent:
            - user.loans
            - user.wishes

          remember:
            - WHEN: loan_closed == true
              STORE: {book: book, deed: deed, at: now} -> user.loans
            - WHEN: wish IS SET
              STORE: wish -> user.wishes

          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.loans, user.wishes]
            - ON: tool:list_loans:after
              ACTION: inject_context
              PATHS: [user.wishes]
        FLOW:
          a:
            REASONING: false
            RESPOND: "[{{user.loans.book}}] [{{user.wishes}}]"
            ON_INPUT:
              - IF: input == "close"
                SET:
                  - book = "Emma"
                  - deed = "return"
                  - loan_closed = true
              - IF: input == "list"
                CALL: list_loans
              - IF: input == "count"
                CALL: count_loans
              - ELSE:
                SET: wish = input
        """
LOANS = {"list_loans": lambda: ["Emma"], "count_loans": lambda: 1}


def test_s1_80_what_is_remembered_is_recalled_in_later_sessions(load: Any) -> None:
    """What one conversation stores is there when the next one begins."""
    agent = load(PATTERN, tools=LOANS)
    first = agent.start(user="ada")
    assert first.opening.text == "[] []"
    first.say("close")
    first.say("poems")
    first.end()
    later = agent.start(user="ada")
    assert later.opening.text == "[Emma] [poems]"
    assert (later.vars["user"]["loans"]["deed"], later.vars["user"]["wishes"]) == ("return", "poems")
    assert agent.start(user="bo").opening.text == "[] []"


def test_s1_81_a_recall_after_a_tool_brings_a_path_again(load: Any, memory: Memory) -> None:
    """A recall on `tool:<name>:after` injects its paths after that tool, and after no other."""
    session = load(PATTERN, tools=LOANS).start(user="ada")
    memory.scope(user="ada").set("wishes", "maps")
    session.say("count")
    assert session.vars["user"]["wishes"] is None
    session.say("list")
    assert session.vars["user"]["wishes"] == "maps"


def test_s1_82_a_trigger_on_a_variable_that_nothing_sets_never_fires(load: Any, memory: Memory) -> None:
    """A trigger whose variable is never set never fires; checking the agent points it out."""
    text = """
        MEMORY:
          persistent:
            - user.pet
          remember:
            - WHEN: {name} IS SET
              STORE: {name} -> user.pet
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET: pet = input
        """
    wrong, right = load(text.replace("{name}", "pett")), load(text.replace("{name}", "pet"))
    wrong.start(user="ada").say("cat")
    right.start(user="bo").say("dog")
    assert (memory.scope(user="ada").get("pet"), memory.scope(user="bo").value("pet")) == (None, "dog")
    assert "never_set" in [one.code for one in wrong.diagnostics]
    assert "never_set" not in [one.code for one in right.diagnostics]


def test_s1_83_an_expired_fact_is_not_recalled(load: Any, clock: FakeClock) -> None:
    """A fact whose TTL is over is not recalled; a longer TTL keeps it."""
    text = """
        MEMORY:
          persistent:
            - user.mood
          remember:
            - WHEN: mood IS SET
              STORE: mood -> user.mood
              TTL: "{ttl}"
          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.mood]
        FLOW:
          a:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET: mood = input
        """
    short, long = load(text.replace("{ttl}", "1d")), load(text.replace("{ttl}", "30d"))
    short.start(user="ada").say("merry")
    long.start(user="bo").say("merry")
    clock.advance(2 * 86_400)
    assert short.start(user="ada").vars["user"] == {"mood": None}
    assert long.start(user="bo").vars["user"] == {"mood": "merry"}


def test_s1_84_a_recall_injects_null_or_the_default(load: Any, memory: Memory) -> None:
    """Recall injects null for a path without a fact; `DEFAULT` on its declaration gives a fallback."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.mood
            - user.tempo
              DEFAULT: "slow"
          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.mood, user.tempo]
        """
    )
    assert agent.start(user="ada").vars["user"] == {"mood": None, "tempo": "slow"}
    memory.scope(user="ada").set("mood", "merry")
    assert agent.start(user="ada").vars["user"]["mood"] == "merry"


# --- SET ----------------------------------------------------------------------------------------------------------


def test_s1_85_set_resolves_its_expression_when_it_runs(load: Any) -> None:
    """`SET` assigns the value that its expression has at the moment of execution."""
    agent = load(
        """
        FLOW:
          a:
            REASONING: false
            SET:
              - price = 10
              - before = price
              - price = 20
              - after = price
        """
    )
    session = agent.start()
    assert (session.vars["before"], session.vars["after"]) == (10, 20)


def test_s1_86_assignments_build_on_each_other(load: Any) -> None:
    """Several assignments in one `SET` are made in order, and the reply shows their results."""
    agent = load(
        """
        MEMORY:
          session:
            - hours
              INPUT: true
            - rate
              INPUT: true
        FLOW:
          bill:
            REASONING: false
            SET:
              - work = hours * rate
              - tax = work * 0.25
              - sum = work + tax
            RESPOND: "That is ${{sum}}, with ${{tax}} tax."
            THEN: pay
          pay:
            REASONING: false
            ON_INPUT:
              - ELSE:
        """
    )
    session = agent.start(vars={"hours": 4, "rate": 50})
    assert (session.opening.messages, session.step) == (["That is $250, with $50 tax."], "pay")


def assigned(load: Any, expression: str) -> Any:
    """Return the value of an expression in a `SET` of a step with some variables."""
    agent = load(
        """
        MEMORY:
          session:
            - n
              INITIAL: 7
            - crew
              INITIAL: {cook: {name: "Bo"}, size: 3}
        FLOW:
          a:
            REASONING: false
            SET: got = {expression}
        """.replace("{expression}", expression)
    )
    return agent.start().vars["got"]


def test_s1_87_set_does_arithmetic(load: Any) -> None:
    """`SET` supports arithmetic."""
    assert [assigned(load, one) for one in ("n + 1", "n - 2 * 3", "(n - 1) / 2", "n % 4")] == [8, 1, 3, 3]


def test_s1_88_set_interpolates_texts(load: Any) -> None:
    """`SET` supports variables inside a text."""
    assert assigned(load, '"{{n}} for {{crew.cook.name}}"') == "7 for Bo"


def test_s1_89_set_reads_fields_by_dots(load: Any) -> None:
    """`SET` reads fields of objects in dot notation."""
    assert (assigned(load, "crew.cook.name"), assigned(load, "crew.size")) == ("Bo", 3)
    assert assigned(load, "crew.mate.name IS SET") is False


def test_s1_90_set_calls_functions(load: Any) -> None:
    """`SET` supports function calls."""
    assert (assigned(load, "UPPER(crew.cook.name)"), assigned(load, 'COALESCE(nothing, "n/a")')) == ("BO", "n/a")


def test_s1_91_set_takes_values_from_a_result(load: Any) -> None:
    """`SET` below `ON_SUCCESS` takes values from the result of a call, such as a length or a field of an item."""
    agent = load(
        """
        MEMORY:
          session:
            - bay
              INPUT: true
        FLOW:
          look:
            REASONING: false
            CALL: list_boats(bay, 2)
            ON_SUCCESS:
              SET:
                - how_many = call_result.boats.length
                - cheapest = call_result.boats[0].rent
              RESPOND: "{{how_many}} boats, from ${{cheapest}}."
              THEN: choose
          choose:
            REASONING: false
            ON_INPUT:
              - ELSE:
        """,
        tools={"list_boats": lambda bay, seats: {"boats": [{"rent": 15, "at": bay}, {"rent": 20 * seats}]}},
    )
    session = agent.start(vars={"bay": "north"})
    assert (session.opening.messages, session.step) == (["2 boats, from $15."], "choose")


def test_s1_92_dots_make_nested_objects(load: Any) -> None:
    """`SET` on dotted names builds an object with these fields."""
    agent = load(
        """
        MEMORY:
          session:
            - sailor
              INPUT: true
        FLOW:
          a:
            REASONING: false
            SET:
              - trip.skipper = sailor
              - trip.from = "Kiel"
              - trip.cost.total = 30
        """
    )
    assert agent.start(vars={"sailor": "Ada"}).vars["trip"] == {"skipper": "Ada", "from": "Kiel", "cost": {"total": 30}}


CHOICE = """
        MEMORY:
          session:
            - boats
              INITIAL: ["Elsa", "Flora", "Greta"]
        FLOW:
          choose:
            REASONING: false
            ON_INPUT:
              - IF: abl.is_number(input) AND input >= 1 AND input <= boats.length
                SET:
                  - boat = boats[input - 1]
                  - wants_offer = true
                THEN: crew
              - ELSE:
                RESPOND: "The number of a boat, please."
          crew:
            REASONING: false
            RESPOND: "Who sails the {{boat}}?"
            ON_INPUT:
              - ELSE:
        """


def test_s1_93_branches_of_on_input_set_variables(load: Any) -> None:
    """A branch of `ON_INPUT` whose condition holds sets its variables and goes to its step."""
    session = load(CHOICE).start()
    turn = session.say("2")
    assert (turn.messages, turn.step) == (["Who sails the Flora?"], "crew")
    assert (session.vars["boat"], session.vars["wants_offer"]) == ("Flora", True)


def test_s1_94_else_answers_anything_else(load: Any) -> None:
    """The `ELSE` branch of `ON_INPUT` answers what no other branch takes, and the step waits on."""
    session = load(CHOICE).start()
    for words in ("0", "4", "the big one", "-1"):
        turn = session.say(words)
        assert (turn.messages, turn.step, "boat" in session.vars) == (
            ["The number of a boat, please."],
            "choose",
            False,
        )
    assert session.say("3").step == "crew"


# --- CLEAR --------------------------------------------------------------------------------------------------------


def test_s1_95_clear_removes_variables(load: Any) -> None:
    """`CLEAR` removes one or several variables from the session, and no others."""
    agent = load(
        """
        FLOW:
          a:
            REASONING: false
            SET:
              - rope = 1
              - sail = 2
              - mast = 3
              - keel = 4
            CLEAR: rope
            CLEAR: [sail, mast]
            ON_INPUT:
              - ELSE:
        """
    )
    assert dict(agent.start().vars) == {"keel": 4}


def test_s1_96_a_cleared_variable_is_undefined_and_shows_as_empty(load: Any) -> None:
    """After `CLEAR` a variable is undefined, and a template shows nothing for it."""
    agent = load(
        """
        MEMORY:
          session:
            - flag
              INITIAL: "red"
        FLOW:
          a:
            REASONING: false
            RESPOND: "[{{flag}}] {{flag IS SET}}"
            CLEAR: [flag]
            RESPOND: "[{{flag}}] {{flag IS SET}}"
        """
    )
    assert agent.start().opening.messages == ["[red] true", "[] false"]


def test_s1_97_clear_starts_a_search_afresh(load: Any) -> None:
    """A step can clear several values, say so and go back to the step that collects them."""
    agent = load(
        """
        FLOW:
          trip:
            REASONING: false
            GATHER:
              - harbour:
                prompt: "Which harbour?"
              - guests:
                type: number
                prompt: "How many?"
            THEN: offer
          offer:
            REASONING: false
            RESPOND: "{{guests}} from {{harbour}}."
            ON_INPUT:
              - IF: input == "again"
                THEN: restart
              - ELSE:
                RESPOND: "Good."
          restart:
            REASONING: false
            CLEAR: [harbour, guests]
            RESPOND: "From the beginning."
            THEN: trip
        """
    )
    session = agent.start()
    assert [session.say(words).text for words in ("Kiel", "4")] == ["How many?", "4 from Kiel."]
    assert session.say("fine").messages == ["Good."]
    assert session.say("again").messages == ["From the beginning.", "Which harbour?"]
    assert [session.say(words).text for words in ("Faro", "2")] == ["How many?", "2 from Faro."]


def test_s1_98_sub_intents_clear_single_fields(load: Any) -> None:
    """A sub-intent lets the user clear and enter single fields again, while the others stay."""
    agent = load(
        """
        FLOW:
          trip:
            REASONING: false
            GATHER:
              - island: required
              - first_day:
                type: date
              - last_day:
                type: date

            SUB_INTENTS:
              - INTENT: "other island"
                CLEAR: [island]
                RESPOND: "Which island instead?"
              - INTENT: "other days"
                CLEAR: [first_day, last_day]
                RESPOND: "Which days instead?"

            COMPLETE_WHEN: island AND first_day AND last_day
            THEN: sail
          sail:
            REASONING: false
            RESPOND: "{{island}}, {{first_day}} to {{last_day}}."
            ON_INPUT:
              - ELSE:
        """
    )
    session = agent.start()
    session.say("Madeira")
    session.say("2027-05-01")
    turn = session.say("We prefer some other island")
    assert (turn.messages[0], turn.step) == ("Which island instead?", "trip")
    assert (session.vars.get("island"), session.vars["first_day"]) == (None, "2027-05-01")
    session.say("Gomera")
    assert session.say("2027-05-08").messages == ["Gomera, 2027-05-01 to 2027-05-08."]


# --- TRANSFORM ----------------------------------------------------------------------------------------------------

BOATS = [
    {"name": "Elsa", "rent": 80, "seats": 4, "motor": True},
    {"name": "Flora", "rent": 200, "seats": 9, "motor": True},
    {"name": "Greta", "rent": 40, "seats": 2, "motor": False},
    {"name": "Hilde", "rent": 60, "seats": 6, "motor": True},
]


def transformed(load: Any, lines: str, boats: Any = BOATS, **given: Any) -> Any:
    """Return the variables after a `TRANSFORM` of boats with these lines."""
    agent = load(
        """
        MEMORY:
          session:
            - boats
              INPUT: true
            - purse
              INPUT: true
        FLOW:
          a:
            REASONING: false
            TRANSFORM:
              SOURCE: boats AS boat
              INTO: shown
              {lines}
            ON_INPUT:
              - ELSE:
        """.replace("{lines}", lines.replace("\n", "\n              "))
    )
    return agent.start(vars={"boats": boats, **given}).vars


def test_s1_99_transform_is_one_pipeline(load: Any) -> None:
    """`TRANSFORM` filters, maps, sorts and limits an array in one go, and a reply can list the result."""
    agent = load(
        """
        MEMORY:
          session:
            - boats
              INPUT: true
            - purse
              INPUT: true
        FLOW:
          narrow:
            REASONING: false
            TRANSFORM:
              SOURCE: boats AS boat
              INTO: fitting
              FILTER: boat.rent <= purse
              MAP:
                name: boat.name
                rent: boat.rent
              SORT_BY: rent asc
              LIMIT: 2
            RESPOND: |
              {{fitting.length}} boats for you:
              {{#each fitting}}
              {{add @index 1}}. {{name}}: ${{rent}}
              {{/each}}
            THEN: choose
          choose:
            REASONING: false
            ON_INPUT:
              - ELSE:
        """
    )
    session = agent.start(vars={"boats": BOATS, "purse": 100})
    assert session.opening.messages == ["2 boats for you:\n1. Greta: $40\n2. Hilde: $60"]
    assert session.step == "choose"


def test_s1_100_transform_leaves_its_source_alone(load: Any) -> None:
    """`TRANSFORM` makes a new array and does not change the source."""
    after = transformed(load, "FILTER: boat.rent > 100\nMAP:\n  name: boat.name")
    assert (after["shown"], after["boats"]) == ([{"name": "Flora"}], BOATS)


def test_s1_101_filter_keeps_what_meets_a_condition(load: Any) -> None:
    """`FILTER` keeps the items for which its condition holds, also compared with a variable."""
    after = transformed(load, "FILTER: boat.rent <= purse AND boat.motor == true", purse=80)
    assert [boat["name"] for boat in after["shown"]] == ["Elsa", "Hilde"]


def test_s1_102_map_gives_items_new_fields(load: Any) -> None:
    """`MAP` gives each item the fields that it lists."""
    after = transformed(load, "MAP:\n  label: boat.name\n  each: boat.rent / boat.seats")
    assert after["shown"][0] == {"label": "Elsa", "each": 20}
    assert len(after["shown"]) == 4


def test_s1_103_sort_by_orders_items(load: Any) -> None:
    """`SORT_BY` orders items by a field, ascending or descending."""
    names = {
        order: [boat["name"] for boat in transformed(load, f"SORT_BY: rent{order}")["shown"]]
        for order in (" asc", " desc", "")
    }
    assert names[" asc"] == names[""] == ["Greta", "Hilde", "Elsa", "Flora"]
    assert names[" desc"] == ["Flora", "Elsa", "Hilde", "Greta"]


def test_s1_104_limit_cuts_the_list(load: Any) -> None:
    """`LIMIT` keeps at most that number of items."""
    assert [len(transformed(load, f"LIMIT: {limit}")["shown"]) for limit in (1, 3, 9)] == [1, 3, 4]


def test_s1_105_transform_may_only_filter(load: Any) -> None:
    """With `FILTER` alone the items stay as they are."""
    after = transformed(load, "FILTER: boat.motor == false")
    assert after["shown"] == [BOATS[2]]


def test_s1_106_transform_may_only_map(load: Any) -> None:
    """With `MAP` alone every item stays, in its new form."""
    after = transformed(load, "MAP:\n  title: boat.name\n  places: boat.seats\n  flag: boat.flag")
    assert after["shown"][1:3] == [
        {"title": "Flora", "places": 9, "flag": None},
        {"title": "Greta", "places": 2, "flag": None},
    ]
    assert len(after["shown"]) == 4


# --- troubleshooting and good practice ----------------------------------------------------------------------------


def test_s1_107_set_from_an_undefined_variable_gives_null(load: Any) -> None:
    """`SET` gives null if the variable on its right side is not defined yet."""
    agent = load(
        """
        MEMORY:
          session:
            - early
              INITIAL: "dew"
            - late
        FLOW:
          a:
            REASONING: false
            SET:
              - early = source
              - source = "spring"
              - late = source
            RESPOND: "{{early IS SET}} {{late IS SET}}"
        """
    )
    session = agent.start()
    assert (session.vars["early"], session.vars["late"]) == (None, "spring")
    assert session.opening.text == "false true"


def test_s1_108_a_cleared_field_is_asked_for_when_its_step_is_entered_again(load: Any) -> None:
    """`CLEAR` elsewhere does not ask for a gathered field again until the step with its `GATHER` is entered again."""
    agent = load(
        """
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - colour:
                prompt: "Which colour?"
            THEN: paint
          paint:
            REASONING: false
            RESPOND: "Painting."
            ON_INPUT:
              - IF: input == "forget"
                CLEAR: [colour]
                RESPOND: "[{{colour}}]"
              - ELSE:
                THEN: ask
        """
    )
    session = agent.start()
    assert session.say("blue").messages == ["Painting."]
    forgotten = session.say("forget")
    assert (forgotten.messages, forgotten.step) == (["[]"], "paint")
    assert session.say("back").messages == ["Which colour?"]


def test_s1_109_clear_in_a_sub_intent_asks_again(load: Any) -> None:
    """`CLEAR` in a sub-intent, which stays in its step, makes the step ask for the field again."""
    agent = load(
        """
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - colour:
                prompt: "Which colour?"
              - brush:
                prompt: "Which brush?"
            SUB_INTENTS:
              - INTENT: "other colour"
                CLEAR: [colour]
            THEN: COMPLETE
        """
    )
    session = agent.start()
    assert session.say("blue").messages == ["Which brush?"]
    assert session.say("I prefer some other colour").messages == ["Which colour?"]
    session.say("red")
    assert session.vars["colour"] == "red"


def test_s1_110_clear_in_a_digression_asks_again(load: Any) -> None:
    """`CLEAR` in a digression that returns to its step makes the step ask for the field again."""
    text = """
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - colour:
                prompt: "Which colour?"
              - brush:
                prompt: "Which brush?"
            DIGRESSIONS:
              - INTENT: "start over"
                CLEAR: [colour, brush]
                {more}
                RESUME: true
            THEN: COMPLETE
        """
    for more, question in (
        ("SET: again = true", "Which colour?"),
        ('RESPOND: "The colour again?"', "The colour again?"),
    ):
        session = load(text.replace("{more}", more)).start()
        assert session.say("blue").messages == ["Which brush?"]
        assert session.say("start over").messages == [question]
        assert session.say("red").messages == ["Which brush?"]
        assert session.vars["colour"] == "red"


def test_s1_111_transform_gives_an_empty_array_if_nothing_fits(load: Any) -> None:
    """`TRANSFORM` gives an empty array if its filter is too strict or its source is empty."""
    assert transformed(load, "FILTER: boat.rent < 10")["shown"] == []
    assert transformed(load, "FILTER: boat.rent > 10", boats=[])["shown"] == []
    assert len(transformed(load, "FILTER: boat.rent > 10")["shown"]) == 4


def test_s1_112_coalesce_is_safe_in_the_first_session(load: Any, memory: Memory) -> None:
    """`COALESCE` gives a fallback while a persistent path is not filled."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.title
        FLOW:
          a:
            REASONING: false
            RESPOND: "Dear {{COALESCE(user.title, 'friend')}}"
        """
    )
    assert agent.start(user="ada").opening.text == "Dear friend"
    memory.scope(user="ada").set("title", "Countess")
    assert agent.start(user="ada").opening.text == "Dear Countess"


def test_s1_113_a_default_makes_an_agent_work_before_there_is_data(load: Any, memory: Memory) -> None:
    """With `DEFAULT` an agent can compute with a persistent variable before anything was stored."""
    agent = load(
        """
        MEMORY:
          persistent:
            - user.visits
              TYPE: number
              DEFAULT: 0
        FLOW:
          a:
            REASONING: false
            SET: user.visits = user.visits + 1
            RESPOND: "Visit {{user.visits}}."
        """
    )
    assert [agent.start(user="ada").opening.text for _ in range(2)] == ["Visit 1.", "Visit 2."]
    assert memory.scope(user="ada").value("visits") == 2


def test_s1_114_a_sub_intent_resets_state_and_resumes(load: Any) -> None:
    """Paired with a sub-intent, `CLEAR` resets a value in the middle of a step, which then completes as usual."""
    agent = load(
        """
        FLOW:
          order:
            REASONING: false
            GATHER:
              - flavour:
                options: [lemon, mint]
                prompt: "Which flavour?"
              - scoops:
                type: number
                prompt: "How many scoops?"
            SUB_INTENTS:
              - INTENT: "different flavour"
                CLEAR: [flavour]
            RESPOND: "{{scoops}} of {{flavour}}."
            THEN: COMPLETE
        """
    )
    session = agent.start()
    said = [session.say(words).text for words in ("lemon", "a different flavour", "mint", "2")]
    assert said == ["How many scoops?", "Which flavour?", "How many scoops?", "2 of mint."]


def test_s1_115_never_accumulates_over_sessions(load: Any) -> None:
    """`never` suits counters that add up over sessions on purpose; otherwise `per_session` is preferred."""
    text = """
        MEMORY:
          session:
            - guests
              INITIAL: 0
              RESET: {reset}
        FLOW:
          a:
            REASONING: false
            SET: guests = guests + 1
            RESPOND: "{{guests}}"
        """
    said = {
        reset: [agent.start(project="s1-115").opening.text for _ in range(3)]
        for reset in ("never", "per_session")
        for agent in [load(text.replace("{reset}", reset), name=f"Usher_{reset}")]
    }
    assert said == {"never": ["1", "2", "3"], "per_session": ["1", "1", "1"]}
