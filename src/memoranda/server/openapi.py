"""The OpenAPI 3.1 document of the server, and an HTML page that shows it."""

from __future__ import annotations

import html
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, get_args, get_type_hints

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import OpenAPIRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.routes import HTTPRoute

from memoranda.model.trust import ORIGIN_KINDS
from memoranda.server.auth.principals import EPOCH_HEADER, ORIGIN_HEADER

_METHODS = ("get", "put", "post", "patch", "delete")
_HEADERS: dict[str, dict[str, Any]] = {
    "origin": {
        "name": ORIGIN_HEADER,
        "in": "header",
        "description": "What the request only passes on: it is trusted no more than that, and never more than the key.",
        "schema": {"type": "string", "enum": list(ORIGIN_KINDS)},
    },
    "epoch": {
        "name": EPOCH_HEADER,
        "in": "header",
        "description": "The permission epoch under which the write was decided upon: if permissions have changed since "
        "where it writes, it is refused with the code `stale_epoch`. Keys have none.",
        "schema": {"type": "integer", "minimum": 0},
    },
}
"""Headers of every request that writes, which are read before its route is called."""


def openapi_config(version: str) -> OpenAPIConfig:
    """Return the OpenAPI configuration of the application."""
    return OpenAPIConfig(
        title="Memoranda",
        version=version,
        summary="The memory that AI agents share.",
        path="/docs",
        render_plugins=[_Page(path="/")],
        use_handler_docstrings=True,
        components=Components(security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer")}),
        security=[{"bearer": []}],
        operation_id_creator=_operation_id,
    )


def document(app: Litestar) -> bytes:
    """Return the OpenAPI document of an application as JSON, in a deterministic order."""
    schema_document = app.openapi_schema.to_schema()
    schemas = schema_document["components"]["schemas"]
    for body in _bodies(app):
        schema = schemas[body.__name__]
        if body.__struct_config__.forbid_unknown_fields:
            schema["additionalProperties"] = False
        for name, extra in _field_extras(body):
            schema["properties"][name] |= extra
    schema_document["components"]["parameters"] = _HEADERS
    named = [{"$ref": f"#/components/parameters/{name}"} for name in _HEADERS]
    for operations in schema_document["paths"].values():
        for method, operation in operations.items():
            if method in _METHODS and method != "get":
                operation["parameters"] = [*operation.get("parameters", ()), *named]
                # An epoch may have passed, whatever the route does.
                responses = {**operation["responses"], "409": _problem_of(operation["responses"], HTTPStatus.CONFLICT)}
                operation["responses"] = dict(sorted(responses.items()))
    return msgspec.json.format(msgspec.json.encode(schema_document, order="deterministic"), indent=2)


def _problem_of(responses: dict[str, Any], status: HTTPStatus) -> dict[str, Any]:
    """Return the response with a status; one like the others of a route for a status that it does not have."""
    return responses.get(str(status.value)) or {**responses["400"], "description": status.phrase}


def _bodies(app: Litestar) -> set[type[msgspec.Struct]]:
    """Return the structs of request bodies; Litestar omits their bounds and `additionalProperties`."""
    handlers = (handler for route in app.routes if isinstance(route, HTTPRoute) for handler in route.route_handlers)
    kinds = (handler.parsed_data_field.annotation for handler in handlers if handler.parsed_data_field is not None)
    return {struct for kind in kinds for struct in _structs_in(kind)}


def _field_extras(body: type[msgspec.Struct]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the `extra_json_schema` of the fields of a struct."""
    for name, kind in get_type_hints(body, include_extras=True).items():
        for part in (kind, *get_args(kind)):
            for meta in getattr(part, "__metadata__", ()):
                if isinstance(meta, msgspec.Meta) and meta.extra_json_schema:
                    yield name, meta.extra_json_schema


def _structs_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that a type contains."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        parts = get_type_hints(kind).values()
    else:
        parts = get_args(kind)
    for part in parts:
        yield from _structs_in(part)


@get("/openapi.json", sync_to_thread=True, include_in_schema=False)
def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the OpenAPI document."""
    return Response(document(request.app), media_type="application/json")


class _Page(OpenAPIRenderPlugin):
    """A page with every route; it loads no scripts, fonts or other hosts."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """Render the page."""
        rows = [
            f"<tr><td><b>{method.upper()}</b></td><td><code>{html.escape(path)}</code></td>"
            f"<td>{html.escape(operation.get('summary', ''))}</td>"
            f"<td>{html.escape(operation.get('description', ''))}</td></tr>"
            for path, operations in openapi_schema["paths"].items()
            for method, operation in operations.items()
            if method in _METHODS
        ]
        return _FRAME.format(version=openapi_schema["info"]["version"], rows="\n".join(rows)).encode()


def _operation_id(handler: HTTPRouteHandler, method: Any, path: Any) -> str:
    return handler.handler_name


_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Memoranda {version}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root{{color-scheme:light dark}}
body{{font:16px system-ui;margin:2rem}}td{{padding:.3rem .8rem;vertical-align:top}}
@media(max-width:46rem){{body{{margin:1rem}}tr{{display:block;margin:1rem 0}}
td{{display:block;padding:0;overflow-wrap:anywhere}}}}
</style></head>
<body><h1>Memoranda {version}</h1>
<p>Send <code>Authorization: Bearer &lt;key&gt;</code>. The document is <a href="/openapi.json">openapi.json</a>.</p>
<table>
{rows}
</table></body></html>
"""


def write_document() -> None:
    """Print the OpenAPI document, as in docs/openapi.json."""
    import sys

    import memoranda
    from memoranda.server.app import create_app
    from memoranda.server.settings import Settings

    with memoranda.open(":memory:") as memory:
        sys.stdout.buffer.write(document(create_app(Settings(), memory)) + b"\n")


if __name__ == "__main__":
    write_document()
