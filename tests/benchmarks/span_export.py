"""Requests at a steady rate without and beside the export of spans to a receiver of OpenTelemetry."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter
from typing import Any

import asyncpg

from storage.postgres.connections import SERVER_SETTINGS
from supervisors.maintenance.span_exporter import SETTLE
from tests.benchmarks.backup import RATE, SECONDS, mixed, p99
from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Figure, Result, Unit, median_ratio
from tests.benchmarks.process_tree import cpu_seconds
from tests.benchmarks.trees import HERE, Tree
from tests.receiver import receiving

RUNS_A_SECOND, SPANS_OF_A_RUN, AGENTS = 1000, 10, 100
RUNS = int(RUNS_A_SECOND * SECONDS)  # end in each round
ROUNDS, QUICK_ROUNDS = 5, 1
SLOWER_MOST, LATE_MOST = 1.25, 3.0

ADD_RUNS = """
INSERT INTO trace (id, organization_id, agent_id, name, started_at, ended_at)
SELECT gen_random_uuid(), a.organization_id, a.id, a.name, now() - interval '1 min', now() - interval '50 s'
FROM (SELECT *, row_number() OVER (ORDER BY id) - 1 AS place FROM agent) a
JOIN generate_series(1, $1::integer) n ON n % $2::integer = a.place
"""
ADD_SPANS = """
WITH added AS (
    INSERT INTO span (id, trace_id, parent_id, name, span_type, started_at, ended_at)
    SELECT gen_random_uuid(), t.id, t.id, 'chat gpt-5', 'llm', t.started_at + n * interval '1 s', t.ended_at
    FROM trace t CROSS JOIN generate_series(1, $1::integer) n RETURNING id
)
INSERT INTO span_metadata (span_id, metadata)
SELECT id, '{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-5",
    "gen_ai.response.model": "gpt-5", "gen_ai.response.finish_reasons": ["stop"],
    "gen_ai.usage.input_tokens": 1234, "gen_ai.usage.output_tokens": 56}'
FROM added
"""
END_RUNS = """
INSERT INTO event (at, type, organization_id, agent_id, run_id)
SELECT now(), 'run.ended', organization_id, agent_id, id FROM trace WHERE id = ANY($1)
"""
HAS_BEGUN = "SELECT spans_exported_until IS NOT NULL FROM instance"
IS_DONE = """
SELECT spans_exported_until >= (SELECT max(id) FROM event WHERE type = 'run.ended') FROM instance
"""
DUE_SECONDS = SETTLE.total_seconds() + 5.0  # after the end of a run, with `runs.stop_grace_seconds`
POLL_SECONDS, STEP_SECONDS = 0.1, 0.1


@dataclass(slots=True)
class Side:
    """A service whose runs end, what is asked of it, and what was measured, round by round."""

    service: Service
    exporter: int | None  # the process that exports their spans
    connection: "asyncpg.Connection[asyncpg.Record]"
    requests: Sequence[str] = ()
    runs: Sequence[Any] = ()
    p99s: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)  # seconds from when the last run is due until all is sent
    cpu: list[float] = field(default_factory=list)  # seconds of the exporter in a round

    async def prepare(self) -> None:
        """Store the runs that end in each round, and wait until the export has begun."""
        self.requests = mixed(self.service, await self.service.create_agents(AGENTS))
        await self.connection.execute(ADD_RUNS, RUNS, AGENTS, timeout=300)
        await self.connection.execute(ADD_SPANS, SPANS_OF_A_RUN, timeout=300)
        await self.connection.execute("VACUUM ANALYZE", timeout=300)
        self.runs = [row["id"] for row in await self.connection.fetch("SELECT id FROM trace")]
        if self.exporter:
            await self._wait_until(HAS_BEGUN)

    async def measure(self) -> None:
        """Let runs end, and send the requests while their spans are exported, at the same rate."""
        ended_at, process = await self._end_runs(), self.exporter or self.service.server.pid
        before = cpu_seconds(process)
        self.p99s.append(await p99(self.service, self.requests))
        if self.exporter:
            await self._wait_until(IS_DONE)
            self.late.append(perf_counter() - ended_at - DUE_SECONDS)
        self.cpu.append(cpu_seconds(process) - before)

    async def _end_runs(self) -> float:
        """End the runs at a steady rate. Return when the last one ended, once the first ones are due."""
        began, step = perf_counter(), int(RUNS_A_SECOND * STEP_SECONDS)
        for first in range(0, RUNS, step):
            await asyncio.sleep(began + first / RUNS_A_SECOND - perf_counter())
            await self.connection.execute(END_RUNS, self.runs[first : first + step])
        ended_at = perf_counter()
        await asyncio.sleep(began + DUE_SECONDS - ended_at)
        return ended_at

    async def _wait_until(self, question: str) -> None:
        while not await self.connection.fetchval(question):  # noqa: ASYNC110 -- another process does it
            await asyncio.sleep(POLL_SECONDS)


async def measure(bench: Bench) -> Result:
    """Send the same requests while spans are not exported, by the same process, and by a node for chores."""
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(receiving())
        exporting = replace(HERE, variables={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
        sides = [
            await stack.enter_async_context(side)
            for side in (_alone(bench, HERE), _alone(bench, exporting), _with_node(bench, exporting))
        ]
        for side in sides:
            await side.prepare()
        for number in range(QUICK_ROUNDS if bench.is_quick else ROUNDS):
            for side in sides[number % 3 :] + sides[: number % 3]:
                await side.measure()
                receiver.requests.clear()
    return Result(
        "export",
        f"{RUNS_A_SECOND * SPANS_OF_A_RUN:,} spans/s to a receiver beside {RATE:g} requests/s",
        _figures(*sides),
    )


@asynccontextmanager
async def _alone(bench: Bench, tree: Tree) -> AsyncIterator[Side]:
    async with bench.service(tree=tree) as service, _connection(service) as connection:
        yield Side(service, service.server.pid if tree.variables else None, connection)


@asynccontextmanager
async def _with_node(bench: Bench, exporting: Tree) -> AsyncIterator[Side]:
    """Run a service that leaves the chores to a second process."""
    async with (
        bench.service({"node": {"roles": ["http", "runs"]}}) as service,
        bench.process_on(service.server.database, {"node": {"roles": ["chores"]}}, exporting) as node,
        _connection(service) as connection,
    ):
        yield Side(service, node.pid, connection)


@asynccontextmanager
async def _connection(service: Service) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    connection = await asyncpg.connect(service.database_url, server_settings=SERVER_SETTINGS)
    yield connection
    await connection.close()


def _figures(without: Side, beside: Side, node: Side) -> list[Figure]:
    spent = [busy - idle for busy, idle in zip(beside.cpu, without.cpu, strict=True)]
    return [
        Figure("p99 without an export", median(without.p99s), Unit.MS),
        Figure("p99 beside an export", median(beside.p99s), Unit.MS),
        Figure("times as long", median_ratio(beside.p99s, without.p99s), Unit.RATIO, at_most=SLOWER_MOST),
        Figure("p99 beside a node that exports", median(node.p99s), Unit.MS),
        Figure("times as long", median_ratio(node.p99s, without.p99s), Unit.RATIO, at_most=SLOWER_MOST),
        Figure("the last span is late by", max(beside.late + node.late), Unit.SECONDS, at_most=LATE_MOST),
        Figure("the exporter, for 1,000 spans", 1e6 * median(spent) / RUNS / SPANS_OF_A_RUN, Unit.CPU),
    ]
