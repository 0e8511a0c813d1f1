"""Let the HTTP clients of tests trust no certificate authority, instead of hundreds.

A client reads the certificates of all authorities when it is created, which takes longer than most tests, and there
are a thousand such clients, each of which speaks plain HTTP to a server on this machine. The only certificate in
`nobody.pem` was made for this; its key was thrown away.
"""

from __future__ import annotations

import os
from pathlib import Path

_CHOSEN = "SSL_CERT_FILE"
_BEFORE = "SSL_CERT_FILE_BEFORE_TESTS"
_NOBODY = str(Path(__file__).with_name("nobody.pem"))


def trust_nobody() -> None:
    """Let every client made from here on, in this process and its children, read that single certificate."""
    if os.environ.get(_CHOSEN) != _NOBODY:  # the children of a run may be tests too
        os.environ[_BEFORE] = os.environ.get(_CHOSEN, "")
        os.environ[_CHOSEN] = _NOBODY


def as_before(variables: dict[str, str]) -> dict[str, str]:
    """Return variables of the environment with those whom this machine trusts: for what is fetched from elsewhere."""
    kept = {name: value for name, value in variables.items() if name not in (_CHOSEN, _BEFORE)}
    before = os.environ.get(_BEFORE)
    return kept | {_CHOSEN: before} if before else kept
