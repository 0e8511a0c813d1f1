"""Settings from flags, environment variables, a file and defaults, each with its origin."""

from __future__ import annotations

import dataclasses
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from memoranda.errors import UsageError
from memoranda.model.environment import check_old_names
from memoranda.model.text import quote
from memoranda.server.settings import SECRETS
from memoranda.server.settings import Settings as ServerSettings
from memoranda.store.sql.errors import without_secrets

Origin = Literal["flag", "environment", "file", "default"]

_FILE = "MEMORANDA_CONFIG"
_SERVER: dict[str, Any] = {one.name: one.default for one in dataclasses.fields(ServerSettings)}
_DEFAULTS: dict[str, Any] = {
    "db": _SERVER["db"],
    "tenant": "default",
    "embedder": _SERVER["embedder"],
    "durability": _SERVER["durability"],
    "ledger": _SERVER["ledger"],
    "busy_timeout": _SERVER["busy_timeout"],
    "read_from": _SERVER["read_from"],
    "statement_timeout": _SERVER["statement_timeout"],
}
"""Defaults of the settings of all commands."""
_SERVER_ONLY = {name: default for name, default in _SERVER.items() if name not in _DEFAULTS}
"""Defaults of the settings of the server alone."""

VARIABLES = {name: f"MEMORANDA_{name.upper()}" for name in (*_DEFAULTS, *_SERVER_ONLY)} | {"config": _FILE}
"""The environment variable of each setting."""

_CHOICES: dict[str, tuple[Any, ...]] = {
    name: get_args(hint) for name, hint in get_type_hints(ServerSettings).items() if get_origin(hint) is Literal
}
"""The choices of settings that have some."""
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_LONGEST_WAIT = 86_400


@dataclass(frozen=True)
class Setting:
    """One setting: its value and origin."""

    name: str
    value: Any
    origin: Origin

    @property
    def variable(self) -> str:
        """The environment variable of this setting."""
        return VARIABLES[self.name]

    @property
    def shown(self) -> Any:
        """The value for printing: a secret is hidden, and so is the password in a URL."""
        if self.name == "db":
            return without_secrets(self.value)
        return "(set)" if self.name in SECRETS and self.value else self.value


@dataclass(frozen=True)
class Settings:
    """The current settings."""

    all: tuple[Setting, ...]

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting."""
        return next(setting.value for setting in self.all if setting.name == name)

    @property
    def file(self) -> str | None:
        """The path of the database file; None if the database is not a file."""
        scheme, colons, rest = str(self["db"]).partition("://")
        path = scheme if not colons else rest.removeprefix("/") if scheme == "sqlite" else ""
        return path if path not in ("", ":memory:") else None


def resolve(*, db: str | None = None, tenant: str | None = None, embedder: str | None = None) -> Settings:
    """Resolve the settings: flags override the environment, which overrides the file, which overrides the defaults."""
    return _resolve(_DEFAULTS, {"db": db, "tenant": tenant, "embedder": embedder}, None)


def resolve_all(settings: Settings, *, config: str | None = None, **flags: Any) -> Settings:
    """Resolve all settings, including those of the server."""
    # The flags are known by now; the file is read again, because --config may name another.
    given = {one.name: one.value for one in settings.all if one.origin == "flag"}
    return _resolve(_DEFAULTS | _SERVER_ONLY, given | flags, config)


def resolve_server(settings: Settings, *, config: str | None = None, **flags: Any) -> ServerSettings:
    """Resolve the settings of the server."""
    resolved = resolve_all(settings, config=config, **flags)
    return ServerSettings(**{one.name: one.value for one in resolved.all if one.name in _SERVER})


def _resolve(defaults: Mapping[str, Any], flags: Mapping[str, Any], config: str | None) -> Settings:
    check_old_names()
    file = _read_file(config or os.environ.get(_FILE))
    return Settings(
        tuple(_resolve_one(name, default, flags.get(name), file, os.environ) for name, default in defaults.items())
    )


def _resolve_one(
    name: str, default: Any, flag: Any, file: Mapping[str, Any], environment: Mapping[str, str]
) -> Setting:
    if flag is not None:
        value, origin, place = flag, "flag", f"--{name}"
    elif environment.get(VARIABLES[name]):
        place = VARIABLES[name]
        value, origin = _parse(name, environment[place], default), "environment"
    elif name in file:
        place = "the settings file"
        value, origin = _check_type(name, file[name], default), "file"
    else:
        return Setting(name, default, "default")
    if name == "db" and value == "":
        raise UsageError(f"{place} is empty", hint="Name a database, such as --db memory.db")
    choices = _CHOICES.get(name)
    if choices and value not in choices:
        raise UsageError(
            f"`{value}` in {place} is not a choice", hint=f"Set it to {' or '.join(filter(None, choices))}"
        )
    if name == "busy_timeout" and not 0 <= value <= _LONGEST_WAIT:
        raise _no_seconds(value)
    return Setting(name, value, origin)


def _parse(name: str, text: str, default: Any) -> Any:
    """Parse an environment variable, in the type of the default."""
    if isinstance(default, bool):
        if text.lower() not in (*_TRUE, *_FALSE):
            raise UsageError(f"`{text}` in {VARIABLES[name]} is neither true nor false", hint="Set it to true or false")
        return text.lower() in _TRUE
    if isinstance(default, int | float):
        try:
            number = type(default)(text)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise _no_seconds(text) if name == "busy_timeout" else _no_number(name, text)
        return number
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _check_type(name: str, value: Any, default: Any) -> Any:
    """Return a value of the file; raise `UsageError` if its type is wrong."""
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if isinstance(default, tuple):
        texts = cast("list[object]", value) if isinstance(value, list) else [None]
        fits = all(isinstance(text, str) for text in texts)
        value = tuple(texts)
    else:
        fits = type(value) is type(default)
    if not fits:
        kinds: dict[type, str] = {
            bool: "true or false",
            int: "a whole number",
            float: "a number",
            str: "text",
            tuple: "a list of texts",
        }
        raise UsageError(
            f"`{name}` in the settings file has the wrong type",
            hint=f"Set it to {kinds[type(cast('object', default))]}",
        )
    return value


def _read_file(path: str | None) -> dict[str, Any]:
    if not path:
        return {}
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise UsageError(
            f"the settings file {quote(path)} cannot be read: {error.strerror}",
            hint=f"Name another with --config or {_FILE}",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the settings file {quote(path)} is not TOML: {error}", hint="Write name = value") from error
    for name in values:
        if name not in _DEFAULTS and name not in _SERVER_ONLY:
            near = get_close_matches(name, VARIABLES, n=1)
            raise UsageError(
                f"{quote(name)} in {quote(path)} is not a setting",
                hint=f"Did you mean `{near[0]}`?" if near else "`memoranda config show` lists them",
            )
    return values


def _no_seconds(value: object) -> UsageError:
    return UsageError(
        f"`{value}` in {VARIABLES['busy_timeout']} is not a number of seconds",
        hint="Set it to the time that a write may wait for others, such as 5 or 0.5",
    )


def _no_number(name: str, text: str) -> UsageError:
    return UsageError(
        f"`{text}` in {VARIABLES[name]} is not a number", hint=f"Set it to a number, or unset it ({name})"
    )
