"""What is asked of a language model in, its reply out: one request at a time, the loop over tools is the caller's.

A thin seam over pydantic-ai, which is imported when a model is first asked. Nothing is sent to anybody but the
provider of the model: its instrumentation is off.
"""

from __future__ import annotations

import re
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

import msgspec

from recollect.agent.providers import Access, find_model
from recollect.errors import ModelError, ModelFailed, ModelUnavailable, RecollectError, UsageError
from recollect.model.text import quote

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart
    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

Reason = Literal["timeout", "rate_limited", "refused", "invalid_answer", "silent", "unreachable", "provider"]
"""Why a model failed, as `ModelFailed.reason` says it; `refused` is a model that declines, `provider` all the rest."""

ANSWER = "give_answer"
"""The tool that a model calls with the value, where a schema says what the value is."""
_SILENCE = "(The user has said nothing more.)"
"""What stands for the user where it is the model's turn and nothing was said: providers want a last word."""
_RETRYABLE = frozenset({408, 409, 425, 429})
_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_FENCED = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.DOTALL)
_KEY = re.compile(r"\b(?:sk|pk|key)-[\w-]{8,}")
_SHOWN = 200
_AS_IT_IS = Access()
_HINT = "Write `provider:model`, such as `anthropic:claude-sonnet-4-6` or `openai:gpt-5.2`"


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool that the model may call: its name, what it does, and the JSON schema of its parameters."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the model wants made."""

    id: str
    name: str
    arguments: dict[str, Any]


class Said(msgspec.Struct, frozen=True):
    """One message of the conversation: of the user, of the model with its calls, or the result of a call."""

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """Of a result: the id of the call it belongs to."""
    tool: str = ""
    """Of a result: the tool that was called."""


class Ask(msgspec.Struct, frozen=True):
    """One request: instructions, the conversation so far, the tools at hand, and the shape of the answer, if any."""

    instructions: str
    messages: tuple[Said, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, Any] | None = None
    """JSON schema of an object: then the reply has that `value`, or calls."""
    validate: bool = True
    """Whether the value has to be as the schema says; where the caller looks at it itself, any object will do."""
    temperature: float | None = None
    max_tokens: int | None = None
    once: bool = False
    """Whether this is one request on the wire too: else the provider's client may repeat one that failed."""


class Reply(msgspec.Struct, frozen=True):
    """What the model said: text, calls it wants made, or with a schema the value that was asked for."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    value: dict[str, Any] | None = None
    tokens_in: int = 0
    tokens_out: int = 0


@runtime_checkable
class Model(Protocol):
    """Anything that replies; `connect` makes one of a name or of a pydantic-ai model."""

    @property
    def name(self) -> str:
        """The name of the model, such as `openai:gpt-5.2`."""
        ...

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        """Return the reply to one request within so many seconds, or raise a ModelError."""
        ...


def connect(
    model: object, *, base_url: str | None = None, api_key: str | None = None, organization: str | None = None
) -> Model:
    """Return a model ready to be asked: of `provider:model`, of a pydantic-ai model, or the model itself.

    A name is only looked at; whether its package and key are there is seen when the model is first asked, so that an
    agent which never asks needs neither.

    Args:
        model: who is asked.
        base_url: where a model by its name is asked instead of at its provider's own address: any server that speaks
            as this provider does. Then no key of the environment is sent. Many servers speak as `openai-chat:` only.
        api_key: the key that it is asked with, instead of the one in the environment.
        organization: the organization that it is asked for, of providers that know some.
    """
    access = Access(base_url=base_url, api_key=api_key, organization=organization)
    if isinstance(model, str):
        if ":" not in model.strip(":") and model != "test":
            raise ModelUnavailable(f"{quote(model)} does not name a model", hint=_HINT, model=model)
        return _Named(model, access)
    if access.given:
        raise UsageError(
            f"a model that is there already takes no `{access.given[0]}`",
            hint="Name it as `provider:model`, or give it when you make the model",
        )
    provider = sys.modules.get("pydantic_ai.models")
    # Nobody can hold one of its models without having imported it.
    if provider is not None and isinstance(model, provider.Model):
        given = cast("ProviderModel", model)
        return _Connected(given.model_id, given)
    if isinstance(model, _Connected | _Given):
        return model
    if isinstance(model, Model):
        return _Given(model)
    raise UsageError(f"{quote(model)} is no model", hint=f"{_HINT}, or pass a model of pydantic-ai", value=model)


class _Given:
    """A model that somebody else wrote: whatever its code does wrong, the caller gets one kind of error."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def __repr__(self) -> str:
        return f"connect({self._model!r})"

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        try:
            return self._model.reply(ask, timeout=timeout)
        except RecollectError:
            raise
        except TimeoutError as error:
            message = f"did not reply within {timeout:g} s"
            raise _failed(self.name, message, reason="timeout", retryable=True) from error
        except Exception as error:
            what = f"could not be asked: {type(error).__name__}: {_excerpt(str(error))}"
            raise _failed(self.name, what, reason="provider", retryable=False) from error


