"""Workflows on the command line: run for a user, suspended in one process and resumed in another, and cancelled."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

BICYCLE = {"type": "object", "properties": {"wish": {"type": "string"}, "colour": {"type": "string"}}}
ID = "5c1f4a52-8d1a-4a66-9d3e-0c6a4b1f7e21"

GREET = """\
inputs:
  schema:
    type: object
    properties: {name: {type: string}, text: {type: string}}
    required: [name]
defs:
  greet: {kind: task, action: send_text_message, inputs: {text: "='Good day, ' & $input.name & '.'"}}
  offer: {kind: task, action: send_text_message, inputs: {text: 'What is it about?'}}
flow:
  - do: greet
  - do: offer
outputs:
  guest: =$input.name
"""
ASK = f"""\
defs:
  bicycle: {{kind: memory, settings: {{definition_id: {ID}}}}}
  ask: {{kind: task, action: send_text_message, inputs: {{text: 'What is to be done?'}}}}
  listen: {{kind: task, action: wait_for_reply}}
  save:
    kind: task
    action: update_memory
    inputs: {{memory: {{bicycle: {{wish: =$output.listen.text}}}}}}
  thank: {{kind: task, action: send_text_message, inputs: {{text: "='Noted: ' & $context.memory.bicycle.wish"}}}}
flow:
  - do: ask
  - do: listen
  - do: save
  - do: thank
outputs:
  wish: =$output.listen.text
"""
SHOP = """\
defs:
  open: {kind: task, action: send_text_message, inputs: {text: The shop is open.}}
  order: {kind: task, action: call_workflow, inputs: {workflow: ask}}
  close: {kind: task, action: send_text_message, inputs: {text: "='Until tomorrow, for: ' & $output.order.wish"}}
flow:
  - do: open
  - do: order
  - do: close
"""
ACTIONS = """\
from memoranda.workflow import action

@action("price", inputs={"type": "object", "properties": {"part": {"type": "string"}}, "required": ["part"]})
def price(call):
    \"\"\"The price of a part.\"\"\"
    if call.inputs["part"] == "saddle":
        raise ValueError("saddles are sold out")
    return {"price": 3 * len(call.inputs["part"])}

@action("delivery")
def delivery(call):
    \"\"\"Wait until a part is delivered.\"\"\"
    return {"came": call.place.wait("delivery", timeout=call.inputs.get("timeout"))}
"""
PRICE = """\
defs:
  say: {kind: task, action: send_text_message, inputs: {text: Let me see.}}
  look: {kind: task, action: price, inputs: {part: =$input.part}}
flow:
  - do: say
  - do: look
outputs:
  price: =$output.look.price
"""
PARCEL = """\
defs:
  parcel: {kind: task, action: delivery}
flow:
  - do: parcel
outputs:
  came: =$output.parcel.came
"""
PATIENCE = 60.0
"""Seconds after which a run whose second is over counts as hung; nothing is measured with it."""


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    written = {"greet": GREET, "ask": ASK, "shop": SHOP, "price": PRICE, "parcel": PARCEL}
    for name, text in written.items():
        Path(f"{name}.yaml").write_text(text)
    Path("parts.py").write_text(ACTIONS)


@pytest.fixture
def bicycle(cli: Any) -> None:
    """The definition that the workflow `ask` names, in memory.db."""
    define(cli)


def define(cli: Any, *options: str) -> None:
    named = ("--name", "Bicycle", "--slug", "bicycle", "--id", ID, "--scope", "thread")
    done = cli("definitions", "create", *named, "--schema", json.dumps(BICYCLE), *options)
    assert done.code == 0, done.err


def begun(cli: Any, *arguments: str) -> str:
    """Run a workflow up to where it waits, and return its run's id."""
    done = cli("run", *arguments, "--user", "ada", "--json")
    assert (done.code, done.json["status"]) == (0, "waiting"), done
    return done.json["run"]


# run


