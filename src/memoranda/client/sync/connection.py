# Generated from client/aio/connection.py by memoranda.client.generate; do not edit.
"""A connection to one server: sends requests, retries, decodes responses and raises errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import copy
from typing import Any, Protocol, TypeVar

import httpx
import msgspec

from memoranda.client.config import check_address, check_timeouts, resolve_key, ssl_context
from memoranda.client.problems import error_of
from memoranda.client.requests import Request, parameters, path, read_request
from memoranda.client.retry import may_repeat, retry_after, wait_before
from memoranda.client.sse import BEGINNING, EventReader, ServerEvent
from memoranda.errors import Conflict, MemorandaError, NotFound, Unavailable
from memoranda.model.limits import check_count
from memoranda.model.text import quote
from memoranda.model.trust import OriginKind, check_origin

T = TypeVar("T")

# Servers close connections that are idle for 5 seconds; closing earlier avoids a race with the next request.
_IDLE_SECONDS = 4.0


class Connection:
    """Sends requests to one server. The key is sent in one header and used nowhere else."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        timeout: float,
        retries: int,
        transport: httpx.BaseTransport | None,
    ) -> None:
        """Check the arguments; nothing is sent yet."""
        check_timeouts(timeout, retries)
        self.url = check_address(base_url)
        self._timeout = timeout
        self._retries = retries
        self._headers: dict[str, str] = {}
        key = resolve_key(api_key)
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=timeout,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=_IDLE_SECONDS),
            transport=transport,
            verify=ssl_context(),
        )

    def from_origin(self, origin: OriginKind) -> Connection:
        """Return the same connection, whose requests say that they only pass on what another origin says."""
        return self._with_header("X-Memoranda-Origin", check_origin(origin))

    def at_epoch(self, epoch: int) -> Connection:
        """Return the same connection, whose requests say under which permission epoch they were decided upon."""
        check_count("epoch", epoch, path="epoch")
        return self._with_header("X-Memoranda-Epoch", str(epoch))

    def _with_header(self, name: str, value: str) -> Connection:
        other = copy(self)
        other._headers = {**self._headers, name: value}
        return other

    def fetch(self, request: Request, kind: type[T]) -> T:
        """Send a request and decode its response."""
        return self._decode(self.send(request), kind)

    def find(self, request: Request, kind: type[T]) -> T | None:
        """Send a request and decode its response; None if it is not found."""
        response = self.send(request, missing=True)
        return None if response.status_code == 404 else self._decode(response, kind)

    def fetch_linked(self, request: Request, kind: type[T]) -> tuple[list[T], str | None]:
        """Send a request and return the items of its response, and the `after` of its `Link` to the next page."""
        response = self.send(request)
        following = httpx.URL(response.links.get("next", {}).get("url", ""))
        return self._decode(response, list[kind]), following.params.get("after")

    def send(self, request: Request, *, missing: bool = False) -> httpx.Response:
        """Send a request, with retries, and return a successful response, or with `missing` a 404 of the server."""
        attempt, in_doubt = 0, False
        while True:
            attempt += 1
            response = self._once(request, may_fail=attempt <= self._retries)
            if isinstance(response, httpx.Response):
                if response.is_success:
                    return response
                error = self._error(response)
                if missing and _is_not_found(error):
                    return response
                asked = retry_after(response.headers.get("retry-after"))
                again = may_repeat(request, error, status=response.status_code)
            else:
                error, asked, again = response, None, True
            wait = wait_before(attempt, asked) if again and attempt <= self._retries else None
            if wait is None:
                raise _with_retry_hint(error) if in_doubt else error
            in_doubt = in_doubt or (request.method != "GET" and _may_have_happened(error))
            time.sleep(wait)

    def stream(self, request: Request) -> Generator[ServerEvent]:
        """Send a request whose response is an event stream, and yield its events.

        A stream that is lost or ends early is resumed after the last event, where that is safe.
        """
        attempt, last = 0, BEGINNING
        while True:
            reader = EventReader()
            try:
                with self._open(request) as response:
                    for chunk in response.iter_bytes():
                        for event in reader.feed(chunk):
                            attempt, last = 0, event.id or last
                            yield event
                error: MemorandaError = self._incomplete()
            except MemorandaError as failure:
                error = failure
            attempt += 1
            again = attempt <= self._retries and _may_resume(request, error)
            wait = wait_before(attempt, error.details.get("retry_after")) if again else None
            if wait is None:
                raise error
            time.sleep(wait)
            request = msgspec.structs.replace(request, headers={**request.headers, "Last-Event-ID": last})

    def lines(self, request: Request) -> Generator[bytes]:
        """Send a request once and yield the lines of its JSON Lines response."""
        rest = b""
        with self._open(request) as response:
            for chunk in response.iter_bytes():
                *whole, rest = (rest + chunk).split(b"\n")
                yield from whole
        if rest:
            yield rest

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @contextmanager
    def _open(self, request: Request) -> Generator[httpx.Response]:
        """Send a request once and yield its successful response as a stream."""
        try:
            with self._http.stream(**self._options(request)) as response:
                if not response.is_success:
                    response.read()
                    raise self._error(response)
                yield response
        except httpx.TransportError as error:
            raise self._unreachable(request, error) from error
        except RuntimeError as error:
            if not self._http.is_closed:
                raise
            raise self._error_after_close() from error

    def _once(self, request: Request, *, may_fail: bool) -> httpx.Response | MemorandaError:
        """Send a request once; return the response, or the error if the request may be retried."""
        try:
            return self._http.request(**self._options(request))
        except httpx.TransportError as error:
            failure = self._unreachable(request, error)
            failure.__cause__ = error
            if may_fail and not isinstance(error, httpx.TimeoutException) and (request.repeatable or not failure.sent):
                return failure
            raise failure from error
        except RuntimeError as error:
            if not self._http.is_closed:
                raise
            raise self._error_after_close() from error

    def _options(self, request: Request) -> dict[str, Any]:
        headers = {**self._headers, **request.headers}
        if request.body is not None:
            headers.setdefault("Content-Type", "application/json")
        return {
            "method": request.method,
            "url": request.path,
            "params": request.query,
            # As bytes: httpx encodes text as ASCII, but an idempotency key may be any Unicode.
            "headers": {name: value.encode() for name, value in headers.items()},
            "content": request.body,
            "timeout": request.timeout or self._timeout,
        }

    def _decode(self, response: httpx.Response, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(response.content, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Unavailable(
                f"{quote(self.url)} sent a response that this client cannot decode: {error}",
                hint="Check that the URL is that of a Memoranda server, and that the versions match",
                url=self.url,
                status=response.status_code,
                sent=True,
            ) from error

    def _error(self, response: httpx.Response) -> MemorandaError:
        return error_of(
            response.status_code,
            response.content,
            url=self.url,
            retry_after=retry_after(response.headers.get("retry-after")),
            request_id=response.headers.get("x-request-id", ""),
        )

    def _incomplete(self) -> Unavailable:
        return Unavailable(
            "the reply ended early",
            hint="Send the message again with the same message_id: the turn is completed by the server",
            url=self.url,
            sent=True,
        )

    def _error_after_close(self) -> Unavailable:
        return Unavailable("this client is closed", hint="Create a new one", url=self.url, sent=False)

    def _unreachable(self, request: Request, error: httpx.TransportError) -> Unavailable:
        """Return the error for a missing response; `.sent` tells whether the request may have been carried out."""
        sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        if isinstance(error, httpx.TimeoutException):
            what = f"did not answer within {request.timeout or self._timeout:g} s"
            hint = "Try again, or pass a longer timeout=…"
        else:
            what = f"cannot be reached ({str(error) or type(error).__name__})"
            hint = "Check that the server is running; `memoranda serve` starts one"
        return Unavailable(f"{quote(self.url)} {what}", hint=hint, url=self.url, sent=sent)


def _may_resume(request: Request, error: MemorandaError) -> bool:
    """Return whether a stream may be resumed after this error."""
    if isinstance(error.__cause__, httpx.TimeoutException):
        return False
    if "status" in error.details:
        return may_repeat(request, error, status=error.details["status"])
    return request.repeatable or not error.details.get("sent", True)


def _is_not_found(error: MemorandaError) -> bool:
    """Return whether the server did not find the resource; an unknown route does not count."""
    return isinstance(error, NotFound) and "remote_code" not in error.details


def _may_have_happened(error: MemorandaError) -> bool:
    """Return whether a request with this error may have been carried out all the same."""
    return isinstance(error, Unavailable) and bool(error.details.get("sent", True))


def _with_retry_hint(error: MemorandaError) -> MemorandaError:
    """Add to a conflict that the conflicting change may be the caller's own."""
    if isinstance(error, Conflict):
        note = "The request was retried after its response was lost, so the change may be your own"
        error.advice = f"{error.hint}. {note}" if error.hint else note
        error.details["repeated"] = True
    return error


_LARGEST_PAGE = 100


class Page(Protocol):
    """A page of a list; `next` is the cursor of the next page, None after the last."""

    @property
    def next(self) -> str | None:
        """The cursor of the next page."""
        ...


Sent = TypeVar("Sent", bound=Page)
Element = TypeVar("Element")


class Calls:
    """Calls of one kind, over the connection of a client."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; a client creates its calls."""
        self._connection = connection

    def _get(self, kind: type[T], *segments: str, **query: object) -> T:
        return self._connection.fetch(read_request(path(*segments), parameters(**query)), kind)

    def _find(self, kind: type[T], /, *segments: str, **query: object) -> T | None:
        return self._connection.find(read_request(path(*segments), parameters(**query)), kind)

    def _call(self, kind: type[T], method: str, *segments: str, **options: Any) -> T:
        """Send a request with the `options` of `Request`, and decode its response."""
        return self._connection.fetch(Request(method=method, path=path(*segments), **options), kind)

    def _delete(self, *segments: str, **options: Any) -> bool:
        """Return whether there was something to delete."""
        request = Request(method="DELETE", path=path(*segments), **options)
        return (self._connection.send(request, missing=True)).status_code != 404

    def _collect(
        self,
        kind: type[Sent],
        items: Callable[[Sent], list[Element]],
        limit: int | None,
        *segments: str,
        query: dict[str, str] | None = None,
        missing: bool = False,
    ) -> list[Element]:
        """Read all pages, or up to `limit` items; with `missing`, a 404 is an empty list."""
        check_count("limit", limit)
        read = self._connection.find if missing else self._connection.fetch
        place, asked = path(*segments), query or {}
        found: list[Element] = []
        after: str | None = None
        while limit is None or len(found) < limit:
            size = _LARGEST_PAGE if limit is None else min(_LARGEST_PAGE, limit - len(found))
            page = read(read_request(place, asked | parameters(limit=size, after=after)), kind)
            if page is None:
                break
            found += items(page)
            after = page.next
            if after is None:
                break
        return found
