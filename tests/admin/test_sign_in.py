"""Signing in: keys, cookies, sessions that end, cross-site forms, and the security headers of every response."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from memoranda.model.scope import Scope
from memoranda.server.admin.sessions import COOKIE, find_session
from memoranda.server.auth.keys import SYSTEM_TENANT, find_key, revoke_key


def cookie_of(visitor: Any) -> str:
    return visitor.client.cookies[COOKIE]


def test_nobody_sees_a_page_without_signing_in_and_is_led_back_to_it_afterwards(house: Any) -> None:
    house.memory.scope(user="ada").set("colour", "blue")
    with httpx.Client(base_url=house.address, headers={"Origin": house.address}) as stranger:
        led = stranger.get("/admin/facts", params={"scope": "user:ada"})
        assert (led.status_code, "blue" in led.text) == (303, False)
        entrance = led.headers["Location"]
        assert entrance.startswith("/admin/sign-in?onwards=%2Fadmin%2Ffacts%3Fscope%3Duser")
        assert stranger.get(entrance).status_code == 200
        onwards = "/admin/facts?scope=user%3Aada"
        entered = stranger.post("/admin/sign-in", data={"key": house.key(), "onwards": onwards})
        assert (entered.status_code, entered.headers["Location"]) == (303, onwards)
        assert "blue" in stranger.get(onwards).text
        elsewhere = stranger.post("/admin/sign-in", data={"key": house.key(), "onwards": "/admin/runs/кіт"})
        assert (elsewhere.status_code, elsewhere.headers["Location"]) == (303, "/admin/runs/%D0%BA%D1%96%D1%82")


@pytest.mark.parametrize(
    "onwards", ["https://evil.example", "//evil.example", "/administrate", "/admin/\\x\r\nSet-Cookie:a=b"]
)
def test_signing_in_leads_nowhere_else(house: Any, onwards: str) -> None:
    with httpx.Client(base_url=house.address, headers={"Origin": house.address}) as stranger:
        answer = stranger.post("/admin/sign-in", data={"key": house.key(), "onwards": onwards})
        assert (answer.status_code, answer.headers["Location"]) == (303, "/admin")


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites_and_holds_no_key(house: Any) -> None:
    key = house.key()
    with httpx.Client(base_url=house.address, headers={"Origin": house.address}) as browser:
        told = browser.post("/admin/sign-in", data={"key": key}).headers["Set-Cookie"]
        parts = told.split("; ")
        assert {"HttpOnly", "SameSite=Strict", "Path=/admin"} <= set(parts)
        assert "Secure" not in parts
        secret = parts[0].partition("=")[2]
        assert len(secret) >= 40 and secret not in key and key not in told
        encrypted = {"Origin": house.address.replace("http:", "https:")}
        told = browser.post("/admin/sign-in", data={"key": key}, headers=encrypted).headers["Set-Cookie"]
        assert "Secure" in told.split("; ")


def test_the_database_holds_neither_the_key_nor_the_cookie(house: Any) -> None:
    key = house.key()
    with httpx.Client(base_url=house.address, headers={"Origin": house.address}) as browser:
        browser.post("/admin/sign-in", data={"key": key})
        secret = browser.cookies[COOKIE]
    kept = house.memory.in_tenant(SYSTEM_TENANT).at(Scope(tenant=SYSTEM_TENANT)).list("pages")
    assert kept
    for fact in kept:
        assert key not in fact.value and secret not in fact.value and secret not in fact.key
        assert fact.expires_at is not None


@pytest.mark.parametrize("key", ["", "mk_unknown_" + "x" * 43, "schlüssel", "x" * 9_000, "a.b.c"])
def test_what_is_no_key_gets_nobody_in(house: Any, key: str) -> None:
    with httpx.Client(base_url=house.address, headers={"Origin": house.address}) as stranger:
        answer = stranger.post("/admin/sign-in", data={"key": key})
        assert answer.status_code == 401
        assert "Sign-in failed" in answer.text
        assert COOKIE not in stranger.cookies
        assert stranger.post("/admin/sign-in", data={"key": house.key()}).status_code == 303


def test_signing_out_ends_the_session_also_for_whoever_kept_the_cookie(house: Any) -> None:
    visitor = house.visitor()
    kept = {COOKIE: cookie_of(visitor)}
    with httpx.Client(base_url=house.address, cookies=kept) as thief:
        assert thief.get("/admin").status_code == 200
        assert visitor.post("/sign-out").headers["Location"] == "/admin/sign-in"
        assert visitor.get("").status_code == 303
        assert thief.get("/admin").status_code == 303


def test_signing_in_anew_ends_the_session_before(house: Any) -> None:
    visitor = house.visitor()
    before = {COOKIE: cookie_of(visitor)}
    assert visitor.post("/sign-in", key=house.key("eve")).status_code == 303
    assert ">eve<" in visitor.get("").text
    assert httpx.get(f"{house.address}/admin", cookies=before).status_code == 303


def test_a_session_is_known_to_every_process_on_the_database(house: Any) -> None:
    visitor = house.visitor("eve", "reader")
    principal = find_session(house.memory, cookie_of(visitor)).principal
    assert (principal.user, principal.role, principal.tenant) == ("eve", "reader", house.tenant)


def test_a_key_that_is_revoked_ends_its_sessions_at_once(house: Any) -> None:
    key = house.key()
    with httpx.Client(base_url=house.address, headers={"Origin": house.address}) as browser:
        browser.post("/admin/sign-in", data={"key": key})
        assert browser.get("/admin").status_code == 200
        revoke_key(house.memory, find_key(house.memory, key).id)
        assert browser.get("/admin").status_code == 303


def test_a_cookie_that_somebody_made_up_opens_nothing(house: Any) -> None:
    real = cookie_of(house.visitor())
    for secret, status in ((real, 200), (real[:-1], 303), ("", 303), ("x" * 5_000, 303), ("é", 303)):
        sent = {b"Cookie": f"{COOKIE}={secret}".encode()}
        assert httpx.get(f"{house.address}/admin", headers=sent).status_code == status


def test_the_cookie_opens_no_route_and_a_token_no_page(house: Any) -> None:
    visitor = house.visitor()
    assert visitor.client.get("/api/v1/memory/facts").status_code == 401
    headers = {"Authorization": f"Bearer {house.key()}"}
    assert httpx.get(f"{house.address}/admin", headers=headers).status_code == 303
    assert httpx.get(f"{house.address}/api/v1/memory/facts", headers=headers).status_code == 200


def test_a_form_needs_the_token_of_its_session(house: Any) -> None:
    visitor, other = house.visitor(), house.visitor()
    fields = {"scope": "user:ada", "key": "colour", "value": '"red"', "ttl": ""}
    for token in ("", "0" * 64, other.token, "ä"):
        assert visitor.post("/facts/new", **fields | {"form_token": token}).status_code == 403
    assert visitor.client.post("/admin/facts/new", data=fields).status_code == 403
    assert house.memory.scope(user="ada").get("colour") is None
    assert visitor.post("/facts/new", **fields).status_code == 303
    assert house.memory.scope(user="ada").value("colour") == "red"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_form_from_elsewhere_changes_nothing_even_with_the_token(house: Any, headers: dict[str, str]) -> None:
    visitor = house.visitor()
    fields = {"scope": "user:ada", "key": "colour", "value": '"red"', "ttl": "", "form_token": visitor.token}
    answer = visitor.client.post("/admin/facts/new", data=fields, headers=headers)
    assert answer.status_code == 403
    assert house.memory.scope(user="ada").get("colour") is None
    assert visitor.client.post("/admin/sign-in", data={"key": house.key()}, headers=headers).status_code == 403
    assert visitor.post("/facts/new", **fields).status_code == 303


def test_a_form_is_a_form(house: Any) -> None:
    visitor = house.visitor()
    form = {"scope": "user:ada", "key": "colour", "value": "1", "ttl": "", "form_token": visitor.token}
    assert visitor.client.post("/admin/facts/new", json=form).status_code == 415
    broken = visitor.client.post(
        "/admin/facts/new", content=b"form_token=%FF", headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert broken.status_code == 400
    assert visitor.post("/facts/new", form_token=visitor.token).status_code == 422
    assert visitor.post("/facts/new", **form).status_code == 303


def test_a_form_that_is_too_large_is_refused_before_it_is_read(house: Any) -> None:
    visitor = house.visitor()
    form = {"scope": "user:ada", "key": "text", "ttl": ""}
    answer = visitor.post("/facts/new", **form, value='"' + "x" * 2_000_000 + '"')
    assert answer.status_code == 413 and "too large" in answer.text
    visitor.done("/facts/new", **form, value='"' + "x" * 10_000 + '"')


def test_every_answer_forbids_foreign_scripts_frames_and_caches(house: Any) -> None:
    visitor = house.visitor()
    answers = [
        visitor.get("/sign-in"),
        visitor.get(""),
        visitor.get("/facts/one", scope="user:ada", key="missing"),
        visitor.get("/nowhere"),
        visitor.post("/facts/new", form_token="x"),
        httpx.get(f"{house.address}/admin/ledger"),
        httpx.get(f"{house.address}/admin/sign-in"),
    ]
    assert [answer.status_code for answer in answers] == [303, 200, 404, 404, 403, 303, 200]
    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "<script>" not in answer.text and " style=" not in answer.text and " onclick" not in answer.text


def test_files_are_served_under_the_name_of_their_content_and_no_others_are(house: Any) -> None:
    page = house.visitor().get("").text
    sheet = page.partition('rel="stylesheet" href="')[2].partition('"')[0]
    answer = httpx.get(house.address + sheet)
    assert answer.status_code == 200
    assert "immutable" in answer.headers["Cache-Control"] and answer.headers["Content-Type"].startswith("text/css")
    folder = sheet.rpartition("/")[0]
    for name in ("door.py", "..%2Fdoor.py", "%2e%2e/door.py", "htmx.LICENSE.txt"):
        assert httpx.get(f"{house.address}{folder}/{name}").status_code in (303, 404)
    assert httpx.get(f"{house.address}/admin/static/0000000000000000/admin.css").status_code == 404


def test_a_part_of_a_page_that_is_fetched_after_the_session_is_over_takes_the_whole_page_to_the_entrance(
    house: Any,
) -> None:
    visitor = house.visitor()
    fetched = {"HX-Request": "true"}
    assert "HX-Redirect" not in visitor.client.get("/admin/facts", headers=fetched).headers
    visitor.post("/sign-out")
    answer = visitor.client.get("/admin/facts", headers=fetched)
    assert answer.status_code == 401
    assert answer.headers["HX-Redirect"] == "/admin/sign-in?onwards=%2Fadmin%2Ffacts"
