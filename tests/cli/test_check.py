"""`memoranda check` and `format`: everything that is wrong with a file at once, and its canonical layout."""

from __future__ import annotations

from pathlib import Path

import pytest

GOOD = """\
AGENT: Porter
GOAL: "Carry luggage"

FLOW:
  ask:
    REASONING: false
    RESPOND: "Good day."
    THEN: COMPLETE
"""
WARNED = GOOD + '  attic:\n    REASONING: false\n    RESPOND: "Nobody comes here."\n    THEN: COMPLETE\n'
BROKEN = GOOD.replace("RESPOND", "RESPONT").replace("COMPLETE", "compleet")


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    Path("good.abl").write_text(GOOD)
    Path("warned.abl").write_text(WARNED)
    Path("broken.abl").write_text(BROKEN)


def test_a_good_file_passes_and_no_database_is_made(cli):
    done = cli("check", "good.abl")
    assert (done.code, done.out, done.err) == (0, "1 file: no problems\n", "")
    assert cli("check", "good.abl", "--json").json == []
    assert cli("check", "good.abl", "--strict").code == 0
    assert not Path("memory.db").exists()


def test_all_faults_are_shown_with_line_caret_and_hint(cli):
    done = cli("check", "broken.abl", "good.abl")
    assert done.code == 1
    assert "broken.abl:7:5: error[unknown_keyword]" in done.out
    assert "  7 |     RESPONT:" in done.out
    assert "^^^^^^^" in done.out
    assert "Did you mean `RESPOND`?" in done.out
    assert "broken.abl:8:11: error[unknown_step]" in done.out
    assert done.out.endswith("2 files: 2 errors\n")


def test_json_holds_places_for_programs(cli):
    done = cli("check", "broken.abl", "--json")
    assert done.code == 1
    found = {one["code"]: one for one in done.json}
    assert found["unknown_keyword"] == {
        "file": "broken.abl",
        "line": 7,
        "column": 5,
        "end_line": 7,
        "end_column": 12,
        "severity": "error",
        "code": "unknown_keyword",
        "message": found["unknown_keyword"]["message"],
        "hint": found["unknown_keyword"]["hint"],
        "path": "",
    }


def test_warnings_fail_only_when_that_is_asked_for(cli):
    done = cli("check", "warned.abl")
    assert (done.code, done.err) == (0, "")
    assert "warning[unreachable]" in done.out
    assert done.out.endswith("1 file: 1 warning\n")
    assert cli("check", "warned.abl", "--strict").code == 1


def test_the_lowercase_dialect_and_scripts_are_checked_too(cli):
    Path("porter.agent.yaml").write_text("agent: Porter\ngoal: carry\nflow:\n  ask:\n    reasoning: fals\n")
    Path("good.tests.yaml").write_text("tests:\n  - name: One\n    steps: [{say: hi}]\n")
    Path("bad.tests.yaml").write_text("tests:\n  - name: One\n    stops: [{say: hi}]\n")
    assert cli("check", "good.tests.yaml").code == 0
    done = cli("check", "porter.agent.yaml", "bad.tests.yaml")
    assert done.code == 1
    assert "porter.agent.yaml:5:" in done.out
    assert "bad.tests.yaml:3:5: error[unknown_key]" in done.out


def test_a_file_that_cannot_be_is_refused_with_2(cli):
    done = cli("check", "porter.txt")
    assert done.code == 2
    assert "`porter.txt` is not a program" in done.err
    assert ".abl, .agent.yaml" in done.err
    assert cli("check", "missing.abl").code == 2
    Path("bytes.abl").write_bytes(b"\xff\xfe\x00")
    assert "not text in UTF-8" in cli("check", "bytes.abl").err
    assert cli("check").code == 2


def test_a_value_cannot_steer_the_terminal(cli):
    Path("evil.abl").write_text(GOOD.replace("Good day.", "\x1b[2J{{").replace("Porter", "P"))
    done = cli("check", "evil.abl")
    assert done.code == 1
    assert "\x1b" not in done.out


UGLY = (
    GOOD.replace("    REASONING", "        reasoning")
    .replace("    RESPOND", "        RESPOND")
    .replace("    THEN", "        THEN")
)


def test_format_rewrites_what_is_not_canonical(cli):
    Path("ugly.abl").write_text(UGLY)
    done = cli("format", "ugly.abl", "good.abl")
    assert (done.code, done.out) == (0, "ugly.abl is formatted\n")
    assert Path("ugly.abl").read_text() == GOOD
    assert Path("good.abl").read_text() == GOOD
    assert cli("format", "ugly.abl").out == "1 file in canonical layout\n"


def test_format_can_look_without_writing(cli):
    Path("ugly.abl").write_text(UGLY)
    done = cli("format", "ugly.abl", "good.abl", "--check")
    assert (done.code, done.out) == (1, "ugly.abl would change\n")
    assert Path("ugly.abl").read_text() == UGLY
    assert cli("format", "ugly.abl", "--check", "--json").json == {"changed": ["ugly.abl"], "written": False}
    assert cli("format", "good.abl", "--check").code == 0
    assert cli("format", "ugly.abl", "--json").json == {"changed": ["ugly.abl"], "written": True}
    assert Path("ugly.abl").read_text() == GOOD


