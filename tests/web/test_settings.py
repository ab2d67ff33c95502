"""The settings of the HTTP interface."""

import pytest

from web.settings import WebSettings


def test_settings_hide_secrets_and_refuse_weak_ones() -> None:
    assert "sss" not in repr(WebSettings(token_secret="s" * 32, operator_token="sss"))
    with pytest.raises(ValueError, match="token_secret"):
        WebSettings(token_secret="s" * 31, operator_token="x")
