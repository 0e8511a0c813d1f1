"""Machines on the command line: run, tested and checked; and runs that wait, go on elsewhere, and are replayed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from memoranda.cli.check import Case, Report, write_junit

LENDING = """\
machine lending
  accepts
    reader as text, is required
    title as text, is required, min_length: 2
  responds with
    message as text
    stored as boolean
  ensures
    permissions
      allowed to memory.read
      requires approval for memory.write
  implements
    recall known
      query: input.title
      collection: "loans"
    remember lend
      content: "${input.reader} has borrowed ${input.title}"
      collection: "loans"
    compute receipt
      { message: "${input.reader}: ${input.title} (${known.count} before)", stored: lend.stored }
  verifies
    test "a book is lent"
      given { reader: "Ada", title: "Emma" }
      expect { message: "Ada: Emma (0 before)" }
    test "the shelf is looked at"
      given { reader: "Ada", title: "Emma" }
      assuming known { results: [{ content: "x", metadata: {}, score: 0.5 }] }
      expect { message: "Ada: Emma (1 before)", stored: false }
    test "a title says something"
      given { reader: "Ada", title: "E" }
      expect { error: { type: "contract" } }
"""
RETURNING = """\
machine returning
  responds with
    state as text
  implements
    wait for parcel
      event: "parcel"
      schema
        state as text, is required
    compute done
      { state: parcel.state }
"""
BRANCH = """\
machine branch
  accepts
    reader as text, is required
  responds with
    told as text
  ensures
    permissions
      allowed to call "lending"
  implements
    ask lent, from: "lending"
      reader: input.reader
      title: "Emma"
    compute done
      { told: "At the branch, " + lent.message }
"""
LIBRARIAN = """\
machine librarian
  accepts
    question as text, is required
  responds with
    answer as text
  ensures
    permissions
      allowed to llm_call
  implements
    ask reply, using: "openai:made-up"
      with task "Answer: ${input.question}"
      returns
        answer as text
      assuming
        answer: "Ask at the desk."
    compute done
      { answer: reply.answer }
"""
PATIENCE = 60.0
"""Seconds after which a run whose second is over counts as hung; nothing is measured with it."""
GIVEN = '{"reader": "Ada", "title": "Emma"}'


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "hashing:64")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, text in {
        "lending": LENDING,
        "returning": RETURNING,
        "branch": BRANCH,
        "librarian": LIBRARIAN,
    }.items():
        Path(f"{name}.mashin").write_text(text)


def begun(cli: Any, *arguments: str) -> str:
    """Run a machine up to where it waits, and return its run's id."""
    done = cli("run", *arguments, "--json")
    assert (done.code, done.json["status"]) == (0, "waiting")
    return done.json["run"]


def entries(cli: Any) -> list[str]:
    done = cli("entries", "--collection", "loans", "--json")
    return [one["content"] for one in done.json] if done.code == 0 else []


# run -> waiting -> approve, in processes of their own


def test_a_run_waits_in_one_process_and_is_approved_in_another(process):
    first = process("run", "lending.mashin", "--input", GIVEN, "--user", "ada", "--db", "library.db")
    assert (first.code, first.out) == (0, "")
    waits, *about, approve, refuse = first.err.splitlines()
    id = waits.split()[0]
    assert waits == f"{id} waits for approval: the step `lend` needs memory.write."
    assert "  collection: loans" in about
    assert "  content: Ada has borrowed Emma" in about
    assert approve == f"Approve: memoranda approve {id} lend --db library.db"
    assert refuse == f"Refuse:  memoranda approve {id} lend --refuse --db library.db"
    listed = process("entries", "--user", "ada", "--collection", "loans", "--db", "library.db", "--json")
    assert "borrowed" not in listed.out

    words = approve.removeprefix("Approve: memoranda ").split()
    second = process(*words, "--reason", "as agreed")
    assert (second.code, second.err) == (0, f"{id} is completed\n")
    assert json.loads(second.out) == {"message": "Ada: Emma (0 before)", "stored": True}
    assert second.out.startswith('{\n  "message"')
    listed = process("entries", "--user", "ada", "--collection", "loans", "--db", "library.db", "--json")
    assert [one["content"] for one in listed.json] == ["Ada has borrowed Emma"]
    [approval] = process("approvals", "list", "--status", "all", "--db", "library.db", "--json").json
    assert (approval["status"], approval["reason"]) == ("approved", "as agreed")

    again = process("approve", id, "lend", "--db", "library.db")
    assert again.code == 1
    assert "is completed and waits for nothing" in again.err
    assert process("ledger", "verify", "--db", "library.db").code == 0
    assert process("replay", id, "--db", "library.db").out == f"{id} is the same again: completed\n"


