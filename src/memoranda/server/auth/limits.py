"""Token buckets: how many requests a key may make, and how many wrong keys may come from an address."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from memoranda.errors import QuotaExceeded, Unauthenticated, UsageError
from memoranda.model.text import quote

MOST = 10_000
"""Buckets that are kept. Full ones go first: who starts with a full one anew has lost nothing."""

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
        """Allow `rate` requests a second; 0 allows any number. `burst` is twice the rate where it is not given.

        `exceeded` is what a refusal says has happened.
        """
        if not (math.isfinite(rate) and rate >= 0):
            raise UsageError(f"{quote(rate)} is not a number of requests a second", hint="Use 0 for no limit")
        self._rate = rate
        self._room = float(burst or max(1, math.ceil(2 * rate)))
        self._exceeded = exceeded or f"more than {rate:g} requests a second with one key"
        self._now = now
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, who: Hashable) -> None:
        """Count a request, or refuse it saying how long to wait."""
        if not self._rate:
            return
        now = self._now()
        left = self._left(who, now)
        if who not in self._buckets and len(self._buckets) >= MOST:
            self._make_room(now)
        self._buckets[who] = (left - 1, now)

    def check(self, who: Hashable) -> None:
        """Refuse what `take` would refuse, and count nothing."""
        if self._rate:
            self._left(who, self._now())

    def _left(self, who: Hashable, now: float) -> float:
        left, since = self._buckets.get(who, (self._room, now))
        left = min(self._room, left + (now - since) * self._rate)
        if left < 1:
            wait = (1 - left) / self._rate
            raise QuotaExceeded(self._exceeded, hint=f"Wait {wait:.3g} s", retry_after=wait)
        return left

    def _make_room(self, now: float) -> None:
        # Copied first: the pages count wrong keys in other threads.
        buckets = list(self._buckets.items())
        full = [who for who, (left, since) in buckets if left + (now - since) * self._rate >= self._room]
        for who in full or [who for who, _ in buckets[: MOST // 10]]:
            self._buckets.pop(who, None)


class FailedAttempts:
    """Wrong keys and tokens by client address.

    An address with too many of them gets 429 for further wrong ones, and for the right one if it is a key that
    somebody chose: with 401 for a wrong guess and 200 for the right one, guessing could go on. Keys with 256 random
    bits and signatures cannot be guessed, so right ones pass: a neighbor behind the same address locks out nobody.
    """

    def __init__(self, most: int, proxies: Iterable[str] = (), *, now: Callable[[], float] = time.monotonic) -> None:
        """Allow `most` wrong ones at once, and as many again in a minute; 0 allows any number."""
        self._limit = RateLimit(most / 60, most, exceeded="too many wrong keys or tokens from this address", now=now)
        self._proxies = [_network(proxy) for proxy in proxies]

    def fail(self, address: str, refused: Unauthenticated) -> None:
        """Count a refusal, unless the token was genuine; raise QuotaExceeded where there are too many."""
        if not refused.details.get("genuine"):
            self._limit.take(address)

    def check(self, address: str) -> None:
        """Refuse an address that has made too many wrong attempts."""
        self._limit.check(address)

    def address(self, peer: str | None, forwarded: Iterable[str]) -> str:
        """Return the address that attempts are counted for.

        It is the peer's, unless that is one of our proxies: then it is the last one in `X-Forwarded-For` that is not.
        What stands before that may have been sent by the client itself.
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
            f"{quote(text)} in `proxies` is not an address: {fault}", hint="Name addresses or networks, as 10.0.0.0/8"
        ) from None


def _subscriber(address: str) -> str:
    """Return what stands for one client: an IPv4 address, or the 64 bits of an IPv6 network that a client has."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:_LONGEST_ADDRESS]
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((int(parsed), 64), strict=False))
    return str(parsed)
