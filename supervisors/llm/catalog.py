"""The catalog of models: the providers that the service knows, and the prices of calls."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from supervisors.errors import UnusableModel
from supervisors.llm.inbox_model import PROVIDER, UNKNOWN

MAX_KEPT = 1000  # models; users choose their names


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model (`<provider>/<name>` or a bare name). `input_tokens` include `cached_tokens`."""

    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    at: datetime


class Prices(Protocol):
    async def cost_of(self, call: ModelCall) -> Decimal | None:
        """Return the price in US dollars, rounded to millionths; None if it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class ModelCatalog:
    """The models that agents can have. It asks no provider."""

    providers: Collection[str]
    default_provider: str
    prices: Prices
    _is_priced: dict[str, bool] = field(default_factory=dict, repr=False)

    def qualify(self, model: str) -> str:
        """Return `<provider>/<name>`, also for a model of the default provider without its prefix."""
        return model if "/" in model else f"{self.default_provider}/{model}"

    def require_known(self, model: str) -> None:
        """Raise UnusableModel if the model names a provider that the service does not know.

        A name without a provider may be any: only the default provider could tell.
        """
        provider, separator, name = model.partition("/")
        if not separator:
            return
        if provider not in self.providers:
            raise UnusableModel(unknown_provider(provider, self.providers))
        if provider == PROVIDER and name != "inbox":
            raise UnusableModel(UNKNOWN.format(name))

    async def is_priced(self, model: str, now: datetime) -> bool:
        """Return whether the price of the model is known."""
        model = self.qualify(model)
        if model not in self._is_priced:
            if len(self._is_priced) >= MAX_KEPT:
                self._is_priced.clear()
            self._is_priced[model] = await is_priced(self.prices, model, now)
        return self._is_priced[model]


async def is_priced(prices: Prices, qualified_model: str, now: datetime) -> bool:
    """Return whether a call of the model would have a known cost."""
    return await prices.cost_of(ModelCall(qualified_model, 1, 1, 0, now)) is not None


def unknown_provider(provider: str, known: Collection[str]) -> str:
    """Say that there is no such provider, and which ones there are."""
    return f'There is no model provider "{provider}"; the service knows: {", ".join(sorted(known))}.'