def test_a_refusal_ends_the_run_and_nothing_is_done(cli):
    id = begun(cli, "lending.mashin", "-i", GIVEN)
    done = cli("approve", id, "lend", "--refuse", "--reason", "not on a Sunday")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{id} is failed: owner refused the step `lend`: not on a Sunday\n"
    assert entries(cli) == []
    other = begun(cli, "lending.mashin", "-i", GIVEN)
    shown = cli("approve", other, "lend", "--refuse", "--json")
    assert (shown.code, shown.json["status"], shown.json["error"]["type"]) == (0, "failed", "permission_denied")
    third = begun(cli, "lending.mashin", "-i", GIVEN)
    assert cli("approve", third, "lend").code == 0
    assert entries(cli) == ["Ada has borrowed Emma"]


def test_a_run_that_waits_is_cancelled_and_nothing_is_done(cli):
    id = begun(cli, "lending.mashin", "-i", GIVEN)
    done = cli("cancel", id, "--reason", "the shelf is empty")
    assert (done.code, done.out, done.err) == (0, f"{id} is cancelled\n", "")
    assert "the shelf is empty" in cli("runs", "show", id).out
    late = cli("approve", id, "lend")
    assert (late.code, "is cancelled and waits for nothing" in late.err) == (1, True)
    assert cli("replay", id).code == 0
    assert entries(cli) == []
    other = begun(cli, "lending.mashin", "-i", GIVEN)
    assert cli("approve", other, "lend").code == 0
    assert entries(cli) == ["Ada has borrowed Emma"]


def test_a_refusal_that_the_machine_handles_gives_its_output(cli):
    handled = LENDING.partition("  verifies")[0]
    handled += '    on failure\n      compute sorry\n        { message: "No: ${error.type}", stored: false }\n'
    Path("lending.mashin").write_text(handled)
    id = begun(cli, "lending.mashin", "-i", GIVEN)
    done = cli("approve", id, "lend", "--refuse")
    assert (done.code, json.loads(done.out)["message"]) == (0, "No: permission_denied")


def test_only_the_step_that_waits_can_be_decided(cli):
    id = begun(cli, "lending.mashin", "-i", GIVEN)
    wrong = cli("approve", id, "known")
    assert (wrong.code, wrong.out) == (2, "")
    assert f"the run `{id}` waits at `lend`, not at `known`" in wrong.err
    assert f"memoranda approve {id} lend" in wrong.err
    assert cli("approve", id, "known", "--json").error["details"] == {"run": id, "step": "lend"}
    assert entries(cli) == []
    payload = cli("resume", id, "--payload", "{}")
    assert payload.code == 2
    assert f"waits for approval of `lend`\nhint: Continue: memoranda approve {id} lend" in payload.err
    assert cli("approve", "run_nowhere", "lend").code == 1
    assert cli("approve", id, "lend").code == 0


