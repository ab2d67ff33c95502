"""The rate limits that the settings turn on."""

from web.credentials.rate_limits import RateLimits
from web.settings import LimitSettings


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
