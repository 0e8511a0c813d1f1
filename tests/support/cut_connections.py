"""A way to a server of PostgreSQL that is cut on demand, at any statement or answer; or the server is killed there."""

from __future__ import annotations

import shutil
import signal
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import postgres_server

ERRORS = ("statement", "answer", "commit", "crash")
"""What is lost: a statement on its way there, an answer on its way back, that to a COMMIT, or the server."""

_EXECUTE, _QUERY, _COMPLETE, _COMMITTED = b"E", b"Q", b"C", b"COMMIT\0"


class FaultyLine:
    """A socket between a store and its server that cuts connections on demand: a `disk` for `memoranda.testing.sweep`.

    Counted are the statements that are executed, their answers, or the answers to commits, in all connections together.
    A transient fault cuts one connection. A persistent one cuts all and refuses new ones until `heal`.
    """

    def __init__(self, server: postgres_server.PostgresServer) -> None:
        """Listen in a folder of its own."""
        self._server = server
        self.folder = Path(tempfile.mkdtemp(prefix="line-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        self._lock = threading.RLock()
        self._point: tuple[int, bool, str] | None = None
        self._seen = 0
        self._dead = False
        self._hits: Counter[str] = Counter()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    @property
    def url(self) -> str:
        """The address of the server by way of this line."""
        return f"postgresql://owner@/postgres?host={self.folder}"

    @property
    def hits(self) -> Mapping[str, int]:
        """How many connections were cut, or refused, for each error since the last `fail`."""
        with self._lock:
            return dict(self._hits)

    @property
    def fired(self) -> bool:
        """Whether anything was cut since the last `fail`."""
        return bool(self.hits)

    def fail(self, at: int, *, persistent: bool = False, error: str = "answer", only: None = None) -> None:
        """Let the `at`-th of what the error strikes be lost from now, once or with all after it."""
        with self._lock:
            self._point = at, persistent, error
            self._seen = 0
            self._hits.clear()

    def heal(self) -> None:
        """Let everything pass again; start the server if it was killed."""
        with self._lock:
            self._point = None
            if self._dead:
                self._server.start()
                self._dead = False

    def close(self) -> None:
        """Close all connections, and wait for the threads to end."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._cut_all()
        for thread in self._threads:
            thread.join(60)
        shutil.rmtree(self.folder)

    def __enter__(self) -> FaultyLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        self.close()

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
            far = socket.socket(socket.AF_UNIX)
            try:
                if self._is_cut():
                    raise ConnectionError
                far.connect(str(self._server.folder / ".s.PGSQL.5432"))
            except OSError:
                _close(near, far)
                continue
            with self._lock:
                self._open |= {near, far}
            self._run(self._forward, near, far, False)
            self._run(self._forward, far, near, True)

    def _forward(self, source: socket.socket, target: socket.socket, back: bool) -> None:
        """Pass whole messages on, up to the one that is lost."""
        held = b""
        started = back  # the first message of a client has no letter
        try:
            while chunk := source.recv(1 << 16):
                held += chunk
                passed = 0
                while message := _message(held, passed, started):
                    started = True
                    if self._is_lost(message, back):
                        target.sendall(held[:passed])
                        return
                    passed += len(message)
                target.sendall(held[:passed])
                held = held[passed:]
        except OSError:
            return  # the other side is gone
        finally:
            _close(source, target)
            with self._lock:
                self._open -= {source, target}

    def _is_lost(self, message: bytes, back: bool) -> bool:
        with self._lock:
            if self._point is None:
                return False
            at, persistent, error = self._point
            if self._seen >= at and persistent:
                return True
            if not _strikes(error, message, back):
                return False
            self._seen += 1
            if self._seen != at:
                return False
            self._hits[error] += 1
            if error == "crash":
                self._server.stop(signal.SIGQUIT)
                self._dead = True
                if not persistent:
                    self._server.start()
                    self._dead = False
        if persistent:
            self._cut_all()
        return True

    def _is_cut(self) -> bool:
        """Say whether a new connection is refused."""
        with self._lock:
            refused = self._point is not None and self._point[1] and self._seen >= self._point[0]
            if refused and self._point is not None:
                self._hits[self._point[2]] += 1
            return refused

    def _cut_all(self) -> None:
        with self._lock:
            cut = list(self._open)
        _close(*cut)


def _message(held: bytes, start: int, has_letter: bool) -> bytes | None:
    """Return the whole message at a place, or None if it has not arrived whole."""
    before = int(has_letter)
    if len(held) < start + before + 4:
        return None
    end = start + before + int.from_bytes(held[start + before : start + before + 4], "big")
    return held[start:end] if len(held) >= end else None


def _strikes(error: str, message: bytes, back: bool) -> bool:
    letter = message[:1]
    if error in ("statement", "crash"):
        return not back and letter in (_EXECUTE, _QUERY)
    return back and letter == _COMPLETE and (error == "answer" or message[5:] == _COMMITTED)


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)  # which wakes the thread that reads from it
        one.close()
