"""The process that exports spans: it sends what is due at the service's time, and comes again if it ends."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from structlog.contextvars import bound_contextvars

from hostsvc.config import Config
from hostsvc.otlp_receiver import read_otlp_settings
from hostsvc.span_export import open_span_export
from storage.history.trace_model import Trace
from storage.history.traces import Traces
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.pool import Pool
from supervisors.clock import SystemClock
from tests.processes import children
from tests.receiver import Receiver, answering, hang, receiving
from tests.storage.factories import NOW, new_span, stored_agent

END = """
INSERT INTO event (at, type, organization_id, agent_id, run_id) VALUES ($1, 'run.ended', $2, $3, $4)
"""
A_DAY = 86_400.0


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def end_run(pool: Pool, agent: Agent) -> None:
    """Store a run that has just ended, with one span."""
    run_id, now = new_id(), SystemClock().now()
    await Traces(pool).insert(Trace(run_id, agent.organization_id, agent.id, "Ann", NOW, now, "", {}))
    await Traces(pool).insert_spans([new_span(run_id)])
    await pool.execute(END, now, agent.organization_id, agent.id, run_id)


async def test_process_exports_what_is_due_until_it_is_closed(
    pool: Pool, database_url: str, receiver: Receiver
) -> None:
    otlp = read_otlp_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
    assert otlp is not None
    counts, clock, before = Counter[str](), SystemClock(), children(os.getpid())
    async with open_span_export(Config(), otlp, database_url, counts, clock) as export:
        agent = await stored_agent(pool)
        await export.run_once()
        await end_run(pool, agent)
        await export.run_once()
        assert not receiver.requests
        clock.correct(A_DAY)  # the time counts that the nodes have agreed on
        await export.run_once()
        assert (len(receiver.requests), counts["sent"]) == (1, 1)

        [process] = set(children(os.getpid())) - set(before)
        assert os.getsid(process) == process, "Ctrl-C goes to the service alone"
        os.kill(process, signal.SIGKILL)
        await end_run(pool, agent)
        with pytest.raises(RuntimeError, match="has ended"):
            await export.run_once()
        await export.run_once()
        assert (len(receiver.requests), counts["sent"]) == (2, 2)
    assert children(os.getpid()) == before


async def test_process_ends_with_the_service_amid_an_export(
    pool: Pool, database_url: str, receiver: Receiver
) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_EXPORTER_OTLP_TIMEOUT": "999999"}
    otlp = read_otlp_settings(variables)
    assert otlp is not None
    clock, receiver.answer = SystemClock(), hang
    async with open_span_export(Config(), otlp, database_url, Counter[str](), clock) as export:
        agent = await stored_agent(pool)
        await export.run_once()
        await end_run(pool, agent)
        clock.correct(A_DAY)
        exporting = asyncio.create_task(export.run_once())
        await receiver.wait_for(1)
        assert export._process is not None
        export._process.requests.close()  # as it is when the service is killed
        with pytest.raises(RuntimeError, match="has ended"):
            await exporting


@pytest.mark.parametrize("level", ["WARNING", "ERROR"])
async def test_process_logs_with_node_and_level_of_its_service(
    pool: Pool,
    database_url: str,
    receiver: Receiver,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    level: str,
) -> None:
    otlp = read_otlp_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
    assert otlp is not None
    clock, receiver.answer = SystemClock(), answering(503)
    with bound_contextvars(node="vm/2"):
        async with open_span_export(Config(), otlp, database_url, Counter[str](), clock) as export:
            agent = await stored_agent(pool)
            await export.run_once()
            await end_run(pool, agent)
            clock.correct(A_DAY)
            caplog.set_level(level)  # as SIGHUP does
            await export.run_once()
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    logged = [("spans not exported yet", "vm/2")] if level == "WARNING" else []
    assert [(line["event"], line["node"]) for line in lines] == logged


async def test_process_without_a_database_ends_without_a_traceback(
    receiver: Receiver, capfd: pytest.CaptureFixture[str]
) -> None:
    otlp = read_otlp_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
    assert otlp is not None
    url = f"postgresql://postgres@127.0.0.1:{receiver.port}/hostsvc"
    async with open_span_export(Config(), otlp, url, Counter[str](), SystemClock()) as export:
        with pytest.raises(RuntimeError, match="has ended"):
            await export.run_once()
    assert "Traceback" not in capfd.readouterr().err
