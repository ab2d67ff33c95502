"""The port to price lists."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model, `<provider>/<name>` or a bare name. `cached_tokens` are part of `input_tokens`."""

    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    at: datetime


class Prices(Protocol):
    """What model calls cost."""

    async def cost_of(self, call: ModelCall) -> Decimal | None:
        """US dollars, in whole millionths; None if the price is not known."""
        ...
