"""Tests run a workflow on a separate memory: expected results pass, and others are reported with their line."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda.agent.models import Ask, Reply
from memoranda.errors import NotFound, SourceError, UsageError
from memoranda.workflow.scripts.run import Failure, Report, run_scripts, scripts_beside

FERRY = """\
inputs:
  schema: {type: object, properties: {text: {type: string}, cars: {type: integer}}, required: [text]}
context: {fare: 12}
defs:
  cabin_memory: {kind: memory, settings: {definition_id: 7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e01}}
  visits_memory: {kind: memory, settings: {definition_id: 7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e02}}
  scratch_memory: {kind: memory, settings: {definition_id: 7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e03}}
  purser: {kind: model, settings: {provider: openai, model_id: gpt-5.2, api_key: NOBODY_HAS_THIS_KEY}}
  pilot: {kind: model, settings: {provider: openai, model_id: gpt-5.2}}
  note_visit:
    kind: task
    action: update_memory
    inputs:
      memory: {visits: {last: "=$input.text"}, scratch: {seen: true}}
  read_port:
    kind: task
    action: ai_infer_object
    settings: {output_schema: {type: object, properties: {port: {type: string}}, required: [port]}}
    bindings: {model: pilot}
  count_places:
    kind: task
    action: count_places
    inputs: {port: "=$output.read_port.object.port"}
    settings: {retries: {enabled: true, max_attempts: 3, backoff_ms: 3600000, max_delay_ms: 3600000}}
  reply:
    kind: task
    action: ai_generate_reply
    inputs: {input_mode: history, system: Be brief.}
    bindings: {model: purser, memory: [cabin_memory]}
  say: {kind: task, action: send_text_message, inputs: {text: "=$output.reply.text"}}
  ask: {kind: task, action: wait_for_reply, inputs: {timeout: 7200}}
  thank:
    kind: task
    action: send_text_message
    inputs: {text: "=$output.ask.timed_out ? 'The boat has left.' : 'You said ' & $output.ask.text & '.'"}
flow:
  - do: note_visit
  - do: read_port
  - do: count_places
  - do: reply
  - do: say
  - do: ask
  - do: thank
outputs:
  port: "=$output.read_port.object.port"
  places: "=$output.count_places.places"
  answer: "=$output.ask.text"
"""
ACTIONS = """\
import memoranda.workflow

asked = []


@memoranda.workflow.action
def count_places(port: str) -> dict:
    '''Count the places that are left.'''
    asked.append(port)
    return {"places": len(asked)}
"""
HEAD = """\
actions: actions.py
definitions:
  cabin:
    id: 7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e01
    scope: thread
    schema: {type: object, properties: {deck: {type: integer}, side: {type: string}}}
  visits:
    id: 7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e02
    scope: workflow
    ttl: 10d
    schema: {type: object, properties: {last: {type: string}}}
  scratch:
    id: 7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e03
    scope: run
    schema: {type: object, properties: {seen: {type: boolean}}}
tests:
"""
TEST = """\
  - name: One
    owner: ada
    thread: quay
    input: {text: To Bari}
    models: {pilot: {object: {port: Bari}}, purser: Aye.}
"""
MUTE = TEST.rpartition("    models")[0]
LINE = (HEAD + TEST).count("\n") + 1
"""Where the rest of a test begins."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ferry.yaml").write_text(FERRY)
    (tmp_path / "actions.py").write_text(ACTIONS)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Callable[..., Report]:
    """Run one test of the ferry, of its last lines; or a whole file."""

    def run(rest: str = "", *, text: str | None = None, test: str = TEST, **options: Any) -> Report:
        lines = "".join(f"    {line}\n" for line in rest.strip().splitlines())
        (folder / "ferry.tests.yaml").write_text(text if text is not None else HEAD + test + lines)
        return run_scripts(folder / "ferry.yaml", **options)

    return run


def failure(report: Report) -> Failure:
    [case] = report.cases
    assert (report.passed, report.failed, case.passed) == (0, 1, False)
    assert case.failure is not None
    return case.failure


def passed(report: Report) -> None:
    assert [case.failure for case in report.cases] == [None] * len(report.cases)
    assert report.passed == len(report.cases) > 0


