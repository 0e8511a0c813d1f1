"""Parameters of pages whose names Litestar has for things of its own."""

from __future__ import annotations

from typing import Annotated

from litestar.params import QueryParameter

Place = Annotated[str, QueryParameter(name="scope")]
"""Whose memory is meant, as the text of a scope; empty for the caller's own."""
Question = Annotated[str, QueryParameter(name="query")]
"""What is looked for."""
