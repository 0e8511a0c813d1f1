"""A tool that is an address in, its answer out: one request, JSON or text, within limits of time and size."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from urllib.parse import quote as percent_encoded

import msgspec

from memoranda.abl.document import Argument, Tool
from memoranda.abl.tools.filling import Form, Pieces, Slot, Unfit, as_address, as_header, as_json, as_text, is_empty
from memoranda.abl.tools.outcome import Failed
from memoranda.abl.tree import Raw
from memoranda.errors import UsageError
from memoranda.lang.egress import EgressPolicy, Request, RequestFailed, Response, fetch
from memoranda.lang.expression.nodes import Constant, Node
from memoranda.lang.plain import plain
from memoranda.lang.template import Template
from memoranda.model.clock import Clock
from memoranda.model.text import quote

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_WITH_BODY = ("POST", "PUT", "PATCH")
_SHOWN = 200
"""Characters of a refusal that are shown."""
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)
_TEXT = re.compile(r"text/|application/(?:xml|[\w.-]+\+xml|x-www-form-urlencoded)", re.IGNORECASE)


class HttpTool:
    """A declared tool that is reached over HTTP."""

    def __init__(
        self,
        tool: Tool,
        templates: Callable[[Raw], Node | None],
        secrets: Mapping[str, str],
        clock: Clock,
        egress: EgressPolicy,
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
        self._egress = egress

    def request(self, arguments: dict[str, Any], *, timeout: float) -> Any:
        """Send one request and return its answer as plain values, or raise Failed."""
        try:
            return self._answer(fetch(self._request(arguments, timeout), self._egress))
        except (Unfit, UsageError) as error:
            raise Failed("validation_error", self._said(f"cannot be called: {error}")) from error
        except RequestFailed as error:
            raise self._failed(error, timeout) from error

    def _failed(self, error: RequestFailed, timeout: float) -> Failed:
        if error.reason == "timeout":
            return Failed("tool_timeout", self._said(f"did not answer within {timeout:g} s"))
        if error.reason == "too_large" and error.response is not None and not _is_success(error.response):
            return self._refused(error.response)
        said = f"failed: {error.message}. {error.hint}" if error.hint else f"failed: {error.message}"
        if error.reason == "not_installed":
            return Failed("tool_error", self._said(said), "ImportError")
        if error.reason == "redirected" and error.response is not None:
            return Failed("api_error", self._said(said), str(error.response.status))
        if error.reason == "unreachable" and error.__cause__ is not None:
            return Failed("api_error", self._said(said), type(error.__cause__).__name__)
        return Failed("api_error", self._said(said), error.reason)

    def _request(self, arguments: dict[str, Any], timeout: float) -> Request:
        if self._method not in METHODS:
            raise Unfit(f"{quote(self._method)} is not a method; use one of {', '.join(METHODS)}")
        headers = {name: as_header(name, self._filled(form, arguments)) for name, form in self._headers.items()}
        body = self._content(arguments)
        if body is not None and not any(name.lower() == "content-type" for name in headers):
            headers["content-type"] = b"application/json"
        url = as_address(self._filled(self._address, arguments))
        return Request(
            method=self._method,
            url=_with_query(url, self._parameters(arguments)),
            headers=headers,
            body=body,
            timeout=timeout,
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

    def _answer(self, response: Response) -> Any:
        content, kind = response.content, response.content_type
        if not _is_success(response):
            raise self._refused(response)
        if not content:
            return None
        try:
            if _JSON.match(kind):
                return plain(msgspec.json.decode(content))
            if not kind or _TEXT.match(kind):
                return plain(content.decode(response.charset))
        except (msgspec.DecodeError, UsageError, UnicodeDecodeError, LookupError, RecursionError) as error:
            raise Failed("api_error", self._said(f"answered with what cannot be read: {error}"), "garbage") from error
        raise Failed("api_error", self._said(f"answered with {quote(kind)}, neither JSON nor text"), "garbage")

    def _refused(self, response: Response) -> Failed:
        content = response.content.decode(errors="replace").strip()
        said = quote(content, longest=_SHOWN) if content else "nothing"
        return Failed("api_error", self._said(f"answered with status {response.status}: {said}"), str(response.status))

    def _said(self, what: str) -> str:
        return f"the tool {quote(self._name)} {what}"


def _is_success(response: Response) -> bool:
    return 200 <= response.status < 300


def _with_query(url: str, query: dict[str, str]) -> str:
    """Return a URL with these parameters, in place of those of the same names that it has."""
    if not query:
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return url  # which is refused where it is sent, with what is wrong with it
    merged = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **query}
    return urlunsplit(parts._replace(query=urlencode(merged, quote_via=percent_encoded, safe="")))


def _forms(templates: Callable[[Raw], Node | None], arguments: tuple[Argument, ...]) -> dict[str, Form]:
    return {argument.name.text: _form(templates, argument.value) for argument in arguments}


def _form(templates: Callable[[Raw], Node | None], raw: Raw) -> Form:
    node = templates(raw)
    return Form(node if isinstance(node, Template) else Template(raw.span, (Constant(raw.span, raw.text),)))
