"""The catalog of models: known providers and prices."""

from decimal import Decimal

import pytest

from supervisors.errors import UnusableModel
from supervisors.llm.catalog import MAX_KEPT, ModelCall, ModelCatalog
from tests.storage.factories import NOW


class OnePrice:
    """Prices of lab/llama alone; it counts the questions."""

    def __init__(self) -> None:
        self.questions = 0

    async def cost_of(self, call: ModelCall) -> Decimal | None:
        self.questions += 1
        return Decimal(1) if call.model == "lab/llama" else None


def catalog(prices: OnePrice | None = None) -> ModelCatalog:
    return ModelCatalog(frozenset({"builtin", "lab"}), "lab", prices or OnePrice())


@pytest.mark.parametrize("model", ["lab/llama", "lab/a/b", "llama", "builtin/inbox"])
def test_model_of_a_known_provider_is_accepted(model: str) -> None:
    catalog().require_known(model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nobody/llama", r'^There is no model provider "nobody"; the service knows: builtin, lab\.$'),
        ("/llama", r'^There is no model provider ""'),
        ("builtin/outbox", r"^There is no model builtin/outbox; builtin/inbox is the only one\.$"),
    ],
)
def test_model_of_an_unknown_provider_is_refused(model: str, message: str) -> None:
    with pytest.raises(UnusableModel, match=message):
        catalog().require_known(model)


async def test_model_without_provider_has_price_of_the_default_one() -> None:
    assert await catalog().is_priced("llama", NOW)
    assert not await catalog().is_priced("builtin/llama", NOW)


async def test_price_of_a_model_is_looked_up_once() -> None:
    prices = OnePrice()
    known = catalog(prices)
    for number in range(MAX_KEPT + 1):
        await known.is_priced("llama" if number % 2 else "gpt", NOW)

    assert prices.questions == 2


async def test_known_models_are_bounded() -> None:
    prices = OnePrice()
    known = catalog(prices)
    for number in range(3 * MAX_KEPT):
        await known.is_priced(f"m{number}", NOW)

    assert len(known._is_priced) <= MAX_KEPT
