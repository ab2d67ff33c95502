"""Requests at a steady rate without the export of spans, beside it, and beside other work.

The other work takes as much processor time as the export takes in all processes, and touches nothing of the
service. So a machine that is full slows the requests beside both, and only the export's own delays differ.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter
from typing import Any

import asyncpg

from hostsvc.span_export_process import NICENESS
from storage.postgres.connections import SERVER_SETTINGS
from supervisors.maintenance.span_exporter import SETTLE
from tests.benchmarks.backup import RATE, SECONDS, mixed, p99
from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Figure, Result, Unit, median_ratio
from tests.benchmarks.process_tree import cpu_seconds, own_cpu_seconds
from tests.benchmarks.trees import HERE

RUNS_A_SECOND, SPANS_OF_A_RUN, AGENTS = 1000, 10, 100
RUNS = int(RUNS_A_SECOND * SECONDS)  # end in each round
ROUNDS, QUICK_ROUNDS = 5, 1
SLOWER_MOST, CPU_MOST, LATE_MOST = 1.1, 1.05, 3.0
WORK_LEAST = 0.9  # else the machine had no time for it, and the comparison says nothing

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
OTHER_WORK = """
import os, sys, time
os.nice(int(sys.argv[2]))
began = time.perf_counter()
while True:
    while time.process_time() < float(sys.argv[1]) * (time.perf_counter() - began): pass
    time.sleep(0.005)
"""


@dataclass(slots=True)
class Side:
    """A service whose runs end, what is asked of it, and what was measured, round by round."""

    service: Service
    receiver: int | None  # the process that receives the spans, if they are exported
    connection: "asyncpg.Connection[asyncpg.Record]"
    requests: Sequence[str] = ()
    runs: Sequence[Any] = ()
    p99s: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)  # seconds from when the last run is due until all is sent
    serving: list[float] = field(
        default_factory=list
    )  # processor time of a request, in the service's process
    total: list[float] = field(default_factory=list)  # of all processes in a round
    work: list[float] = field(default_factory=list)  # of the other work in a round

    async def prepare(self) -> None:
        """Store the runs that end in each round, and wait until the export has begun."""
        self.requests = mixed(self.service, await self.service.create_agents(AGENTS))
        await self.connection.execute(ADD_RUNS, RUNS, AGENTS, timeout=300)
        await self.connection.execute(ADD_SPANS, SPANS_OF_A_RUN, timeout=300)
        await self.connection.execute("VACUUM ANALYZE", timeout=300)
        self.runs = [row["id"] for row in await self.connection.fetch("SELECT id FROM trace")]
        if self.receiver:
            await self._wait_until(HAS_BEGUN)

    def beside(self) -> "Side":
        """Return the same service, of which something else is measured."""
        return replace(self, p99s=[], late=[], serving=[], total=[], work=[])

    async def measure(self, other_work: AbstractAsyncContextManager[Process | None] | None = None) -> None:
        """Let runs end, and send the requests while their spans are exported, at the same rate."""
        ended_at, total, own = await self._end_runs(), self._total(), self._own()
        async with other_work or nullcontext() as work:
            self.p99s.append(await p99(self.service, self.requests))
            self.work.append(cpu_seconds(work.pid) if work else 0.0)
        self.serving.append((self._own() - own) / (RATE * SECONDS))
        if self.receiver:
            await self._wait_until(IS_DONE)
            self.late.append(perf_counter() - ended_at - DUE_SECONDS)
        self.total.append(self._total() - total)

    def _own(self) -> float:
        return own_cpu_seconds(self.service.server.pid)

    def _total(self) -> float:
        return sum(self.service.server.cpu()) + (cpu_seconds(self.receiver) if self.receiver else 0.0)

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
    """Send the same requests while nothing else happens, spans are exported, and something else works."""
    async with (
        _process("-m", "tests.benchmarks.span_receiver") as receiver,
        _side(bench) as without,
        _side(bench, receiver) as beside,
    ):
        await without.prepare()
        await beside.prepare()
        other = without.beside()
        for number in range(QUICK_ROUNDS if bench.is_quick else ROUNDS):
            for side in (without, beside) if number % 2 == 0 else (beside, without):
                await side.measure()
            share = (beside.total[-1] - without.total[-1]) / SECONDS
            await other.measure(_process("-c", OTHER_WORK, str(share), str(NICENESS)))
    return Result(
        "export",
        f"{RUNS_A_SECOND * SPANS_OF_A_RUN:,} spans/s to a receiver beside {RATE:g} requests/s",
        _figures(without, beside, other),
    )


@asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE)
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def _side(bench: Bench, receiver: Process | None = None) -> AsyncIterator[Side]:
    """Run a service that exports to the receiver, if there is one."""
    tree = HERE
    if receiver is not None:
        assert receiver.stdout is not None
        url = (await receiver.stdout.readline()).decode().strip()
        tree = replace(HERE, variables={"OTEL_EXPORTER_OTLP_ENDPOINT": url})
    async with bench.service(tree=tree) as service:
        connection = await asyncpg.connect(service.database_url, server_settings=SERVER_SETTINGS)
        yield Side(service, receiver.pid if receiver else None, connection)
        await connection.close()


def _figures(without: Side, beside: Side, other: Side) -> list[Figure]:
    spent = [busy - idle for busy, idle in zip(beside.total, without.total, strict=True)]
    return [
        Figure("p99 without an export", median(without.p99s), Unit.MS),
        Figure("p99 beside an export", median(beside.p99s), Unit.MS),
        Figure("p99 beside other work", median(other.p99s), Unit.MS),
        Figure("times as long as without", median_ratio(beside.p99s, without.p99s), Unit.RATIO),
        Figure(
            "times as long as beside other work",
            median_ratio(beside.p99s, other.p99s),
            Unit.RATIO,
            at_most=SLOWER_MOST,
        ),
        Figure("a request without an export", 1000 * median(without.serving), Unit.CPU),
        Figure("a request beside an export", 1000 * median(beside.serving), Unit.CPU),
        Figure("a request beside other work", 1000 * median(other.serving), Unit.CPU),
        Figure(
            "times that of beside other work",
            median_ratio(beside.serving, other.serving),
            Unit.RATIO,
            at_most=CPU_MOST,
        ),
        Figure("the export, for 1,000 spans", 1e6 * median(spent) / RUNS / SPANS_OF_A_RUN, Unit.CPU),
        Figure(
            "other work, of the export's", median_ratio(other.work, spent), Unit.RATIO, at_least=WORK_LEAST
        ),
        Figure("the last span is late by", max(beside.late), Unit.SECONDS, at_most=LATE_MOST),
    ]