def test_what_a_workflow_says_comes_first_and_then_its_output(cli):
    done = cli("run", "greet.yaml", "--user", "ada", "--input", '{"name": "Ada"}')
    assert done.code == 0, done.err
    assert done.out == 'Good day, Ada.\nWhat is it about?\n{\n  "guest": "Ada"\n}\n'
    id = done.err.split()[0]
    assert done.err == f"{id} is completed\n"
    assert cli("runs", "show", id, "--json").json["program"] == "greet"


def test_a_workflow_that_gives_nothing_prints_nothing_but_what_it_says(cli):
    Path("greet.yaml").write_text(GREET.partition("outputs:")[0])
    done = cli("run", "greet.yaml", "--user", "ada", "-i", '{"name": "Ada"}')
    assert (done.code, done.out) == (0, "Good day, Ada.\nWhat is it about?\n")
    Path("mute.yaml").write_text(
        "defs:\n  n: {kind: task, action: set_context, inputs: {values: {a: 1}}}\nflow:\n  - do: n\n"
    )
    mute = cli("run", "mute.yaml", "--user", "ada")
    assert (mute.code, mute.out) == (0, "{}\n"), mute.err


def test_json_is_one_object_about_the_run(cli):
    done = cli("run", "greet.yaml", "--user", "ada", "-i", '{"name": "Ada"}', "--thread", "t1", "--json")
    assert (done.code, done.err) == (0, "")
    shown = done.json
    assert list(shown) == [
        *("run", "workflow", "parent", "thread", "status"),
        *("output", "outputs", "messages", "error", "waiting"),
    ]
    assert (shown["workflow"], shown["status"], shown["thread"]) == ("greet", "completed", "t1")
    assert (shown["output"], list(shown["outputs"])) == ({"guest": "Ada"}, ["greet", "offer"])
    assert shown["messages"] == ["Good day, Ada.", "What is it about?"]
    assert (shown["error"], shown["waiting"], shown["parent"]) == (None, None, None)


def test_a_message_is_the_text_of_the_input(cli):
    Path("echo.yaml").write_text(
        "defs:\n  e: {kind: task, action: send_text_message, inputs: {text: \"='You said ' & $input.text\"}}\n"
        "flow:\n  - do: e\noutputs: {given: =$input}\n"
    )
    assert cli("run", "echo.yaml", "--user", "ada", "-m", "hello").out.startswith("You said hello\n")
    with_more = cli("run", "echo.yaml", "--user", "ada", "-m", "hello", "-i", '{"loud": true}', "--json")
    assert with_more.json["output"] == {"given": {"loud": True, "text": "hello"}}
    both = cli("run", "echo.yaml", "--user", "ada", "-m", "hello", "-i", '{"text": "hi"}')
    assert both.code == 2
    assert "--message and --input both have `text`" in both.err
    twice = cli("run", "echo.yaml", "--user", "ada", "-m", "hello", "-m", "again")
    assert twice.code == 2
    assert "a workflow takes one --message" in twice.err


def test_what_begins_like_an_expression_stays_text(cli):
    Path("echo.yaml").write_text(
        "defs:\n  e: {kind: task, action: send_text_message, inputs: {text: =$input.text}}\nflow:\n  - do: e\n"
    )
    assert cli("run", "echo.yaml", "--user", "ada", "-m", "=1+1").out == "=1+1\n"
    assert cli("run", "echo.yaml", "--user", "ada", "-m", "a\x1b[2Jb").out == "a\\x1b[2Jb\n"


def test_input_comes_from_a_file_or_from_stdin(cli, process):
    Path("given.json").write_text('{"name": "Ada"}')
    assert cli("run", "greet.yaml", "--user", "ada", "-i", "@given.json").out.startswith("Good day, Ada.")
    piped = process("run", "greet.yaml", "--user", "ada", "-i", "-", input='{"name": "Kim"}')
    assert piped.out.startswith("Good day, Kim.")


