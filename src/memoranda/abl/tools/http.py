"""Call a tool over HTTP: build one request from templates and read the response.

Escaping a rendered text would come too late: a value that closes its string is then part of the text. So templates are
rendered with marks in place of values, and each value is encoded for its place: the URL, the JSON body or a header.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit
from urllib.parse import quote as percent_encoded

import msgspec
from msgspec.structs import replace

from memoranda.abl.document import Argument, Tool
from memoranda.abl.expression.compiler import ABL
from memoranda.abl.tools.outcome import ToolError
from memoranda.errors import UsageError
from memoranda.lang.document import Raw
from memoranda.lang.egress import EgressPolicy, HttpRequest, HttpResponse, RequestFailed, fetch
from memoranda.lang.expression.compiler import Compilation, compile_node
from memoranda.lang.expression.dialect import Closure, ExpressionRun, Names
from memoranda.lang.expression.nodes import Constant, Node
from memoranda.lang.expression.values import to_text
from memoranda.lang.python_functions import json_value
from memoranda.lang.template import Choice, Loop, Template
from memoranda.model.clock import Clock
from memoranda.model.text import quote

MOST_CHARACTERS = 1_048_576
"""Maximum number of characters that one template may produce."""

_MARK = re.compile("\0([0-9]+)\0")
_encoder = msgspec.json.Encoder()


class Slot(NamedTuple):
    """A value in a rendered template."""

    value: Any


Pieces: TypeAlias = Sequence[str | Slot]
"""The text of a template, and the values between it."""


class _Insert(Node, frozen=True):
    """An expression of a template, which is rendered as a mark."""

    of: Node


class _FillRun(ExpressionRun):
    """A run that collects the values of a template."""

    __slots__ = ("values",)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.values: list[Any] = []


def _insert(node: _Insert, to: Compilation) -> Closure:
    read = to.compile(node.of)

    def mark(names: Names, run: ExpressionRun) -> str:
        assert isinstance(run, _FillRun)
        run.values.append(read(names, run))
        return f"\0{len(run.values) - 1}\0"

    return mark


_DIALECT = replace(ABL, compilers={**ABL.compilers, _Insert: _insert})


class RequestTemplate:
    """A compiled template that returns its values separately from its text."""

    def __init__(self, template: Template) -> None:
        """Compile a template."""
        self._closure = compile_node(_separate_values(template), _DIALECT)

    def fill(self, arguments: dict[str, Any], clock: Clock) -> Pieces:
        """Return the text and the values between it, in order."""
        run = _FillRun(clock)
        marked: str = self._closure(arguments, run)
        texts = _MARK.split(marked)
        return [Slot(run.values[int(text)]) if place % 2 else text for place, text in enumerate(texts)]


def _separate_values(template: Template) -> Template:
    return replace(template, parts=tuple(_separate_value(part) for part in template.parts))


def _separate_value(part: Node) -> Node:
    if isinstance(part, Constant):
        # No text may look like a mark.
        return replace(part, value=part.value.replace("\0", "")) if isinstance(part.value, str) else part
    if isinstance(part, Choice):
        return replace(part, then=_separate_values(part.then), otherwise=_separate_values(part.otherwise))
    if isinstance(part, Loop):
        return replace(part, body=_separate_values(part.body), otherwise=_separate_values(part.otherwise))
    return _Insert(part.span, part)


class InvalidRequest(Exception):
    """A request that cannot be built; the message says why."""


def is_empty(pieces: Pieces) -> bool:
    """Say whether the text is empty and all values are null."""
    return not any(piece.value is not None if isinstance(piece, Slot) else piece.strip() for piece in pieces)


def as_text(pieces: Pieces) -> str:
    """Return a query parameter as text; it is encoded later as a whole."""
    return _join(to_text(piece.value) if isinstance(piece, Slot) else piece for piece in pieces)


def as_header(name: str, pieces: Pieces) -> bytes:
    """Return the value of a header, which has to be one line."""
    text = as_text(pieces).strip()
    if not text.isprintable():
        raise InvalidRequest(f"the header {quote(name)} has a line break or a control character")
    return text.encode()


def as_address(pieces: Pieces) -> str:
    """Return a URL; values are percent-encoded, so that they cannot add a segment, a parameter or a host."""
    parts: list[str] = []
    in_path = True
    for piece in pieces:
        if isinstance(piece, Slot):
            text = to_text(piece.value)
            if in_path and not text:
                # DELETE /guests/{{id}} without an id would delete all guests.
                raise InvalidRequest("the address has an empty value in its path")
            parts.append(percent_encoded(text, safe=""))
        else:
            in_path = in_path and "?" not in piece and "#" not in piece
            parts.append(piece)
    address = _join(parts).strip()
    try:
        there = urlsplit(address)
        # `urlsplit` validates the port only when it is read.
        _ = there.port
    except ValueError as error:
        raise InvalidRequest(f"{quote(address)} is not a valid address: {error}") from error
    if any(unquote(segment) in (".", "..") for segment in there.path.split("/")):
        raise InvalidRequest(f"the path of {quote(address)} has a `.` or `..` segment")
    return address


def as_json(pieces: Pieces) -> str:
    """Return a JSON text; a value inside quotes is escaped, elsewhere it becomes a JSON value."""
    parts: list[str] = []
    inside = escaped = False
    for piece in pieces:
        if isinstance(piece, Slot):
            if escaped:
                raise InvalidRequest("the body has a backslash right before a value")
            parts.append(_json_text(to_text(piece.value))[1:-1] if inside else _json_text(piece.value))
            continue
        parts.append(piece)
        for character in piece:
            if escaped:
                escaped = False
            elif character == '"':
                inside = not inside
            else:
                escaped = inside and character == "\\"
    body = _join(parts)
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from error
    return body


def _json_text(value: Any) -> str:
    return _encoder.encode(value).decode()


def _join(parts: Iterable[str]) -> str:
    text = "".join(parts)
    if len(text) > MOST_CHARACTERS:
        raise InvalidRequest(f"a template produced {len(text):,} characters, the limit is {MOST_CHARACTERS:,}")
    return text


TOKENS = ("oauth2", "oauth2_client", "oauth2_user")
AUTHS = ("none", "bearer", "api_key", "basic", "custom", *TOKENS)
"""The values of `auth` that are acted on."""
_EARLY = 10
"""Seconds before its end at which an access token is not used any more."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_WITH_BODY = ("POST", "PUT", "PATCH")
_SHOWN = 200
"""Maximum number of characters of a response that an error message quotes."""
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)
_TEXT = re.compile(r"text/|application/(?:xml|[\w.-]+\+xml|x-www-form-urlencoded)", re.IGNORECASE)


