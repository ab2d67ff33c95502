"""Several workers on one machine: one address, one announcement, and none that takes the others with it."""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from tests.acceptance.client import eventually, sign_up
from tests.acceptance.harnesses import COMMON, RUNS
from tests.acceptance.log_lines import line_of, lines_of
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.git_repository import GitRepository
from tests.processes import children, content, is_alive

TWO = ("--workers", "2")
NODE = {"name": "m"}
NODES = ("m/1", "m/2")
NOBODY = "postgresql://somebody@127.0.0.1:1/nothing"


async def start(services: Services, *options: str, **sections: Mapping[str, Any]) -> ServiceProcess:
    """Start a service of two workers, and wait until both serve."""
    service = await services.spawn(*TWO, *options, node=NODE, **sections)
    await service.ready()
    return service


async def test_two_workers_announce_once_and_end_together(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await start(services, "--guide")
    for name in NODES:
        assert (await line_of(service, event="service ready", node=name))["address"] == service.url
    assert await (await sign_up(session, service.url)).status_of("/readyz") == 200
    workers = children(service.pid)
    assert len(workers) == 2
    service.terminate()
    assert await service.exit_code() == 0
    printed = await service.rest()
    assert printed.count("Open http://") == 1
    assert "listening" not in printed
    for name in NODES:
        await line_of(service, event="service stopped", node=name)
    assert not any(map(is_alive, workers))


async def test_embedded_database_ends_with_the_last_worker(
    embedded_services: Services, session: aiohttp.ClientSession
) -> None:
    service = await start(embedded_services)
    await (await sign_up(session, service.url)).create_agent()
    service.terminate()
    assert await service.exit_code() == 0
    assert not (embedded_services.directory / "data/postgres/postmaster.pid").exists()


async def test_killed_worker_is_replaced_and_no_connection_refused(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await start(services)
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    since = len(service.log())
    os.kill(children(service.pid)[0], signal.SIGKILL)
    while not any(line["event"] == "service ready" for line in lines_of(service, since)):
        await _ask(service.url)
    assert (await client.post(f"/api/cloud/agents/{agent}/run/"))["status"] == "started"
    assert (await client.ended_run(agent))["outcome"] == "slept"
    ended = await line_of(service, event="worker ended")
    assert (ended["worker"], ended["exit_code"]) == (1, -signal.SIGKILL)


async def _ask(url: str) -> None:
    """Send a request on a new connection, which may be lost with the worker but is never refused."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz") as response:
            assert response.status == 200
    except aiohttp.ClientConnectorError:  # refused
        raise
    except aiohttp.ClientConnectionError:  # the killed worker had accepted it
        pass


async def test_status_and_counters_are_those_of_all_workers(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await start(services)
    client = await sign_up(session, service.url)
    for _ in range(4):
        agent = await client.create_agent()
        await client.post(f"/api/cloud/agents/{agent}/run/")
        await client.ended_run(agent)

    async def both() -> bool | None:
        status = await _operators_get(service, "/status/")  # of the other worker as its last beat told
        assert tuple(node["name"] for node in status["nodes"]) == NODES
        return True if status["runs"]["limit"] == 100 else None

    await eventually(both, "the workers to tell each other their run slots")
    await eventually(lambda: _counts_runs(service, 4), "each worker to publish its counters")
    os.kill(children(service.pid)[0], signal.SIGKILL)

    async def replaced() -> bool | None:
        assert await _counts_runs(service, 4)
        status = await _operators_get(service, "/status/")
        return True if tuple(node["name"] for node in status["nodes"]) == NODES[::-1] else None

    await eventually(replaced, "the worker to be replaced")

    async def ended() -> list[str] | None:
        nodes = (await _operators_get(service, "/status/"))["ended_nodes"]
        return [node["name"] for node in nodes] or None

    assert await eventually(ended, "the killed worker to be named") == [NODES[0]]


async def _counts_runs(service: ServiceProcess, runs: int) -> bool | None:
    metrics = await _operators_get(service, "/metrics")
    return True if f"\nhostsvc_runs_started_total {float(runs)}\n" in metrics else None


async def _operators_get(service: ServiceProcess, path: str) -> Any:
    """Ask on a new connection, again if it is lost with its worker."""
    headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
    while True:
        try:
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.get(service.url + path) as response,
            ):
                return await (response.text() if path == "/metrics" else response.json())
        except aiohttp.ClientConnectionError:
            pass


async def test_workers_drain_and_end_when_their_parent_is_killed(services: Services) -> None:
    service = await start(services)
    workers = children(service.pid)
    await service.kill()

    async def look() -> bool | None:
        return None if any(map(is_alive, workers)) else True

    await eventually(look, "the workers to end")
    for name in NODES:
        await line_of(service, event="service stopped", node=name)
    port = service.url.rpartition(":")[2]
    again = await services.spawn(*TWO, server={"port": int(port)}, node=NODE)
    assert await again.ready() == service.url


async def test_refused_database_ends_all_with_one_message(services: Services) -> None:
    service = await services.spawn(*TWO, database={"url": NOBODY}, node=NODE)
    assert await service.exit_code() == 2
    assert [line["event"] for line in lines_of(service)] == ["service starting", "service refused"]


async def test_run_of_own_code_calls_the_worker_that_started_it(
    services: Services, session: aiohttp.ClientSession, directory: Path
) -> None:
    repository = GitRepository.make(directory / "agents")
    repository.commit(common=COMMON, run=RUNS["shows"])
    cache = directory / "cache"
    reports = cache / "reports"  # three folders above that of a run
    reports.mkdir(parents=True)
    harness = {
        "kind": "process",
        "containment": "none",
        "repository": str(repository.path),
        "command": [sys.executable, "-S", "-B", "run.py"],
        "cache_dir": str(cache),
    }
    service = await start(services, harness=harness)
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    assert (await client.post(f"/api/cloud/agents/{agent}/run/"))["status"] == "started"
    seen = json.loads(await content(reports / agent))["environment"]
    assert seen["HOSTSVC_URL"] != service.url
    assert await client.at(seen["HOSTSVC_URL"]).status_of("/readyz") == 200
    assert {path.name for path in cache.iterdir()} == {"reports", "worker-1", "worker-2"}
    await client.ended_run(agent)
