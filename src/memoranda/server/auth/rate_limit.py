"""Token buckets that limit the requests of a key, and the wrong keys from an address."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from memoranda.errors import QuotaExceeded, Unauthenticated, UsageError
from memoranda.model.text import quote

MAX_BUCKETS = 10_000
"""Maximum number of buckets. Full ones are dropped first, which loses no information."""

_LONGEST_ADDRESS = 64


class RateLimit:
    """A token bucket for each key. Each worker process counts its own."""

    def __init__(
        self,
        rate: float,
        burst: int | None = None,
        *,
        exceeded: str | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allow `rate` requests per second, 0 for any number, and `burst` at once (default: twice the rate).

        `exceeded` is the message of the error.
        """
        if not (math.isfinite(rate) and rate >= 0):
            raise UsageError(f"{quote(rate)} is not a number of requests per second", hint="Use 0 for no limit")
        self._rate = rate
        self._room = float(burst or max(1, math.ceil(2 * rate)))
        self._exceeded = exceeded or f"more than {rate:g} requests per second with one key"
        self._now = now
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, who: Hashable) -> None:
        """Count a request, or raise QuotaExceeded with the time to wait."""
        if not self._rate:
            return
        now = self._now()
        left = self._tokens(who, now)
        if who not in self._buckets and len(self._buckets) >= MAX_BUCKETS:
            self._make_room(now)
        self._buckets[who] = (left - 1, now)

    def check(self, who: Hashable) -> None:
        """Raise what `take` would raise, but count nothing."""
        if self._rate:
            self._tokens(who, self._now())

    def _tokens(self, who: Hashable, now: float) -> float:
        left, since = self._buckets.get(who, (self._room, now))
        left = min(self._room, left + (now - since) * self._rate)
        if left < 1:
            wait = (1 - left) / self._rate
            raise QuotaExceeded(self._exceeded, hint=f"Wait {wait:.3g} s", retry_after=wait)
        return left

    def _make_room(self, now: float) -> None:
        # A copy, because the admin pages count wrong keys in other threads.
        buckets = list(self._buckets.items())
        full = [who for who, (left, since) in buckets if left + (now - since) * self._rate >= self._room]
        for who in full or [who for who, _ in buckets[: MAX_BUCKETS // 10]]:
            self._buckets.pop(who, None)


class FailedAttempts:
    """Counts wrong keys and tokens by client address.

    An address with too many gets 429 for further wrong ones, and also for a correct key that the operator chose;
    otherwise the response would still tell a right guess from a wrong one. Keys with 256 random bits and signatures
    cannot be guessed, so correct ones pass: other users behind the same address are not locked out.
    """

    def __init__(self, most: int, proxies: Iterable[str] = (), *, now: Callable[[], float] = time.monotonic) -> None:
        """Allow `most` wrong attempts at once, and as many again per minute; 0 allows any number."""
        self._limit = RateLimit(most / 60, most, exceeded="too many wrong keys or tokens from this address", now=now)
        self._proxies = [_network(proxy) for proxy in proxies]

    def fail(self, address: str, refused: Unauthenticated) -> None:
        """Count a failed attempt, unless the token was genuine; raise QuotaExceeded after too many."""
        if not refused.details.get("genuine"):
            self._limit.take(address)

    def check(self, address: str) -> None:
        """Raise QuotaExceeded for an address with too many wrong attempts."""
        self._limit.check(address)

    def address(self, peer: str | None, forwarded: Iterable[str]) -> str:
        """Return the address that attempts count for.

        It is the peer's, or behind our proxies the last address in `X-Forwarded-For` that is not a proxy. Earlier ones
        may be forged by the client.
        """
        chain = [part.strip() for header in forwarded for part in header.split(",")]
        found = peer or ""
        while chain and self._is_proxy(found):
            found = chain.pop()
        return _subscriber(found)

    def _is_proxy(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._proxies)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as fault:
        raise UsageError(
            f"{quote(text)} in `proxies` is not an address: {fault}",
            hint="Use addresses or networks such as 10.0.0.0/8",
        ) from None


def _subscriber(address: str) -> str:
    """Return the part of an address that identifies a client: IPv4 whole, of IPv6 the /64 network."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:_LONGEST_ADDRESS]
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((int(parsed), 64), strict=False))
    return str(parsed)
