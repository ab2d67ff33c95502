"""The models that the operator has configured."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from hostsvc.llm.providers import ProviderSettings
from supervisors.llm.port import Model


@asynccontextmanager
async def open_models(
    providers: Mapping[str, ProviderSettings], keys: Mapping[str, str]
) -> AsyncIterator[Mapping[str, Model]]:
    """The models of all providers while the block lasts; both `keys` and models by name of the provider."""
    if not providers:
        yield {}
        return
    # A heavy client that an installation without providers never needs, hence imported here.
    from hostsvc.llm.chat_models import connect

    async with connect(providers, keys) as models:
        yield models
