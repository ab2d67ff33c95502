"""The bundled price list."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices.data_snapshot import get_snapshot

from hostsvc.llm.price_list import PriceList
from hostsvc.llm.providers import parse_prices
from supervisors.llm.catalog import ModelCall

AT = datetime(2026, 11, 20, tzinfo=UTC)


async def cost(model: str, input_tokens: int = 1_000_000, cached_tokens: int = 0) -> Decimal | None:
    return await PriceList().cost_of(ModelCall(model, input_tokens, 1000, cached_tokens, AT))


@pytest.mark.parametrize("model", ["openai/gpt-4o", "gpt-4o", "anthropic/claude-sonnet-4-5"])
async def test_known_models_have_a_price_in_microdollars(model: str) -> None:
    price = await cost(model)
    assert price is not None
    assert price > 0
    assert price.as_tuple().exponent == -6


async def test_cached_input_tokens_are_cheaper() -> None:
    plain, cached = await cost("openai/gpt-4o"), await cost("openai/gpt-4o", cached_tokens=1_000_000)
    assert plain is not None
    assert cached is not None
    assert 0 < cached < plain


@pytest.mark.parametrize("model", ["my-proxy/gpt-4o", "my-proxy/openai/gpt-4o", "a/b/openai/gpt-4o"])
async def test_unknown_provider_has_the_price_of_the_models_name(model: str) -> None:
    assert await cost(model) == await cost("openai/gpt-4o")


async def test_provider_of_the_list_has_its_own_price() -> None:
    assert await cost("openrouter/openai/gpt-4o") == await cost("openai/gpt-4o")
    assert await cost("openrouter/deepseek/deepseek-chat") != await cost("deepseek/deepseek-chat")


async def test_configured_price_comes_before_the_list() -> None:
    prices = PriceList(
        {
            "openai": parse_prices({"gpt-4o": {"input": 4, "output": 8, "cached": 0.5}}),
            "desk": parse_prices({"*": {"input": 1, "output": 0}}),
        }
    )

    async def cost_of(model: str) -> Decimal | None:
        return await prices.cost_of(ModelCall(model, 1_000_000, 250_000, 500_000, AT))

    assert await cost_of("openai/gpt-4o") == Decimal("4.25")  # 2 + 0.25 for the input, 2 for the output
    assert await cost_of("openai/gpt-4o-mini") == await PriceList().cost_of(
        ModelCall("openai/gpt-4o-mini", 1_000_000, 250_000, 500_000, AT)
    )
    assert await cost_of("desk/llama/70b") == Decimal(1), "cached input tokens cost as much as others"
    assert await cost_of("desk/gpt-4o") == Decimal(1), "the name does not count where `*` does"


async def test_configured_price_of_0_is_a_price() -> None:
    prices = PriceList({"desk": parse_prices({"llama": {"input": 0, "output": 0}})})
    assert await prices.cost_of(ModelCall("desk/llama", 10, 10, 0, AT)) == 0


@pytest.mark.parametrize(
    "model", ["nobody-knows-it", "lab/m", "openai/nobody-knows-it", "openai/", "/", "//"]
)
async def test_unknown_model_has_no_price(model: str) -> None:
    assert await cost(model) is None


async def test_price_of_largest_counts_can_be_stored() -> None:
    price = await PriceList().cost_of(ModelCall("openai/gpt-4o", 2**31 - 1, 2**31 - 1, 0, AT))
    assert price is not None
    assert price < 10**12


async def test_builtin_model_is_free() -> None:
    assert await cost("builtin/inbox") == 0


async def test_unknown_names_are_not_cached() -> None:
    for number in range(20):
        await cost(f"nobody-knows-{number}")
    assert "nobody-knows" not in repr((get_snapshot()._provider_misses, get_snapshot()._provider_cache))
