"""Requests at a steady rate without and beside the export of spans to a receiver of OpenTelemetry."""

import asyncio
import time
from dataclasses import replace
from statistics import median
from typing import Any

import asyncpg
from aiohttp import web

from storage.postgres.connections import SERVER_SETTINGS
from tests.benchmarks.backup import RATE, mixed, p99
from tests.benchmarks.bench import Bench, Database
from tests.benchmarks.figures import Figure, Result, Unit, median_ratio
from tests.benchmarks.trees import HERE
from tests.receiver import Receiver, receiving

RUNS, SPANS_OF_A_RUN, AGENTS = 20_000, 10, 100
ROUNDS, QUICK_ROUNDS = 5, 1
SPANS_LEAST, SLOWER_MOST = 10_000, 1.25

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
ADD_EVENTS = """
INSERT INTO event (at, type, organization_id, agent_id, run_id)
SELECT now() - interval '50 s', 'run.ended', organization_id, agent_id, id FROM trace
"""
BEGIN_AGAIN = "UPDATE instance SET spans_exported_until = 0"
IS_DONE = """
SELECT spans_exported_until >= (SELECT max(id) FROM event WHERE type = 'run.ended') FROM instance
"""
POLL_SECONDS = 0.1


async def measure(bench: Bench) -> Result:
    """Send the same requests while nothing is to be exported and while much is, in turn."""
    arrived: list[float] = []
    now = asyncio.get_running_loop().time

    async def take(_: web.Request) -> web.Response:
        arrived.append(now())
        return web.Response()

    quiet, beside, rates = list[float](), list[float](), list[float]()
    async with bench.database() as database, receiving() as receiver:
        receiver.answer = take
        exporting = replace(HERE, variables={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
        async with bench.service_on(database, tree=exporting) as service:
            requests = mixed(service, await service.create_agents(AGENTS))
            await _execute(database, (ADD_RUNS, RUNS, AGENTS), (ADD_SPANS, SPANS_OF_A_RUN), (ADD_EVENTS,))
            for _ in range(QUICK_ROUNDS if bench.is_quick else ROUNDS):
                quiet.append(await p99(service, requests))
                arrived.clear()
                export = asyncio.create_task(_export(database, receiver))
                beside.append(await p99(service, requests, export))
                await export
                rates.append(RUNS * SPANS_OF_A_RUN / (arrived[-1] - arrived[0]))
    figures = [
        Figure("p99 without an export", median(quiet), Unit.MS),
        Figure("p99 beside an export", median(beside), Unit.MS),
        Figure("times as long", median_ratio(beside, quiet), Unit.RATIO, at_most=SLOWER_MOST),
        Figure("spans a second", median(rates), Unit.PER_SECOND, at_least=SPANS_LEAST),
    ]
    return Result(
        "export", f"{RUNS * SPANS_OF_A_RUN:,} spans to a receiver beside {RATE:g} requests/s", figures
    )


async def _export(database: Database, receiver: Receiver) -> float:
    """Let the service export all spans, and return how many seconds that took."""
    began = time.perf_counter()
    receiver.requests.clear()
    while not receiver.requests:  # again, if the exporter has just stored how far it had come
        await _execute(database, (BEGIN_AGAIN,))
        await asyncio.sleep(POLL_SECONDS)
    connection = await asyncpg.connect(database.url)
    while not await connection.fetchval(IS_DONE):  # noqa: ASYNC110 -- it happens in another process
        await asyncio.sleep(POLL_SECONDS)
    await connection.close()
    return time.perf_counter() - began


async def _execute(database: Database, *statements: tuple[Any, ...]) -> None:
    connection = await asyncpg.connect(database.url, server_settings=SERVER_SETTINGS)
    for statement, *args in statements:
        await connection.execute(statement, *args, timeout=300)
    await connection.close()
