"""The packages that are installed in, the actions that they bring out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import msgspec

from memoranda.errors import UsageError
from memoranda.model.text import quote, words_of
from memoranda.workflow.actions.base import Action, actions_of

GROUP = "memoranda.actions"
"""The group of entry points; each names a marked function, an `Action`, or a module that has some."""


class _Found(msgspec.Struct, frozen=True):
    actions: dict[str, Action]
    broken: tuple[UsageError, ...]


def installed_actions(*, wanted: Iterable[str] = ()) -> dict[str, Action]:
    """Return the actions of installed packages, by name.

    A package that cannot be loaded is left out, so that it is nobody's trouble who does not need it: only where one of
    the `wanted` names is missing, the UsageError says which package that is and why.
    """
    found = _found()
    if found.broken and not found.actions.keys() >= set(wanted):
        raise found.broken[0]
    return dict(found.actions)


@cache
def _found() -> _Found:
    actions: dict[str, Action] = {}
    broken: list[UsageError] = []
    for point in sorted(entry_points(group=GROUP), key=lambda one: (_package(one), one.name)):
        try:
            actions |= _load(point, actions)
        except UsageError as error:
            broken.append(error)
    return _Found(actions, tuple(broken))


def _load(point: EntryPoint, known: dict[str, Action]) -> dict[str, Action]:
    try:
        given = actions_of([point.load()])
    # The package is somebody else's: its import can raise anything.
    except Exception as error:
        raise _refused(point, f"{type(error).__name__}: {quote(words_of(error), longest=200)}") from error
    for name in given:
        if name in known:
            raise _refused(point, f"another package has an action {quote(name)} too")
    return given


def _refused(point: EntryPoint, why: str) -> UsageError:
    return UsageError(
        f"the actions {quote(point.value)} of the package {quote(_package(point))} cannot be loaded: {why}",
        hint="Mend or remove that package",
        package=_package(point),
        value=point.value,
    )


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else ""
