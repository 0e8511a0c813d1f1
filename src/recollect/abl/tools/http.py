"""A tool that is an address in, its answer out: one request, JSON or text, within limits of time and size."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from recollect.abl.document import Argument, Tool
from recollect.abl.tools.filling import Form, Pieces, Slot, Unfit, as_address, as_header, as_json, as_text, is_empty
from recollect.abl.tools.outcome import Failed
from recollect.abl.tree import Raw
from recollect.errors import UsageError
from recollect.lang.expression.nodes import Constant, Node
from recollect.lang.plain import MOST_BYTES, plain
from recollect.lang.template import Template
from recollect.model.clock import Clock
from recollect.model.text import quote

if TYPE_CHECKING:
    import httpx

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_WITH_BODY = ("POST", "PUT", "PATCH")
_MOST_REDIRECTS = 5
_SHOWN = 200
"""Characters of a refusal that are shown."""
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)
_TEXT = re.compile(r"text/|application/(?:xml|[\w.-]+\+xml|x-www-form-urlencoded)", re.IGNORECASE)


class _Connections:
    """The HTTP client of this process, made when it is first needed: its certificates take megabytes."""

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._client: Any = None

    def client(self) -> httpx.Client:
        with self._opening:
            if self._client is None:
                from http.cookiejar import DefaultCookiePolicy

                # A compressed answer could be small on the wire and not in memory.
                client = _httpx().Client(headers={"accept-encoding": "identity"})
                # The sessions of two users must not share what a server tells one of them to keep.
                client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
                self._client = client
            return self._client

    def forget(self) -> None:
        """Begin anew in a forked process, which must not speak on its parent's connections."""
        self._opening = threading.Lock()
        self._client = None


_connections = _Connections()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_connections.forget)


