"""Start a server: its socket, first key, worker processes and graceful shutdown."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.process import BaseProcess
from threading import Thread
from types import FrameType
from typing import cast

from litestar import Litestar
from uvicorn import Server
from uvicorn.supervisors.multiprocess import Multiprocess

from memoranda.errors import Unavailable
from memoranda.server.app import create_app, open_memory
from memoranda.server.auth.keys import NewKey, first_key
from memoranda.server.auth.principals import attempt_counter, authenticate
from memoranda.server.exports import remove_old_exports
from memoranda.server.http_protocol import HttpProtocol, ServerConfig
from memoranda.server.logs import log_configuration
from memoranda.server.programs import LocalCounter, ReloadCounter, load_programs
from memoranda.server.settings import Settings
from memoranda.server.sleep_worker import find_extractor

_BIND_HINTS = {
    errno.EADDRINUSE: "Choose another --port, or end what listens there",
    errno.EACCES: "Choose a --port above 1023, which needs no special right",
}
"""Hints by errno; any other error is about the host."""
_BACKLOG = 2_048
_OPEN_FILES = 65_536


def serve(settings: Settings, *, announce: Callable[[str, NewKey | None], None]) -> None:
    """Serve until the process is stopped; call `announce` with the address, and the first key if one was created.

    After SIGTERM or SIGINT no new requests are accepted, and running ones are completed.
    """
    listening = _listen(settings)
    with listening:
        remove_old_exports()
        key = _prepare(settings)
        counter: ReloadCounter = LocalCounter() if settings.workers == 1 else _process_counter()
        config = ServerConfig(
            partial(_create_app, settings, counter),
            factory=True,
            workers=settings.workers,
            loop="auto",
            http=HttpProtocol,
            ws="none",
            lifespan="on",
            log_config=log_configuration(settings.log_level),
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_timeout)),
        )
        config.read_timeout = settings.read_timeout
        _raise_file_limit()
        run = (_one_process if settings.workers == 1 else _workers)(config, listening, counter)
        announce(_address(listening), key)
        run()


def _raise_file_limit() -> None:
    """Raise the limit of open files to what the system allows; the default is 1,024."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if most == resource.RLIM_INFINITY else min(_OPEN_FILES, most)
    if least != resource.RLIM_INFINITY and least < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _process_counter() -> ReloadCounter:
    """Return a counter in memory that the worker processes share; they are started with it."""
    return cast("ReloadCounter", get_context("spawn").Value("Q", 0, lock=False))


def _one_process(config: ServerConfig, listening: socket.socket, counter: ReloadCounter) -> Callable[[], None]:
    server = Server(config)

    on_terminal = os.isatty(0)

    def reload(number: int, frame: FrameType | None) -> None:
        # A terminal that is closed sends this signal, too.
        if on_terminal and not os.isatty(0):
            server.should_exit = True
        else:
            counter.value += 1

    signal.signal(signal.SIGHUP, reload)

    # After a graceful shutdown uvicorn would end the process by the same signal; this handler keeps the exit code 0.
    # It also covers a signal that arrives before uvicorn has installed its own handlers.
    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return lambda: server.run(sockets=[listening])


class _Supervisor(Multiprocess):
    """The parent of the worker processes."""

    def __init__(self, config: ServerConfig, sockets: list[socket.socket], counter: ReloadCounter) -> None:
        super().__init__(config, sockets)
        self._counter = counter
        self._on_terminal = os.isatty(0)

    def handle_hup(self) -> None:
        """Let every worker reload its programs, unless a terminal was closed; uvicorn would replace the workers."""
        if self._on_terminal and not os.isatty(0):
            self.should_exit.set()
        else:
            self._counter.value += 1


def _workers(config: ServerConfig, listening: socket.socket, counter: ReloadCounter) -> Callable[[], None]:
    supervisor = _Supervisor(config, [listening], counter)
    # A terminal sends Ctrl-C to every process of the group. Workers inherit that SIGINT is blocked and are stopped by
    # this process instead, so none of them prints a traceback. Python's resource tracker unblocks SIGINT, so it is
    # started before the first worker.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    Thread(target=lambda: supervisor.signal_queue.append(signal.sigwait({signal.SIGINT})), daemon=True).start()
    return supervisor.run


def _create_app(settings: Settings, counter: ReloadCounter) -> Litestar:
    """Return the application of this process; a worker ends when its parent process does."""
    parent = parent_process()
    if parent is not None:
        # A terminal that is closed sends it to every process; the parent alone lets the programs be reloaded.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        Thread(target=_end_with, args=(parent,), daemon=True).start()
    return create_app(settings, counter=counter)


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _prepare(settings: Settings) -> NewKey | None:
    """Check the settings and programs before any worker starts; return the first key if one was created."""
    with open_memory(settings) as memory:
        authenticate(settings, memory, attempt_counter(settings))
        load_programs(settings, memory)
        if settings.sleep and settings.sleep_model:
            find_extractor(settings.sleep_model)
        return first_key(memory, admin_key=settings.admin_key or None)


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With an explicit protocol: asyncio sets TCP_NODELAY only on sockets whose `proto` is IPPROTO_TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise Unavailable(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
            hint=_BIND_HINTS.get(error.errno or 0, "Choose another --host, such as 127.0.0.1"),
            url=f"http://{settings.host}:{settings.port}",
        ) from error
    listening.set_inheritable(True)
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
