"""The prices of model calls: those of the configuration, then the list bundled with genai-prices.

Nothing is fetched.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from types import MappingProxyType

from hostsvc.llm.providers import ConfiguredPrices
from supervisors.llm.catalog import ModelCall
from supervisors.llm.inbox_model import PROVIDER

MICRODOLLAR = Decimal("0.000001")
NO_PRICES: Mapping[str, ConfiguredPrices] = MappingProxyType({})

Lookup = Callable[[str, str | None, ModelCall], Decimal]


class PriceList:
    """The prices of models. The bundled ones are loaded at first use in a thread.

    Implements `supervisors.llm.pricing.Prices`; `configured` are the prices of the configuration by provider.
    """

    def __init__(self, configured: Mapping[str, ConfiguredPrices] = NO_PRICES) -> None:
        self._configured = configured
        self._lookup: Lookup | None = None

    async def cost_of(self, call: ModelCall) -> Decimal | None:
        """Return the cost in US dollars, or None if the price of the model is not known.

        A model that is priced neither by the configuration nor by the bundled list under its provider costs
        as much as the one of its name in that list, whatever provider that is of.
        """
        provider, separator, name = call.model.partition("/")
        if separator and provider == PROVIDER:
            return Decimal(0)
        price = self._configured.get(provider, ConfiguredPrices()).of(name) if separator else None
        cost = await self._bundled_cost(call) if price is None else price.cost_of(call)
        return None if cost is None else cost.quantize(MICRODOLLAR, ROUND_HALF_UP)

    async def _bundled_cost(self, call: ModelCall) -> Decimal | None:
        if self._lookup is None:
            self._lookup = await asyncio.to_thread(_load)
        for provider, name in _candidates(call.model):
            try:
                return self._lookup(name, provider, call)
            except (LookupError, ValueError):  # not in the list, or it has no price for these counts
                continue
        return None


def _candidates(model: str) -> Iterator[tuple[str | None, str]]:
    """Yield the provider (None: any) and the name by which the list may know the model, the best ones first.

    A gateway such as LiteLLM is called with `<gateway>/<provider>/<name>`.
    """
    *providers, name = model.rsplit("/", 2)
    first, separator, rest = model.partition("/")
    if separator:
        yield first, rest
    if len(providers) == 2:
        yield providers[1], name
    yield None, name


def _load() -> Lookup:
    # Imported here because it is heavy, and an installation without priced models never needs it.
    from genai_prices import Usage
    from genai_prices.data_snapshot import DataSnapshot, get_snapshot

    providers = get_snapshot().providers

    def look_up(name: str, provider: str | None, call: ModelCall) -> Decimal:
        # A snapshot caches every name it is asked for, and tenants choose them: use a new one each time.
        snapshot = DataSnapshot(providers, from_auto_update=False)
        usage = Usage(
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            cache_read_tokens=call.cached_tokens,
        )
        return snapshot.calc(usage, name, provider, None, call.at).total_price

    return look_up
