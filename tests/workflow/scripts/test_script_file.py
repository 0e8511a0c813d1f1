"""Test files are parsed correctly, and every error in one is shown at its location."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import SourceError
from memoranda.lang.scripts import Wording
from memoranda.workflow.scripts import file as script_file
from memoranda.workflow.scripts.file import Line, ScriptedError, ScriptedReply, ScriptedResult, read_scripts

WHOLE = """\
workflow: ferry.yaml
workflows: [weather.yaml]
actions: actions.py
servers: {harbour: harbour.py}
definitions:
  cabin:
    id: 7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e01
    name: Favourite cabin
    scope: thread
    ttl: 30d
    mode: merge
    schema: {type: object, properties: {deck: {type: integer}}}
  sea_legs: {schema: {type: object}}
tests:
  - name: Everything once
    owner: ada
    thread: quay
    now: 2026-05-01T18:00:00Z
    input: {text: yes, cars: 2}
    memory:
      cabin: {deck: 4}
    messages: [{owner: Ahoy}, {workflow: Where}]
    models:
      purser: [Aye., {text: Wait, calls: {update_memory: {memory: {}}}}, {error: timeout}]
      any: {object: {port: Bari}}
      pilot: {calls: [{sound: {depth: 3}}, {sound: {depth: 4}}]}
    actions:
      look_out: {value: {clear: true}}
      http_request: [{error: fog}, {error: {type: unreachable, message: lost, retryable: false}}, {value: null}]
    steps:
      - run: {text: no}
        expect:
          status: waiting
          messages: [Aye., {has: port, not: [sea, sky]}]
          waiting: {step: ask}
      - as: ben
        thread: pier
        deliver: [1]
        wait: 2h
      - cancel: storm
        expect:
          status: cancelled
          error: {type: cancelled, step: ask, message: {matches: ^st}}
          output: null
          outputs: {look_out: {clear: true}}
          context: {fare: 12}
          memory: {cabin: null}
      - run:
      - cancel:
  - name: Short
    input: {}
    expect: {error: schema_violation, messages: []}
