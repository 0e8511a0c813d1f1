"""The pages permit no more than the API does: by role, by user, by tenant, and by the restrictions of a key."""

from __future__ import annotations

import re
from typing import Any

import pytest
from litestar.routes import HTTPRoute

import memoranda
from memoranda.server.admin.app import create_pages
from memoranda.server.admin.sessions import ENTRANCE
from memoranda.server.auth.principals import attempt_counter
from memoranda.server.programs import load_programs
from memoranda.server.settings import Settings

SCHEMA = '{"type": "object", "properties": {"hives": {"type": "integer"}}}'
PLACE = {"scope": "user:ada", "key": "room"}
BLOCK = {"user": "ada", "agent": "", "block": "core"}
PAGES: dict[str, dict[str, str]] = {
    "": {},
    "/definitions": {},
    "/definitions/keeper": {},
    "/facts": {"scope": "user:ada"},
    "/facts/one": PLACE,
    "/blocks": {"user": "ada"},
    "/blocks/one": {"user": "ada", "block": "core"},
    "/collections": {},
    "/collections/one": {"name": "notes", "scope": "user:ada"},
    "/conversations": {},
    "/conversations/one": {"user": "ada", "id": "chat"},
    "/sleep": {},
    "/runs": {},
}
"""The pages that a reader sees."""


def forms(house: Any) -> dict[str, dict[str, str]]:
    """Return every form that changes something, filled in so that it would."""
    stamp = house.memory.scope(user="ada").blocks.get("core").updated_at.isoformat()
    definition = {"name": "K", "slug": "k", "scope": "global", "ttl": "", "mode": "replace", "schema": SCHEMA}
    seen = house.memory.definitions.get("keeper").updated_at.isoformat()
    talk = {"user": "ada", "conversation": "chat"}
    return {
        "/definitions/new": definition,
        "/definitions/{id:str}/edit": definition | {"seen": seen},
        "/definitions/{id:str}/delete": {"typed": "keeper"},
        "/facts/new": PLACE | {"key": "other", "value": "1", "ttl": ""},
        "/facts/one": PLACE | {"version": "1", "value": "2", "ttl": ""},
        "/facts/delete": PLACE | {"version": "1"},
        "/facts/restore": PLACE | {"version": "1", "restored": "1"},
        "/blocks/one": BLOCK | {"stamp": stamp, "text": "- Other"},
        "/blocks/undo": BLOCK | {"stamp": stamp},
        "/blocks/delete": BLOCK | {"stamp": stamp},
        "/collections/forget": {"name": "notes", "scope": "user:ada", "namespace": "", "id": "entry_x"},
        "/approvals": {"approval": "approval_x", "verdict": "approved", "reason": ""},
        "/sleep/undo": talk,
        "/sleep/retry": {"scope": "user:ada/thread:chat", "kind": "sleep"},
        "/erase": {"user": "ada", "typed": "ada"},
    }


@pytest.fixture
def filled(house: Any) -> Any:
    """A tenant in which ada has something of everything."""
    ada = house.memory.scope(user="ada")
    ada.set("room", 1)
    ada.blocks.update("core", "- Something", expected_updated_at=None)
    ada.blocks.update("core", "- Has a kiln", expected_updated_at=ada.blocks.get("core").updated_at)
    ada.remember("The ferry leaves at nine", collection="notes")
    house.memory.definitions.create(name="Keeper", slug="keeper", schema={"type": "object"})
    house.talk("ada", "I prefer tea.")
    memoranda.sleep.run_sleep_time(house.memory, "chat", user="ada")
    return house


def test_every_route_that_changes_something_is_among_those_tried_here(filled: Any) -> None:
    with memoranda.open(":memory:") as memory:
        pages = create_pages(Settings(), memory, load_programs(Settings(), memory), attempt_counter(Settings()))
    handlers = [
        (route.path.removeprefix("/admin"), handler)
        for route in pages.routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
    ]
    changing = {path for path, handler in handlers if set(handler.http_methods) - {"GET", "HEAD", "OPTIONS"}}
    assert changing == {*forms(filled), "/sign-in", "/sign-out"}
    open_to_all = {path for path, handler in handlers if handler.opt.get(ENTRANCE)}
    assert open_to_all == {"/sign-in", "/sign-out", "/static/{digest:str}/{name:str}"}


def test_a_reader_sees_pages_without_buttons_that_write_and_is_refused_all_the_same(filled: Any) -> None:
    reader, admin = filled.visitor("ada", "reader"), filled.visitor()
    for path, parameters in PAGES.items():
        answer = reader.get(path, **parameters)
        assert answer.status_code == 200, (path, answer.text)
        offered = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', answer.text)
        assert answer.text.count('method="post"') == len(offered)
        assert offered == ["/admin/sign-out"], path
    for path in ("/definitions/new", "/definitions/keeper/edit", "/definitions/keeper/delete", "/facts/new", "/erase"):
        assert (reader.get(path).status_code, admin.get(path).status_code) == (403, 200), path
    position = filled.memory.ledger.tail(1)[0].position
    for path, fields in forms(filled).items():
        refused = reader.post(path.replace("{id:str}", "keeper"), **fields)
        assert refused.status_code == 403, (path, refused.text)
    effects = [event for event in filled.memory.ledger.events(start=position + 1) if event.decision != "deny"]
    assert [event.effect for event in effects if event.actor == "user:ada"] == []
    assert filled.memory.scope(user="ada").value("room") == 1
    assert 'action="/admin/facts/delete"' in admin.get("/facts/one", **PLACE).text
    assert admin.post("/facts/one", **forms(filled)["/facts/one"]).status_code == 303


