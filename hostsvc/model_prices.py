"""The prices that the configuration gives for the models of one provider, in USD per million tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType

import orjson

from supervisors.llm.pricing import ModelCall

ANY_MODEL = "*"
MAX_USD = 1_000_000
MILLION = 1_000_000
TAKES = (
    'a table such as {"gpt-4o" = {input = 2.5, output = 10.0, cached = 1.25}}, in USD per million tokens '
    "(as a variable: in JSON); a name that contains a dot or a colon is quoted"
)
NEEDED, KINDS = ("input", "output"), ("input", "output", "cached")


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What one model costs, in USD per million tokens. `cached` is the price of cached input tokens."""

    input: Decimal
    output: Decimal
    cached: Decimal

    def cost_of(self, call: ModelCall) -> Decimal:
        """Return the exact cost of the call in USD."""
        uncached = max(call.input_tokens - call.cached_tokens, 0)
        total = uncached * self.input + call.cached_tokens * self.cached + call.output_tokens * self.output
        return total / MILLION


@dataclass(frozen=True, slots=True)
class ConfiguredPrices:
    """The prices of one provider, by the name of the model; `*` stands for all other models."""

    by_model: Mapping[str, ModelPrice] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, model: str) -> ModelPrice | None:
        """Return the price of a model; None if the configuration gives none."""
        return self.by_model.get(model) or self.by_model.get(ANY_MODEL)


def parse_prices(value: object) -> ConfiguredPrices:
    """Parse a table of prices. Raise ValueError if it is not one."""
    if not isinstance(value, dict):
        raise ValueError(value)
    return ConfiguredPrices(MappingProxyType({model: _price(price) for model, price in value.items()}))


def parse_prices_from_text(text: str) -> ConfiguredPrices:
    """Parse a table of prices that is written as JSON. Raise ValueError if it is not one."""
    return parse_prices(orjson.loads(text))


def _price(value: object) -> ModelPrice:
    if not isinstance(value, dict) or not set(NEEDED) <= value.keys() <= set(KINDS):
        raise ValueError(value)
    given = {kind: _usd(price) for kind, price in value.items()}
    return ModelPrice(given["input"], given["output"], given.get("cached", given["input"]))


def _usd(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_USD:
        raise ValueError(value)
    return Decimal(str(value))
