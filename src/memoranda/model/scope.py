"""Who a memory belongs to: a tenant and an ordered tuple of (kind, id).

A scope is compared whole, never searched as text: `user:a` does not see `user:ab` or `user:a/agent:x`.
Its canonical text is its address in every store, in the ledger and on the command line.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import msgspec

from memoranda.errors import InvalidScope
from memoranda.model.names import why_not_a_name
from memoranda.model.text import quote

# The one list of kinds, in the order in which they nest. A user comes first wherever there is one,
# so that everything of that user lies below `user:<id>`. A new kind is one line.
KINDS = ("user", "project", "tree", "agent", "workflow", "thread", "run", "session")
_ORDER = {kind: place for place, kind in enumerate(KINDS)}

ENDING_KINDS = frozenset({"session", "run", "tree"})
"""Kinds whose memory ends with them."""

SHARED = "shared"
"""The name of the tenant's shared scope, whose canonical text is empty."""
_SHARED_NAMES = frozenset({SHARED, "(shared)"})

SCOPE_PARAMETER = (
    "Whose memory: `shared` is what the tenant shares, `project:atlas` a project, and `agent:emails` or "
    "`user:ada/agent:emails` a part of the caller's own. Default: the caller's own."
)
"""What `scope` means to every door that knows its caller; `scope_of_caller` reads it."""

LONGEST_ID = 256
DEFAULT_TENANT = "default"


