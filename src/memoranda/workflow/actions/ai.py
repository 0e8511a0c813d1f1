"""The five actions that ask a model.

They differ in two things: whether they may read the conversation of the thread, and whether they give a text or an
object. All of them see the memory that is mounted on their task, and may have tools: other tasks, and `update_memory`
for the mounted records and writable blocks. Whatever a model sends, the run continues: it is told about invalid
arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from memoranda.agent.conversation import Conversation, Result, ToolFailed
from memoranda.agent.models import Ask, Model, Said, ToolSpec
from memoranda.engine.schemas import prepare_schema
from memoranda.engine.validator import Validator
from memoranda.errors import (
    InvalidDefinition,
    MemorandaError,
    ModelFailed,
    ModelUnavailable,
    SchemaViolation,
    StorageError,
    UsageError,
)
from memoranda.model.limits import Limits
from memoranda.model.text import quote
from memoranda.model.value import decode, encode, encode_checked
from memoranda.runs.records import UPDATE_MEMORY, append_memory, may_update, update_records, update_tool, working_memory
from memoranda.workflow.actions.base import Call, F, action, object_schema

_LIMITS = Limits()
_SHOWN = 300
"""Maximum length of a reason: it may quote the whole answer."""


class Shape(msgspec.Struct, frozen=True):
    """An object that a model has to give: its schema and a validator."""

    schema: dict[str, Any]
    """As the model sees it; closed unless the author says otherwise. Do not modify it."""
    validator: Validator

    def fit(self, value: Any) -> Any:
        """Return the value if it fits; raise a SchemaViolation if not, or another error if it cannot be stored."""
        encode_checked(value, _LIMITS)
        fault = self.validator.first_fault(value)
        if fault is None:
            return value
        raise SchemaViolation(f"at {fault.path}: {fault.reason}"[:_SHOWN], path=fault.path, expected=fault.reason)


def shape_of(schema: dict[str, Any], *, what: str) -> Shape:
    """Return the shape for a schema; compiled schemas are cached."""
    try:
        return _compile_shape(encode(schema))
    except InvalidDefinition as error:
        raise InvalidDefinition(f"{what}: {error.message}", hint=error.advice, path=error.path) from error


@lru_cache(maxsize=256)
def _compile_shape(schema: bytes) -> Shape:
    # Servers of tools often write defaults that do not fit; they are not put into what a model sends.
    prepared = prepare_schema(decode(schema), defaults=False)
    return Shape(prepared, Validator(prepared))


class Toolbox:
    """The tools of one task: other tasks of its workflow, and its mounted memory."""

    def __init__(self, call: Call) -> None:
        """Collect the tools of a call, and refuse duplicate names."""
        self._place = call.place
        memory = call.place.memory
        mounted = [memory.contract(slug) for slug in call.slugs]
        self._slugs = [one.slug for one in mounted if may_update(one)]
        self._versions = memory.block_versions()
        """The versions of the blocks that the model has read."""
        self._shapes: dict[str, Shape] = {
            tool.name: shape_of(tool.parameters, what=f"the inputs of the tool {quote(tool.name)}")
            for tool in call.tools
        }
        tasks = [ToolSpec(tool.name, tool.description, self._shapes[tool.name].schema) for tool in call.tools]
        update = update_tool(mounted)
        self.specs = (*tasks, update) if update is not None else tuple(tasks)
        """The tools as a model sees them: the tasks in their order, then the memory."""
        _refuse_duplicates(self.specs)

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out a call of the model, and return its result; raise ToolFailed with a message for the model."""
        # With a memory mounted, no task has this name.
        if name == UPDATE_MEMORY and self._slugs:
            return {"memory": update_records(self._place.memory, self._slugs, arguments, self._versions)}
        try:
            self._shapes[name].fit(arguments)
        except UsageError as error:
            raise ToolFailed(f"the arguments do not fit: {error.message}") from error
        try:
            return self._place.call_task(name, arguments)
        except StorageError:
            raise
        except MemorandaError as error:
            raise ToolFailed(error) from error


def _refuse_duplicates(specs: tuple[ToolSpec, ...]) -> None:
    twins = [name for name, count in Counter(spec.name for spec in specs).items() if count > 1]
    if UPDATE_MEMORY in twins:
        raise UsageError(
            f"a tool is called {quote(UPDATE_MEMORY)}, the name of the tool for mounted memory",
            hint="Give the task another name, or mount no memory",
            value=UPDATE_MEMORY,
        )
    if twins:
        raise UsageError(f"there are two tools {quote(twins[0])}", hint="Name each once", value=twins[0])


