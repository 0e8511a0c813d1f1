"""HTML responses: templates, static files, and headers that allow no caching and only our own scripts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Response

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: browsers would then omit the Origin of a form, which we check.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_PREVIEW = 160


def html_response(body: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """Return a response with an HTML page."""
    return Response(
        body.encode(), status_code=status, media_type="text/html; charset=utf-8", headers={**HEADERS, **(headers or {})}
    )


def redirect(where: str, *, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """Return a redirect (303), so that reloading does not submit the form again."""
    # Headers are Latin-1; what is already escaped is left alone.
    location = quote(where, safe="%/?&=:+~,;@!$'()*")
    return Response(b"", status_code=303, headers={**HEADERS, "Location": location, **(headers or {})})


def address(path: str, **parameters: object) -> str:
    """Return the path of a page below `/admin`; parameters without a value are omitted.

    >>> address("/facts", scope="user:ada", after=None)
    '/admin/facts?scope=user%3Aada'
    """
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"/admin{path}?{urlencode(given)}" if given else f"/admin{path}"


def render(template: str, **values: Any) -> str:
    """Render a template."""
    return _environment.get_template(template).render(**values)


def as_json(value: Any) -> str:
    """Return a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()


class Asset(msgspec.Struct, frozen=True):
    """A static file."""

    body: bytes
    kind: str
    path: str
    """Its path, which contains a hash of the content."""


def _load_assets() -> dict[str, Asset]:
    found: dict[str, Asset] = {}
    for file in files("memoranda.server.admin").joinpath("static").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in _KINDS:
            body = file.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:16]
            found[file.name] = Asset(body, _KINDS[ending], f"/admin/static/{digest}/{file.name}")
    return found


ASSETS = _load_assets()


def _asset(name: str) -> str:
    return ASSETS[name].path


def _preview(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    line = " ".join(text.split())
    return line if len(line) <= _PREVIEW else line[: _PREVIEW - 1] + "…"


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _stamp(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat()


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


_environment = Environment(
    loader=PackageLoader("memoranda.server.admin"),
    autoescape=True,
    undefined=StrictUndefined,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
)
# jinja2 does not say the types of its filters and globals.
_environment.filters.update(  # pyright: ignore[reportUnknownMemberType]
    json=as_json, preview=_preview, moment=_moment, stamp=_stamp, number=_number, sentence=_sentence
)
_environment.globals.update(to=address, asset=_asset)  # pyright: ignore[reportUnknownMemberType]
