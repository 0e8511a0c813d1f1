"""Policies as values: capabilities, rules, access by path, quotas and grants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal, cast

import msgspec

from memoranda.errors import Hint, InvalidPolicy
from memoranda.model.clock import Duration, parse_duration
from memoranda.model.limits import check_count
from memoranda.model.names import check_key, lies_under
from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.text import quote

# Every capability and what it lets an actor do. A name covers those below it: `memory` covers `memory.read`.
CAPABILITIES = {
    "memory.read": "read facts, their history and lists; recall entries",
    "memory.write": "set, update and delete facts; remember and forget entries; start and end sessions",
    "memory.validate": "trust what others wrote as far as oneself",
    "memory.erase": "erase everything of a user or another subject",
    "memory.export": "export facts, entries and definitions",
    "memory.import": "import facts, entries and definitions",
    "collections.read": "see the collections and how much is in them",
    "collections.write": "re-embed and delete collections",
    "definitions.read": "read definitions",
    "definitions.write.create": "create definitions",
    "definitions.write.update": "change definitions; their records follow a changed slug",
    "definitions.write.delete": "delete definitions, and their records",
    "ledger.read": "read and verify the ledger",
    "permissions.read": "read grants",
    "permissions.write": "grant and revoke",
    "guard.read": "see what the guard does about what it finds",
    "guard.write": "change what the guard does about what it finds",
    "approvals.read": "see what waits for approval",
    "approvals.decide": "approve or refuse what others asked for",
    "runs.read": "see runs, their steps and events",
    "runs.write": "run machines",
    "upkeep": "sweep expired memory, look for damage, rewrite storage",
}

ROLE_CAPABILITY = "roles."
"""How the capability that gives an actor a role begins: `roles.support` is everything that this role allows."""
ROLE_ACTOR = "role:"
"""How the actor begins whose grants make up a role: `role:support`."""
EACH = "\x00"
"""As the key of a demand: each item of a list is decided by itself, so a rule about one does not decide them all."""

Level = Literal["allow", "approve", "deny"]
Access = Literal["read", "write", "readwrite", "none"]
LEVELS: tuple[Level, ...] = ("allow", "approve", "deny")
ACCESSES: tuple[Access, ...] = ("read", "write", "readwrite", "none")


def covers(granted: str, capability: str) -> bool:
    """Return whether a granted name covers a capability: itself, a parent of it, or `*`."""
    return granted == capability or granted == "*" or capability.startswith(f"{granted}.")


def _check_path(path: str) -> None:
    """Raise InvalidPolicy for a path that is written as a pattern: it would match only a key of that name."""
    if "*" in check_key(path).split("."):
        raise InvalidPolicy(
            f"the path {quote(path)} has a `*`, and paths are not patterns",
            hint="A path covers everything below it: write `profile`, not `profile.*`",
        )


def _lies_in(scope: Scope | None, place: Scope) -> bool:
    """Return whether a rule about a place is one about a scope: the shared scope is a place of its own.

    Everything lies below it, so a rule about what is shared would otherwise be one about every user.
    """
    return scope is not None and (place.covers(scope) if place.path else scope == place)


class Rule(msgspec.Struct, frozen=True):
    """One sentence of a policy: a level for a capability, everywhere or below a scope and a key.

    A rule about the shared scope is about that scope alone; one without a scope is about the whole tenant. With `own`,
    which only the rules of a role have, it is about the memory of the user who has the role.

    >>> rule = Rule("allow", "memory.read", Scope.of(user="ada"), "profile")
    >>> rule.matches("memory.read", Scope.of(user="ada"), "profile.language")
    True
    """

    level: Level
    capability: str
    scope: Scope | None = None
    path: str = ""
    own: bool = False

    def __post_init__(self) -> None:
        """Raise InvalidPolicy for an unknown level or capability: a rule that never matches protects nothing."""
        if self.level not in LEVELS:
            raise InvalidPolicy(f"{quote(self.level)} is not a level", hint=f"Levels are {', '.join(LEVELS)}")
        if self.role is not None:
            if self.level != "allow" or self.scope is not None or self.path or self.own:
                raise InvalidPolicy("a role is given as a whole", hint="Leave out the level, scope and path")
        elif not any(covers(self.capability, capability) for capability in CAPABILITIES):
            raise InvalidPolicy(
                f"{quote(self.capability)} is not a capability", hint=f"Capabilities are {', '.join(CAPABILITIES)}"
            )
        if self.own and self.scope is not None:
            raise InvalidPolicy("a rule about a user's own memory names no scope", hint="Leave out the scope, or `own`")
        if not isinstance(cast(object, self.scope), Scope | None):
            raise InvalidPolicy(f"{quote(self.scope)} is not a scope", hint=Hint("python", "Pass Scope.of(user=…)"))
        if self.path != "":
            _check_path(self.path)

    @property
    def role(self) -> str | None:
        """The role that it gives, if it gives one."""
        capability = cast(object, self.capability)
        if not isinstance(capability, str) or not capability.startswith(ROLE_CAPABILITY):
            return None
        return capability.removeprefix(ROLE_CAPABILITY)

    def matches(self, capability: str, scope: Scope | None, key: str | None) -> bool:
        """Return whether the rule applies to this capability at this place."""
        return covers(self.capability, capability) and self.reaches(scope, key)

    def reaches(self, scope: Scope | None, key: str | None) -> bool:
        """Return whether the rule applies to this place.

        A scope of None is the whole tenant. A denial below a key also hits an effect that names no key (a list, an
        erasure): it would pass over the denied place. An allowance below a key never covers such an effect.
        """
        wide = self.level != "allow"
        if self.own:
            return False  # a role's rule counts only where it was made one about a user's memory
        if self.scope is not None and not _lies_in(scope, self.scope):
            return wide and (scope is None or scope.covers(self.scope))
        if self.path and key == EACH:
            return not wide
        if self.path and not (key is not None and lies_under(key, self.path)):
            return wide and (key is None or lies_under(self.path, key))
        return True


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """How much one actor may write in one window of time.

    >>> Policy.of(allow=("memory",), quota=Quota(writes=100, per="1h")).quota.writes
    100
    """

    writes: int | None = None
    bytes: int | None = None
    per: Duration = "1h"

    def __post_init__(self) -> None:
        """Raise UsageError for invalid numbers and windows."""
        check_count("number of writes", self.writes)
        check_count("number of bytes", self.bytes)
        parse_duration(self.per)


class Policy(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What an actor may do. Nothing is allowed unless a rule says so, and a denial beats everything.

    `access` narrows keys further, as ABL's ACCESS does: the longest matching path decides, `*` is the rest.

    >>> policy = Policy.of(allow=("memory",), deny=("memory.erase",), access={"diary": "none"})
    >>> sorted(policy.levels("memory.erase", Scope.of(user="ada"), None))
    ['allow', 'deny']
    """

    rules: tuple[Rule, ...] = ()
    access: Mapping[str, Access] = {}
    quota: Quota | None = None

    def __post_init__(self) -> None:
        """Raise InvalidPolicy for an invalid rule, access, quota or path: it would protect nothing."""
        for rule in self.rules:
            if not isinstance(cast(object, rule), Rule):
                raise InvalidPolicy(
                    f"{quote(rule)} is not a rule", hint=Hint("python", 'Write Rule("allow", "memory.read")')
                )
        if not isinstance(cast(object, self.quota), Quota | None):
            raise InvalidPolicy(f"{quote(self.quota)} is not a quota", hint=Hint("python", "Write Quota(writes=100)"))
        for path, access in self.access.items():
            if path != "*":
                _check_path(path)
            if access not in ACCESSES:
                raise InvalidPolicy(
                    f"`{access}` for `{path}` is not an access", hint=f"Accesses are {', '.join(ACCESSES)}"
                )

    def levels(self, capability: str, scope: Scope | None, key: str | None) -> frozenset[Level]:
        """Return the levels that rules give a capability at a place."""
        return frozenset([rule.level for rule in self._rules_about(capability) if rule.reaches(scope, key)])

    def plainly_allows(self, capability: str, scope: Scope | None) -> bool:
        """Return whether a capability is allowed in a scope for every key, so that nothing else has to be checked."""
        scopes = self._plain.get(capability)
        if scopes is None:
            about = self._rules_about(capability)
            plain = not self.access and all(rule.level == "allow" and not rule.path for rule in about)
            scopes = self._plain[capability] = tuple(rule.scope for rule in about) if plain else ()
        for allowed in scopes:
            if allowed is None or _lies_in(scope, allowed):
                return True
        return False

    def _rules_about(self, capability: str) -> tuple[Rule, ...]:
        about = self._about.get(capability)
        if about is None:
            about = tuple(rule for rule in self.rules if covers(rule.capability, capability) and not rule.own)
            self._about[capability] = about
        return about

    @cached_property
    def _about(self) -> dict[str, tuple[Rule, ...]]:
        """The rules about each capability that was asked for: most policies have several about others."""
        return {}

    @cached_property
    def _plain(self) -> dict[str, tuple[Scope | None, ...]]:
        """The scopes in which each capability that was asked for is plainly allowed; None means everywhere."""
        return {}

    @classmethod
    def of(
        cls,
        *,
        allow: tuple[str, ...] = (),
        approve: tuple[str, ...] = (),
        deny: tuple[str, ...] = (),
        access: Mapping[str, Access] | None = None,
        quota: Quota | None = None,
    ) -> Policy:
        """Return a policy that gives each capability its level everywhere."""
        for name in (allow, approve, deny):
            if isinstance(cast(object, name), str):
                raise InvalidPolicy(f"{quote(name)} is one name, not several", hint=f'Write ("{name}",)')
        rules = [
            Rule(level, name) for level, names in zip(LEVELS, (allow, approve, deny), strict=True) for name in names
        ]
        return cls(rules=tuple(rules), access=access or {}, quota=quota)


OWNER = Policy.of(allow=("*",))
"""What the program that opened the database may do: everything."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A rule for an actor that is stored in the database."""

    id: str
    tenant: str
    actor: str
    rule: Rule


class Role(Result, frozen=True, kw_only=True):
    """A named set of rules, for API keys, signed tokens and users."""

    name: str
    rules: tuple[Rule, ...]
    built_in: bool = False


def _role(name: str, own: tuple[str, ...], everywhere: tuple[str, ...]) -> Role:
    rules = (*(Rule("allow", one, own=True) for one in own), *(Rule("allow", one) for one in everywhere))
    return Role(name=name, rules=rules, built_in=True)


_READS = ("memory.read", "collections.read", "runs.read")
BUILT_IN_ROLES = {
    "admin": _role("admin", (), ("*",)),
    "member": _role("member", (*_READS, "memory.write", "runs.write"), ("definitions.read",)),
    "reader": _role("reader", _READS, ("definitions.read",)),
}
"""The roles that every tenant has."""
