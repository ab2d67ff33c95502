"""The models of the configured providers."""

import subprocess
import sys

from hostsvc.llm.configured_models import open_models
from hostsvc.llm.providers import ProviderSettings


async def test_each_provider_has_its_models() -> None:
    providers = {"a": ProviderSettings("http://127.0.0.1:1"), "b": ProviderSettings("http://127.0.0.1:2")}
    async with open_models(providers, {"a": "sk-secret"}) as models:
        assert [repr(models[name]) for name in ("a", "b")] == [
            "<ChatModels of a at http://127.0.0.1:1>",
            "<ChatModels of b at http://127.0.0.1:2>",
        ]


def test_sdk_is_not_imported_without_providers() -> None:
    code = (
        "import asyncio, sys; from hostsvc.llm.configured_models import open_models\n"
        "async def main():\n"
        "    async with open_models({}, {}) as models:\n"
        "        sys.exit(len(models) or 'openai' in sys.modules)\n"
        "asyncio.run(main())"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
