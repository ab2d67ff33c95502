"""Runs against a third-party server of the protocol: LiteLLM's proxy.

Install it by hand in its own environment, because it needs about a hundred packages:

    python -m venv /tmp/litellm && /tmp/litellm/bin/pip install 'litellm[proxy]==1.106.2'
    HOSTSVC_TEST_LITELLM=/tmp/litellm/bin/litellm make test-slow
"""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.client import eventually, sign_up
from tests.acceptance.services import Services

LITELLM = os.environ.get("HOSTSVC_TEST_LITELLM", "")
START_SECONDS = 120.0

SLEEP = {"id": "call_1", "type": "function", "function": {"name": "sleep", "arguments": '{"hours": 2}'}}
MODELS = {
    "model_list": [
        {
            "model_name": name,
            "litellm_params": {"model": "openai/gpt-4o", "api_key": "none", **mock},
        }
        for name, mock in (
            ("sleeper", {"mock_tool_calls": [SLEEP]}),
            ("talker", {"mock_response": "I am done."}),
            ("failure", {"mock_response": "litellm.ContextWindowExceededError"}),
        )
    ]
}


@asynccontextmanager
async def litellm_proxy(directory: Path, session: aiohttp.ClientSession) -> AsyncIterator[str]:
    """Yield the base URL of a proxy with mock models and without a key."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = directory / "litellm.yaml"
    config.write_text(json.dumps(MODELS))  # JSON is YAML
    with (directory / "litellm.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(LITELLM, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(directory),
                "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
            },
            stdout=log,
            stderr=log,
        )
    try:

        async def is_alive() -> bool | None:
            try:
                async with session.get(f"http://127.0.0.1:{port}/health/liveliness") as response:
                    return True if response.status == 200 else None
            except aiohttp.ClientConnectionError:
                return None

        await eventually(is_alive, "the proxy to start", START_SECONDS)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.skipif(not LITELLM, reason="HOSTSVC_TEST_LITELLM names no installation of LiteLLM's proxy")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_agent_runs_on_a_third_party_server(
    services: Services, session: aiohttp.ClientSession, directory: Path, stream: bool
) -> None:
    async with litellm_proxy(directory, session) as url:
        service = await services.start(**{"models.acme": {"base_url": url, "stream": stream}})
        client = await sign_up(session, service.url)
        runs, transcripts = {}, {}
        for model in ("sleeper", "talker", "failure", "nobody"):
            agent = await client.create_agent(model=f"acme/{model}")
            await client.post(f"/api/cloud/agents/{agent}/run/")
            runs[model] = await client.ended_run(agent)
            path = f"/api/tracing/traces/{runs[model]['id']}/transcript/"
            transcripts[model] = (await client.get(path))["entries"]
            if model in {"sleeper", "talker"}:
                used = (await client.get(f"/api/cloud/agents/{agent}/usage/"))["model_breakdown"]
                assert used[f"acme/{model}"]["input_tokens"] > 0

    outcomes = {model: run["outcome"] for model, run in runs.items()}
    assert outcomes == {
        "sleeper": "ended" if stream else "slept",  # its mocks do not stream tool calls
        "talker": "ended",
        "failure": "failed",
        "nobody": "failed",
    }
    assert "The model provider acme refused the call with 400" in runs["nobody"]["error"]

    spoken = {model: [entry["role"] for entry in entries] for model, entries in transcripts.items()}
    assert spoken["talker"][:2] == ["system", "user"]
    talker = transcripts["talker"][spoken["talker"].index("assistant")]
    assert talker["text"] == "I am done."
    assert talker["call"]["provider"] == "acme"
    assert talker["call"]["output_tokens"] > 0
    [*_, refused] = transcripts["nobody"]
    assert (refused["role"], refused["error"]) == ("assistant", runs["nobody"]["error"])
