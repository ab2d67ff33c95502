"""The settings of the HTTP interface."""

from typing import Any

import pytest

from web.settings import LimitSettings, WebSettings


def test_settings_hide_secrets_and_refuse_weak_ones() -> None:
    assert "sss" not in repr(WebSettings(token_secret="s" * 32, operator_token="sss"))
    with pytest.raises(ValueError, match="token_secret"):
        WebSettings(token_secret="s" * 31, operator_token="x")


@pytest.mark.parametrize("name", ["tags_per_agent", "event_streams_per_caller"])
def test_settings_refuse_limits_of_nothing(name: str) -> None:
    zero: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=f"^{name} must be between 1 and"):
        LimitSettings(**zero)


def test_signups_per_hour_may_be_unlimited_but_not_negative() -> None:
    assert LimitSettings(signups_per_hour=0).signups_per_hour == 0
    with pytest.raises(ValueError, match="signups_per_hour must be between 0 and 10000, got -1"):
        LimitSettings(signups_per_hour=-1)
