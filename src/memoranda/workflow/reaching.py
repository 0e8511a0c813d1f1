"""What a workflow was equipped with in; the models it asks, and the workflows it calls, out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.agent.connecting import connect
from memoranda.agent.models import Model
from memoranda.errors import ModelUnavailable, NotFound
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.egress import LOCAL_EGRESS, EgressPolicy
from memoranda.model.text import quote
from memoranda.workflow.actions.base import Action
from memoranda.workflow.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.workflow.runtime.plan import ModelChoice
from memoranda.workflow.runtime.strand import Stop
from memoranda.workflow.runtime.work import Called, Work

if TYPE_CHECKING:
    from memoranda.workflow.run import Run
    from memoranda.workflow.workflow import Workflow


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What a workflow is equipped with beside its text."""

    actions: Mapping[str, Action] = {}
    """Those of the program, beside the ones that are built in or installed."""
    servers: Mapping[str, tuple[Action, ...]] = {}
    model: Model | None = None
    """Who is asked in place of the models that the text names."""
    credentials: Mapping[str, str] = {}
    behaviour: Behaviour = DEFAULT_BEHAVIOUR
    egress: EgressPolicy = LOCAL_EGRESS
    """Where requests may go."""
    kept_text: bool | None = None
    """Whether texts from the store run; None where only the program that opened it may run them."""

    def __repr__(self) -> str:
        """Return nothing of what it holds: keys are among it."""
        return f"<Kit with {len(self.actions)} actions and {len(self.credentials)} credentials>"


class Reaching:
    """What the runs of one workflow can reach beside memory."""

    def __init__(self, workflow: Workflow, kit: Kit) -> None:
        """Stand beside a workflow."""
        self._workflow = workflow
        self._kit = kit
        self._models: dict[ModelChoice, Model] = {}
        self._lock = Lock()

    def model(self, choice: ModelChoice | None) -> Model | None:
        """Return the model of a choice, connected once; the one that was passed for all, where there is one."""
        if self._kit.model is not None or choice is None:
            return self._kit.model
        with self._lock:
            if choice not in self._models:
                self._models[choice] = connect(
                    choice.name,
                    base_url=choice.base_url,
                    api_key=self._key(choice),
                    organization=choice.organization,
                )
            return self._models[choice]

    def _key(self, choice: ModelChoice) -> str | None:
        name = choice.credential
        if name is None:
            return None
        key = self._kit.credentials.get(name)
        # To an address that a file names, nothing of the environment is sent: the file may be somebody else's.
        if key is None and choice.base_url is None:
            key = os.environ.get(name)
        if not key:
            elsewhere = "" if choice.base_url is not None else f"Set {name} in the environment, or pass "
            raise ModelUnavailable(
                f"the model {quote(choice.name)} needs the credential {quote(name)}, and nothing gives it",
                hint=f"{elsewhere or 'Pass '}load(credentials={{'{name}': …}})",
                model=choice.name,
            )
        return key

    @property
    def egress(self) -> EgressPolicy:
        """Where requests may go."""
        return self._kit.egress

    def call(self, name: str, input: Mapping[str, Any], by: Work, stop: Stop) -> Called:
        """Run another workflow for the same owner."""
        others = self._workflow.others
        if name not in others:
            known = f"Pass it as load(workflows=[…]); known: {', '.join(sorted(others))}"
            raise NotFound(
                f"there is no workflow {quote(name)} here", hint=did_you_mean(name, others, otherwise=known), value=name
            )
        return _called(others[name].called(input, by, stop))

    def take_up(self, run: str) -> Called:
        """Go on with a workflow that was called and waited."""
        found = self._workflow.find_called(run)
        return _called(found.resume() if found.status == "waiting" else found)

    def give_up(self, run: str) -> None:
        """Cancel a workflow that was called and waits."""
        self._workflow.find_called(run, verified=False).cancel(reason="what called it cannot wait")


def _called(run: Run) -> Called:
    return Called(
        run=run.id,
        # One that somebody else goes on with is waited for all the same.
        status="waiting" if run.status == "running" else run.status,
        output=run.output,
        message=run.error.message if run.error else "",
        messages=tuple(run.messages),
    )
