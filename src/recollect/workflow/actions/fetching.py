"""One request over HTTP in, its answer out, within limits of time and size.

With the standard library alone, so that a workflow that asks a server needs no package. Proxies of the environment are
used; files and other schemes are out of reach, and a redirect cannot lead to another server.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import lru_cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Literal, cast
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

import msgspec

from recollect.errors import UsageError
from recollect.model.text import quote as shown

MOST_BYTES = 1_048_576
"""Bytes of an answer."""
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_AT_ONCE = 65_536
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = ("connection", "content-length", "host", "transfer-encoding")
"""What the client says about the connection itself."""
_IN_PATH = "/%:@!$&'()*+,;=~"
_IN_QUERY = _IN_PATH + "?[]"

Reason = Literal["timeout", "unreachable", "redirected", "too_large"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: of which address, and how many seconds that may take altogether."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    timeout: float


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What a server answered; the names of headers are in small letters."""

    status: int
    headers: dict[str, str]
    content: bytes
    kind: str
    """Of the content, such as `text/plain`, which also stands where the server does not say."""
    charset: str


class Unanswered(Exception):
    """There is no answer that can be used."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Say why."""
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message


def fetch(request: Request) -> Answered:
    """Return the answer to one request, whatever its status, or raise Unanswered."""
    watch = _Watch(request.timeout)
    check_headers(request.headers)
    request = msgspec.structs.replace(request, url=address(request.url))
    with closing(watch):
        for _ in range(_MOST_REDIRECTS + 1):
            with closing(_open(request, watch)) as response:
                there = _redirect(request, response)
                if there is None:
                    return _answered(response, _read(response, watch, request.url))
            request = there
    raise Unanswered("redirected", f"{_server(request.url)} redirects more than {_MOST_REDIRECTS} times")


def address(url: str) -> str:
    """Return an address as it is sent, or refuse what is none of a server: nothing but http and https is reached."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        name = host.encode("idna").decode() if not host.isascii() else host
    except ValueError as error:
        raise UsageError(f"{shown(url)} is no address: {error}", hint=_ADDRESS, value=url) from error
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{shown(url)} does not begin with http:// or https://", hint=_ADDRESS, value=url)
    if not name or _CONTROLS.search(url) or " " in name:
        raise UsageError(f"{shown(url)} names no server", hint=_ADDRESS, value=url)
    if "@" in parts.netloc:
        # What stands before the sign looks like a server and is none; and addresses are shown where secrets are not.
        raise UsageError("the address holds a user name", hint="Send it as the header `authorization`")
    place = f"[{name}]" if ":" in name else name
    return urlunsplit(
        SplitResult(
            parts.scheme,
            place if port is None else f"{place}:{port}",
            quote(parts.path or "/", safe=_IN_PATH),
            quote(parts.query, safe=_IN_QUERY),
            "",
        )
    )


_ADDRESS = "Write it whole, such as https://example.org/path"


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse headers that cannot be sent, or that are not for the caller to choose."""
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise UsageError(f"{shown(name)} is no name of a header", hint="Use letters, digits and hyphens")
        if name.lower() in _OWN_HEADERS:
            raise UsageError(f"the header {shown(name)} cannot be chosen", hint="Leave it out", value=name)
        # The value itself may be a secret.
        if _CONTROLS.search(value) or not value.isascii():
            raise UsageError(
                f"the header {shown(name)} holds what is no visible ASCII", hint="Encode it first", value=name
            )


def _server(url: str) -> str:
    """Return the server of an address for a message; the rest of an address may hold secrets."""
    return shown("://".join(urlsplit(url)[:2]))


