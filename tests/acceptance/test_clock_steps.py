"""The wall clock is set forward and back by an hour while clients write."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic

import aiohttp
import pytest

from tests.acceptance.client import Client, Json, eventually, moment, sign_up
from tests.acceptance.services import Services
from tests.leaks import PASSWORD
from tests.stepped_clock import SteppedClock

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
WRITERS = 3
PACE_SECONDS = 0.02
WINDOW_SECONDS = 3
FAST_SCAN = {"scan_interval_seconds": 1.0}
LOGIN = "/api/organizations/auth/login/"


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    return SteppedClock(tmp_path)


@pytest.fixture
async def stepped_services(
    directory: Path, database_url: str, clock: SteppedClock
) -> AsyncIterator[Services]:
    """Services whose wall clock the test sets."""
    services = Services(directory, {"url": database_url}, clock.launch)
    yield services
    await services.close()


@asynccontextmanager
async def load(client: Client) -> AsyncIterator[None]:
    """Let clients write while the block lasts. Then check that nothing is lost, and nothing ran in a loop."""
    agents = [await client.create_agent() for _ in range(WRITERS)]
    written = dict.fromkeys(agents, 0)
    is_enough = asyncio.Event()

    async def write(agent: str) -> None:
        while not is_enough.is_set():
            await client.notify(agent, title=f"{written[agent]}")
            written[agent] += 1
            await asyncio.sleep(PACE_SECONDS)

    async with asyncio.TaskGroup() as group:
        for agent in agents:
            group.create_task(write(agent))
        try:
            yield
        finally:
            is_enough.set()
    for agent in agents:
        await _until_cleared(client, agent)
        assert len(await client.notifications(agent)) == written[agent]
        assert len(await client.runs(agent)) <= written[agent]


async def test_clock_set_forward_fires_once_what_it_passed(
    stepped_services: Services, session: aiohttp.ClientSession, clock: SteppedClock
) -> None:
    client = await sign_up(session, (await stepped_services.start(supervisors=FAST_SCAN)).url)
    reminded, later, sleeper = [await client.create_agent() for _ in range(3)]
    held = await client.create_agent(debounce_window_seconds=WINDOW_SECONDS)
    await _remind(client, reminded, clock, HOUR / 2)
    await _remind(client, later, clock, HOUR * 2)
    await _set_sleep(client, sleeper, clock, HOUR / 2)
    async with load(client):
        await client.notify(held, source="sms")
        clock.set(HOUR)  # the hold may end early
        reasons = {
            agent: (await client.ended_run(agent))["wake_reason"] for agent in (reminded, sleeper, held)
        }
        await _marker(client, clock)
    assert reasons == {reminded: "reminder", sleeper: "sleep_elapsed", held: "notification:sms"}
    counts = [len(await client.runs(agent)) for agent in (reminded, sleeper, held, later)]
    assert counts == [1, 1, 1, 0]


async def test_clock_set_back_makes_nothing_early_and_loses_nothing(
    stepped_services: Services, session: aiohttp.ClientSession, clock: SteppedClock
) -> None:
    client = await sign_up(session, (await stepped_services.start(supervisors=FAST_SCAN)).url)
    reminded, sleeper, woken = [await client.create_agent() for _ in range(3)]
    held = await client.create_agent(debounce_window_seconds=WINDOW_SECONDS)
    await _remind(client, reminded, clock, HOUR / 2)
    await _set_sleep(client, sleeper, clock, HOUR / 2)
    async with load(client):
        await client.notify(held, source="sms")
        began = monotonic()
        clock.set(-HOUR)
        await client.notify(woken)
        await client.ended_run(held)
        assert monotonic() - began >= WINDOW_SECONDS
        await client.ended_run(woken)
        await _marker(client, clock)
    counts = [len(await client.runs(agent)) for agent in (reminded, sleeper, held, woken)]
    assert counts == [0, 0, 1, 1]

    clock.set(HOUR)  # now both are due
    assert (await client.ended_run(reminded))["wake_reason"] == "reminder"
    assert (await client.ended_run(sleeper))["wake_reason"] == "sleep_elapsed"


@pytest.mark.parametrize(
    "step", [-HOUR, HOUR, *(pytest.param(step, marks=pytest.mark.long) for step in (-SECOND, SECOND))]
)
async def test_message_after_clock_step_wakes_within_two_windows(
    stepped_services: Services, session: aiohttp.ClientSession, clock: SteppedClock, step: timedelta
) -> None:
    """Check I5 and scenario 24 with the real process. A hold that takes the step along lasts for an hour."""
    client = await sign_up(session, (await stepped_services.start(supervisors=FAST_SCAN)).url)
    fresh, experienced = [await client.create_agent(debounce_window_seconds=WINDOW_SECONDS) for _ in range(2)]
    await client.notify(experienced)
    await client.ended_run(experienced)
    for agent in (fresh, experienced):
        await client.notify(agent, source="sms")
        await client.handled_hold(agent)
    clock.set(step)  # forward, it ends the holds: that run may handle the next message, too

    async def hold_after_message(agent: str) -> None:
        await client.notify(agent, source="sms")

        async def is_handled() -> bool | None:
            return True if await client.notifications(agent, cleared="false") == [] else None

        await eventually(is_handled, f"the run of {agent} after its hold")

    await asyncio.gather(*map(hold_after_message, (fresh, experienced)))


async def test_credentials_outlast_steps_of_clock(
    stepped_services: Services, session: aiohttp.ClientSession, clock: SteppedClock
) -> None:
    url = (await stepped_services.start()).url
    client = await sign_up(session, url)
    email = await _owner(client)
    for offset in (HOUR, -HOUR, timedelta()):
        clock.set(offset)
        assert await client.get("/api/cloud/agents/") == []
        token = (await Client(session, url).post(LOGIN, email=email, password=PASSWORD))["token"]
        assert await Client(session, url, f"Token {token}").get("/api/cloud/agents/") == []


async def _owner(client: Client) -> str:
    [membership] = await client.get("/api/organizations/memberships/")
    return str(membership["user"]["email"])


async def _remind(client: Client, agent: str, clock: SteppedClock, after: timedelta) -> Json:
    """Set a reminder for this time after what the clock shows."""
    return await client.notify(agent, scheduled_for=(clock.now() + after).isoformat())


async def _set_sleep(client: Client, agent: str, clock: SteppedClock, length: timedelta) -> None:
    path = f"{client.url}/api/cloud/agents/{agent}/"
    body = {"sleep_until": (clock.now() + length).isoformat()}
    headers = {"Authorization": client.authorization}
    async with client.session.patch(path, json=body, headers=headers) as response:
        assert response.status == 200, await response.text()


async def _marker(client: Client, clock: SteppedClock) -> None:
    """Return when a reminder set now has fired: whatever was due by then has fired, too."""
    agent = await client.create_agent()
    reminder = await _remind(client, agent, clock, timedelta(seconds=2))
    run = await client.ended_run(agent)
    assert moment(run["started_at"]) >= moment(reminder["scheduled_for"])


async def _until_cleared(client: Client, agent: str) -> None:
    async def look() -> bool | None:
        return None if await client.notifications(agent, cleared="false") else True

    await eventually(look, f"all notifications of {agent} to be cleared")
