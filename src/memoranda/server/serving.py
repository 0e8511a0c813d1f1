"""Settings in, a running server out: its address, its first key, its workers, and an orderly end."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
from collections.abc import Callable
from functools import partial
from multiprocessing import parent_process, resource_tracker
from multiprocessing.process import BaseProcess
from threading import Thread
from types import FrameType

from litestar import Litestar
from uvicorn import Server
from uvicorn.supervisors.multiprocess import Multiprocess

from memoranda.errors import Unavailable
from memoranda.server.app import create_app, open_memory
from memoranda.server.auth.keys import NewKey, first_key
from memoranda.server.callers import authenticate, failed_attempts
from memoranda.server.connections import Connection, ServerConfig
from memoranda.server.exports import remove_leftovers
from memoranda.server.logs import log_configuration
from memoranda.server.programs import load_programs
from memoranda.server.settings import Settings
from memoranda.server.sleeping import extractor_named

_LISTEN_ELSEWHERE = {
    errno.EADDRINUSE: "Choose another --port, or end what listens there",
    errno.EACCES: "Choose a --port above 1023, which needs no special right",
}
"""What to do about an address that cannot be had; anything else is wrong with the host."""
_BACKLOG = 2_048
_CONNECTIONS = 65_536


def serve(settings: Settings, *, announce: Callable[[str, NewKey | None], None]) -> None:
    """Serve until the process is told to stop; `announce` is given the address, and the first key when one is made.

    On SIGTERM and SIGINT no more requests are taken, and those under way are answered.
    """
    listening = _listen(settings)
    with listening:
        remove_leftovers()
        key = _prepare(settings)
        config = ServerConfig(
            partial(_create_app, settings),
            factory=True,
            workers=settings.workers,
            loop="auto",
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
        _allow_connections()
        run = _one_process(config, listening) if settings.workers == 1 else _workers(config, listening)
        announce(_address(listening), key)
        run()


def _allow_connections() -> None:
    """Let this process and its workers hold as many connections as the machine lets them; systems begin at 1,024."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS if most == resource.RLIM_INFINITY else min(_CONNECTIONS, most)
    if least != resource.RLIM_INFINITY and least < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _one_process(config: ServerConfig, listening: socket.socket) -> Callable[[], None]:
    server = Server(config)

    # uvicorn ends the process by the signal that it was stopped with, but this one was answered in good order. Before
    # it begins to serve, and so to listen to signals itself, ours makes it end as soon as it has begun.
    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return lambda: server.run(sockets=[listening])


def _workers(config: ServerConfig, listening: socket.socket) -> Callable[[], None]:
    supervisor = Multiprocess(config, sockets=[listening])
    # A terminal sends Ctrl-C to every process. Workers inherit that they do not hear it: they are told by us to end,
    # also when they are still starting, and say nothing about having been interrupted. What Python starts beside the
    # first of them, it starts before: that lets the signal through again.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    Thread(target=lambda: supervisor.signal_queue.append(signal.sigwait({signal.SIGINT})), daemon=True).start()
    return supervisor.run


def _create_app(settings: Settings) -> Litestar:
    """Return the application of this process; a worker without the process that started it would serve for ever."""
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent,), daemon=True).start()
    return create_app(settings)


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _prepare(settings: Settings) -> NewKey | None:
    """Return the first key, if there is none yet; what would stop every worker stops us here, before any starts."""
    with open_memory(settings) as memory:
        authenticate(settings, memory, failed_attempts(settings))
        load_programs(settings, memory)
        if settings.sleep and settings.sleep_model:
            extractor_named(settings.sleep_model)
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
            hint=_LISTEN_ELSEWHERE.get(error.errno or 0, "Choose another --host, such as 127.0.0.1"),
            url=f"http://{settings.host}:{settings.port}",
        ) from error
    listening.set_inheritable(True)
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
