"""What every request passes on its way in and out: an id, a count, and a line in the log."""

from __future__ import annotations

import logging
import re
from time import perf_counter
from typing import Any, cast
from urllib.parse import unquote

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from memoranda.errors import MemorandaError
from memoranda.model.ids import Ids
from memoranda.server.logs import REQUESTS, log_request
from memoranda.server.metrics import Metrics
from memoranda.server.problems import RequestFault, problem_of
from memoranda.wire.problems import MEDIA_TYPE

SLASH = "\uffff"
"""What stands for a `/` inside a name of a path, where it was written as `%2F`. No name can hold this sign itself."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger(REQUESTS)


class Envelope:
    """An application with all of that around it."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, ids: Ids) -> None:
        """Stand around an application."""
        self._app = app
        self._metrics = metrics
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope["state"]["request_id"] = _given_id(scope) or self._ids.new("req")
        begun, status, answered = perf_counter(), 500, False

        async def send_with_id(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], True
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        self._metrics.in_flight += 1
        try:
            _keep_slashes(scope)
            await self._app(scope, receive, send_with_id)
        # The last place that can answer.
        except Exception as error:
            if answered:
                raise
            scope["state"]["problem"] = error
            await _refuse(error, request_id, send_with_id)
        finally:
            if status == 500:
                # What is not ours to name is in the log with its traceback, not in the answer.
                failure = scope["state"].get("problem")
                _log.error("a request failed", exc_info=failure, extra={"fields": {"request_id": request_id}})
            self._metrics.in_flight -= 1
            seconds = perf_counter() - begun
            route: str = cast("dict[str, Any]", scope).get("path_template", "")
            self._metrics.count(scope["method"], route, status, seconds)
            log_request(_described(scope, request_id, route, status, seconds))


def _given_id(scope: Scope) -> str | None:
    """Return the id that the caller gave the request, if it is fit for a log."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return None


def _keep_slashes(scope: Scope) -> None:
    """Let a `/` that was written as `%2F` be a part of a name instead of the end of one."""
    raw = scope["raw_path"]
    if SLASH in scope["path"]:
        raise RequestFault(404, "there is nothing at this address")
    if b"%2f" in raw.lower():
        pieces = re.split("%2[fF]", raw.decode("ascii", "replace"))
        scope["path"] = SLASH.join(unquote(piece) for piece in pieces)


async def _refuse(error: Exception, request_id: str, send: Send) -> None:
    status, body, headers = problem_of(error, request_id)
    sent = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _described(scope: Scope, request_id: str, route: str, status: int, seconds: float) -> dict[str, Any]:
    """Return what the log says: the route, never the path, which holds names that people gave."""
    known = cast("dict[str, Any]", scope)
    described: dict[str, Any] = {
        "request_id": request_id,
        "method": known["method"],
        "route": route,
        "status": status,
        "ms": round(seconds * 1_000, 3),
    }
    caller = known.get("user")
    if caller is not None:
        described |= {"tenant": caller.tenant, "key": caller.key_id}
    problem = known["state"].get("problem")
    if isinstance(problem, MemorandaError):
        described["code"] = problem.code
    return described
