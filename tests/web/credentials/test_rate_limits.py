"""Token buckets and the rate limits that use them."""

import pytest

from web.credentials.rate_limits import RateLimits, TokenBuckets
from web.settings import LimitSettings


def test_client_gets_one_minutes_tokens_at_once() -> None:
    buckets = TokenBuckets(quota=600)
    quotas = [buckets.take("a", 5.0) for _ in range(600)]
    assert all(quota.is_granted for quota in quotas)
    assert [quota.remaining for quota in quotas] == list(range(599, -1, -1))
    refused = buckets.take("a", 5.0)
    assert (refused.is_granted, refused.remaining) == (False, 0)
    assert refused.more_in_seconds == pytest.approx(0.1)
    assert buckets.take("b", 5.0).is_granted


def test_tokens_flow_in_evenly() -> None:
    buckets = TokenBuckets(quota=6)
    for _ in range(6):
        assert buckets.take("a", 0.0).is_granted
    assert not buckets.take("a", 9.9).is_granted
    assert buckets.take("a", 10.0).is_granted
    assert buckets.take("a", 10.0).more_in_seconds == pytest.approx(10)
    assert [buckets.take("a", 40.0).is_granted for _ in range(4)] == [True, True, True, False]


def test_even_sender_within_the_limit_is_never_refused() -> None:
    buckets = TokenBuckets(quota=7)
    assert all(buckets.take("a", number * 60 / 7).is_granted for number in range(2000))


def test_refused_requests_cost_no_tokens() -> None:
    buckets = TokenBuckets(quota=1)
    assert buckets.take("a", 0.0).is_granted
    for second in range(1, 60):
        assert not buckets.take("a", second).is_granted
    assert buckets.take("a", 60.0).is_granted


def test_peek_takes_nothing() -> None:
    buckets = TokenBuckets(quota=2)
    assert [buckets.peek("a", 0.0).remaining for _ in range(3)] == [2, 2, 2]
    buckets.take("a", 0.0)
    assert buckets.peek("a", 0.0).remaining == 1


def test_full_buckets_are_dropped() -> None:
    buckets = TokenBuckets(quota=60)
    for number in range(1000):
        buckets.take(number, 0.0)
    for number in range(1000, 1400):
        buckets.take(number, 1.0)
    assert len(buckets) == 400


def test_flood_of_addresses_neither_grows_table_nor_frees_busy_client() -> None:
    buckets = TokenBuckets(quota=10, max_clients=100)
    for number in range(50):
        buckets.take(f"early {number}", 0.0)
    while buckets.take("busy", 0.0).is_granted:
        pass
    for number in range(10_000):
        assert buckets.take(number, 1.0).is_granted
        assert len(buckets) <= 100
    assert not buckets.take("busy", 1.0).is_granted


def test_limit_of_zero_is_off() -> None:
    off = RateLimits(LimitSettings(anonymous_requests_per_minute=0))
    assert (off.of_callers, off.of_addresses) == (None, None)
    assert off.refused() == {"requests_per_minute": 0, "anonymous_requests_per_minute": 0}


def test_limit_counts_its_refusals() -> None:
    on = RateLimits(LimitSettings(requests_per_minute=2, anonymous_requests_per_minute=600))
    assert on.of_callers is not None
    assert on.of_addresses is not None
    assert on.of_callers.policy_header == '"default";q=2;w=60'
    assert on.of_addresses.policy_header == '"anonymous";q=600;w=60'
    assert [on.of_callers.take("key", 0.0).is_granted for _ in range(4)] == [True, True, False, False]
    assert on.refused() == {"requests_per_minute": 2, "anonymous_requests_per_minute": 0}


def test_changed_limits_hold_at_once_and_keep_their_counts() -> None:
    limits = RateLimits(LimitSettings(requests_per_minute=1))
    assert limits.of_callers is not None
    assert [limits.of_callers.take("key", 0.0).is_granted for _ in range(2)] == [True, False]
    limits.adopt(LimitSettings(requests_per_minute=0))
    assert limits.of_callers is None
    limits.adopt(LimitSettings(requests_per_minute=3))
    assert limits.of_callers is not None
    assert [limits.of_callers.take("other", 0.0).is_granted for _ in range(4)] == [True] * 3 + [False]
    assert limits.refused()["requests_per_minute"] == 2


def test_nodes_share_out_a_quota() -> None:
    nodes = 1
    limits = RateLimits(LimitSettings(requests_per_minute=6), lambda: nodes)
    limit = limits.of_callers
    assert limit is not None
    assert limit.allowed == "6 for each API key, user or run"
    assert [limit.take("key", 0.0).remaining for _ in range(2)] == [5, 4]
    nodes = 3
    assert limit.policy_header == '"default";q=2;w=60'
    assert limit.allowed == "6 for each API key, user or run, of which each node grants 2"
    assert [limit.take("other", 0.0).is_granted for _ in range(3)] == [True, True, False]
    assert limit.take("other", 0.0).more_in_seconds == pytest.approx(30)
    nodes = 100
    assert [limit.take("third", 0.0).is_granted for _ in range(2)] == [True, False]
    assert limit.take("third", 60.0).is_granted
