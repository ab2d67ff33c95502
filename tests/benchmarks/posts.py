"""POST of a notification: authenticated, validated and durable, against a bare handler with one insert."""

from collections.abc import Sequence
from functools import partial

from tests.benchmarks.bare_server import PATH as BARE_PATH
from tests.benchmarks.bench import Bench, Server, Service
from tests.benchmarks.figures import Figure, Result, Unit, percentile
from tests.benchmarks.requests import NOTIFICATIONS, load, notification_request, send_at_rate
from tests.benchmarks.rounds import BARE, compare, interleave

TITLE = "POST of a low notification against an insert into the same table"
AGENTS = 500
RATE_BAR = 1.25
P99_BAR_MS = 10.0
HALF_LOAD = 0.5


def post_requests(service: Service, agents: Sequence[str], priority: str = "low") -> list[str]:
    """Return a request to the service for each agent."""
    return [notification_request(NOTIFICATIONS, agent, service.client, priority) for agent in agents]


def insert_requests(agents: Sequence[str]) -> list[str]:
    """Return a request to the bare handler for each agent."""
    return [notification_request(BARE_PATH, agent) for agent in agents]


async def measure(bench: Bench) -> Result:
    """Measure all sides as fast as they can, and then all at half the rate of the slowest."""
    async with bench.services() as services, bench.bare(services[0]) as bare:
        agents = [await one.create_agents(AGENTS) for one in services]
        targets = [(one.server, post_requests(one, some)) for one, some in zip(services, agents, strict=True)]
        targets.append((bare, insert_requests(agents[0])))
        sides = {server.name: partial(load, server, requests) for server, requests in targets}
        samples = await interleave(sides, bench.pace)
        half = HALF_LOAD * min(sample.rate for name in sides for sample in samples[name])
        p99 = {server.name: await _p99_ms(server, requests, half, bench) for server, requests in targets}
    figures = [
        *compare(samples, RATE_BAR),
        Figure("half load", half, Unit.PER_SECOND),
        *(_p99_figure(name, p99) for name in p99),
    ]
    return Result("posts", TITLE, figures)


async def _p99_ms(server: Server, requests: Sequence[str], a_second: float, bench: Bench) -> float:
    answers = await send_at_rate(server, requests, a_second, bench.pace.seconds)
    return percentile(0.99, [1000 * answer.took_seconds for answer in answers])


def _p99_figure(name: str, p99: dict[str, float]) -> Figure:
    """Judge the service only if the machine was quiet enough for the bare handler to be in time."""
    is_judged = name != BARE and p99[BARE] <= P99_BAR_MS
    return Figure(f"{name}: p99 at half load", p99[name], Unit.MS, at_most=P99_BAR_MS if is_judged else None)
