"""Definitions as they travel: what is created, what is changed, and a page of them."""

from __future__ import annotations

from typing import Any

import msgspec

from memoranda.model.definition import Definition as Definition
from memoranda.model.definition import Mode
from memoranda.wire.facts import Fact


class NewDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A definition to create."""

    name: str
    slug: str
    schema: dict[str, Any]
    scope: str = "global"
    ttl: str | int | None = None
    mode: Mode | None = None
    id: str | None = None


class ChangeDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to change; what is left out stays. A `ttl` of null makes future records permanent."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    slug: str | msgspec.UnsetType = msgspec.UNSET
    schema: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    scope: str | msgspec.UnsetType = msgspec.UNSET
    ttl: str | int | msgspec.UnsetType | None = msgspec.UNSET
    mode: Mode | msgspec.UnsetType = msgspec.UNSET


class Definitions(msgspec.Struct, frozen=True, kw_only=True):
    """A page of definitions, oldest first."""

    definitions: list[Definition]
    next: str | None = None


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """The active records of a definition, whoever owns them."""

    records: list[Fact]
    next: str | None = None