_PARDONS = 2
"""How many steps with only failed calls are not counted if the number of steps is not set."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The model's last reply, and its cost."""

    text: str
    value: dict[str, Any] | None
    finished: bool
    """Whether it answered; otherwise its last reply called tools, and no step was left."""
    steps: int
    results: tuple[Result, ...]
    """The results of its tool calls, in order."""
    tokens_in: int
    tokens_out: int


BINDINGS = ("tools", "mcp", "model", "memory")
"""What a task that asks a model may bind."""
MESSAGES = 4
"""How many messages of a conversation a model reads by default."""
REPLY_SECONDS = 60.0
"""How long one reply may take if the task has no `timeout_ms`."""
ASSISTANT = "You are an assistant. Answer what the user asks, briefly and truthfully."
"""The default `system` of a task that wants a text."""
READER = "Find the requested fields in what the user says. Take over what is said there, and invent nothing."
"""The default `system` of a task that wants an object."""

Json = dict[str, Any]


def _prompt_inputs(system: str) -> Json:
    return {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": "What the model is asked; by default the field `text` of the run's input.",
        },
        "system": {"type": "string", "default": system, "description": "The instructions of the model."},
    }


def _conversation_inputs(system: str) -> Json:
    return {
        "input_mode": {
            "enum": ["prompt", "history"],
            "default": "prompt",
            "description": "Whether the model reads the prompt, or the newest messages of the thread.",
        },
        **_prompt_inputs(system),
        "messages_limit": {
            "type": "integer",
            "minimum": 1,
            "default": MESSAGES,
            "description": "How many of the newest messages it reads, with `input_mode: history`.",
        },
    }


_SETTINGS: Json = {
    "stop_step_count": {
        "type": "integer",
        "minimum": 1,
        "description": "How many replies the model may give, including those that call tools; by default one more "
        "than there are tools.",
    },
    "temperature": {
        "type": "number",
        "minimum": 0,
        "maximum": 2,
        "description": "The sampling temperature; by default the provider's.",
    },
    "max_output_tokens": {"type": "integer", "minimum": 1, "description": "Maximum number of tokens of one reply."},
}
_TEXT_SETTINGS = object_schema(_SETTINGS)
_OBJECT_SETTINGS = object_schema(
    {
        "output_schema": {
            "type": "object",
            "description": "JSON schema of the object that the model has to give; "
            "other fields are not allowed unless it says so.",
        },
        **_SETTINGS,
    },
    required=["output_schema"],
)


def _text_action(name: str, inputs: Json) -> Callable[[F], F]:
    return action(name, inputs=object_schema(inputs), settings=_TEXT_SETTINGS, bindings=BINDINGS, origin=None)


def _object_action(name: str, inputs: Json) -> Callable[[F], F]:
    return action(name, inputs=object_schema(inputs), settings=_OBJECT_SETTINGS, bindings=BINDINGS, origin=None)


@_text_action("ai_agent", _conversation_inputs(ASSISTANT))
def ai_agent(call: Call) -> Json:
    """Let a model work with its tools until it is done.

    Gives `{text, finish_reason, steps, tool_calls, model, usage}`. With `finish_reason: stop` the text is its answer;
    with `tool_calls` it ran out of steps first, and the text is what it said with its last calls, if anything.
    `tool_calls` is a list of `{name, failed}`.
    """
    model, answer = _ask(call, ASSISTANT)
    return {
        "text": answer.text,
        "finish_reason": "stop" if answer.finished else "tool_calls",
        "steps": answer.steps,
        "tool_calls": [{"name": result.name, "failed": result.failed} for result in answer.results],
        **_cost(model, answer),
    }


@_text_action("ai_generate_reply", _conversation_inputs(ASSISTANT))
def ai_generate_reply(call: Call) -> Json:
    """Have a model write the next message of a conversation.

    Gives `{text, model, usage}`. Nothing is sent: `send_text_message` does that.
    """
    return _text(call)


@_text_action("ai_generate_text", _prompt_inputs(ASSISTANT))
def ai_generate_text(call: Call) -> Json:
    """Have a model write a text from a prompt.

    Gives `{text, model, usage}`.
    """
    return _text(call)


@_object_action("ai_generate_object", _prompt_inputs(READER))
def ai_generate_object(call: Call) -> Json:
    """Have a model create an object from a prompt, according to a schema.

    Gives `{object, model, usage}`.
    """
    return _object(call)


@_object_action("ai_infer_object", _conversation_inputs(READER))
def ai_infer_object(call: Call) -> Json:
    """Have a model extract an object from a conversation, according to a schema.

    Gives `{object, model, usage}`.
    """
    return _object(call)


def _text(call: Call) -> Json:
    model, answer = _ask(call, ASSISTANT)
    _require(model, answer)
    return {"text": answer.text, **_cost(model, answer)}


