"""What every request to the pages passes: who has signed in, and whether a form was sent from a page of ours."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from litestar.datastructures import Headers
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Send
from litestar.types import Scope as Connection

from memoranda.api.memory import Memory
from memoranda.errors import Denied
from memoranda.server.admin.desk import Desk
from memoranda.server.admin.signing import COOKIE, find_session
from memoranda.server.auth.limits import RateLimit
from memoranda.server.bodies import StrictRequest
from memoranda.server.problems import RequestFault
from memoranda.server.programs import Programs

TOKEN_FIELD = "form_token"
ENTRANCE = "entrance"
"""What routes are marked with that need nobody to be signed in."""

_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 100


class Protection(ASGIMiddleware):
    """Lets a page be seen by whoever signed in, and a form be sent only from one of our own pages."""

    scopes = (ScopeType.HTTP,)

    def __init__(self, memory: Memory, programs: Programs, *, limit: RateLimit) -> None:
        """Stand on the memory of the whole server."""
        self._memory = memory
        self._programs = programs
        self._limit = limit

    async def handle(self, scope: Connection, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Find out who asks before any page does anything."""
        request = StrictRequest(scope, receive, send)  # pyright: ignore[reportArgumentType]  # only HTTP comes here
        form: Mapping[str, str] = {}
        if request.method not in ("GET", "HEAD"):
            ensure_from_here(request.headers)
            form = _read_form(request.headers, await request.body())
        if scope["route_handler"].opt.get(ENTRANCE):
            scope["auth"] = form
        else:
            signed_in = find_session(self._memory, request.cookies.get(COOKIE))
            scope["user"] = signed_in.caller
            self._limit.take(signed_in.caller.key_id)
            scope["auth"] = Desk(self._memory, signed_in, programs=self._programs, form=form)
            if request.method not in ("GET", "HEAD") and not hmac.compare_digest(
                form.get(TOKEN_FIELD, "").encode(), signed_in.form_token.encode()
            ):
                raise _foreign("the form is not one of this session")
        await next_app(scope, receive, send)


def ensure_from_here(headers: Headers) -> None:
    """Refuse a request that changes something and comes from a page of somebody else."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        from_here = site in ("same-origin", "none")
    else:
        # Browsers leave the other header out where there is no TLS; this one they always send.
        origin, host = headers.get("origin"), headers.get("host")
        from_here = origin is not None and host is not None and urlsplit(origin).netloc == host
    if not from_here:
        raise _foreign("the form was sent from another place")


def is_encrypted(headers: Headers) -> bool:
    """Say whether the browser speaks with us, or with whoever stands before us, over TLS."""
    return headers.get("origin", "").startswith("https:")


def _read_form(headers: Headers, body: bytes) -> dict[str, str]:
    if headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise RequestFault(415, "this is not a form", hint="Send it from its page")
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise RequestFault(400, "this form cannot be read", hint="Send it from its page") from None
    # Browsers write line ends as CRLF in forms, whatever was typed.
    return {name: value.replace("\r\n", "\n") for name, value in fields}


def _foreign(why: str) -> Denied:
    return Denied(f"nothing was changed: {why}", hint="Open the page again and send the form from there")
