"""One request to a model through pydantic-ai, and the event loop it runs on.

Clients of model providers keep connections that belong to one event loop. So the process has one loop, on a daemon
thread, and every request runs there, whether its caller is synchronous or inside a loop of its own.
"""

from __future__ import annotations

import asyncio
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, cast

import msgspec
from pydantic_ai import messages
from pydantic_ai.models import Model as ProviderModel
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from memoranda.agent.models import Ask, Reply, Said, ToolCall, UnusableAnswer
from memoranda.agent.provider import SHOWN, model_failure, refusal
from memoranda.engine.schemas import validator_of
from memoranda.errors import InvalidDefinition, LimitExceeded
from memoranda.model.text import quote

ANSWER = "give_answer"
"""The tool that a model calls with its answer, if the answer has a schema."""
_SILENCE = "(The user has said nothing more.)"
"""The user's message if there is none: providers require one before each reply."""
_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_FENCE_START = re.compile(r"```(?:json)?\s*+(?=\{)")
_FENCE_END = re.compile(r"(?<=\})\s*+```")


class _FailedCall(messages.ToolReturnPart[Any]):
    """The result of a failed call, which providers such as Anthropic mark as an error.

    Others get its text as it is: it is an object with an `error` already, so that it need not be wrapped in one.
    """

    def model_response_str(self, *, wrap_if_error: bool = True) -> str:
        """Return the text."""
        return super().model_response_str(wrap_if_error=False)


