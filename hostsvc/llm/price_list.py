"""The prices of model calls, from the list bundled with genai-prices. Nothing is fetched."""

import asyncio
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

from supervisors.llm.inbox_model import PROVIDER
from supervisors.llm.pricing import ModelCall

MICRODOLLAR = Decimal("0.000001")

Lookup = Callable[[str, str | None, ModelCall], Decimal]


class PriceList:
    """The bundled prices, loaded at first use in a thread. Implements `supervisors.llm.pricing.Prices`."""

    def __init__(self) -> None:
        self._lookup: Lookup | None = None

    async def cost_of(self, call: ModelCall) -> Decimal | None:
        """Return the cost in US dollars, or None if this provider and model are not in the list.

        A model of the same name at another provider does not count.
        """
        prefix, separator, name = call.model.partition("/")
        if separator and prefix == PROVIDER:
            return Decimal(0)
        if self._lookup is None:
            self._lookup = await asyncio.to_thread(_load)
        try:
            price = self._lookup(name, prefix, call) if separator else self._lookup(prefix, None, call)
        except (LookupError, ValueError):  # not in the list, or it has no price for these counts
            return None
        return price.quantize(MICRODOLLAR, ROUND_HALF_UP)


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
