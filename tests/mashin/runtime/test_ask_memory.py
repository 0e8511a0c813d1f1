"""`with memory` in an `ask`: what is remembered reaches the model where a machine says so, on record."""

from __future__ import annotations

import memoranda
from memoranda.agent.prompt import MEMORY_NOTICE
from memoranda.mashin.checker import check_source
from memoranda.mashin.formatter import format_text

TUNER = "The piano tuner comes on Thursday at nine"
ASK = """
accepts
  question as text, is required
ensures
  allowed to llm_call, memory
implements
  ask answer, using: "anthropic:claude-sonnet-4-6"
    with role "You keep the diary."
    with task "Answer: ${input.question}"
    with memory
"""
PLAIN = ASK.replace("    with memory\n", "")
QUESTION = {"question": "When does the piano tuner come?"}


def fill(memory, user="ada"):
    scope = memory.scope(user=user)
    scope.blocks.update("core", "- Wants short answers", expected_updated_at=None)
    scope.remember(TUNER, collection="notes")
    scope.remember("Rye bread needs a long oven", collection="notes")
    scope.set("profile.language", "en")
    return scope


def test_the_model_is_told_core_blocks_and_what_answers_the_task(load, memory, scripted):
    fill(memory)
    model = scripted("On Thursday.", again=True)
    run = load(ASK, model=model).run(QUESTION, user="ada")
    [ask] = model.asked
    role, notice, rest = ask.instructions.split("\n\n", 2)
    assert (role, notice) == ("You keep the diary.", MEMORY_NOTICE)
    assert rest.startswith("<user_memory>\n<core") and "- Wants short answers" in rest and TUNER in rest
    assert "profile" not in rest, "facts are declared, not told"
    assert model.tasks == ["Answer: When does the piano tuner come?"], "the task is the author's"
    assert run.steps["answer"] == {"text": "On Thursday."}
    assert run.steps["answer.memory"] == {"text": f"{notice}\n\n{rest}", "count": 2}


def test_nothing_is_told_unless_it_is_written(load, memory, scripted):
    fill(memory)
    model = scripted("I do not know.", again=True)
    load(PLAIN, model=model).run(QUESTION, user="ada").check()
    assert model.asked[0].instructions == "You keep the diary."
    load(ASK, model=model).run(QUESTION, user="ada").check()
    assert TUNER in model.asked[1].instructions


def test_a_query_of_its_own_is_looked_for_instead_of_the_task(load, memory, scripted):
    fill(memory)
    model = scripted("Long.", again=True)
    load(ASK.replace("with memory", 'with memory "the oven for rye"'), model=model).run(QUESTION, user="ada").check()
    assert "Rye bread" in model.asked[0].instructions and TUNER not in model.asked[0].instructions


def test_only_the_memory_of_the_run_is_told(load, memory, scripted):
    fill(memory, "bo")
    model = scripted("Ask Bo.", again=True)
    machine = load(ASK, model=model)
    machine.run(QUESTION, user="ada").check()
    assert model.asked[0].instructions == "You keep the diary.", "without memory, no notice either"
    machine.run(QUESTION, user="bo").check()
    assert TUNER in model.asked[1].instructions


def test_without_the_permission_nothing_is_read_and_no_model_is_asked(load, memory, scripted):
    fill(memory)
    model = scripted()
    text = ASK.replace("llm_call, memory", "llm_call")
    run = load(text, model=model).run(QUESTION, user="ada")
    assert (run.error.type, run.error.step) == ("permission_denied", "answer.memory")
    assert run.error.details["hint"] == "Add `allowed to memory.read` to `ensures`"
    assert [event.decision for event in run.events if event.kind == "policy_decision"] == ["deny"]
    [found] = check_source(f"machine desk{text}")[2]
    assert (found.code, found.message) == ("not_allowed", "step `answer` needs memory")
    assert found.hint == "Add `allowed to memory` to `ensures`"
    assert check_source(f"machine desk{ASK}")[2] == ()


def test_what_was_told_is_on_record(load, memory, scripted):
    fill(memory)
    run = load(ASK, model=scripted("On Thursday.")).run(QUESTION, user="ada")
    steps = [event for event in run.events if event.kind == "step_record"]
    assert [(one.step, one.detail["type"], one.detail["effect"]) for one in steps] == [
        ("answer.memory", "memory", "context"),
        ("answer", "reason", "ask"),
    ]
    [entry] = memory.scope(user="ada").entries(collection="notes", filter=None, limit=1)
    assert steps[0].detail["count"] == 2 and f"entry:{entry.id}" in steps[0].detail["ids"]
    assert TUNER not in str(steps[0].detail), "the ledger has what it was, not what it says"


