"""The sections of a whole agent, in every form that is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memoranda.abl.document import Call, Check, Consult, Gather, Present, Respond, Set, Transform
from memoranda.abl.parser import Reading, parse_document, parse_fragment, read

TEXT = (Path(__file__).parent / "samples" / "everything.abl").read_text()


@pytest.fixture(scope="module")
def reading() -> Reading:
    return read(TEXT, name="ferry.agent.abl")


@pytest.fixture(scope="module")
def agent(reading: Reading) -> Any:
    reading.raise_if_failed()
    return reading.document


def test_what_is_not_acted_on_is_kept_and_noted(reading: Reading, agent: Any) -> None:
    said = [(one.severity, one.code) for one in reading.diagnostics]
    assert ("error", "not_acted_on") not in said
    noted = {
        reading.source.slice(one.span)
        for one in reading.diagnostics
        if (one.severity, one.code) == ("warning", "not_acted_on")
    }
    assert noted >= {"EXECUTION", "GUARDRAILS", "NLU", "VOICE", "routing"}
    assert not noted & {"MEMORY", "FLOW", "TOOLS", "GATHER", "HANDOFF"}
    assert [line.key for line in agent.kept] == ["EXECUTION", "GUARDRAILS", "NLU"]
    assert agent.kept[0].children[0].value.text == "some-model"


def test_warnings_are_about_a_text_without_effect_and_a_comment_beside_a_word(reading: Reading) -> None:
    warned = [
        (one.code, one.message)
        for one in reading.diagnostics
        if one.severity == "warning" and one.code != "not_acted_on"
    ]
    assert warned == [
        ("no_rule", '`"Be kind"` is not a rule and has no effect'),
        ("inline_comment", "`# continue | resume_intent` is ignored: a comment needs a line of its own"),
    ]


def test_the_head(agent: Any) -> None:
    assert (agent.kind, agent.name.text, agent.version) == ("agent", "Ferry_Desk", "2.1.0")
    assert agent.goal.text == "Sell a crossing that fits.\nNever sell two."
    assert [one.text for one in agent.limitations] == ["Cannot change the weather", "Cannot wait: ships leave on time"]
    assert [one.text for one in agent.identity.expertise] == ["tides", "cars"]
    assert agent.identity.persona.text == "Knows every port."


def test_memory_in_every_spelling(agent: Any) -> None:
    assert [(one.path.text, one.scope, one.access) for one in agent.memory.persistent] == [
        ("user.cabin", "user", "readwrite"),
        ("workflow.case", "execution_tree", "readwrite"),
        ("project.fares", "execution_tree", "readwrite"),
        ("project.tides", "project", "read"),
        ("user.level", "user", "readwrite"),
        ("user.log", "user", "write"),
    ]
    cabin = agent.memory.persistent[0]
    assert (cabin.default.text, cabin.unit.text, cabin.sensitive) == ('"inside"', "deck", True)
    (remember,) = agent.memory.remember
    assert (remember.when.text, remember.value.text, remember.ttl.text) == ("port IS SET", "{port, at: NOW()}", "24h")
    assert (agent.memory.recall[0].action, agent.memory.recall[0].on.text) == (None, "step:enter:greet")


def test_constraints_with_colons_properties_and_remarks(agent: Any) -> None:
    always, legal = agent.constraints
    assert (always.rules[0].keyword, always.rules[0].condition.text) == ("REQUIRE", "passengers <= 9")
    assert [one.text for one in always.remarks] == ["Be kind"]
    implied, stormy = legal.rules
    assert implied.condition.text == "car IMPLIES plate IS SET"
    assert (implied.before.kind, implied.before.target.text) == ("calling", "book")
    assert [one.text for one in implied.on_fail.collect] == ["plate"]
    assert (stormy.before.kind, stormy.before.target.text) == ("other", "sailing into a storm")
    assert (stormy.severity, implied.severity) == ("warning", "error")


def test_tools(agent: Any) -> None:
    search, book, ping, tides = agent.tools
    assert [
        (one.name.text, one.type.text, one.default and one.default.text, one.required) for one in search.parameters
    ] == [
        ("port", "string", None, True),
        ("day", "date", None, True),
        ("cars", "number", "0", False),
        ("note", "string", None, False),
    ]
    assert search.returns.text == "{crossings: {id: string, fare: number}[], total: number}"
    assert (search.type, search.method, search.timeout, search.retry) == ("http", "POST", 9000, 2)
    assert [(one.name.text, one.value.text) for one in search.headers] == [
        ("X-Key", '"{{secret}}"'),
        ("Accept", '"application/json"'),
    ]
    assert [one.name.text for one in book.parameters] == ["id", "car"]
    assert book.returns.text == "{ ticket: string, paid: boolean }"
    assert (ping.parameters, ping.returns.text, tides.returns) == ((), "boolean", None)


def test_gather_of_the_agent(agent: Any) -> None:
    passengers, mail = agent.gather.fields
    assert agent.gather.strategy == "hybrid"
    assert (passengers.type.text, passengers.default.text, passengers.required) == ("number", "2", True)
    assert [(one.name.text, one.value.text) for one in passengers.validate] == [("min", "1"), ("max", "9")]
    assert [(one.name.text, one.value.text) for one in mail.validate] == [("email", "")]
    assert mail.active_when.text == "wants_mail == true"
    assert [one.text for one in mail.hints] == ["looks like a@b"]


def step(agent: Any, name: str) -> Any:
    return next(one for one in agent.flow.steps if one.name.text == name)


def test_the_order_of_the_flow_and_its_digressions(agent: Any) -> None:
    assert agent.flow.entry == "greet"
    assert [one.name.text for one in agent.flow.steps] == ["greet", "ask", "find", "think", "bye"]
    assert [one.text for one in agent.flow.order][:2] == ["greet", "ask"]
    helped, boss = agent.flow.global_digressions
    assert [type(one) for one in helped.body] == [Respond, Set]
    assert (helped.resume, boss.resume) == (True, False)
    assert (boss.goto.kind, boss.goto.name.text) == ("handoff", "Harbour_Master")


def test_a_named_template_and_branches_of_then(agent: Any) -> None:
    greet = step(agent, "greet")
    assert (greet.body[0].named, greet.body[0].text.text) == (True, "welcome")
    assert [one.condition and one.condition.text for one in greet.then] == ["user.port IS SET", None]
    assert [line.key for line in greet.kept] == ["VOICE"]


def test_fields_of_a_step(agent: Any) -> None:
    ask = step(agent, "ask")
    assert [type(one) for one in ask.body] == [Present, Gather]
    assert [(one.name.text, one.required, one.type and one.type.text) for one in ask.body[1].fields] == [
        ("port", True, None),
        ("name", False, None),
        ("day", False, "date"),
    ]
    assert (ask.when.text, ask.max_attempts, ask.on_exhausted.kind, ask.corrections) == (
        "tries < 5",
        3,
        "escalate",
        True,
    )
    (timetable,) = ask.digressions
    assert [type(one) for one in timetable.body] == [Call, Respond]
    assert [(one.name.text, one.value.text) for one in timetable.body[0].named] == [("day", '"today"')]


def test_actions_keep_the_order_of_the_file_and_outcomes_their_call(agent: Any) -> None:
    find = step(agent, "find")
    assert [type(one).__name__ for one in find.body] == ["Set", "Set", "Transform", "Call", "Check", "Clear"]
    assigned = find.body[0]
    assert [(one.target.text, one.value.text) for one in assigned.assignments] == [
        ("tries", "tries + 1"),
        ("label", '"a: {{port}}"'),
    ]
    transform = find.body[2]
    assert isinstance(transform, Transform)
    assert transform.filter is not None
    assert (transform.filter.text, transform.descending) == ("crossing.fare <= 50", True)
    call = find.body[3]
    assert isinstance(call, Call)
    assert call.result is not None
    assert ([one.name.text for one in call.named], call.result.text) == (["port", "day"], "found")
    nested = call.on_success[0].body[0]
    assert isinstance(nested, Call)
    assert nested.on_fail[0].then is not None
    assert nested.on_fail[0].then.name.text == "bye"
    assert isinstance(call.on_success[1].body[0], Respond)
    failed = call.on_fail[0].then
    assert failed is not None
    assert failed.reason is not None
    assert (failed.kind, failed.reason.text) == ("escalate", "no search")
    assert call.on_result[0].then is not None
    assert call.on_result[0].then.kind == "handoff"
    check = find.body[4]
    assert isinstance(check, Check)
    assert check.on_fail == ()


def test_errors_of_a_step(agent: Any) -> None:
    slow, gone = step(agent, "find").on_error
    assert (slow.retry, slow.retry_delay, slow.retry_backoff, slow.retry_max_delay) == (2, 100, "exponential", 900)
    assert (gone.type.text, gone.then.kind, gone.then.name.text) == ("api_error", "handoff", "Night_Desk")
    (model,) = step(agent, "think").on_error
    assert (model.type.text, [one.text for one in model.subtypes], model.backtrack_to.text) == (
        "llm_error",
        ["rate_limit"],
        "ask",
    )


def test_a_reasoning_step(agent: Any) -> None:
    think = step(agent, "think")
    assert (think.reasoning, think.exit_when.text, think.max_turns) == (True, "ticket IS SET", 4)
    assert [one.text for one in think.available_tools] == ["book"]
    assert think.on_action[0].action.text == "again"
    assert isinstance(step(agent, "bye").body[0], Consult)


def test_other_agents_and_people(agent: Any) -> None:
    (handoff,) = agent.handoffs
    context = handoff.context
    assert (context.history.text, context.history_count) == ("last_n", 5)
    assert [(one.path.text, one.access) for one in context.memory_grants] == [
        ("workflow.case", "readwrite"),
        ("user.cabin", "read"),
    ]
    assert (handoff.returns, handoff.priority, handoff.on_return.action) == (True, 1, "resume_intent")
    assert [(one.name.text, one.value.text) for one in handoff.on_return.map] == [("answer", "night_answer")]
    (delegate,) = agent.delegates
    assert [(one.name.text, one.value.text) for one in delegate.input] == [("port", "port"), ("day", "day")]
    assert agent.escalate.triggers[0].priority == "high"
    assert [(one.store_value.text, one.store_target and one.store_target.text) for one in agent.completes] == [
        ("ticket", "user.last_ticket"),
        ("port", None),
    ]


def test_what_another_agent_is_told_may_stand_beside_its_name() -> None:
    beside = parse_fragment("HANDOFF:\n  - TO: A\n    pass: [a, b]\n    summary: s\n    history: full\n")
    below = parse_fragment(
        "HANDOFF:\n  - TO: A\n    CONTEXT:\n      pass: [a, b]\n      summary: s\n      history: full\n"
    )
    assert beside == below
    assert beside.handoffs[0].context is not None
    assert parse_fragment("HANDOFF:\n  - TO: A\n").handoffs[0].context is None


def test_the_life_of_a_session(agent: Any) -> None:
    assert [type(one) for one in agent.on_start.body] == [Set, Call]
    assert len(agent.on_start.branches) == 2
    assert [(one.name.text, one.critical) for one in agent.hooks] == [("before_turn", False), ("after_turn", True)]
    assert agent.return_handlers[0].resume_intent is True
    assert agent.on_error[0].then.kind == "continue"
    assert [(one.name.text, one.value.text) for one in agent.messages] == [("error_default", '"Sorry."')]
    assert [(one.name.text, one.text.text) for one in agent.templates] == [
        ("welcome", "Ahoy {{user.name}}"),
        ("ticket", "Ticket"),
    ]


def only(text: str) -> Any:
    body = parse_fragment(text).body
    assert body is not None
    return body.body


@pytest.mark.parametrize(
    "text",
    [
        "SET: a = 1\nSET: b.c = 2\n",
        "SET:\n  - a = 1\n  - b.c = 2\n",
        "SET:\n  a = 1\n  b.c = 2\n",
        "SET:\n  a: 1\n  b.c: 2\n",
        "SET: {a: 1, b.c: 2}\n",
        "SET: |\n  a = 1\n  b.c = 2\n",
    ],
)
def test_every_spelling_of_set(text: str) -> None:
    assigned = [one for action in only(text) for one in action.assignments]
    assert [(one.target.text, one.value.text) for one in assigned] == [("a", "1"), ("b.c", "2")]


@pytest.mark.parametrize(
    "text",
    [
        "TRANSFORM:\n  SOURCE: a.b AS c\n  INTO: d\n  SORT_BY: e desc\n",
        "TRANSFORM:\n  SOURCE: a.b\n  AS: c\n  INTO: d\n  SORT_BY: e DESC\n",
        "TRANSFORM: a.b AS c INTO d\n  SORT_BY: e desc\n",
    ],
)
def test_every_spelling_of_transform(text: str) -> None:
    (one,) = only(text)
    assert (one.source.text, one.item.text, one.into.text, one.sort_by.text, one.descending) == (
        "a.b",
        "c",
        "d",
        "e",
        True,
    )


@pytest.mark.parametrize(
    "text",
    [
        "CALL: f(x = 1, y = g(2, 3))\nTHEN: z\n",
        "CALL: f\n  WITH:\n    x: 1\n    y: g(2, 3)\n",
        "CALL: f\nWITH: {x: 1, y: g(2, 3)}\n",
        "CALL:\n  TOOL: f\n  WITH:\n    x: 1\n    y: g(2, 3)\n",
        "CALL: f()\n  WITH:\n    - key: x\n      value: 1\n    - key: y\n      value: g(2, 3)\n",
    ],
)
def test_every_spelling_of_call(text: str) -> None:
    (one,) = only(text)
    assert (one.tool.text, one.positional) == ("f", ())
    assert [(argument.name.text, argument.value.text) for argument in one.named] == [("x", "1"), ("y", "g(2, 3)")]


@pytest.mark.parametrize(
    "text",
    [
        "GATHER: a, b\nTHEN: c\n",
        "GATHER:\n  - a\n  - b\nTHEN: c\n",
        "GATHER:\n  - a: required\n  - b: required\nTHEN: c\n",
        "GATHER:\n  FIELDS:\n    - a:\n        required: true\n    - b\nTHEN: c\n",
        "GATHER:\n  FIELDS: [a, b]\nTHEN: c\n",
        "GATHER:\n  a:\n    required: true\n  b:\nTHEN: c\n",
        "GATHER:\n  - name: a\n  - name: b\nTHEN: c\n",
    ],
)
def test_every_spelling_of_gather(text: str) -> None:
    (one,) = only(text)
    assert [(field.name.text, field.required) for field in one.fields] == [("a", True), ("b", True)]


def test_a_scalar_on_fail_serves_the_check_and_the_call_and_a_block_the_call() -> None:
    call, check = only("CALL: f()\nCHECK: a\nON_FAIL: s\n")
    assert (call.on_fail[0].then.name.text, check.on_fail[0].then.name.text) == ("s", "s")
    call, check = only("CALL: f()\nCHECK: a\nON_FAIL:\n  THEN: s\n")
    assert (call.on_fail[0].then.name.text, check.on_fail) == ("s", ())
    (check,) = only("CHECK: a\nON_FAIL:\n  RESPOND: no\n  THEN: s\n")
    assert (check.on_fail[0].body[0].text.text, check.on_fail[0].then.name.text) == ("no", "s")


def test_quotes_do_not_hide_a_step() -> None:
    (check,) = only('CHECK: a\nON_FAIL: "sorry_step"\n')
    assert (check.on_fail[0].body, check.on_fail[0].then.name.text) == ((), "sorry_step")
    (check,) = only('CHECK: a\nON_FAIL: "Sorry, no."\n')
    assert (check.on_fail[0].body[0].text.text, check.on_fail[0].then) == ("Sorry, no.", None)
    body = parse_fragment('RESPOND: a\nTHEN: "HANDOFF Night Desk"\n').body
    assert body is not None
    assert body.then[0].then is not None
    assert (body.then[0].then.kind, body.then[0].body) == ("handoff", ())


def test_quotes_make_the_name_of_a_template_a_text() -> None:
    named, text = only('RESPOND: TEMPLATE(hello)\nRESPOND: "TEMPLATE(hello)"\n')
    assert (named.named, named.text.text) == (True, "hello")
    assert (text.named, text.text.text) == (False, "TEMPLATE(hello)")


def test_each_call_has_its_own_outcome() -> None:
    first, second = only("CALL: f()\nON_SUCCESS:\n  SET: a = 1\nCALL: g()\nON_FAIL: s\n")
    assert (len(first.on_success), len(first.on_fail)) == (1, 0)
    assert (len(second.on_success), len(second.on_fail)) == (0, 1)


def test_nested_values_become_objects_and_lists() -> None:
    (call,) = only("CALL: f\n  WITH:\n    who:\n      name: n\n      tags:\n        - a\n        - b\n")
    assert call.named[0].value.text == "{name: n, tags: [a, b]}"


def test_a_signature_over_lines_knows_the_place_of_its_parameters() -> None:
    text = "TOOLS:\n  f(\n    first: string,\n    second: number\n  ) -> string\n"
    (tool,) = parse_fragment(text).tools
    assert [text[one.name.span.start : one.name.span.end] for one in tool.parameters] == ["first", "second"]


def test_raw_text_knows_its_place(agent: Any) -> None:
    block = agent.goal.excerpt
    assert TEXT[block.locate(block.text.index("Never"), len(block.text)).start :].startswith("Never sell two.")
    template = step(agent, "ask").body[0].text
    start = template.text.index("{{port}}")
    place = template.excerpt.locate(start, start + 8)
    assert TEXT[place.start : place.end] == "{{port}}"


def test_kinds_of_files() -> None:
    assert parse_document("SUPERVISOR: Router\nHANDOFF:\n  - TO: A\n    WHEN: true\n").kind == "supervisor"
    assert parse_document("TOOLS:\n  f(a: string) -> string\n").kind == "tools"
    profile = parse_document('BEHAVIOR_PROFILE: Quiet\nPRIORITY: 3\nWHEN: channel == "voice"\n')
    assert (profile.kind, [line.key for line in profile.kept]) == ("behavior_profile", ["PRIORITY", "WHEN"])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("session:\n  - a\n", "memory"),
        ("- REQUIRE a == 1\n  ON_FAIL: no\n", "constraints"),
        ("hello:\n  REASONING: false\n  RESPOND: hi\n", "flow"),
        ("ON_INPUT:\n  - IF: input == 1\n    THEN: a\n  - ELSE:\n    THEN: b\n", "body"),
        ("GATHER:\n  - a: required\nTHEN: b\n", "body"),
        ("GATHER:\n  a:\n    type: string\n", "gather"),
        ("RESPOND: hi\n", "body"),
        ("TEMPLATES:\n  a: b\n", "templates"),
    ],
)
def test_any_part_alone_is_a_fragment(text: str, part: str) -> None:
    document: Any = parse_fragment(text)
    assert document.kind == "fragment"
    assert getattr(document, part)
    others = {"memory", "constraints", "flow", "body", "gather", "templates"} - {part}
    assert not any(getattr(document, other) for other in others)
