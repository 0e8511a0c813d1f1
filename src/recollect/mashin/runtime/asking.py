"""A question of a machine in, the model's answer out: the whole conversation, with its tools and its corrections.

Only a conversation: it knows no memory, no permission and no machine. The caller is told of every request before it
is made, and may stop it there. What an error says about an answer does not hold the answer: errors are kept longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from recollect.agent.models import Ask, Model, Reply, Said, ToolCall, ToolSpec
from recollect.errors import InvalidValue, LimitExceeded, ModelFailed, SchemaViolation, UsageError
from recollect.lang.expression.dialect import Run
from recollect.mashin.contracts import Contract
from recollect.model.limits import Limits
from recollect.model.text import quote
from recollect.model.value import encode_checked

CORRECTIONS = 2
"""How often a model is asked again when its answer does not fit."""
ROUNDS = 8
"""How often a model may ask for tools before it has to answer."""
_ECHO = 4_000
"""Characters of an answer that does not fit that are shown to the model again."""
_LIMITS = Limits()

CallTool: TypeAlias = Callable[[str, dict[str, Any]], Any]
"""Calls a tool by its name with arguments; raises ToolFailed for what the model shall be told."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine asks: its author's words as they are, the answer they want, and the tools at hand."""

    role: str
    """The instruction of the system; empty where the author gave none."""
    task: str
    contract: Contract | None = None
    """What the answer has to be; without one it is any text."""
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answered, and what it took: tokens and requests of the whole conversation."""

    value: dict[str, Any]
    """The fields of the contract, or the one field `text`."""
    tokens_in: int
    tokens_out: int
    requests: int


class ToolFailed(Exception):
    """A tool failed in a way that the model is told about, in these words; it may go on without it."""


def ask_model(
    model: Model,
    question: Question,
    *,
    timeout: float,
    attempt: Callable[[int], None],
    call_tool: CallTool | None = None,
    used: Callable[[int, int], None] | None = None,
    run: Run | None = None,
) -> Answer:
    """Return a model's answer to a question, or raise what ended the conversation.

    An answer that does not fit is asked for again, at most twice, with what was wrong; then it is a ModelFailed whose
    `reason` is `invalid_answer` and whose `faults` say what was wrong each time. A model that wants more rounds of
    tools than it may have is one whose `reason` is `silent`. Every other ModelError is raised as it came.

    Args:
        model: who is asked.
        question: what is asked.
        timeout: seconds that the model has for each reply.
        attempt: called with 1, 2, 3… before each request; what it raises ends the conversation.
        call_tool: calls the tools; what it raises ends the conversation too, but for ToolFailed.
        used: called after each request that was answered, with the tokens that it read and wrote.
        run: the clock and the ids for defaults of the answer's fields; those of this computer, if there is none.
    """
    if question.tools and call_tool is None:
        raise UsageError("the question has tools, and nobody to call them", hint="Pass `call_tool`")
    talk = _Conversation(model, question, timeout=timeout, attempt=attempt, used=used, run=run)
    rounds = 0
    while True:
        try:
            reply = talk.ask()
            if not reply.calls:
                return talk.answer(reply)
        except _Unfit as unfit:
            talk.correct(unfit)
            continue
        rounds += 1
        if rounds > ROUNDS:
            raise _unfinished(model)
        talk.append(reply, [_result(question, call_tool, call) for call in reply.calls])


class _Unfit(Exception):
    """An answer that does not fit: what was wrong with it, and what it was."""

    def __init__(self, fault: str, said: str) -> None:
        super().__init__(fault)
        self.fault = fault
        self.said = said


class _Conversation:
    """What was said so far, and what it took."""

    def __init__(
        self,
        model: Model,
        question: Question,
        *,
        timeout: float,
        attempt: Callable[[int], None],
        used: Callable[[int, int], None] | None,
        run: Run | None,
    ) -> None:
        self._model = model
        self._question = question
        self._timeout = timeout
        self._attempt = attempt
        self._used = used
        self._run = run
        self._said = [Said("user", question.task)]
        self._faults: list[str] = []
        self._requests = 0
        self._tokens_in = 0
        self._tokens_out = 0

    def ask(self) -> Reply:
        """Return the model's next reply; raise _Unfit for one that cannot be read."""
        self._requests += 1
        self._attempt(self._requests)
        try:
            reply = self._model.reply(self._next(), timeout=self._timeout)
        except ModelFailed as error:
            details = error.details
            if "tokens_in" in details:
                self._count(details["tokens_in"], details["tokens_out"])
            if details.get("reason") != "invalid_answer":
                raise
            raise _Unfit(details.get("fault", error.message), details.get("said", "")) from error
        self._count(reply.tokens_in, reply.tokens_out)
        return reply

    def _next(self) -> Ask:
        question = self._question
        return Ask(
            question.role,
            tuple(self._said),
            tools=question.tools,
            schema=question.contract.schema if question.contract is not None else None,
            # The contract sees more than its schema says, and drops what is too much.
            validate=False,
            temperature=question.temperature,
            max_tokens=question.max_tokens,
            once=True,
        )

    def _count(self, tokens_in: int, tokens_out: int) -> None:
        self._tokens_in += tokens_in
        self._tokens_out += tokens_out
        if self._used is not None:
            self._used(tokens_in, tokens_out)

    def answer(self, reply: Reply) -> Answer:
        """Return a reply as the answer; raise _Unfit where it is none."""
        return Answer(
            value=_value(self._question.contract, reply, self._run),
            tokens_in=self._tokens_in,
            tokens_out=self._tokens_out,
            requests=self._requests,
        )

    def correct(self, unfit: _Unfit) -> None:
        """Say what was wrong with an answer; raise ModelFailed when it was said often enough."""
        self._faults.append(unfit.fault)
        if len(self._faults) > CORRECTIONS:
            raise _unanswered(self._model, self._faults) from unfit
        if unfit.said:
            # Half of a character cannot be sent.
            said = unfit.said[:_ECHO].encode(errors="replace").decode()
            self._said.append(Said("assistant", said))
        self._said.append(Said("user", f"This answer cannot be used: {unfit.fault}. Answer again, corrected."))

    def append(self, reply: Reply, results: list[Said]) -> None:
        """Add calls of tools and their results."""
        self._said += [Said("assistant", reply.text, reply.calls), *results]