def test_what_was_decided_elsewhere_only_has_to_go_on(cli):
    id = begun(cli, "lending.mashin", "-i", GIVEN)
    still = cli("resume", id)
    assert (still.code, still.out) == (0, "")
    assert "waits for approval" in still.err
    [approval] = cli("approvals", "list", "--json").json
    assert cli("approvals", "approve", approval["id"]).code == 0
    late = cli("approve", id, "lend", "--refuse")
    assert late.code == 1
    assert f"was approved by `owner` already\nhint: Continue: memoranda resume {id}" in late.err
    done = cli("resume", id)
    assert (done.code, json.loads(done.out)["stored"]) == (0, True)


# events


def test_a_run_waits_for_an_event_and_another_process_delivers_it(process):
    first = process("run", "returning.mashin")
    assert (first.code, first.out) == (0, "")
    id = first.err.split()[0]
    assert first.err == (
        f"{id} waits at `parcel` for the event `parcel`.\nDeliver: memoranda resume {id} --payload JSON\n"
    )
    wrong = process("resume", id, "--payload", '{"state": 3}')
    assert wrong.code == 2
    assert "$.state needs text" in wrong.err
    done = process("resume", id, "--payload", "-", input='{"state": "torn"}')
    assert (done.code, json.loads(done.out)) == (0, {"state": "torn"})
    late = process("resume", id, "--payload", '{"state": "whole"}')
    assert (late.code, late.out) == (1, "")
    assert "is completed and waits for nothing" in late.err


def test_a_payload_comes_from_a_file_and_has_to_be_json(cli):
    id = begun(cli, "returning.mashin")
    broken = cli("resume", id, "--payload", "torn")
    assert broken.code == 2
    assert "in --payload is not JSON" in broken.err
    assert cli("resume", id, "--payload", "@nowhere.json").code == 2
    approve = cli("approve", id, "parcel")
    assert approve.code == 2
    assert f"waits for an event at `parcel`\nhint: Continue: memoranda resume {id} --payload JSON" in approve.err
    Path("parcel.json").write_text('{"state": "whole"}')
    done = cli("resume", id, "--payload", "@parcel.json", "--json")
    assert (done.code, done.json["output"]) == (0, {"state": "whole"})


def test_a_run_whose_time_is_over_goes_on_by_itself(cli):
    timed = RETURNING.replace(
        'event: "parcel"\n', 'event: "parcel"\n      timeout: "1s"\n      on_timeout: flow(late)\n'
    )
    timed += '    flow late\n      compute given_up\n        { state: "late" }\n'
    Path("returning.mashin").write_text(timed)
    id = begun(cli, "returning.mashin")
    ends = time.monotonic() + PATIENCE
    while (done := cli("resume", id, "--json")).json["status"] == "waiting" and time.monotonic() < ends:
        assert done.code == 0
    assert done.json["output"] == {"state": "late"}


# machines that call one another


def test_a_run_that_waits_for_another_is_followed(process):
    first = process("run", "branch.mashin", "-i", '{"reader": "Kim"}', "--machines", "lending.mashin")
    assert (first.code, first.out) == (0, "")
    outer, inner = (line.split()[0] for line in first.err.splitlines()[:2])
    assert first.err.splitlines()[0] == f"{outer} waits at `lent` for {inner}, a run of the machine `lending`."
    assert f"Approve: memoranda approve {inner} lend --machines lending.mashin\n" in first.err
    done = process("approve", outer, "lend")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {"told": "At the branch, Kim: Emma (0 before)"}
    assert f"{outer} waits for {inner}, a run of the machine `lending`\n" in done.err
    assert f"{inner} is completed, so that {outer} goes on\n" in done.err


def test_deciding_about_the_inner_run_goes_on_with_the_outer(cli):
    outer = begun(cli, "branch.mashin", "-i", '{"reader": "Kim"}', "--machines", "lending.mashin")
    inner = cli("resume", outer, "--json").json
    assert (inner["parent"], inner["waiting"]["step"]) == (outer, "lend")
    done = cli("approve", inner["run"], "lend", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["run"], done.json["status"]) == (outer, "completed")
    refused = begun(cli, "branch.mashin", "-i", '{"reader": "Kim"}', "--machines", "lending.mashin")
    done = cli("approve", refused, "lend", "--refuse", "--json")
    assert (done.code, done.json["run"], done.json["error"]["type"]) == (0, refused, "machine")


