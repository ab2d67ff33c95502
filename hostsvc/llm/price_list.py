"""What model calls cost, by the price list that genai-prices ships. Nothing is fetched."""

import asyncio
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

from supervisors.llm.inbox_model import PROVIDER
from supervisors.llm.pricing import ModelCall

MICRODOLLAR = Decimal("0.000001")

Lookup = Callable[[str, str | None, ModelCall], Decimal]


class PriceList:
    """Implement `supervisors.llm.pricing.Prices`. It loads the list at first use, in a thread."""

    def __init__(self) -> None:
        self._lookup: Lookup | None = None

    async def cost_of(self, call: ModelCall) -> Decimal | None:
        """A model behind a provider that the list does not know is not taken for a namesake elsewhere."""
        prefix, separator, name = call.model.partition("/")
        if separator and prefix == PROVIDER:
            return Decimal(0)
        if self._lookup is None:
            self._lookup = await asyncio.to_thread(_load)
        try:
            price = self._lookup(name, prefix, call) if separator else self._lookup(prefix, None, call)
        except (LookupError, ValueError):  # not in the list, or counts that it has no price for
            return None
        return price.quantize(MICRODOLLAR, ROUND_HALF_UP)


def _load() -> Lookup:
    # A heavy client that an installation without priced models never needs, hence imported here.
    from genai_prices import Usage
    from genai_prices.data_snapshot import DataSnapshot, get_snapshot

    providers = get_snapshot().providers

    def look_up(name: str, provider: str | None, call: ModelCall) -> Decimal:
        # A snapshot remembers all names it was ever asked for, and callers choose them: each has its own.
        snapshot = DataSnapshot(providers, from_auto_update=False)
        usage = Usage(
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            cache_read_tokens=call.cached_tokens,
        )
        return snapshot.calc(usage, name, provider, None, call.at).total_price

    return look_up
