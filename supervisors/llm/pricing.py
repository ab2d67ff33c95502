"""The port to price lists of models."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model (`<provider>/<name>` or a bare name). `input_tokens` include `cached_tokens`."""

    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    at: datetime

    @property
    def has_tokens(self) -> bool:
        return self.input_tokens > 0 or self.output_tokens > 0


class Prices(Protocol):
    async def cost_of(self, call: ModelCall) -> Decimal | None:
        """Return the price in US dollars, rounded to millionths; None if it is not known."""
        ...
