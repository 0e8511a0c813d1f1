"""`memoranda test`: a line for each test, and for one that failed where, what was expected, and what came."""

from __future__ import annotations

from pathlib import Path

import pytest

AGENT = """\
AGENT: Echo
GOAL: "Repeat"
MEMORY:
  persistent:
    - user.last
TOOLS:
  shout(text: string) -> string
FLOW:
  listen:
    REASONING: false
    RESPOND: "Yes?"
    ON_INPUT:
      - IF: input startsWith "shout"
        CALL: shout(input)
        ON_SUCCESS:
          RESPOND: "{{call_result}}"
      - ELSE:
        SET: user.last = input
        RESPOND: "{{input}}, {{input}}."
"""
SCRIPTS = """\
tools: tools.py
tests:
  - name: It repeats
    user: ada
    steps:
      - expect: "Yes?"
      - say: hello
        expect: hello, hello.
        expect fact: {user.last: hello}
  - name: It shouts
    steps:
      - say: shout
        expect: SHOUT
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    Path("echo.abl").write_text(AGENT)
    Path("echo.tests.yaml").write_text(SCRIPTS)
    Path("tools.py").write_text("def shout(text):\n    return text.upper()\n")


def test_tests_that_pass_are_a_line_each_and_touch_no_database(process):
    done = process("test", "echo.abl")
    assert (done.code, done.err) == (0, "")
    assert done.out == "echo.tests.yaml\n  ok      It repeats\n  ok      It shouts\n2 tests passed\n"
    assert not Path("memory.db").exists()


def test_a_failed_test_tells_where_what_and_how(cli):
    Path("echo.tests.yaml").write_text(SCRIPTS.replace("expect: hello, hello.", "expect: hello, world."))
    done = cli("test", "echo.tests.yaml")
    assert done.code == 1
    assert done.out.splitlines()[:6] == [
        "echo.tests.yaml",
        "  FAILED  It repeats",
        "          echo.tests.yaml:8: after `hello`",
        "          expected  `hello, world.`",
        "          got       hello, hello.",
        "          trace     input hello",
    ]
    assert "  ok      It shouts" in done.out
    assert done.out.endswith("1 test passed, 1 failed\n")


def test_json_holds_every_case(cli):
    assert cli("test", "echo.abl", "--json").json == {
        "passed": 2,
        "failed": 0,
        "cases": [
            {"file": "echo.tests.yaml", "name": "It repeats", "line": 3, "passed": True, "failure": None},
            {"file": "echo.tests.yaml", "name": "It shouts", "line": 10, "passed": True, "failure": None},
        ],
    }
    Path("echo.tests.yaml").write_text(SCRIPTS.replace("expect: SHOUT", "expect: whisper"))
    done = cli("test", "echo.abl", "--json")
    assert done.code == 1
    failure = done.json["cases"][1]["failure"]
    assert (failure["line"], failure["said"], failure["expected"], failure["got"]) == (
        13,
        "shout",
        "`whisper`",
        "SHOUT",
    )
    assert "called shout" in failure["trace"]


def test_tools_can_be_replaced(cli):
    Path("other.py").write_text("def shout(text):\n    return 'hush'\n")
    done = cli("test", "echo.abl", "--tools", "other.py")
    assert done.code == 1
    assert "got       hush" in done.out


def test_several_files_are_one_result(cli):
    Path("more.tests.yaml").write_text("agent: echo.abl\ntests:\n  - name: More\n    steps: [{expect: 'Yes?'}]\n")
    done = cli("test", "echo.abl", "more.tests.yaml")
    assert done.out.endswith("3 tests passed\n")


def test_faults_of_scripts_and_agents_are_shown_with_their_places(cli):
    Path("echo.tests.yaml").write_text(SCRIPTS.replace("- say: shout", "- shout: now"))
    done = cli("test", "echo.abl")
    assert (done.code, done.out) == (1, "")
    assert "echo.tests.yaml:12:9: error[unknown_key]: `shout` is not a key of a step" in done.err
    Path("echo.tests.yaml").write_text(SCRIPTS)
    Path("echo.abl").write_text(AGENT.replace("RESPOND", "RESPONT", 1))
    done = cli("test", "echo.abl")
    assert done.code == 1
    assert "echo.abl:11:5: error[unknown_keyword]" in done.err


def test_what_is_missing_is_said(cli):
    assert cli("test", "echo.txt").code == 2
    Path("lonely.abl").write_text(AGENT)
    done = cli("test", "lonely.abl")
    assert done.code == 1
    assert "the file `lonely.tests.yaml` does not exist" in done.err
    assert "beside it" in done.err
