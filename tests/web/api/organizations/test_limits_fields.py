"""The response of the limits."""

from web.api.organizations.organizations import LimitScope, serialize_limit


def test_limit_of_zero_is_shown_as_null() -> None:
    shown = serialize_limit("concurrent_runs", LimitScope.ORGANIZATION, 0, 3)
    assert shown == {"name": "concurrent_runs", "per": "organization", "limit": None, "used": 3}
