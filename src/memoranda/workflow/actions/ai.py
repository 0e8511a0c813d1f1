"""A prompt or a conversation in, what a model makes of it out: the five actions that ask one.

They differ in two things: whether they may read the conversation of the thread, and whether they give a text or an
object. All of them see the memory that is mounted on their task, and may be given tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoranda.agent.models import Model, Said
from memoranda.errors import ModelFailed, ModelUnavailable, UsageError
from memoranda.model.text import quote
from memoranda.workflow.actions.asking import Answer, Question, ask_model
from memoranda.workflow.actions.base import Call, action
from memoranda.workflow.actions.schemas import closed
from memoranda.workflow.actions.shapes import Shape, shape_of
from memoranda.workflow.actions.toolbox import Toolbox
from memoranda.workflow.prompt import append_to, working_memory

BINDINGS = ("tools", "mcp", "model", "memory")
"""What can be mounted on a task that asks a model."""
MESSAGES = 4
"""How many messages of a conversation a model reads, where the task does not say."""
REPLY_SECONDS = 60.0
"""How long one reply may take, where the task has no `timeout_ms`."""
ASSISTANT = "You are an assistant. Answer what the user asks, briefly and truthfully."
"""The instruction of a task without `system` that wants a text."""
READER = "Find the requested fields in what the user says. Take over what is said there, and invent nothing."
"""The instruction of a task without `system` that wants an object."""

Json = dict[str, Any]


def _prompt_inputs(system: str) -> Json:
    return {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": "What the model is asked; the field `text` of the run's input where it is left out.",
        },
        "system": {"type": "string", "default": system, "description": "The instruction of the model."},
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
        "description": "How often the model may speak, calls of tools included; once more than there are tools "
        "where it is left out.",
    },
    "temperature": {
        "type": "number",
        "minimum": 0,
        "maximum": 2,
        "description": "How freely the model chooses its words; what its provider chooses where it is left out.",
    },
    "max_output_tokens": {"type": "integer", "minimum": 1, "description": "How many tokens one reply may have."},
}
_TEXT_SETTINGS = closed(_SETTINGS)
_OBJECT_SETTINGS = closed(
    {
        "output_schema": {
            "type": "object",
            "description": "JSON schema of the object that the model has to give; "
            "closed to other fields where it does not say otherwise.",
        },
        **_SETTINGS,
    },
    required=["output_schema"],
)


@action("ai_agent", inputs=closed(_conversation_inputs(ASSISTANT)), settings=_TEXT_SETTINGS, bindings=BINDINGS)
def ai_agent(call: Call) -> Json:
    """Let a model work with its tools until it is done.

    Gives `{text, finish_reason, steps, tool_calls, model, usage}`. With `finish_reason: stop` the text is its answer;
    with `tool_calls` its steps were used up before, and the text is what it said with its last calls, if anything.
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


@action("ai_generate_reply", inputs=closed(_conversation_inputs(ASSISTANT)), settings=_TEXT_SETTINGS, bindings=BINDINGS)
def ai_generate_reply(call: Call) -> Json:
    """Have a model write the next message of a conversation.

    Gives `{text, model, usage}`. Nothing is sent: `send_text_message` does that.
    """
    return _text(call)


@action("ai_generate_text", inputs=closed(_prompt_inputs(ASSISTANT)), settings=_TEXT_SETTINGS, bindings=BINDINGS)
def ai_generate_text(call: Call) -> Json:
    """Have a model write a text from a prompt.

    Gives `{text, model, usage}`.
    """
    return _text(call)


@action("ai_generate_object", inputs=closed(_prompt_inputs(READER)), settings=_OBJECT_SETTINGS, bindings=BINDINGS)
def ai_generate_object(call: Call) -> Json:
    """Have a model make an object from a prompt, as a schema describes it.

    Gives `{object, model, usage}`.
    """
    return _object(call)


@action("ai_infer_object", inputs=closed(_conversation_inputs(READER)), settings=_OBJECT_SETTINGS, bindings=BINDINGS)
def ai_infer_object(call: Call) -> Json:
    """Have a model read an object out of a conversation, as a schema describes it.

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
    if call.model is None:
        raise ModelUnavailable(
            f"the task {quote(call.task)} asks a model, and none is bound to it",
            hint="Define one with `kind: model`, and name it in the task's `bindings.model`",
            task=call.task,
        )
    settings = call.settings
    question = Question(
        system=_instructions(call, system),
        messages=_messages(call),
        shape=shape,
        steps=_whole(settings, "stop_step_count"),
        timeout=_seconds(settings),
        temperature=settings.get("temperature"),
        max_tokens=_whole(settings, "max_output_tokens"),
    )
    return call.model, ask_model(call.model, question, Toolbox(call))


def _instructions(call: Call, system: str) -> str:
    memory = call.place.memory
    mounted = [memory.definitions[slug] for slug in call.slugs]
    return append_to(call.inputs.get("system", system), working_memory(mounted, memory.values))


def _messages(call: Call) -> tuple[Said, ...]:
    if call.inputs.get("input_mode") != "history":
        return (Said("user", _prompt(call)),)
    if call.place.thread is None:
        raise UsageError(
            f"the task {quote(call.task)} reads a conversation, and this run is in none",
            hint="Run the workflow in a thread, or use `input_mode: prompt`",
            task=call.task,
        )
    said = call.place.history(_whole(call.inputs, "messages_limit") or MESSAGES)
    if not said:
        raise UsageError(
            f"the task {quote(call.task)} reads a conversation in which nothing was said yet",
            hint="Use `input_mode: prompt` for what comes before the first message",
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
    # To JSON schema, 3.0 is a whole number too.
    return int(given[name]) if name in given else None


def _seconds(settings: Mapping[str, Any]) -> float:
    # 0 switches the time limit of a task off; a model that never replies is given up all the same.
    return settings.get("timeout_ms", 0) / 1_000 or REPLY_SECONDS


def _require(model: Model, answer: Answer) -> None:
    """Raise what is wrong where the model wanted one more tool instead of answering."""
    if not answer.finished:
        raise ModelFailed(
            f"the model {quote(model.name)} asked for tools in each of its {answer.steps} steps and gave no answer",
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
