"""`memoranda serve` with one more route, which needs a key as every route does, and does nothing.

What it takes is what every request takes before anything is remembered. As a program it takes the arguments of
`memoranda`.
"""

from __future__ import annotations

from unittest.mock import patch

from litestar import Litestar, get
from server_requests import EMPTY_PATH

from memoranda import __version__
from memoranda.cli import main
from memoranda.server import app
from memoranda.server import launcher as serving
from memoranda.server.programs import ReloadCounter
from memoranda.server.requests import StrictRequest
from memoranda.server.settings import Settings
from memoranda.wire.admin import Health


@get(EMPTY_PATH, sync_to_thread=False)
def empty(request: StrictRequest) -> Health:
    """Answer as `/health` does, but only to those who have a key."""
    request.auth  # noqa: B018  # every route asks for it
    return Health(status="ok", version=__version__)


def create_app(settings: Settings, *, counter: ReloadCounter) -> Litestar:
    """Return the application with that route."""
    made = app.create_app(settings, counter=counter)
    made.register(empty)
    return made


if __name__ == "__main__":
    with patch.object(serving, "create_app", create_app):
        main()