class Scope(msgspec.Struct, frozen=True, gc=False):
    """A tenant and the canonical text of the parts below it, such as `user:ada/agent:emails`.

    >>> Scope.of(user="ada", agent="emails").path
    'user:ada/agent:emails'
    >>> Scope.of(user="a/b").parts
    (('user', 'a/b'),)
    """

    tenant: str = DEFAULT_TENANT
    path: str = ""

    def __post_init__(self) -> None:
        """Refuse a tenant or a path that is not canonical, wherever it came from."""
        _check_name(self.tenant, "tenant")
        if not isinstance(cast(object, self.path), str):
            raise _not_canonical(self.path)
        _split(self.path)

    @classmethod
    def of(cls, *, tenant: str = DEFAULT_TENANT, **ids: str) -> Scope:
        """Return the scope of these ids, in the order kinds nest; without any, the tenant's shared one.

        An id that is None is refused, not left out: a login that is missing must not open the shared memory.
        """
        try:
            return _known_scope(tenant, **ids)
        except TypeError:
            pass  # an unhashable value is not a name: it is refused below
        return _make_scope(tenant, **ids)

    @classmethod
    def parse(cls, text: str, *, tenant: str = DEFAULT_TENANT) -> Scope:
        """Return the scope that this canonical text names."""
        return cls(tenant, text)

    @classmethod
    def named(cls, text: str, *, tenant: str = DEFAULT_TENANT) -> Scope:
        """Return the scope that a person names: `shared`, or a canonical text.

        >>> Scope.named("shared").path, Scope.named("project:atlas").path
        ('', 'project:atlas')
        """
        return cls(tenant, "" if text in _SHARED_NAMES else text)

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The (kind, id) pairs, outermost first."""
        return _split(self.path)

    @property
    def shape(self) -> tuple[str, ...]:
        """The kinds alone: `("user", "agent")`."""
        return tuple(kind for kind, _ in self.parts)

    @property
    def subject(self) -> str:
        """The outermost part, whose erasure takes this scope with it; empty for the shared scope."""
        return self.path.partition("/")[0]

    @property
    def is_common(self) -> bool:
        """Whether it belongs to no single user: the shared scope, a project, or what is below a project."""
        return not self.path or self.path.startswith("project:")

    @property
    def ends(self) -> bool:
        """Whether this scope is one that comes to an end, such as a session."""
        return bool(self.path) and self.parts[-1][0] in ENDING_KINDS

    def covers(self, other: Scope) -> bool:
        """Return whether the other scope is this one or lies below it."""
        return self.tenant == other.tenant and (
            not self.path or other.path == self.path or other.path.startswith(self.path + "/")
        )

    def __str__(self) -> str:
        """Return the canonical text, or `(shared)`."""
        return self.path or "(shared)"


def scope_of_caller(text: str, own: Scope) -> Scope:
    """Return the scope that a caller names, or raise InvalidScope: it is never replaced by another.

    The gate decides whether the caller may use it. Another user cannot be named at all.

    >>> ada = Scope.of(user="ada")
    >>> [scope_of_caller(text, ada).path for text in ("shared", "project:atlas", "agent:emails", "user:ada")]
    ['', 'project:atlas', 'user:ada/agent:emails', 'user:ada']
    """
    if text in _SHARED_NAMES:
        return Scope(own.tenant)
    kind = text.partition(":")[0]
    if kind in ("user", "project"):
        named = Scope(own.tenant, text)
    elif kind in _ORDER:
        named = Scope(own.tenant, f"{own.path}/{text}")
    else:
        raise InvalidScope(f"{quote(text.partition('/')[0])} is not a part of a scope", hint=_NAMES, value=text)
    if not (named.is_common or own.covers(named)):
        raise InvalidScope(f"{quote(text)} is the memory of another user", hint=_NAMES, value=text)
    return named


_NAMES = "Name `shared`, a project such as `project:atlas`, or a part of your own memory such as `agent:emails`"
_FORM = "A scope is written kind:id/kind:id with kinds in the order " + ", ".join(KINDS)


def below(path: str) -> tuple[str, str]:
    """Return the half-open range of canonical texts that lie strictly below this one."""
    return path + "/", path + "0"  # "0" is the character after "/"


def _make_scope(tenant: str, /, **ids: str) -> Scope:
    unknown = sorted(set(ids) - set(KINDS))
    if unknown:
        raise InvalidScope(f"`{unknown[0]}` is not a kind of scope", hint=f"Kinds are {', '.join(KINDS)}")
    given = tuple((kind, ids[kind]) for kind in KINDS if kind in ids)
    for kind, name in given:
        _check_name(name, kind)
    return Scope(tenant, _join(given))


# A program asks for the scope of the same few users with every call, and most of them live longer than one. By type as
# well: what only equals a name, such as a member of an enumeration, is never given out in its place.
_known_scope = lru_cache(1_024, typed=True)(_make_scope)


def _join(parts: tuple[tuple[str, str], ...]) -> str:
    return "/".join(f"{kind}:{name.replace('%', '%25').replace('/', '%2F')}" for kind, name in parts)


# The same few scopes are asked for their parts several times in a write, and are made anew of every row.
@lru_cache(256)
def _split(path: str) -> tuple[tuple[str, str], ...]:
    """Return the parts of a canonical text, or refuse one that is not."""
    if not path:
        return ()
    parts: list[tuple[str, str]] = []
    for part in path.split("/"):
        kind, colon, name = part.partition(":")
        if not colon or kind not in _ORDER:
            raise InvalidScope(f"{quote(part)} is not a part of a scope", hint=_FORM)
        name = name.replace("%2F", "/").replace("%25", "%")
        _check_name(name, kind)
        if parts and _ORDER[kind] <= _ORDER[parts[-1][0]]:
            raise InvalidScope(f"`{kind}` cannot be below `{parts[-1][0]}` in {quote(path)}", hint=_FORM)
        parts.append((kind, name))
    if path != _join(tuple(parts)):
        raise _not_canonical(path)
    return tuple(parts)


def _not_canonical(path: object) -> InvalidScope:
    return InvalidScope(f"{quote(path)} is not a canonical scope", hint=_FORM)


def _check_name(name: Any, what: str) -> None:
    reason = why_not_a_name(name, longest=LONGEST_ID)
    if reason:
        raise InvalidScope(
            f"the {what} id cannot be used: {reason}",
            hint="Use visible text of at most 256 characters",
            value=name,
            kind=what,
        )
