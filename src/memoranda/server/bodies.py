"""A request in; who calls, and the value that its route takes, out; or what is wrong with its body, and where."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any, cast

import msgspec
from litestar import Request
from litestar.concurrency import sync_to_thread
from litestar.datastructures import State
from litestar.exceptions.http_exceptions import RequestEntityTooLarge

from memoranda.errors import InvalidValue
from memoranda.server.callers import Access, Caller, access_in
from memoranda.server.problems import RequestFault
from memoranda.wire.reading import fault_in, moments_in

_SMALL = 65_536
"""Bytes of a body that are decoded on the event loop; more would hold up everybody."""


class StrictRequest(Request[Caller, Access, State]):
    """A request of somebody who is known, and whose body is exactly what its route says.

    Litestar would read a body as loosely as a query: `"1"` for 1, and `"null"` for nothing at all. Routes take the
    request for the sake of `auth`: as a dependency of its own, the same would take longer than reading a fact.
    """

    _whole: bytes | None = None

    @property
    def auth(self) -> Access:
        """The caller, and the memory as far as the caller may reach into it."""
        return access_in(self.scope)

    @property
    def page_bytes(self) -> int:
        """How many bytes a page of a list may have."""
        return self.app.state.page_bytes

    async def body(self) -> bytes:
        """Return the bytes of the body.

        Litestar streams them, which takes as long as everything else that is done with a small body.
        """
        if self._whole is None:
            self._whole = await self._receive_whole()
        return self._whole

    async def _receive_whole(self) -> bytes:
        largest = self.route_handler.resolve_request_max_body_size() or inf
        if (self.content_length or 0) > largest:
            raise RequestEntityTooLarge
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = cast("dict[str, Any]", await self.receive())
            if message["type"] == "http.disconnect":
                # Nobody reads the answer: this is for the log, which would count it among our own faults.
                raise RequestFault(408, "the caller went away before the body was there")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > largest:
                raise RequestEntityTooLarge
            more = message.get("more_body", False)
        return b"".join(parts)

    async def json(self) -> Any:
        """Return the body as the type that its route takes."""
        body = await self.body()
        field = self.route_handler.parsed_data_field
        kind = field.annotation if field is not None else Any
        return read_body(body, kind) if len(body) <= _SMALL else await sync_to_thread(read_body, body, kind)


def read_body(body: bytes, kind: Any) -> Any:
    """Return a body as a type, or refuse it."""
    try:
        try:
            return _decoder(kind).decode(body)
        except msgspec.ValidationError:
            # Perhaps for a moment that only we understand. Mostly not, so it is looked at after the fact.
            sent: Any = msgspec.json.decode(body)
            moments = moments_in(cast("dict[str, Any]", sent)) if isinstance(sent, dict) else {}
            if not moments:
                raise
            return msgspec.convert(sent | moments, kind)
    except msgspec.ValidationError as error:
        raise fault_in("body", error, hint="See /openapi.json for what is taken") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestFault(400, f"the body is not JSON: {error}", hint="Send one JSON object") from None
    except RecursionError:
        raise InvalidValue("the body is nested too deeply", hint="Send less of it at once", path="$") from None


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
