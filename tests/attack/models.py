"""Attacks by the answers of a model server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.attack.findings import Finding, at_most, none_of, unmeasured
from tests.attack.measuring import victim_works
from tests.attack.target import AGENTS, Target
from tests.raw_server import raw_server

AGENTS_EACH = 2
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\n"
ANSWERS = {  # by the name of the model: how the answer begins, and how it goes on for ever
    b"tiny-chunks": (CHUNKED, b"1\r\n \r\n" * 10_000),
    b"informational": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000),
    b"lines": (UNTIL_CLOSED, b"data: 1\n" * 10_000),
    b"values": (UNTIL_CLOSED + b"data: [", b"[]," * 100_000 + b"[]]\n\ndata: ["),
    b"refusal": (
        b"HTTP/1.1 400 Bad\r\nContent-Type: text/plain" + b";" * 8_000 + b"\r\n\r\n[",
        b"[]," * 10_000,
    ),
}


async def hostile_models(target: Target) -> list[Finding]:
    """Let a model server answer runs with what costs most to read, while another tenant works."""
    if not target.hostile_provider:
        return [unmeasured("another tenant's POST, p99", "no hostile provider is configured")]
    key = target.attacker.key
    models = [f"{target.hostile_provider}/{name.decode()}" for name in ANSWERS] * AGENTS_EACH
    agents = [await key.create_agent(model=model, debounce_window_seconds=0) for model in models]
    async with victim_works(target) as latencies:
        await asyncio.gather(*(key.notify(agent) for agent in agents))
        runs = await asyncio.gather(*(key.ended_run(agent) for agent in agents))
    for agent in agents:
        await key.status_of(f"{AGENTS}{agent}/", "DELETE")
    wrong = [f"{run['agent']} → {run['outcome']}" for run in runs if run["outcome"] != "failed"]
    return [
        at_most("another tenant's POST, p99", latencies.p99, 100 * target.sizes.patience, "ms"),
        latencies.failures,
        none_of("runs that did not fail", wrong, len(runs)),
    ]


@asynccontextmanager
async def hostile_model_server() -> AsyncIterator[str]:
    """Yield the base URL of a model server that answers by the name of the model."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            request = await reader.readuntil(b'"messages"')
            begins, goes_on = next(answer for name, answer in ANSWERS.items() if name in request)
            writer.write(begins)
            while True:
                writer.write(goes_on)
                await writer.drain()

    async with raw_server(answer, "/v1") as url:
        yield url
