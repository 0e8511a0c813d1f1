"""One server and one key: calls in, answers as typed values out, or the error that the engine would have raised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
import msgspec

from memoranda.client.address import check_address, check_patience, key_from
from memoranda.client.calls import Call
from memoranda.client.certificates import certificates
from memoranda.client.events import BEGINNING, EventReader, ServerEvent
from memoranda.client.problems import error_of
from memoranda.client.repeating import may_repeat, retry_after, wait_before
from memoranda.errors import Conflict, MemorandaError, NotFound, Unavailable
from memoranda.model.text import quote

T = TypeVar("T")

# Servers close what is idle for 5 seconds. A connection that we let go of earlier cannot be closed under a request.
_IDLE_SECONDS = 4.0


class AsyncConnection:
    """Sends calls to one server. The key goes into one header and nowhere else."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        timeout: float,
        retries: int,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        """Check what is given; nothing is sent before the first call."""
        check_patience(timeout, retries)
        self.url = check_address(base_url)
        self._timeout = timeout
        self._retries = retries
        key = key_from(api_key)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=timeout,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=_IDLE_SECONDS),
            transport=transport,
            verify=certificates(),
        )

    async def fetch(self, call: Call, kind: type[T]) -> T:
        """Send a call and return its answer as a value of this kind."""
        return self._decoded(await self.send(call), kind)

    async def find(self, call: Call, kind: type[T]) -> T | None:
        """Send a read and return its answer, or None where there is nothing by that name."""
        response = await self.send(call, missing=True)
        return None if response.status_code == 404 else self._decoded(response, kind)

    async def fetch_linked(self, call: Call, kind: type[T]) -> tuple[list[T], str | None]:
        """Send a call and return the items of its answer, and the `after` of the next one that its `Link` names."""
        response = await self.send(call)
        following = httpx.URL(response.links.get("next", {}).get("url", ""))
        return self._decoded(response, list[kind]), following.params.get("after")

    async def send(self, call: Call, *, missing: bool = False) -> httpx.Response:
        """Send a call, again where that is safe, and return a good answer; `missing` lets a 404 of ours pass as one."""
        attempt, in_doubt = 0, False
        while True:
            attempt += 1
            response = await self._once(call, may_fail=attempt <= self._retries)
            if isinstance(response, httpx.Response):
                if response.is_success:
                    return response
                error = self._error(response)
                if missing and _is_ours_and_missing(error):
                    return response
                asked = retry_after(response.headers.get("retry-after"))
                again = may_repeat(call, error, status=response.status_code)
            else:
                error, asked, again = response, None, True
            wait = wait_before(attempt, asked) if again and attempt <= self._retries else None
            if wait is None:
                raise _told_of_doubt(error) if in_doubt else error
            in_doubt = in_doubt or (call.method != "GET" and _may_have_happened(error))
            await asyncio.sleep(wait)

    async def stream(self, call: Call) -> AsyncGenerator[ServerEvent]:
        """Send a call whose answer is a stream of events, and yield them until its reader has heard enough.

        A stream that is lost, or ends by itself, is taken up after the last event that came, where that is safe.
        """
        attempt, last = 0, BEGINNING
        while True:
            reader = EventReader()
            try:
                async with self._opened(call) as response:
                    async for chunk in response.aiter_bytes():
                        for event in reader.feed(chunk):
                            attempt, last = 0, event.id or last
                            yield event
                error: MemorandaError = self._broken_off()
            except MemorandaError as failure:
                error = failure
            attempt += 1
            again = attempt <= self._retries and _may_go_on(call, error)
            wait = wait_before(attempt, error.details.get("retry_after")) if again else None
            if wait is None:
                raise error
            await asyncio.sleep(wait)
            call = msgspec.structs.replace(call, headers={**call.headers, "Last-Event-ID": last})

    async def lines(self, call: Call) -> AsyncGenerator[bytes]:
        """Send a call whose answer is JSON Lines, once, and yield them as they come."""
        rest = b""
        async with self._opened(call) as response:
            async for chunk in response.aiter_bytes():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line
        if rest:
            yield rest

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @asynccontextmanager
    async def _opened(self, call: Call) -> AsyncGenerator[httpx.Response]:
        """Send a call once and give its good answer while it still comes in."""
        try:
            async with self._http.stream(**self._options(call)) as response:
                if not response.is_success:
                    await response.aread()
                    raise self._error(response)
                yield response
        except httpx.TransportError as error:
            raise self._unreachable(call, error) from error
        except RuntimeError as error:
            if not self._http.is_closed:
                raise
            raise self._closed() from error

    async def _once(self, call: Call, *, may_fail: bool) -> httpx.Response | MemorandaError:
        """Send a call one time; return the answer, or the error where the call may be sent again."""
        try:
            return await self._http.request(**self._options(call))
        except httpx.TransportError as error:
            failure = self._unreachable(call, error)
            failure.__cause__ = error
            if may_fail and not isinstance(error, httpx.TimeoutException) and (call.repeatable or not failure.sent):
                return failure
            raise failure from error
        except RuntimeError as error:
            if not self._http.is_closed:
                raise
            raise self._closed() from error

    def _options(self, call: Call) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", **call.headers} if call.body is not None else call.headers
        return {
            "method": call.method,
            "url": call.path,
            "params": call.query,
            # As bytes: an idempotency key may be in any script, and text httpx takes for ASCII.
            "headers": {name: value.encode() for name, value in headers.items()},
            "content": call.body,
            "timeout": call.timeout or self._timeout,
        }

    def _decoded(self, response: httpx.Response, kind: type[T]) -> T:
        """Return a good answer as a value of this kind."""
        try:
            return msgspec.json.decode(response.content, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Unavailable(
                f"{quote(self.url)} answered what this client cannot read: {error}",
                hint="See whether the address is that of a Memoranda server, of this version or a newer one",
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

    def _broken_off(self) -> Unavailable:
        return Unavailable(
            "the answer broke off before its end",
            hint="Ask for it again under the same message_id: the turn goes on without you",
            url=self.url,
            sent=True,
        )

    def _closed(self) -> Unavailable:
        return Unavailable("this client is closed", hint="Make another one", url=self.url, sent=False)

    def _unreachable(self, call: Call, error: httpx.TransportError) -> Unavailable:
        """Return the error for a server that gave no answer; `.sent` says whether it may have carried out the call."""
        sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        if isinstance(error, httpx.TimeoutException):
            what = f"did not answer within {call.timeout or self._timeout:g} s"
            hint = "Try again, or give it more time with timeout=…"
        else:
            what = f"cannot be reached ({str(error) or type(error).__name__})"
            hint = "See whether the server runs there; `memoranda serve` starts one"
        return Unavailable(f"{quote(self.url)} {what}", hint=hint, url=self.url, sent=sent)


def _may_go_on(call: Call, error: MemorandaError) -> bool:
    """Say whether a stream that was lost in this way may be asked for again."""
    if isinstance(error.__cause__, httpx.TimeoutException):
        return False
    if "status" in error.details:
        return may_repeat(call, error, status=error.details["status"])
    return call.repeatable or not error.details.get("sent", True)


def _is_ours_and_missing(error: MemorandaError) -> bool:
    """Say whether what was asked for is not there; an address that is no route of the server is something else."""
    return isinstance(error, NotFound) and "remote_code" not in error.details


def _may_have_happened(error: MemorandaError) -> bool:
    """Say whether a call that failed like this may have been carried out all the same."""
    return isinstance(error, Unavailable) and bool(error.details.get("sent", True))


def _told_of_doubt(error: MemorandaError) -> MemorandaError:
    """Return a conflict with the news that the change it met may be the caller's own."""
    if isinstance(error, Conflict):
        told = "The call was sent again after its answer was lost, so the change may be your own"
        error.hint = f"{error.hint}. {told}" if error.hint else told
        error.details["repeated"] = True
    return error
