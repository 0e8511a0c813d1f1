"""Sign-in sessions of the admin pages, their pages, and protection against cross-site requests.

The cookie holds a random secret and nothing else. The API key is stored under one hash of that secret and encrypted
with another. So neither the database nor the cookie alone reveals the key, and signing out removes it. The key is
looked up again for each page: revoking it ends its sessions at once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import secrets
from collections.abc import Mapping
from typing import cast
from urllib.parse import parse_qsl, urlsplit

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from litestar import Response, get, post
from litestar.datastructures import Headers
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.params import FromPath, FromQuery
from litestar.types import ASGIApp, Receive, Send
from litestar.types import Scope as Connection

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Denied, NotFound, QuotaExceeded, Unauthenticated
from memoranda.model.clock import parse_duration
from memoranda.model.scope import Scope
from memoranda.server.admin.context import DOOR, PageContext
from memoranda.server.admin.html import ASSETS, HEADERS, html_response, redirect, render
from memoranda.server.auth.keys import SYSTEM_TENANT, Key, find_key, is_chosen, note_use
from memoranda.server.auth.principals import MAX_TOKEN_LENGTH, Principal, client_address, principal_of
from memoranda.server.auth.rate_limit import FailedAttempts, RateLimit
from memoranda.server.problems import AnyRequest, RequestError
from memoranda.server.programs import Programs
from memoranda.server.requests import StrictRequest

COOKIE = "memoranda_admin"
LIFETIME = "12h"

_NONCE = 12
_LONGEST_SECRET = 64
_OVER = "you are not signed in"
_HINT = "Sign in with an API key"


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in user, and the token that their forms must carry."""

    principal: Principal
    form_token: str


def sign_in(memory: Memory, key: Key, token: str) -> str:
    """Start a session for an API key and return the secret for the cookie."""
    note_use(memory, key.id)
    # Remove what is left of sessions that expired without a sign-out.
    memory.in_tenant(SYSTEM_TENANT).through(DOOR).sweep()
    secret = secrets.token_urlsafe(32)
    name = _derive(secret, b"name")
    nonce = secrets.token_bytes(_NONCE)
    sealed = nonce + _seal(secret).encrypt(nonce, token.encode(), name.encode())
    _place(memory).set(_key(name), base64.b64encode(sealed).decode(), expect=0, ttl=LIFETIME)
    return secret


def find_session(memory: Memory, secret: str | None) -> SignedIn:
    """Return the session of a cookie, or raise Unauthenticated."""
    if not secret or len(secret) > _LONGEST_SECRET:
        raise Unauthenticated(_OVER, hint=_HINT)
    name = _derive(secret, b"name")
    fact = _place(memory).get(_key(name))
    if fact is None:
        raise Unauthenticated(_OVER, hint=_HINT)
    sealed = base64.b64decode(fact.value)
    try:
        token = _seal(secret).decrypt(sealed[:_NONCE], sealed[_NONCE:], name.encode())
    except InvalidTag:
        raise Unauthenticated(_OVER, hint=_HINT) from None
    return SignedIn(principal=principal_of(find_key(memory, token.decode())), form_token=_derive(secret, b"form"))


def sign_out(memory: Memory, secret: str | None) -> None:
    """End the session of a cookie; signing out twice is allowed."""
    if secret and len(secret) <= _LONGEST_SECRET:
        _place(memory).delete(_key(_derive(secret, b"name")))


def _derive(secret: str, use: bytes) -> str:
    """Derive a value for one use; it reveals neither the secret nor the values for other uses."""
    return hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), person=use, digest_size=32).hexdigest()


def _seal(secret: str) -> AESGCM:
    return AESGCM(bytes.fromhex(_derive(secret, b"seal")))


def _key(name: str) -> str:
    return f"pages.{name}"


def _place(memory: Memory) -> ScopedMemory:
    return memory.through(DOOR).at(Scope(tenant=SYSTEM_TENANT))


TOKEN_FIELD = "form_token"
ENTRANCE = "entrance"
"""The option of routes that need no session."""

_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 100


class Protection(ASGIMiddleware):
    """Middleware that requires a session, and accepts forms only from our own pages."""

    scopes = (ScopeType.HTTP,)

    def __init__(self, memory: Memory, programs: Programs, *, limit: RateLimit) -> None:
        """Look up sessions in the memory of the whole server."""
        self._memory = memory
        self._programs = programs
        self._limit = limit

    async def handle(self, scope: Connection, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Authenticate a request before its page runs."""
        request = StrictRequest(scope, receive, send)  # pyright: ignore[reportArgumentType]  # only HTTP comes here
        form: Mapping[str, str] = {}
        if request.method not in ("GET", "HEAD"):
            ensure_from_here(request.headers)
            form = _read_form(request.headers, await request.body())
        if scope["route_handler"].opt.get(ENTRANCE):
            scope["auth"] = form
        else:
            signed_in = find_session(self._memory, request.cookies.get(COOKIE))
            scope["user"] = signed_in.principal
            self._limit.take(signed_in.principal.key_id)
            scope["auth"] = PageContext(self._memory, signed_in, programs=self._programs, form=form)
            if request.method not in ("GET", "HEAD") and not hmac.compare_digest(
                form.get(TOKEN_FIELD, "").encode(), signed_in.form_token.encode()
            ):
                raise _cross_site("the form belongs to another session")
        await next_app(scope, receive, send)


def ensure_from_here(headers: Headers) -> None:
    """Raise Denied for a request that changes something and comes from a page of another site."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        from_here = site in ("same-origin", "none")
    else:
        # Without TLS browsers omit Sec-Fetch-Site; they always send Origin.
        origin, host = headers.get("origin"), headers.get("host")
        from_here = origin is not None and host is not None and urlsplit(origin).netloc == host
    if not from_here:
        raise _cross_site("the form was sent from another site")


def is_encrypted(headers: Headers) -> bool:
    """Return whether the browser uses TLS, to this server or to a proxy in front of it."""
    return headers.get("origin", "").startswith("https:")


def _read_form(headers: Headers, body: bytes) -> dict[str, str]:
    if headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise RequestError(415, "the body is not a form", hint="Submit the form on its page")
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise RequestError(400, "the form cannot be decoded", hint="Submit the form on its page") from None
    # Browsers always send CRLF line ends in forms.
    return {name: value.replace("\r\n", "\n") for name, value in fields}


def _cross_site(why: str) -> Denied:
    return Denied(f"nothing was changed: {why}", hint="Reload the page and submit the form again")


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
