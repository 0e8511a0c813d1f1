"""Send requests over kept-alive connections from a separate process, and time every answer.

As a program, `server_load.py PROCESS PORT TOKEN FULL_TOKEN` reads lines of a kind, a number of connections and a number
of requests, and answers each with one line of JSON. Every connection sends its next request as soon as it has its
answer. The requests are bytes that were made before; the answers are looked at only as far as it takes to know that
they are whole, and `200`.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from types import TracebackType

import msgspec
from children import Child
from machine import cpu_time
from server_ground import Ground
from server_process import Server
from server_requests import Keys, Script, script

_PATIENCE = 60
"""Seconds without any answer after which the server counts as hung."""
_RECEIVED = 262_144
_LENGTH = b"content-length: "


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one series of requests."""

    times: list[int]
    """The nanoseconds from each request to the end of its answer."""
    seconds: float
    """From the first request to the last answer."""
    cpu: float
    """Seconds that the server computed meanwhile."""
    own_cpu: float
    """Seconds that the sender itself computed."""
    errors: int = 0
    """Answers other than 200, and connections that the server ended."""
    first_error: str = ""

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.times) / self.seconds


class Load:
    """The process that sends."""

    def __init__(self, server: Server, ground: Ground) -> None:
        """Start it; it sends nothing yet."""
        self._child = Child(__file__, server.pid, server.port, ground.token, ground.full_token)

    def send(self, kind: str, *, connections: int, count: int) -> Sent:
        """Send so many requests over so many connections; return what came of it."""
        return msgspec.json.decode(self._child.exchange(f"{kind} {connections} {count}"), type=Sent)

    def __enter__(self) -> Load:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let it end."""
        self._child.__exit__(kind, error, trace)


class _Connection:
    """One connection: what it says, and what it has heard of an answer."""

    __slots__ = ("begun", "heard", "number", "script", "socket")

    def __init__(self, port: int, number: int, said: Script) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = number
        self.script = said
        self.heard = b""
        self.begun = 0

    def open(self) -> bytes:
        """Send the first request and return the body of its answer."""
        self.say(next(self.script))
        while (answer := self.hear()) is None:
            pass
        return answer

    def say(self, request: bytes) -> None:
        """Send a request; it is small enough for the buffer of a socket."""
        self.begun = time.perf_counter_ns()
        self.socket.sendall(request)

    def hear(self) -> bytes | None:
        """Take what has arrived; return the body of the answer once it is whole."""
        arrived = self.socket.recv(_RECEIVED)
        if not arrived:
            raise _Refused("the server ended the connection")
        heard = self.heard + arrived if self.heard else arrived
        end = heard.find(b"\r\n\r\n")
        at = heard.find(_LENGTH, 0, end) + len(_LENGTH) if end > 0 else 0
        if end < 0 or len(heard) < end + 4 + int(heard[at : heard.index(b"\r", at)]):
            self.heard = heard
            return None
        self.heard = b""
        if heard[9:12] != b"200":
            raise _Refused(heard.decode(errors="replace"))
        return heard[end + 4 :]


class _Refused(Exception):
    """An answer that was not 200, or none at all."""


class _Series:
    """One series of requests over a number of connections."""

    def __init__(self, server: int, port: int, keys: Keys, kind: str, connections: int, count: int) -> None:
        self._server, self._port, self._keys, self._kind = server, port, keys, kind
        self._count = count
        self._times: list[int] = []
        self._errors: list[str] = []
        self._poll = select.epoll()
        self._open: dict[int, _Connection] = {}
        self._answers = [self._connect(number) for number in range(connections)]

    def _connect(self, number: int) -> tuple[_Connection, bytes]:
        one = _Connection(self._port, number, script(self._kind, self._keys, number))
        answer = one.open()
        self._open[one.socket.fileno()] = one
        self._poll.register(one.socket, select.EPOLLIN)
        return one, answer

    def run(self) -> Sent:
        """Send everything and wait for every answer."""
        served, computed, start = cpu_time(self._server), time.process_time(), time.perf_counter()
        left = self._count
        for one, answer in self._answers[:left]:
            one.say(one.script.send(answer))
            left -= 1
        while len(self._times) + len(self._errors) < self._count:
            ready = self._poll.poll(_PATIENCE)
            if not ready:
                raise RuntimeError(f"no answer to `{self._kind}` for {_PATIENCE} seconds")
            for number, _ in ready:
                left = self._take(self._open[number], left)
        seconds = time.perf_counter() - start
        computed, served = time.process_time() - computed, cpu_time(self._server) - served
        for one in self._open.values():
            one.socket.close()
        self._poll.close()
        return Sent(
            times=self._times,
            seconds=seconds,
            cpu=served,
            own_cpu=computed,
            errors=len(self._errors),
            first_error=self._errors[0] if self._errors else "",
        )

    def _take(self, one: _Connection, left: int) -> int:
        """Take what one connection has heard, and let it say more; return how many requests are then left."""
        try:
            answer = one.hear()
        except (_Refused, OSError) as error:
            self._errors.append(str(error))
            one, answer = self._replace(one)
        else:
            if answer is None:
                return left
            self._times.append(time.perf_counter_ns() - one.begun)
        if left:
            one.say(one.script.send(answer))
            return left - 1
        self._poll.unregister(one.socket)  # a server ends connections that are idle for long, and may
        return 0

    def _replace(self, broken: _Connection) -> tuple[_Connection, bytes]:
        self._poll.unregister(broken.socket)
        del self._open[broken.socket.fileno()]
        broken.socket.close()
        return self._connect(broken.number)


def _answer_lines(server: int, port: int, keys: Keys) -> None:
    for line in sys.stdin:
        kind, connections, count = line.split()
        sent = _Series(server, port, keys, kind, int(connections), int(count)).run()
        print(msgspec.json.encode(sent).decode(), flush=True)


if __name__ == "__main__":
    _answer_lines(int(sys.argv[1]), int(sys.argv[2]), Keys(*sys.argv[3:]))
