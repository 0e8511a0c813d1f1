"""The tree of an expression in; out what can be told without evaluating all of it.

Most expressions are a path, `$name.field.field`, and most loops that gather only add to their `$accumulator`.
"""

from __future__ import annotations

from typing import Any, cast

from memoranda.workflow.library import NULL

NOT_DIRECT: Any = object()
"""What following gives where a list is in the way: it is read item by item, which is the library's business."""


def direct_path(tree: Any) -> tuple[str, ...] | None:
    """Return the variable and the fields of a tree that says nothing else; None for any other tree."""
    steps = tree.steps if tree.type == "path" else [tree]
    first = steps[0]
    if first.type != "variable" or first.value in (None, "", "$"):
        return None
    if any(step.type != "name" for step in steps[1:]) or tree.keep_singleton_array:
        return None
    for step in (tree, *steps):
        parts = (step.predicate, step.stages, step.group, step.focus, step.index, step.ancestor, step.tuple)
        if step.keep_array or any(part is not None for part in parts):
            return None
    return tuple(str(step.value) for step in steps)


def added_part(tree: Any, variable: str) -> Any | None:
    """Return the tree of what is added in `$append($variable, …)` and `[$variable, …]`; None for any other tree."""
    if any(part is not None for part in (tree.predicate, tree.stages, tree.group)) or tree.keep_array:
        return None
    if tree.type == "function" and (tree.procedure.type, tree.procedure.value) == ("variable", "append"):
        parts = tree.arguments
    elif tree.type == "unary" and tree.value == "[":
        parts = tree.expressions
    else:
        return None
    if len(parts) != 2 or direct_path(parts[0]) != (variable,):
        return None
    # A list that is written inside of a list stays one item of it.
    return parts[1] if tree.type == "function" or parts[1].value != "[" else None


def follow(found: Any, fields: tuple[str, ...]) -> Any:
    """Return what a value holds at the end of some fields; None for nothing, and the library's null for null."""
    for field in fields:
        if type(found) is not dict:
            return NOT_DIRECT if isinstance(found, list) else None
        items = cast("dict[str, Any]", found)
        if field not in items:
            return None
        found = items[field]
    return NULL if found is None else found
