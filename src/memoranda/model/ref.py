"""Refs: what a match is read, changed or forgotten by, as one text.

A ref names an entry by its id, a fact by its scope and key, a line of a block by its digest, and a message by its
number in the conversation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, cast, get_args

import msgspec

from memoranda.errors import UsageError
from memoranda.model.names import require_label
from memoranda.model.scope import DEFAULT_TENANT, Scope
from memoranda.model.text import quote

RefKind = Literal["entry", "fact", "line", "message"]
_KINDS: tuple[RefKind, ...] = get_args(RefKind)
_ID = "entry_"
"""How the ids of entries begin."""


class Ref(msgspec.Struct, frozen=True):
    """What a match is about: an id, or a name within a scope.

    >>> str(Ref("fact", Scope.of(user="ada"), "profile.language"))
    'fact:user:ada#profile.language'
    >>> parse_ref("entry:ent_1").name
    'ent_1'
    """

    kind: RefKind
    scope: Scope | None
    """The scope of the name; None for an entry, whose id is enough."""
    name: str

    def __str__(self) -> str:
        """Return the text of the ref."""
        if self.scope is None:
            return f"{self.kind}:{self.name}"
        return f"{self.kind}:{self.scope.path.replace('#', '%23')}#{self.name}"


def parse_ref(text: str, *, tenant: str = DEFAULT_TENANT) -> Ref:
    """Return the ref that a text names, or raise UsageError."""
    kind, colon, rest = text.partition(":") if isinstance(cast(object, text), str) else ("", "", "")
    if colon and rest and kind in _KINDS:
        if kind == "entry":
            return Ref("entry", None, rest)
        path, mark, name = rest.partition("#")
        if mark and name:
            return Ref(kind, Scope.parse(path.replace("%23", "#"), tenant=tenant), name)
    raise UsageError(
        f"{quote(text)} is not a ref",
        hint="Pass the `ref` of a match, such as entry:<id> or fact:user:ada#profile.language",
        value=text,
    )


def as_ref(named: str, *, tenant: str = DEFAULT_TENANT) -> Ref:
    """Return the ref that a text is, or that of the entry whose id it is; or raise UsageError.

    >>> str(as_ref("ent_1"))
    'entry:ent_1'
    """
    kind, colon, _ = named.partition(":") if isinstance(cast(object, named), str) else ("", "", "")
    if colon and kind in _KINDS:
        return parse_ref(named, tenant=tenant)
    require_label("id", named)
    return Ref("entry", None, named)


def check_sources(named: Sequence[str], *, tenant: str = DEFAULT_TENANT) -> tuple[str, ...]:
    """Return the refs that something is derived from, each once, or raise UsageError."""
    if isinstance(named, str):
        raise UsageError("`derived_from` is one text, not several refs", hint="Pass a list", path="derived_from")
    return tuple(dict.fromkeys(str(as_ref(one, tenant=tenant)) for one in named))


def line_digest(line: str) -> str:
    """Return the digest by which a ref names a line of a block."""
    return hashlib.sha256(line.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_ref(named: object, *, tenant: str = DEFAULT_TENANT) -> bool:
    """Return whether something is the text of a ref, and not merely a text that begins like one.

    >>> is_ref("entry:ent_1"), is_ref("fact: she lives in Porto"), is_ref("entry: not a ref")
    (True, False, False)
    """
    if not isinstance(named, str):
        return False
    try:
        ref = parse_ref(named, tenant=tenant)
    except UsageError:
        return False
    return ref.kind != "entry" or " " not in ref.name


def is_name(named: object) -> bool:
    """Return whether a text is a ref or the id of an entry, and not words that describe something.

    >>> is_name("entry:ent_1"), is_name("entry_019a8c"), is_name("bo@example.org"), is_name("her old address")
    (True, True, False, False)
    """
    if not isinstance(named, str) or not named.strip():
        return True  # which is an error about the id
    kind, mark, rest = named.partition(":")
    if mark and kind in _KINDS:
        return is_ref(named) or not any(map(str.isspace, rest))
    return named.startswith(_ID) and not any(map(str.isspace, named))