class HttpTool:
    """A declared tool that is reached over HTTP."""

    def __init__(
        self, tool: Tool, templates: Callable[[Raw], Node | None], secrets: Mapping[str, str], clock: Clock
    ) -> None:
        """Compile the templates of the address, the query, the headers and the body."""
        self._secrets = {"secrets": dict(secrets)}
        assert tool.endpoint is not None
        self._name = tool.name.text
        self._method = tool.method or ("POST" if tool.body else "GET")
        self._address = _form(templates, tool.endpoint)
        self._plain_address = "{{" not in tool.endpoint.text
        self._query = _forms(templates, tool.query_params)
        self._headers = _forms(templates, tool.headers)
        self._body = _form(templates, tool.body) if tool.body else None
        self._clock = clock

    def request(self, arguments: dict[str, Any], *, timeout: float) -> Any:
        """Send one request and return its answer as plain values, or raise Failed."""
        httpx = _httpx()
        deadline = time.perf_counter() + timeout
        try:
            with closing(self._send(self._request(arguments), deadline)) as response:
                return self._answer(response, _read(response, deadline))
        except (Unfit, UsageError, httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            raise Failed("validation_error", self._said(f"cannot be called: {error}")) from error
        except (httpx.TimeoutException, _Late) as error:
            raise Failed("tool_timeout", self._said(f"did not answer within {timeout:g} s")) from error
        except httpx.HTTPError as error:
            kind = type(error).__name__
            raise Failed("api_error", self._said(f"cannot be reached ({str(error) or kind})"), kind) from error

    def _request(self, arguments: dict[str, Any]) -> httpx.Request:
        if self._method not in METHODS:
            raise Unfit(f"{quote(self._method)} is no method; use one of {', '.join(METHODS)}")
        address = as_address(self._filled(self._address, arguments))
        if not address.lower().startswith(("http://", "https://")):
            raise Unfit(f"the address {quote(address)} does not begin with http:// or https://")
        httpx = _httpx()
        url = httpx.URL(address)
        if not url.host:
            raise Unfit(f"the address {quote(address)} names no host")
        query = self._parameters(arguments)
        headers = httpx.Headers(
            [(name.encode(), as_header(name, self._filled(form, arguments))) for name, form in self._headers.items()]
        )
        body = self._content(arguments)
        if body is not None:
            headers.setdefault("content-type", "application/json")
        return _connections.client().build_request(
            self._method, url.copy_merge_params(query) if query else url, headers=headers, content=body
        )

    def _parameters(self, arguments: dict[str, Any]) -> dict[str, str]:
        if not self._query and self._plain_address and self._body is None and self._method not in _WITH_BODY:
            # Nothing says where the arguments go, and there is only one place.
            return {name: as_text((Slot(value),)) for name, value in arguments.items()}
        filled = {name: self._filled(form, arguments) for name, form in self._query.items()}
        return {name: as_text(pieces) for name, pieces in filled.items() if not is_empty(pieces)}

    def _content(self, arguments: dict[str, Any]) -> bytes | None:
        if self._body is not None:
            pieces = self._filled(self._body, arguments)
            return None if is_empty(pieces) else as_json(pieces).encode()
        return msgspec.json.encode(arguments) if self._method in _WITH_BODY else None

    def _filled(self, form: Form, arguments: dict[str, Any]) -> Pieces:
        return form.fill({**arguments, **self._secrets}, self._clock)

    def _send(self, request: httpx.Request, deadline: float) -> httpx.Response:
        """Return the answer that is no redirect; one that leads to another host is refused."""
        httpx = _httpx()
        client = _connections.client()
        for _ in range(_MOST_REDIRECTS + 1):
            left = deadline - time.perf_counter()
            if left <= 0:
                raise _Late
            request.extensions = {**request.extensions, "timeout": httpx.Timeout(left).as_dict()}
            response = client.send(request, stream=True, follow_redirects=False)
            if response.next_request is None:
                return response
            response.close()
            there = response.next_request.url
            if _origin(there) != _origin(request.url):
                message = f"is redirected to another host, {quote(there.host)}"
                raise Failed("api_error", self._said(message), str(response.status_code))
            request = response.next_request
        raise Failed("api_error", self._said(f"is redirected more than {_MOST_REDIRECTS} times"), "redirects")

    def _answer(self, response: httpx.Response, content: bytes) -> Any:
        status = response.status_code
        kind = response.headers.get("content-type", "")
        if not 200 <= status < 300:
            said = quote(content.decode(errors="replace").strip(), longest=_SHOWN) if content else "nothing"
            raise Failed("api_error", self._said(f"answered with status {status}: {said}"), str(status))
        if not content:
            return None
        if len(content) > MOST_BYTES:
            raise Failed("api_error", self._said(f"answered with more than {MOST_BYTES:,} bytes"), "too_large")
        try:
            if _JSON.match(kind):
                return plain(msgspec.json.decode(content))
            if not kind or _TEXT.match(kind):
                return plain(content.decode(response.charset_encoding or "utf-8"))
        except (msgspec.DecodeError, UsageError, UnicodeDecodeError, LookupError, RecursionError) as error:
            raise Failed("api_error", self._said(f"answered with what cannot be read: {error}"), "garbage") from error
        raise Failed("api_error", self._said(f"answered with {quote(kind)}, neither JSON nor text"), "garbage")

    def _said(self, what: str) -> str:
        return f"the tool {quote(self._name)} {what}"


class _Late(Exception):
    """The time is up."""


def _read(response: httpx.Response, deadline: float) -> bytes:
    """Return the body, or as much of it as shows that it is too large."""
    parts: list[bytes] = []
    length = 0
    for part in response.iter_bytes():
        parts.append(part)
        length += len(part)
        if length > MOST_BYTES:
            break
        # A server that sends a byte now and then is never late for the client.
        if time.perf_counter() > deadline:
            raise _Late
    return b"".join(parts)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _forms(templates: Callable[[Raw], Node | None], arguments: tuple[Argument, ...]) -> dict[str, Form]:
    return {argument.name.text: _form(templates, argument.value) for argument in arguments}


def _form(templates: Callable[[Raw], Node | None], raw: Raw) -> Form:
    node = templates(raw)
    return Form(node if isinstance(node, Template) else Template(raw.span, (Constant(raw.span, raw.text),)))


def _httpx() -> Any:
    """Return the package, which is there only when somebody wanted tools over HTTP."""
    try:
        import httpx
    except ImportError as error:
        raise Failed(
            "tool_error",
            "a tool over HTTP needs the package `httpx`, which is not installed. "
            'Install it with `pip install "recollect[api]"`',
            "ImportError",
        ) from error
    return httpx