def test_input_that_does_not_fit_is_a_wrong_call_and_leaves_no_run(cli):
    for given, says in {
        '{"name": 3}': "$.name",
        "{}": "name",
        "[1]": "in --input is not a JSON object",
        "@nowhere.json": "`nowhere.json` cannot be read",
    }.items():
        done = cli("run", "greet.yaml", "--user", "ada", "-i", given)
        assert (done.code, done.out) == (2, ""), given
        assert says in done.err
    assert cli("run", "greet.yaml", "--user", "ada", "-i", "{}", "--json").error["code"] == "schema_violation"
    assert cli("runs", "--json").json == []
    assert cli("run", "greet.yaml", "--user", "ada", "-i", '{"name": "Ada"}').code == 0
    assert len(cli("runs", "--json").json) == 1


def test_a_workflow_needs_somebody_to_run_for_and_a_file(cli):
    done = cli("run", "greet.yaml", "-i", '{"name": "Ada"}')
    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == "error[usage_error]: a workflow needs a user\nhint: Name the user whose memory it uses, with --user ID\n"
    )
    assert cli("run", "nowhere.yaml", "--user", "ada").code == 2
    assert cli("run", "greet.yaml", "--user", "ada", "--tools", "nowhere.py").code == 2
    assert cli("run", "greet.yaml", "--user", "ada", "--workflows", "nowhere.yaml").code == 2
    wrong = cli("run", "greet.yaml", "--user", "ada", "--workflows", "greet.agent.yaml")
    assert wrong.code == 2
    assert "this is an agent" in wrong.err
    assert not Path("memory.db").exists()
    assert cli("run", "greet.yaml", "--user", "ada", "-i", '{"name": "Ada"}').code == 0


def test_definitions_that_are_missing_are_named_before_anything_is_recorded(cli):
    cli("facts", "set", "k", "v")
    done = cli("run", "ask.yaml", "--user", "ada", "--thread", "t1")
    assert (done.code, done.out) == (1, "")
    assert ID in done.err
    assert cli("runs", "--json").json == []
    define(cli)
    assert cli("run", "ask.yaml", "--user", "ada", "--thread", "t1").code == 0


def test_a_faulty_workflow_is_shown_with_all_its_faults(cli):
    Path("bad.yaml").write_text(GREET.replace("offer: {kind", "offer: {knd").replace("do: greet", "do: great"))
    done = cli("run", "bad.yaml", "--user", "ada")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("error[") >= 2
    assert "bad.yaml:8:" in done.err and "Did you mean `greet`?" in done.err
    assert len(cli("run", "bad.yaml", "--user", "ada", "--json").error["details"]["diagnostics"]) >= 2


def test_options_of_other_languages_are_refused(cli):
    given = ("run", "greet.yaml", "--user", "ada", "-i", '{"name": "Ada"}')
    Path("porter.abl").write_text('AGENT: Porter\nGOAL: "x"\nFLOW:\n  a:\n    REASONING: false\n    RESPOND: "Hi."\n')
    Path("one.mashin").write_text("machine one\n  implements\n    compute a\n      1\n")
    for option in (
        ("--vars", "{}"),
        ("--session", "s"),
        ("--project", "p"),
        ("--agents", "a.abl"),
        ("--machines", "m.mashin"),
        ("--mode", "test"),
        ("--budget-tokens", "0"),
        ("--budget-model-calls", "3"),
    ):
        done = cli(*given, *option)
        assert done.code == 2
        assert f"{option[0]} is not for a workflow" in done.err
    for program in ("porter.abl", "one.mashin"):
        for option in (("--thread", "t1"), ("--workflows", "greet.yaml")):
            done = cli("run", program, *option)
            assert done.code == 2
            assert f"{option[0]} is not for a" in done.err
    assert not Path("memory.db").exists()
    assert cli(*given).code == 0


# own actions, and failures


def test_own_actions_are_given_with_tools(cli):
    done = cli("run", "price.yaml", "--user", "ada", "-i", '{"part": "bell"}', "--tools", "parts.py", "--json")
    assert (done.code, done.json["output"]) == (0, {"price": 12})
    without = cli("run", "price.yaml", "--user", "ada", "-i", '{"part": "bell"}')
    assert without.code == 1
    assert "error[unknown_action]" in without.err
    assert "= Give it to the workflow when it is loaded (`--tools` on the command line)\n" in without.err


