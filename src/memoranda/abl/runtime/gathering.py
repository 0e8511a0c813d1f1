"""GATHER: the user's words in, values of fields out; questions for those that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from memoranda.abl.runtime.listening import find_values
from memoranda.abl.runtime.plan import AGAIN, FieldPlan, Signal
from memoranda.abl.runtime.recalling import recall
from memoranda.abl.runtime.state import Wait
from memoranda.abl.runtime.work import Work
from memoranda.abl.understanding.corrections import corrections, may_correct
from memoranda.abl.understanding.validation import validate
from memoranda.lang.expression.compiler import Layer
from memoranda.lang.expression.program import Expression
from memoranda.lang.template import CompiledTemplate


class Gathering:
    """A compiled GATHER: it asks until it has what it needs."""

    waits: ClassVar[Wait] = "gather"
    __slots__ = ("_conditional", "complete_when", "corrections", "fields", "presents", "strategy")

    def __init__(
        self,
        fields: tuple[FieldPlan, ...],
        *,
        complete_when: Expression | None,
        corrections: bool,
        presents: tuple[CompiledTemplate, ...],
        strategy: str,
    ) -> None:
        """Know the fields, when they are enough, and what is shown before the first question."""
        self.fields = fields
        self.complete_when = complete_when
        self.corrections = corrections
        self.presents = presents
        self.strategy = strategy
        self._conditional = any(field.active_when is not None for field in fields)

    def __call__(self, work: Work) -> Signal:
        """Go on when everything is there; else ask for what is missing and wait."""
        state = work.frame.state
        if state.wait != "gather":
            # Reached by the flow, not by an answer: nothing was asked yet.
            state.asked, state.presented = None, False
            if work.fresh:
                self.take(work)
        state.wait = ""
        missing = self.missing(work)
        if self._enough(work, missing):
            self._fill_defaults(work)
            state.asked, state.again = None, []
            work.frame.names["all_fields_gathered"] = True
            return None
        self._ask(work, missing)
        work.wait("gather")
        return AGAIN

    def take(self, work: Work) -> bool:
        """Take the values that the user's words give; say whether there were any."""
        state, names = work.frame.state, work.frame.names
        wanted = [field for field in self._active(work) if names.get(field.name) is None or field.name in state.again]
        wanted = wanted or self._unfinished(work)
        corrected = self._correct(work) if self.corrections else {}
        # Words that correct one answer are not the whole of another.
        asked = None if corrected else state.asked
        found = {**find_values(work, wanted, asked, self.strategy), **corrected}
        taken = keep_values(work, self.fields, found)
        if taken or state.asked is not None:
            work.fresh = False
            work.answered = state.step
        state.again = [name for name in state.again if name not in taken]
        return bool(taken)

    def _correct(self, work: Work) -> dict[str, Any]:
        """Return other values for fields that are there, as the user's words say; what hangs on them is forgotten."""
        if not may_correct(work.text):
            return {}
        names = work.frame.names
        there = [field.wanted for field in self.fields if names.get(field.name) is not None]
        asked = [field for field in self.fields if field.name == work.frame.state.asked]
        missing = next((field.wanted for field in asked if names.get(field.name) is None), None)
        found = corrections(work.text, there, now=work.run.clock.now(), missing=missing)
        changed = {name: value for name, value in found.items() if value != names.get(name)}
        for name, value in changed.items():
            self._forget_dependents(work, name)
            work.note("corrected", name, to=value)
        return changed

    def missing(self, work: Work) -> list[FieldPlan]:
        """Return the fields that are still to be asked for, in order."""
        names, again = work.frame.names, work.frame.state.again
        missing = [
            field
            for field in self._active(work)
            if (names.get(field.name) is None or field.name in again)
            and field.required
            and field.asks
            and (field.default is None or work.value(field.default) is None)
            and all(work.frame.value_at(other, work.run) is not None for other in field.depends_on)
        ]
        return missing or [field for field in self._unfinished(work) if field.asks]

    def _unfinished(self, work: Work) -> Sequence[FieldPlan]:
        """Return the fields to ask for when all have a value and it is still not enough: those that count as false.

        A counter that begins with 0 is such a field: it has a value, and nobody has given it.
        """
        if self.complete_when is None or work.test(self.complete_when):
            return []
        fields = self._active(work)
        return [field for field in fields if not work.frame.names.get(field.name)] or fields

    def _active(self, work: Work) -> Sequence[FieldPlan]:
        if not self._conditional:
            return self.fields
        return [field for field in self.fields if field.active_when is None or work.test(field.active_when)]

    def _enough(self, work: Work, missing: list[FieldPlan]) -> bool:
        if work.frame.state.again:
            return False
        if self.complete_when is not None:
            return work.test(self.complete_when)
        return not missing

    def _fill_defaults(self, work: Work) -> None:
        for field in self._active(work):
            if field.default is not None and work.frame.names.get(field.name) is None:
                work.assign(field.name, work.value(field.default))

    def _forget_dependents(self, work: Work, name: str) -> None:
        for field in self.fields:
            if name in field.depends_on and work.frame.names.get(field.name) is not None:
                work.clear(field.name)
                work.note("cleared", field.name, because=name)
                self._forget_dependents(work, field.name)

    def _ask(self, work: Work, missing: list[FieldPlan]) -> None:
        state = work.frame.state
        if not state.presented:
            for template in self.presents:
                work.say(work.render(template))
            state.presented = True
        state.asked = missing[0].name if missing else None
        if missing and not work.reasked:
            work.say(question(work, missing[0]))
            work.note("asked", missing[0].name)
        work.reasked = False


def question(work: Work, field: FieldPlan) -> str:
    """Return the question for a field: its own, or a plain one."""
    if field.prompt is not None:
        return work.render(field.prompt)
    words = field.name.replace("_", " ")
    if field.wanted.options:
        return f"What is the {words}? ({', '.join(field.wanted.options)})"
    return f"What is the {words}?"


def keep_values(work: Work, fields: Iterable[FieldPlan], found: dict[str, Any]) -> list[str]:
    """Assign the values that fit their fields; say what is wrong with the others. Return the names that were kept."""
    taken: list[str] = []
    names = work.frame.names
    for field in fields:
        if field.name not in found:
            continue
        value = found[field.name]
        fault = fault_of(work, field, value)
        if fault:
            names["_validation_retries"] = (names.get("_validation_retries") or 0) + 1
            work.note("invalid", field.name, why=fault)
            work.say(fault)
            continue
        work.assign(field.name, value)
        work.note("gathered", field.name, value=value)
        taken.append(field.name)
    work.taken.extend(taken)
    for name in taken:
        recall(work, f"entity:{name}:extracted", "entity:*:extracted")
    return taken


def fault_of(work: Work, field: FieldPlan, value: Any) -> str:
    """Return what is wrong with a value for its field, as the user is told; nothing when it is fine."""
    fault = validate(value, field.rules, now=work.run.clock.now()) if field.rules else None
    if fault:
        return fault
    if field.validation is not None:
        layer = Layer({field.name: value, "value": value}, work.frame.names)
        if not work.test(field.validation, layer):
            return f"That cannot be the {field.name.replace('_', ' ')}."
    return ""