def test_machines_that_are_not_given_are_named(cli):
    done = cli("run", "branch.mashin", "-i", '{"reader": "Kim"}')
    assert done.code == 1
    assert "unknown machine `lending` here\nhint: Load it together with the machine that calls it" in done.err
    assert "(`--machines` on the command line), or call one of branch\n" in done.err
    assert cli("run", "branch.mashin", "--machines", "nowhere.mashin").code == 2
    wrong = cli("run", "branch.mashin", "--machines", "lending.abl")
    assert wrong.code == 2
    assert "It supports .mashin" in wrong.err


# run


def test_input_that_does_not_fit_is_a_wrong_call_and_leaves_no_run(cli):
    for given, says in {
        '{"reader": "Ada"}': "$.title",
        "{}": "$.reader",
        '{"reader": "Ada", "title": "Emma", "pages": 3}': "$.pages",
        "[1]": "in --input is not a JSON object",
        "Ada": "in --input is not a JSON object",
        "@nowhere.json": "`nowhere.json` cannot be read",
    }.items():
        done = cli("run", "lending.mashin", "-i", given)
        assert (done.code, done.out) == (2, "")
        assert says in done.err
    faults = cli("run", "lending.mashin", "-i", "{}", "--json").error["details"]["faults"]
    assert [fault["path"] for fault in faults] == ["$.reader", "$.title"]
    assert cli("ledger", "tail", "--json").json == []
    assert cli("run", "lending.mashin", "-i", GIVEN).code == 0
    assert cli("ledger", "tail", "--json").json != []


def test_input_comes_from_a_file_or_from_stdin(cli, process):
    Path("given.json").write_text(GIVEN)
    options = ("--mode", "test", "--json")
    assert cli("run", "lending.mashin", "-i", "@given.json", *options).json["status"] == "completed"
    assert process("run", "lending.mashin", "-i", "-", *options, input=GIVEN).json["status"] == "completed"
    nothing = process("run", "lending.mashin", "-i", "-", *options, input="")
    assert (nothing.code, nothing.out) == (2, "")


def test_a_test_run_remembers_nothing_and_asks_nobody(cli):
    done = cli("run", "lending.mashin", "-i", GIVEN, "--mode", "test")
    assert (done.code, json.loads(done.out)) == (0, {"message": "Ada: Emma (0 before)", "stored": False})
    assert entries(cli) == []
    asked = cli("run", "librarian.mashin", "-i", '{"question": "Where?"}', "--mode", "test")
    assert json.loads(asked.out) == {"answer": "Ask at the desk."}
    assert cli("run", "lending.mashin", "-i", GIVEN, "--mode", "dream").code == 2


def test_json_is_one_object_about_the_run(cli):
    done = cli("run", "lending.mashin", "-i", GIVEN, "--mode", "test", "--json")
    assert (done.code, done.err) == (0, "")
    shown = done.json
    assert list(shown) == ["run", "machine", "parent", "status", "output", "error", "waiting", "steps"]
    assert (shown["machine"], shown["status"], shown["error"], shown["waiting"]) == ("lending", "completed", None, None)
    assert list(shown["steps"]) == ["known", "lend", "receipt"]
    waits = cli("run", "lending.mashin", "-i", GIVEN, "--json").json
    assert (waits["output"], waits["waiting"]["kind"], waits["waiting"]["step"]) == (None, "approval", "lend")
    assert waits["waiting"]["capability"] == "memory.write"


