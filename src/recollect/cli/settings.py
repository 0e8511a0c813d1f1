"""Flags and environment variables in; the settings in force, each with where it came from, out."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from recollect.errors import UsageError

Origin = Literal["flag", "environment", "default"]

VARIABLES = {
    "db": "RECOLLECT_DB",
    "tenant": "RECOLLECT_TENANT",
    "embedder": "RECOLLECT_EMBEDDER",
    "durability": "RECOLLECT_DURABILITY",
    "ledger": "RECOLLECT_LEDGER",
    "busy_timeout": "RECOLLECT_BUSY_TIMEOUT",
}
"""Each setting, and the environment variable that gives it."""

_DEFAULTS = {
    "db": "memory.db",
    "tenant": "default",
    "embedder": "wordllama",
    "durability": "full",
    "ledger": "writes",
    "busy_timeout": "5",
}
_CHOICES = {"durability": ("full", "normal"), "ledger": ("writes", "all")}


@dataclass(frozen=True)
class Setting:
    """One value in force, and who gave it."""

    name: str
    value: str | float
    origin: Origin

    @property
    def variable(self) -> str:
        """The environment variable that can give this setting."""
        return VARIABLES[self.name]


@dataclass(frozen=True)
class Settings:
    """Everything that `recollect.open` is called with."""

    all: tuple[Setting, ...]

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting."""
        return next(setting.value for setting in self.all if setting.name == name)

    @property
    def file(self) -> str | None:
        """The path of the database file; None when the database is not a file."""
        scheme, colons, rest = str(self["db"]).partition("://")
        path = scheme if not colons else rest.removeprefix("/") if scheme == "sqlite" else ""
        return path if path not in ("", ":memory:") else None


def resolve(*, db: str | None = None, tenant: str | None = None, embedder: str | None = None) -> Settings:
    """Return the settings in force: a flag beats the environment, which beats the default."""
    flags = {"db": db, "tenant": tenant, "embedder": embedder}
    return Settings(tuple(_resolve_one(name, flags.get(name), os.environ) for name in VARIABLES))


def _resolve_one(name: str, flag: str | None, environment: Mapping[str, str]) -> Setting:
    text, origin = _DEFAULTS[name], "default"
    if flag is not None:
        text, origin = flag, "flag"
    elif environment.get(VARIABLES[name]):
        text, origin = environment[VARIABLES[name]], "environment"
    choices = _CHOICES.get(name)
    if choices and text not in choices:
        raise UsageError(f"`{text}` in {VARIABLES[name]} is not a choice", hint=f"Set it to {' or '.join(choices)}")
    return Setting(name, _seconds(text) if name == "busy_timeout" else text, origin)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 86_400:
        raise UsageError(
            f"`{text}` in {VARIABLES['busy_timeout']} is not a number of seconds",
            hint="Set it to how long a write may wait for others, such as 5 or 0.5",
        )
    return seconds
