"""Sign-in and sign-out, and the static files that pages load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from memoranda.errors import NotFound, QuotaExceeded, Unauthenticated
from memoranda.model.clock import parse_duration
from memoranda.server.admin.html import ASSETS, HEADERS, html_response, redirect, render
from memoranda.server.admin.sessions import COOKIE, ENTRANCE, LIFETIME, find_session, is_encrypted, sign_in, sign_out
from memoranda.server.auth.keys import Key, find_key, is_chosen
from memoranda.server.auth.principals import MAX_TOKEN_LENGTH, client_address
from memoranda.server.auth.rate_limit import FailedAttempts
from memoranda.server.problems import AnyRequest

_IMMUTABLE = "public, max-age=31536000, immutable"


@get("/sign-in", sync_to_thread=True, opt={ENTRANCE: True})
def show_sign_in(request: AnyRequest, onwards: FromQuery[str] = "") -> Response[bytes]:
    """Show the sign-in page, or redirect a user who is signed in."""
    try:
        find_session(request.app.state.memory, request.cookies.get(COOKIE))
    except Unauthenticated:
        return html_response(render("sign_in.html", onwards=_local_path(onwards), refused=""))
    return redirect(_local_path(onwards))


@post("/sign-in", sync_to_thread=True, status_code=200, opt={ENTRANCE: True})
def enter(request: AnyRequest) -> Response[bytes]:
    """Sign in with an API key and set a cookie that scripts cannot read."""
    form = cast("Mapping[str, str]", request.scope["auth"])
    onwards, key = _local_path(form.get("onwards", "")), form.get("key", "").strip()
    try:
        secret = sign_in(request.app.state.memory, _key_of(request, key), key)
        sign_out(request.app.state.memory, request.cookies.get(COOKIE))
    except Unauthenticated as refused:
        return html_response(render("sign_in.html", onwards=onwards, refused=refused.message), status=401)
    except QuotaExceeded as refused:
        wait = math.ceil(refused.details["retry_after"])
        said = f"{refused.message}; wait {wait} s"
        return html_response(
            render("sign_in.html", onwards=onwards, refused=said), status=429, headers={"Retry-After": str(wait)}
        )
    cookie = f"{_cookie(secret, encrypted=is_encrypted(request.headers))}; Max-Age={parse_duration(LIFETIME)}"
    return redirect(onwards, headers={"Set-Cookie": cookie})


@post("/sign-out", sync_to_thread=True, status_code=200, opt={ENTRANCE: True})
def leave(request: AnyRequest) -> Response[bytes]:
    """Sign out: end the session and remove its cookie."""
    sign_out(request.app.state.memory, request.cookies.get(COOKIE))
    cookie = f"{_cookie('', encrypted=is_encrypted(request.headers))}; Max-Age=0"
    return redirect("/admin/sign-in", headers={"Set-Cookie": cookie})


@get("/static/{digest:str}/{name:str}", sync_to_thread=False, opt={ENTRANCE: True})
def load_asset(digest: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Return a static file, cached forever: its path changes with its content."""
    asset = ASSETS.get(name)
    if asset is None or asset.path != f"/admin/static/{digest}/{name}":
        raise NotFound("this file does not exist", hint="Reload the page")
    return Response(asset.body, media_type=asset.kind, headers={**HEADERS, "Cache-Control": _IMMUTABLE})


def _key_of(request: AnyRequest, token: str) -> Key:
    """Return the key of a token; wrong ones count towards the same limit as those of the REST API."""
    attempts: FailedAttempts = request.app.state.attempts
    address = client_address(attempts, request.scope)
    try:
        if not token or len(token) > MAX_TOKEN_LENGTH or not token.isascii():
            raise Unauthenticated("this is not an API key", hint="Keys begin with mk_")
        key = find_key(request.app.state.memory, token)
    except Unauthenticated as refused:
        attempts.fail(address, refused)
        raise
    if is_chosen(key.id):
        attempts.check(address)
    return key


def _cookie(secret: str, *, encrypted: bool) -> str:
    return f"{COOKIE}={secret}; Path=/admin; HttpOnly; SameSite=Strict" + ("; Secure" if encrypted else "")


def _local_path(onwards: str) -> str:
    """Return the path to redirect to, always one of our own pages."""
    ours = onwards == "/admin" or onwards.startswith(("/admin/", "/admin?"))
    return onwards if ours and onwards.isprintable() and "\\" not in onwards else "/admin"


handlers = [show_sign_in, enter, leave, load_asset]
