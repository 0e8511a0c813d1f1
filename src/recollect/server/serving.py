"""Settings in, a running server out: its address, its first key, its workers, and an orderly end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from functools import partial

from uvicorn import Server
from uvicorn.supervisors.multiprocess import Multiprocess

from recollect.errors import Unavailable
from recollect.server.app import create_app, open_memory
from recollect.server.auth.keys import NewKey, first_key
from recollect.server.callers import authenticate
from recollect.server.connections import Connection, ServerConfig
from recollect.server.logs import log_configuration
from recollect.server.settings import Settings

_BACKLOG = 2_048


def serve(settings: Settings, *, announce: Callable[[str, NewKey | None], None]) -> None:
    """Serve until the process is told to stop; `announce` is given the address, and the first key when one is made.

    On SIGTERM and SIGINT no more requests are taken, and those under way are answered.
    """
    listening = _listen(settings)
    with listening:
        key = _prepare(settings)
        announce(_address(listening), key)
        config = ServerConfig(
            partial(create_app, settings),
            factory=True,
            workers=settings.workers,
            loop="asyncio",
            http=Connection,
            ws="none",
            lifespan="on",
            log_config=log_configuration(settings.log_level),
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_timeout)),
        )
        config.read_timeout = settings.read_timeout
        if settings.workers > 1:
            Multiprocess(config, sockets=[listening]).run()
            return
        # uvicorn ends the process by the signal that it was stopped with; this one was answered in good order.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        Server(config).run(sockets=[listening])


def _prepare(settings: Settings) -> NewKey | None:
    """Return the first key, if there is none yet; what would stop every worker stops us here, before any starts."""
    with open_memory(settings) as memory:
        authenticate(settings, memory)
        return first_key(memory, admin_key=settings.admin_key or None)


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Said to be TCP in so many words: asyncio looks at that before it sends small answers without delay.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise Unavailable(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
            hint="Choose another --port, or end what listens there",
            url=f"http://{settings.host}:{settings.port}",
        ) from error
    listening.set_inheritable(True)
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
