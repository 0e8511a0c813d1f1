"""The bytes of each kind of request: one script for each connection.

A script yields a request and is given the body of its answer. The first request of a script opens the connection and is
not timed.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import msgspec
from corpus import COLLECTION, LIMIT
from server_ground import AGENT, FACTS, MESSAGE, POLICY, block_agent, block_text, fact_key, questions

Script = Generator[bytes, bytes, None]

HEALTH = "health"
EMPTY = "empty"
FACT = "fact"
PUT = "put"
RECALL = "recall"
PREVIEW = "preview"
MIX = "mix"

EMPTY_PATH = "/api/v1/empty"
"""A route that `server_empty.py` adds."""

MIXED = (*(FACT,) * 14, *(PUT,) * 4, RECALL, "chat")
"""What twenty requests of the mixture are: of a hundred, 70 read, 20 write, 5 recall and 5 chat."""
_TURNS = 10
"""Messages of one conversation."""


class Keys(msgspec.Struct, frozen=True):
    """The tokens that requests are sent with."""

    user: str
    full: str


def script(kind: str, keys: Keys, number: int) -> Script:
    """Return what the connection of a number sends."""
    return _KINDS[kind](keys, number)


def _health(keys: Keys, number: int) -> Script:
    return _again([_request("GET", "/health", None)])


def _empty(keys: Keys, number: int) -> Script:
    return _again([_request("GET", EMPTY_PATH, keys.user)])


def _facts(keys: Keys, number: int) -> Script:
    paths = [f"/api/v1/memory/facts/{fact_key(number * 7 + one * 13)}" for one in range(FACTS)]
    return _again([_request("GET", path, keys.user) for path in paths])


def _recalls(keys: Keys, number: int) -> Script:
    path = f"/api/v1/collections/{COLLECTION}/recall"
    return _again([_request("POST", path, keys.user, {"query": one, "limit": LIMIT}) for one in questions()])


def _previews(keys: Keys, number: int) -> Script:
    body = {"message": MESSAGE, "memory_policy": POLICY}
    return _again([_request("POST", f"/api/v1/agent/{AGENT}/prompts/preview", keys.full, body)])


def _again(requests: Sequence[bytes]) -> Script:
    for turn in itertools.count():
        yield requests[turn % len(requests)]


def _puts(keys: Keys, number: int) -> Script:
    """Replace the block of one agent, each time with the stamp that the answer before gave."""
    path = f"/api/v1/memory/blocks/core?scope=agent&agent_id={block_agent(number)}"
    answer = yield _request("GET", path, keys.user)
    head = _head("PUT", path, keys.user)
    for turn in itertools.count(1):
        answer = yield _with_body(head, _put_body(turn % _TEXTS, answer))


_TEXTS = 64
_STAMP = b'"updated_at":"'
_CONTENTS = [json.dumps(block_text(turn)).encode() for turn in range(_TEXTS)]


def _put_body(turn: int, answer: bytes) -> bytes:
    begin = answer.index(_STAMP) + len(_STAMP)
    stamp = answer[begin : answer.index(b'"', begin)]
    return b'{"content":%b,"expected_updated_at":"%b"}' % (_CONTENTS[turn], stamp)


_serial = itertools.count()


def _chats(keys: Keys, number: int) -> Script:
    """Hold conversations of ten messages each, with a model that repeats what it is told."""
    head = _head("POST", f"/api/v1/agent/{AGENT}/chat", keys.user)
    for turn in itertools.count():
        if turn % _TURNS == 0:
            conversation = f"talk-{os.getpid()}-{next(_serial)}"
        body = {
            "message": f"How high was the water at gauge {turn}?",
            "conversation_id": conversation,
            "message_id": f"said-{turn}",
            "stream": False,
        }
        yield _with_body(head, json.dumps(body).encode())


def _mixed(keys: Keys, number: int) -> Script:
    """Send a bit of everything, each connection beginning at another place."""
    answers: dict[str, bytes] = {}
    scripts = {kind: _KINDS[kind](keys, number) for kind in dict.fromkeys(MIXED)}
    for place in itertools.count(number):
        kind = MIXED[place * 7 % len(MIXED)]
        one = scripts[kind]
        answers[kind] = yield (one.send(answers[kind]) if kind in answers else next(one))


_KINDS: Mapping[str, Callable[[Keys, int], Script]] = {
    HEALTH: _health,
    EMPTY: _empty,
    FACT: _facts,
    PUT: _puts,
    RECALL: _recalls,
    PREVIEW: _previews,
    "chat": _chats,
    MIX: _mixed,
}


def _request(method: str, path: str, token: str | None, body: Any = None) -> bytes:
    head = _head(method, path, token)
    return head + b"\r\n" if body is None else _with_body(head, json.dumps(body).encode())


def _head(method: str, path: str, token: str | None) -> bytes:
    """Return all lines but those about a body."""
    who = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{who}".encode()


def _with_body(head: bytes, body: bytes) -> bytes:
    return b"%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
