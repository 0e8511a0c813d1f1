"""Over HTTP: signed tokens beside keys, untrue ones refused, and ids that look like others kept apart."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from memoranda.model.clock import SystemClock
from memoranda.server.auth.keys import SYSTEM_TENANT

NOW = int(SystemClock().now().timestamp())
SECRET = "a-secret-of-the-orchard-that-is-long-enough"
THEIRS = "quince-marrow-9f2c"


def problem(answer: Any) -> dict[str, Any]:
    assert answer.headers["content-type"].startswith("application/problem+json"), answer.text
    return answer.json()


@pytest.fixture(scope="module")
def signing(start_site):
    return start_site(jwt=True, jwt_secret=SECRET, jwt_issuer="gate")


def signed(key: str = SECRET, **claims: Any) -> str:
    said = {"sub": "pippin", "tenant": "orchard", "role": "member", "iss": "gate", "exp": NOW + 3_600, **claims}
    return jwt.encode({name: value for name, value in said.items() if value is not ...}, key, algorithm="HS256")


def test_signed_tokens_and_keys_work_beside_each_other(signing):
    assert signing.call(signed(), "PUT", "/memory/facts/a", json={"value": 1}).status_code == 200
    assert signing.call(signing.token("pippin"), "GET", "/memory/facts/a").json()["value"] == 1


def test_a_signed_token_reaches_what_its_claims_say(signing):
    assert signing.call(signed(role="reader"), "PUT", "/memory/facts/b", json={"value": 1}).status_code == 403
    assert signing.call(signed(role=...), "PUT", "/memory/facts/b", json={"value": 1}).status_code == 403
    assert signing.call(signed(role="admin"), "GET", "/ledger").status_code == 200
    assert signing.call(signed(), "PUT", "/memory/facts/b", json={"value": "here"}).status_code == 200
    for other in (signed(tenant="mill"), signed(sub="russet")):
        assert signing.call(other, "GET", "/memory/facts/b").status_code == 404
    assert signing.call(signed(), "GET", "/memory/facts/b").json()["value"] == "here"


@pytest.mark.parametrize(
    "token",
    [
        lambda: signed(exp=NOW - 1),
        lambda: signed(exp=...),
        lambda: signed(nbf=NOW + 3_600),
        lambda: signed(iss="else"),
        lambda: signed(iss=...),
        lambda: signed(aud="else"),
        lambda: signed(tenant=SYSTEM_TENANT, role="admin"),
        lambda: signed(tenant=...),
        lambda: signed(role="Owner"),
        lambda: signed(sub="pip\u200bpin"),
        lambda: signed(key="x" * 40),
        lambda: signed()[:-3],
        lambda: jwt.encode({"sub": "pippin", "tenant": "orchard", "exp": 9e9}, "", algorithm="none"),
        lambda: "a.b.c",
        lambda: "..",
    ],
)
def test_an_untrue_token_is_refused(signing, token):
    answer = signing.call(token(), "GET", "/memory/facts")
    assert (answer.status_code, problem(answer)["code"]) == (401, "unauthenticated")
    assert SECRET not in answer.text + signing.log
    assert signing.call(signed(), "GET", "/memory/facts").status_code == 200


@pytest.mark.parametrize(
    "user",
    [
        "../pippin",
        "pippin/../pippin",
        "pippin/agent:press",
        "user:pippin",
        "pippin%2Fagent:press",
        "%70ippin",
        "pippin/",
        "PIPPIN",
        "p\u0456ppin",
        "\uff50\uff49\uff50\uff50\uff49\uff4e",
        "pippin.",
        "*",
        "%",
        "pippin' OR '1'='1",
    ],
)
def test_an_id_that_looks_like_another_opens_only_its_own_memory(signing, user):
    place = signing.memory.scope(tenant="orchard", user="pippin")
    place.set("secret", THEIRS)
    signing.memory.scope(tenant="orchard", user="pippin", agent="press").set("secret", THEIRS)
    token = signed(sub=user)
    for path in (
        "/memory/facts",
        "/memory/facts/secret",
        "/memory/facts?scope=agent:press",
        "/memory/blocks?scope=all",
    ):
        answer = signing.call(token, "GET", path)
        assert answer.status_code < 500 and THEIRS not in answer.text
    written = signing.call(token, "PUT", "/memory/facts/secret", json={"value": "mine"})
    assert written.status_code == 200
    assert signing.memory.scope(tenant="orchard", user=user).value("secret") == "mine"
    assert place.value("secret") == THEIRS
    assert signing.call(signed(), "GET", "/memory/facts/secret").json()["value"] == THEIRS


def test_public_keys_from_a_file_check_tokens_and_a_public_key_is_no_secret(start_site, tmp_path):
    private = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    public = json.loads(RSAAlgorithm.to_jwk(private.public_key()))
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))
    site = start_site(jwt=True, jwt_algorithm="RS256", jwks=str(file))
    claims = {"sub": "pippin", "tenant": "orchard", "role": "member", "exp": NOW + 3_600}
    right = jwt.encode(claims, private, algorithm="RS256", headers={"kid": "one"})
    assert site.call(right, "PUT", "/memory/facts/a", json={"value": 1}).status_code == 200
    confused = jwt.encode(claims, public["n"], algorithm="HS256", headers={"kid": "one"})
    assert site.call(confused, "GET", "/memory/facts").status_code == 401


def test_while_public_keys_cannot_be_fetched_keys_work_on(start_site):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    site = start_site(jwt=True, jwt_algorithm="RS256", jwks=f"http://127.0.0.1:{port}/keys")
    private = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    claims = {"sub": "pippin", "tenant": "orchard", "exp": NOW + 3_600}
    for _ in range(3):
        answer = site.call(jwt.encode(claims, private, algorithm="RS256"), "GET", "/memory/facts")
        assert answer.status_code == 503 and "fetched" in problem(answer)["detail"]
        assert str(port) not in answer.text
    assert site.call(site.token("pippin"), "GET", "/memory/facts").status_code == 200


def test_a_key_server_that_drips_holds_up_nobody_else(start_site):
    """Waiting tokens take no thread: more of them than the server has threads, and keys are answered."""
    private = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    token = jwt.encode({"sub": "pippin", "tenant": "orchard", "exp": NOW + 3_600}, private, algorithm="RS256")
    asked, over = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            while not over.wait(0.02):
                self.wfile.write(b" ")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as issuer, ThreadPoolExecutor(50) as beside:
        threading.Thread(target=issuer.serve_forever, daemon=True).start()
        site = start_site(jwks=f"http://127.0.0.1:{issuer.server_port}/keys")
        waiting = [beside.submit(site.call, token, "GET", "/memory/facts") for _ in range(50)]
        try:
            wait(waiting, timeout=1)
            while not asked and not any(one.done() for one in waiting):
                time.sleep(0.02)
            assert len(asked) == 1 and not any(one.done() for one in waiting)
            answer = site.call(site.token("pippin"), "PUT", "/memory/facts/a", json={"value": 1}, timeout=3)
            assert answer.status_code == 200
            assert not any(one.done() for one in waiting)
        finally:
            over.set()
            issuer.shutdown()
        assert {one.result().status_code for one in waiting} == {503}


def test_signed_tokens_are_refused_where_they_are_off(site):
    assert site.call(signed(), "GET", "/memory/facts").status_code == 401
    assert site.call(site.token("pippin"), "GET", "/memory/facts").status_code == 200


def test_a_token_names_a_role_that_was_defined(signing):
    unknown = signing.call(signed(role="support"), "GET", "/memory/facts")
    assert (unknown.status_code, "the role `support` does not exist" in unknown.json()["detail"]) == (403, True)
    signing.call(signed(role="admin"), "PUT", "/roles/support", json={"own": ["memory.read"]})
    assert signing.call(signed(role="support"), "GET", "/memory/facts").status_code == 200
    assert signing.call(signed(role="support"), "PUT", "/memory/facts/b", json={"value": 1}).status_code == 403
    assert "support" not in signing.call(signed(role="suport"), "GET", "/memory/facts").json()["hint"]
