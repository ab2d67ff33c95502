"""Reads by id, of the common resources, against a bare handler that selects the same row."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Figure, Result
from tests.benchmarks.requests import get_request, load
from tests.benchmarks.rounds import BARE, Samples, compare, interleave

AGENTS = 500
OTHERS = 50
AGENT_BAR = 1.3
READ_BAR = 1.3
WITHOUT_BAR = {"trace"}  # it is read by several statements

PATHS = {
    "agent": "/api/cloud/agents/{id}/",
    "notification": "/api/defaults/notifications/{id}/",
    "run": "/api/cloud/agents/{agent}/runs/{id}/",
    "trace": "/api/tracing/traces/{id}/",
    "message": "/api/defaults/messages/{id}/",
    "contact": "/api/defaults/contacts/{id}/",
    "document": "/api/defaults/documents/{id}/",
    "template": "/api/templates/{id}/",
}
CREATED: dict[str, tuple[str, dict[str, Any]]] = {
    "notification": ("/api/defaults/notifications/", {"title": "Hello", "body": "World", "priority": "low"}),
    "trace": ("/api/tracing/traces/", {"name": "Visit", "metadata": {"room": 7}}),
    "contact": ("/api/defaults/contacts/", {"name": "Ann"}),
    "document": ("/api/defaults/documents/", {"title": "Note", "content": "Tea at five. " * 20}),
}
MESSAGES = "/api/defaults/messages/"
MESSAGE = {"channel": "sms", "direction": "inbound", "body": "Where is the parcel?"}


async def measure_agents(bench: Bench) -> Result:
    """Measure GET of an agent, over many of them."""
    async with bench.services() as services:
        ids = [await one.create_agents(AGENTS) for one in services]
        paths = [[PATHS["agent"].format(id=agent) for agent in some] for some in ids]
        samples = await _measure(bench, services, "agent", paths)
    title = f"GET of one of {AGENTS} agents against a select by id"
    return Result("get", title, compare(samples, AGENT_BAR))


async def measure_others(bench: Bench) -> Result:
    """Measure GET of each other resource."""
    figures: list[Figure] = []
    async with bench.services() as services:
        made = [await _create(one) for one in services]
        for table in made[0]:
            samples = await _measure(bench, services, table, [paths[table] for paths in made])
            bar = None if table in WITHOUT_BAR else READ_BAR
            figures += compare(samples, bar, prefix=f"{table}: ")
    return Result("reads", "GET by id against a select by id", figures)


async def _measure(
    bench: Bench, services: Sequence[Service], table: str, paths: Sequence[Sequence[str]]
) -> Samples:
    """Measure these paths of each service, and the rows of the first one by the bare handler."""
    async with bench.bare(services[0]) as bare:
        sides = {
            one.name: partial(load, one.server, [get_request(path, one.client) for path in some])
            for one, some in zip(services, paths, strict=True)
        }
        selects = [get_request(f"/{table}/{_id(path)}/") for path in paths[0]]
        return await interleave({**sides, BARE: partial(load, bare, selects)}, bench.pace)


def _id(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


async def _create(service: Service) -> dict[str, list[str]]:
    """Create some of each resource, and return the paths to read them at."""
    client, agents = service.client, await service.create_agents(OTHERS)
    paths: dict[str, list[str]] = {}
    for kind, (path, body) in CREATED.items():
        made = await asyncio.gather(*(client.post(path, agent=agent, **body) for agent in agents))
        paths[kind] = [PATHS[kind].format(id=one["id"]) for one in made]
    templates = [client.post("/api/templates/", name=f"Template {number}") for number in range(OTHERS)]
    paths["template"] = [PATHS["template"].format(id=one["id"]) for one in await asyncio.gather(*templates)]
    contacts = zip(agents, map(_id, paths["contact"]), strict=True)
    sent = [client.post(MESSAGES, agent=agent, contact=contact, **MESSAGE) for agent, contact in contacts]
    paths["message"] = [PATHS["message"].format(id=one["id"]) for one in await asyncio.gather(*sent)]
    runs = [await client.ended_run(agent) for agent in agents]
    paths["run"] = [PATHS["run"].format(agent=run["agent"], id=run["id"]) for run in runs]
    return paths
