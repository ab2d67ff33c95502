"""The protocol's own conformance suite, from npm, against both eras of an agent's endpoint.

What is listed in `conformance-<revision>.yml` is expected to fail, because the service has no such feature.
The suite fails as well if something of the list passes, so the list can only shrink.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from tests.patience import PATIENCE_SECONDS
from tests.receiver import answering_json, receiving
from tests.web.api.toolbox.toolbox import create_adapter, create_tool
from tests.web.conftest import Api, Service
from tests.web.mcp.messages import agent_path

pytestmark = [pytest.mark.slow, pytest.mark.one_node]

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "node@22"  # the suite needs it, and many systems have an older one
PASSED_ON = ("Accept", "Content-Type", "Origin", "Last-Event-ID")


def npx() -> str:
    found = shutil.which("npx")
    if found is None:
        pytest.skip("npx is missing: install Node.js to run the conformance suite")
    return found


async def suite(*arguments: str, directory: Path) -> tuple[int, str]:
    """Run the suite and return its exit code and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *(npx(), "--yes", "-p", NODE, "-p", SUITE, "conformance", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=directory,
        env={**os.environ, "NO_COLOR": "1"},
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return int(process.returncode or 0), output.decode()


@asynccontextmanager
async def with_credential(api: Api, url: str) -> AsyncIterator[str]:
    """Serve a proxy that adds the credential, which the suite cannot send. Yield its address."""

    async def forward(request: web.Request) -> web.Response:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in PASSED_ON or name.lower().startswith("mcp-")
        }
        headers["Authorization"] = str(api.authorization)
        body = await request.read()
        async with client.request(request.method, url, headers=headers, data=body) as answer:
            kept = {
                name: value for name, value in answer.headers.items() if name in {"Content-Type", "Allow"}
            }
            return web.Response(status=answer.status, headers=kept, body=await answer.read())

    app = web.Application()
    app.router.add_route("*", "/mcp", forward)
    async with ClientSession() as client, TestServer(app) as server:
        yield str(server.make_url("/mcp"))


async def create_agent_with_tools(api: Api, url: str) -> Any:
    """Create an agent with those tools of the suite that answer in text."""
    adapter = await create_adapter(api)
    for name in ("test_simple_text", "test_error_handling"):
        body = {"name": name, "description": f"For the suite: {name}.", "parameters": {"type": "object"}}
        await create_tool(api, adapter, url=f"{url}/{name}", **body)
    return await api.create_agent(adapters=[adapter["id"]])


async def answer(request: web.Request) -> web.StreamResponse:
    if request.path == "/test_error_handling":
        return web.json_response({"detail": "This tool always fails."}, status=422)
    return await answering_json('"This is a simple text response for testing."')(request)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_conformance_suite_fails_only_where_expected(
    api: Api, service: Service, tmp_path: Path, revision: str
) -> None:
    try:
        code, printed = await suite("--version", directory=tmp_path)
    except TimeoutError:
        code, printed = 1, "it takes too long"
    if code:
        pytest.skip(f"npx cannot install the conformance suite: {printed.strip()[-200:]}")
    expected = Path(__file__).with_name(f"conformance-{revision}.yml")
    async with receiving() as receiver:
        receiver.answer = answer
        agent = await create_agent_with_tools(api, receiver.url)
        url = f"http://{service.address[0]}:{service.address[1]}{agent_path(agent)}"
        async with with_credential(api, url) as proxy:
            code, printed = await suite(
                *("server", "--url", proxy, "--requirements", revision),
                *("--expected-failures", str(expected)),
                directory=tmp_path,
            )
    assert code == 0, printed
