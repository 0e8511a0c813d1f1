"""One request as pydantic-ai takes it, and its response as a reply, whole or word by word."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.agent.failures import SHOWN, declined, failed
from memoranda.agent.models import Ask, Reply, Said, ToolCall
from memoranda.engine.schemas import validator_of
from memoranda.errors import InvalidDefinition, LimitExceeded
from memoranda.model.text import quote

if TYPE_CHECKING:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        ModelResponseStreamEvent,
    )
    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings

ANSWER = "give_answer"
"""The tool that a model calls with the value, where a schema says what the value is."""
_SILENCE = "(The user has said nothing more.)"
"""What stands for the user where it is the model's turn and nothing was said: providers want a last word."""
_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_FENCE_START = re.compile(r"```(?:json)?\s*+(?=\{)")
_FENCE_END = re.compile(r"(?<=\})\s*+```")


class Request:
    """One request as pydantic-ai takes it, and its response as a reply."""

    def __init__(self, ask: Ask) -> None:
        """Give each tool a name that providers allow."""
        self._ask = ask
        # Providers allow few characters in the name of a tool; ours may have dots.
        self._names: dict[str, str] = {}
        self._tools: dict[str, str] = {}
        for tool in ask.tools:
            self._wired(tool.name)

    def _wired(self, name: str) -> str:
        if name not in self._names:
            wired = base = _NAME.sub("_", name)[:_LONGEST_NAME] or "tool"
            number = 2
            while wired in self._tools or wired == ANSWER:
                wired = f"{base[: _LONGEST_NAME - 4]}_{number}"
                number += 1
            self._names[name], self._tools[wired] = wired, name
        return self._names[name]

    def arguments(self, model: ProviderModel) -> dict[str, Any]:
        """Return all that a request to a model takes, whole or streamed."""
        return {
            "messages": self.messages(),
            "model_settings": self.settings(model),
            "model_request_parameters": self.parameters(),
            "instrument": False,
        }

    def messages(self) -> list[ModelMessage]:
        """Return the conversation; results of calls and the words of the user between replies are one request."""
        from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart

        found: list[ModelMessage] = []
        waiting: list[ModelRequestPart] = []
        for said in self._ask.messages:
            if said.role == "assistant":
                found.append(ModelRequest(parts=waiting or [UserPromptPart(_SILENCE)]))
                found.append(ModelResponse(parts=self._spoken(said)))
                waiting = []
            else:
                waiting.append(self._heard(said))
        last = ModelRequest(parts=waiting or [UserPromptPart(_SILENCE)], instructions=self._ask.instructions or None)
        return [*found, last]

    def _spoken(self, said: Said) -> Sequence[ModelResponsePart]:
        from pydantic_ai.messages import TextPart, ToolCallPart

        calls = [ToolCallPart(self._wired(call.name), call.arguments, tool_call_id=call.id) for call in said.calls]
        return [TextPart(said.text), *calls] if said.text or not calls else calls

    def _heard(self, said: Said) -> ModelRequestPart:
        from pydantic_ai.messages import ToolReturnPart, UserPromptPart

        if said.role == "user":
            return UserPromptPart(said.text)
        return ToolReturnPart(self._wired(said.tool), said.text, tool_call_id=said.call_id)

    def parameters(self) -> ModelRequestParameters:
        """Return the tools, and the shape of the answer as one more of them."""
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        tools = [
            ToolDefinition(
                name=self._names[tool.name],
                parameters_json_schema=_spelled_out(tool.parameters),
                description=tool.description,
            )
            for tool in self._ask.tools
        ]
        if self._ask.schema is None:
            return ModelRequestParameters(function_tools=tools)
        answer = ToolDefinition(
            name=ANSWER,
            parameters_json_schema=_spelled_out(self._ask.schema),
            description="Give the answer.",
            kind="output",
        )
        return ModelRequestParameters(
            function_tools=tools, output_mode="tool", output_tools=[answer], allow_text_output=False
        )

    def settings(self, model: ProviderModel) -> ModelSettings:
        """Return how the model is to answer, as far as the caller said."""
        chosen: ModelSettings = {}
        if self._ask.temperature is not None:
            chosen["temperature"] = self._ask.temperature
        if self._ask.max_tokens is not None:
            chosen["max_tokens"] = self._ask.max_tokens
        # Models whose client has no such choice warn about it with each request; old ones do not say so.
        if self._ask.once and "max_retries" not in getattr(model, "unsupported_settings", ()):
            chosen["max_retries"] = 0
        return chosen

    def reply(self, model: str, response: ModelResponse) -> Reply:
        """Return what was said, or raise ModelFailed for what cannot be used."""
        usage = response.usage
        tokens: dict[str, Any] = {"tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens}
        # What a model said before it was stopped is not its answer.
        if response.finish_reason == "content_filter":
            raise declined(model, (response.provider_details or {}).get("refusal"), **tokens)
        try:
            text, calls, value = self._said(response)
        except _Unusable as unusable:
            hint = "Let it say more tokens: it was cut off" if response.finish_reason == "length" else ""
            raise failed(
                model,
                f"gave no answer that can be used: {unusable.fault}: {quote(unusable.said, longest=SHOWN)}",
                reason="invalid_answer",
                retryable=True,
                hint=hint,
                fault=unusable.fault,
                said=unusable.said,
                **tokens,
            ) from unusable
        if not text and not calls and value is None:
            message = f"said nothing ({response.finish_reason or 'no reason given'})"
            raise failed(model, message, reason="silent", retryable=True, **tokens)
        return Reply(text, calls, value, **tokens)

    def _said(self, response: ModelResponse) -> tuple[str, tuple[ToolCall, ...], dict[str, Any] | None]:
        from pydantic_ai.messages import TextPart, ToolCallPart

        text = "".join(part.content for part in response.parts if isinstance(part, TextPart)).strip()
        called = [(part, _arguments(part)) for part in response.parts if isinstance(part, ToolCallPart)]
        calls = tuple(
            ToolCall(part.tool_call_id, self._tools.get(part.tool_name, part.tool_name), arguments)
            for part, arguments in called
            if part.tool_name != ANSWER or self._ask.schema is None
        )
        if self._ask.schema is None or calls:
            return text, calls, None
        given = next((arguments for part, arguments in called if part.tool_name == ANSWER), None)
        if given is None and not text:
            return text, calls, None
        value = _value(text, given)
        if self._ask.validate:
            _check(self._ask.schema, value)
        return text, calls, value


_SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_SCHEMAS = ("items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else")
"""Where the parts of a schema stand, that are schemas themselves."""
_LISTING = frozenset({"properties", "patternProperties", "additionalProperties", "$ref", "allOf", "anyOf", "oneOf"})


def _spelled_out(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that says aloud what pydantic-ai would drop from it, or read into it.

    On the way to some providers, titles of fields are dropped, and an object that lists nothing has to be empty.
    """
    return {word: _spelled(word, part) for word, part in schema.items()}


def _spelled(word: str, part: Any) -> Any:
    if word in _SCHEMAS_BY_NAME and isinstance(part, dict):
        return {name: _field(one) for name, one in cast("dict[str, Any]", part).items()}
    return _field(part) if word in _SCHEMAS else part


def _field(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_field(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    told = _spelled_out(cast("dict[str, Any]", schema))
    if told.get("type") == "object" and not told.keys() & _LISTING:
        told["additionalProperties"] = True
    title, description = told.pop("title", None), told.get("description")
    if title:
        told["description"] = f"{title}: {description}" if description else title
    return told


class _Unusable(Exception):
    """An answer that cannot be used: what is wrong with it, and what it was."""

    def __init__(self, fault: str, said: str) -> None:
        super().__init__(fault)
        self.fault = fault
        self.said = said


def _arguments(part: Any) -> dict[str, Any]:
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError) as error:
        fault = f"{quote(part.tool_name)} was called with what is no JSON object"
        raise _Unusable(fault, str(part.args)) from error


def _fenced(text: str) -> str:
    """Return the JSON object between the first fence and the last; without fences, the text."""
    start = _FENCE_START.search(text)
    *_, end = [None, *_FENCE_END.finditer(text, start.end())] if start else [None]
    return text[start.end() : end.start()] if start and end else text


def _value(text: str, given: dict[str, Any] | None) -> dict[str, Any]:
    """Return the value that was asked for: of the call that gives it, else of a text that is JSON."""
    if given is None:
        try:
            read: Any = msgspec.json.decode(_fenced(text))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            read = None
        if not isinstance(read, dict):
            raise _Unusable("text stands instead of the value that was asked for", text)
        given = cast("dict[str, Any]", read)
    return given


def _check(schema: dict[str, Any], value: dict[str, Any]) -> None:
    try:
        fault = validator_of(schema, formats=False).first_fault(value)
    except UnicodeEncodeError as error:
        raise _Unusable("the value holds half of a character", str(value)) from error
    except (InvalidDefinition, LimitExceeded) as error:
        raise _Unusable(f"the value is not as asked: {error.message}", str(value)) from error
    if fault is not None:
        raise _Unusable(f"the value is not as asked: {fault.reason}", str(value))


def can_stream(model: ProviderModel) -> bool:
    """Return whether a model of pydantic-ai can be heard while it speaks, with nothing lost by it."""
    from pydantic_ai.models import Model as AnyModel
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.wrapper import WrapperModel

    while isinstance(model, WrapperModel):
        model = model.wrapped
    # It judges whole responses, and can take none back that was heard already.
    if isinstance(model, FallbackModel):
        return False
    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    return type(model).request_stream is not AnyModel.request_stream


async def streamed(
    request: AbstractAsyncContextManager[StreamedResponse], tell: Callable[[str], None]
) -> ModelResponse:
    """Make a request, tell the words of its response as they come, and return it."""
    trimmed = _Trimmed()
    async with request as events:
        async for event in events:
            words = trimmed.take(_words(event))
            if words:
                tell(words)
    return events.get()


def _words(event: ModelResponseStreamEvent) -> str:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


class _Trimmed:
    """Words in, the same out without the space before the first and after the last: as the text of a reply is."""

    def __init__(self) -> None:
        self._begun = False
        self._space = ""

    def take(self, words: str) -> str:
        """Return what can be told; space is told with the word that follows."""
        text = self._space + words if self._begun else words.lstrip()
        told = text.rstrip()
        self._space = text[len(told) :]
        self._begun = self._begun or bool(told)
        return told


def is_whole(response: ModelResponse) -> bool:
    """Return whether a response that was streamed came to its end."""
    # One that came from elsewhere says why it ended, and what broke off cannot; functions never say.
    ended = response.finish_reason is not None or response.provider_url is None
    # Old responses have no state.
    return ended and getattr(response, "state", "complete") != "incomplete"
