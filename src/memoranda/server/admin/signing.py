"""An API key in, a session of the pages out, and the other way round.

The cookie holds a random secret and nothing else. The key that was given is kept under a hash of that secret, sealed
with another one: who reads the database has no key, who steals a cookie has none either, and signing out ends both.
The key is looked up again with each page, so one that is revoked ends its sessions at once.
"""

from __future__ import annotations

import base64
import hashlib
import secrets

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Unauthenticated
from memoranda.model.scope import Scope
from memoranda.server.auth.keys import SYSTEM_TENANT, Key, find_key, note_use
from memoranda.server.callers import Caller, caller_with

COOKIE = "memoranda_admin"
DOOR = "admin"
"""What the ledger says that these pages' writes came through."""
LIFETIME = "12h"

_NONCE = 12
_LONGEST_SECRET = 64
_OVER = "nobody is signed in here"
_HINT = "Sign in with an API key"


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """Who has signed in, and what their forms have to carry."""

    caller: Caller
    form_token: str


def sign_in(memory: Memory, key: Key, token: str) -> str:
    """Begin a session with an API key and its token; return the secret for the cookie."""
    note_use(memory, key.id)
    # Sessions that nobody ended have expired by themselves: now is a good time to let go of what is left of them.
    memory.in_tenant(SYSTEM_TENANT).through(DOOR).sweep()
    secret = secrets.token_urlsafe(32)
    name = _derived(secret, b"name")
    nonce = secrets.token_bytes(_NONCE)
    sealed = nonce + _seal(secret).encrypt(nonce, token.encode(), name.encode())
    _place(memory).set(_key(name), base64.b64encode(sealed).decode(), expect=0, ttl=LIFETIME)
    return secret


def find_session(memory: Memory, secret: str | None) -> SignedIn:
    """Return who signed in with a cookie, or raise Unauthenticated."""
    if not secret or len(secret) > _LONGEST_SECRET:
        raise Unauthenticated(_OVER, hint=_HINT)
    name = _derived(secret, b"name")
    fact = _place(memory).get(_key(name))
    if fact is None:
        raise Unauthenticated(_OVER, hint=_HINT)
    sealed = base64.b64decode(fact.value)
    try:
        token = _seal(secret).decrypt(sealed[:_NONCE], sealed[_NONCE:], name.encode())
    except InvalidTag:
        raise Unauthenticated(_OVER, hint=_HINT) from None
    return SignedIn(caller=caller_with(find_key(memory, token.decode())), form_token=_derived(secret, b"form"))


def sign_out(memory: Memory, secret: str | None) -> None:
    """End the session of a cookie; a second time changes nothing."""
    if secret and len(secret) <= _LONGEST_SECRET:
        _place(memory).delete(_key(_derived(secret, b"name")))


def _derived(secret: str, use: bytes) -> str:
    """Return what is made of a secret for one use: none of them leads back to it, or to another."""
    return hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), person=use, digest_size=32).hexdigest()


def _seal(secret: str) -> AESGCM:
    return AESGCM(bytes.fromhex(_derived(secret, b"seal")))


def _key(name: str) -> str:
    return f"pages.{name}"


def _place(memory: Memory) -> ScopedMemory:
    return memory.through(DOOR).at(Scope(tenant=SYSTEM_TENANT))
