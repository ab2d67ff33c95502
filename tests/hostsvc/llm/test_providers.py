"""The settings of a model provider: defaults and limits."""

from typing import Any

import pytest

from hostsvc.llm.providers import ProviderSettings


def test_only_the_base_url_is_required() -> None:
    settings = ProviderSettings("https://api.openai.com/v1")
    assert (settings.api_key_env, settings.max_retries, settings.stream) == ("", 2, False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"base_url": "a.org"}, r"base_url must be http\(s\)://.*, got 'a\.org'$"),
        ({"timeout_seconds": 0}, "timeout_seconds must be between 0.1 and 86400, got 0$"),
        ({"max_retries": 11}, "max_retries must be between 0 and 10, got 11$"),
    ],
)
def test_invalid_setting_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        ProviderSettings(**{"base_url": "http://a", **fields})
