"""A real server in a process of its own, whose clock a test can move: `python served.py <database> <settings>`.

It says its address in one line of JSON. Each line it is given is a command, answered by a line: {"key": {…}} makes an
API key, {"clock": "…"} shows another moment, {"settle": true} waits for what happens in the background. It ends when
there are no more lines.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from datetime import datetime
from typing import Any

import uvicorn

from recollect.api.memory import Memory
from recollect.api.opening import open as open_memory
from recollect.errors import RecollectError
from recollect.server.app import create_app
from recollect.server.auth.keys import create_key
from recollect.server.settings import Settings
from recollect.testing import FakeClock
from recollect.testing.conformance.base import EMBEDDER


def main(database: str, settings: dict[str, Any]) -> None:
    clock = FakeClock()
    memory = open_memory(database, clock=clock, embedder=EMBEDDER, durability="normal")
    app = create_app(Settings(db=database, rate=0, threads=8, **settings), memory)
    # With its protocol said, or asyncio lets small answers wait for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)  # from now on nobody is refused, though the server is still starting
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=2))

    def obey() -> None:
        for line in sys.stdin:
            try:
                say({"done": _done(json.loads(line), memory, clock)})
            except RecollectError as error:
                say({"refused": str(error)})
        server.should_exit = True

    say({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"})
    threading.Thread(target=obey, daemon=True).start()
    server.run(sockets=[listening])
    memory.close()


def _done(command: dict[str, Any], memory: Memory, clock: FakeClock) -> Any:
    if "key" in command:
        return create_key(memory, **command["key"]).token
    if "clock" in command:
        clock.set(datetime.fromisoformat(command["clock"]))
    memory.settle()
    return None


def say(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