def test_a_run_that_fails_leaves_with_1_after_what_it_said(cli):
    saddle = ("run", "price.yaml", "--user", "ada", "-i", '{"part": "saddle"}', "--tools", "parts.py")
    done = cli(*saddle)
    assert (done.code, done.out) == (1, "Let me see.\n")
    id, failed, _ = done.err.splitlines()[0].split()[0], *done.err.splitlines()[1:3]
    assert done.err.startswith(f"{id} is failed\n")
    assert failed.startswith("error[run_failed]: the workflow `price` failed at `look` (action_failed): ")
    assert "ValueError" in failed and "saddles are sold out" in failed
    shown = cli(*saddle, "--json")
    assert (shown.code, shown.err, shown.json["status"]) == (1, "", "failed")
    assert (shown.json["error"]["type"], shown.json["error"]["step"]) == ("action_failed", "look")
    assert (list(shown.json["outputs"]), shown.json["messages"]) == (["say"], ["Let me see."])


def test_a_trace_is_a_line_for_each_step_beside_the_output(cli):
    given = ("run", "price.yaml", "--user", "ada", "-i", '{"part": "bell"}', "--tools", "parts.py")
    done = cli(*given, "--trace")
    lines = [line.split() for line in done.err.splitlines()]
    assert [(line[1], line[2]) for line in lines[:-1]] == [("say", "send_text_message"), ("look", "price")]
    assert json.loads(done.out.partition("\n")[2]) == {"price": 12}
    assert "look" not in cli(*given).err
    assert cli(*given, "--trace", "--json").json["status"] == "completed"


# waiting, in processes of their own


def test_a_run_waits_in_one_process_and_is_answered_in_another(process):
    define(process, "--db", "shop.db")
    first = process("run", "ask.yaml", "--user", "ada", "--thread", "t1", "--db", "shop.db")
    assert (first.code, first.out) == (0, "What is to be done?\n"), first.err
    waits, reply = first.err.splitlines()
    id = waits.split()[0]
    assert waits == f"{id} waits at `listen` for the event `reply`."
    assert reply == f"Reply: memoranda resume {id} --message TEXT --db shop.db"

    still = process("resume", id, "--db", "shop.db")
    assert (still.code, still.out, still.err) == (0, "", first.err)
    words = reply.removeprefix("Reply: memoranda ").split()
    words[words.index("TEXT")] = "A new chain"
    second = process(*words)
    assert (second.code, second.err) == (0, f"{id} is completed\n")
    assert second.out == 'Noted: A new chain\n{\n  "wish": "A new chain"\n}\n'
    facts = process("facts", "list", "--user", "ada", "--thread", "t1", "--db", "shop.db", "--json").json
    assert {"wish": "A new chain"} in [fact["value"] for fact in facts]

    late = process("resume", id, "-m", "And a bell", "--db", "shop.db")
    assert (late.code, late.out) == (1, "")
    assert "is completed and waits for nothing" in late.err
    assert process("ledger", "verify", "--db", "shop.db").code == 0


def test_what_waits_for_an_event_is_given_json(cli):
    id = begun(cli, "parcel.yaml", "--tools", "parts.py")
    shown = cli("resume", id, "--tools", "parts.py")
    assert shown.err.endswith(f"Deliver: memoranda resume {id} --payload JSON --tools parts.py\n")
    assert "waits at `parcel` for the event `delivery`." in shown.err
    assert cli("resume", id, "--tools", "parts.py", "--payload", "torn").code == 2
    without = cli("resume", id, "--payload", "1")
    assert without.code == 2
    assert "needs `delivery`, which was not given\nhint: Name the module that has it with --tools\n" in without.err
    both = cli("resume", id, "--tools", "parts.py", "--payload", "1", "--message", "a")
    assert both.code == 2
    assert "cannot be combined" in both.err
    done = cli("resume", id, "--tools", "parts.py", "--payload", '{"parts": 2}', "--json")
    assert (done.code, done.json["output"]) == (0, {"came": {"parts": 2}})


