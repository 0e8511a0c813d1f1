"""Token buckets: a rate per second and a burst, separate for each key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import QuotaExceeded, Unauthenticated, UsageError
from memoranda.server.auth import rate_limit
from memoranda.server.auth.rate_limit import FailedAttempts, RateLimit


class Ticks:
    def __init__(self) -> None:
        self.moment = 1_000.0

    def __call__(self) -> float:
        return self.moment


def passed(limit: RateLimit, who: str, times: int) -> int:
    count = 0
    for _ in range(times):
        try:
            limit.take(who)
            count += 1
        except QuotaExceeded:
            pass
    return count


def test_a_burst_passes_and_then_the_rate_does():
    ticks = Ticks()
    limit = RateLimit(10, 5, now=ticks)
    assert passed(limit, "a", 20) == 5
    ticks.moment += 0.35
    assert passed(limit, "a", 20) == 3
    ticks.moment += 60
    assert passed(limit, "a", 20) == 5


def test_each_key_has_a_bucket_of_its_own():
    limit = RateLimit(1, 2, now=Ticks())
    assert passed(limit, "a", 5) == 2
    assert passed(limit, "b", 5) == 2


def test_who_waits_as_long_as_was_said_passes():
    ticks = Ticks()
    limit = RateLimit(4, 1, now=ticks)
    limit.take("a")
    with pytest.raises(QuotaExceeded) as refused:
        limit.take("a")
    assert refused.value.retry_after == pytest.approx(0.25)
    ticks.moment += refused.value.retry_after * 0.9
    assert passed(limit, "a", 1) == 0
    ticks.moment += refused.value.retry_after * 0.1 + 1e-9
    assert passed(limit, "a", 1) == 1


def test_a_refused_request_costs_nothing():
    ticks = Ticks()
    limit = RateLimit(1, 1, now=ticks)
    assert passed(limit, "a", 1_000) == 1
    ticks.moment += 1
    assert passed(limit, "a", 1) == 1


def test_no_rate_is_no_limit():
    assert passed(RateLimit(0, now=Ticks()), "a", 1_000) == 1_000
    assert passed(RateLimit(1, 1, now=Ticks()), "a", 1_000) == 1


def test_without_a_burst_twice_the_rate_may_come_at_once():
    assert passed(RateLimit(7, now=Ticks()), "a", 100) == 14
    assert passed(RateLimit(0.1, now=Ticks()), "a", 100) == 1


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 20)), max_size=30))
def test_nobody_gets_more_than_the_burst_and_the_rate_give(steps):
    ticks = Ticks()
    limit = RateLimit(5, 3, now=ticks)
    got = 0
    for waited, wanted in steps:
        ticks.moment += waited
        got += passed(limit, "a", wanted)
    assert got <= 3 + 5 * (ticks.moment - 1_000) + 1e-6


def test_buckets_of_keys_that_went_away_make_room(monkeypatch):
    monkeypatch.setattr(rate_limit, "MAX_BUCKETS", 100)
    ticks = Ticks()
    limit = RateLimit(1, 1, now=ticks)
    for number in range(1_000):
        limit.take(f"key-{number}")
        ticks.moment += 0.02
    assert len(limit._buckets) <= 100
    assert passed(limit, "key-999", 1) == 0


@pytest.mark.parametrize("rate", [-1, float("nan"), float("inf")])
def test_a_rate_that_cannot_be_is_refused(rate):
    with pytest.raises(UsageError):
        RateLimit(rate)


# wrong keys by address


def wrong(attempts: FailedAttempts, address: str, times: int) -> int:
    count = 0
    for _ in range(times):
        try:
            attempts.fail(address, Unauthenticated("wrong"))
            count += 1
        except QuotaExceeded:
            pass
    return count


def test_wrong_keys_are_counted_by_address_and_forgotten_with_time():
    ticks = Ticks()
    attempts = FailedAttempts(6, now=ticks)
    assert wrong(attempts, "10.0.0.1", 20) == 6
    with pytest.raises(QuotaExceeded) as refused:
        attempts.check("10.0.0.1")
    assert refused.value.retry_after == pytest.approx(10)
    attempts.check("10.0.0.2")
    ticks.moment += refused.value.retry_after + 1e-6
    attempts.check("10.0.0.1")
    assert wrong(attempts, "10.0.0.1", 20) == 1
    ticks.moment += 60
    assert wrong(attempts, "10.0.0.1", 20) == 6


def test_genuine_tokens_that_are_over_are_not_counted():
    attempts = FailedAttempts(2, now=Ticks())
    for _ in range(10):
        attempts.fail("10.0.0.1", Unauthenticated("expired", genuine=True))
    assert wrong(attempts, "10.0.0.1", 9) == 2


def test_addresses_beyond_number_take_bounded_room():
    attempts = FailedAttempts(2, now=Ticks())
    for number in range(rate_limit.MAX_BUCKETS + 500):
        wrong(attempts, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 2)
    assert rate_limit.MAX_BUCKETS // 2 < len(attempts._limit._buckets) <= rate_limit.MAX_BUCKETS


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "counted"),
    [
        ((), "203.0.113.7", (), "203.0.113.7"),
        ((), "203.0.113.7", ("198.51.100.1",), "203.0.113.7"),
        (("10.0.0.0/8",), "203.0.113.7", ("198.51.100.1",), "203.0.113.7"),
        (("10.0.0.0/8",), "10.0.0.3", ("198.51.100.1",), "198.51.100.1"),
        # What the client sent itself comes before what the proxy added.
        (("10.0.0.0/8",), "10.0.0.3", ("192.0.2.66, 198.51.100.1",), "198.51.100.1"),
        (("10.0.0.0/8",), "10.0.0.3", ("192.0.2.66", "198.51.100.1, 10.0.0.9"), "198.51.100.1"),
        (("10.0.0.0/8",), "10.0.0.3", (), "10.0.0.3"),
        (("10.0.0.0/8",), "10.0.0.3", ("10.0.0.4",), "10.0.0.4"),
        (("::1",), "::1", ("2001:db8::1",), "2001:db8::/64"),
        ((), "2001:db8::9:1", (), "2001:db8::/64"),
        ((), "::ffff:203.0.113.7", (), "203.0.113.7"),
        ((), None, (), ""),
        (("10.0.0.3",), "10.0.0.3", ("x" * 1_000,), "x" * 64),
    ],
)
def test_attempts_are_counted_for_the_client_that_our_proxy_names(proxies, peer, forwarded, counted):
    assert FailedAttempts(5, proxies).address(peer, forwarded) == counted


def test_a_proxy_that_is_no_address_stops_the_start():
    with pytest.raises(UsageError, match=r"proxy\.example"):
        FailedAttempts(5, ["proxy.example"])
    with pytest.raises(UsageError, match="host bits"):
        FailedAttempts(5, ["10.0.0.1/8"])
