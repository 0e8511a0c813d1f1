"""An event that a step waits for in; its payload, a pause, or the flow for when it is too late out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from memoranda.mashin.runtime.failures import Jumped, failed
from memoranda.mashin.runtime.governing import fitting, values_of
from memoranda.mashin.runtime.plan import WaitFor
from memoranda.mashin.runtime.work import Taking
from memoranda.model.duration import parse_duration
from memoranda.model.text import quote
from memoranda.runs.waiting import Paused, Waiting


def wait_for(taking: Taking, step: WaitFor) -> Any:
    """Wait for an event; the run is kept until it comes. When its time is over, another flow goes on in its place."""
    work = taking.work
    given = values_of(taking, step.config)
    event = taking.find("event")
    if event is None:
        if work.mode == "test":
            if step.name in work.assumed:
                assumed = work.assumed[step.name]
                return taking.keep(
                    "event", assumed if step.schema is None else fitting(taking, step.schema, assumed)
                ).value
            hint = f"Add `assuming {step.name} {{ … }}` to the test"
            raise failed("runtime", f"nothing is assumed of the event {quote(step.name)}", step.name, hint=hint)
        timeout = given.get("timeout")
        deadline = None if timeout is None else work.clock.now() + timedelta(seconds=parse_duration(timeout))
        about = {key: given[key] for key in ("channel", "callback") if key in given}
        raise Paused(
            Waiting(
                kind="event",
                step=step.name,
                time=taking.time,
                event=given.get("event"),
                deadline=deadline,
                about=about,
            )
        )
    if event.value is not None or not event.about.get("timeout"):
        return event.value
    taking.about["timeout"] = True
    if step.on_timeout is not None:
        raise Jumped(step.on_timeout)
    raise failed("timeout", f"nothing came for {quote(step.name)} in time", step.name)
