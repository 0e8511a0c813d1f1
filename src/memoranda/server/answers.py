"""The answers that operations have in common, as the OpenAPI document names them."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Any

from litestar.openapi.datastructures import ResponseSpec

from memoranda.wire.problems import MEDIA_TYPE, Problem

_EVERYWHERE = (400, 401, 403, 408, 413, 422, 429, 500, 503)


class _Answer(ResponseSpec):
    """An answer that all operations share: Litestar copies routes deeply, and the start of a server waits for that."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ResponseSpec:
        return self


def problems(*statuses: int) -> dict[int, ResponseSpec]:
    """Return the documentation of these problems, and of those that any operation can answer with."""
    return {status: _problem(status) for status in sorted({*statuses, *_EVERYWHERE})}


@cache
def _problem(status: int) -> ResponseSpec:
    return _Answer(
        data_container=Problem,
        description=HTTPStatus(status).phrase,
        media_type=MEDIA_TYPE,  # pyright: ignore[reportArgumentType]  # any media type will do, not only Litestar's
        generate_examples=False,
    )