def test_a_run_that_resumes_or_is_replayed_is_told_the_same(load, memory, scripted):
    ada = fill(memory)
    model = scripted("On Thursday.", again=True)
    machine = load(ASK.replace("llm_call, memory", "memory\n  requires approval for llm_call"), model=model)
    run = machine.run(QUESTION, user="ada")
    assert run.waiting.step == "answer" and TUNER in run.waiting.about["memory"], "who approves sees what is told"
    ada.remember("The piano tuner moved to Friday", collection="notes")
    memory.approvals.approve(memory.approvals.list()[0].id)
    done = run.resume()
    assert done.status == "completed"
    assert TUNER in model.asked[0].instructions and "Friday" not in model.asked[0].instructions
    assert machine.replay(run.id).same and len(model.asked) == 1


def test_reading_memory_can_need_approval_by_itself(load, memory, scripted):
    fill(memory)
    model = scripted("On Thursday.", again=True)
    text = ASK.replace("llm_call, memory", "llm_call\n  requires approval for memory.read")
    run = load(text, model=model).run(QUESTION, user="ada")
    assert (run.waiting.step, run.waiting.capability, model.asked) == ("answer.memory", "memory.read", [])
    assert run.approve().check().steps["answer"] == {"text": "On Thursday."}
    assert TUNER in model.asked[0].instructions


def test_a_policy_of_the_caller_that_forbids_reading_fails_the_step(load, memory, scripted):
    fill(memory)
    machine = load(ASK, model=scripted("On Thursday.", again=True))
    for approve in ((), ("memory.read",)):
        policy = memoranda.Policy.of(allow=("runs",), approve=approve)
        handle = memory.acting_as("user:ada", policy=policy)
        refused = machine.on(handle).run(QUESTION, user="ada")
        assert (refused.error.type, refused.error.step) == ("permission_denied", "answer.memory"), approve
    assert machine.run(QUESTION, user="ada").status == "completed"


def test_guards_check_what_is_told(load, memory, scripted):
    scope = memory.scope(user="ada")
    scope.remember("The piano tuner is ada@example.org", collection="notes")
    text = ASK.replace("implements", '  guards\n    no_personal_data\n      on_violation: "redact"\nimplements', 1)
    model = scripted("On Thursday.", again=True)
    load(text, model=model).run(QUESTION, user="ada").check()
    assert "piano tuner is" in model.asked[0].instructions and "ada@example" not in model.asked[0].instructions
    load(ASK, model=model).run(QUESTION, user="ada").check()
    assert "ada@example" in model.asked[1].instructions


def test_a_test_reads_nothing_unless_it_assumes_something(load, memory):
    fill(memory)
    machine = load(ASK + '    assuming\n      text: "On Thursday."\n')
    run = machine.run(QUESTION, user="ada", mode="test")
    assert run.steps["answer.memory"] == {"text": "", "count": 0}
    told = {"text": "The tuner is ill", "count": 1}
    assert machine.run(QUESTION, mode="test", assuming={"answer.memory": told}).steps["answer.memory"] == told


def test_a_machine_that_is_called_recalls_by_itself():
    text = ASK.replace('using: "anthropic:claude-sonnet-4-6"', 'from: "look"').replace("llm_call", "machine.call")
    found = [one for one in check_source(f"machine desk{text}")[2] if one.severity == "error"]
    assert [(one.code, one.message) for one in found] == [
        ("unexpected", "`ask answer` calls a machine, which recalls by itself what it needs")
    ]


def test_a_query_that_is_no_text_is_refused_with_what_to_write():
    [found] = check_source(f"machine desk{ASK.replace('with memory', 'with memory true')}")[2]
    assert (found.code, found.message) == ("wrong_value", "`memory` needs what to look for, as text, not `true`")
    assert "`with memory` alone" in found.hint
    twice = check_source(f"machine desk{ASK}    with memory\n")[2]
    assert [one.code for one in twice] == ["duplicate"]


def test_it_is_formatted_as_the_lines_around_it():
    text = f"machine desk{ASK}"
    usual = format_text(text)
    assert "\n      with memory\n" in usual and format_text(usual) == usual
