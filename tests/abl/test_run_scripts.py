"""Scripts talk to an agent: an expected answer passes, and any other ends the test and is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.abl.scripts import Report, run_scripts, scripts_beside
from memoranda.errors import NotFound, SourceError, UsageError

AGENT = """\
AGENT: Porter
GOAL: "Carry luggage"
MEMORY:
  session:
    - bags
      TYPE: number
    - tip
      INITIAL: {coins: [1, 2]}
  persistent:
    - user.room
    - project.fee
      SCOPE: project
      ACCESS: read
      DEFAULT: 3
    - loyalty.points
      SCOPE: project
  remember:
    - WHEN: room IS SET
      STORE: room -> user.room
      TTL: 10d
    - WHEN: room IS SET
      STORE: {room, at: now} -> loyalty.points
TOOLS:
  lift(weight: number) -> {floor: number}
FLOW:
  ask:
    REASONING: false
    RESPOND: "Good day.{{#if user.room IS SET}} Room {{user.room}} again?{{/if}}"
    GATHER:
      - room: required
        prompt: "Which room?"
        type: number
    THEN: carry
  carry:
    REASONING: false
    CALL: lift(12)
    ON_SUCCESS:
      SET: bags = call_result.floor
      RESPOND: "Carried to floor {{bags}} for {{project.fee}} coins, {{voice}}."
    ON_FAIL:
      RESPOND: "The lift is broken."
      THEN: ESCALATE
    THEN: wait_here
  wait_here:
    REASONING: false
    ON_INPUT:
      - IF: input == "quiet"
        SET: bags = 0
      - ELSE:
        RESPOND: "You said {{input}}."
        THEN: COMPLETE
"""
TOOLS = """\
calls = []


def lift(weight):
    calls.append(weight)
    return {"floor": len(calls)}
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run the steps of one test, or a whole file, on the porter."""
    (tmp_path / "porter.abl").write_text(AGENT)
    (tmp_path / "tools.py").write_text(TOOLS)

    def call(steps: str = "", *, head: str = "", text: str | None = None, **options: object) -> Report:
        lines = "".join(f"      {line}\n" for line in steps.strip().splitlines())
        body = text or f"tools: tools.py\ntests:\n  - name: One\n{head}    steps:\n{lines}"
        (tmp_path / "porter.tests.yaml").write_text(body)
        return run_scripts(tmp_path / "porter.abl", **options)  # type: ignore[arg-type]

    return call


def failure(report: Report):
    [case] = report.cases
    assert (report.passed, report.failed, case.passed) == (0, 1, False)
    assert case.failure is not None
    return case.failure


def test_a_whole_conversation_is_as_expected(run):
    report = run("""
- expect: [Good day., "Which room?", {not: again}]
  expect step: ask
  expect status: waiting
  expect agent: Porter
- say: 7
  expect: {is: "Carried to floor 1 for 3 coins, ."}
  expect vars: {bags: 1, tip.coins.1: 2, nothing: null}
  expect fact: {user.room: 7, project.fee: null, loyalty.points.room: 7}
  expect event: [called lift, remembered user.room]
  expect step: wait_here
- say: quiet
  expect no message: true
- say: hello there
  expect: {matches: "^You said hel+o there\\\\.$"}
  expect status: completed
""")
    assert report.cases[0].failure is None
    assert (report.passed, report.failed) == (1, 0)
    assert report.path.endswith("porter.tests.yaml")


WRONG = {
    "words that were not said": ("- expect: Bonjour", "`Bonjour`", "Good day.\nWhich room?"),
    "words in another case": ("- expect: good day", "`good day`", "Good day.\nWhich room?"),
    "one of several words": ("- expect: [Good, Bad]", "`Bad`", "Good day.\nWhich room?"),
    "not exactly that": ("- expect: {is: Good day.}", "exactly `Good day.`", "Good day.\nWhich room?"),
    "words that should not come": ("- expect: {not: Good}", "not `Good`", "Good day.\nWhich room?"),
    "a pattern that does not match": ("- expect: {matches: ^Which}", "what matches `^Which`", "Good day.\nWhich room?"),
    "a message where there should be none": ("- expect no message: true", "no message", "Good day.\nWhich room?"),
    "another step": ("- expect step: carry", 'the step "carry"', '"ask"'),
    "a step where there should be none": ("- expect step: null", "the step null", '"ask"'),
    "another status": ("- expect status: blocked", 'the status "blocked"', '"waiting"'),
    "another agent": ("- expect agent: Maid", 'the agent "Maid"', '"Porter"'),
    "an event that did not happen": ("- expect event: called lift", "the event `called lift`", ""),
    "one of several events": ("- expect event: [recalled, called taxi]", "the event `recalled`", ""),
    "another variable": ("- expect vars: {tip.coins: [1]}", "`tip.coins` to be [1]", "[1,2]"),
    "a variable that has a value": ("- expect vars: {tip: null}", "`tip` to be null", '{"coins":[1,2]}'),
    "truth for a number": ("- expect vars: {tip.coins.0: true}", "`tip.coins.0` to be true", "1"),
    "a fact that is not there": ("- expect fact: {user.room: 7}", "`user.room` to be 7", "null"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_as_expected_ends_the_test(run, name):
    step, expected, got = WRONG[name]
    found = failure(run(step))
    assert expected in found.expected
    assert got in found.got
    assert (found.line, found.said) == (5, None)


def test_a_fact_that_should_not_be_there_ends_the_test(run):
    assert run("- say: 7\n  expect fact: {user.room: 7}").passed == 1
    found = failure(run("- say: 7\n  expect fact: {user.room: null}"))
    assert (found.expected, found.got) == ("the fact `user.room` to be null", "7")
    assert found.said == "7"
    assert "called lift" in found.trace


def test_silence_is_named_as_such(run):
    found = failure(run("- say: 7\n- say: quiet\n  expect: hello"))
    assert found.got == "(no message)"


def test_words_of_the_opening_are_pointed_to(run):
    found = failure(run("- say: 7\n  expect: Good day."))
    assert "before the first `say`" in found.hint
    assert failure(run("- say: 7\n  expect: Bad day.")).hint == ""


def test_facts_variables_and_tools_are_given_before(run):
    head = (
        "    facts: {user.room: 9, project.fee: 5, loyalty.points: 1}\n"
        "    vars: {voice: sir}\n"
        "    tools: {lift: [{floor: 8}, {error: stuck}]}\n"
    )
    report = run(
        """