def test_a_run_whose_time_is_over_goes_on_by_itself(cli):
    Path("parcel.yaml").write_text(PARCEL.replace("action: delivery", "action: delivery, inputs: {timeout: 1}"))
    first = cli("run", "parcel.yaml", "--user", "ada", "--tools", "parts.py")
    assert ", until " in first.err
    id = first.err.split()[0]
    ends = time.monotonic() + PATIENCE
    again = ("resume", id, "--tools", "parts.py", "--json")
    while (done := cli(*again)).json["status"] == "waiting" and time.monotonic() < ends:
        assert done.code == 0
    assert done.json["output"] == {"came": None}


def test_a_run_goes_on_with_the_text_that_it_began_with(cli, bicycle):
    id = begun(cli, "ask.yaml", "--thread", "t1")
    Path("ask.yaml").unlink()
    done = cli("resume", id, "-m", "A new chain")
    assert (done.code, done.out.splitlines()[0]) == (0, "Noted: A new chain")


def test_a_thread_is_what_runs_have_in_common(cli, bicycle):
    Path("look.yaml").write_text(
        f"defs:\n  bicycle: {{kind: memory, settings: {{definition_id: {ID}}}}}\n"
        "  n: {kind: task, action: set_context, inputs: {values: {a: 1}}}\nflow:\n  - do: n\n"
        "outputs: {wish: =$context.memory.bicycle.wish}\n"
    )
    id = begun(cli, "ask.yaml", "--thread", "t1")
    assert cli("resume", id, "-m", "A new chain").code == 0
    look = ("run", "look.yaml", "--user", "ada", "--json")
    assert cli(*look, "--thread", "t1").json["output"] == {"wish": "A new chain"}
    assert cli(*look, "--thread", "t2").json["output"] == {}


# workflows that call one another


def test_a_run_that_waits_for_another_is_followed(process):
    define(process)
    first = process("run", "shop.yaml", "--user", "ada", "--thread", "t1", "--workflows", "ask.yaml")
    assert (first.code, first.out) == (0, "The shop is open.\nWhat is to be done?\n"), first.err
    outer, inner = (line.split()[0] for line in first.err.splitlines()[:2])
    assert first.err.splitlines()[0] == f"{outer} waits at `order` for {inner}, a run of the workflow `ask`."
    assert first.err.endswith(f"Reply: memoranda resume {inner} --message TEXT --workflows ask.yaml\n")
    done = process("resume", outer, "-m", "A new chain")
    assert done.code == 0, done.err
    assert done.out == "Noted: A new chain\nUntil tomorrow, for: A new chain\n"
    assert done.err == (f"{outer} waits for {inner}, a run of the workflow `ask`\n{outer} is completed\n")


def test_answering_the_inner_run_goes_on_with_the_outer(cli, bicycle):
    outer = begun(cli, "shop.yaml", "--thread", "t1", "--workflows", "ask.yaml")
    still = cli("resume", outer, "--json").json
    inner = still["waiting"]["run"]
    assert (still["status"], cli("runs", "show", inner, "--json").json["parent"]) == ("waiting", outer)
    done = cli("resume", inner, "-m", "A new chain", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["run"], done.json["status"]) == (outer, "completed")
    assert done.json["messages"][-1] == "Until tomorrow, for: A new chain"


def test_workflows_that_are_not_given_are_named(cli):
    done = cli("run", "shop.yaml", "--user", "ada")
    assert done.code == 1
    assert "`ask`" in done.err and "--workflows" in done.err


def test_what_an_inner_run_asks_again_is_heard(cli, bicycle):
    again = "  again: {kind: task, action: send_text_message, inputs: {text: 'Which colour?'}}\nflow:"
    twice = ASK.replace("flow:", again).replace("  - do: save", "  - do: again\n  - do: listen\n  - do: save")
    Path("ask.yaml").write_text(twice)
    outer = begun(cli, "shop.yaml", "--thread", "t1", "--workflows", "ask.yaml")
    first = cli("resume", outer, "-m", "A bell")
    assert (first.code, first.out) == (0, "Which colour?\n")
    inner = first.err.splitlines()[-2].split()[0]
    assert first.err.endswith(f"Reply: memoranda resume {inner} --message TEXT\n")
    second = cli("resume", inner, "-m", "Green")
    assert (second.code, second.out) == (0, "Noted: Green\nUntil tomorrow, for: Green\n")


