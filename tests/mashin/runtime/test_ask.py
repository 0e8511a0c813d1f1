"""The conversation with a model: what it is asked, when it is asked again, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from memoranda.agent.conversation import CORRECTIONS, ToolFailed
from memoranda.agent.models import Ask, Reply, Said, ToolCall, ToolSpec
from memoranda.errors import Denied, ModelFailed, ModelUnavailable, UsageError
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.mashin.contracts import Contract, contract
from memoranda.mashin.document import Ask as AskStep
from memoranda.mashin.expression.compiler import Programs
from memoranda.mashin.parser import read
from memoranda.mashin.runtime.steps import ROUNDS, Answer, Question, converse
from memoranda.testing.fakes import FakeClock

TIDES = ToolSpec("tides.at", "When the tide turns", {"type": "object", "properties": {"port": {"type": "string"}}})


def returns(*fields: str) -> Contract:
    """Return the contract of an answer as a machine declares it."""
    lines = "".join(f"    {field}\n" for field in fields)
    reading = read(f'ask pilot, using: "made:up"\n  with task "go"\n  returns\n{lines}', fragment=True)
    assert reading.document.implements is not None
    step = reading.document.implements.body[0]
    assert isinstance(step, AskStep)
    return contract(step.returns, Programs(Diagnostics(reading.source)), complete=True)


BERTH = returns("berth as integer, min: 1", "side as text, choices: ['port', 'starboard']")


class Scripted:
    """A model that replies with what it was given, one thing a request, and keeps what it was asked."""

    name = "made:up"

    def __init__(self, *replies: Reply | Exception | Callable[[Ask], Reply]) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []
        self.timeouts: list[float] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        self.timeouts.append(timeout)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply(ask) if callable(reply) else reply


def says(text: str) -> Reply:
    return Reply(text, tokens_in=10, tokens_out=2)


def gives(**value: Any) -> Reply:
    return Reply("", value=value, tokens_in=10, tokens_out=2)


def calls(*wanted: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    made = tuple(ToolCall(f"c{place}", name, arguments) for place, (name, arguments) in enumerate(wanted))
    return Reply(text, calls=made, tokens_in=10, tokens_out=2)


def unreadable(said: str = "berth three") -> ModelFailed:
    return ModelFailed(
        "the model gave nonsense", reason="invalid_answer", fault="it is no JSON", said=said, tokens_in=10, tokens_out=2
    )


def ask(
    model: Scripted,
    *,
    shape: Contract | None = None,
    tools: tuple[ToolSpec, ...] = (),
    attempt: Callable[[int], None] = lambda number: None,
    call_tool: Callable[[str, dict[str, Any]], Any] | None = None,
    **options: Any,
) -> Answer:
    question = Question(role="You are a pilot.", task="Which berth?", contract=shape, tools=tools)
    return converse(model, question, timeout=7.5, attempt=attempt, call_tool=call_tool, **options)


# one request


def test_the_words_of_the_author_are_all_that_is_said() -> None:
    model = Scripted(gives(berth=3, side="port"))
    question = Question(
        role="You are a pilot.", task="Which berth?", contract=BERTH, temperature=0.2, max_tokens=90, tools=()
    )
    answer = converse(model, question, timeout=7.5, attempt=lambda number: None)
    assert answer == Answer(value={"berth": 3, "side": "port"}, tokens_in=10, tokens_out=2, requests=1)
    [asked] = model.asked
    assert (asked.instructions, asked.messages) == ("You are a pilot.", (Said("user", "Which berth?"),))
    assert asked.schema is not None and asked.schema == BERTH.schema and asked.schema["required"] == ["berth", "side"]
    assert (asked.temperature, asked.max_tokens, asked.tools) == (0.2, 90, ())
    assert asked.once, "a request that the client repeats by itself would not be governed"
    assert model.timeouts == [7.5]


def test_without_a_contract_the_answer_is_a_text() -> None:
    model = Scripted(says("Berth three."))
    assert ask(model).value == {"text": "Berth three."}
    assert model.asked[0].schema is None


def test_what_the_contract_does_not_know_is_left_out_and_defaults_are_put_in() -> None:
    clock = FakeClock()
    shape = returns("berth as integer", "tugs as integer, default: 2", "at as text, default: now()")
    answer = ask(Scripted(gives(berth=3, captain="Ines")), shape=shape, run=ExpressionRun(clock=clock))
    moment = answer.value.pop("at")
    assert answer.value == {"berth": 3, "tugs": 2}
    assert moment.startswith(clock.now().date().isoformat())


# answers that do not fit


@pytest.mark.parametrize(
    ("wrong", "fault", "echoed"),
    [
        (gives(berth=0, side="port"), "$.berth", '{"berth":0,"side":"port"}'),
        (gives(berth=3, side="bow"), "$.side", '{"berth":3,"side":"bow"}'),
        (gives(side="port"), "$.berth is missing", '{"side":"port"}'),
        (gives(berth="three", side="aft"), "$.side", '{"berth":"three","side":"aft"}'),
        (says("Berth three."), "text instead of the requested value", "Berth three."),
        (unreadable(), "it is no JSON", "berth three"),
    ],
)
def test_an_answer_that_does_not_fit_is_asked_for_again_with_what_was_wrong(
    wrong: Reply | Exception, fault: str, echoed: str
) -> None:
    model = Scripted(wrong, gives(berth=3, side="port"))
    answer = ask(model, shape=BERTH)
    assert answer == Answer(value={"berth": 3, "side": "port"}, tokens_in=20, tokens_out=4, requests=2)
    first, second, third = model.asked[1].messages
    assert (first, second) == (Said("user", "Which berth?"), Said("assistant", echoed))
    assert third.role == "user" and fault in third.text
    assert model.asked[1].instructions == "You are a pilot."


def test_every_fault_of_an_answer_is_said_at_once() -> None:
    model = Scripted(gives(berth="three"), gives(berth=3, side="port"))
    ask(model, shape=BERTH)
    correction = model.asked[1].messages[-1].text
    assert "$.berth" in correction and "$.side" in correction


def test_after_two_corrections_it_fails_and_says_what_was_wrong_each_time() -> None:
    model = Scripted(gives(berth=0, side="port"), unreadable(), gives(berth=3, side="secret bow"), gives(berth=1))
    with pytest.raises(ModelFailed) as raised:
        ask(model, shape=BERTH)
    assert len(model.asked) == 1 + CORRECTIONS == 3
    failed = raised.value
    assert (failed.reason, failed.retryable, failed.model) == ("invalid_answer", True, "made:up")
    assert ["$.berth" in failed.faults[0], "no JSON" in failed.faults[1], "$.side" in failed.faults[2]] == [True] * 3
    assert all(f"{number}. {fault}" in failed.message for number, fault in enumerate(failed.faults, 1))
    assert "secret bow" not in str(failed) and "made:up" in str(failed) and failed.hint


def test_what_no_json_can_hold_is_no_answer_and_can_be_shown_again() -> None:
    model = Scripted(gives(name="\ud800"), gives(name="\U0001f6a2"))
    assert ask(model, shape=returns("name as text")).value == {"name": "\U0001f6a2"}
    assert "surrogate" in model.asked[1].messages[-1].text
    model = Scripted(says("\ud800"), says("Ida"))
    assert ask(model).value == {"text": "Ida"}
    assert "surrogate" in model.asked[1].messages[-1].text
    model = Scripted(unreadable("half \ud800 of it"), gives(name="Ida"))
    assert ask(model, shape=returns("name as text")).value == {"name": "Ida"}
    model.asked[1].messages[1].text.encode()
    assert model.asked[1].messages[1].text.startswith("half ")


def test_an_endless_answer_is_not_repeated_as_a_whole() -> None:
    model = Scripted(says("b" * 1_000_000), gives(berth=3, side="port"))
    ask(model, shape=BERTH)
    assert 1_000 < len(model.asked[1].messages[1].text) < 10_000


def test_a_model_that_only_says_that_it_failed_is_told_so() -> None:
    bare = ModelFailed("it rambled", reason="invalid_answer")
    model = Scripted(bare, gives(berth=3, side="port"))
    assert ask(model, shape=BERTH).requests == 2
    assert [said.role for said in model.asked[1].messages] == ["user", "user"]
    assert "it rambled" in model.asked[1].messages[-1].text


@pytest.mark.parametrize(
    "error",
    [
        *(
            ModelFailed("no", reason=reason, tokens_in=10, tokens_out=2)
            for reason in ("timeout", "rate_limited", "refused", "silent", "unreachable", "provider")
        ),
        ModelFailed("no"),
        ModelUnavailable("no key"),
    ],
    ids=lambda error: error.details.get("reason", type(error).__name__),
)
def test_what_is_no_answer_at_all_is_not_asked_for_again(error: Exception) -> None:
    model = Scripted(error, gives(berth=3, side="port"))
    with pytest.raises(type(error)) as raised:
        ask(model, shape=BERTH)
    assert raised.value is error and len(model.asked) == 1


# every request is known


def test_every_request_is_announced_before_it_is_made() -> None:
    seen: list[tuple[int, int]] = []
    model = Scripted(
        calls(("tides.at", {"port": "Faro"})), unreadable(), gives(berth=0, side="port"), gives(berth=3, side="port")
    )
    answer = ask(
        model,
        shape=BERTH,
        tools=(TIDES,),
        attempt=lambda number: seen.append((number, len(model.asked))),
        call_tool=lambda name, arguments: "06:12",
    )
    assert seen == [(1, 0), (2, 1), (3, 2), (4, 3)]
    assert (answer.requests, answer.tokens_in, answer.tokens_out) == (4, 40, 8)


@pytest.mark.parametrize("stopped", [1, 2, 3])
def test_what_stops_a_request_ends_the_conversation(stopped: int) -> None:
    def attempt(number: int) -> None:
        if number == stopped:
            raise Denied("not this time", capability="llm_call")

    model = Scripted(calls(("tides.at", {})), unreadable(), gives(berth=3, side="port"))
    with pytest.raises(Denied, match="not this time"):
        ask(model, shape=BERTH, tools=(TIDES,), attempt=attempt, call_tool=lambda name, arguments: 1)
    assert len(model.asked) == stopped - 1


def test_what_each_request_took_is_told_whatever_came_of_it() -> None:
    took: list[tuple[int, int]] = []
    late = ModelFailed("late", reason="timeout")
    model = Scripted(unreadable(), gives(berth=0, side="port"), late)
    with pytest.raises(ModelFailed, match="late"):
        ask(model, shape=BERTH, used=lambda tokens_in, tokens_out: took.append((tokens_in, tokens_out)))
    assert took == [(10, 2), (10, 2)]
    declined = ModelFailed("no", reason="refused", tokens_in=5, tokens_out=1)
    with pytest.raises(ModelFailed):
        ask(Scripted(declined), used=lambda tokens_in, tokens_out: took.append((tokens_in, tokens_out)))
    assert took[2:] == [(5, 1)]


# tools


def test_tools_are_called_in_order_and_their_results_are_told() -> None:
    called: list[tuple[str, dict[str, Any]]] = []

    def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        called.append((name, arguments))
        return {"turns": ["06:12"], "port": arguments["port"]}

    model = Scripted(
        calls(("tides.at", {"port": "Faro"}), ("tides.at", {"port": "Olhão"}), text="Let me see."),
        gives(berth=3, side="port"),
    )
    assert ask(model, shape=BERTH, tools=(TIDES,), call_tool=call_tool).value["berth"] == 3
    assert called == [("tides.at", {"port": "Faro"}), ("tides.at", {"port": "Olhão"})]
    assert [asked.tools for asked in model.asked] == [(TIDES,), (TIDES,)]
    _, spoken, faro, olhao = model.asked[1].messages
    assert (spoken.role, spoken.text, [call.id for call in spoken.calls]) == ("assistant", "Let me see.", ["c0", "c1"])
    assert faro == Said("tool", '{"turns":["06:12"],"port":"Faro"}', call_id="c0", tool="tides.at")
    assert (olhao.call_id, "Olhão" in olhao.text) == ("c1", True)


def test_the_model_is_told_that_a_tool_failed_and_goes_on() -> None:
    def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        raise ToolFailed("the gauge is broken")

    model = Scripted(calls(("tides.at", {})), says("Wait for high water."))
    assert ask(model, tools=(TIDES,), call_tool=call_tool).value == {"text": "Wait for high water."}
    assert "the gauge is broken" in model.asked[1].messages[-1].text


def test_what_else_a_tool_raises_ends_the_conversation() -> None:
    def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        raise Denied("nobody may look at the gauge", capability="machine.call")

    model = Scripted(calls(("tides.at", {})), says("Wait."))
    with pytest.raises(Denied):
        ask(model, tools=(TIDES,), call_tool=call_tool)
    assert len(model.asked) == 1


@pytest.mark.parametrize("tools", [(), (TIDES,)])
def test_a_tool_that_nobody_offered_is_not_called(tools: tuple[ToolSpec, ...]) -> None:
    called: list[str] = []
    model = Scripted(calls(("fire_cannon", {})), says("Wait."))
    ask(model, tools=tools, call_tool=lambda name, arguments: called.append(name))
    assert called == []
    assert "`fire_cannon` is not among the tools" in model.asked[1].messages[-1].text
    if tools:
        ask(
            Scripted(calls(("tides.at", {})), says("Wait.")), tools=tools, call_tool=lambda name, _: called.append(name)
        )
        assert called == ["tides.at"]


@pytest.mark.parametrize(("given", "told"), [(object(), "without JSON"), ("\ud800", "without JSON"), (None, "null")])
def test_a_result_that_is_no_json_is_told_as_that(given: Any, told: str) -> None:
    model = Scripted(calls(("tides.at", {})), says("Wait."))
    ask(model, tools=(TIDES,), call_tool=lambda name, arguments: given)
    assert told in model.asked[1].messages[-1].text


def test_a_model_that_never_stops_asking_for_tools_is_stopped() -> None:
    rounds = [calls(("tides.at", {"port": "Faro"})) for _ in range(ROUNDS)]
    called: list[str] = []

    def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        called.append(name)
        return 1

    patient = Scripted(*rounds, says("Berth three."))
    assert ask(patient, tools=(TIDES,), call_tool=call_tool).requests == ROUNDS + 1 == 9
    assert len(called) == ROUNDS
    endless = Scripted(*rounds, *rounds)
    with pytest.raises(ModelFailed, match="asked for tools 9 times") as raised:
        ask(endless, tools=(TIDES,), call_tool=call_tool)
    assert raised.value.reason == "silent" and len(endless.asked) == 9
    assert len(called) == 2 * ROUNDS


def test_tools_that_nobody_can_call_are_refused_before_anything_is_asked() -> None:
    model = Scripted(says("Wait."))
    with pytest.raises(UsageError, match="nothing to call them with"):
        ask(model, tools=(TIDES,))
    assert model.asked == []
    assert ask(model).value == {"text": "Wait."}


def test_what_nobody_sees_in_a_question_or_a_result_is_written_out() -> None:
    hidden = "\u202e\U000e006f\u200b"
    model = Scripted(calls(("look", {})), says("Three."))
    question = Question(
        role="You are a pilot.",
        task=f"Which berth? Known: x{hidden}",
        tools=(ToolSpec("look", "", {"type": "object"}),),
    )
    converse(model, question, timeout=7.5, attempt=lambda number: None, call_tool=lambda name, given: f"y{hidden}")
    shown = "".join(said.text for said in model.asked[-1].messages)
    assert "x\\u202e\\U000e006f\\u200b" in shown and "y\\u202e" in shown
    assert not set(hidden) & set(shown)


def test_a_model_is_told_the_choices_that_its_answer_has(load: Any) -> None:
    text = """
    ensures
      allowed to llm_call
    implements
      ask tide, using: "some:model"
        with task "High or low?"
        returns
          state as enum("high", "low")
          ports as list of text, subset: ["Faro", "Olhão"]
          wind as text, choices: ["calm", "strong"]
    """
    model = Scripted(
        Reply(value={"state": "hgh", "ports": [], "wind": "calm"}),
        Reply(value={"state": "high", "ports": ["Faro", "Lisboa"], "wind": "stong"}),
        Reply(value={"state": "high", "ports": ["Faro"], "wind": "calm"}),
    )
    assert load(text, model=model).run().check().output["state"] == "high"
    first, second = (asked.messages[-1].text for asked in model.asked[1:])
    assert "$.state must be one of `high`, `low`; did you mean `high`?" in first
    assert "$.ports is wrong: [1] must be one of `Faro`, `Olhão`" in second
    assert "$.wind must be one of `calm`, `strong`; did you mean `strong`?" in second


def test_the_client_of_a_named_model_is_imported_while_a_run_begins(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[tuple[str, str]] = []
    ready = threading.Event()

    def find_model(name: str, access: object) -> Any:
        imported.append((name, threading.current_thread().name))
        ready.set()
        raise ModelUnavailable("there is no such model", hint="Name another", model=name)

    monkeypatch.setattr("memoranda.agent.provider.find_model", find_model)
    monkeypatch.setattr("memoranda.agent.connection._prepared", set[str]())
    text = """
    ensures
      allowed to llm_call
    implements
      ask tide, using: "someone:model"
        with task "High or low?"
    """
    assert load(text).run(mode="test", assuming={"tide": {"text": "high"}}).status == "completed"
    assert load(text).run().error.type == "model"
    assert imported == [("someone:model", threading.current_thread().name)], "without a key only a request needs it"
    monkeypatch.setenv("SOMEONE_API_KEY", "sk-made-up-for-tests")
    ready.clear()
    for _ in range(2):
        load(text).prepare()
    assert ready.wait(30)
    assert imported[1:] == [("someone:model", "memoranda-clients")]
