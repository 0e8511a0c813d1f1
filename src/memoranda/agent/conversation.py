"""A conversation with a model, with tool calls and corrections of invalid answers.

It knows nothing of languages, memory or permissions. The caller decides how many rounds of tool calls there are; it is
told of every request beforehand, and may stop the conversation there. Errors about an answer do not contain the answer,
because errors are stored longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from memoranda.agent.models import Ask, Model, Reply, Said, ToolCall, UnusableAnswer, hear
from memoranda.errors import (
    NEUTRAL_WORDS,
    InvalidValue,
    LimitExceeded,
    MemorandaError,
    ModelFailed,
    SchemaViolation,
    UsageError,
    render_error,
)
from memoranda.model.limits import Limits
from memoranda.model.text import quote, storable_text
from memoranda.model.value import encode, encode_checked

CORRECTIONS = 2
"""How often in a conversation a model may correct an invalid answer."""
_ECHO = 4_000
"""Maximum length of an invalid answer that is shown to the model again."""
_TOLD = ("path", "expected", "limit", "actual", "what", "capability", "approval", "rejection", "reason", "retry_after")
"""Details of an error that a model can act on."""
_PLACE = 120
"""Maximum length of one such detail."""
_LIMITS = Limits()

Fit: TypeAlias = Callable[[dict[str, Any]], Any]
"""Turns a value into the answer; raises SchemaViolation, InvalidValue or LimitExceeded if it does not fit."""
CallTool: TypeAlias = Callable[[str, dict[str, Any]], Any]
"""Calls a tool by its name with arguments; raises ToolFailed with a message for the model."""


class ToolFailed(Exception):
    """A tool failed; the model is told about it, and may continue."""

    def __init__(self, why: str | MemorandaError) -> None:
        """Take the message for the model; from one of our errors also its code and some details."""
        super().__init__(why if isinstance(why, str) else render_error(why, NEUTRAL_WORDS))
        self.about: dict[str, Any] = {}
        if isinstance(why, MemorandaError):
            told = {name: _short(why.details[name]) for name in _TOLD if name in why.details}
            self.about = {"code": why.code, **told}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call, as a message for the model."""

    name: str
    said: Said
    failed: bool


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said: tool calls, or its answer."""

    text: str
    calls: tuple[ToolCall, ...]
    answer: Any
    """With a schema, the result of `fit`, otherwise the text; None if there are calls."""


class Conversation:
    """A conversation so far, and its cost: `hear` the model, `call_tools` if it asks for some, and hear it again."""

    def __init__(
        self,
        model: Model,
        ask: Ask,
        *,
        timeout: float,
        fit: Fit | None = None,
        call_tool: CallTool | None = None,
        attempt: Callable[[int], None] | None = None,
        used: Callable[[int, int], None] | None = None,
        words: Callable[[str], None] | None = None,
    ) -> None:
        """Start with a question.

        Args:
            model: the model to ask.
            ask: the question, with the messages so far.
            timeout: seconds for each reply.
            fit: turns the value into the answer, if the question has a schema; by default the answer is the value.
            call_tool: calls the tools; any exception but ToolFailed ends the conversation.
            attempt: called with 1, 2, 3… before each request; an exception ends the conversation.
            used: called after each answered request, with its input and output tokens.
            words: called with the text of a reply as it arrives, if the model streams; whether it counts is known only
                when `hear` returns.
        """
        if ask.tools and call_tool is None:
            raise UsageError("the question has tools, but nothing to call them with", hint="Pass `call_tool`")
        self._model = model
        self._ask = ask
        self._timeout = timeout
        self._fit = fit
        self._call_tool = call_tool
        self._attempt = attempt
        self._used = used
        self._words = words
        self._said = list(ask.messages)
        self._faults: list[str] = []
        self.results: list[Result] = []
        """The results of tool calls, in order."""
        self.requests = 0
        self.tokens_in = 0
        self.tokens_out = 0

    def hear(self) -> Heard:
        """Return what the model says next, or raise the error that ended the conversation.

        The model may correct an invalid answer, at most twice in a conversation. After that a ModelFailed is raised,
        with the `reason` `invalid_answer` and all `faults`. Every other ModelError is passed on.
        """
        while True:
            try:
                reply = self._reply()
                answer = None if reply.calls else self._answer(reply)
            except UnusableAnswer as unfit:
                self._correct(unfit)
            else:
                return Heard(text=reply.text, calls=reply.calls, answer=answer)

    def call_tools(self, heard: Heard) -> list[Result]:
        """Carry out the model's tool calls, one after the other, and return their results."""
        results = [self._result(call) for call in heard.calls]
        made = tuple(msgspec.structs.replace(call, arguments=sendable(call.arguments)) for call in heard.calls)
        self._said += [Said("assistant", heard.text, made), *(result.said for result in results)]
        self.results += results
        return results

    def _reply(self) -> Reply:
        # Without validation: `fit` checks more than the schema.
        ask = msgspec.structs.replace(self._ask, messages=tuple(self._said), validate=False)
        self.requests += 1
        if self._attempt is not None:
            self._attempt(self.requests)
        try:
            reply = self._ask_model(ask)
        except ModelFailed as error:
            details = error.details
            if "tokens_in" in details:
                self._count(details["tokens_in"], details["tokens_out"])
            if details.get("reason") != "invalid_answer":
                raise
            raise UnusableAnswer(details.get("fault", error.message), details.get("said", "")) from error
        self._count(reply.tokens_in, reply.tokens_out)
        return reply

    def _ask_model(self, ask: Ask) -> Reply:
        if self._words is None:
            return self._model.reply(ask, timeout=self._timeout)
        return hear(self._model, ask, self._words, timeout=self._timeout)

    def _count(self, tokens_in: int, tokens_out: int) -> None:
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        if self._used is not None:
            self._used(tokens_in, tokens_out)

    def _answer(self, reply: Reply) -> Any:
        """Return the answer in a reply; raise UnusableAnswer if it is invalid."""
        try:
            if self._ask.schema is None:
                return _text(reply)
            if reply.value is None:
                raise UnusableAnswer("there is text instead of the requested value", reply.text)
            return reply.value if self._fit is None else self._fit(reply.value)
        except (SchemaViolation, InvalidValue, LimitExceeded) as error:
            raise UnusableAnswer(error.message, reply.text if reply.value is None else _json(reply.value)) from error

    def _correct(self, unfit: UnusableAnswer) -> None:
        """Ask the model to correct its answer; raise ModelFailed if it has been asked too often."""
        self._faults.append(unfit.fault)
        if len(self._faults) > CORRECTIONS:
            raise _no_valid_answer(self._model, self._faults) from unfit
        if unfit.said:
            self._said.append(Said("assistant", _sendable(unfit.said[:_ECHO])))
        self._said.append(
            Said("user", f"This answer cannot be used: {_sendable(unfit.fault)}. Answer again, corrected.")
        )

    def _result(self, call: ToolCall) -> Result:
        """Return the result or the error of a call, as a message for the model."""
        failed = False
        try:
            text = _json(self._call(call))
        except ToolFailed as error:
            failed, text = True, _json({"error": _sendable(str(error)), **error.about})
        said = Said("tool", text, call_id=call.id, tool=call.name, failed=failed)
        return Result(name=call.name, said=said, failed=failed)

    def _call(self, call: ToolCall) -> Any:
        names = [tool.name for tool in self._ask.tools]
        if self._call_tool is None or call.name not in names:
            known = ", ".join(names) or "there are none"
            raise ToolFailed(f"{quote(call.name)} is not among the tools: {known}")
        return self._call_tool(call.name, call.arguments)