class Request:
    """One request in the form of pydantic-ai, and the reply of its response."""

    def __init__(self, ask: Ask) -> None:
        """Give each tool a name that providers accept."""
        self._ask = ask
        # Providers allow few characters in the name of a tool; ours may have dots.
        self._names: dict[str, str] = {}
        self._tools: dict[str, str] = {}
        for tool in ask.tools:
            self._wire_name(tool.name)

    def _wire_name(self, name: str) -> str:
        if name not in self._names:
            wired = base = _NAME.sub("_", name)[:_LONGEST_NAME] or "tool"
            number = 2
            while wired in self._tools or wired == ANSWER:
                wired = f"{base[: _LONGEST_NAME - 4]}_{number}"
                number += 1
            self._names[name], self._tools[wired] = wired, name
        return self._names[name]

    def arguments(self, model: ProviderModel) -> dict[str, Any]:
        """Return the arguments of `model_request` and `model_request_stream`."""
        return {
            "messages": self.history(),
            "model_settings": self.settings(model),
            "model_request_parameters": self.parameters(),
            "instrument": False,
        }

    def history(self) -> list[messages.ModelMessage]:
        """Return the conversation; tool results and user messages between two replies are one request."""
        found: list[messages.ModelMessage] = []
        waiting: list[messages.ModelRequestPart] = []
        for said in self._ask.messages:
            if said.role == "assistant":
                found.append(messages.ModelRequest(parts=waiting or [messages.UserPromptPart(_SILENCE)]))
                found.append(messages.ModelResponse(parts=self._response_parts(said)))
                waiting = []
            else:
                waiting.append(self._request_part(said))
        last = messages.ModelRequest(
            parts=waiting or [messages.UserPromptPart(_SILENCE)], instructions=self._ask.instructions or None
        )
        return [*found, last]

    def _response_parts(self, said: Said) -> Sequence[messages.ModelResponsePart]:
        calls = [
            messages.ToolCallPart(self._wire_name(call.name), call.arguments, tool_call_id=call.id)
            for call in said.calls
        ]
        return [messages.TextPart(said.text), *calls] if said.text or not calls else calls

    def _request_part(self, said: Said) -> messages.ModelRequestPart:
        if said.role == "user":
            return messages.UserPromptPart(said.text)
        if said.failed:
            return _FailedCall(self._wire_name(said.tool), said.text, tool_call_id=said.call_id, outcome="failed")
        return messages.ToolReturnPart(self._wire_name(said.tool), said.text, tool_call_id=said.call_id)

    def parameters(self) -> ModelRequestParameters:
        """Return the tools, with the schema of the answer as one more."""
        tools = [
            ToolDefinition(
                name=self._names[tool.name],
                parameters_json_schema=_explicit(tool.parameters),
                description=tool.description,
            )
            for tool in self._ask.tools
        ]
        if self._ask.schema is None:
            return ModelRequestParameters(function_tools=tools)
        answer = ToolDefinition(
            name=ANSWER,
            parameters_json_schema=_explicit(self._ask.schema),
            description="Give the answer.",
            kind="output",
        )
        return ModelRequestParameters(
            function_tools=tools, output_mode="tool", output_tools=[answer], allow_text_output=False
        )

    def settings(self, model: ProviderModel) -> ModelSettings:
        """Return the settings that the caller chose."""
        chosen: ModelSettings = {}
        if self._ask.temperature is not None:
            chosen["temperature"] = self._ask.temperature
        if self._ask.max_tokens is not None:
            chosen["max_tokens"] = self._ask.max_tokens
        # A model without this setting would warn at each request; older models do not declare it.
        if self._ask.once and "max_retries" not in getattr(model, "unsupported_settings", ()):
            chosen["max_retries"] = 0
        return chosen

    def reply(self, model: str, response: messages.ModelResponse) -> Reply:
        """Return the reply of a response, or raise ModelFailed if it cannot be used."""
        usage = response.usage
        tokens: dict[str, Any] = {"tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens}
        # Text before a content filter stopped the model is not its answer.
        if response.finish_reason == "content_filter":
            raise refusal(model, (response.provider_details or {}).get("refusal"), **tokens)
        try:
            text, calls, value = self._parse(response)
        except UnusableAnswer as unusable:
            hint = "Allow more tokens: the reply was cut off" if response.finish_reason == "length" else ""
            raise model_failure(
                model,
                f"gave an unusable answer: {unusable.fault}: {quote(unusable.said, longest=SHOWN)}",
                reason="invalid_answer",
                retryable=True,
                hint=hint,
                fault=unusable.fault,
                said=unusable.said,
                **tokens,
            ) from unusable
        if not text and not calls and value is None:
            message = f"said nothing ({response.finish_reason or 'no reason given'})"
            raise model_failure(model, message, reason="silent", retryable=True, **tokens)
        return Reply(text, calls, value, **tokens)

    def _parse(self, response: messages.ModelResponse) -> tuple[str, tuple[ToolCall, ...], dict[str, Any] | None]:
        text = "".join(part.content for part in response.parts if isinstance(part, messages.TextPart)).strip()
        called = [(part, _arguments(part)) for part in response.parts if isinstance(part, messages.ToolCallPart)]
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
"""The keywords whose values contain schemas."""
_LISTING = frozenset({"properties", "patternProperties", "additionalProperties", "$ref", "allOf", "anyOf", "oneOf"})


def _explicit(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that keeps its meaning on the way through pydantic-ai.

    For some providers it drops the titles of fields, and makes an object without properties an empty one.
    """
    return {word: _explicit_part(word, part) for word, part in schema.items()}


def _explicit_part(word: str, part: Any) -> Any:
    if word in _SCHEMAS_BY_NAME and isinstance(part, dict):
        return {name: _field(one) for name, one in cast("dict[str, Any]", part).items()}
    return _field(part) if word in _SCHEMAS else part


def _field(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_field(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    told = _explicit(cast("dict[str, Any]", schema))
    if told.get("type") == "object" and not told.keys() & _LISTING:
        told["additionalProperties"] = True
    title, description = told.pop("title", None), told.get("description")
    if title:
        told["description"] = f"{title}: {description}" if description else title
    return told


def _arguments(part: Any) -> dict[str, Any]:
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError) as error:
        fault = f"the arguments of {quote(part.tool_name)} are not a JSON object"
        raise UnusableAnswer(fault, str(part.args)) from error


def _without_fence(text: str) -> str:
    """Return the JSON object between the first code fence and the last; the text if there are none."""
    start = _FENCE_START.search(text)
    *_, end = [None, *_FENCE_END.finditer(text, start.end())] if start else [None]
    return text[start.end() : end.start()] if start and end else text


def _value(text: str, given: dict[str, Any] | None) -> dict[str, Any]:
    """Return the requested value, from the arguments of the answer tool or from JSON text."""
    if given is None:
        try:
            read: Any = msgspec.json.decode(_without_fence(text))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            read = None
        if not isinstance(read, dict):
            raise UnusableAnswer("there is text instead of the requested value", text)
        given = cast("dict[str, Any]", read)
    return given


def _check(schema: dict[str, Any], value: dict[str, Any]) -> None:
    try:
        fault = validator_of(schema, formats=False).first_fault(value)
    except UnicodeEncodeError as error:
        raise UnusableAnswer("the value holds half of a character", str(value)) from error
    except (InvalidDefinition, LimitExceeded) as error:
        raise UnusableAnswer(f"the value is not as asked: {error.message}", str(value)) from error
    if fault is not None:
        raise UnusableAnswer(f"the value is not as asked: {fault.reason}", str(value))


def can_stream(model: ProviderModel) -> bool:
    """Return whether a model of pydantic-ai can be heard while it speaks, with nothing lost by it."""
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
    return type(model).request_stream is not ProviderModel.request_stream


async def stream_response(
    request: AbstractAsyncContextManager[StreamedResponse], tell: Callable[[str], None]
) -> messages.ModelResponse:
    """Make a request, pass on the text of its response as it arrives, and return the response."""
    trimmer = _Trimmer()
    async with request as events:
        async for event in events:
            words = trimmer.take(_words(event))
            if words:
                tell(words)
    return events.get()


def _words(event: messages.ModelResponseStreamEvent) -> str:
    if isinstance(event, messages.PartStartEvent) and isinstance(event.part, messages.TextPart):
        return event.part.content
    if isinstance(event, messages.PartDeltaEvent) and isinstance(event.delta, messages.TextPartDelta):
        return event.delta.content_delta
    return ""


class _Trimmer:
    """Strips streamed text as the text of a whole reply is stripped."""

    def __init__(self) -> None:
        self._begun = False
        self._space = ""

    def take(self, words: str) -> str:
        """Return the text to pass on; whitespace is held back until more text follows."""
        text = self._space + words if self._begun else words.lstrip()
        told = text.rstrip()
        self._space = text[len(told) :]
        self._begun = self._begun or bool(told)
        return told


def is_complete(response: messages.ModelResponse) -> bool:
    """Return whether a streamed response is complete."""
    # A provider's response has a finish reason unless it broke off; that of a function never has one.
    ended = response.finish_reason is not None or response.provider_url is None
    # Responses of older versions have no state.
    return ended and getattr(response, "state", "complete") != "incomplete"


P = TypeVar("P")
T = TypeVar("T")

_GRACE = 1.0
"""Seconds that a coroutine has to end after its timeout; if it has not, the loop is stuck."""


class Background:
    """An event loop on a daemon thread, started when it is first needed."""

    def __init__(self) -> None:
        """Start without a thread."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T], *, timeout: float) -> T:
        """Run a coroutine and return its result; raise TimeoutError after `timeout` seconds."""
        loop = self._running()
        future = asyncio.run_coroutine_threadsafe(_within(work, timeout), loop)
        try:
            return future.result(timeout + _GRACE)
        except TimeoutError:
            if not future.done():
                # Something blocks the loop; the next request gets a new one.
                self._give_up(loop)
            raise
        finally:
            future.cancel()

    def stream(
        self, work: Callable[[Callable[[P], None]], Coroutine[Any, Any, T]], *, timeout: float
    ) -> Generator[P, None, T]:
        """Yield what a coroutine passes to its callback, then return its result; raise as `run` does.

        Closing the generator cancels the coroutine.
        """
        loop = self._running()
        told: queue.SimpleQueue[P | None] = queue.SimpleQueue()
        ends = time.monotonic() + timeout + _GRACE
        future = asyncio.run_coroutine_threadsafe(_within(work(told.put), timeout), loop)
        future.add_done_callback(lambda _: told.put(None))
        try:
            while (piece := told.get(timeout=max(0.0, ends - time.monotonic()))) is not None:
                yield piece
            return future.result()
        except queue.Empty:
            self._give_up(loop)
            raise TimeoutError from None
        finally:
            future.cancel()

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine without waiting for its result."""
        asyncio.run_coroutine_threadsafe(work, self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="memoranda-models", daemon=True).start()
            return self._loop

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._loop is loop:
                self._loop = None

    def forget(self) -> None:
        """Start again in a forked process, which does not have the thread."""
        self._lock = threading.Lock()
        self._loop = None


async def _within(work: Coroutine[Any, Any, T], timeout: float) -> T:
    async with asyncio.timeout(timeout):
        return await work


BACKGROUND = Background()
"""The loop of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BACKGROUND.forget)
