"""Over HTTP: a client that guesses keys is made to wait, and no other client is."""

from __future__ import annotations

from typing import Any

import httpx
import jwt
import pytest

from memoranda.model.clock import SystemClock
from memoranda.server.auth.keys import first_key

SECRET = "a-secret-of-the-orchard-that-is-long-enough"
CHOSEN = "plum-and-damson-jam"
MOST = 4


def signed(key: str = SECRET, *, lasts: int = 3_600) -> str:
    end = int(SystemClock().now().timestamp()) + lasts
    return jwt.encode({"sub": "pippin", "tenant": "orchard", "exp": end}, key, algorithm="HS256")


def status(site: Any, token: str, address: str, **headers: str) -> int:
    """Return the status of a request from one of the loopback addresses."""
    with httpx.Client(base_url=site.url, transport=httpx.HTTPTransport(local_address=address), timeout=30) as http:
        answer = http.get("/api/v1/memory/facts", headers={"Authorization": f"Bearer {token}", **headers})
    if answer.status_code == 429:
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert answer.json()["code"] == "quota_exceeded"
    return answer.status_code


def sign_in(site: Any, key: str, address: str) -> httpx.Response:
    with httpx.Client(base_url=site.url, transport=httpx.HTTPTransport(local_address=address), timeout=30) as http:
        return http.post("/admin/sign-in", data={"key": key}, headers={"Sec-Fetch-Site": "same-origin"})


@pytest.fixture(scope="module")
def guarded(start_site):
    site = start_site(wrong_keys=MOST, jwt_secret=SECRET)
    first_key(site.memory, admin_key=CHOSEN)
    return site


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("127.0.1.1", lambda site: f"mk_0123456789abcdef_{'x' * 43}"),
        ("127.0.1.2", lambda site: site.token("pippin")[:-1] + "~"),
        ("127.0.1.3", lambda site: "plum-and-damson-jelly"),
        ("127.0.1.4", lambda site: signed("x" * 40)),
        ("127.0.1.5", lambda site: "a.b.c"),
    ],
)
def test_an_address_that_tries_keys_has_to_wait_and_no_other_has(guarded, address, wrong):
    token, other = wrong(guarded), address.replace("127.0.1", "127.0.2")
    statuses = [status(guarded, token, address) for _ in range(MOST + 3)]
    assert statuses == [401] * MOST + [429] * 3
    right = guarded.token("pippin")
    assert [status(guarded, one, other) for one in (token, right, signed(), CHOSEN)] == [401, 200, 200, 200]
    # What cannot be guessed passes from here too; the right guess at a chosen key looks like a wrong one.
    assert [status(guarded, one, address) for one in (right, signed(), CHOSEN)] == [200, 200, 429]
    assert sign_in(guarded, CHOSEN, address).status_code == 429


def test_the_page_to_sign_in_on_counts_too(guarded):
    address = "127.0.3.1"
    for _ in range(MOST):
        assert sign_in(guarded, "plum-and-damson-jelly", address).status_code == 401
    refused = sign_in(guarded, "plum-and-damson-jelly", address)
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
    assert "too many wrong keys" in refused.text
    assert status(guarded, "plum-and-damson-jelly", address) == 429
    assert sign_in(guarded, CHOSEN, address).status_code == 429
    assert sign_in(guarded, CHOSEN, "127.0.3.2").status_code == 303
    assert sign_in(guarded, guarded.token("pippin"), address).status_code == 303


def test_tokens_that_have_expired_and_requests_without_any_are_no_attempts(guarded):
    address = "127.0.4.1"
    for _ in range(MOST + 2):
        assert status(guarded, signed(lasts=-5), address) == 401
    with httpx.Client(base_url=guarded.url, transport=httpx.HTTPTransport(local_address=address)) as http:
        assert {http.get("/api/v1/memory/facts").status_code for _ in range(MOST + 2)} == {401}
    assert status(guarded, CHOSEN, address) == 200


def test_behind_a_proxy_of_ours_clients_are_told_apart_and_elsewhere_they_cannot_say_who_they_are(start_site, guarded):
    behind = start_site(wrong_keys=MOST, proxies=["127.0.0.0/8"])
    statuses = [status(behind, "wrong-wrong-wrong", "127.0.5.1", **{"X-Forwarded-For": "192.0.2.1"}) for _ in range(6)]
    assert statuses == [401] * MOST + [429] * 2
    assert status(behind, "wrong-wrong-wrong", "127.0.5.1", **{"X-Forwarded-For": "192.0.2.1, 192.0.2.2"}) == 401
    statuses = [
        status(guarded, "wrong-wrong-wrong", "127.0.5.2", **{"X-Forwarded-For": f"192.0.2.{n}"}) for n in range(6)
    ]
    assert statuses == [401] * MOST + [429] * 2
