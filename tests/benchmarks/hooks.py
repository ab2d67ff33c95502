"""Signed deliveries to a hook, against POST of the same notifications."""

import hmac
import json
from functools import partial
from itertools import count

from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Figure, Result, Unit, median_ratio
from tests.benchmarks.posts import AGENTS, post_requests
from tests.benchmarks.requests import load
from tests.benchmarks.rounds import Sample, costs, interleave

TITLE = "Delivery to a hook against POST of a notification"
RATE_BAR = 0.7
MAX_A_SECOND = 20_000  # no delivery comes twice in a round
SECRET = "It's a Secret to Everybody"
PAYLOAD = {
    "action": "arrived",
    "parcel": {
        "title": "Delivery report",
        "text": "The parcel with the spare parts has arrived at the front desk.",
    },
}


async def measure(bench: Bench) -> Result:
    """Measure deliveries for one agent, signed as GitHub's, and POST for many agents."""
    async with bench.service() as service:
        agents = await service.create_agents(AGENTS)
        hook = await service.client.post(
            "/api/organizations/hooks/",
            name="Parcels",
            agent=agents[0],
            verify="github",
            secret=SECRET,
            title="{{ parcel.title }}",
            body="{{ parcel.text }}",
            priority="low",
        )
        sides = {
            "hook": partial(_deliver, service, hook["path"], count()),
            "post": partial(load, service.server, post_requests(service, agents)),
        }
        samples = await interleave(sides, bench.pace)
    ratio = median_ratio(*([one.rate for one in samples[name]] for name in sides))
    figures = [Figure("rate, hook / post", ratio, Unit.RATIO, at_least=RATE_BAR), *costs(samples)]
    return Result("hooks", TITLE, figures)


async def _deliver(service: Service, path: str, numbers: "count[int]", seconds: float) -> Sample:
    """Send deliveries that the service has not seen."""
    raw = json.dumps(PAYLOAD)
    signature = hmac.digest(SECRET.encode(), raw.encode(), "sha256").hex()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(raw)}\r\nX-Hub-Signature-256: sha256={signature}\r\nX-GitHub-Delivery: "
    wanted = round(MAX_A_SECOND * seconds)
    return await load(service.server, [f"{head}{next(numbers)}\r\n\r\n{raw}" for _ in range(wanted)], seconds)
