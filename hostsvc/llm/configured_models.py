"""The models of the configured providers."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from hostsvc.llm.providers import ProviderSettings
from supervisors.llm.port import Model


@asynccontextmanager
async def open_models(
    providers: Mapping[str, ProviderSettings], keys: Mapping[str, str]
) -> AsyncIterator[Mapping[str, Model]]:
    """Open the models of all providers; models and `keys` are by the provider's name."""
    if not providers:
        yield {}
        return
    # Imported here because it is heavy, and an installation without providers never needs it.
    from hostsvc.llm.chat_models import connect

    async with connect(providers, keys) as models:
        yield models
