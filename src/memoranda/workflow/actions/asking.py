"""A question of a task in, the model's answer out: a text, or the object that its author described."""

from __future__ import annotations

from typing import Any

import msgspec

from memoranda.agent.conversing import Conversation, Result
from memoranda.agent.models import Ask, Model, Said
from memoranda.workflow.actions.shapes import Shape
from memoranda.workflow.actions.toolbox import Toolbox

_PARDONS = 2
"""How many steps in which nothing could be done do not count, where nobody said how many there are."""


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
    """Return a model's answer to a question, or raise what ended the conversation: see `Conversation`."""
    shape = question.shape
    ask = Ask(
        question.system,
        question.messages,
        tools=tools.specs,
        schema=None if shape is None else shape.schema,
        temperature=question.temperature,
        max_tokens=question.max_tokens,
    )
    fit = None if shape is None else shape.fit
    talk = Conversation(model, ask, timeout=question.timeout, fit=fit, call_tool=tools.call)
    left = question.steps if question.steps is not None else 1 + len(tools.specs)
    # With one tool there are two steps: without these, a call that was refused could never be made again.
    pardons = _PARDONS if question.steps is None else 0
    while (heard := talk.hear()).calls:
        results = talk.call_tools(heard)
        if pardons and all(result.failed for result in results):
            pardons -= 1
        else:
            left -= 1
        if not left:
            break
    return Answer(
        text=heard.text,
        value=None if shape is None else heard.answer,
        finished=not heard.calls,
        steps=talk.requests,
        results=tuple(talk.results),
        tokens_in=talk.tokens_in,
        tokens_out=talk.tokens_out,
    )
