"""The settings of a model provider, and the prices of its models in the file and as a variable."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hostsvc.config_reader import read_config
from hostsvc.llm.providers import ModelPrice, ProviderSettings, is_base_url

BASE = '[models.lab]\nbase_url = "http://lab/v1"\n'


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


def test_base_url_has_host_and_optionally_port_and_path() -> None:
    for url in ("http://a", "https://example.org:8443/v1", "http://[::1]:80", "http://10.0.0.1/a/b"):
        assert is_base_url(url), url
    schemes = ("", "example.org", "ftp://a", "http://")
    parts = ("http://a:0", "http://a:99999", "http://me:pw@a", "http://a?q=1", "http://a#x", "http://[::1")
    for url in (*schemes, *parts, "http://a b", "http://a/\n", "http://a..b"):
        assert not is_base_url(url), url


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(text: str, environment: dict[str, str] | None = None) -> tuple[ModelPrice | None, list[str]]:
    """Return the price of lab/gpt-4.1, and the errors."""
    Path("config.toml").write_text(BASE + text)
    config, errors = read_config(None, environment or {})
    lab = config.models.get("lab")
    return lab.prices.of("gpt-4.1") if lab else None, errors.messages


def test_prices_are_read_exactly() -> None:
    price, errors = read('[models.lab.prices]\n"gpt-4.1" = {input = 0.1, output = 10, cached = 0.025}\n')
    assert (price, errors) == (ModelPrice(Decimal("0.1"), Decimal(10), Decimal("0.025")), [])


def test_price_of_cached_tokens_is_that_of_input_by_default() -> None:
    price, _ = read('[models.lab.prices."*"]\ninput = 3\noutput = 4\n')
    assert price == ModelPrice(Decimal(3), Decimal(4), Decimal(3))


def test_provider_without_prices_has_none() -> None:
    assert read("") == (None, [])


def test_variable_takes_prices_as_json() -> None:
    variable = {"HOSTSVC__MODELS__LAB__PRICES": '{"gpt-4.1": {"input": 1, "output": 2}}'}
    assert read("", variable) == (ModelPrice(Decimal(1), Decimal(2), Decimal(1)), [])


@pytest.mark.parametrize(
    "prices",
    [
        "prices = 3",
        "[models.lab.prices]\ngpt-4.1 = {input = 1, output = 2}",  # read as the key 1 in a table gpt-4
        '[models.lab.prices]\n"gpt-4.1" = {input = 1}',
        '[models.lab.prices]\n"gpt-4.1" = {input = 1, output = 2, reasoning = 3}',
        '[models.lab.prices]\n"gpt-4.1" = {input = -1, output = 2}',
        '[models.lab.prices]\n"gpt-4.1" = {input = nan, output = 2}',
        '[models.lab.prices]\n"gpt-4.1" = {input = true, output = 2}',
        '[models.lab.prices]\n"gpt-4.1" = {input = "1", output = 2}',
        '[models.lab.prices]\n"gpt-4.1" = {input = 1e9, output = 2}',
    ],
)
def test_invalid_prices_are_refused_with_an_example(prices: str) -> None:
    _, errors = read(prices)
    (message,) = errors
    assert message.startswith("config.toml: models.lab.prices must be a table such as ")
    assert "USD per million tokens" in message


def test_variable_that_is_not_json_is_refused() -> None:
    _, (message,) = read("", {"HOSTSVC__MODELS__LAB__PRICES": "gpt-4o=3"})
    assert message.startswith("HOSTSVC__MODELS__LAB__PRICES: models.lab.prices must be a table")
