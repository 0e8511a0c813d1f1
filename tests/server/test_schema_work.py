"""A definition that one tenant makes, and what it writes there, hold up neither another tenant nor the health check."""

from __future__ import annotations

import threading
from typing import Any

import httpx

FACTS = "/api/v1/memory/facts"
DEFINITIONS = "/api/v1/memory/definitions"
AGAIN = {"$ref": "#/$defs/n"}
ATTACK = {
    "type": "object",
    "properties": {"a": AGAIN},
    "$defs": {"n": {"anyOf": [{"type": "object", "properties": {"a": AGAIN}}] * 2}},
}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def test_an_exponential_schema_holds_up_nobody(start):
    served = start()
    made = served.client().post(DEFINITIONS, json={"name": "Trap", "slug": "trap", "schema": ATTACK})
    assert made.status_code == 201
    attacker = served.client(served.key_for("mallory"))
    bystander = served.client(served.key_for("ada", tenant="other"))
    answers: list[int | str] = []

    def attack() -> None:
        try:
            answers.append(attacker.put(f"{FACTS}/trap", json={"value": nested(62)}, timeout=30).status_code)
        except httpx.TimeoutException:
            answers.append("no answer")

    threads = [threading.Thread(target=attack) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(10):
        assert bystander.get("/health", timeout=20).status_code == 200
        assert bystander.put(f"{FACTS}/note", json={"value": number}, timeout=20).status_code == 200
    for thread in threads:
        thread.join()
    assert answers == [422] * 3
    assert attacker.get(f"{FACTS}/trap").status_code == 404
    # The same definition takes what fits it.
    assert attacker.put(f"{FACTS}/trap", json={"value": {"a": {"a": {}}}}).status_code == 200