class _Watch:
    """The time of one request, on the clock of the wall: when it is up, the connection ends, whatever it is doing.

    A socket has a time for each piece that it sends or receives, and a server that sends one now and then is never
    late for that.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.perf_counter() + seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    @property
    def left(self) -> float:
        return max(self._end - time.perf_counter(), 0.001)

    @property
    def is_up(self) -> bool:
        return time.perf_counter() >= self._end

    def follow(self, opened: socket.socket) -> None:
        with self._lock:
            self._socket = opened
        if self.is_up:
            self._cut()

    def _cut(self) -> None:
        with self._lock, suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._timer.cancel()


class _Connection(HTTPConnection):
    def __init__(self, watch: _Watch, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watch = watch

    def connect(self) -> None:
        super().connect()
        self._watch.follow(self.sock)


class _SecureConnection(HTTPSConnection):
    def __init__(self, watch: _Watch, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watch = watch

    def connect(self) -> None:
        super().connect()
        self._watch.follow(self.sock)


class _Handler(urllib.request.AbstractHTTPHandler):
    """Opens watched connections, and nothing else."""

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(cast(Any, partial(_Connection, self._watch)), request)

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(cast(Any, partial(_SecureConnection, self._watch)), request, context=_certificates())


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    # Reading them takes longer than most requests.
    return ssl.create_default_context()


def _open(request: Request, watch: _Watch) -> HTTPResponse:
    # Only these two: an opener as the library makes it reads files, and takes every status for an error.
    opener = urllib.request.OpenerDirector()
    opener.addheaders = [("User-Agent", "recollect")]
    opener.add_handler(urllib.request.ProxyHandler())
    opener.add_handler(_Handler(watch))
    asked = urllib.request.Request(request.url, request.body, request.headers, method=request.method)
    try:
        return cast(HTTPResponse, opener.open(asked, timeout=watch.left))
    except (OSError, HTTPException) as error:
        raise _translated(error, watch, request.url) from error


def _translated(error: Exception, watch: _Watch, url: str) -> Unanswered:
    cause = getattr(error, "reason", error)
    if watch.is_up or isinstance(cause, TimeoutError):
        return Unanswered("timeout", f"{_server(url)} did not answer within {watch.seconds:g} s")
    said = str(cause) or type(cause).__name__
    return Unanswered("unreachable", f"{_server(url)} cannot be reached: {said}")


def _redirect(request: Request, response: HTTPResponse) -> Request | None:
    """Return what has to be asked next, None where the answer is no redirect."""
    where = response.headers.get("location")
    if response.status not in _REDIRECTS or not where:
        return None
    try:
        there = address(urljoin(request.url, where))
    except UsageError as error:
        raise Unanswered("redirected", f"{_server(request.url)} redirects: {error.message}") from error
    if _origin(there) != _origin(request.url):
        # The headers may hold what only the first server should see.
        raise Unanswered("redirected", f"{_server(request.url)} redirects to another server, {_server(there)}")
    becomes_get = response.status == 303 or (response.status in (301, 302) and request.method == "POST")
    if not becomes_get or request.method == "HEAD":
        return msgspec.structs.replace(request, url=there)
    headers = {name: value for name, value in request.headers.items() if not name.lower().startswith("content-")}
    return msgspec.structs.replace(request, url=there, method="GET", body=None, headers=headers)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _answered(response: HTTPResponse, content: bytes) -> Answered:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        small = name.lower()
        headers[small] = f"{headers[small]}, {value}" if small in headers else value
    return Answered(
        status=response.status,
        headers=headers,
        content=content,
        kind=response.headers.get_content_type(),
        charset=response.headers.get_content_charset("utf-8"),
    )


def _read(response: HTTPResponse, watch: _Watch, url: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        while part := response.read1(_AT_ONCE):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise Unanswered("too_large", f"{_server(url)} answered with more than {MOST_BYTES:,} bytes")
    except (OSError, HTTPException) as error:
        raise _translated(error, watch, url) from error
    # A connection that was cut looks like an end to the library.
    if watch.is_up or response.length:
        raise _translated(ConnectionError("the answer was cut off"), watch, url)
    return b"".join(parts)