# cancel


def test_a_run_that_waits_is_cancelled(cli, bicycle):
    id = begun(cli, "ask.yaml", "--thread", "t1")
    done = cli("cancel", id, "--reason", "the guest has left")
    assert (done.code, done.out, done.err) == (0, f"{id} is cancelled\n", "")
    assert "the guest has left" in cli("runs", "show", id).out
    assert [one["id"] for one in cli("runs", "--status", "cancelled", "--json").json] == [id]
    for again in (("cancel", id), ("resume", id, "-m", "A bell")):
        late = cli(*again)
        assert (late.code, late.out) == (1, "")
        assert "is cancelled and waits for nothing" in late.err
    other = begun(cli, "ask.yaml", "--thread", "t1")
    shown = cli("cancel", other, "--json")
    assert (shown.code, shown.json["status"], shown.json["output"]) == (0, "cancelled", None)
    third = begun(cli, "ask.yaml", "--thread", "t1")
    assert cli("resume", third, "-m", "A bell").code == 0
    assert cli("cancel", "run_nowhere").code == 1


def test_a_run_whose_process_is_gone_is_cancelled_by_force(cli, started):
    Path("gone.py").write_text(
        "import os, signal\nfrom memoranda.workflow import action\n\n"
        '@action("vanish")\ndef vanish(call):\n    os.kill(os.getpid(), signal.SIGKILL)\n'
    )
    Path("gone.yaml").write_text("defs:\n  v: {kind: task, action: vanish}\nflow:\n  - do: v\n")
    assert started("run", "gone.yaml", "--user", "ada", "--tools", "gone.py").code == -9
    [id] = [one["id"] for one in cli("runs", "--status", "running", "--json").json]
    done = cli("cancel", id)
    assert (done.code, done.out) == (1, "")
    assert f"is running\nhint: If its process is gone: memoranda cancel {id} --force\n" in done.err
    assert cli("cancel", id, "--force").out == f"{id} is cancelled\n"
    assert "is cancelled and waits for nothing" in cli("cancel", id, "--force").err


def test_cancelling_needs_no_actions(cli):
    id = begun(cli, "parcel.yaml", "--tools", "parts.py")
    assert cli("cancel", id).out == f"{id} is cancelled\n"


def test_cancelling_the_outer_run_ends_both(cli, bicycle):
    outer = begun(cli, "shop.yaml", "--thread", "t1", "--workflows", "ask.yaml")
    assert cli("cancel", outer).code == 0
    assert cli("runs", "--status", "waiting", "--json").json == []
    assert len(cli("runs", "--status", "cancelled", "--json").json) == 2


def test_cancelling_the_inner_run_says_who_waited_for_it(cli, bicycle):
    outer = begun(cli, "shop.yaml", "--thread", "t1", "--workflows", "ask.yaml")
    inner = cli("resume", outer, "--json").json["waiting"]["run"]
    done = cli("cancel", inner)
    assert (done.code, done.out) == (0, f"{inner} is cancelled\n")
    assert done.err == f"{outer} waited for it. Continue: memoranda resume {outer}\n"
    payload = cli("resume", outer, "-m", "A bell")
    assert payload.code == 2
    assert "waits for another run at `order`, which does not wait" in payload.err
    ended = cli("resume", outer)
    assert ended.code == 1
    assert "failed at `order` (workflow)" in ended.err and "is cancelled" in ended.err


# what is only for machines


