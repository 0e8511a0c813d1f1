"""All remembered text is escaped: no page contains it as markup."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda.model.policy import OWNER, Policy, Rule

ATTACK = """<script>alert("x")</script><img src=x onerror='alert(1)'>{{ 7 * 7 }}"""
MARKS = ("<script>alert", "<img src=x", "onerror='alert")


def check(answer: Any) -> None:
    """Make sure that the attack is on a page, and that it is text."""
    assert answer.status_code in (200, 404, 409, 422), answer.text
    assert "alert" in answer.text, "the page does not show it at all"
    for mark in MARKS:
        assert mark not in answer.text
    assert "&lt;script&gt;alert" in answer.text or "%3Cscript%3Ealert" in answer.text
    assert "49" not in answer.text.partition("{{")[2].partition("}}")[0]


@pytest.fixture
def hostile(house: Any) -> Any:
    """A tenant in which everything that has a name or a text holds the attack."""
    agent = house.memory.acting_as(ATTACK, policy=OWNER, door=ATTACK, source=ATTACK)
    ada = agent.scope(user=ATTACK)
    ada.set(f"key.{ATTACK}", {ATTACK: ATTACK}, domain=ATTACK)
    ada.set(f"key.{ATTACK}", [ATTACK], source=ATTACK)
    ada.blocks.update("core", f"- {ATTACK}", expected_updated_at=None)
    agent.scope(user=ATTACK, agent=ATTACK).blocks.update("archival", f"- {ATTACK}", expected_updated_at=None)
    ada.remember(ATTACK, collection="notes", metadata={"m": ATTACK}, namespace=ATTACK)
    schema = {"type": "object", "description": ATTACK, "additionalProperties": True}
    house.memory.definitions.create(name=ATTACK, slug="attack", schema=schema)
    ada.set("attack", {"a": ATTACK})
    house.talk(ATTACK, f"I prefer {ATTACK}", id=ATTACK)
    memoranda.sleep.run_sleep_time(house.memory, ATTACK, user=ATTACK)
    careful = Policy(rules=(Rule("approve", "memory.write"),))
    with pytest.raises(memoranda.ApprovalRequired):
        house.memory.acting_as(ATTACK, policy=careful, door="x").scope(user=ATTACK).set("waits", ATTACK)
    return house


def test_no_page_holds_what_is_remembered_as_markup(hostile: Any) -> None:
    visitor = hostile.visitor()
    scope = hostile.memory.scope(user=ATTACK).scope.path
    definition = hostile.memory.definitions.get("attack")
    pages: list[tuple[str, dict[str, str]]] = [
        ("", {}),
        ("/definitions", {}),
        ("/definitions", {"search": ATTACK}),
        (f"/definitions/{definition.id}", {}),
        (f"/definitions/{definition.id}", {"owner": ATTACK}),
        (f"/definitions/{definition.id}/edit", {}),
        (f"/definitions/{definition.id}/delete", {}),
        ("/facts", {"scope": scope}),
        ("/facts", {"scope": ATTACK}),
        ("/facts", {"scope": scope, "prefix": ATTACK, "as_of": ATTACK}),
        ("/facts/one", {"scope": scope, "key": f"key.{ATTACK}"}),
        ("/facts/one", {"scope": scope, "key": ATTACK}),
        ("/facts/new", {"scope": ATTACK, "key": ATTACK}),
        ("/blocks", {}),
        ("/blocks", {"user": ATTACK}),
        ("/blocks/one", {"user": ATTACK, "block": "core"}),
        ("/blocks/one", {"user": ATTACK, "agent": ATTACK, "block": "archival"}),
        ("/blocks/one", {"user": ATTACK, "block": ATTACK}),
        ("/collections/one", {"name": "notes", "scope": scope}),
        ("/collections/one", {"name": "notes", "scope": scope, "query": ATTACK}),
        ("/ledger", {}),
        ("/ledger", {"actor": ATTACK}),
        (f"/ledger/{hostile.memory.ledger.tail(1)[0].position}", {}),
        ("/approvals", {}),
        ("/conversations", {}),
        ("/conversations/one", {"user": ATTACK, "id": ATTACK}),
        ("/sleep", {}),
        ("/erase", {"user": ATTACK}),
        ("/sign-in", {}),
    ]
    for path, parameters in pages[:-1]:
        check(visitor.get(path, **parameters))
    visitor.post("/sign-out")
    check(visitor.get("/sign-in", onwards=f"/admin/{ATTACK}"))


def test_what_was_typed_comes_back_as_text(hostile: Any) -> None:
    visitor = hostile.visitor()
    check(visitor.post("/facts/new", scope=ATTACK, key=ATTACK, value=ATTACK, ttl=ATTACK))
    check(visitor.post("/blocks/one", user="ada", agent="", block="core", stamp="2020-01-01T00:00:00Z", text=ATTACK))
    check(visitor.post("/erase", user=ATTACK, typed="other"))
    fields = {"name": ATTACK, "slug": ATTACK, "scope": ATTACK, "ttl": ATTACK, "mode": ATTACK, "schema": ATTACK}
    check(visitor.post("/definitions/new", **fields))


def test_an_address_cannot_make_a_page_say_something(house: Any) -> None:
    visitor = house.visitor()
    assert "Saved." in visitor.read("/facts", done="saved")
    page = visitor.read("/facts", done="Your account is locked")
    assert "locked" not in page and "Saved." not in page
