"""Each syntax error of a workflow file: its code, the words under the caret, its path, and a hint."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from memoranda.errors import SourceError
from memoranda.workflow.parser import PathDiagnostic, parse_document, read_source

DEFS = "defs:\n  a: {kind: task, action: send_text_message, inputs: {text: hi}}\n"
FLOW = "flow:\n  - do: a\n"


class Fault(NamedTuple):
    text: str
    code: str
    at: str
    path: str
    says: str
    hint: str


def task(more: str) -> str:
    return f"defs:\n  a: {{kind: task, action: send_text_message, {more}}}\n{FLOW}"


def step(body: str) -> str:
    return f"{DEFS}flow:\n  - {body}\n"


FAULTS = {
    "a key that nobody knows": Fault(
        f"{DEFS}{FLOW}output: {{}}\n", "unknown_key", "output", "", "not a key of a workflow", "`outputs`"
    ),
    "a key of another place": Fault(
        f"{DEFS}{FLOW}bindings: {{}}\n", "unknown_key", "bindings", "", "not a key of a workflow", "a task"
    ),
    "a key twice": Fault(
        f"{DEFS}{FLOW}flow: []\n", "duplicate", "flow", "", "`flow` is declared a second time", "one of them"
    ),
    "a key twice in what an action is given": Fault(
        task("inputs: {text: a, text: b}"), "duplicate", "text", "defs.a.inputs", "second time", "one of them"
    ),
    "a definition twice": Fault(
        f"{DEFS}  a: {{kind: model, settings: {{}}}}\n{FLOW}", "duplicate", "a", "defs", "`a` is", "one of them"
    ),
    "no definitions": Fault(FLOW, "missing", "flow", "", "`defs` is missing", "tasks"),
    "no flow": Fault(DEFS, "missing", "defs", "", "`flow` is missing", "steps"),
    "a workflow that is a list": Fault("- a\n", "wrong_type", "-", "", "keys and values, not a list", "defs"),
    "definitions that are a list": Fault(f"defs: [a]\n{FLOW}", "wrong_type", "[", "defs", "not a list", "name"),
    "a definition that is a text": Fault(
        f"defs: {{a: hello}}\n{FLOW}", "wrong_type", "hello", "defs.a", "not `hello`", "action"
    ),
    "a kind that does not exist": Fault(
        f"defs: {{a: {{kind: tsk, action: b}}}}\n{FLOW}", "unknown_word", "tsk", "defs.a.kind", "`tsk`", "`task`"
    ),
    "a task without an action": Fault(
        f"defs: {{a: {{kind: task}}}}\n{FLOW}",
        "missing",
        "kind",
        "defs.a",
        "`action` is missing",
        "the action that it runs",
    ),
    "a model without settings": Fault(
        f"{DEFS}  m: {{kind: model}}\n{FLOW}", "missing", "kind", "defs.m", "`settings` is missing", "configuration"
    ),
    "a model with inputs": Fault(
        f"{DEFS}  m: {{kind: model, settings: {{}}, inputs: {{}}}}\n{FLOW}",
        "unknown_key",
        "inputs",
        "defs.m",
        "not a task",
        "belongs to",
    ),
    "an action that is a number of things": Fault(
        f"defs: {{a: {{kind: task, action: [b]}}}}\n{FLOW}", "wrong_type", "[", "defs.a.action", "not a list", "colon"
    ),
    "inputs that are a text": Fault(task("inputs: hi"), "wrong_type", "hi", "defs.a.inputs", "not `hi`", "name: value"),
    "an unknown kind of binding": Fault(
        task("bindings: {memry: [b]}"), "unknown_key", "memry", "defs.a.bindings", "`memry`", "`memory`"
    ),
    "a binding that is a map": Fault(
        task("bindings: {model: {a: b}}"), "wrong_type", "a", "defs.a.bindings.model", "not a map", "name of a def"
    ),
    "a time in quotes": Fault(
        task('settings: {timeout_ms: "5"}'), "wrong_type", '"5"', "defs.a.settings.timeout_ms", "whole", "quotes"
    ),
    "a time that is computed": Fault(
        task("settings: {timeout_ms: =1}"), "wrong_type", "=1", "defs.a.settings.timeout_ms", "whole", "before a run"
    ),
    "a time that is negative": Fault(
        task("settings: {timeout_ms: -1}"), "wrong_type", "-1", "defs.a.settings.timeout_ms", "from 0 on", "number"
    ),
    "a word for true": Fault(
        task("settings: {retries: {enabled: True}}"),
        "wrong_type",
        "True",
        "defs.a.settings.retries.enabled",
        "true or false",
        "`true`",
    ),
    "no attempt at all": Fault(
        task("settings: {retries: {max_attempts: 0}}"),
        "wrong_type",
        "0",
        "defs.a.settings.retries.max_attempts",
        "from 1 on",
        "number",
    ),
    "more chance than all": Fault(
        task("settings: {retries: {jitter: 1.5}}"),
        "wrong_type",
        "1.5",
        "defs.a.settings.retries.jitter",
        "from 0 to 1",
        "number",
    ),
    "an unknown word of retries": Fault(
        task("settings: {retries: {attempts: 2}}"),
        "unknown_key",
        "attempts",
        "defs.a.settings.retries",
        "`attempts`",
        "`max_attempts`",
    ),
    "an input without a schema": Fault(
        f"inputs: {{shema: {{}}}}\n{DEFS}{FLOW}", "unknown_key", "shema", "inputs", "`shema`", "`schema`"
    ),
    "a flow that is a map": Fault(f"{DEFS}flow: {{do: a}}\n", "wrong_type", "do", "flow", "not a map", "dash"),
    "a step that is a text": Fault(step("a"), "wrong_type", "a", "flow[0]", "keys and values", "do"),
    "a step of two": Fault(step("do: a\n    parallel: {steps: []}"), "one_key", "parallel", "flow[0]", "not 2", "dash"),
    "a step of none": Fault(step("{}"), "one_key", "{", "flow[0]", "not 0", "do"),
    "a step that nobody knows": Fault(step("doo: a"), "unknown_key", "doo", "flow[0]", "`doo`", "`do`"),
    "a task that is a list": Fault(step("do: [a]"), "wrong_type", "[", "flow[0].do", "not a list", "name of a task"),
    "a strategy that does not exist": Fault(
        step("parallel: {strategy: wait_some, steps: []}"),
        "unknown_word",
        "wait_some",
        "flow[0].parallel.strategy",
        "`wait_some`",
        "wait_all, wait_any",
    ),
    "branches that are a map": Fault(
        step("conditional: {when: {a: b}}"), "wrong_type", "a", "flow[0].conditional.when", "not a map", "dash"
    ),
    "a branch without steps": Fault(
        step("conditional: {when: [{condition: =true}]}"),
        "missing",
        "condition",
        "flow[0].conditional.when[0]",
        "`steps`",
        "what is done",
    ),
    "an else with a condition": Fault(
        step("conditional: {when: [{condition: =true, else: true, steps: []}]}"),
        "else_with_condition",
        "else",
        "flow[0].conditional.when[0]",
        "not both",
        "two branches",
    ),
    "an else that is false": Fault(
        step("conditional: {when: [{else: false, steps: []}]}"),
        "wrong_type",
        "false",
        "flow[0].conditional.when[0].else",
        "is true",
        "`else: true`",
    ),
    "an else with another key": Fault(
        step("conditional: {when: [], else: {stps: []}}"),
        "unknown_key",
        "stps",
        "flow[0].conditional.else",
        "`stps`",
        "`steps`",
    ),
    "an else of nothing": Fault(
        step("conditional: {when: [], else: {}}"), "missing", "{", "flow[0].conditional.else", "`steps`", "what is done"
    ),
    "a loop without a type": Fault(
        step("loop: {for_each: {in: [1]}, steps: []}"), "missing", "for_each", "flow[0].loop", "`type`", "`while`"
    ),
    "a loop without steps": Fault(
        step("loop: {type: while, while: =true}"), "missing", "type", "flow[0].loop", "`steps`", "each pass"
    ),
    "a type that does not exist": Fault(
        step("loop: {type: foreach, for_each: {in: [1]}, steps: []}"),
        "unknown_word",
        "foreach",
        "flow[0].loop.type",
        "`foreach`",
        "`for_each`",
    ),
    "a while whose passes run at once": Fault(
        step("loop: {type: while, while: =true, max_concurrency: 2, steps: []}"),
        "wrong_setting",
        "max_concurrency",
        "flow[0].loop.max_concurrency",
        "one after the other",
        "Remove",
    ),
    "passes that are none": Fault(
        step("loop: {type: for_each, for_each: {in: [1]}, max_concurrency: 0, steps: []}"),
        "wrong_type",
        "0",
        "flow[0].loop.max_concurrency",
        "from 1 on",
        "number",
    ),
    "a for_each without a list": Fault(
        step("loop: {type: for_each, for_each: {item: x}, steps: []}"),
        "missing",
        "item",
        "flow[0].loop.for_each",
        "`in`",
        "list",
    ),
    "a value that is merged into nothing": Fault(
        step("loop: {type: while, while: =true, steps: [], accumulate: {as: x}}"),
        "missing",
        "as",
        "flow[0].loop.accumulate",
        "`merge`",
        "after each pass",
    ),
    "outputs that are a list": Fault(f"{DEFS}{FLOW}outputs: [a]\n", "wrong_type", "[", "outputs", "a list", "name"),
    "an anchor": Fault(f"{DEFS}{FLOW}context: &a {{}}\n", "yaml", "&", "", "anchors", "again"),
    "an alias": Fault(f"{DEFS}{FLOW}context: *a\n", "yaml", "*a", "", "aliases", "again"),
    "a second document": Fault(f"{DEFS}{FLOW}---\nx: 1\n", "yaml", "x", "", "one document", "two files"),
    "a bracket that is never closed": Fault(
        f"{DEFS}flow: [\n", "unclosed_bracket", "[", "", "never closed", "Close it"
    ),
    "an empty file": Fault("# nothing\n", "missing", "", "", "declares no workflow", "defs"),
}
"""All but the last are found at words of the file; that one is shown where it begins."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_shown_where_it_stands_with_its_path_and_a_way_out(name: str) -> None:
    fault = FAULTS[name]
    (one,) = read_source(fault.text).diagnostics
    assert (one.code, one.severity) == (fault.code, "error")
    shown = fault.text[one.span.start : one.span.end]
    assert shown.startswith(fault.at) and (shown == fault.at or len(fault.at) == 1)
    assert fault.says in one.message
    assert fault.hint in one.hint
    if fault.path:
        assert isinstance(one, PathDiagnostic)
        assert (one.path, f"`{fault.path}`" in one.message) == (fault.path, True)


