"""Calls of a cheap tool by the Model Context Protocol, against the same calls over REST."""

from functools import partial

from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Figure, Result, Unit, median_ratio
from tests.benchmarks.posts import AGENTS
from tests.benchmarks.requests import load, post_request
from tests.benchmarks.rounds import costs, interleave

TITLE = "Calls of a tool by MCP against the same over REST"
RATE_BAR = 0.8
TOOL = "get_time"
MESSAGE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": TOOL,
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
HEADERS = f"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {TOOL}\r\n"


async def measure(bench: Bench) -> Result:
    """Measure calls for many agents."""
    async with bench.service() as service:
        paths = [f"/api/cloud/agents/{agent}/" for agent in await service.create_agents(AGENTS)]
        over_rest = [post_request(f"{path}tools/{TOOL}/", {}, service.client) for path in paths]
        by_mcp = [
            post_request(f"{path}mcp/", MESSAGE, service.client).replace("Host:", f"{HEADERS}Host:", 1)
            for path in paths
        ]
        sides = {
            "mcp": partial(load, service.server, by_mcp),
            "rest": partial(load, service.server, over_rest),
        }
        samples = await interleave(sides, bench.pace)
    ratio = median_ratio(*([one.rate for one in samples[name]] for name in sides))
    figures = [Figure("rate, mcp / rest", ratio, Unit.RATIO, at_least=RATE_BAR), *costs(samples)]
    return Result("mcp", TITLE, figures)
