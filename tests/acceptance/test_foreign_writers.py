"""Notifications that other programs write wake agents at once.

The scan, which would also find them, runs once a minute here, so it is the doorbell that wakes.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.foreign_program import NEXT_DUE, ForeignProgram, foreign_program
from tests.acceptance.process import Launch, ServiceProcess
from tests.acceptance.services import OPERATOR_TOKEN, Services

NO_SCAN = {"scan_interval_seconds": 60}
REMOVALS = (
    "UPDATE notification SET cleared = true WHERE id = %s",
    "UPDATE notification SET priority = 'low' WHERE id = %s",
    "UPDATE notification SET scheduled_for = now() + interval '1 year' WHERE id = %s",
    "DELETE FROM notification WHERE id = %s",
)


@pytest.fixture
def program(database_url: str) -> Iterator[ForeignProgram]:
    with foreign_program(database_url) as program:
        yield program


async def started(services: Services, session: aiohttp.ClientSession) -> tuple[ServiceProcess, Client]:
    service = await services.start(supervisors=NO_SCAN)
    return service, await sign_up(session, service.url)


@pytest.mark.everyday
async def test_foreign_insert_wakes_the_agent(
    services: Services, session: aiohttp.ClientSession, program: ForeignProgram
) -> None:
    _, client = await started(services, session)
    agent = await client.create_agent()
    notification = program.insert(agent)
    run = await client.ended_run(agent)
    assert (run["wake_reason"], run["outcome"]) == ("notification:api", "slept")
    assert run["notifications"] == [notification]


async def test_foreign_removal_of_a_message_releases_its_hold(
    services: Services, session: aiohttp.ClientSession, program: ForeignProgram
) -> None:
    service, client = await started(services, session)
    agents = [await client.create_agent(debounce_window_seconds=3600) for _ in REMOVALS]
    for agent, removal in zip(agents, REMOVALS, strict=True):
        first = program.insert(agent, source="sms")
        await client.supervisor_in("holding", agent)
        program.run(removal, first)
        await client.supervisor_in("asleep", agent)

    held = [program.insert(agent, source="sms") for agent in agents]
    for agent in agents:
        await client.supervisor_in("holding", agent)
    await service.kill()
    for removal, second in zip(REMOVALS, held, strict=True):
        program.run(removal, second)
    again = client.at((await services.start(supervisors=NO_SCAN)).url)
    for agent in agents:
        await again.supervisor_in("asleep", agent)

        async def hold_is_gone(agent: str = agent) -> bool | None:
            [(due_at,)] = program.run(NEXT_DUE, agent)
            is_far = due_at is not None and (due_at - datetime.now(UTC)).days > 300
            return True if due_at is None or is_far else None

        await eventually(hold_is_gone, "the due time of the hold to be cleared")
        assert await again.runs(agent) == []


async def test_foreign_insert_while_service_is_down_wakes_after_start(
    services: Services, session: aiohttp.ClientSession, program: ForeignProgram
) -> None:
    service, client = await started(services, session)
    agent = await client.create_agent()
    await service.kill()
    notification = program.insert(agent)
    again = client.at((await services.start(supervisors=NO_SCAN)).url)
    run = await again.ended_run(agent)
    assert (run["wake_reason"], run["notifications"]) == ("notification:api", [notification])


async def test_postgresql_restart_loses_no_wakes_and_no_doorbell(
    directory: Path, session: aiohttp.ClientSession, launch: Launch
) -> None:
    server = EmbeddedPostgres(directory / "own")
    url = server.start()
    services = Services(directory, {"url": url}, launch)
    try:
        service, client = await started(services, session)
        operator = Client(session, service.url, f"Bearer {OPERATOR_TOKEN}")
        agent = await client.create_agent()
        server.stop()

        async def reasons() -> str | None:
            state = (await operator.get("/status/"))["service"]
            return " ".join(state["reasons"]) if state["state"] == "degraded" else None

        assert "The database has been unavailable" in await eventually(reasons, "the outage to show")
        server.start()
        with foreign_program(url) as program:
            program.insert(agent)
            await client.ended_run(agent)

            async def is_ready() -> bool | None:
                return True if (await operator.get("/status/"))["service"]["state"] == "ready" else None

            await eventually(is_ready, "the service to be well again")
            program.insert(agent)
            await client.ended_run(agent, 2)
        await services.close()
    finally:
        server.stop()