def test_a_run_that_fails_leaves_with_1_and_says_type_step_message_and_hint(cli):
    denied = LENDING.replace("      allowed to memory.read\n", "")
    Path("lending.mashin").write_text(denied)
    done = cli("run", "lending.mashin", "-i", GIVEN)
    assert (done.code, done.out) == (1, "")
    assert "error[run_failed]: the machine `lending` failed at `known` (permission_denied): " in done.err
    assert "hint: Add `allowed to memory.read`" in done.err
    shown = cli("run", "lending.mashin", "-i", GIVEN, "--json")
    assert (shown.code, shown.err) == (1, "")
    assert (shown.json["status"], shown.json["error"]["type"]) == ("failed", "permission_denied")
    assert shown.json["error"]["step"] == "known"


def test_a_trace_is_a_line_for_each_step_beside_the_output(cli):
    id = begun(cli, "lending.mashin", "-i", GIVEN)
    done = cli("approve", id, "lend", "--trace")
    assert json.loads(done.out)["stored"] is True
    lines = [line.split() for line in done.err.splitlines()]
    assert [(line[1], line[2]) for line in lines[:-1]] == [
        ("known", "memory"),
        ("lend", "pending"),
        ("lend", "approved"),
        ("lend", "memory"),
        ("receipt", "compute"),
    ]
    assert "memory" not in cli("run", "lending.mashin", "-i", GIVEN, "--mode", "test").err
    traced = cli("run", "lending.mashin", "-i", GIVEN, "--mode", "test", "--trace", "--json")
    assert traced.json["status"] == "completed"
    assert "collection=loans" in traced.err


def test_a_faulty_machine_is_shown_with_all_its_faults(cli):
    Path("bad.mashin").write_text(LENDING.replace("recall known", "recal known").replace("input.reader", "input.readr"))
    for arguments in (("run", "bad.mashin", "-i", GIVEN), ("test", "bad.mashin")):
        done = cli(*arguments)
        assert (done.code, done.out) == (1, "")
        assert done.err.count("error[") >= 2
        assert "bad.mashin:13:5" in done.err and "readr" in done.err
        assert len(cli(*arguments, "--json").error["details"]["diagnostics"]) >= 2


def test_options_of_the_other_language_are_refused(cli):
    Path("porter.abl").write_text('AGENT: Porter\nGOAL: "x"\nFLOW:\n  a:\n    REASONING: false\n    RESPOND: "Hi."\n')
    for option in (
        ("--message", "hi"),
        ("--vars", "{}"),
        ("--session", "s"),
        ("--project", "p"),
        ("--agents", "a.abl"),
    ):
        done = cli("run", "lending.mashin", "-i", GIVEN, *option)
        assert done.code == 2
        assert f"{option[0]} is not for a machine" in done.err
        assert "--input" in done.err
    for option in (("--input", "{}"), ("--mode", "test"), ("--machines", "lending.mashin"), ("--budget-tokens", "0")):
        done = cli("run", "porter.abl", "-m", "hi", *option)
        assert done.code == 2
        assert f"{option[0]} is not for an agent" in done.err
        assert "--message" in done.err
    assert not Path("memory.db").exists()
    assert cli("run", "porter.abl", "-m", "hi").code == 0
    assert cli("test", "lending.mashin", "--model", "openai:x").code == 2
    assert cli("test", "porter.abl", "--machines", "lending.mashin").code == 2


def test_a_machine_that_is_not_there_makes_no_database(cli):
    assert cli("run", "nowhere.mashin").code == 2
    assert cli("approve", "run_1", "lend").code == 1
    assert cli("resume", "run_1").code == 1
    assert cli("replay", "run_1").code == 1
    assert not Path("memory.db").exists()
    assert cli("run", "lending.mashin", "-i", GIVEN).code == 0
    assert Path("memory.db").exists()


# models


