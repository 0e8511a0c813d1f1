"""Signing in with an API key, and out again; and the files that pages load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from memoranda.errors import NotFound, QuotaExceeded, Unauthenticated
from memoranda.model.duration import parse_duration
from memoranda.server.admin.protection import ENTRANCE, is_encrypted
from memoranda.server.admin.rendering import ASSETS, HEADERS, answer, redirect, render
from memoranda.server.admin.signing import COOKIE, LIFETIME, find_session, sign_in, sign_out
from memoranda.server.auth.keys import Key, find_key, is_chosen
from memoranda.server.auth.limits import FailedAttempts
from memoranda.server.callers import LONGEST_TOKEN, client_address
from memoranda.server.problems import AnyRequest

_FOR_GOOD = "public, max-age=31536000, immutable"


@get("/sign-in", sync_to_thread=True, opt={ENTRANCE: True})
def see_entrance(request: AnyRequest, onwards: FromQuery[str] = "") -> Response[bytes]:
    """Return the page to sign in on; who has done that is led on."""
    try:
        find_session(request.app.state.memory, request.cookies.get(COOKIE))
    except Unauthenticated:
        return answer(render("sign_in.html", onwards=_ours(onwards), refused=""))
    return redirect(_ours(onwards))


@post("/sign-in", sync_to_thread=True, status_code=200, opt={ENTRANCE: True})
def enter(request: AnyRequest) -> Response[bytes]:
    """Take an API key, once; from then on a cookie stands for it that no script can read."""
    form = cast("Mapping[str, str]", request.scope["auth"])
    onwards, key = _ours(form.get("onwards", "")), form.get("key", "").strip()
    try:
        secret = sign_in(request.app.state.memory, _key_of(request, key), key)
        sign_out(request.app.state.memory, request.cookies.get(COOKIE))
    except Unauthenticated as refused:
        return answer(render("sign_in.html", onwards=onwards, refused=refused.message), status=401)
    except QuotaExceeded as refused:
        wait = math.ceil(refused.details["retry_after"])
        said = f"{refused.message}; wait {wait} s"
        return answer(
            render("sign_in.html", onwards=onwards, refused=said), status=429, headers={"Retry-After": str(wait)}
        )
    cookie = f"{_cookie(secret, encrypted=is_encrypted(request.headers))}; Max-Age={parse_duration(LIFETIME)}"
    return redirect(onwards, headers={"Set-Cookie": cookie})


@post("/sign-out", sync_to_thread=True, status_code=200, opt={ENTRANCE: True})
def leave(request: AnyRequest) -> Response[bytes]:
    """End the session here, and its cookie there. Who is signed out already is so still."""
    sign_out(request.app.state.memory, request.cookies.get(COOKIE))
    cookie = f"{_cookie('', encrypted=is_encrypted(request.headers))}; Max-Age=0"
    return redirect("/admin/sign-in", headers={"Set-Cookie": cookie})


@get("/static/{digest:str}/{name:str}", sync_to_thread=False, opt={ENTRANCE: True})
def load_asset(digest: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Return a file that pages load, for good: another file has another address."""
    asset = ASSETS.get(name)
    if asset is None or asset.path != f"/admin/static/{digest}/{name}":
        raise NotFound("there is no such file here", hint="Open the page again")
    return Response(asset.body, media_type=asset.kind, headers={**HEADERS, "Cache-Control": _FOR_GOOD})


def _key_of(request: AnyRequest, token: str) -> Key:
    """Return the key that was typed in; wrong ones are counted by address, together with those of the API."""
    attempts: FailedAttempts = request.app.state.attempts
    address = client_address(attempts, request.scope)
    try:
        if not token or len(token) > LONGEST_TOKEN or not token.isascii():
            raise Unauthenticated("this is not a key", hint="A key begins with mk_")
        key = find_key(request.app.state.memory, token)
    except Unauthenticated as refused:
        attempts.fail(address, refused)
        raise
    if is_chosen(key.id):
        attempts.check(address)
    return key


def _cookie(secret: str, *, encrypted: bool) -> str:
    return f"{COOKIE}={secret}; Path=/admin; HttpOnly; SameSite=Strict" + ("; Secure" if encrypted else "")


def _ours(onwards: str) -> str:
    """Return where to go on to: a page of ours, whatever was asked for."""
    ours = onwards == "/admin" or onwards.startswith(("/admin/", "/admin?"))
    return onwards if ours and onwards.isprintable() and "\\" not in onwards else "/admin"


handlers = [see_entrance, enter, leave, load_asset]
