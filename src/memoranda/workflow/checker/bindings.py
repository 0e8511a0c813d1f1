"""The bindings of all definitions in; names of nothing or of something else, circles, and wrong shapes out."""

from __future__ import annotations

from memoranda.lang.hints import few
from memoranda.model.text import quote
from memoranda.workflow.checker.outline import Outline
from memoranda.workflow.document import Binding, Definition, Text
from memoranda.workflow.keywords import BINDINGS, UPDATE_MEMORY


def check_bindings(whole: Outline) -> None:
    """Check what each definition names as its model, memories and tools."""
    for one in whole.document.defs:
        for binding in one.bindings:
            _shape(whole, binding)
            _names(whole, binding)
        _supported(whole, one)
        _reserved(whole, one)
    _circles(whole)


def _shape(whole: Outline, binding: Binding) -> None:
    kind = binding.kind.text
    keyword = BINDINGS.find(kind)
    if keyword is None or not binding.names or keyword.many == binding.listed:
        return
    first = binding.names[0].text
    written = f"{kind}: [{first}]" if keyword.many else f"{kind}: {first}"
    what = "a list of names" if keyword.many else "one name, not a list"
    span = binding.names[0].span
    whole.notes.error("binding_shape", f"`{kind}` is {what}", span, binding.path, hint=f"Write `{written[:60]}`")


def _names(whole: Outline, binding: Binding) -> None:
    kind = binding.kind.text
    seen: set[str] = set()
    for name in binding.names:
        found = whole.defs.get(name.text)
        if name.text in seen:
            message = f"{quote(name.text, longest=40)} is declared a second time"
            whole.notes.error("duplicate", message, name.span, name.path, hint="Keep one of them")
        elif found is None:
            _unknown(whole, name, kind)
        elif found.kind is not None and found.kind.text != kind:
            message = f"{quote(name.text, longest=40)} is of the kind `{found.kind.text}`, not `{kind}`"
            hint = whole.hints.meant(name.text, whole.kinds.get(kind, []), otherwise=_listed(whole, kind))
            whole.notes.error("wrong_kind", message, name.span, name.path, hint=hint)
        seen.add(name.text)


def _unknown(whole: Outline, name: Text, kind: str) -> None:
    hint = whole.hints.meant(name.text, whole.kinds.get(kind, []), otherwise=_listed(whole, kind))
    message = f"there is no definition {quote(name.text, longest=40)}"
    whole.notes.error("unknown_definition", message, name.span, name.path, hint=hint)


def _listed(whole: Outline, kind: str) -> str:
    known = few(whole.kinds.get(kind, []))
    return f"Of this kind: {known}" if known else f"Define it with `kind: {kind}`"


def _supported(whole: Outline, one: Definition) -> None:
    action = whole.actions.get(one.action.text) if one.action is not None else None
    if action is None:
        return
    for binding in one.bindings:
        if binding.kind.text not in action.bindings:
            message = f"`{action.name}` does not use `{binding.kind.text}`"
            known = few(word for word in BINDINGS.names if word in action.bindings)
            hint = f"It uses {known}" if known else "Remove it; the action takes what it needs from its inputs"
            whole.notes.error("unsupported_binding", message, binding.kind.span, binding.path, hint=hint)


def _reserved(whole: Outline, one: Definition) -> None:
    named = {binding.kind.text: binding.names for binding in one.bindings}
    if not named.get("memory"):
        return
    name = next((name for name in named.get("tools", ()) if name.text == UPDATE_MEMORY), None)
    if name is not None:
        message = f"beside a memory, `{UPDATE_MEMORY}` is the tool that changes it"
        whole.notes.error("reserved_tool", message, name.span, name.path, hint="Give your tool another name")


def _circles(whole: Outline) -> None:
    """Note each circle of definitions that use one another, once, where it closes."""
    done: set[str] = set()
    for start in whole.defs:
        # A definition and what is left to look at of its names; deep circles need no deep stack.
        stack = [(start, iter(_bound(whole, start)))] if start not in done else []
        trail = [start]
        while stack:
            name, left = stack[-1]
            reference = next(left, None)
            if reference is None:
                stack.pop()
                trail.pop()
                done.add(name)
            elif reference.text in trail:
                circle = [*trail[trail.index(reference.text) :], reference.text]
                message = f"these definitions use one another in a circle: {few(circle)}"
                hint = "Remove one of the bindings"
                whole.notes.error("circular_binding", message, reference.span, reference.path, hint=hint)
            elif reference.text not in done and reference.text in whole.defs:
                stack.append((reference.text, iter(_bound(whole, reference.text))))
                trail.append(reference.text)


def _bound(whole: Outline, name: str) -> list[Text]:
    return [reference for binding in whole.defs[name].bindings for reference in binding.names]
