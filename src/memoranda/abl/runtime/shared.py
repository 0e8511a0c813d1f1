"""Variables with `RESET: never`: they live as long as the process, for all sessions and users of an agent together."""

from __future__ import annotations

import threading
import weakref
from typing import Any

_MISSING: Any = object()
_values: weakref.WeakKeyDictionary[object, dict[tuple[str, ...], Any]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def keep_for_the_process(root: object, owner: tuple[str, ...], name: str, value: Any) -> None:
    """Give a variable a value that every session of its owner sees from its next turn on.

    `root` is what was opened, so that two databases share nothing; the owner is a tenant, a project and an agent.
    """
    with _lock:
        _values.setdefault(root, {})[(*owner, name)] = value


def kept_for_the_process(root: object, owner: tuple[str, ...], name: str) -> tuple[bool, Any]:
    """Return whether a variable was ever given a value in this process, and which."""
    with _lock:
        value = _values.get(root, {}).get((*owner, name), _MISSING)
    return (False, None) if value is _MISSING else (True, value)