def test_a_live_run_asks_the_model_and_a_budget_ends_it(process, wire, server):
    environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-made-up-for-tests"}
    answer = wire.says('{"answer": "On the third shelf."}')
    server.waiting += [answer]
    asked = ("run", "librarian.mashin", "-i", '{"question": "Where?"}')
    done = process(*asked, "--model", "openai-chat:made-up", env=environment)
    assert done.code == 0, done.err
    assert json.loads(done.out) == {"answer": "On the third shelf."}
    assert len(server.asked) == 1
    assert "Where?" in json.dumps(server.asked[0].body)
    stopped = process(*asked, "--model", "openai-chat:made-up", "--budget-model-calls", "0", "--json", env=environment)
    assert (stopped.code, stopped.json["error"]["type"]) == (1, "budget_exceeded")
    assert len(server.asked) == 1
    without = process(*asked)
    assert without.code == 1
    assert "OPENAI_API_KEY" in without.err


def test_what_a_machine_needs_is_asked_for_in_the_words_of_the_command_line(cli):
    Path("librarian.mashin").write_text(LIBRARIAN.replace(', using: "openai:made-up"', ""))
    unnamed = cli("run", "librarian.mashin", "-i", '{"question": "Where?"}')
    assert unnamed.code == 1
    assert 'hint: Write `using: "provider:model"`, or name one when the machine is loaded (`--model` on' in unnamed.err
    Path("librarian.mashin").write_text(
        LIBRARIAN.replace("ensures\n", "ensures\n    needs\n      shelf_key: required\n")
    )
    needy = cli("run", "librarian.mashin", "-i", '{"question": "Where?"}')
    assert needy.code == 2
    assert "hint: Set SHELF_KEY in the environment\n" in needy.err
    assert cli("run", "librarian.mashin", "-i", '{"question": "Where?"}', "--mode", "test").code == 0


# replay


def test_a_replay_under_other_permissions_says_what_would_have_been_denied(process):
    first = process("run", "lending.mashin", "-i", GIVEN, "--json").json
    id = first["run"]
    process("approve", id, "lend")
    same = process("replay", id, "--json")
    assert (same.code, same.json["same"], same.json["differences"]) == (0, True, [])
    assert same.json["output"]["stored"] is True

    denied = process("replay", id, "--deny", "memory.read")
    assert denied.code == 0
    assert "Would have been denied: known\n" in denied.out
    assert "It was completed, and would have been failed\n" in denied.out
    assert denied.out.splitlines()[0].split() == ["step", "capability", "was", "would", "be", "why"]
    shown = process("replay", id, "--allow", "memory", "--json").json
    assert [(one["step"], one["was"], one["decision"]) for one in shown["decisions"]] == [
        ("known", "allow", "allow"),
        ("lend", "pending", "allow"),
    ]
    assert (shown["denied"], shown["pending"], shown["status"]) == ([], [], "completed")
    waits = process("replay", id, "--approve", "memory", "--json").json
    assert waits["pending"] == ["known", "lend"]
    wrong = process("replay", id, "--deny", "memry")
    assert wrong.code == 2
    assert "`memry` is not a capability" in wrong.err


# test


def test_tests_of_a_machine_are_a_line_each_and_touch_no_database(process):
    done = process("test", "lending.mashin")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "lending.mashin\n"
        "  ok      a book is lent\n"
        "  ok      the shelf is looked at\n"
        "  ok      a title says something\n"
        "3 tests passed\n"
    )
    assert not Path("memory.db").exists()


def test_a_failed_test_shows_what_differs(cli):
    Path("lending.mashin").write_text(LENDING.replace('(0 before)" }', '(7 before)", stored: true }'))
    done = cli("test", "lending.mashin")
    assert done.code == 1
    assert done.out.splitlines()[:8] == [
        "lending.mashin",
        "  FAILED  a book is lent",
        "          lending.mashin:22: the output is another one",
        "          message",
        '            expected  "Ada: Emma (7 before)"',
        '            got       "Ada: Emma (0 before)"',
        "          stored",
        "            expected  true",
    ]
    assert done.out.endswith("2 tests passed, 1 failed\n")
    shown = cli("test", "lending.mashin", "--json")
    assert (shown.code, shown.json["passed"], shown.json["failed"]) == (1, 2, 1)
    failed, *others = shown.json["cases"]
    assert (failed["file"], failed["line"], failed["passed"]) == ("lending.mashin", 22, False)
    assert failed["failure"]["diff"][1] == {"path": "stored", "expected": True, "got": False}
    assert [case["failure"] for case in others] == [None, None]


