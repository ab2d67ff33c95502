"""Several nodes on one database: what an operation costs them, and how much more they do together.

At a fixed load the nodes share the same requests. Each also does a little while it is idle, which is
measured first: what is left beyond it is the cost of the operations, which must not grow with the nodes.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from statistics import median
from time import perf_counter

import asyncpg

from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.cycles import run_cycles
from tests.benchmarks.figures import Figure, Result, Unit, median_ratio
from tests.benchmarks.posts import post_requests
from tests.benchmarks.requests import load, send_at_rate
from tests.benchmarks.rounds import Sample, Samples, costs, interleave
from tests.benchmarks.trees import HERE

AGENTS = 1000
COUNTS = (1, 4, 8)
POSTS_A_SECOND, CYCLES_A_SECOND = (60, 600), (12, 120)  # little, and what keeps one node half busy
POST_BARS, CYCLE_BARS = (1.05, 1.08), (1.10, 1.15)
POLL_SECONDS = 0.1
IDLE_ROUNDS = 5  # idle for as long as so many rounds: the system counts in ticks of 10 ms

SLOW = replace(HERE, module="tests.benchmarks.slowed")
SLOW_COUNTS = (1, 8)
SLOW_CONNECTIONS, SLOW_AGENTS = 4, 24  # of each node
POST_GAIN, CYCLE_GAIN = 7.2, 7.0

AWAKE = "SELECT count(*) FROM agent_state WHERE status <> 'sleeping'"


async def measure(bench: Bench) -> Result:
    """Measure the processor time of all nodes for POSTs and cycles at the same load."""
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(bench.nodes(count)) for count in COUNTS]
        sides = {one.name: (one, await one.create_agents(AGENTS)) for one in services}
        idle = {one.name: await _idle_ms(one, IDLE_ROUNDS * bench.pace.seconds) for one in services}
        figures = [Figure(f"{name}: idle, each second", idle[name], Unit.CPU) for name in idle]
        for name, priority, rates, bars in (
            ("POSTs", "low", POSTS_A_SECOND, POST_BARS),
            ("cycles", "high", CYCLES_A_SECOND, CYCLE_BARS),
        ):
            for rate in rates:
                measures = {nodes: partial(_at_rate, *side, priority, rate) for nodes, side in sides.items()}
                samples = await interleave(measures, bench.pace)
                figures += _cost_figures(f"{rate} {name}/s", samples, idle, bars)
    return Result("nodes", "The same POSTs and cycles over 1, 4 and 8 nodes", figures)


async def measure_slowed(bench: Bench) -> Result:
    """Measure how much more nodes do than one, if each is so slow that the machine has room for all."""
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(bench.nodes(count, tree=SLOW)) for count in SLOW_COUNTS]
        posts, cycles = {}, {}
        for service, count in zip(services, SLOW_COUNTS, strict=True):
            agents = await service.create_agents(SLOW_AGENTS * count)
            requests, connections = post_requests(service, agents), SLOW_CONNECTIONS * count
            posts[service.name] = partial(load, service.server, requests, connections=connections)
            cycles[service.name] = partial(run_cycles, service, agents)
        figures = []
        for name, sides, bar in (("POST", posts, POST_GAIN), ("cycle", cycles, CYCLE_GAIN)):
            samples = await interleave(sides, bench.pace)
            one, many = ([sample.rate for sample in samples[each.name]] for each in services)
            gain = Figure(f"{name}s of 8 nodes / 1 node", median_ratio(many, one), Unit.RATIO, at_least=bar)
            figures += [gain, *costs(samples, f"{name}, ")]
    return Result("slowed", "Nodes whose loop stands still 5 ms at each POST and 20 ms at each run", figures)


async def _idle_ms(service: Service, seconds: float) -> float:
    """Return the processor time that the nodes take in a second in which nothing is asked of them."""
    before, began = service.server.cpu(), perf_counter()
    await asyncio.sleep(seconds)
    return 1000 * (service.server.cpu()[0] - before[0]) / (perf_counter() - began)


async def _at_rate(
    service: Service, agents: Sequence[str], priority: str, a_second: float, seconds: float
) -> Sample:
    """Send notifications at this rate, wait until all agents sleep, and return what each has cost."""
    before, began = service.server.cpu(), perf_counter()
    answers = await send_at_rate(service.server, post_requests(service, agents, priority), a_second, seconds)
    database = await asyncpg.connect(service.database_url)
    while await database.fetchval(AWAKE):  # noqa: ASYNC110 -- it happens in another process
        await asyncio.sleep(POLL_SECONDS)
    await database.close()
    used = [now - then for then, now in zip(before, service.server.cpu(), strict=True)]
    stored = sum(answer.status == 201 for answer in answers)
    if stored < len(answers):
        raise RuntimeError(f"{len(answers) - stored} of {len(answers)} requests were refused: is it busy?")
    return Sample(stored / (perf_counter() - began), stored, used[0], used[1], 0.0)


def _cost_figures(
    name: str, samples: Samples, idle: Mapping[str, float], bars: Sequence[float]
) -> list[Figure]:
    """Compare the processor time of the servers, in all and beyond what they take while idle."""
    one, *others = samples
    whole = {side: [sample.server_ms for sample in samples[side]] for side in samples}
    beyond = {
        side: [sample.server_ms - idle[side] / sample.rate for sample in samples[side]] for side in samples
    }
    figures = []
    for other, bar in zip(others, bars, strict=True):
        ratios = [median_ratio(costs_ms[other], costs_ms[one]) for costs_ms in (whole, beyond)]
        names = f"{other} / {one}"
        figures += [
            Figure(f"{name}: CPU in all, {names}", ratios[0], Unit.RATIO),
            Figure(f"{name}: CPU beyond idle, {names}", ratios[1], Unit.RATIO, at_most=bar),
        ]
    for side, rounds in samples.items():
        figures += [
            Figure(f"{name}, {side}: server beyond idle", median(beyond[side]), Unit.CPU),
            Figure(f"{name}, {side}: PostgreSQL", median(each.postgres_ms for each in rounds), Unit.CPU),
        ]
    return figures