class _Connected:
    """A model of pydantic-ai."""

    def __init__(self, name: str, found: ProviderModel | None = None, access: Access = _AS_IT_IS) -> None:
        self._name = name
        self._found: ProviderModel | None = found
        self._access = access

    @property
    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"connect({self._name!r})"

    def _model(self) -> ProviderModel:
        assert self._found is not None
        return self._found

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        found = self._model()
        # Both take long to import, and most agents never ask a model.
        from pydantic_ai.direct import model_request

        from recollect.agent.background import BACKGROUND

        wire = _Wire(ask)
        request = model_request(
            found,
            wire.messages(),
            model_settings=wire.settings(found),
            model_request_parameters=wire.parameters(),
            instrument=False,
        )
        try:
            response = BACKGROUND.run(request, timeout=timeout)
        except TimeoutError as error:
            message = f"did not reply within {timeout:g} s"
            raise _failed(self._name, message, reason="timeout", retryable=True) from error
        # Whatever the model's own code or its provider's does wrong, the caller gets one kind of error.
        except Exception as error:
            # What is printed of an error is printed of its causes too.
            shown = None if _mentions_key(error, self._access) else error
            raise _translated(self._name, error, self._access) from shown
        return wire.reply(self._name, response)


class _Named(_Connected):
    """A model by its name, found when it is first asked; its connections end with it."""

    def __init__(self, name: str, access: Access) -> None:
        super().__init__(name, access=access)
        self._finding = threading.Lock()

    def _model(self) -> ProviderModel:
        with self._finding:
            if self._found is None:
                self._found = find_model(self._name, self._access)
                weakref.finalize(self, _end, self._found)
            return self._found


def _end(model: ProviderModel) -> None:
    from recollect.agent.background import BACKGROUND

    BACKGROUND.begin(_closed(model))


async def _closed(model: ProviderModel) -> None:
    # Leaving it is what closes the client, and only what was entered can be left.
    async with model:
        pass