def test_a_workflow_is_neither_approved_nor_replayed(cli, bicycle):
    id = begun(cli, "ask.yaml", "--thread", "t1")
    approve = cli("approve", id, "listen")
    assert (approve.code, approve.out) == (2, "")
    assert f"the run `{id}` is of a workflow, whose steps wait for no approval" in approve.err
    assert f"hint: If it waits: memoranda resume {id}\n" in approve.err
    replay = cli("replay", id)
    assert (replay.code, replay.out) == (2, "")
    assert f"hint: `memoranda ledger show {id}` shows what it did\n" in replay.err
    assert cli("replay", id, "--json").error["details"] == {"run": id}
    machines = cli("resume", id, "--machines", "one.mashin")
    assert machines.code == 2
    Path("one.mashin").write_text(
        "machine one\n  ensures\n    permissions\n      requires approval for memory.write\n"
        '  implements\n    remember a\n      content: "x"\n      collection: "c"\n'
    )
    assert "--machines is not for a run of a workflow" in cli("resume", id, "--machines", "one.mashin").err
    waits = cli("run", "one.mashin", "--json", "--embedder", "hashing:64").json["run"]
    assert "--tools is not for a run of a machine" in cli("resume", waits, "--tools", "parts.py").err
    assert cli("resume", id, "-m", "A bell").code == 0


# runs and the ledger


def test_runs_and_the_ledger_show_what_a_workflow_did(cli, bicycle):
    id = begun(cli, "ask.yaml", "--thread", "t1")
    [listed] = [line for line in cli("runs", "--language", "workflow").out.splitlines() if id in line]
    assert listed.split()[1:3] == ["workflow", "waiting"]
    shown = cli("runs", "show", id).out
    assert "event at listen: reply" in shown
    assert cli("runs", "--language", "mashin", "--json").json == []
    assert cli("resume", id, "-m", "A new chain").code == 0
    assert [one["id"] for one in cli("runs", "--program", "ask", "--json").json] == [id]
    shown = cli("ledger", "show", id)
    assert shown.code == 0
    assert shown.out.splitlines()[-1].startswith("ok, ")
    assert "new chain" not in shown.out
    events = cli("ledger", "show", id, "--json").json["events"]
    assert (events[0]["kind"], events[-1]["kind"]) == ("exec_start", "exec_end")
    steps = [one["step"] for one in events if one["kind"] == "step_record" and one["detail"]["type"] != "resumed"]
    assert steps == ["ask", "listen", "save", "thank"]
    assert "ok, " in cli("runs", "show", id).out


def test_somebody_without_rights_runs_nothing(cli, bicycle):
    cli("permissions", "grant", "guest", "memory.read")
    done = cli("run", "greet.yaml", "--user", "ada", "-i", '{"name": "Ada"}', "--actor", "guest", "--json")
    assert (done.code, done.error["code"]) == (1, "denied")
    cli("permissions", "grant", "clerk", "*")
    assert cli("run", "greet.yaml", "--user", "ada", "-i", '{"name": "Ada"}', "--actor", "clerk").code == 0


# models


REPLY = """\
defs:
  clerk: {kind: model, settings: {provider: openai, model_id: made-up}}
  reply:
    kind: task
    action: ai_generate_reply
    inputs: {input_mode: history, system: Answer briefly.}
    bindings: {model: clerk}
  send: {kind: task, action: send_text_message, inputs: {text: =$output.reply.text}}
flow:
  - do: reply
  - do: send
"""


def test_a_model_is_asked_with_what_was_said_in_the_thread(process, wire, server):
    Path("reply.yaml").write_text(REPLY)
    environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-made-up-for-tests"}
    server.waiting += [wire.says("We open at nine."), wire.says("At six.")]
    asked = ("run", "reply.yaml", "--user", "ada", "--thread", "t1", "--model", "openai-chat:made-up")
    first = process(*asked, "-m", "When do you open?", env=environment)
    assert (first.code, first.out) == (0, "We open at nine.\n"), first.err
    second = process(*asked, "-m", "And when do you close?", env=environment)
    assert (second.code, second.out) == (0, "At six.\n"), second.err
    said = json.dumps(server.asked[1].body)
    assert said.index("When do you open?") < said.index("We open at nine.") < said.index("And when do you close?")
    without = process("run", "reply.yaml", "--user", "ada", "--thread", "t1", "-m", "Hello?")
    assert without.code == 1
    assert "OPENAI_API_KEY" in without.err
