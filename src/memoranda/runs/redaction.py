"""What step records leave out: credentials, fields that the operator names, and their texts wherever they occur again.

Fields are found by name, in values and in texts such as JSON, forms and headers. Most values have none of the names:
their JSON is searched for them first, which takes far less time than reading it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, cast
from urllib.parse import quote, quote_plus, unquote_plus

import msgspec

from memoranda.model.value import decode, encode

REDACTED = "[redacted]"
"""What takes the place of a redacted value."""

_CREDENTIALS = (
    *("authorization", "cookie", "apikey", "accesskey", "privatekey", "secretkey", "token", "secret"),
    *("password", "passwd", "passphrase", "credential", "credentials"),
)
"""How names of credentials end, in lower case and without hyphens and underscores."""
_MARKERS = (
    *(b"authorization", b"cookie", b"apikey", b"accesskey", b"privatekey", b"token", b"secret"),
    *(b"passw", b"passphrase", b"credential"),
)
"""Texts of which JSON with one of these names contains one, after the same changes."""
_ADDRESSES = ("url", "uri", "href", "endpoint", "location")
_LABELS = ("name", "key", "header", "field")
"""Fields that name what is in the `value` next to them."""
_SHORTEST_SECRET = 4
"""Shorter redacted texts are not searched elsewhere: they would be found in other words."""
_LONG_VALUE = 16
"""Values of a query from this length on are searched elsewhere whatever their name: they are hardly words."""
_COOKIE_OPTIONS = frozenset({"path", "domain", "expires", "maxage", "samesite", "priority"})
_LOWER = bytes.maketrans(bytes(range(65, 91)), bytes(range(97, 123)))
_JOINTS = b"-_"
_FOLD = {ord(one): None for one in _JOINTS.decode()}
_USERINFO = re.compile(r"://([^\s/?#@\"'<>]++)@")
_PAIR = re.compile(
    r"""(?<![\w-])(?P<name>[\w-]{1,64})(?P<joint>\\*["']?\s{0,4}[=:]\s{0,4})"""
    r"""(?P<value>"(?:[^"\\]|\\.){1,8192}"|'[^']{1,8192}'|\\*["']?(?:(?:bearer|basic|token|digest)\s{1,4})?[^\s&;,"'<>}\]\\]+)""",
    re.IGNORECASE,
)
"""A name and its value in a text: of a form, a query, a header, or JSON."""


class Redaction:
    """The redacted names, and the texts of their values that were seen so far."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Redact fields of these names besides credentials."""
        self._names = frozenset(map(_fold, names))
        # Names of other characters may have several forms in JSON, so that values have to be read for them.
        self._always = any(re.fullmatch(r"[a-z0-9.]+", one) is None for one in self._names)
        self._markers = (*_MARKERS, *(one.encode() for one in self._names))
        words = b"|".join(map(re.escape, (*(one.encode() for one in _CREDENTIALS), *self._markers[len(_MARKERS) :])))
        self.pattern = re.compile(rb"(?:%b)[\"'\\]*+\s{0,4}[=:,}\]]" % words)
        """Finds what may be one of the names in JSON, in lower case and without hyphens and underscores."""
        self._secrets: set[str] = set()
        self._ordered: list[str] = []
        self._needles: list[bytes] = []

    @property
    def count(self) -> int:
        """How many texts are known; more than before if some were learned since."""
        return len(self._secrets)

    def applies_to(self, payload: bytes, *, is_request: bool = False) -> bool:
        """Return whether JSON may contain something to redact; False is certain."""
        if self._may_name(payload) or (is_request and b"://" in payload):
            return True
        return bool(self._secrets) and self.has_secret(payload)

    def strip(self, value: Any, *, is_request: bool = False) -> Any:
        """Return the JSON of a value without redacted fields, and learn their texts.

        From a request, the queries of its addresses are removed, too.
        """
        return self._strip(decode(to_json(value)), is_request)

    def blank(self, value: Any) -> Any:
        """Return the JSON of a value in which the texts that were learned are replaced."""
        return self._blank(decode(payload)) if self.has_secret(payload := to_json(value)) else value

    def has_secret(self, payload: bytes) -> bool:
        """Return whether JSON contains one of the texts."""
        if len(self._ordered) != len(self._secrets):
            self._ordered = sorted(self._secrets, key=len, reverse=True)
            self._needles = [to_json(one)[1:-1] for one in self._ordered]
        return any(one in payload for one in self._needles)

    def blank_start(self, start: str) -> str:
        """Return the beginning of a JSON text without the texts, and without the beginning of one at its end."""
        start = self._blank(start)
        for secret in self._ordered:
            for length in range(min(len(secret) - 1, len(start)), _SHORTEST_SECRET - 1, -1):
                if start.endswith(secret[:length]):
                    return start[:-length] + REDACTED
        return start

    def _may_name(self, payload: bytes) -> bool:
        if self._always or (b"://" in payload and b"@" in payload):
            return True
        folded = payload.translate(_LOWER, _JOINTS)
        for marker in self._markers:
            if marker in folded:
                return self.pattern.search(folded) is not None
        return False

    def _is_redacted(self, name: str, value: Any) -> bool:
        folded = _fold(name)
        if folded in self._names:
            return value is not None
        return folded.endswith(_CREDENTIALS) and not (value is None or value == "" or isinstance(value, bool))

    def _strip(self, value: Any, is_request: bool) -> Any:
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            label = next((one for one in map(fields.get, _LABELS) if isinstance(one, str)), "")
            found: dict[str, Any] = {}
            for name, item in fields.items():
                told = label if name == "value" and label else name
                if self._is_redacted(told, item):
                    self._learn(told, item)
                    found[name] = REDACTED
                elif is_request and isinstance(item, str) and _fold(name).endswith(_ADDRESSES):
                    found[name] = self._strip_address(item)
                else:
                    found[name] = self._strip(item, is_request)
            return found
        if isinstance(value, list):
            items = cast("list[Any]", value)
            if len(items) == 2 and isinstance(items[0], str) and self._is_redacted(items[0], items[1]):
                self._learn(items[0], items[1])
                return [items[0], REDACTED]
            return [self._strip(item, is_request) for item in items]
        return self._strip_text(value) if isinstance(value, str) else value

    def _strip_address(self, address: str) -> str:
        """Return an address without its query and its user: both may be keys."""
        rest, mark, query = self._strip_text(address, pairs=False).partition("?")
        if not mark:
            return rest
        self._add(query.partition("#")[0])
        for name, value in _pairs(query):
            if self._is_redacted(name, value) or len(value) >= _LONG_VALUE:
                self._add(unquote_plus(value))
        return f"{rest}?…"

    def _strip_text(self, text: str, *, pairs: bool = True) -> str:
        if not self._may_name(text.encode(errors="replace")):
            return text
        if text.lstrip()[:1] in ("{", "["):
            try:
                value = decode(text.encode())
                found = self._strip(value, False)
                return text if found == value else encode(found).decode()
            except (msgspec.DecodeError, ValueError, RecursionError):
                pass  # it only begins like JSON, or is nested too deep
        text = _USERINFO.sub(self._strip_user, text)
        return _PAIR.sub(self._strip_pair, text) if pairs else text

    def _strip_user(self, match: re.Match[str]) -> str:
        _, _, password = match[1].partition(":")
        self._add(unquote_plus(password))
        return f"://{REDACTED}@"

    def _strip_pair(self, match: re.Match[str]) -> str:
        name, joint, value = match["name"], match["joint"], match["value"]
        bare = value.strip("\\\"'")
        if not self._is_redacted(name, bare) or bare == REDACTED:
            return match[0]
        if value != bare or joint == "=":
            # Elsewhere it may be a word of a sentence, as in "token: expired".
            self._learn(name, unquote_plus(bare) if joint == "=" else bare)
        return f"{name}{joint}{value.replace(bare, REDACTED)}"

    def _learn(self, name: str, value: Any) -> None:
        """Take note of the texts of a redacted value, and of the credentials in a header."""
        for text in _texts(value):
            self._add(text)
            folded = _fold(name)
            if folded.endswith("authorization"):
                self._add(text.rpartition(" ")[2])
            elif folded.endswith("cookie"):
                for part, secret in _pairs(text.replace(";", "&")):
                    if _fold(part) not in _COOKIE_OPTIONS:
                        self._add(secret)

    def _add(self, text: str) -> None:
        if len(text) < _SHORTEST_SECRET or text in self._secrets or text in REDACTED:
            return
        forms = (text, to_json(text)[1:-1].decode(), json.dumps(text)[1:-1], quote(text, safe=""), quote_plus(text))
        self._secrets.update(forms)

    def _blank(self, value: Any) -> Any:
        if isinstance(value, str):
            for secret in self._ordered:
                value = value.replace(secret, REDACTED)
            return value
        if isinstance(value, dict):
            return {self._blank(name): self._blank(item) for name, item in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            return [self._blank(item) for item in cast("list[Any]", value)]
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self._secrets:
            return REDACTED
        return value


def to_json(value: Any) -> bytes:
    """Return a value as JSON; a text that says so where it has none."""
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    try:
        return encode(value)
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError):
        return b'"a value without JSON form"'


def _fold(name: str) -> str:
    return name.casefold().translate(_FOLD)


def _pairs(query: str) -> Iterator[tuple[str, str]]:
    for part in query.partition("#")[0].split("&"):
        name, mark, value = part.strip().partition("=")
        if mark:
            yield name, value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item)
    elif not isinstance(value, bool) and value is not None:
        yield str(value)
