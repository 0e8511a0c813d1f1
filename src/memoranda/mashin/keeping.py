"""What a run of a machine began with, as it is kept."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR, Behaviour, Budget
from memoranda.model.duration import parse_duration
from memoranda.model.recall import Mode


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What the behaviour that a run began with decides about it, wherever it goes on."""

    without_namespace: Literal["all", "unnamed"]
    recall: Mode
    flows: int
    keep: int | None
    """Seconds."""

    def over(self, behaviour: Behaviour) -> Behaviour:
        """Return the behaviour of another process with these choices in it."""
        return msgspec.structs.replace(
            behaviour, without_namespace=self.without_namespace, recall=self.recall, flows=self.flows
        )


def chosen_of(behaviour: Behaviour) -> Chosen:
    """Return what is kept of a behaviour with each run."""
    return Chosen(
        without_namespace=behaviour.without_namespace,
        recall=behaviour.recall,
        flows=behaviour.flows,
        keep=None if behaviour.keep is None else parse_duration(behaviour.keep),
    )


class Begun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run began with, and what it has used."""

    input: dict[str, Any]
    context: dict[str, Any] = {}
    budget: Budget
    chosen: Chosen = chosen_of(DEFAULT_BEHAVIOUR)
    before: dict[str, int] = {}
    """What those that called it had used of the budget by then."""
    used: dict[str, int] = {}
    """What it has used itself, and those that it called."""


def begun_of(kept: Any) -> Begun:
    """Return what a run began with, of what was kept of it."""
    return msgspec.convert(kept, Begun)