- expect: Room 9 again?
  expect fact: {loyalty.points: 1}
- say: 7
  expect: "Carried to floor 8 for 5 coins, sir."
- end: true
- expect: Room 7 again?
- say: 8
  expect: The lift is broken.
  expect status: escalated
- end: true
- say: 9
  expect: The lift is broken.
""",
        head=head,
    )
    assert report.cases[0].failure is None


def test_a_fact_below_another_cannot_be_given(run):
    with pytest.raises(UsageError, match="cannot be a fact before"):
        run("- say: 7", head="    facts: {user.room.door: 1}\n")


def test_time_stands_still_until_the_script_waits(run):
    report = run(
        """
- say: 7
  expect fact: {loyalty.points.at: "2026-03-01T08:00:00.000Z"}
- wait: 9d
  expect fact: {user.room: 7}
- wait: 86399s
  expect fact: {user.room: 7}
- wait: 1s
  expect fact: {user.room: null}
- end: true
- expect: {not: again}
""",
        head="    now: 2026-03-01T09:00:00+01:00\n",
    )
    assert report.cases[0].failure is None


def test_users_have_sessions_and_facts_of_their_own(run):
    report = run(
        """
- say: 7
  expect step: wait_here
- as: bob
  expect: {not: again}
  expect step: ask
  expect fact: {user.room: null}
- say: 5
  expect fact: {user.room: 5}
- as: ada
  expect step: wait_here
  expect fact: {user.room: 7}
- end: true
- expect: Room 7 again?
- as: bob
  expect step: wait_here
""",
        head="    user: ada\n",
    )
    assert report.cases[0].failure is None


def test_tests_share_neither_memory_nor_tools(run):
    one = "    steps:\n      - expect: {not: again}\n      - say: 7\n        expect: floor 1\n"
    report = run(text=f"tools: tools.py\ntests:\n  - name: A\n{one}  - name: B\n{one}")
    assert [(case.name, case.line, case.passed) for case in report.cases] == [("A", 3, True), ("B", 8, True)]


def test_a_failed_test_leaves_the_others_alone(run):
    text = (
        "tools: tools.py\ntests:\n  - name: A\n    steps: [{expect: Bonjour}, {say: 7}]\n"
        "  - name: B\n    steps: [{expect: Good day}]\n"
    )
    report = run(text=text)
    assert [case.passed for case in report.cases] == [False, True]
    assert (report.passed, report.failed) == (1, 1)


def test_tools_can_be_given_by_the_caller(run):
    report = run("- say: 7\n  expect: floor 42", tools={"lift": lambda weight: {"floor": 42}})
    assert report.passed == 1


def test_the_agent_is_beside_the_scripts_or_named_in_them(tmp_path):
    (tmp_path / "porter.agent.abl").write_text(AGENT)
    scripts = tmp_path / "porter.tests.yaml"
    scripts.write_text("tests:\n  - name: A\n    steps: [{expect: Good day}]\n")
    assert run_scripts(scripts).passed == 1
    assert run_scripts(tmp_path / "porter.agent.abl").passed == 1
    (tmp_path / "other.yaml").write_text("agent: porter.agent.abl\n" + scripts.read_text())
    assert run_scripts(tmp_path / "other.yaml").passed == 1


def test_names_tell_what_a_file_is():
    assert scripts_beside(Path("a/desk.abl")) == Path("a/desk.tests.yaml")
    assert scripts_beside(Path("desk.agent.abl")) == Path("desk.tests.yaml")
    assert scripts_beside(Path("desk.agent.yaml")) == Path("desk.tests.yaml")
    assert scripts_beside(Path("some.yaml")) == Path("some.yaml")
    with pytest.raises(UsageError, match=r"`desk\.txt` is neither"):
        scripts_beside(Path("desk.txt"))


def test_what_is_missing_or_faulty_is_said(tmp_path, run):
    (tmp_path / "lonely.abl").write_text(AGENT)
    with pytest.raises(NotFound, match=r"lonely\.tests\.yaml"):
        run_scripts(tmp_path / "lonely.abl")
    (tmp_path / "orphan.tests.yaml").write_text("tests: [{name: A, steps: [{say: hi}]}]\n")
    with pytest.raises(NotFound, match="no agent found for"):
        run_scripts(tmp_path / "orphan.tests.yaml")
    (tmp_path / "bytes.tests.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not text in UTF-8"):
        run_scripts(tmp_path / "bytes.tests.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        (tmp_path / "folder.yaml").mkdir()
        run_scripts(tmp_path / "folder.yaml")
    with pytest.raises(SourceError, match="`sya` is not a key"):
        run("- sya: hi")
    run("- say: hi")
    (tmp_path / "porter.abl").write_text(AGENT.replace("THEN: carry", "THEN: carrry"))
    with pytest.raises(SourceError, match="carrry"):
        run_scripts(tmp_path / "porter.abl")