"""


def faults(text: str) -> list[tuple[int, int, str, str, str]]:
    with pytest.raises(SourceError) as raised:
        read_scripts(text, name="ferry.tests.yaml")
    error = raised.value
    places = [line.split(":")[1:3] for line in error.report.splitlines() if line.startswith("ferry.tests.yaml:")]
    return [
        (int(line), int(column), one.code, one.message, one.hint)
        for (line, column), one in zip(places, error.diagnostics, strict=True)
    ]


def test_what_the_file_says_of_all_its_tests_is_read():
    read = read_scripts(WHOLE, name="ferry.tests.yaml")
    assert (read.workflow, read.workflows, read.actions) == ("ferry.yaml", ("weather.yaml",), "actions.py")
    assert read.servers == {"harbour": "harbour.py"}
    cabin, legs = read.definitions
    assert (cabin.slug, cabin.id, cabin.name) == ("cabin", "7d1f0c36-52a8-4a0b-9b1e-3c1f6a2d9e01", "Favourite cabin")
    assert (cabin.scope, cabin.ttl, cabin.mode) == ("thread", 2_592_000, "merge")
    assert cabin.schema == {"type": "object", "properties": {"deck": {"type": "integer"}}}
    assert (legs.slug, legs.id, legs.name, legs.scope, legs.ttl) == ("sea_legs", None, "Sea legs", "global", None)


def test_everything_that_can_stand_in_a_test_is_read():
    script, short = read_scripts(WHOLE, name="ferry.tests.yaml").scripts
    assert (script.name, script.owner, script.thread) == ("Everything once", "ada", "quay")
    assert script.now == "2026-05-01T18:00:00+00:00"
    assert script.input == {"text": "yes", "cars": 2}
    assert {slug: value for slug, (value, _) in script.memory.items()} == {"cabin": {"deck": 4}}
    assert script.messages == (Line(True, "Ahoy"), Line(False, "Where"))
    assert {one.name: one.replies for one in script.models} == {
        "purser": (
            ScriptedReply(text="Aye."),
            ScriptedReply(text="Wait", calls=(("update_memory", {"memory": {}}),)),
            ScriptedReply(error="timeout"),
        ),
        "any": (ScriptedReply(value={"port": "Bari"}),),
        "pilot": (ScriptedReply(calls=(("sound", {"depth": 3}), ("sound", {"depth": 4}))),),
    }
    assert {one.name: one.answers for one in script.actions} == {
        "look_out": (ScriptedResult(value={"clear": True}),),
        "http_request": (
            ScriptedResult(error=ScriptedError(message="fog")),
            ScriptedResult(error=ScriptedError(type="unreachable", message="lost", retryable=False)),
            ScriptedResult(),
        ),
    }
    kinds = [step.kind for step in script.steps]
    assert kinds == ["run", "expect", "as", "thread", "deliver", "wait", "cancel", "expect", "run", "cancel"]
    assert [step.value for step in script.steps if step.kind != "expect"] == [
        {"text": "no"},
        "ben",
        "pier",
        [1],
        7_200,
        "storm",
        None,
        "",
    ]
    first, second = [step.value for step in script.steps if step.kind == "expect"]
    assert (first.status, first.error) == ("waiting", None)
    assert first.messages == (
        (Wording("is", "Aye."),),
        (Wording("has", "port"), Wording("not", "sea"), Wording("not", "sky")),
    )
    assert first.values == {"waiting": {"step": "ask"}}
    assert (second.error.type, second.error.step, second.error.message) == (
        "cancelled",
        "ask",
        (Wording("matches", "^st"),),
    )
    assert second.values == {
        "output": None,
        "outputs": {"look_out": {"clear": True}},
        "context": {"fare": 12},
        "memory": {"cabin": None},
    }
    assert [step.kind for step in short.steps] == ["run", "expect"]
    assert short.steps[1].value.error.type == "schema_violation"
    assert short.steps[1].value.messages == ()


def test_the_sample_of_the_module_is_a_file_of_tests():
    [sample] = re.findall(r"```yaml\n(.*?)```", script_file.__doc__ or "", re.DOTALL)
    read = read_scripts(sample, name="bakery.tests.yaml")
    assert len(read.scripts) == 2
    assert [one.slug for one in read.definitions] == ["allergies"]


def test_words_stay_words_and_only_json_scalars_are_none():
    text = (
        "tests:\n  - name: n\n    input: {a: no, b: off, c: 2026-05-01, d: 007, e: 1e2, f: '5', g: null, i: false}\n"
        "    expect: {status: completed}\n"
    )
    [script] = read_scripts(text, name="t").scripts
    expected = {"a": "no", "b": "off", "c": "2026-05-01", "d": "007", "e": 100.0, "f": "5", "g": None, "i": False}
    assert script.input == expected


def test_whose_run_it_is_and_when_has_a_default():
    [script] = read_scripts("tests:\n  - name: n\n    expect: {status: completed}\n", name="t").scripts
    assert (script.owner, script.thread, script.now) == ("tester", None, "2026-01-01T12:00:00+00:00")
    assert script.input == {}


TEST = "tests:\n  - name: n\n    expect: {status: completed}\n    "
STEP = "tests:\n  - name: n\n    steps:\n      - "
DEFINED = "definitions:\n  deck: {schema: {type: object}}\n"

FAULTS = {
    "an empty file": ("", (1, 1, "missing", "declares no tests", "`tests:`")),
    "no tests": ("workflow: a.yaml\n", (1, 1, "missing", "no tests", "`tests:`")),
    "an unknown key of the file": ("test:\n  - name: n\n", (1, 1, "unknown_key", "`test`", "`tests`")),
    "the key of an agent": (f"agent: a.abl\n{TEST}", (1, 1, "unknown_key", "`agent`", "Its keys are workflow")),
    "an unknown key of a test": (f"{TEST}imput: {{}}\n", (4, 5, "unknown_key", "not a key of a test", "`input`")),
    "an unknown key of a step": (f"{STEP}runn: {{}}\n", (4, 9, "unknown_key", "not a key of a step", "`run`")),
    "an unknown expectation": (
        f"{STEP}expect: {{outputt: 1}}\n",
        (4, 18, "unknown_key", "not a key of an expectation", "`output`"),
    ),
    "an unknown key of a definition": (
        f"definitions:\n  a: {{shema: {{}}, schema: {{type: object}}}}\n{TEST}",
        (2, 7, "unknown_key", "not a key of a definition", "`schema`"),
    ),
    "a key twice": (f"{STEP}run: {{}}\n        run: {{}}\n", (5, 9, "duplicate", "`run`", "one of them")),
    "a key twice inside a value": (f"{TEST}input: {{a: 1, a: 2}}\n", (4, 19, "duplicate", "`a`", "one of them")),
    "a name twice": (
        f"{TEST}\n  - name: n\n    expect: {{status: completed}}\n",
        (5, 5, "duplicate", "`n`", "of its own"),
    ),
    "no name": ("tests:\n  - owner: a\n", (2, 5, "missing", "needs a name", "- name:")),
    "nothing to do": ("tests:\n  - name: n\n", (2, 5, "missing", "`n` does nothing", "`expect:` or `steps:`")),
    "expect beside steps": (
        f"{TEST}steps: [{{run: {{}}}}]\n",
        (3, 13, "wrong_value", "belongs to no step", "Put it into a step"),
    ),
    "nothing expected": (f"{STEP}expect: {{}}\n", (4, 17, "wrong_value", "nothing is expected", "status")),
    "steps that are no list": ("tests:\n  - name: n\n    steps: hi\n", (3, 12, "wrong_value", "is a list", "dash")),
    "a step that is a text": (f"{STEP}run\n", (4, 9, "wrong_value", "keys and values", "deliver")),
    "an input that is a text": (f"{STEP}run: hello\n", (4, 14, "wrong_value", "names and values", "name: value")),
    "a status that does not exist": (
        f"{STEP}expect: {{status: compleet}}\n",
        (4, 26, "wrong_value", "`compleet` is not a valid status", "`completed`"),
    ),
    "a pattern that cannot be": (
        f"{STEP}expect: {{messages: [{{matches: '('}}]}}\n",
        (4, 39, "wrong_value", "pattern", "Correct"),
    ),
    "a wait that is no duration": (f"{STEP}wait: soon\n", (4, 15, "wrong_value", "`soon`", "90s")),
    "a moment that is none": (f"{TEST}now: today\n", (4, 10, "wrong_value", "`today`", "ISO 8601")),
    "a slug that cannot be": (
        f"definitions:\n  Deck: {{schema: {{type: object}}}}\n{TEST}",
        (2, 3, "wrong_value", "`Deck`", "Lower-case"),
    ),
    "a definition without a schema": (
        f"definitions:\n  deck: {{scope: run}}\n{TEST}",
        (2, 3, "missing", "`deck` has no schema", "`schema:`"),
    ),
    "a schema that is none": (
        f"definitions:\n  deck: {{schema: {{type: array}}}}\n{TEST}",
        (2, 18, "wrong_value", "object schema", "Describe an object"),
    ),
    "a scope that does not exist": (
        f"definitions:\n  deck: {{scope: threat, schema: {{type: object}}}}\n{TEST}",
        (2, 17, "wrong_value", "`threat` is not a valid scope", "`thread`"),
    ),
    "a mode that does not exist": (
        f"definitions:\n  deck: {{mode: merg, schema: {{type: object}}}}\n{TEST}",
        (2, 16, "wrong_value", "`merg` is not a valid mode", "`merge`"),
    ),
    "a ttl that is none": (
        f"definitions:\n  deck: {{ttl: ever, schema: {{type: object}}}}\n{TEST}",
        (2, 15, "wrong_value", "`ever`", "30d"),
    ),
    "memory that is not defined": (
        f"{DEFINED}{TEST}memory: {{dek: {{}}}}\n",
        (6, 14, "unknown_key", "`dek` is not a key of the definitions", "`deck`"),
    ),
    "memory without definitions": (
        f"{TEST}memory: {{deck: {{}}}}\n",
        (4, 14, "wrong_value", "defines no memory", "`definitions:`"),
    ),
    "memory expected that is not defined": (
        f"{DEFINED}{STEP}expect: {{memory: {{dek: 1}}}}\n",
        (6, 27, "unknown_key", "`dek`", "`deck`"),
    ),
    "a record of a run before it": (
        f"definitions:\n  deck: {{scope: run, schema: {{type: object}}}}\n{TEST}memory: {{deck: {{}}}}\n",
        (6, 20, "wrong_value", "stored per run", "Leave it out"),
    ),
    "a record of a thread without one": (
        f"definitions:\n  deck: {{scope: thread, schema: {{type: object}}}}\n{TEST}memory: {{deck: {{}}}}\n",
        (6, 20, "wrong_value", "stored per thread", "`thread:`"),
    ),
    "a record of an agent": (
        f"definitions:\n  deck: {{scope: agent, schema: {{type: object}}}}\n{TEST}memory: {{deck: {{}}}}\n",
        (6, 20, "wrong_value", "stored per agent", "global, workflow, thread, run"),
    ),
    "messages without a thread": (
        f"{TEST}messages: [{{owner: hi}}]\n",
        (2, 5, "wrong_value", "belong to a thread", "`thread:`"),
    ),
    "a message of a stranger": (
        f"{TEST}thread: t\n    messages: [{{bob: hi}}]\n",
        (5, 17, "unknown_key", "`bob` is not a key of a message", "owner, workflow"),
    ),
    "a model without a reply": (f"{TEST}models: {{a: []}}\n", (4, 17, "wrong_value", "no reply", "Leave the name out")),
    "a reply of two kinds": (
        f"{TEST}models: {{a: {{text: x, object: {{}}}}}}\n",
        (4, 17, "wrong_value", "one of these", "with `calls`"),
    ),
    "a reason that does not exist": (
        f"{TEST}models: {{a: {{error: timout}}}}\n",
        (4, 25, "wrong_value", "`timout` is not a valid reason", "`timeout`"),
    ),
    "calls without arguments": (
        f"{TEST}models: {{a: {{calls: sound}}}}\n",
        (4, 25, "wrong_value", "tools and their arguments", "`tool:"),
    ),
    "a reply that says nothing": (f"{TEST}models: {{a: {{}}}}\n", (4, 17, "wrong_value", "is empty", "`calls`")),
    "an unknown key of a reply": (
        f"{TEST}models: {{a: {{obect: {{}}}}}}\n",
        (4, 18, "unknown_key", "not a key of a reply", "`object`"),
    ),
    "an unknown key of an answer": (
        f"{TEST}actions: {{a: {{valu: 1}}}}\n",
        (4, 19, "unknown_key", "not a key of an answer", "`value`"),
    ),
    "an empty answer": (f"{TEST}actions: {{a: {{}}}}\n", (4, 18, "wrong_value", "a `value` or an", "`value:`")),
    "a bare answer": (
        f"{TEST}actions: {{a: 5}}\n",
        (4, 18, "wrong_value", "an answer is keys and values", "value, error"),
    ),
    "an answer of two kinds": (
        f"{TEST}actions: {{a: {{value: 1, error: x}}}}\n",
        (4, 18, "wrong_value", "a `value` or an `error`", "`value:`"),
    ),
    "an action without an answer": (f"{TEST}actions: {{a: []}}\n", (4, 18, "wrong_value", "no answer", "Leave")),
    "a retryable that is a word": (
        f"{TEST}actions: {{a: {{error: {{retryable: yes}}}}}}\n",
        (4, 38, "wrong_value", "true or false", "Leave it out"),
    ),
    "an anchor": ("tests: &a\n  - name: n\n", (1, 8, "yaml", "anchors", "again")),
    "two documents": ("tests: []\n---\na: b\n", (3, 1, "yaml", "one document", "two files")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_shown_where_it_stands_with_a_way_out(name):
    text, (line, column, code, message, hint) = FAULTS[name]
    [found] = faults(text)
    assert found[:3] == (line, column, code)
    assert message in found[3]
    assert hint in found[4]


def test_all_faults_of_a_file_are_shown_at_once():
    text = (
        "tets: []\ntests:\n  - name: a\n    now: never\n    steps:\n      - runn: {}\n      - wait: long\n"
        "  - name: a\n    expect: {status: done}\n"
    )
    assert [(line, code) for line, _, code, _, _ in faults(text)] == [
        (1, "unknown_key"),
        (4, "wrong_value"),
        (6, "unknown_key"),
        (7, "wrong_value"),
        (8, "duplicate"),
        (9, "wrong_value"),
    ]


@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("latin-1"))))
def test_any_text_is_read_or_refused_in_words(text):
    judge(text)


@given(st.integers(0, len(WHOLE)), st.text(st.sampled_from(" \n:-[]{}'\"&*|#a\t"), max_size=3), st.integers(0, 5))
def test_any_change_of_a_good_file_is_read_or_refused_in_words(at, inserted, removed):
    judge(WHOLE[:at] + inserted + WHOLE[at + removed :])


def judge(text: str) -> None:
    try:
        assert read_scripts(text, name="t").scripts
    except SourceError as error:
        assert error.diagnostics
        for one in error.diagnostics:
            assert 0 <= one.span.start <= one.span.end
            assert one.span.start <= len(text)
