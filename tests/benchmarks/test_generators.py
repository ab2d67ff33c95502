"""The load generators against a running service. Nothing is judged here: they only have to work."""

import os
from pathlib import Path

from tests.benchmarks.bare_server import PATH as BARE_PATH
from tests.benchmarks.bench import Bench, Database
from tests.benchmarks.cycles import run_cycles
from tests.benchmarks.posts import insert_requests, post_requests
from tests.benchmarks.requests import get_request, load, send_at_rate
from tests.benchmarks.rounds import QUICK

SECONDS = 0.1


async def test_generators_load_the_service(tmp_path: Path, database_url: str) -> None:
    database = Database(database_url, postmaster=os.getpid())  # the times of PostgreSQL mean nothing here
    async with Bench(tmp_path, QUICK).service_on(database) as service:
        agents = await service.create_agents(3)
        posts = await load(service.server, post_requests(service, agents), SECONDS, connections=2)
        answers = await send_at_rate(service.server, post_requests(service, agents), 100, SECONDS)
        cycles = await run_cycles(service, agents, SECONDS)
        runs = [len(await service.client.runs(agent)) for agent in agents]
    assert posts.operations > 0
    assert posts.server_cpu >= 0
    assert [answer.status for answer in answers] == [201] * 10
    assert len({answer.id for answer in answers}) == 10
    assert cycles.operations == sum(runs) >= 3


async def test_generators_load_the_bare_handler(tmp_path: Path, database_url: str) -> None:
    bench, database = Bench(tmp_path, QUICK), Database(database_url, postmaster=os.getpid())
    async with bench.service_on(database) as service, bench.bare(service) as bare:
        agents = await service.create_agents(2)
        for requests in (
            insert_requests(agents),
            [get_request(BARE_PATH)],
            [get_request(f"/agent/{agent}/") for agent in agents],
        ):
            assert (await load(bare, requests, SECONDS, connections=2)).operations > 0
        assert len(await service.client.get("/api/defaults/notifications/")) > 0