class _Wire:
    """One request as pydantic-ai takes it, and its response as a reply."""

    def __init__(self, ask: Ask) -> None:
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
                name=self._names[tool.name], parameters_json_schema=tool.parameters, description=tool.description
            )
            for tool in self._ask.tools
        ]
        if self._ask.schema is None:
            return ModelRequestParameters(function_tools=tools)
        answer = ToolDefinition(
            name=ANSWER, parameters_json_schema=self._ask.schema, description="Give the answer.", kind="output"
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
            raise _declined(model, (response.provider_details or {}).get("refusal"), **tokens)
        try:
            text, calls, value = self._said(response)
        except _Unusable as unusable:
            hint = "Let it say more tokens: it was cut off" if response.finish_reason == "length" else ""
            raise _failed(
                model,
                f"gave no answer that can be used: {unusable.fault}: {quote(unusable.said, longest=_SHOWN)}",
                reason="invalid_answer",
                retryable=True,
                hint=hint,
                fault=unusable.fault,
                said=unusable.said,
                **tokens,
            ) from unusable
        if not text and not calls and value is None:
            message = f"said nothing ({response.finish_reason or 'no reason given'})"
            raise _failed(model, message, reason="silent", retryable=True, **tokens)
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


def _value(text: str, given: dict[str, Any] | None) -> dict[str, Any]:
    """Return the value that was asked for: of the call that gives it, else of a text that is JSON."""
    if given is None:
        fenced = _FENCED.search(text)
        try:
            read: Any = msgspec.json.decode(fenced[1] if fenced else text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            read = None
        if not isinstance(read, dict):
            raise _Unusable("text stands instead of the value that was asked for", text)
        given = cast("dict[str, Any]", read)
    return given


def _check(schema: dict[str, Any], value: dict[str, Any]) -> None:
    import jsonschema_rs

    try:
        jsonschema_rs.validate(schema, value)
    except jsonschema_rs.ValidationError as error:
        raise _Unusable(f"the value is not as asked: {error.message}", str(value)) from error
    except UnicodeEncodeError as error:
        raise _Unusable("the value holds half of a character", str(value)) from error


def _failed(model: str, what: str, *, reason: Reason, retryable: bool, hint: str = "", **details: Any) -> ModelFailed:
    hint = hint or ("Try again" if retryable else "See what the provider of the model says about it")
    message = f"the model {quote(model)} {what}"
    return ModelFailed(message, hint=hint, reason=reason, retryable=retryable, model=model, **details)


def _declined(model: str, why: object, **tokens: Any) -> ModelFailed:
    said = f": {_excerpt(why)}" if why else ""
    hint = "Ask it in other words, or ask another model"
    return _failed(model, f"declined to answer{said}", reason="refused", retryable=False, hint=hint, **tokens)


def _mentions_key(error: BaseException | None, access: Access) -> bool:
    """Return whether an error, or what it came from, holds the key."""
    while error is not None:
        if access.reveals_key(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _translated(model: str, error: Exception, access: Access) -> ModelError:
    """Return our error for what pydantic-ai, a provider or a model's own function raised."""
    from pydantic_ai.exceptions import ContentFilterError, ModelAPIError, ModelHTTPError, UnexpectedModelBehavior

    if isinstance(error, ModelHTTPError):
        # Providers say how long to wait, and pydantic-ai did not always pass it on.
        return _answered(model, error.status_code, error.body, access, getattr(error, "retry_after", None))
    if isinstance(error, ContentFilterError):
        return _declined(model, access.hide(str(error)))
    said = _excerpt(str(error) or type(error).__name__, access)
    if isinstance(error, (ModelAPIError, ConnectionError)):
        return _failed(model, f"could not be asked: {said}", reason=_reason(error), retryable=True)
    if isinstance(error, UnexpectedModelBehavior):
        return _failed(model, f"could not be asked: {said}", reason="provider", retryable=True)
    what = f"could not be asked: {type(error).__name__}: {said}"
    return _failed(model, what, reason="provider", retryable=False)


def _reason(error: Exception) -> Reason:
    """Return why there was no answer with a status: it was late, it could not be read, or nobody was there."""
    cause = error.__cause__
    # Each client has timeouts of its own; what they share is the word.
    if any("Timeout" in type(one).__name__ for one in (error, cause)):
        return "timeout"
    if isinstance(error, ConnectionError) or (cause is not None and not isinstance(cause, ValueError)):
        return "unreachable"
    return "provider"


def _answered(model: str, status: int, body: object, access: Access, retry_after: float | None) -> ModelError:
    """Return our error for an answer of the provider with a status that is none of success."""
    # What a provider says about a key often repeats a part of it.
    if status in (401, 403):
        return ModelUnavailable(
            f"the provider of the model {quote(model)} refused the key (status {status})",
            hint=_key_hint(access),
            model=model,
            status=status,
        )
    said = _excerpt(body, access)
    if status == 404:
        message = f"the provider does not know the model {quote(model)}: {said}"
        hint = _HINT if access.base_url is None else "See which models the server at this `base_url` has, and its path"
        if access.base_url is not None and model.startswith("openai:"):
            hint += "; one that knows only chat completions is asked as `openai-chat:…`"
        return ModelUnavailable(message, hint=hint, model=model, status=status)
    retryable = status in _RETRYABLE or status >= 500
    reason: Reason = "rate_limited" if status == 429 else "provider"
    details: dict[str, Any] = {} if retry_after is None else {"retry_after": retry_after}
    what = f"answered with status {status}: {said}"
    return _failed(model, what, reason=reason, retryable=retryable, status=status, **details)


def _key_hint(access: Access) -> str:
    if access.api_key is not None:
        return "Look at the key that was given as `api_key`"
    if access.base_url is not None:
        return "Give its key as `api_key`: those of the environment are not sent to another address"
    return "Set the key of the provider in the environment, such as `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`"


def _excerpt(said: object, access: Access = _AS_IT_IS) -> str:
    """Return what a provider said, short and without anything that looks like a key."""
    text = str(said)
    while isinstance(said, dict):
        body = cast("dict[str, object]", said)
        text, said = str(body.get("message") or text), body.get("error")
    return quote(_KEY.sub("…", access.hide(text)), longest=_SHOWN)
