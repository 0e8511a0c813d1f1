"""A question of a task in, the model's answer out: the whole conversation, with its tools and its corrections.

Only a conversation: it knows no workflow, and no memory but what a tool does. What an error says about an answer does
not hold the answer: errors are kept longer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from recollect.agent.models import Ask, Model, Reply, Said
from recollect.errors import ModelFailed
from recollect.model.text import quote
from recollect.model.value import encode
from recollect.workflow.actions.shapes import Shape, why_not_kept
from recollect.workflow.actions.toolbox import Result, Toolbox

CORRECTIONS = 2
"""How often a model is asked again when its answer does not fit, or when nothing it called could be done."""
_ECHO = 4_000
"""Characters of an answer that does not fit that are shown to the model again."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a task asks."""

    system: str
    messages: tuple[Said, ...]
    shape: Shape | None = None
    """What the answer has to be; without one it is any text."""
    steps: int | None = None
    """How often the model may speak; once more than there are tools, where nobody said."""
    timeout: float
    """Seconds that the model has for each reply."""
    temperature: float | None = None
    max_tokens: int | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said last, and what it took."""

    text: str
    value: dict[str, Any] | None
    finished: bool
    """Whether it answered; otherwise its last words asked for tools, and no step was left."""
    steps: int
    results: tuple[Result, ...]
    """What its calls of tools came to, in order."""
    tokens_in: int
    tokens_out: int


def ask_model(model: Model, question: Question, tools: Toolbox) -> Answer:
    """Return a model's answer to a question, or raise what ended the conversation.

    An answer that does not fit is asked for again, at most twice, with what was wrong; then it is a ModelFailed whose
    `reason` is `invalid_answer` and whose `faults` say what was wrong each time. Every other ModelError is raised as
    it came.
    """
    talk = _Conversation(model, question, tools)
    left = question.steps if question.steps is not None else 1 + len(tools.specs)
    # With one tool there are two steps: without these, a call that was refused could never be made again.
    pardons = CORRECTIONS if question.steps is None else 0
    while True:
        reply = talk.ask()
        if not reply.calls:
            return talk.answer(reply, finished=True)
        results = talk.call_tools(reply)
        if pardons and all(result.failed for result in results):
            pardons -= 1
        else:
            left -= 1
        if not left:
            return talk.answer(reply, finished=False)


class _Unfit(Exception):
    """An answer that does not fit: what was wrong with it, and what it was."""

    def __init__(self, fault: str, said: str) -> None:
        super().__init__(fault)
        self.fault = fault
        self.said = said


class _Conversation:
    """What was said so far, and what it took."""

    def __init__(self, model: Model, question: Question, tools: Toolbox) -> None:
        self._model = model
        self._question = question
        self._tools = tools
        self._said = list(question.messages)
        self._faults: list[str] = []
        self._results: list[Result] = []
        self._steps = 0
        self._tokens_in = 0
        self._tokens_out = 0

    def ask(self) -> Reply:
        """Return the model's next reply that fits, however often it has to be asked for it."""
        while True:
            try:
                return self._reply()
            except _Unfit as unfit:
                self._correct(unfit)

    def _reply(self) -> Reply:
        question = self._question
        ask = Ask(
            question.system,
            tuple(self._said),
            tools=self._tools.specs,
            schema=question.shape.schema if question.shape is not None else None,
            # Here the check also sees what cannot be kept.
            validate=False,
            temperature=question.temperature,
            max_tokens=question.max_tokens,
        )
        self._steps += 1
        try:
            reply = self._model.reply(ask, timeout=question.timeout)
        except ModelFailed as error:
            details = error.details
            self._count(details.get("tokens_in", 0), details.get("tokens_out", 0))
            if details.get("reason") != "invalid_answer":
                raise
            raise _Unfit(details.get("fault", error.message), details.get("said", "")) from error
        self._count(reply.tokens_in, reply.tokens_out)
        if not reply.calls:
            _check(question.shape, reply)
        return reply

    def _count(self, tokens_in: int, tokens_out: int) -> None:
        self._tokens_in += tokens_in
        self._tokens_out += tokens_out

    def _correct(self, unfit: _Unfit) -> None:
        """Say what was wrong with an answer; raise ModelFailed when it was said often enough."""
        self._faults.append(unfit.fault)
        if len(self._faults) > CORRECTIONS:
            raise _unanswered(self._model, self._faults) from unfit
        if unfit.said:
            # Half of a character cannot be sent.
            self._said.append(Said("assistant", unfit.said[:_ECHO].encode(errors="replace").decode()))
        self._said.append(Said("user", f"This answer cannot be used: {unfit.fault}. Answer again, corrected."))

    def call_tools(self, reply: Reply) -> list[Result]:
        """Carry out the calls of a reply, one after the other, and return what they came to."""
        results = [self._tools.result(call) for call in reply.calls]
        self._said += [Said("assistant", reply.text, reply.calls), *(result.said for result in results)]
        self._results += results
        return results

    def answer(self, reply: Reply, *, finished: bool) -> Answer:
        """Return the last reply as the answer."""
        return Answer(
            text=reply.text,
            value=reply.value if finished else None,
            finished=finished,
            steps=self._steps,
            results=tuple(self._results),
            tokens_in=self._tokens_in,
            tokens_out=self._tokens_out,
        )


def _check(shape: Shape | None, reply: Reply) -> None:
    """Raise _Unfit for a reply that is not the answer that was asked for."""
    if shape is None:
        # Providers let pass what cannot be kept, such as half of a character.
        fault, said = why_not_kept(reply.text) if reply.text else "nothing was said", reply.text
    elif reply.value is None:
        fault, said = "text stands instead of the value that was asked for", reply.text
    else:
        fault, said = shape.fault(reply.value), _json(reply.value)
    if fault is not None:
        raise _Unfit(fault, said)


def _json(value: Any) -> str:
    try:
        return encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return "what JSON has no word for"


def _unanswered(model: Model, faults: list[str]) -> ModelFailed:
    listed = "; ".join(f"{number}. {fault}" for number, fault in enumerate(faults, 1))
    return ModelFailed(
        f"the model {quote(model.name)} gave no answer that fits: {listed}",
        hint="Ask for less, or say in `system` what is wanted",
        reason="invalid_answer",
        retryable=True,
        model=model.name,
        faults=tuple(faults),
    )