def sendable(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as valid JSON, with null for NaN and infinity.

    Clients of providers parse `NaN` and `1e999` as numbers, but providers reject them when they are sent back.

    >>> sendable({"limit": float("inf")})
    {'limit': None}
    """
    return json.loads(json.dumps(arguments, default=str), parse_constant=lambda name: None)


def _text(reply: Reply) -> str:
    if not reply.text:
        raise UnusableAnswer("the reply is empty", "")
    # Providers pass on text that cannot be stored, such as a lone surrogate.
    encode_checked(reply.text, _LIMITS)
    return reply.text


def _short(detail: Any) -> Any:
    """Shorten a detail of an error: a path into a value can be as long as the value."""
    return storable_text(detail, longest=_PLACE) if isinstance(detail, str) else detail


def _sendable(text: str) -> str:
    """Return a text without lone surrogates, which cannot be encoded."""
    return text.encode(errors="replace").decode()


def _json(value: Any) -> str:
    try:
        return encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return "a value without JSON form"


def _no_valid_answer(model: Model, faults: list[str]) -> ModelFailed:
    listed = "; ".join(f"{number}. {fault}" for number, fault in enumerate(faults, 1))
    return ModelFailed(
        f"the model {quote(model.name)} gave no valid answer: {listed}",
        hint="Ask for less, or describe more clearly what is wanted",
        reason="invalid_answer",
        retryable=True,
        model=model.name,
        faults=tuple(faults),
    )