def test_format_leaves_everything_alone_when_one_file_is_broken(cli):
    Path("ugly.abl").write_text(UGLY)
    done = cli("format", "ugly.abl", "broken.abl")
    assert (done.code, done.out) == (1, "")
    assert "broken.abl:7:5" in done.err
    assert Path("ugly.abl").read_text() == UGLY
    assert cli("format", "broken.abl", "--json").error["code"] == "source_error"
    assert cli("format", "porter.agent.yaml").code == 2


WORKFLOW = """\
defs:
  greet:
    kind: task
    action: send_text_message
    inputs: {text: "='Good day, ' & $input.name"}
flow:
  - do: greet
"""
CARRYING = WORKFLOW.replace("send_text_message", "carry").replace("text:", "suitcase:")
ACTIONS = """\
from memoranda.workflow import action

@action("carry", inputs={"type": "object", "properties": {"suitcase": {}}, "additionalProperties": False})
def carry(call):
    \"\"\"Carry a suitcase.\"\"\"
"""


def test_every_other_yaml_is_a_workflow(cli):
    Path("greet.yaml").write_text(WORKFLOW)
    Path("greet.yml").write_text(WORKFLOW)
    done = cli("check", "greet.yaml", "greet.yml", "good.abl")
    assert (done.code, done.out) == (0, "3 files: no problems\n")
    Path("bad.yaml").write_text(WORKFLOW.replace("text:", "txt:").replace("- do: greet", "- do: great"))
    bad = cli("check", "bad.yaml")
    assert bad.code == 1
    assert "bad.yaml:5:14: error[unknown_input]" in bad.out
    assert "Did you mean `text`?" in bad.out and "Did you mean `greet`?" in bad.out
    assert not Path("memory.db").exists()


def test_json_names_the_path_in_a_workflow(cli):
    Path("bad.yaml").write_text(WORKFLOW.replace("text:", "txt:"))
    Path("worse.yaml").write_text("defs: {a: [\n")
    [found] = [one for one in cli("check", "bad.yaml", "--json").json if one["code"] == "unknown_input"]
    assert (found["path"], found["line"], found["file"]) == ("defs.greet.inputs.txt", 5, "bad.yaml")
    assert {one["path"] for one in cli("check", "worse.yaml", "--json").json} == {""}
    assert cli("check", "broken.abl", "--json").json[0]["path"] == ""


def test_own_actions_are_known_when_they_are_named(cli):
    Path("carry.yaml").write_text(CARRYING)
    Path("porters.py").write_text(ACTIONS)
    unknown = cli("check", "carry.yaml")
    assert (unknown.code, cli("check", "carry.yaml", "--strict").code) == (0, 1)
    assert "warning[unknown_action]" in unknown.out
    assert "= Give it to the workflow when it is loaded (`--tools` on the command line)\n" in unknown.out
    known = cli("check", "carry.yaml", "good.abl", "--tools", "porters.py", "--strict")
    assert (known.code, known.out) == (0, "2 files: no problems\n")
    Path("carry.yaml").write_text(CARRYING.replace("suitcase", "suitcas"))
    assert "Did you mean `suitcase`?" in cli("check", "carry.yaml", "--tools", "porters.py").out
    wrong = cli("check", "good.abl", "--tools", "porters.py")
    assert wrong.code == 2
    assert "--tools is not for an agent" in wrong.err
    assert cli("check", "carry.yaml", "--tools", "nowhere.py").code == 2


def test_a_workflow_has_no_canonical_layout(cli):
    Path("greet.yaml").write_text(WORKFLOW)
    done = cli("format", "greet.yaml")
    assert done.code == 2
    assert "It supports .abl, .mashin; this is a workflow" in done.err
    assert cli("format", "good.abl").code == 0


def test_a_file_of_tests_is_read_as_what_it_tests(cli):
    Path("greet.yaml").write_text(WORKFLOW)
    Path("greet.tests.yaml").write_text("tests:\n  - name: One\n    input: {name: Ada}\n    expect: {status: done}\n")
    Path("good.tests.yaml").write_text("tests:\n  - name: One\n    steps: [{say: hi, expect status: done}]\n")
    done = cli("check", "greet.tests.yaml", "good.tests.yaml", "--json")
    assert done.code == 1
    assert {(one["file"], one["line"]) for one in done.json} == {("greet.tests.yaml", 4), ("good.tests.yaml", 3)}
    Path("greet.tests.yaml").write_text("tests:\n  - name: One\n    input: {name: Ada}\n    expect: {status: failed}\n")
    Path("good.tests.yaml").write_text("tests:\n  - name: One\n    steps: [{say: hi, expect status: waiting}]\n")
    assert cli("check", "greet.tests.yaml", "good.tests.yaml").code == 0
