"""An address with several servers behind it: each new connection goes to the next one that takes it."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType


class RoundRobin:
    """A proxy for TCP on a free port of this machine."""

    def __init__(self, ports: Sequence[int]) -> None:
        """Listen, and pass connections on to these ports in turn."""
        self._ports = itertools.cycle(ports)
        self._count = len(ports)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def __enter__(self) -> RoundRobin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            left = list(self._open)
        _close(*left)
        for thread in self._threads:
            thread.join(60)

    def _run(self, work: object, *given: object) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)  # pyright: ignore[reportArgumentType]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # it was closed
            far = self._connect()
            if far is None:
                near.close()
                continue
            with self._lock:
                self._open |= {near, far}
            self._run(self._forward, near, far)
            self._run(self._forward, far, near)

    def _connect(self) -> socket.socket | None:
        for _ in range(self._count):
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", next(self._ports)))
        return None

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while chunk := source.recv(1 << 16):
                target.sendall(chunk)
        except OSError:
            return  # the other side is gone
        finally:
            _close(source, target)
            with self._lock:
                self._open -= {source, target}


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)  # which wakes the thread that reads from it
        one.close()
