"""Signed tokens: true ones are read, everything else is refused, and unsafe settings stop the start."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from memoranda import Unauthenticated, Unavailable, UsageError
from memoranda.server.auth import tokens as jwks
from memoranda.server.auth.keys import SYSTEM_TENANT
from memoranda.server.auth.tokens import token_reader
from memoranda.server.settings import Settings
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import present

SECRET = "a-secret-of-the-orchard-that-is-long-enough"
CLOCK = FakeClock()
NOW = int(CLOCK.now().timestamp())
RIGHT = {"sub": "pippin", "tenant": "orchard", "role": "member", "exp": NOW + 600}

ONE = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
TWO = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def jwk(key: Any, kid: str | None = None, **more: Any) -> dict[str, Any]:
    public = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    return {**public, **({"kid": kid} if kid else {}), **more}


def pem(key: Any) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def signed(claims: dict[str, Any] = RIGHT, key: Any = SECRET, algorithm: str = "HS256", **headers: Any) -> str:
    return jwt.encode(claims, key, algorithm=algorithm, headers=headers)


def encoded(part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def by_hand(header: dict[str, Any], claims: Any, key: bytes = b"") -> str:
    """A token as a forger writes it, whatever libraries refuse to write."""
    body = f"{encoded(header)}.{encoded(claims)}"
    mac = hmac.new(key, body.encode(), hashlib.sha256).digest() if key else b""
    return f"{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


@pytest.fixture
def reader():
    return token_reader(Settings(jwt=True, jwt_secret=SECRET), clock=CLOCK)


@pytest.fixture
def keys_file(tmp_path):
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [jwk(ONE, "one"), jwk(TWO, "two")]}))
    return file


def test_a_token_says_who_calls(reader):
    read = reader.read(signed())
    assert (read.tenant, read.user, read.role) == ("orchard", "pippin", "member")


def test_without_a_role_a_token_only_reads(reader):
    claims = {name: value for name, value in RIGHT.items() if name != "role"}
    assert reader.read(signed(claims)).role == "reader"


def changed(**claims: Any) -> dict[str, Any]:
    return {name: value for name, value in {**RIGHT, **claims}.items() if value is not ...}


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        (changed(exp=NOW), "expired"),
        (changed(exp=NOW - 1), "expired"),
        (changed(exp=0), "expired"),
        (changed(exp=-1e300), "expired"),
        (changed(exp=...), "no claim `exp`"),
        (changed(exp=None), "exp"),
        (changed(exp="2030-01-01"), "not a timestamp"),
        (changed(exp=str(NOW + 600)), "not a timestamp"),
        (changed(exp=True), "not a timestamp"),
        (changed(exp=[NOW + 600]), "not a timestamp"),
        (changed(exp=float("inf")), "not a timestamp"),
        (changed(exp=float("nan")), "not a timestamp"),
        (changed(nbf=NOW + 60), "not valid yet"),
        (changed(nbf="now"), "not a timestamp"),
        (changed(iat=NOW + 60), "not valid yet"),
        (changed(sub=...), "no claim `sub`"),
        (changed(sub=None), "sub"),
        (changed(sub=7), "not valid"),
        (changed(sub=["pippin"]), "not valid"),
        (changed(sub=""), "it is empty"),
        (changed(sub=" pippin"), "white space"),
        (changed(sub="pip\u200bpin"), "U+200B"),
        (changed(sub="pippin\u202e"), "U+202E"),
        (changed(sub="pippin\0"), "U+0000"),
        (changed(sub="cafe\u0301"), "normal form"),
        (changed(sub="p" * 201), "201 characters"),
        (changed(tenant=...), "tenant"),
        (changed(tenant=None), "tenant"),
        (changed(tenant=["orchard"]), "tenant"),
        (changed(tenant=""), "it is empty"),
        (changed(tenant="orch\u00adard"), "U+00AD"),
        (changed(tenant=SYSTEM_TENANT), "is reserved"),
        (changed(role="role:admin"), "not a role"),
        (changed(role=""), "not a role"),
        (changed(role="Admin"), "not a role"),
        (changed(role=["admin"]), "not a role"),
        (changed(role={"admin": True}), "not a role"),
        (changed(role=None), "not a role"),
        (changed(aud="somebody"), "aud"),
    ],
)
def test_a_token_with_a_claim_that_cannot_be_is_refused(reader, claims, said):
    with pytest.raises(Unauthenticated) as refused:
        reader.read(by_hand({"alg": "HS256", "typ": "JWT"}, claims, SECRET.encode()))
    assert said in str(refused.value)
    assert reader.read(signed()).user == "pippin"


def test_a_clock_that_is_a_little_ahead_is_forgiven(reader):
    assert reader.read(signed(changed(nbf=NOW + 5, iat=NOW + 5))).user == "pippin"


def forged() -> dict[str, str]:
    header, body, mac = signed().split(".")
    admin = encoded(changed(role="admin"))
    return {
        "another secret": signed(key="another-secret-that-is-just-as-long-as-ours"),
        "a changed body": f"{header}.{admin}.{mac}",
        "no signature": f"{header}.{body}.",
        "a cut signature": f"{header}.{body}.{mac[:-4]}",
        "algorithm none": by_hand({"alg": "none"}, RIGHT),
        "algorithm None": by_hand({"alg": "None"}, RIGHT),
        "algorithm none, with a signature": by_hand({"alg": "none"}, RIGHT, SECRET.encode()),
        "no algorithm": by_hand({"typ": "JWT"}, RIGHT, SECRET.encode()),
        "an algorithm that is a list": by_hand({"alg": ["HS256"]}, RIGHT, SECRET.encode()),
        "HS512": jwt.encode(RIGHT, SECRET * 2, algorithm="HS512"),
        "RS256 with a key of the forger": signed(key=ONE, algorithm="RS256"),
        "a key that the token brings along": signed(key=ONE, algorithm="RS256", jwk=jwk(ONE)),
        "an address that the token brings along": signed(key=ONE, algorithm="RS256", jku="http://127.0.0.1/k"),
        "a critical header nobody knows": by_hand({"alg": "HS256", "crit": ["x"], "x": 1}, RIGHT, SECRET.encode()),
        "a header that is no JSON": f"AAAA.{body}.{mac}",
        "a body that is a list": by_hand({"alg": "HS256"}, [RIGHT], SECRET.encode()),
        "empty parts": "..",
        "dots": "a.b.c",
        "four parts": f"{signed()}.x",
        "white space": f" {signed()}",
        "nothing": "",
    }


@pytest.mark.parametrize("name", forged())
def test_a_forged_token_is_refused(reader, name):
    with pytest.raises(Unauthenticated) as refused:
        reader.read(forged()[name])
    assert SECRET not in f"{refused.value!r}{refused.value.details}"
    assert refused.value.__cause__ is None
    assert reader.read(signed()).user == "pippin"


@given(st.text(max_size=200))
def test_no_text_at_all_is_taken_for_a_token(text):
    reader = token_reader(Settings(jwt_secret=SECRET), clock=CLOCK)
    assert reader is not None
    with pytest.raises(Unauthenticated):
        reader.read(text)


@given(st.integers(min_value=0), st.integers(min_value=0, max_value=255))
def test_no_single_changed_byte_leaves_a_token_true(place, byte):
    reader = token_reader(Settings(jwt_secret=SECRET), clock=CLOCK)
    token = signed()
    place %= len(token)
    other = token[:place] + chr(byte) + token[place + 1 :]
    assert reader is not None
    try:
        read = reader.read(other)
    except Unauthenticated:
        return
    # The last character of a part has unused bits, so another text may encode the same bytes.
    assert (read.tenant, read.user, read.role) == ("orchard", "pippin", "member")
    assert place in (len(token) - 1, token.index(".") - 1, token.rindex(".") - 1) or other == token


def test_issuer_and_audience_are_asked_for_where_they_are_set():
    settings = Settings(jwt_secret=SECRET, jwt_issuer="gate", jwt_audience="memoranda")
    reader = present(token_reader(settings, clock=CLOCK))
    right = changed(iss="gate", aud=["else", "memoranda"])
    assert reader.read(signed(right)).user == "pippin"
    for wrong in (
        changed(iss="gate"),
        changed(aud="memoranda"),
        changed(iss="gates", aud="memoranda"),
        changed(iss="gate", aud="memorandas"),
        changed(iss=["gate"], aud="memoranda"),
        changed(iss="gate", aud=""),
        changed(iss="gate", aud=[]),
    ):
        with pytest.raises(Unauthenticated):
            reader.read(
                signed(wrong)
                if isinstance(wrong.get("iss", ""), str)
                else by_hand({"alg": "HS256"}, wrong, SECRET.encode())
            )


# public keys


def test_a_token_is_checked_with_the_key_it_names(keys_file):
    reader = present(token_reader(Settings(jwt=True, jwt_algorithm="RS256", jwks=str(keys_file)), clock=CLOCK))
    assert reader.read(signed(key=ONE, algorithm="RS256", kid="one")).user == "pippin"
    assert reader.read(signed(key=TWO, algorithm="RS256", kid="two")).user == "pippin"
    for wrong in (
        signed(key=TWO, algorithm="RS256", kid="one"),
        signed(key=ONE, algorithm="RS256", kid="three"),
        signed(key=ONE, algorithm="RS256"),
        by_hand({"alg": "HS256", "kid": "one"}, RIGHT, pem(ONE)),
        by_hand({"alg": "HS256", "kid": "one"}, RIGHT, json.dumps(jwk(ONE, "one")).encode()),
        by_hand({"alg": "none", "kid": "one"}, RIGHT),
        by_hand({"alg": "RS256", "kid": ["one"]}, RIGHT, pem(ONE)),
        by_hand({"alg": "RS256", "kid": "../../keys.json"}, RIGHT, pem(ONE)),
        signed(),
    ):
        with pytest.raises(Unauthenticated):
            reader.read(wrong)


def test_a_lone_key_needs_no_name(tmp_path):
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [jwk(ONE)]}))
    reader = present(token_reader(Settings(jwt=True, jwt_algorithm="RS256", jwks=str(file)), clock=CLOCK))
    assert reader.read(signed(key=ONE, algorithm="RS256")).user == "pippin"
    with pytest.raises(Unauthenticated):
        reader.read(signed(key=TWO, algorithm="RS256"))


class Issuer:
    """A server that gives out public keys, and counts how often it was asked."""

    def __init__(self) -> None:
        self.answer, self.status, self.asked, self.location = b"", 200, 0, ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Length", str(len(outer.answer)))
                self.end_headers()
                self.wfile.write(outer.answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def give(self, *keys: dict[str, Any]) -> None:
        self.answer = json.dumps({"keys": list(keys)}).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


PATIENCE = 30.0


class Dripping:
    """A server that answers once, and from then on sends a byte now and then, for ever."""

    def __init__(self, answer: bytes, half: str) -> None:
        self.asked = 0
        self._answer, self._half = answer, half
        self._closed = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/keys"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._respond, args=(connection,), daemon=True).start()

    def _respond(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65_536)
            self.asked += 1
            if self.asked == 1:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self._answer) + self._answer)
                return
            begun, drop = {
                "status line": (b"", b"H"),
                "headers": (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
                "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
                "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
            }[self._half]
            connection.sendall(begun)
            while not self._closed.wait(0.02):
                connection.sendall(drop)

    def close(self) -> None:
        self._closed.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def issuer():
    issuer = Issuer()
    yield issuer
    issuer.close()


def look_up(keys: jwks.KeySet, named: str) -> Any:
    """Return a key as a request finds it, after the fetch that was started for it or beside it."""
    waiting = keys.refresh(named)
    if waiting is not None:
        waiting.result(PATIENCE)
    return keys.find(named)


def settle(keys: jwks.KeySet) -> None:
    """Wait for a fetch that a known key does not wait for."""
    waiting = keys.refresh("a key that nobody has")
    if waiting is not None:
        waiting.result(PATIENCE)


def test_keys_from_an_address_are_fetched_once_and_kept_up_with(issuer):
    moment = [1_000.0]
    keys = jwks.open_key_set(issuer.url, now=lambda: moment[0])
    issuer.give(jwk(ONE, "one"))
    assert issuer.asked == 0
    assert look_up(keys, "one").key_id == "one"
    assert look_up(keys, "one") is not None and issuer.asked == 1
    issuer.give(jwk(TWO, "two"))
    assert look_up(keys, "two") is None and issuer.asked == 1  # asked for a moment ago
    moment[0] += jwks.APART
    assert look_up(keys, "two") is not None and issuer.asked == 2
    moment[0] += jwks.FRESH
    assert look_up(keys, "two") is not None
    settle(keys)
    assert issuer.asked == 3
    assert look_up(keys, "one") is None


def test_tokens_that_name_unknown_keys_do_not_make_us_hammer_the_issuer(issuer):
    moment = [1_000.0]
    keys = jwks.open_key_set(issuer.url, now=lambda: moment[0])
    issuer.give(jwk(ONE, "one"))
    for number in range(100):
        assert look_up(keys, f"unknown-{number}") is None
        moment[0] += 0.05
    assert look_up(keys, "one") is not None
    assert issuer.asked == 1


def test_an_issuer_that_fails_leaves_the_keys_that_are_there(issuer):
    moment = [1_000.0]
    keys = jwks.open_key_set(issuer.url, now=lambda: moment[0])
    issuer.give(jwk(ONE, "one"))
    assert look_up(keys, "one") is not None
    for answer, status in ((b"", 500), (b"<html>", 200), (b'{"keys": []}', 200), (b"x" * 2_000_000, 200)):
        issuer.answer, issuer.status = answer, status
        moment[0] += jwks.FRESH
        before = issuer.asked
        assert look_up(keys, "one") is not None
        settle(keys)
        assert look_up(keys, "one") is not None
        assert issuer.asked == before + 1


def test_an_issuer_that_cannot_be_reached_is_no_reason_to_let_anybody_in(issuer):
    moment = [1_000.0]
    keys = jwks.open_key_set(issuer.url, now=lambda: moment[0])
    issuer.status = 503
    for _ in range(3):
        with pytest.raises(Unavailable) as failed:
            look_up(keys, "one")
        assert issuer.url not in str(failed.value)
    assert issuer.asked == 1
    issuer.status = 200
    issuer.give(jwk(ONE, "one"))
    moment[0] += jwks.APART
    assert look_up(keys, "one") is not None


def test_an_issuer_that_redirects_is_not_followed(issuer):
    elsewhere = Issuer()
    elsewhere.give(jwk(ONE, "one"))
    try:
        issuer.status, issuer.location = 302, elsewhere.url
        with pytest.raises(Unavailable):
            look_up(jwks.open_key_set(issuer.url), "one")
        assert (issuer.asked, elsewhere.asked) == (1, 0)
        assert look_up(jwks.open_key_set(elsewhere.url), "one") is not None
    finally:
        elsewhere.close()


@pytest.mark.parametrize("half", ["status line", "headers", "body", "chunks"])
def test_an_issuer_that_drips_ends_at_the_deadline_and_known_keys_do_not_wait(half):
    dripping = Dripping(json.dumps({"keys": [jwk(ONE, "one")]}).encode(), half)
    moment = [1_000.0]
    keys = jwks.open_key_set(dripping.url, timeout=0.4, now=lambda: moment[0])
    try:
        assert look_up(keys, "one") is not None  # the first answer is a whole one
        moment[0] += jwks.FRESH
        assert keys.refresh("one") is None and keys.find("one") is not None
        unknown = keys.refresh("two")
        assert unknown is not None and not unknown.done() and keys.refresh("three") is unknown
        assert keys.refresh("one") is None and keys.find("one") is not None
        unknown.result(PATIENCE)
        assert keys.find("two") is None and keys.find("one") is not None
        assert dripping.asked == 2
    finally:
        dripping.close()


# settings that stop the start


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"jwt": True}, "no secret"),
        ({"jwt": True, "jwt_algorithm": "HS256"}, "no secret"),
        ({"jwt": True, "jwt_secret": "short"}, "5 bytes"),
        ({"jwt": True, "jwt_secret": "x" * 31}, "31 bytes"),
        ({"jwt": True, "jwt_algorithm": "RS256"}, "no public keys"),
        ({"jwt": True, "jwt_algorithm": "RS256", "jwt_secret": SECRET}, "no public keys"),
        ({"jwt": True, "jwt_algorithm": "none", "jwt_secret": SECRET}, "not a supported token algorithm"),
        ({"jwt": True, "jwt_algorithm": "RS256", "jwks": "nowhere.json"}, "cannot be read"),
        ({"jwt": True, "jwt_algorithm": "RS256", "jwks": "http://issuer.example/keys"}, "over http"),
        ({"jwt": True, "jwt_algorithm": "RS256", "jwks": "k", "jwt_secret": SECRET}, "both"),
    ],
)
def test_unsafe_settings_stop_the_start(settings, said):
    with pytest.raises(UsageError) as refused:
        token_reader(Settings(**settings), clock=CLOCK)
    assert said in str(refused.value)
    assert SECRET not in f"{refused.value!r}{refused.value.details}"
    assert token_reader(Settings(jwt=True, jwt_secret=SECRET), clock=CLOCK) is not None


@pytest.mark.parametrize("secret", [pem(ONE).decode(), json.dumps(jwk(ONE, "one"))])
def test_a_public_key_for_a_secret_stops_the_start(secret):
    with pytest.raises(UsageError, match="public or private key") as refused:
        token_reader(Settings(jwt=True, jwt_secret=secret), clock=CLOCK)
    assert secret not in f"{refused.value!r}{refused.value.details}"


def test_tokens_are_off_unless_something_switches_them_on():
    assert token_reader(Settings(), clock=CLOCK) is None
    assert token_reader(Settings(jwt_secret=SECRET), clock=CLOCK) is not None


def private() -> dict[str, Any]:
    return {**json.loads(RSAAlgorithm.to_jwk(ONE)), "kid": "one"}


def curve() -> dict[str, Any]:
    return json.loads(ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not contain public keys"),
        ("[]", "does not contain public keys"),
        ("null", "does not contain public keys"),
        ('{"keys": []}', "does not contain public keys"),
        ('{"keys": {}}', "does not contain public keys"),
        ('{"keys": [{"kty": "RSA"}]}', "does not contain public keys"),
        ('{"keys": [{"kty": "RSA", "n": 5, "e": "AQAB"}]}', "does not contain public keys"),
        ('{"keys": [{"kty": "RSA", "n": "!!!", "e": "AQAB"}]}', "does not contain public keys"),
        ('{"keys": [{"kty": 7}]}', "does not contain public keys"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "an RSA signing key"),
        (lambda: json.dumps({"keys": [curve()]}), "an RSA signing key"),
        (lambda: json.dumps({"keys": [jwk(ONE, use="enc")]}), "an RSA signing key"),
        (lambda: json.dumps({"keys": [private()]}), "private"),
        (
            lambda: json.dumps({"keys": [jwk(rsa.generate_private_key(public_exponent=65_537, key_size=1_024))]}),
            "2048 bits",
        ),
    ],
)
def test_a_file_without_usable_public_keys_stops_the_start(tmp_path, text, said):
    file = tmp_path / "keys.json"
    file.write_text(text if isinstance(text, str) else text())
    with pytest.raises(UsageError, match=said):
        token_reader(Settings(jwt=True, jwt_algorithm="RS256", jwks=str(file)), clock=CLOCK)
