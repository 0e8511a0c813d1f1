"""A question of a machine in, the model's answer out: the fields that its contract wants, or a text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from memoranda.agent.conversing import CallTool, Conversation
from memoranda.agent.models import Ask, Model, Said, ToolSpec
from memoranda.errors import ModelFailed
from memoranda.lang.expression.dialect import Run
from memoranda.mashin.contracts import Contract
from memoranda.model.text import quote

ROUNDS = 8
"""How often a model may ask for tools before it has to answer."""


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

    A model that wants more rounds of tools than it may have is a ModelFailed whose `reason` is `silent`. Corrections,
    `timeout`, `attempt`, `call_tool` and `used` are as `Conversation` has them; `run` is the clock and the ids for
    defaults of the answer's fields, those of this computer if there is none.
    """
    contract = question.contract
    ask = Ask(
        question.role,
        (Said("user", question.task),),
        tools=question.tools,
        schema=None if contract is None else contract.schema,
        temperature=question.temperature,
        max_tokens=question.max_tokens,
        # A request that the client repeats by itself would not be governed.
        once=True,
    )
    fit = None if contract is None else partial(contract.answer, run=run)
    talk = Conversation(model, ask, timeout=timeout, fit=fit, call_tool=call_tool, attempt=attempt, used=used)
    rounds = 0
    while (heard := talk.hear()).calls:
        rounds += 1
        if rounds > ROUNDS:
            raise _unfinished(model)
        talk.call_tools(heard)
    return Answer(
        value={"text": heard.answer} if contract is None else heard.answer,
        tokens_in=talk.tokens_in,
        tokens_out=talk.tokens_out,
        requests=talk.requests,
    )


def _unfinished(model: Model) -> ModelFailed:
    return ModelFailed(
        f"the model {quote(model.name)} asked for tools {ROUNDS + 1} times and gave no answer",
        hint="Say in the task when it is done",
        reason="silent",
        retryable=True,
        model=model.name,
    )
