"""Which servers are trusted: the certificates of this machine, read once."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """Return what all clients of this process check servers with: reading it takes longer than a hundred calls."""
    return httpx.create_ssl_context()
