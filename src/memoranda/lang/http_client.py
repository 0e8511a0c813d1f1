"""The HTTP client behind `egress.py`: one connection per request, to an address that the policy allows.

Needs httpx, so it is imported with the first request.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import httpcore
import httpx

from memoranda.lang.egress import MAX_BYTES, EgressPolicy, HttpRequest, HttpResponse, RequestFailed, server_of
from memoranda.model.text import quote

_MAX_HEADERS = 100
_ERRORS = (
    *(httpx.HTTPError, httpx.InvalidURL, httpcore.NetworkError, httpcore.ProtocolError),
    *(httpcore.TimeoutException, httpcore.UnsupportedProtocol, OSError),
)


def send(request: HttpRequest, policy: EgressPolicy, end: float) -> HttpResponse:
    """Send a request and return its response, or raise RequestFailed; `end` is a `time.perf_counter` deadline.

    No connection is reused, so that each is to an address checked for this request, and no cookies are shared.
    """
    headers = httpx.Headers(
        {"accept": "*/*", "accept-encoding": "identity", "connection": "keep-alive", "user-agent": "memoranda"}
    )
    headers.update(httpx.Headers([(name.encode(), _header_bytes(value)) for name, value in request.headers.items()]))
    # The client of httpx does not take a network backend, so its request is sent by httpcore, on which it is built.
    pool = httpcore.ConnectionPool(
        ssl_context=_certificates() if request.url.startswith("https:") else None,
        max_connections=1,
        max_keepalive_connections=0,
        network_backend=_CheckedBackend(policy, end),
    )
    try:
        asked = httpx.Request(request.method, request.url, headers=headers, content=request.body)
        parts = asked.url
        url = httpcore.URL(scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path)
        with pool, pool.stream(asked.method, url, headers=asked.headers.raw, content=request.body) as response:
            return _read(request, response)
    except _ERRORS as error:
        if time.perf_counter() >= end or isinstance(error, httpcore.TimeoutException | TimeoutError):
            message = f"{server_of(request.url)} did not answer within {request.timeout:g} s"
            raise RequestFailed("timeout", message) from error
        reason = str(error) or type(error).__name__
        raise RequestFailed("unreachable", f"{server_of(request.url)} cannot be reached: {reason}") from error


def _header_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _read(request: HttpRequest, response: httpcore.Response) -> HttpResponse:
    if len(response.headers) > _MAX_HEADERS:
        raise RequestFailed("unreachable", f"{server_of(request.url)} answered with more than {_MAX_HEADERS} headers")
    parts: list[bytes] = []
    size = 0
    for part in response.iter_stream():
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            message = f"{server_of(request.url)} answered with more than {MAX_BYTES:,} bytes"
            raise RequestFailed("too_large", message, response=_answer(response, parts))
    return _answer(response, parts)


def _answer(response: httpcore.Response, parts: list[bytes]) -> HttpResponse:
    heads = httpx.Response(response.status, headers=response.headers)
    return HttpResponse(
        status=response.status,
        headers=dict(heads.headers.items()),
        content=b"".join(parts),
        content_type=heads.headers.get("content-type", "").partition(";")[0].strip().lower(),
        charset=heads.charset_encoding or "utf-8",
    )


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    # Loading them takes longer than most requests.
    return httpx.create_ssl_context()


class _CheckedBackend(httpcore.NetworkBackend):
    """Connects only to resolved addresses that the policy allows."""

    def __init__(self, policy: EgressPolicy, end: float) -> None:
        self._policy = policy
        self._end = end
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception | None = None
        for address in self._resolve_allowed(host, port):
            try:
                stream = self._backend.connect_tcp(address, port, timeout=_seconds_left(self._end))
            except httpcore.ConnectError as error:
                failure = error
            else:
                return _Stream(stream, self._end)
        assert failure is not None, "no allowed address is a refusal"
        raise failure

    def _resolve_allowed(self, host: str, port: int) -> list[str]:
        found = _resolve(host, port, self._end)
        refusals = [self._policy.refusal(host, port, ipaddress.ip_address(one)) for one in found]
        allowed = [one for one, refusal in zip(found, refusals, strict=True) if refusal is None]
        if allowed:
            return allowed
        # Do not show the address: what a name resolves to inside this network is not public.
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise RequestFailed(
            "denied",
            f"{quote(host)} may not be reached: it is {refusals[0]}",
            hint=f"Allow it with MEMORANDA_EGRESS_ALLOW={place} on a server, or with `egress` when a program is loaded",
        )


class _Stream(httpcore.NetworkStream):
    """A connection that ends when the time of the whole request is up.

    A server that sends a byte now and then is never late for a single read.
    """

    def __init__(self, stream: httpcore.NetworkStream, end: float) -> None:
        self._stream = stream
        self._end = end

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _seconds_left(self._end))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _seconds_left(self._end))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _seconds_left(self._end)), self._end)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _seconds_left(end: float) -> float:
    """Return the seconds left, or raise; a timeout of 0 would not wait at all."""
    left = end - time.perf_counter()
    if left <= 0:
        raise httpcore.ReadTimeout("the time of the request is up")
    return left


def _resolve(host: str, port: int, end: float) -> list[str]:
    """Resolve a host, in the resolver's order; in a thread, because a resolver takes no deadline."""
    found: list[str] = []
    failure: list[httpcore.ConnectError] = []

    def ask() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            failure.append(httpcore.ConnectError(str(error)))
        else:
            # Drop the zone of a link-local address, which policies do not use.
            found.extend(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in answers))

    with suppress(ValueError):
        return [str(ipaddress.ip_address(host))]
    resolver = threading.Thread(target=ask, daemon=True, name="memoranda-resolver")
    resolver.start()
    resolver.join(_seconds_left(end))
    if failure:
        raise failure[0]
    if resolver.is_alive() or not found:
        raise httpcore.ConnectTimeout(f"{quote(host)} was not resolved in time")
    return found
