"""POST of lists of 100 full spans, as an exporter sends them; beside it one insert of the bare handler."""

from dataclasses import replace
from functools import partial

from storage.ids import new_id
from tests.benchmarks.bench import Bench, Server, Service
from tests.benchmarks.figures import Figure, Result, Unit
from tests.benchmarks.posts import insert_requests
from tests.benchmarks.requests import load, post_request
from tests.benchmarks.rounds import BARE, Sample, compare, interleave

SPANS = 100
TRACES = 64  # a trace holds at most 100,000 spans, so that each gets some of the load
BAR = 20_000
METADATA = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.finish_reasons": ["tool_calls"],
    "gen_ai.usage.input_tokens": 1204,
    "gen_ai.usage.output_tokens": 37,
    "gen_ai.input.messages": [
        {"role": "user", "parts": [{"type": "text", "content": "Where is my parcel?"}]}
    ],
    "gen_ai.output.messages": [
        {"role": "assistant", "parts": [{"type": "text", "content": "I look it up."}]}
    ],
}


async def measure(bench: Bench) -> Result:
    """Measure spans a second: the operations of the service are single spans."""
    async with bench.services() as services, bench.bare(services[0]) as bare:
        sides = {one.name: partial(_load_spans, one.server, await _requests(one)) for one in services}
        agents = await services[0].create_agents(TRACES)
        samples = await interleave({**sides, BARE: partial(load, bare, insert_requests(agents))}, bench.pace)
    figures = compare(samples)
    rate = next(figure for figure in figures if figure.name == f"{services[0].name}: rate")
    judged = Figure("spans stored", rate.value, Unit.PER_SECOND, at_least=BAR)
    return Result("spans", f"POST of lists of {SPANS} full spans", [judged, *figures])


async def _load_spans(server: Server, requests: list[str], seconds: float) -> Sample:
    sample = await load(server, requests, seconds)
    return replace(sample, rate=sample.rate * SPANS, operations=sample.operations * SPANS)


async def _requests(service: Service) -> list[str]:
    """Return a request for each trace; the service chooses the ids of the spans."""
    agent, requests = await service.client.create_agent(), []
    for number in range(TRACES):
        trace = (await service.client.post("/api/tracing/traces/", agent=agent, name=f"Visit {number}"))["id"]
        span = {
            "trace": trace,
            "parent": str(new_id()),
            "type": "llm",
            "started_at": "2026-11-20T10:28:33.967525Z",
            "ended_at": "2026-11-20T10:28:35.114202Z",
            "metadata": METADATA,
        }
        spans = [{**span, "name": f"chat gpt-4o {position}"} for position in range(SPANS)]
        requests.append(post_request("/api/tracing/spans/", spans, service.client))
    return requests
