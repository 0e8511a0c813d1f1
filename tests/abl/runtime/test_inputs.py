"""What a caller may set: the variables that an agent declares as input, and nothing that guards it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import InvalidInput, Memory, SourceError
from memoranda.abl.scripts import run_scripts
from memoranda.agent.models import Ask, Reply, ToolCall

BANK = Path(__file__).parents[3] / "examples" / "abl" / "wire_transfer"

SAFE = """
    MEMORY:
      session:
        - checked
          TYPE: boolean
          INITIAL: false
        - box
          TYPE: number
          INPUT: true
        - label
          INPUT: true
    CONSTRAINTS:
      always:
        - REQUIRE checked == true BEFORE calling open_box
          ON_FAIL: "Not before you were checked."
    FLOW:
      desk:
        REASONING: false
        RESPOND: "Box {{box}}."
        ON_INPUT:
          - IF: input == "pin 42"
            SET: checked = true
            RESPOND: "Checked."
          - ELSE:
            CALL: open_box
            RESPOND: "Open."
"""


@pytest.fixture
def safe(load: Any) -> Any:
    return load(SAFE, tools={"open_box": lambda: None})


def sessions_of(memory: Memory) -> list[str]:
    return [str(event.scope) for event in memory.ledger.events() if event.effect == "start_session"]


def test_what_guards_an_agent_cannot_be_set_when_a_session_starts(safe: Any, memory: Memory):
    with pytest.raises(InvalidInput) as caught:
        safe.start(user="ada", id="forged", vars={"box": 7, "checked": True})
    error = caught.value
    assert (error.variable, error.inputs) == ("checked", ["box", "label"])
    assert "`checked` is not declared as input of `Desk`" in error.message
    assert "Inputs are box, label" in error.hint and "`INPUT: true`" in error.hint
    assert sessions_of(memory) == []
    with pytest.raises(memoranda.NotFound):
        safe.resume("forged")
    session = safe.start(user="ada", id="forged", vars={"box": 7})
    assert session.opening.messages == ["Box 7."]
    assert len(sessions_of(memory)) == 1
    assert session.say("open").messages == ["Not before you were checked."]
    checked = safe.start(user="ada")
    checked.say("pin 42")
    assert checked.say("open").messages == ["Open."]


@pytest.mark.parametrize("name", ["checked", "chekced", "user", "open_box", "channel", "intent", "a b", 7])
def test_every_name_that_is_not_declared_is_refused_in_the_same_words(safe: Any, name: Any):
    """So that a caller cannot find out which variables there are."""
    with pytest.raises(InvalidInput) as caught:
        safe.start(vars={name: 1})
    with pytest.raises(InvalidInput) as other:
        safe.start(vars={"zzzz": 1})
    assert str(caught.value).replace(f"`{name}`", "…") == str(other.value).replace("`zzzz`", "…")


def test_an_input_that_was_probably_meant_is_named(safe: Any):
    with pytest.raises(InvalidInput, match=r"Did you mean `label`\?"):
        safe.start(vars={"lable": "x"})


@pytest.mark.parametrize(
    "name", ["session_id", "user_id", "tenant_id", "project_id", "turn_count", "input", "_x", "call_result", "now"]
)
def test_names_of_the_runtime_are_never_given(safe: Any, name: str):
    with pytest.raises(InvalidInput, match="set by the runtime"):
        safe.start(vars={name: "x"})
    session = safe.start()
    with pytest.raises(InvalidInput, match="set by the runtime"):
        session.vars[name] = "x"


def test_a_value_of_another_type_is_refused_and_nothing_begins(safe: Any, memory: Memory):
    for wrong in ("7", True, [7], {"a": 7}):
        with pytest.raises(InvalidInput, match="`box` of `Desk` needs number") as caught:
            safe.start(vars={"box": wrong})
        assert (caught.value.variable, caught.value.expected) == ("box", "number")
    assert sessions_of(memory) == []
    for right in (7, 7.5, None):
        safe.start(vars={"box": right, "label": ["any", "thing"]})
    assert len(sessions_of(memory)) == 3


def test_an_assignment_is_from_outside_too(safe: Any, memory: Memory):
    session = safe.start(user="ada", vars={"box": 7})
    for name in ("checked", "made_up"):
        with pytest.raises(InvalidInput):
            session.vars[name] = True
        with pytest.raises(InvalidInput):
            session.vars.update({name: True})
    with pytest.raises(InvalidInput):
        session.vars["box"] = "seven"
    with pytest.raises(InvalidInput):
        del session.vars["checked"]
    with pytest.raises(InvalidInput):
        session.vars["checked"] = None
    assert session.say("open").messages == ["Not before you were checked."]
    session.vars["box"] = 8
    assert memoranda.abl.resume(memory, session.id).vars["box"] == 8
    del session.vars["box"]
    assert session.vars["box"] is None
    checked = safe.start(user="ada")
    checked.say("pin 42")
    with pytest.raises(InvalidInput):
        checked.vars.clear()
    assert checked.vars["checked"] is True


def test_a_fact_beside_a_session_does_not_become_one_of_its_variables(safe: Any, memory: Memory):
    session = safe.start(user="ada", vars={"box": 7})
    memory.scope(session=session.id).set("checked", True)
    memory.scope(session=session.id).set("box", 9)
    resumed = memoranda.abl.resume(memory, session.id)
    assert (resumed.vars["checked"], resumed.vars["box"]) == (False, 7)
    assert resumed.say("open").messages == ["Not before you were checked."]


def test_the_agent_that_has_the_conversation_says_what_may_be_set(load: Any):
    clerk = load(
        """
        MEMORY:
          session:
            - desk_number
              INPUT: true
        FLOW:
          one:
            REASONING: false
            ON_INPUT:
              - ELSE:
                RESPOND: "Desk {{desk_number}}."
        """,
        name="Clerk",
    )
    session = load(
        "HANDOFF:\n  - TO: Clerk\n",
        SAFE.replace('RESPOND: "Box {{box}}."', "THEN: HANDOFF Clerk").replace(
            SAFE[SAFE.index("        ON_INPUT") :], ""
        ),
        agents=[clerk],
    ).start(vars={"box": 1})
    assert session.agent == "Clerk"
    with pytest.raises(InvalidInput):
        session.vars["box"] = 2
    session.vars["desk_number"] = 3
    assert session.say("which?").messages == ["Desk 3."]


class Eager:
    """A model that the user has talked into setting what guards the agent."""

    name = "eager"

    def __init__(self, **values: Any) -> None:
        self.values = values
        self.told: list[Any] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        last = ask.messages[-1]
        if last.role == "tool":
            self.told.append(json.loads(last.text))
        done = [said.tool for said in ask.messages if said.role == "tool"]
        if not done:
            return Reply("", (ToolCall("1", "set_variables", {"values": self.values}),))
        if "open_box" not in done:
            return Reply("", (ToolCall("2", "open_box", {}),))
        return Reply("It is open.")


@pytest.mark.parametrize("guard", ["REQUIRE checked == true", "RESTRICT NOT checked", "REQUIRE box_of.checked == true"])
def test_a_model_does_not_set_what_a_rule_looks_at(load: Any, told: Any, guard: str):
    opened: list[int] = []
    text = f"""
        CONSTRAINTS:
          always:
            - {guard} BEFORE calling open_box
              ON_FAIL: "No."
        TOOLS:
          open_box() -> string
            description: "Open it"
        FLOW:
          desk:
            REASONING: true
            GOAL: "Open boxes"
        """
    values = {"checked": True, "box_of": {"checked": True}, "topic": "tea"}
    model = Eager(**values)
    session = load(text, model=model, tools={"open_box": lambda: opened.append(1)}).start()
    assert (session.opening.messages, opened) == (["No."], [])
    assert session.vars["topic"] == "tea"  # what no rule looks at
    assert "a rule reads it" in told(session.opening, "refused")[0]
    assert model.told[0]["refused"] != [] and "topic" in model.told[0]["kept"]
    declared = "MEMORY:\n  session:\n    - checked\n      INPUT: true\n    - box_of\n      INPUT: true\n"
    session = load(declared, text, model=Eager(**values), tools={"open_box": lambda: opened.append(1)}).start()
    assert (session.opening.messages, opened) == (["It is open."], [1])


# --- the declaration ------------------------------------------------------------------------------------------------


def faults(text: str, name: str = "desk.abl") -> list[tuple[str, str, int]]:
    body = text if name.endswith(".yaml") else f'AGENT: Desk\nGOAL: "x"\n{text}'
    try:
        found = memoranda.abl.load(body, memory=memoranda.open(":memory:")).diagnostics
    except SourceError as error:
        found = error.diagnostics
    return [(one.severity, one.code, body[: one.span.start].count("\n") + 1) for one in found]


FLOW = 'FLOW:\n  a:\n    REASONING: false\n    RESPOND: "{{x}}"\n    THEN: COMPLETE\n'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("session:\n    - x\n      INPUT: true", []),
        ("session:\n    - {NAME: x, INPUT: true}", []),
        ("session:\n    - language\n      INPUT: true", []),
        ("session:\n    - x\n      INPUT: maybe", [("error", "wrong_value", 6)]),
        ("session:\n    - x\n      INPUT:", [("error", "wrong_value", 6)]),
        ("session:\n    - result\n      INPUT: true", [("error", "reserved_name", 5)]),
        ("session:\n    - turn_count\n      INPUT: true", [("error", "reserved_name", 5)]),
        ("session:\n    - user\n      INPUT: true", [("error", "reserved_name", 5)]),
        ("persistent:\n    - user.x\n      INPUT: true", [("error", "unknown_keyword", 6)]),
    ],
)
def test_a_declaration_is_checked(lines: str, expected: list[tuple[str, str, int]]):
    found = [one for one in faults(f"MEMORY:\n  {lines}\n{FLOW}") if one[0] != "note"]
    assert found == expected


def test_an_input_that_all_users_would_share_is_refused():
    found = faults(f"MEMORY:\n  session:\n    - x\n      INPUT: true\n      RESET: never\n{FLOW}")
    assert ("error", "wrong_value", 5) in found


def test_persistent_memory_is_not_an_input_and_the_hint_says_why():
    with pytest.raises(SourceError) as caught:
        memoranda.abl.load(
            f'AGENT: Desk\nGOAL: "x"\nMEMORY:\n  persistent:\n    - user.x\n      INPUT: true\n{FLOW}',
            memory=memoranda.open(":memory:"),
        )
    assert "written as facts, by those whose permissions allow it" in caught.value.report
    assert "^" in caught.value.report


def test_both_dialects_declare_inputs_and_the_formatter_writes_them_back(tmp_path: Path, memory: Memory):
    from memoranda.abl.formatter import format_text

    yaml = "agent: Desk\ngoal: x\nmemory:\n  session:\n    - name: x\n      input: true\n    - name: guard\n"
    yaml += 'flow:\n  a:\n    reasoning: false\n    respond: "{{x}}"\n    then: COMPLETE\n'
    (tmp_path / "desk.agent.yaml").write_text(yaml)
    written = format_text(yaml, name="desk.agent.yaml")
    assert "INPUT: true" in written
    for agent in (
        memoranda.abl.load(tmp_path / "desk.agent.yaml", memory=memory),
        memoranda.abl.load(written, memory=memory),
    ):
        assert agent.start(vars={"x": "yes"}).opening.messages == ["yes"]
        with pytest.raises(InvalidInput):
            agent.start(vars={"guard": True})


# --- the bank -------------------------------------------------------------------------------------------------------


def test_the_bank_takes_no_word_for_it_and_its_scripts_may_set_what_they_like(memory: Memory, tmp_path: Path):
    tools, compliance = BANK / "tools.py", BANK / "compliance.abl"
    bank = memoranda.abl.load(BANK / "wire_transfer.abl", memory=memory, tools=tools, agents=[compliance])
    with pytest.raises(InvalidInput, match="identity_checked"):
        bank.start(user="ada", vars={"identity_checked": True})
    script = "agent: wire_transfer.abl\nagents: [compliance.abl]\ntools: tools.py\ntests:\n"
    script += (
        "  - name: A customer who was checked before\n    user: ada\n    vars: {identity_checked: true}\n    steps:\n"
    )
    script += "".join(f"      - say: {word}\n" for word in ("Bea Miller", "Portugal", 1500, "EUR"))
    script += '      - say: "yes"\n        expect: on their way\n'
    for file in ("wire_transfer.abl", "compliance.abl", "tools.py"):
        (tmp_path / file).write_text((BANK / file).read_text())
    (tmp_path / "wire_transfer.tests.yaml").write_text(script)
    report = run_scripts(tmp_path / "wire_transfer.abl")
    assert [(case.name, case.failure) for case in report.cases] == [("A customer who was checked before", None)]