class HttpTool:
    """A declared tool with an endpoint."""

    def __init__(
        self,
        tool: Tool,
        templates: Callable[[Raw], Node | None],
        secrets: Mapping[str, str],
        clock: Clock,
        egress: EgressPolicy,
    ) -> None:
        """Compile the templates of the URL, the query, the headers and the body."""
        self._secrets = {"secrets": dict(secrets)}
        assert tool.endpoint is not None
        self._name = tool.name.text
        self._method = tool.method or ("POST" if tool.body else "GET")
        self._address = _template(templates, tool.endpoint)
        self._plain_address = "{{" not in tool.endpoint.text
        self._query = _templates(templates, tool.query_params)
        self._headers = _templates(templates, tool.headers)
        self._body = _template(templates, tool.body) if tool.body else None
        self._auth = tool.auth or "none"
        self._auth_config = {name.casefold(): form for name, form in _templates(templates, tool.auth_config).items()}
        self._auth_names = [argument.name.text for argument in tool.auth_config]
        self._token: tuple[str, float] = ("", 0.0)
        """An access token, and the time until which it is used."""
        self._clock = clock
        self._egress = egress

    def request(self, arguments: dict[str, Any], *, timeout: float) -> Any:
        """Send one request and return its response as JSON values, or raise a ToolError."""
        try:
            return self._answer(fetch(self._request(arguments, timeout), self._egress))
        except (InvalidRequest, UsageError) as error:
            raise ToolError("validation_error", self._message(f"cannot be called: {error}")) from error
        except RequestFailed as error:
            raise self._error_for(error, timeout) from error

    def _error_for(self, error: RequestFailed, timeout: float) -> ToolError:
        if error.reason == "timeout":
            return ToolError("tool_timeout", self._message(f"did not answer within {timeout:g} s"))
        if error.reason == "too_large" and error.response is not None and not _is_success(error.response):
            return self._error_for_status(error.response)
        said = f"failed: {error.message}. {error.hint}" if error.hint else f"failed: {error.message}"
        if error.reason == "not_installed":
            return ToolError("tool_error", self._message(said), "ImportError")
        if error.reason == "redirected" and error.response is not None:
            return ToolError("api_error", self._message(said), str(error.response.status))
        if error.reason == "unreachable" and error.__cause__ is not None:
            return ToolError("api_error", self._message(said), type(error.__cause__).__name__)
        return ToolError("api_error", self._message(said), error.reason)

    def _request(self, arguments: dict[str, Any], timeout: float) -> HttpRequest:
        if self._method not in METHODS:
            raise InvalidRequest(f"{quote(self._method)} is not a method; use one of {', '.join(METHODS)}")
        headers = self._credentials(timeout)
        given = {name: as_header(name, self._fill(form, arguments)) for name, form in self._headers.items()}
        # A header that the tool declares itself takes precedence.
        named = {name.casefold() for name in given}
        headers = {**{name: value for name, value in headers.items() if name.casefold() not in named}, **given}
        body = self._content(arguments)
        if body is not None and not any(name.lower() == "content-type" for name in headers):
            headers["content-type"] = b"application/json"
        url = as_address(self._fill(self._address, arguments))
        return HttpRequest(
            method=self._method,
            url=_with_query(url, self._parameters(arguments)),
            headers=headers,
            body=body,
            timeout=timeout,
        )

    def _credentials(self, timeout: float) -> dict[str, bytes]:
        """Return the headers that the declared `auth` sends; raise if a secret for them is missing."""
        if self._auth == "bearer" or (self._auth in TOKENS and "token_url" not in self._auth_config):
            secret = "bearer_token" if self._auth == "bearer" else "oauth2_token"
            return {"Authorization": b"Bearer " + self._secret("token", secret)}
        if self._auth in TOKENS:
            return {"Authorization": b"Bearer " + self._access_token(timeout).encode()}
        if self._auth == "api_key":
            name = self._secret("header_name", "").decode() or "X-API-Key"
            return {name: self._secret("api_key", "api_key")}
        if self._auth == "basic":
            both = self._secret("username", "username") + b":" + self._secret("password", "password")
            return {"Authorization": b"Basic " + b64encode(both)}
        if self._auth == "custom":
            return {name: self._secret(name, name) for name in self._auth_names}
        return {}

    def _secret(self, name: str, secret: str) -> bytes:
        """Return a value of `auth_config`, else the secret of that name; empty only if no name is given."""
        form = self._auth_config.get(name.casefold())
        text = as_header(name, self._fill(form, {})) if form else self._secrets["secrets"].get(secret, "").encode()
        if not text and secret:
            raise InvalidRequest(
                f"`auth: {self._auth}` needs the secret {quote(secret)}: pass secrets={{{secret!r}: …}}"
            )
        return text

    def _access_token(self, timeout: float) -> str:
        """Return the token of the client credentials grant, which is requested again when it has expired."""
        now = self._clock.now().timestamp()
        if not self._token[0] or self._token[1] <= now:
            form = {
                "grant_type": "client_credentials",
                "client_id": self._secret("client_id", "client_id").decode(),
                "client_secret": self._secret("client_secret", "client_secret").decode(),
                "scope": self._secret("scopes", "").decode(),
            }
            request = HttpRequest(
                method="POST",
                url=self._secret("token_url", "").decode(),
                headers={"content-type": b"application/x-www-form-urlencoded"},
                body=urlencode({name: value for name, value in form.items() if value}).encode(),
                timeout=timeout,
            )
            answer = self._answer(fetch(request, self._egress))
            given = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
            if not isinstance(given.get("access_token"), str):
                raise ToolError("api_error", self._message("got no access token"), "auth")
            lasts = given.get("expires_in")
            self._token = given["access_token"], now + (lasts if isinstance(lasts, int | float) else 60) - _EARLY
        return self._token[0]

    def _parameters(self, arguments: dict[str, Any]) -> dict[str, str]:
        if not self._query and self._plain_address and self._body is None and self._method not in _WITH_BODY:
            # No template says where the arguments go, so they become the query.
            return {name: as_text((Slot(value),)) for name, value in arguments.items()}
        filled = {name: self._fill(form, arguments) for name, form in self._query.items()}
        return {name: as_text(pieces) for name, pieces in filled.items() if not is_empty(pieces)}

    def _content(self, arguments: dict[str, Any]) -> bytes | None:
        if self._body is not None:
            pieces = self._fill(self._body, arguments)
            return None if is_empty(pieces) else as_json(pieces).encode()
        return msgspec.json.encode(arguments) if self._method in _WITH_BODY else None

    def _fill(self, form: RequestTemplate, arguments: dict[str, Any]) -> Pieces:
        return form.fill({**arguments, **self._secrets}, self._clock)

    def _answer(self, response: HttpResponse) -> Any:
        content, kind = response.content, response.content_type
        if not _is_success(response):
            raise self._error_for_status(response)
        if not content:
            return None
        try:
            if _JSON.match(kind):
                return json_value(msgspec.json.decode(content))
            if not kind or _TEXT.match(kind):
                return json_value(content.decode(response.charset))
        except (msgspec.DecodeError, UsageError, UnicodeDecodeError, LookupError, RecursionError) as error:
            raise ToolError(
                "api_error", self._message(f"answered with what cannot be read: {error}"), "garbage"
            ) from error
        raise ToolError("api_error", self._message(f"answered with {quote(kind)}, neither JSON nor text"), "garbage")

    def _error_for_status(self, response: HttpResponse) -> ToolError:
        content = response.content.decode(errors="replace").strip()
        said = quote(content, longest=_SHOWN) if content else "nothing"
        return ToolError(
            "api_error", self._message(f"answered with status {response.status}: {said}"), str(response.status)
        )

    def _message(self, what: str) -> str:
        return f"the tool {quote(self._name)} {what}"


def _is_success(response: HttpResponse) -> bool:
    return 200 <= response.status < 300


def _with_query(url: str, query: dict[str, str]) -> str:
    """Return a URL with query parameters added, or replaced if it has parameters of the same names."""
    if not query:
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return url  # Sending it raises an error that says what is wrong.
    merged = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **query}
    return urlunsplit(parts._replace(query=urlencode(merged, quote_via=percent_encoded, safe="")))


def _templates(templates: Callable[[Raw], Node | None], arguments: tuple[Argument, ...]) -> dict[str, RequestTemplate]:
    return {argument.name.text: _template(templates, argument.value) for argument in arguments}


def _template(templates: Callable[[Raw], Node | None], raw: Raw) -> RequestTemplate:
    node = templates(raw)
    return RequestTemplate(node if isinstance(node, Template) else Template(raw.span, (Constant(raw.span, raw.text),)))