def test_a_failed_run_in_a_test_says_why_and_what_to_do(cli):
    Path("lending.mashin").write_text(LENDING.replace("      allowed to memory.read\n", ""))
    done = cli("test", "lending.mashin")
    assert done.code == 1
    assert "lending.mashin:21: the run failed at `known` (permission_denied): " in done.out
    assert "          hint      Add `allowed to memory.read`" in done.out


def test_machines_that_are_called_can_be_given_to_tests(cli):
    tests = """\
  verifies
    test "lent"
      given { reader: "Kim" }
      expect { told: "At the branch, Kim: Emma (0 before)" }
"""
    Path("branch.mashin").write_text(BRANCH + tests)
    assert cli("test", "branch.mashin", "--machines", "lending.mashin").out.endswith("1 test passed\n")
    alone = cli("test", "branch.mashin")
    assert alone.code == 1
    assert "has nothing to give in a test" in alone.out


def test_a_machine_without_tests_says_so(cli):
    done = cli("test", "returning.mashin", "lending.mashin")
    assert done.code == 0
    assert done.out.startswith("returning.mashin\n  (no tests)\nlending.mashin\n")
    assert done.out.endswith("3 tests passed\n")


def test_junit_holds_the_tests_of_both_languages(cli):
    Path("echo.abl").write_text('AGENT: Echo\nGOAL: "x"\nFLOW:\n  a:\n    REASONING: false\n    RESPOND: "Yes?"\n')
    Path("echo.tests.yaml").write_text(
        "tests:\n  - name: It asks\n    steps: [{expect: 'Yes?'}]\n  - name: It shouts\n    steps: [{expect: 'YES'}]\n"
    )
    Path("lending.mashin").write_text(LENDING.replace('(0 before)" }', '(7 before) <&>\\u0001" }'))
    done = cli("test", "lending.mashin", "echo.abl", "--junit", "results.xml")
    assert done.code == 1
    root = ElementTree.parse("results.xml").getroot()
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "5", "2")
    machine, agent = root
    assert (machine.get("name"), machine.get("tests"), machine.get("failures")) == ("lending.mashin", "3", "1")
    assert (agent.get("name"), agent.get("tests"), agent.get("failures")) == ("echo.tests.yaml", "2", "1")
    assert [case.get("name") for case in machine] == [
        "a book is lent",
        "the shelf is looked at",
        "a title says something",
    ]
    [failure] = machine[0]
    assert failure.get("message") == "lending.mashin:22: the output is another one"
    assert failure.text is not None and 'got       "Ada: Emma (0 before)"' in failure.text
    assert (list(machine[1]), machine[1].get("line"), machine[1].get("file")) == ([], "25", "lending.mashin")
    [shout] = agent[1]
    assert shout.text is not None and "expected  `YES`" in shout.text


def test_junit_writes_what_xml_cannot_hold_and_says_where_it_cannot_write(tmp_path, cli):
    write_junit("odd.xml", [Report("a\x00.mashin", [Case("b\x1b\ud800\ufffe", 1, None, "c\x08\nd")])])
    [[case]] = ElementTree.parse("odd.xml").getroot()
    assert (case.get("classname"), case.get("name"), case[0].text) == (
        "a\ufffd.mashin",
        "b\ufffd\ufffd\ufffd",
        "c\ufffd\nd",
    )
    done = cli("test", "lending.mashin", "--junit", str(tmp_path / "no" / "results.xml"))
    assert done.code == 2
    assert "cannot be written" in done.err


