"""A question in, what a model says to it out: the whole conversation, with its tools and its corrections.

Only a conversation: it knows no language, no memory and no permission. How many rounds of tools there may be is for
its caller to say, who is told of every request before it is made, and may stop it there. What an error says about an
answer does not hold the answer: errors are kept longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from memoranda.agent.models import Ask, Model, Reply, Said, ToolCall, hear
from memoranda.errors import InvalidValue, LimitExceeded, MemorandaError, ModelFailed, SchemaViolation, UsageError
from memoranda.model.limits import Limits
from memoranda.model.text import cleaned, quote
from memoranda.model.value import encode, encode_checked

CORRECTIONS = 2
"""How often a model is asked again in a conversation when its answer does not fit."""
_ECHO = 4_000
"""Characters of an answer that does not fit that are shown to the model again."""
_TOLD = ("path", "expected", "limit", "actual", "what", "capability", "approval", "retry_after")
"""Details of an error that a model can act on."""
_PLACE = 120
"""Characters of one detail of an error that a model is told."""
_LIMITS = Limits()

Fit: TypeAlias = Callable[[dict[str, Any]], Any]
"""Makes the answer of a value; raises SchemaViolation, InvalidValue or LimitExceeded where it does not fit."""
CallTool: TypeAlias = Callable[[str, dict[str, Any]], Any]
"""Calls a tool by its name with arguments; raises ToolFailed for what the model shall be told."""


class ToolFailed(Exception):
    """A tool failed in a way that the model is told about; it may go on without it."""

    def __init__(self, why: str | MemorandaError) -> None:
        """Keep the words that the model is told; of one of our errors also its code, and its limits and places."""
        super().__init__(str(why))
        self.about: dict[str, Any] = {}
        if isinstance(why, MemorandaError):
            told = {name: _short(why.details[name]) for name in _TOLD if name in why.details}
            self.about = {"code": why.code, **told}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of a tool came to: the words that the model is told."""

    name: str
    said: Said
    failed: bool


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said: calls that it wants made, or its answer."""

    text: str
    calls: tuple[ToolCall, ...]
    answer: Any
    """What was made of its value where a schema asked for one, else its text; None beside calls."""


class Conversation:
    """What was said so far, and what it took: `hear` the model, `call_tools` where it wants some, and hear it again."""

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
        """Begin with a question.

        Args:
            model: who is asked.
            ask: what is asked; its messages are those before the model speaks.
            timeout: seconds that the model has for each reply.
            fit: makes the answer of a value, where the question has a schema; without it, it is the value.
            call_tool: calls the tools; what it raises ends the conversation, but for ToolFailed.
            attempt: called with 1, 2, 3… before each request; what it raises ends the conversation.
            used: called after each request that was answered, with the tokens that it read and wrote.
            words: called with the words of a reply as they come, if the model streams; whether they count is known
                when `hear` returns.
        """
        if ask.tools and call_tool is None:
            raise UsageError("the question has tools, and nobody to call them", hint="Pass `call_tool`")
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
        """What calls of tools came to, in order."""
        self.requests = 0
        self.tokens_in = 0
        self.tokens_out = 0

    def hear(self) -> Heard:
        """Return what the model says next, or raise what ended the conversation.

        An answer that does not fit is asked for again, at most twice in a conversation, with what was wrong; then it
        is a ModelFailed whose `reason` is `invalid_answer` and whose `faults` say what was wrong each time. Every
        other ModelError is raised as it came.
        """
        while True:
            try:
                reply = self._reply()
                answer = None if reply.calls else self._answer(reply)
            except _Unfit as unfit:
                self._correct(unfit)
            else:
                return Heard(text=reply.text, calls=reply.calls, answer=answer)

    def call_tools(self, heard: Heard) -> list[Result]:
        """Carry out the calls that the model wants, one after the other, and return what they came to."""
        results = [self._result(call) for call in heard.calls]
        made = tuple(msgspec.structs.replace(call, arguments=sendable(call.arguments)) for call in heard.calls)
        self._said += [Said("assistant", heard.text, made), *(result.said for result in results)]
        self.results += results
        return results

    def _reply(self) -> Reply:
        # Whoever fits the value sees more than its schema says.
        ask = msgspec.structs.replace(self._ask, messages=tuple(self._said), validate=False)
        self.requests += 1
        if self._attempt is not None:
            self._attempt(self.requests)
        try:
            reply = self._asked(ask)
        except ModelFailed as error:
            details = error.details
            if "tokens_in" in details:
                self._count(details["tokens_in"], details["tokens_out"])
            if details.get("reason") != "invalid_answer":
                raise
            raise _Unfit(details.get("fault", error.message), details.get("said", "")) from error
        self._count(reply.tokens_in, reply.tokens_out)
        return reply

    def _asked(self, ask: Ask) -> Reply:
        if self._words is None:
            return self._model.reply(ask, timeout=self._timeout)
        return hear(self._model, ask, self._words, timeout=self._timeout)

    def _count(self, tokens_in: int, tokens_out: int) -> None:
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        if self._used is not None:
            self._used(tokens_in, tokens_out)

    def _answer(self, reply: Reply) -> Any:
        """Return the answer that a reply is; raise _Unfit where it is none."""
        try:
            if self._ask.schema is None:
                return _text(reply)
            if reply.value is None:
                raise _Unfit("text stands instead of the value that was asked for", reply.text)
            return reply.value if self._fit is None else self._fit(reply.value)
        except (SchemaViolation, InvalidValue, LimitExceeded) as error:
            raise _Unfit(error.message, reply.text if reply.value is None else _json(reply.value)) from error

    def _correct(self, unfit: _Unfit) -> None:
        """Say what was wrong with an answer; raise ModelFailed when it was said often enough."""
        self._faults.append(unfit.fault)
        if len(self._faults) > CORRECTIONS:
            raise _unanswered(self._model, self._faults) from unfit
        if unfit.said:
            self._said.append(Said("assistant", _sendable(unfit.said[:_ECHO])))
        self._said.append(
            Said("user", f"This answer cannot be used: {_sendable(unfit.fault)}. Answer again, corrected.")
        )

    def _result(self, call: ToolCall) -> Result:
        """Return what a call gave, or why it failed, as the model is told."""
        failed = False
        try:
            text = _json(self._called(call))
        except ToolFailed as error:
            failed, text = True, _json({"error": _sendable(str(error)), **error.about})
        said = Said("tool", text, call_id=call.id, tool=call.name)
        return Result(name=call.name, said=said, failed=failed)

    def _called(self, call: ToolCall) -> Any:
        names = [tool.name for tool in self._ask.tools]
        if self._call_tool is None or call.name not in names:
            known = ", ".join(names) or "there are none"
            raise ToolFailed(f"{quote(call.name)} is not among the tools: {known}")
        return self._call_tool(call.name, call.arguments)


def sendable(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as it is kept and sent again: JSON, with null for a number that is none.

    Providers' clients read `NaN`, and `1e999`, as numbers; whoever is sent them back cannot read them at all.

    >>> sendable({"limit": float("inf")})
    {'limit': None}
    """
    return json.loads(json.dumps(arguments, default=str), parse_constant=lambda name: None)


