"""A server that is stopped while an answer is made: the answer is kept all the same."""

from __future__ import annotations

import os
import signal
import threading

import memoranda
from memoranda.chat.conversation import read_conversation


def test_a_turn_under_way_is_taken_to_its_end_when_the_server_is_stopped(tmp_path, provider, wire, serving):
    told = threading.Event()

    def slow(asked):
        told.wait(60)
        return wire.says("Kept.")(asked)

    provider.waiting.append(slow)
    (tmp_path / "chat.toml").write_text('[agents.keeper]\nmodel = "openai-chat:made-up"\n')
    variables = {"OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "sk-made-up-for-tests"}
    db = tmp_path / "memory.db"
    with serving(db, MEMORANDA_AGENTS=str(tmp_path), MEMORANDA_SHUTDOWN_TIMEOUT="1", **variables) as one:
        client = one.client(one.key_for("ada"))
        body = {"message": "Hello", "conversation_id": "c1", "message_id": "m1"}
        with client.stream("POST", "/api/v1/agent/keeper/chat", json=body) as answer:
            assert next(answer.iter_lines()).startswith("id:")
        os.kill(one.process.pid, signal.SIGTERM)
        threading.Timer(2.0, told.set).start()
    with memoranda.open(db) as memory:
        found = read_conversation(memory, "ada", "c1")
        assert [part.text for part in found.parts] == ["Hello", "Kept."]
        assert not found.active