# check and format


def test_a_machine_is_checked(cli):
    good = cli("check", "lending.mashin", "branch.mashin")
    assert (good.code, good.out) == (0, "2 files: no problems\n")
    Path("bad.mashin").write_text(
        LENDING.replace("recall known", "recal known").replace("stored: lend", "stored: lent")
    )
    done = cli("check", "bad.mashin")
    assert done.code == 1
    assert "bad.mashin:13:5: error[" in done.out
    assert "^" in done.out
    shown = cli("check", "bad.mashin", "--json").json
    assert {one["file"] for one in shown} == {"bad.mashin"}
    assert (shown[0]["line"], shown[0]["severity"]) == (13, "error")
    Path("warned.mashin").write_text(
        LENDING.replace('given { reader: "Ada", title: "Emma" }', 'given { title: "Emma" }')
    )
    assert cli("check", "warned.mashin").code == 0
    assert cli("check", "warned.mashin", "--strict").code == 1
    assert not Path("memory.db").exists()


def test_a_machine_is_formatted(cli):
    assert cli("format", "lending.mashin", "--check").code == 0
    Path("ugly.mashin").write_text(LENDING.replace("  ", "     "))
    assert cli("format", "ugly.mashin", "--check").code == 1
    done = cli("format", "ugly.mashin", "lending.mashin")
    assert (done.code, done.out) == (0, "ugly.mashin is formatted\n")
    assert Path("ugly.mashin").read_text() == Path("lending.mashin").read_text() == LENDING
    Path("bad.mashin").write_text(LENDING.replace("recall known", "recal known"))
    broken = cli("format", "bad.mashin")
    assert (broken.code, broken.out) == (1, "")
    assert "bad.mashin:13:5" in broken.err


# text that has lost its indentation

PASTED = """\
machine desk
accepts
message as text, is required
ensures
permissions
allowed to
llm_call, memory
implements
ask respond, using: "openai-chat:made-up"
with task "Visitor: ${input.message}"
returns
reply as text
remember turn
content: "Visitor: " + input.message + " Desk: " + steps.respond.reply
collection: "visits"
"""


def test_a_pasted_machine_is_indented_and_prints_its_reply(cli, process, wire, server):
    Path("pasted.mashin").write_text(PASTED)
    done = cli("check", "pasted.mashin", "--json")
    assert (done.code, [one["code"] for one in done.json]) == (1, ["no_indentation"])
    assert "`memoranda format` on the command line" in done.json[0]["hint"]
    assert cli("run", "pasted.mashin", "-i", "{}").code != 0
    assert cli("format", "pasted.mashin").out == "pasted.mashin is formatted\n"
    assert cli("check", "pasted.mashin").code == 0
    server.waiting += [wire.says('{"reply": "It is an oak."}')] * 2
    environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-made-up-for-tests"}
    shown = process("run", "pasted.mashin", "-i", '{"message": "Which tree?"}', env=environment)
    assert (shown.code, json.loads(shown.out)) == (0, {"reply": "It is an oak."}), shown.err
    told = process("run", "pasted.mashin", "-i", '{"message": "Which tree?"}', "--json", env=environment)
    assert told.json["output"] == {"reply": "It is an oak."}


def test_a_pasted_machine_with_a_line_that_fits_twice_is_not_changed(cli):
    text = "machine a\nimplements\ndecide b\nwhen true\ncompute c\n1\ncompute d\n2\n"
    Path("twice.mashin").write_text(text)
    done = cli("format", "twice.mashin")
    assert done.code == 1 and "twice.mashin:7:1" in done.err and "`compute d`" in done.err
    assert Path("twice.mashin").read_text() == text
    assert "it is unclear whether `compute d` belongs to `when true` on line 4" in cli("check", "twice.mashin").out