def _object(call: Call) -> Json:
    shape = shape_of(call.settings["output_schema"], what="`output_schema` cannot be used")
    model, answer = _ask(call, READER, shape)
    _require(model, answer)
    return {"object": answer.value, **_cost(model, answer)}


def _ask(call: Call, system: str, shape: Shape | None = None) -> tuple[Model, Answer]:
    """Ask the model of a task, and return its answer; raise the error that ended the conversation."""
    if call.model is None:
        raise ModelUnavailable(
            f"the task {quote(call.task)} asks a model, but none is bound to it",
            hint="Define one with `kind: model`, and name it in the task's `bindings.model`",
            task=call.task,
        )
    tools, settings, messages = Toolbox(call), call.settings, _messages(call)
    ask = Ask(
        _instructions(call, system, messages),
        messages,
        tools=tools.specs,
        schema=None if shape is None else shape.schema,
        temperature=settings.get("temperature"),
        max_tokens=_whole(settings, "max_output_tokens"),
    )
    fit = None if shape is None else shape.fit
    talk = Conversation(call.model, ask, timeout=_seconds(settings), fit=fit, call_tool=tools.call)
    steps = _whole(settings, "stop_step_count")
    left = 1 + len(tools.specs) if steps is None else steps
    # With one tool there are two steps: without these, the model could never correct a rejected call.
    pardons = _PARDONS if steps is None else 0
    while (heard := talk.hear()).calls:
        results = talk.call_tools(heard)
        if pardons and all(result.failed for result in results):
            pardons -= 1
        else:
            left -= 1
        if not left:
            break
    answer = Answer(
        text=heard.text,
        value=None if shape is None else heard.answer,
        finished=not heard.calls,
        steps=talk.requests,
        results=tuple(talk.results),
        tokens_in=talk.tokens_in,
        tokens_out=talk.tokens_out,
    )
    return call.model, answer


def _instructions(call: Call, system: str, messages: tuple[Said, ...]) -> str:
    memory = call.place.memory
    mounted = [memory.contract(slug) for slug in call.slugs]
    shown = append_memory(call.inputs.get("system", system), working_memory(mounted, memory.values))
    asked = next((said.text for said in reversed(messages) if said.role == "user"), "")
    remembered, made_of = memory.remembered(asked)
    call.place.tell_model(memory.provenance_of(call.slugs) | made_of)
    return append_memory(shown, remembered)


def _messages(call: Call) -> tuple[Said, ...]:
    if call.inputs.get("input_mode") != "history":
        return (Said("user", _prompt(call)),)
    if call.place.thread is None:
        raise UsageError(
            f"the task {quote(call.task)} reads a conversation, but this run is not part of one",
            hint="Run the workflow in a thread, or use `input_mode: prompt`",
            task=call.task,
        )
    said = call.place.history(_whole(call.inputs, "messages_limit") or MESSAGES)
    if not said:
        raise UsageError(
            f"the task {quote(call.task)} reads a conversation that has no messages yet",
            hint="Use `input_mode: prompt` before the first message",
            task=call.task,
        )
    return tuple(Said("user" if one.by_owner else "assistant", one.text) for one in said)


def _prompt(call: Call) -> str:
    prompt = call.inputs.get("prompt", call.place.input.get("text"))
    if not isinstance(prompt, str) or not prompt:
        raise UsageError(
            f"the task {quote(call.task)} has no `prompt`, and the input of this run has no `text`",
            hint="Give it a prompt, or begin the run with a text",
            task=call.task,
        )
    return prompt


def _whole(given: Mapping[str, Any], name: str) -> int | None:
    # In JSON Schema, 3.0 is an integer too.
    return int(given[name]) if name in given else None


def _seconds(settings: Mapping[str, Any]) -> float:
    # 0 switches the timeout of a task off; one reply still has a limit.
    return settings.get("timeout_ms", 0) / 1_000 or REPLY_SECONDS


def _require(model: Model, answer: Answer) -> None:
    """Raise a ModelFailed if the model called one more tool instead of answering."""
    if not answer.finished:
        raise ModelFailed(
            f"the model {quote(model.name)} called tools in each of its {answer.steps} steps and gave no answer",
            hint="Raise `stop_step_count`, or say in `system` when it is done",
            reason="silent",
            retryable=True,
            model=model.name,
        )


def _cost(model: Model, answer: Answer) -> Json:
    return {
        "model": model.name,
        "usage": {
            "input_tokens": answer.tokens_in,
            "output_tokens": answer.tokens_out,
            "total_tokens": answer.tokens_in + answer.tokens_out,
        },
    }
