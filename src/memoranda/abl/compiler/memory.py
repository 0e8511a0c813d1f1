"""`remember` and `recall` in; triggers, and instructions by event, out."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from memoranda.abl.document import Remember
from memoranda.abl.runtime.plan import RecallPlan, TriggerPlan
from memoranda.abl.variables import Persistent
from memoranda.model.duration import parse_duration

if TYPE_CHECKING:
    from memoranda.abl.compiler.context import Compiler


def compile_triggers(to: Compiler) -> tuple[TriggerPlan, ...]:
    """Return the remember triggers, in the order of the file."""
    memory = to.document.memory
    seen: Counter[str] = Counter()
    return tuple(
        TriggerPlan(
            _identity(node, seen),
            to.expression(node.when),
            to.expression(node.value),
            *_target(to, node.target.text),
            parse_duration(node.ttl.text) if node.ttl else None,
            node.when.text,
        )
        for node in (memory.remember if memory else ())
    )


def _identity(node: Remember, seen: Counter[str]) -> str:
    """Return what tells a trigger from the others, however the file is edited around it: what it stores, and where."""
    stored = f"{node.value.text} -> {node.target.text}"
    seen[stored] += 1
    return hashlib.blake2b(f"{seen[stored]} {stored}".encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def compile_recalls(to: Compiler) -> dict[str, tuple[RecallPlan, ...]]:
    """Return the recall instructions by their event."""
    by_event: dict[str, list[RecallPlan]] = {}
    memory = to.document.memory
    for number, node in enumerate(memory.recall if memory else ()):
        plan = RecallPlan(
            number,
            node.on.text,
            node.does or "load_memory",
            to.text(node.instruction),
            tuple(_target(to, path.text)[0] for path in node.paths),
            node.domain.text if node.domain else None,
        )
        by_event.setdefault(node.on.text, []).append(plan)
    return {event: tuple(plans) for event, plans in by_event.items()}


def _target(to: Compiler, path: str) -> tuple[Persistent, tuple[str, ...]]:
    found = to.declarations.find(path)
    assert found is not None, path
    return found
