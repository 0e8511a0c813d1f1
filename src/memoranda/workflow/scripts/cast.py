"""What a test says of models and actions in; actions out that give just that, and everything else as it is.

An action of a test is the real one with another way to act: what it takes is still checked. No test reaches a server.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from memoranda.agent.models import Ask, Model, Reply, ToolCall
from memoranda.errors import ActionFailed, ModelFailed, ModelUnavailable
from memoranda.lang.diagnostics import Diagnostics, did_you_mean
from memoranda.model.text import quote
from memoranda.workflow.actions.base import Action, Call
from memoranda.workflow.actions.builtin import BUILTIN
from memoranda.workflow.actions.installed import installed_actions
from memoranda.workflow.document import Definition, Document
from memoranda.workflow.scripts.script import ANY, Acting, Answer, Script, Speaking, Spoken, Trouble

_OUTSIDE = frozenset({"http_request"})
"""Actions that would leave the machine."""
_RETRYABLE = frozenset({"timeout", "rate_limited", "silent", "unreachable"})
"""Why a model fails that may reply the next time."""


class Cast:
    """Who acts in one test: models that reply what it says, and actions that give what it says."""

    def __init__(self, script: Script, documents: Mapping[str, Document], *, model: Model | None) -> None:
        """Begin a test of some workflows, by name; `model` is asked where the test says nothing, None for nobody."""
        self._documents = documents
        self._answers = {one.name: _Answers(one) for one in script.actions}
        self._voices = {one.name: _Voice(one.name, one.replies) for one in script.models}
        self._model = model

    @property
    def model(self) -> Model:
        """Who is asked by what is no task of the workflows."""
        return self._model or self._voices.get(ANY) or _Voice(ANY, ())

    def actions(self, own: Mapping[str, Action]) -> list[Action]:
        """Return every action that the workflows use; one that only the test knows takes anything."""
        known = {**BUILTIN, **own}
        used = {one.action.text for document in self._documents.values() for one in document.defs if one.action}
        answered = {name for name in used - known.keys() if self._answers.keys() & {name, *self._tasks(name)}}
        if wanted := used - known.keys() - answered:
            known = {**installed_actions(wanted=wanted), **known}
        alone = {name: Action(name=name, act=_nobody) for name in answered}
        return [self.staged(one) for name, one in {**alone, **known}.items() if name in used]

    def staged(self, real: Action) -> Action:
        """Return an action that gives what the test says, or acts."""
        return msgspec.structs.replace(real, act=partial(self._act, real))

    def _act(self, real: Action, call: Call) -> Any:
        answers = self._answers.get(call.task) or self._answers.get(real.name)
        if answers is not None:
            return answers.give(real, call)
        if real.name in _OUTSIDE:
            raise ActionFailed(
                f"the task {quote(call.task)} would ask a server, and no test does",
                hint=f"Say below `actions` what {quote(call.task)} gives",
                type="error",
                task=call.task,
                action=real.name,
                retryable=False,
            )
        return real.act(self._with_voice(call))

    def _with_voice(self, call: Call) -> Call:
        document = self._documents.get(call.place.workflow)
        name = _bound_model(document.find(call.task) if document else None)
        if call.model is None or name is None:
            return call
        voice = self._voices.get(name) or self._voices.get(ANY) or self._model or _Voice(name, ())
        return msgspec.structs.replace(call, model=voice)

    def _tasks(self, action: str) -> set[str]:
        return {
            one.name.text
            for document in self._documents.values()
            for one in document.defs
            if one.action is not None and one.action.text == action
        }


def check_names(script: Script, documents: Iterable[Document], said: Diagnostics, tools: Iterable[str]) -> None:
    """Note what a test says of models and actions that no workflow has; `tools` are those of servers."""
    defs = [one for document in documents for one in document.defs]
    models = {one.name.text for one in defs if one.is_a("model")}
    acting = [one for one in defs if one.action is not None]
    actions = {one.name.text for one in acting} | {one.action.text for one in acting if one.action} | set(tools)
    _check(script.models, models | {ANY}, "model", said)
    _check(script.actions, actions, "task or action", said)


def _check(given: Iterable[Speaking | Acting], known: set[str], what: str, said: Diagnostics) -> None:
    for one in given:
        if one.name not in known:
            hint = did_you_mean(one.name, sorted(known), otherwise=f"There are {', '.join(sorted(known))}")
            said.error("unknown_name", f"the workflow has no {what} {quote(one.name)}", one.span, hint=hint)


def _bound_model(one: Definition | None) -> str | None:
    bindings = one.bindings if one is not None else ()
    names = (name.text for binding in bindings if binding.kind.text == "model" for name in binding.names)
    return next(names, None)


def _nobody(call: Call) -> Any:
    """Stand for an action that only a test knows, which never acts itself."""
    raise AssertionError(call.task)


class _Answers:
    """What a task gives, one answer after the other, and the last of them from then on."""

    def __init__(self, given: Acting) -> None:
        self._left = deque(given.answers)
        self._lock = threading.Lock()

    def give(self, real: Action, call: Call) -> Any:
        with self._lock:
            answer: Answer = self._left.popleft() if len(self._left) > 1 else self._left[0]
        if answer.error is not None:
            raise _failed(answer.error, real, call)
        return answer.value


def _failed(trouble: Trouble, real: Action, call: Call) -> ActionFailed:
    about: dict[str, Any] = {} if trouble.retryable is None else {"retryable": trouble.retryable}
    message = trouble.message or f"the task {quote(call.task)} fails in this test"
    return ActionFailed(message, type=trouble.type, task=call.task, action=real.name, **about)


class _Voice:
    """A model that replies what a test says, in order."""

    def __init__(self, name: str, replies: Iterable[Spoken]) -> None:
        self._called = name
        self._left = deque(replies)
        self._calls = 0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return f"test:{self._called}"

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        with self._lock:
            spoken = self._left.popleft() if self._left else None
            first = self._calls
            self._calls += len(spoken.calls) if spoken is not None else 0
        if spoken is None:
            raise ModelUnavailable(
                f"the model {quote(self._called)} is asked, and this test has no reply left for it",
                hint=f"Write what it replies below `models`, as `{self._called}: [first, second]`",
                model=self.name,
                retryable=False,
            )
        if spoken.error is not None:
            raise ModelFailed(
                f"the model {quote(self._called)} fails in this test: {spoken.error}",
                reason=spoken.error,
                retryable=spoken.error in _RETRYABLE,
                model=self.name,
            )
        calls = tuple(
            ToolCall(f"call_{number}", tool, arguments)
            for number, (tool, arguments) in enumerate(spoken.calls, first + 1)
        )
        return Reply(spoken.text, calls, spoken.value)
