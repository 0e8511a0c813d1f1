"""`memoranda test` of workflows: a line for each test, and whose tests a file holds."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ECHO = """\
defs:
  say: {kind: task, action: send_text_message, inputs: {text: "=$input.text & '!'"}}
  loud: {kind: task, action: shout, inputs: {text: "=$input.text"}}
flow: [{do: say}, {do: loud}]
outputs: {loud: =$output.loud}
"""
ACTIONS = """\
import memoranda.workflow


@memoranda.workflow.action
def shout(text: str) -> str:
    '''Say it louder.'''
    return text.upper()
"""
TESTS = """\
actions: actions.py
tests:
  - name: It echoes
    input: {text: hello}
    expect:
      messages: [hello!]
      output: {loud: HELLO}
  - name: It is quiet
    input: {text: hush}
    actions: {shout: {value: hush}}
    expect: {output: {loud: hush}}
"""
AGENT = 'AGENT: Echo\nGOAL: "Repeat"\nFLOW:\n  listen:\n    REASONING: false\n    RESPOND: "Yes?"\n'
TALK = "tests:\n  - name: It answers\n    steps: [{expect: 'Yes?'}]\n"


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    Path("echo.yaml").write_text(ECHO)
    Path("echo.tests.yaml").write_text(TESTS)
    Path("actions.py").write_text(ACTIONS)


def test_tests_that_pass_are_a_line_each_and_touch_no_database(process):
    done = process("test", "echo.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out == "echo.tests.yaml\n  ok      It echoes\n  ok      It is quiet\n2 tests passed\n"
    assert not Path("memory.db").exists()


def test_a_failed_test_tells_where_what_and_how(cli):
    Path("echo.tests.yaml").write_text(TESTS.replace("[hello!]", "[goodbye!]").replace("HELLO", "Hello"))
    done = cli("test", "echo.tests.yaml")
    assert done.code == 1
    assert done.out.splitlines() == [
        "echo.tests.yaml",
        "  FAILED  It echoes",
        "          echo.tests.yaml:6: after `run`: messages[0]",
        "          expected  exactly `goodbye!`",
        "          got       hello!",
        "          echo.tests.yaml:7: after `run`: output.loud",
        '          expected  "Hello"',
        '          got       "HELLO"',
        "          trace     say (send_text_message)",
        "                    loud (shout)",
        "  ok      It is quiet",
        "1 test passed, 1 failed",
    ]


def test_json_holds_every_case(cli):
    done = cli("test", "echo.yaml", "--json")
    assert done.json["passed"] == 2
    assert done.json["cases"][1] == {
        "file": "echo.tests.yaml",
        "name": "It is quiet",
        "line": 8,
        "passed": True,
        "failure": None,
    }
    Path("echo.tests.yaml").write_text(TESTS.replace("HELLO", "Hello"))
    done = cli("test", "echo.yaml", "--json")
    assert done.code == 1
    failure = done.json["cases"][0]["failure"]
    assert (failure["line"], failure["after"]) == (7, "run")
    assert failure["mismatches"] == [{"path": "output.loud", "expected": '"Hello"', "got": '"HELLO"', "line": 7}]


def test_a_report_for_build_servers_holds_tests_of_every_language(cli):
    Path("talk.abl").write_text(AGENT)
    Path("talk.tests.yaml").write_text(TALK)
    Path("echo.tests.yaml").write_text(TESTS.replace("HELLO", "Hello"))
    assert cli("test", "echo.yaml", "talk.abl", "--junit", "report.xml").code == 1
    root = ET.parse("report.xml").getroot()
    assert root.attrib == {"tests": "3", "failures": "1", "errors": "0", "skipped": "0"}
    assert [suite.get("name") for suite in root] == ["echo.tests.yaml", "talk.tests.yaml"]
    [failure] = root.iter("failure")
    assert failure.get("message") == "echo.tests.yaml:7: after `run`: output.loud"


def test_the_module_of_actions_can_be_replaced(cli):
    Path("other.py").write_text(ACTIONS.replace("text.upper()", "text.title()"))
    assert 'got       "Hello"' in cli("test", "echo.yaml", "--tools", "other.py").out


def test_a_program_and_its_tests_are_tested_once(cli):
    assert cli("test", "echo.yaml", "echo.tests.yaml").out.endswith("\n2 tests passed\n")
    Path("talk.abl").write_text(AGENT)
    Path("talk.tests.yaml").write_text(TALK)
    assert cli("test", "talk.tests.yaml", "talk.abl", "echo.yaml").out.endswith("\n3 tests passed\n")


@pytest.mark.parametrize("beside", ["talk.abl", "talk.agent.abl", "talk.agent.yaml"])
def test_a_file_that_could_be_of_an_agent_or_a_workflow_has_to_say_which(cli, beside):
    yaml = "agent: Echo\ngoal: Repeat\nflow:\n  listen:\n    reasoning: false\n    respond: 'Yes?'\n"
    Path(beside).write_text(yaml if beside.endswith("yaml") else AGENT)
    Path("talk.tests.yaml").write_text(TALK)
    assert cli("test", "talk.tests.yaml").code == 0
    Path("talk.yaml").write_text(ECHO)
    for name in ("talk.tests.yaml", beside, "talk.yaml"):
        done = cli("test", name)
        assert done.code == 2
        assert f"`talk.tests.yaml` may be the tests of `{beside}` or of `talk.yaml`" in done.err
        assert f"`agent: {beside}` or `workflow: talk.yaml`" in done.err
    Path("talk.tests.yaml").write_text(f"agent: {beside}\n{TALK}")
    assert cli("test", "talk.tests.yaml").code == 0
    Path("talk.tests.yaml").write_text(f"workflow: echo.yaml\n{TESTS}")
    assert cli("test", "talk.tests.yaml").out.endswith("2 tests passed\n")


def test_tests_that_are_another_programs_are_not_run_for_this_one(cli):
    Path("talk.abl").write_text(AGENT)
    Path("echo.tests.yaml").write_text(f"agent: talk.abl\n{TALK}")
    done = cli("test", "echo.yaml")
    assert done.code == 2
    assert "are those of the agent that it names, not of `echo.yaml`" in done.err
    assert cli("test", "echo.tests.yaml").code == 0
    Path("talk.tests.yaml").write_text(f"workflow: echo.yaml\n{TESTS}")
    assert "are those of the workflow that it names, not of `talk.abl`" in cli("test", "talk.abl").err
    Path("both.tests.yaml").write_text(f"agent: talk.abl\nworkflow: echo.yaml\n{TALK}")
    done = cli("test", "both.tests.yaml")
    assert (done.code, "Use a test file for each" in done.err) == (2, True)


def test_what_is_missing_is_said(cli):
    Path("lonely.yaml").write_text(ECHO)
    done = cli("test", "lonely.yaml")
    assert done.code == 1
    assert "the file `lonely.tests.yaml` does not exist" in done.err
    assert "`desk.yaml` in `desk.tests.yaml`" in done.err
    Path("orphan.tests.yaml").write_text("tests:\n  - name: A\n    expect: {status: completed}\n")
    done = cli("test", "orphan.tests.yaml")
    assert done.code == 1
    assert "`orphan.tests.yaml` belongs to no agent or workflow" in done.err
    assert "`workflow: hotel.yaml`" in done.err
    assert "the file `gone.tests.yaml` does not exist" in cli("test", "gone.tests.yaml").err


def test_faults_of_tests_and_of_their_workflow_are_shown_with_their_places(cli):
    Path("echo.tests.yaml").write_text(TESTS.replace("expect:\n", "expct:\n"))
    done = cli("test", "echo.yaml")
    assert (done.code, done.out) == (1, "")
    assert "echo.tests.yaml:5:5: error[unknown_key]: `expct` is not a key of a test" in done.err
    Path("echo.tests.yaml").write_text(TESTS)
    Path("echo.yaml").write_text(ECHO.replace("{do: loud}", "{do: lod}"))
    done = cli("test", "echo.yaml")
    assert done.code == 1
    assert "echo.yaml:4:24: error[unknown_task]" in done.err
    Path("echo.tests.yaml").write_text("agent: [\n")
    assert "never closed" in cli("test", "echo.yaml").err


def test_options_that_would_be_for_nothing_are_refused(cli):
    Path("door.mashin").write_text("")
    done = cli("test", "echo.yaml", "--machines", "door.mashin")
    assert (done.code, "--machines is not for agents and workflows" in done.err) == (2, True)
    assert cli("test", "echo.yaml").code == 0
