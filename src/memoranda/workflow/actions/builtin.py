"""The built-in actions that need no model and no network, the table of all, and those of installed packages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

import msgspec

from memoranda.errors import ActionFailed, UsageError
from memoranda.model.clock import LONGEST_DURATION
from memoranda.model.text import quote, words_of
from memoranda.workflow.actions import ai, http
from memoranda.workflow.actions.base import NO_SETTINGS, Action, Call, action, actions_of, object_schema
from memoranda.workflow.keywords import UPDATE_MEMORY

_INPUTS = {
    "workflow": {"type": "string", "minLength": 1, "description": "The name of the workflow."},
    "inputs": {"type": "object", "description": "Its input; the input of this run where it is left out."},
}


@action("call_workflow", inputs=object_schema(_INPUTS, required=["workflow"]), settings=NO_SETTINGS)
def call_workflow(call: Call) -> Any:
    """Run another workflow for the same owner, and wait for it.

    It is a run of its own, with its own memory of that run. Gives its output.
    """
    given: dict[str, Any] = call.inputs.get("inputs", call.place.input)
    return call.place.call_workflow(call.inputs["workflow"], given)


_VALUES = {"type": "object", "description": "The values by name; `$context.memory` is not among them."}


@action("set_context", inputs=object_schema({"values": _VALUES}, required=["values"]), settings=NO_SETTINGS)
def set_context(call: Call) -> dict[str, Any]:
    """Put values into `$context`, for the tasks that follow.

    A value that is there already is replaced. Gives the values.
    """
    values: dict[str, Any] = call.inputs["values"]
    call.place.set_context(values)
    return values


_MEMORY = {
    "type": "object",
    "description": "The new value of each record, by the slug of its memory definition.",
    "propertyNames": {"pattern": "^[a-z0-9_]+$"},
}


@action(UPDATE_MEMORY, inputs=object_schema({"memory": _MEMORY}, required=["memory"]), settings=NO_SETTINGS)
def update_memory(call: Call) -> dict[str, Any]:
    """Write records of memory, all of them or none.

    Global definitions are known to every workflow; others are named in `defs`, with `kind: memory`. Gives
    `{memory: {slug: value}}`: what each record holds now, and `{}` where there was nothing to write.
    """
    stored = call.place.memory.write(call.inputs["memory"])
    return {"memory": stored} if stored else {}


_TEXT = {"type": "string", "minLength": 1, "description": "What is said."}


@action("send_text_message", inputs=object_schema({"text": _TEXT}, required=["text"]), settings=NO_SETTINGS)
def send_text_message(call: Call) -> dict[str, Any]:
    """Say something to the owner of the run; in a thread it becomes part of the conversation.

    Gives `{text}`: what was said.
    """
    text: str = call.inputs["text"]
    call.place.send(text)
    return {"text": text}


REPLY = "reply"
"""The event that `wait_for_reply` waits for, as in `run.waiting.event`."""
_TIMEOUT = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": LONGEST_DURATION,
    "description": "Seconds after which the run continues without a reply; without it, the run waits indefinitely.",
}


@action("wait_for_reply", inputs=object_schema({"timeout": _TIMEOUT}), settings=NO_SETTINGS)
def wait_for_reply(call: Call) -> dict[str, Any]:
    """Wait until the owner of the run says something; in a thread it becomes part of the conversation.

    The run is suspended until then. Gives `{text}`: the reply, or `{timed_out: true}`.
    """
    reply = call.place.wait(REPLY, timeout=call.inputs.get("timeout"))
    return {"timed_out": True} if reply is None else {"text": _reply_text(call, reply)}


def _reply_text(call: Call, reply: Any) -> str:
    """Return the text of a delivery, which is a string or an object with `text`."""
    text = cast("dict[str, Any]", reply).get("text") if isinstance(reply, dict) else reply
    if isinstance(text, str):
        return text
    raise ActionFailed(
        f"the task {quote(call.task)} waits for a text, but something else was delivered",
        hint='Deliver "…" or {"text": "…"}',
        type="unreadable",
        task=call.task,
        action="wait_for_reply",
        retryable=False,
    )


GROUP = "memoranda.actions"
"""The entry point group; each entry names a marked function, an `Action`, or a module that contains some."""


class _Installed(msgspec.Struct, frozen=True):
    actions: dict[str, Action]
    broken: tuple[UsageError, ...]


def installed_actions(*, wanted: Iterable[str] = ()) -> dict[str, Action]:
    """Return the actions of installed packages, by name.

    A package that cannot be loaded is left out, so that it affects only workflows that need it: if one of the `wanted`
    names is missing, a UsageError says which package failed and why.
    """
    found = _load_installed()
    if found.broken and not found.actions.keys() >= set(wanted):
        raise found.broken[0]
    return dict(found.actions)


@cache
def _load_installed() -> _Installed:
    actions: dict[str, Action] = {}
    broken: list[UsageError] = []
    for point in sorted(entry_points(group=GROUP), key=lambda one: (_package(one), one.name)):
        try:
            actions |= _load_entry_point(point, actions)
        except UsageError as error:
            broken.append(error)
    return _Installed(actions, tuple(broken))


def _load_entry_point(point: EntryPoint, known: dict[str, Action]) -> dict[str, Action]:
    try:
        given = actions_of([point.load()])
    # Third-party code: its import can raise anything.
    except Exception as error:
        raise _load_error(point, f"{type(error).__name__}: {quote(words_of(error), longest=200)}") from error
    for name in given:
        if name in known:
            raise _load_error(point, f"another package also has an action {quote(name)}")
    return given


def _load_error(point: EntryPoint, why: str) -> UsageError:
    return UsageError(
        f"the actions {quote(point.value)} of the package {quote(_package(point))} cannot be loaded: {why}",
        hint="Fix or remove that package",
        package=_package(point),
        value=point.value,
    )


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else ""


BUILTIN: dict[str, Action] = actions_of(
    (ai, update_memory, send_text_message, wait_for_reply, set_context, call_workflow, http)
)
"""Every action of a workflow that does not have to be registered."""
