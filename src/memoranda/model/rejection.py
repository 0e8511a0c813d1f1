"""Rejections: values that may not come back, known only by keyed hashes of what they say.

What is compared is the canonical form of a text, so that another spelling of it is the same value. The value itself is
nowhere: who has the salt of a rejection can test a guess against it, and not read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b
from typing import Any, ClassVar, cast

from memoranda.model.folding import canonical_form
from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.value import canonical

DIGEST_BYTES = 16
SALT_BYTES = 32

_DECORATION = str.maketrans(dict.fromkeys("`\u00b4^\u00a8~|"))
"""Signs that are neither punctuation nor say anything; others, such as `<` and `+`, do."""
_NUMBERING = re.compile(r"\A\s*+[0-9]{1,3}[.)]\s")


class Rejection(Result, frozen=True, kw_only=True):
    """A value that may not come back: not at this scope, and not below it."""

    _columns: ClassVar[tuple[str, ...]] = ("id", "scope", "key", "at", "actor", "reason")
    id: str
    scope: Scope
    key: str | None = None
    """The only key that it is refused under; None where it is refused everywhere."""
    at: datetime
    actor: str
    reason: str = ""
    undo: str | None = None
    """What `undo` takes to bring back what it ended, once the rejection is withdrawn."""
    ended: tuple[str, ...] = ()
    """The refs of what it ended: in the result of `reject` only, because a ref may tell a line by its hash."""


class StoredRejection(Rejection, frozen=True, kw_only=True):
    """A rejection as it is stored: the hashes of its value, and the key that they are made with."""

    salt: bytes
    digests: tuple[str, ...]
    messages: tuple[str, ...] = ()
    """The messages that state the value, as a recall knows them: the ids of their entries, or their refs."""

    def public(self, ended: tuple[str, ...] = ()) -> Rejection:
        """Return what is shown of it."""
        return Rejection(
            id=self.id,
            scope=self.scope,
            key=self.key,
            at=self.at,
            actor=self.actor,
            reason=self.reason,
            undo=self.undo,
            ended=ended,
        )


def digest_of_form(form: bytes, salt: bytes) -> str:
    """Return the hash by which a form of a value is known."""
    return blake2b(form, key=salt, digest_size=DIGEST_BYTES).hexdigest()


def text_form(text: str) -> bytes | None:
    """Return what a text says letter by letter; None if that is nothing.

    >>> text_form("- Lives in `Pórto`!") == text_form("LIVES in porto")
    True
    """
    said = canonical_form(text.translate(_DECORATION))
    return b"text:" + said.encode("utf-8", "surrogatepass") if said else None


def value_form(value: Any, key: str = "") -> bytes:
    """Return what a whole value says under a key, or under any key."""
    return b"value:" + key.encode() + b"\0" + canonical(_fold(value))


def statement_form(key: str, value: str) -> bytes:
    """Return what a statement says, in whatever words: its key, and the value that statements are compared by."""
    return b"statement:" + key.encode() + b"\0" + canonical_form(value).encode("utf-8", "surrogatepass")


def forms_in(value: Any, key: str | None = None) -> Iterator[bytes]:
    """Yield every form under which a value may have been rejected: its texts, their lines, itself, and its place."""
    for text in texts_in(value):
        for part in (text, *text.split("\n")) if "\n" in text else (text,):
            form = text_form(part)
            if form is not None:
                yield form
            if _NUMBERING.match(part) and (form := text_form(_NUMBERING.sub("", part, count=1))) is not None:
                yield form
    if isinstance(value, dict | list):
        yield value_form(value)
    if key is not None:
        yield value_form(value, key)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts inside a JSON value; names of fields are not among them."""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)


def _fold(value: Any) -> Any:
    if isinstance(value, str):
        return canonical_form(value.translate(_DECORATION))
    if isinstance(value, dict):
        return {name: _fold(part) for name, part in cast("dict[str, Any]", value).items()}
    return [_fold(part) for part in cast("list[Any]", value)] if isinstance(value, list) else value