def test_the_same_without_a_fault_has_nothing_to_say() -> None:
    assert read_source(DEFS + FLOW).diagnostics == ()


def test_all_faults_of_a_file_come_in_one_run_and_one_error() -> None:
    text = (
        "inputz: {}\ndefs: &x\n  save:\n    kind: task\n    acton: update_memory\n    kind: task\n"
        "    settings: {timeout_ms: '5'}\n  other: *x\nflow:\n  - doo: save\n  - loop: {steps: 3}\n"
    )
    with pytest.raises(SourceError) as raised:
        parse_document(text, name="many.yaml")
    assert [one.code for one in raised.value.diagnostics] == [
        *("unknown_key", "yaml", "unknown_key", "duplicate", "wrong_type", "yaml"),
        *("unknown_key", "missing", "wrong_type"),
    ]
    assert raised.value.message.startswith("many.yaml:1:1: `inputz` is not a key of a workflow (and 8 more)")
    assert "many.yaml:5:5: error[unknown_key]: `acton` is not a key of a task, in `defs.save`" in raised.value.report


def test_words_that_other_readers_take_for_true_are_noted_as_texts() -> None:
    (one,) = read_source(task("inputs: {text: True}")).diagnostics
    assert (one.code, one.severity, "`true`" in one.hint) == ("word_as_text", "warning", True)
    assert (
        read_source(task('inputs: {text: "True"}')).diagnostics
        == read_source(task("inputs: {text: true}")).diagnostics
        == ()
    )
