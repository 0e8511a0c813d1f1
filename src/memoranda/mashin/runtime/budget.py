"""What a run may use in, a refusal out where it would use more; shared with the machines that it calls."""

from __future__ import annotations

from collections.abc import Mapping

from memoranda.mashin.behaviour import Budget
from memoranda.mashin.runtime.failures import Failed, failed

_NAMED = {
    "steps": "steps",
    "model_calls": "requests to models",
    "tokens": "tokens",
    "writes": "writes to memory",
    "machine_calls": "calls of machines",
}
_NOTHING = (0,) * len(_NAMED)


class Spending:
    """What a run has used of its budget."""

    __slots__ = ("budget", "flows", "machine_calls", "machines", "model_calls", "steps", "tokens", "writes")

    def __init__(self, budget: Budget, before: Mapping[str, int] | None = None) -> None:
        """Begin with nothing used, or with what those used that called the run."""
        self.budget = budget
        self.steps = 0
        self.model_calls = 0
        self.tokens = 0
        self.writes = 0
        self.machine_calls = 0
        self.flows = 0
        """Flows that run inside one another now."""
        self.machines = 0
        """Machines that run inside one another now."""
        self.add(before or {})

    def step(self, step: str) -> None:
        """Count a step that is taken; every other limit is asked for by name."""
        self.steps += 1
        most = self.budget.steps
        if most is not None and self.steps > most:
            raise _exceeded("steps", most, step)

    def over(self, what: str, step: str) -> Failed | None:
        """Return why one more of something cannot be had; count it otherwise."""
        most: int | None = getattr(self.budget, what)
        used: int = getattr(self, what)
        if most is not None and used >= most:
            return _exceeded(what, most, step)
        setattr(self, what, used + 1)
        return None

    def used(self) -> tuple[int, ...]:
        """Return what was used so far, in the order of the budget."""
        return self.steps, self.model_calls, self.tokens, self.writes, self.machine_calls

    def since(self, before: tuple[int, ...] = _NOTHING) -> dict[str, int]:
        """Return what was used since then, or in all, by name."""
        used = self.used()
        if used == before:
            return {}
        return {name: now - then for name, then, now in zip(_NAMED, before, used, strict=True) if now != then}

    def add(self, spent: Mapping[str, int]) -> None:
        """Count what was used elsewhere: by an effect when it happened, or by another run."""
        for name, amount in spent.items():
            setattr(self, name, getattr(self, name) + amount)

    def out_of_tokens(self, step: str) -> Failed | None:
        """Return why no model can be asked any more, once all tokens are used."""
        most = self.budget.tokens
        return _exceeded("tokens", most, step) if most is not None and self.tokens >= most else None


def _exceeded(what: str, most: int, step: str) -> Failed:
    message = f"the run may use {most:,} {_NAMED[what]}, and this would be one more"
    return failed(
        "budget_exceeded", message, step, hint=f"Give the run a larger Budget({what}=…)", limit=most, what=what
    )