class _Unfit(Exception):
    """An answer that does not fit: what was wrong with it, and what it was."""

    def __init__(self, fault: str, said: str) -> None:
        super().__init__(fault)
        self.fault = fault
        self.said = said


def _text(reply: Reply) -> str:
    if not reply.text:
        raise _Unfit("nothing was said", "")
    # Providers let pass what cannot be kept, such as half of a character.
    encode_checked(reply.text, _LIMITS)
    return reply.text


def _short(detail: Any) -> Any:
    """Return a detail of an error as a model is told it: a place deep inside a value is as long as the value."""
    return cleaned(detail, longest=_PLACE) if isinstance(detail, str) else detail


def _sendable(text: str) -> str:
    """Return a text without halves of characters, which cannot be sent."""
    return text.encode(errors="replace").decode()


def _json(value: Any) -> str:
    try:
        return encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return "what JSON has no word for"


def _unanswered(model: Model, faults: list[str]) -> ModelFailed:
    listed = "; ".join(f"{number}. {fault}" for number, fault in enumerate(faults, 1))
    return ModelFailed(
        f"the model {quote(model.name)} gave no answer that fits: {listed}",
        hint="Ask for less, or say more clearly what is wanted",
        reason="invalid_answer",
        retryable=True,
        model=model.name,
        faults=tuple(faults),
    )