def test_a_whole_run_is_as_expected(run):
    report = run("""
memory: {cabin: {deck: 4}, visits: {last: To Corfu}}
steps:
  - run:
    expect:
      status: waiting
      messages: [Aye.]
      outputs: {count_places: {places: 1}, reply: {text: Aye.}}
      context: {fare: 12, memory: {cabin: {deck: 4}, visits: {last: To Bari}}}
      memory: {cabin: {deck: 4, side: null}, visits: {last: To Bari}, scratch: {seen: true}}
      waiting: {kind: event, step: ask}
      output: null
  - deliver: thanks
    expect:
      status: completed
      messages: You said thanks.
      output: {port: Bari, places: 1, answer: thanks}
      memory: {scratch: null}
""")
    passed(report)
    assert report.path.endswith("ferry.tests.yaml")


def test_one_expectation_is_of_one_run(run):
    passed(run("expect: {status: waiting, messages: [Aye.]}"))


EXPECTED = {
    "another status": ("status: completed", "status", "completed", "waiting at `ask`"),
    "another value": ("outputs: {reply: {text: Nay.}}", "outputs.reply.text", '"Nay."', '"Aye."'),
    "a value that is not there": ("outputs: {rudder: 1}", "outputs.rudder", "1", "null"),
    "a value that should not be there": ("outputs: {reply: null}", "outputs.reply", "null", '"Aye."'),
    "truth for a number": (
        "outputs: {count_places: {places: true}}",
        "outputs.count_places.places",
        "true",
        "1",
    ),
    "another context": ("context: {fare: '12'}", "context.fare", '"12"', "12"),
    "another memory": ("memory: {visits: {last: To Corfu}}", "memory.visits.last", '"To Corfu"', '"To Bari"'),
    "memory that is not there": ("memory: {cabin: {deck: 1}}", "memory.cabin", '{"deck":1}', "null"),
    "memory that should not be there": ("memory: {visits: null}", "memory.visits", "null", '{"last":"To Bari"}'),
    "another wait": ("waiting: {step: thank}", "waiting.step", '"thank"', '"ask"'),
    "output before the end": ("output: {port: Bari}", "output", '{"port":"Bari"}', "null"),
    "another message": ("messages: [Nay.]", "messages[0]", "exactly `Nay.`", "Aye."),
    "only a part of a message": ("messages: [Ay]", "messages[0]", "exactly `Ay`", "Aye."),
    "words that should not come": (
        "messages: [{has: Aye, not: '.'}]",
        "messages[0]",
        "`Aye` and not `.`",
        "Aye.",
    ),
    "a message too few": ("messages: [Aye., Nay.]", "messages", "exactly `Aye.`\nexactly `Nay.`", "Aye."),
    "a message where there should be none": ("messages: []", "messages", "(no message)", "Aye."),
    "an error where there is none": ("error: action_failed", "error", "an error", "waiting at `ask`"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_not_as_expected_ends_the_test(run, name):
    line, path, expected, got = EXPECTED[name]
    found = failure(run(f"expect:\n  {line}"))
    [mismatch] = found.mismatches
    assert (mismatch.path, mismatch.expected) == (path, expected)
    assert got in mismatch.got
    assert (found.line, mismatch.line, found.after) == (LINE + 1, LINE + 1, "run")
    assert found.trace.splitlines()[:2] == ["note_visit (update_memory)", "read_port (ai_infer_object)"]


def test_everything_that_a_step_came_to_is_told_at_once_each_with_its_line(run):
    found = failure(
        run("""
expect:
  status: completed
  outputs:
    reply:
      text: Nay.
    count_places: {places: 1}
  messages:
    - Nay.
""")
    )
    assert [(one.line, one.path) for one in found.mismatches] == [
        (LINE + 1, "status"),
        (LINE + 4, "outputs.reply.text"),
        (LINE + 7, "messages[0]"),
    ]


def test_a_test_ends_at_the_first_step_that_is_not_as_expected(run):
    steps = "steps:\n  - run:\n    expect: {{status: {}}}\n  - deliver: thanks\n    expect: {{status: failed}}"
    first = failure(run(steps.format("completed")))
    assert (first.after, first.line) == ("run", LINE + 2)
    second = failure(run(steps.format("waiting")))
    assert (second.after, second.line) == ("deliver", LINE + 4)


def test_a_run_that_fails_fails_the_test_unless_that_is_expected(run):
    broken = "actions: {count_places: {error: {type: unreachable, message: fog, retryable: false}}}\n"
    found = failure(run(f"{broken}steps:\n  - run:\n    expect: {{messages: []}}"))
    [mismatch] = found.mismatches
    assert (mismatch.path, mismatch.expected) == ("status", "a run that does not fail")
    assert mismatch.got == "failed at `count_places` (unreachable): fog"
    assert mismatch.line == LINE + 3
    assert found.trace.splitlines()[-1] == "count_places (count_places): error unreachable"
    assert failure(run(f"{broken}steps: [{{run: {{text: x}}}}]")).mismatches[0].got == mismatch.got
    passed(run(f"{broken}expect: {{status: failed, outputs: {{read_port: {{object: {{port: Bari}}}}}}}}"))
    passed(run(f"{broken}expect: {{error: unreachable}}"))
    passed(run(f"{broken}expect: {{error: {{step: count_places, message: fog, type: unreachable}}}}"))
    wrong = failure(run(f"{broken}expect: {{error: {{step: ask, message: {{has: sun}}, type: timeout}}}}"))
    assert [(one.path, one.expected) for one in wrong.mismatches] == [
        ("error.type", "timeout"),
        ("error.step", "ask"),
        ("error.message", "`sun`"),
    ]


def test_what_keeps_a_run_from_beginning_is_an_error_of_it(run):
    passed(
        run(
            "steps:\n  - run: {cars: 2}\n"
            "    expect: {status: refused, error: {type: schema_violation, message: {has: text}}}"
        )
    )
    found = failure(run("steps: [{run: {cars: 2}, expect: {messages: []}}]"))
    assert found.mismatches[0].got.startswith("refused (schema_violation)")
    assert found.trace == ""


def test_time_stands_still_until_the_test_waits(run):
    report = run("""
now: 2026-03-01T09:00:00+01:00
steps:
  - run:
    expect: {waiting: {deadline: "2026-03-01T10:00:00Z"}}
  - wait: 7199s
    expect: {status: waiting, messages: []}
  - wait: 1s
    expect: {status: completed, messages: [The boat has left.], output: {answer: null}, memory: {visits: {}}}
  - wait: 10d
    expect: {status: completed, messages: [], memory: {visits: null}}
""")
    passed(report)


def test_the_pause_between_two_attempts_takes_no_time_but_the_clocks(run):
    passed(
        run("""
actions: {count_places: [{error: fog}, {error: fog}, {value: {places: 9}}]}
now: 2026-03-01T08:00:00Z
expect:
  outputs: {count_places: {places: 9}}
  waiting: {deadline: "2026-03-01T12:00:00Z"}
""")
    )
    found = failure(run("actions: {count_places: {error: fog}}\nexpect: {status: waiting}"))
    assert found.mismatches[0].got == "failed at `count_places` (action_failed): fog"
    assert "attempts 3" in found.trace


def test_a_run_that_waits_can_be_cancelled(run):
    passed(
        run("""
steps:
  - run:
  - cancel: storm
    expect: {status: cancelled, error: {type: cancelled, message: storm}, memory: {scratch: null}}
  - wait: 3h
    expect: {status: cancelled}
""")
    )


@pytest.mark.parametrize("step", ["deliver: hello", "cancel:"])
def test_only_a_run_that_waits_can_be_given_something(run, step):
    found = failure(run(f"steps:\n  - {step}"))
    assert (found.after, found.line) == (None, LINE + 1)
    assert found.mismatches[0].got == "nothing was run for `ada`"
    found = failure(run(f"steps:\n  - run:\n  - deliver: ok\n  - {step}"))
    assert (found.mismatches[0].expected, found.mismatches[0].got) == ("a run that waits", "completed")
    assert failure(run("steps:\n  - expect: {status: completed}")).mismatches[0].expected == "a run"


def test_owners_have_runs_and_memory_of_their_own(run):
    twice = TEST.replace("purser: Aye.", "purser: [Aye., Ahoy.]").replace(
        "{object: {port: Bari}}", "[{object: {port: Bari}}, {object: {port: Split}}]"
    )
    passed(
        run(
            """
memory: {cabin: {deck: 4}}
steps:
  - run:
  - as: ben
    run: {text: To Split}
    expect: {status: waiting, messages: [Ahoy.], memory: {visits: {last: To Split}, cabin: null}}
  - as: ada
    expect: {memory: {visits: {last: To Bari}, cabin: {deck: 4}}}
  - deliver: thanks
    expect: {status: completed}
  - wait: 2h
  - as: ben
    expect: {status: completed, messages: [The boat has left.], output: {port: Split}}
""",
            test=twice,
        )
    )


def test_a_run_of_somebody_else_that_fails_meanwhile_fails_the_test(run, folder):
    (folder / "ferry.yaml").write_text(FERRY.replace("'The boat has left.'", "$error('no more')"))
    found = failure(run("steps:\n  - run:\n  - as: ben\n    wait: 2h"))
    assert (found.after, found.line) == ("wait", LINE + 3)
    assert "no more" in found.mismatches[0].got
    assert "thank (send_text_message): error" in found.trace
    passed(run("steps:\n  - run:\n  - as: ben\n    wait: 1h"))


def test_the_conversation_before_and_the_memory_reach_the_model(run):
    class Listening:
        name = "made:up"

        def __init__(self) -> None:
            self.asked: list[Ask] = []

        def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
            self.asked.append(ask)
            return Reply("Welcome.")

    listening = Listening()
    report = run(
        """
memory: {cabin: {deck: 4}}
messages: [{owner: Ahoy}, {workflow: Where to?, }, {owner: To Bari}]
models: {pilot: {object: {port: Bari}}}
expect: {messages: [Welcome.]}
""".replace("Where to?, ", "'Where to?'"),
        test=MUTE,
        model=listening,
    )
    passed(report)
    [ask] = listening.asked
    assert [(one.role, one.text) for one in ask.messages] == [
        ("user", "Ahoy"),
        ("assistant", "Where to?"),
        ("user", "To Bari"),
        ("user", "To Bari"),
    ]
    assert ask.instructions == "Be brief.\n\n# Working Memory\n## Cabin\n- Deck: 4"


def test_a_model_calls_tools_and_fails_as_the_test_says(run):
    report = run(
        """
models:
  any: {object: {port: Bari}}
  purser:
    - text: One moment
      calls: [{update_memory: {memory: {cabin: {deck: 7}}}}, {update_memory: {memory: {visits: {last: x}}}}]
    - Done.
expect: {messages: [Done.], memory: {cabin: {deck: 7}, visits: {last: To Bari}}}
""",
        test=MUTE,
    )
    passed(report)
    slow = TEST.replace("purser: Aye.", "purser: {error: timeout}")
    passed(run("expect: {error: {step: reply, type: model_failed, message: {has: timeout}}}", test=slow))


def test_a_model_that_has_no_reply_left_is_told(run):
    found = failure(run("expect: {status: waiting}", test=TEST.replace(", purser: Aye.", "")))
    assert "the model `purser` was asked, but this test has no reply left" in found.mismatches[0].got
    assert "`purser: [first, second]`" in found.hint
    passed(run("expect: {status: waiting}", test=TEST.replace("purser: Aye.", "any: Aye.")))
    once = run("steps: [{run: }, {run: , expect: {status: waiting}}]", test=TEST)
    assert "`pilot` was asked" in failure(once).mismatches[0].got


def test_actions_give_what_the_test_says_by_task_or_by_action(run):
    both = "actions: {send_text_message: {value: {text: sent}}, say: {value: {text: said}}}\n"
    passed(
        run(
            f"{both}steps:\n  - run:\n    expect: {{outputs: {{say: {{text: said}}}}, messages: []}}\n"
            "  - deliver: x\n    expect: {outputs: {thank: {text: sent}}, messages: []}"
        )
    )


def test_what_an_action_is_given_is_checked_all_the_same(run, folder):
    (folder / "ferry.yaml").write_text(FERRY.replace('{port: "=$output.read_port.object.port"}', '{port: "=5"}'))
    found = failure(run("actions: {count_places: {value: {places: 1}}}\nexpect: {status: waiting}"))
    assert "schema_violation" in found.mismatches[0].got


def test_an_action_that_nobody_gives_can_be_answered(run, folder):
    lonely = HEAD.replace("actions: actions.py\n", "") + TEST
    tail = "    expect: {status: waiting, outputs: {count_places: {places: 3}}}\n"
    passed(run(text=lonely + "    actions: {count_places: {value: {places: 3}}}\n" + tail))
    with pytest.raises(SourceError, match="count_places"):
        run(text=lonely + tail)


def test_own_actions_act_and_no_test_sees_what_another_left(run):
    tail = "    expect: {outputs: {count_places: {places: 1}}, memory: {visits: {last: To Bari}, cabin: null}}\n"
    first = TEST + "    memory: {visits: {last: Before}}\n" + tail
    report = run(text=HEAD + first + TEST.replace("One", "Two") + tail)
    passed(report)
    assert [(case.name, case.line) for case in report.cases] == [("One", 17), ("Two", 24)]


def test_a_failed_test_leaves_the_others_alone(run):
    tail = "    expect: {{status: {}}}\n"
    report = run(text=HEAD + TEST + tail.format("failed") + TEST.replace("One", "Two") + tail.format("waiting"))
    assert [case.passed for case in report.cases] == [False, True]
    assert (report.passed, report.failed) == (1, 1)


def test_actions_can_be_given_by_the_caller(run, folder):
    (folder / "other.py").write_text(ACTIONS.replace("len(asked)", "42"))
    passed(run("expect: {outputs: {count_places: {places: 42}}}", actions=folder / "other.py"))


ERRAND = """defs:
  fetch: {kind: task, action: http_request, inputs: {url: "http://127.0.0.1:9/tide"}}
  call: {kind: task, action: call_workflow, inputs: {workflow: weather, inputs: {at: sea}}}
flow: [{do: fetch}, {do: call}]
outputs: {tide: =$output.fetch.body.tide, sky: =$output.call.sky}
"""
WEATHER = """defs:
  poet: {kind: model, settings: {}}
  look: {kind: task, action: ai_generate_text, inputs: {prompt: "=$input.at"}, bindings: {model: poet}}
flow: [{do: look}]
outputs: {sky: =$output.look.text}
"""


def test_workflows_that_are_called_run_and_their_models_are_scripted_too(folder):
    (folder / "errand.yaml").write_text(ERRAND)
    (folder / "weather.yaml").write_text(WEATHER)
    tests = folder / "errand.tests.yaml"
    body = """workflows: [weather.yaml]
tests:
  - name: High water
    models: {poet: Blue.}
    actions: {http_request: {value: {status: 200, headers: {}, body: {tide: high}}}}
    expect: {status: completed, output: {tide: high, sky: Blue.}}
"""
    tests.write_text(body)
    passed(run_scripts(tests))
    tests.write_text(body.replace("actions: {http_request", "actions: {fetch"))
    passed(run_scripts(tests))
    tests.write_text(body.replace("models: {poet: Blue.}", "models: {}"))
    assert "`poet` was asked" in failure(run_scripts(tests)).mismatches[0].got


def test_no_test_reaches_a_server(folder, monkeypatch):
    reached: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: reached.append(address))
    (folder / "errand.yaml").write_text(ERRAND.replace(", {do: call}", ""))
    (folder / "errand.tests.yaml").write_text("tests:\n  - name: A\n    expect: {status: completed}\n")
    found = failure(run_scripts(folder / "errand.yaml"))
    assert "the task `fetch` would send a request, which tests do not do" in found.mismatches[0].got
    assert "below `actions`" in found.hint
    assert reached == []


def test_the_tools_of_a_server_are_given_by_a_module(folder):
    (folder / "quay.yaml").write_text("""defs:
  harbour: {kind: mcp, settings: {}}
  clerk: {kind: model, settings: {}}
  work: {kind: task, action: ai_agent, inputs: {prompt: go}, bindings: {model: clerk, mcp: [harbour]}}
flow: [{do: work}]
outputs: {text: =$output.work.text, calls: =$output.work.tool_calls}
""")
    (folder / "harbour.py").write_text(ACTIONS.replace("count_places", "berth"))
    body = """servers: {harbour: harbour.py}
tests:
  - name: A
    models: {clerk: [{calls: {berth: {port: Bari}}}, Moored.]}
    expect: {output: {text: Moored., calls: [{name: berth, failed: false}]}}
  - name: B
    models: {clerk: [{calls: {berth: {port: Bari}}}, Adrift.]}
    actions: {berth: {error: full}}
    expect: {output: {text: Adrift., calls: [{name: berth, failed: true}]}}
"""
    (folder / "quay.tests.yaml").write_text(body)
    passed(run_scripts(folder / "quay.yaml"))
    (folder / "quay.tests.yaml").write_text(
        body.replace("servers: {harbour: harbour.py}\n", "").replace("berth: {e", "work: {e")
    )
    with pytest.raises(UsageError, match="harbour"):
        run_scripts(folder / "quay.yaml")


FAULTS = {
    "a model that no workflow has": (
        "models: {pilott: x}\nexpect: {status: waiting}",
        (0, "no model `pilott`", "`pilot`"),
    ),
    "an action that no workflow has": (
        "actions: {count_place: {value: 1}}\nexpect: {status: waiting}",
        (0, "no task or action `count_place`", "`count_places`"),
    ),
    "a record that does not fit": (
        "memory: {cabin: {deck: upper}}\nexpect: {status: waiting}",
        (0, "`cabin` refuses the value at $.deck", "schema"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_is_shown_where_it_stands_before_anything_runs(run, name):
    rest, (line, message, hint) = FAULTS[name]
    test = MUTE + "\n" if "models" in rest else TEST
    with pytest.raises(SourceError) as raised:
        run(rest, test=test)
    [found] = raised.value.diagnostics
    assert message in found.message
    assert hint in found.hint
    assert f"ferry.tests.yaml:{LINE + line}:" in raised.value.report


def test_definitions_that_cannot_be_are_shown_where_they_stand(run):
    with pytest.raises(SourceError) as raised:
        run(
            text=(HEAD + TEST + "    expect: {status: waiting}\n").replace(
                "7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e01", "one"
            )
        )
    assert "ferry.tests.yaml:3:3: error[wrong_value]: `one` is not a UUID" in raised.value.report
    with pytest.raises(SourceError, match="with the id"):
        run(text=(HEAD + TEST + "    expect: {status: waiting}\n").replace("9e02", "9e01"))


def test_a_definition_that_the_workflow_names_and_the_file_does_not_give_is_told(run):
    text = HEAD.replace("7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e03", "7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9eff")
    passed(run(text=text + TEST + "    expect: {status: refused, error: {type: not_found, message: {has: 9e03}}}\n"))


def test_the_workflow_is_beside_the_tests_or_named_in_them(folder, run):
    passed(run("expect: {status: waiting}"))
    passed(run_scripts(folder / "ferry.tests.yaml"))
    (folder / "tests").mkdir()
    text = (folder / "ferry.tests.yaml").read_text().replace("actions: actions.py", "actions: ../actions.py")
    (folder / "tests" / "any.tests.yml").write_text("workflow: ../ferry.yaml\n" + text)
    passed(run_scripts(folder / "tests" / "any.tests.yml"))
    (folder / "ferry.tests.yaml").rename(folder / "ferry.tests.yml")
    passed(run_scripts(folder / "ferry.tests.yml"))
    (folder / "ferry.yaml").rename(folder / "ferry.yml")
    passed(run_scripts(folder / "ferry.tests.yml"))


def test_names_tell_what_a_file_is():
    assert scripts_beside(Path("a/desk.yaml")) == Path("a/desk.tests.yaml")
    assert scripts_beside(Path("desk.yml")) == Path("desk.tests.yaml")
    assert scripts_beside(Path("desk.tests.yml")) == Path("desk.tests.yml")
    with pytest.raises(UsageError, match=r"`desk\.txt` is neither"):
        scripts_beside(Path("desk.txt"))


def test_what_is_missing_or_faulty_is_said(folder, run):
    (folder / "lonely.yaml").write_text(FERRY)
    with pytest.raises(NotFound, match=r"lonely\.tests\.yaml"):
        run_scripts(folder / "lonely.yaml")
    (folder / "orphan.tests.yaml").write_text("tests: [{name: A, expect: {status: completed}}]\n")
    with pytest.raises(NotFound, match="no workflow found for"):
        run_scripts(folder / "orphan.tests.yaml")
    with pytest.raises(SourceError, match="`runn` is not a key"):
        run("steps: [{runn: }]")
    with pytest.raises(UsageError, match="does not exist"):
        run(text=(HEAD + TEST + "    expect: {status: waiting}\n").replace("actions.py", "nothing.py"))
    passed(run("expect: {status: waiting}"))
    (folder / "ferry.yaml").write_text(FERRY.replace("- do: thank", "- do: thankk"))
    with pytest.raises(SourceError, match="thankk"):
        run_scripts(folder / "ferry.yaml")