def _value(contract: Contract | None, reply: Reply, run: Run | None) -> dict[str, Any]:
    """Return the value of a reply: as the contract wants it, or its text."""
    try:
        if contract is None:
            # Providers let pass what cannot be kept, such as half of a character.
            encode_checked(reply.text, _LIMITS)
            return {"text": reply.text}
        if reply.value is None:
            raise _Unfit("text stands instead of the value that was asked for", reply.text)
        return contract.answer(reply.value, run=run)
    except (SchemaViolation, InvalidValue, LimitExceeded) as error:
        raise _Unfit(error.message, reply.text if reply.value is None else _json(reply.value)) from error


def _result(question: Question, call_tool: CallTool | None, call: ToolCall) -> Said:
    """Return what a call gave, or why it failed, as the model is told."""
    if call_tool is None or all(tool.name != call.name for tool in question.tools):
        text = f"{quote(call.name)} is not among the tools"
    else:
        try:
            text = _json(call_tool(call.name, call.arguments))
        except ToolFailed as failed:
            text = f"{quote(call.name)} failed: {failed}"
    return Said("tool", text, call_id=call.id, tool=call.name)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return "what JSON has no word for"


def _unanswered(model: Model, faults: list[str]) -> ModelFailed:
    listed = "; ".join(f"{number}. {fault}" for number, fault in enumerate(faults, 1))
    return ModelFailed(
        f"the model {quote(model.name)} gave no answer that fits: {listed}",
        hint="Ask for less, or say in the task what is wanted",
        reason="invalid_answer",
        retryable=True,
        model=model.name,
        faults=tuple(faults),
    )


def _unfinished(model: Model) -> ModelFailed:
    return ModelFailed(
        f"the model {quote(model.name)} asked for tools {ROUNDS + 1} times and gave no answer",
        hint="Say in the task when it is done",
        reason="silent",
        retryable=True,
        model=model.name,
    )