def test_a_reader_is_offered_no_section_that_is_closed_to_them(filled: Any) -> None:
    reader, admin = filled.visitor("ada", "reader"), filled.visitor()
    for section in ("Ledger", "Approvals", "Erase a user"):
        assert f">{section}</a>" not in reader.get("").text
        assert f">{section}</a>" in admin.get("").text
    for path in ("/ledger", "/ledger/1", "/ledger/verify", "/approvals"):
        refused = reader.get(path)
        assert (refused.status_code, admin.get(path).status_code) == (403, 200)
        assert (
            "Sign in with a key that is allowed to do this" in refused.text and "permissions.grant" not in refused.text
        )


def test_a_member_changes_their_own_memory_and_sees_nobody_elses(filled: Any) -> None:
    ada, ben = filled.visitor("ada", "member"), filled.visitor("ben", "member")
    theirs = {
        "/facts": {"scope": "user:ada"},
        "/facts/one": PLACE,
        "/blocks": {"user": "ada"},
        "/blocks/one": {"user": "ada", "block": "core"},
        "/collections/one": {"name": "notes", "scope": "user:ada"},
        "/conversations": {"user": "ada"},
        "/conversations/one": {"user": "ada", "id": "chat"},
        "/sleep": {"user": "ada"},
    }
    for path, parameters in theirs.items():
        assert ada.get(path, **parameters).status_code == 200, path
        refused = ben.get(path, **parameters)
        assert refused.status_code == 403, (path, refused.text)
        assert "kiln" not in refused.text and "ferry" not in refused.text and "tea" not in refused.text
    for path, fields in forms(filled).items():
        assert ben.post(path.replace("{id:str}", "keeper"), **fields).status_code == 403, path
    assert ada.post("/facts/one", **forms(filled)["/facts/one"]).status_code == 303
    fact = filled.memory.scope(user="ada").get("room")
    assert (fact.value, fact.origin.actor, fact.origin.door) == (2, "user:ada", "admin")


def test_a_member_who_may_read_what_is_shared_sees_that_and_nobody_elses(filled: Any) -> None:
    shared = filled.memory.scope()
    shared.set("opening", "at nine")
    ben = filled.visitor("ben", "member")
    assert ben.get("/facts", scope="(shared)").status_code == 403
    filled.memory.permissions.grant("*", "memory.read", scope=shared.scope)
    assert "at nine" in ben.read("/facts", scope="(shared)")
    for path, parameters in {"/facts": {"scope": "user:ada"}, "/blocks": {"user": "ada"}}.items():
        assert ben.get(path, **parameters).status_code == 403
    for path in ("/blocks", "/conversations", "/sleep"):
        page = ben.get(path)
        assert page.status_code == 200 and "ada" not in page.text, path
        assert "ada" in filled.visitor().read(path)
    assert ben.post("/facts/new", scope="(shared)", key="other", value="1", ttl="").status_code == 403


def test_one_tenant_knows_nothing_of_another(filled: Any) -> None:
    stranger, inside = filled.visitor(tenant=f"{filled.tenant}-other"), filled.visitor()
    assert "- Has a kiln" in inside.read("/blocks")
    assert "- Has a kiln" not in stranger.read("/blocks")
    assert "No facts in this scope yet" in stranger.read("/facts", scope="user:ada")
    for path in ("/definitions/keeper", "/facts/one", "/conversations/one"):
        assert inside.get(path, **PAGES[path]).status_code == 200
        assert stranger.get(path, **PAGES[path]).status_code == 404
    assert stranger.post("/facts/delete", **PLACE, version="1").status_code in (303, 409)
    assert filled.memory.scope(user="ada").value("room") == 1


def test_a_key_that_is_narrowed_is_narrowed_here_too(filled: Any) -> None:
    narrowed = filled.visitor(allow=("memory.read", "definitions.read", "collections.read", "runs.read"))
    page = narrowed.get("/facts/one", **PLACE)
    assert page.status_code == 200 and 'action="/admin/facts/delete"' not in page.text
    assert narrowed.get("/ledger").status_code == 403
    least = filled.visitor("ada", "member", allow=("collections.read",)).get("")
    assert least.status_code == 200 and ">Collections</a>" in least.text and "2</b> collections" in least.text
    for section in ("Facts", "Blocks", "Definitions", "Runs", "Ledger"):
        assert f">{section}</a>" not in least.text and f">{section}</a>" in filled.visitor().get("").text
    assert narrowed.post("/facts/one", **forms(filled)["/facts/one"]).status_code == 403
    assert filled.visitor().get("/ledger").status_code == 200
