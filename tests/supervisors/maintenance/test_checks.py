"""Checks of schedules: the tool server is real, and a notification comes only if an answer says so."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from storage.errors import DatabaseUnavailable
from storage.model import Agent
from storage.notifications.schedules import Schedule, occurrence_id
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.json_schema.checker import open_schema_checker
from supervisors.maintenance.due_tasks import MAX_TASKS_PER_ORGANIZATION
from supervisors.maintenance.schedules import CheckRunner, ScheduleRunner
from supervisors.tools.toolset import Toolset
from tests.receiver import Receiver, answering, answering_json, hang, receiving
from tests.storage.factories import HOUR, MINUTE, NOW, adapter, schedule, stored_agent, tool
from tests.supervisors.held_clock import HeldClock

DAY = 24 * HOUR
QUEUE = "SELECT id, title, body, priority, cleared FROM notification ORDER BY created_at, id"


class BusyClock(HeldClock):
    """A held clock on which nobody sleeps."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> BusyClock:
    return BusyClock(NOW + MINUTE)


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        yield server


@pytest.fixture
def storage(pool: Pool) -> Storage:
    return Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)


@pytest.fixture
def chores() -> list[str]:
    """What the node does for all; a test clears it to give the chores to another node."""
    return ["checks"]


@pytest.fixture
async def runner(storage: Storage, clock: BusyClock, chores: list[str]) -> AsyncIterator[CheckRunner]:
    ask: Any = None  # tools of adapters ask nothing
    async with (
        open_guarded_http(OutboundSettings(allow_private=True), SystemClock()) as outbound,
        open_schema_checker(SystemClock()) as checker,
    ):
        toolset = Toolset(storage, SystemClock(), outbound, checker, None)
        yield CheckRunner(storage, toolset, ask, clock, lambda: bool(chores))


@pytest.fixture
async def agent(storage: Storage, pool: Pool, server: Receiver) -> Agent:
    """An agent with the tools `look`, whose server answers as the test says, and `wait`, beside it."""
    plain = await stored_agent(pool)
    shop = adapter(plain.organization_id)
    await storage.adapters.insert(shop)
    for name in ("look", "wait"):
        await storage.tools.insert(tool(shop.id, name=name, url=f"{server.url}/{name}", idempotent=True))
    return await stored_agent(pool, plain.organization_id, adapters=(shop.id,))


async def watch(storage: Storage, agent: Agent, wake_if: str = "changed", **fields: Any) -> Schedule:
    """Store a schedule that checks each minute, next a minute after NOW."""
    call = {"tool": "look", "arguments": {"item": 7}, "wake_if": wake_if}
    made = schedule(agent, **{"cron": None, "every_seconds": 60, "watch": call, **fields})
    moment = NOW + MINUTE
    await storage.schedules.insert(replace(made, next_at=moment, due_at=moment, ends_at=NOW + 30 * DAY))
    return made


async def outcomes(storage: Storage, of: Schedule) -> Sequence[str]:
    """Return what became of the checks, the first one first."""
    return [each.outcome for each in await storage.schedules.list_occurrences(of.id, None, None)][::-1]


async def test_only_a_changed_answer_notifies_and_says_what_changed(
    storage: Storage, pool: Pool, agent: Agent, server: Receiver, runner: CheckRunner, clock: BusyClock
) -> None:
    watching = await watch(storage, agent)
    for price in ('{"price": 10, "in": "EUR"}', '{"in": "EUR", "price": 10}', '{"price": 9, "in": "EUR"}'):
        server.answer = answering_json(price)
        await runner.run_once()
        clock.advance(60)
    assert await outcomes(storage, watching) == ["unchanged", "unchanged", "fired"]
    assert [(call.path, call.data["arguments"]) for call in server.requests] == [("/look", {"item": 7})] * 3
    [row] = await pool.fetch(QUEUE)
    assert row["id"] == occurrence_id(watching.id, NOW + 3 * MINUTE)
    assert row["body"] == (
        'look answered: {"in":"EUR","price":9}\nBefore: {"in":"EUR","price":10}\n\nLook at the figures.'
    )


async def test_change_during_a_run_is_a_notification_of_its_own(
    storage: Storage, pool: Pool, agent: Agent, server: Receiver, runner: CheckRunner, clock: BusyClock
) -> None:
    watching = await watch(storage, agent, "nonempty")
    for answer in ("[1]", "[2]", "[3]"):
        server.answer = answering_json(answer)
        await runner.run_once()
        clock.advance(60)
        if answer == "[2]":
            begun = "UPDATE agent_state SET status = 'running', run_id = gen_random_uuid()"
            await pool.execute(begun)  # the run reads the queue, and clears what it has read
    assert await outcomes(storage, watching) == ["fired", "merged", "fired"]
    assert [row["body"].splitlines()[-4:][0] for row in await pool.fetch(QUEUE)] == [
        "look answered: [2]",
        "look answered: [3]",
    ]


async def test_third_error_in_a_row_is_one_low_notification(
    storage: Storage, pool: Pool, agent: Agent, server: Receiver, runner: CheckRunner, clock: BusyClock
) -> None:
    watching = await watch(storage, agent, "nonempty")
    answers = [answering_json("[1]"), *[answering(500, "Out of order.")] * 4, answering_json("[2]")]
    for server.answer in answers:
        await runner.run_once()
        clock.advance(60)
    assert await outcomes(storage, watching) == ["fired", *["failed"] * 4, "merged"]
    told, warned = await pool.fetch(QUEUE)
    assert (told["priority"], told["body"].splitlines()[2]) == ("high", "look answered: [2]")
    assert warned["id"] == occurrence_id(watching.id, NOW + 4 * MINUTE)
    assert (warned["priority"], warned["body"].splitlines()[0]) == (
        "low",
        "look has failed 3 times in a row: The tool answered 500: Out of order.",
    )


async def test_tool_that_is_not_idempotent_any_more_is_not_called(
    storage: Storage, pool: Pool, agent: Agent, server: Receiver, runner: CheckRunner
) -> None:
    watching = await watch(storage, agent, "error")
    await pool.execute("UPDATE tool SET idempotent = false")
    await runner.run_once()
    assert await outcomes(storage, watching) == ["fired"]
    assert server.requests == []


@pytest.mark.parametrize("approval", ['"always"', '"never"'])
async def test_check_neither_asks_a_person_nor_waits_for_a_late_result(
    storage: Storage, pool: Pool, agent: Agent, server: Receiver, runner: CheckRunner, approval: str
) -> None:
    watching = await watch(storage, agent, "error")
    await pool.execute("UPDATE tool SET approval = $1::text::json", approval)
    server.answer = answering_json('{"expires_in": 60}', 202)
    await runner.run_once()
    assert await outcomes(storage, watching) == ["fired"]
    assert len(server.requests) == (approval == '"never"')
    assert await pool.fetchval("SELECT count(*) FROM parked_call") == 0


async def test_slow_tools_delay_no_other_schedule(
    storage: Storage, pool: Pool, agent: Agent, server: Receiver, runner: CheckRunner, clock: BusyClock
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await hang(request) if request.path == "/wait" else web.json_response(1)

    server.answer = answer
    slow = {"tool": "wait", "arguments": {}, "wake_if": "changed"}
    for number in range(MAX_TASKS_PER_ORGANIZATION + 1):
        await watch(storage, agent, name=str(number), watch=slow)
    running = asyncio.create_task(runner.run_once())
    await server.wait_for(MAX_TASKS_PER_ORGANIZATION)

    other = await stored_agent(pool)
    shop = adapter(other.organization_id)
    await storage.adapters.insert(shop)
    await storage.tools.insert(tool(shop.id, name="look", url=f"{server.url}/look", idempotent=True))
    other = await stored_agent(pool, other.organization_id, adapters=(shop.id,))
    quick = await watch(storage, other)
    plain = await watch(storage, agent, watch=None)
    await server.wait_for(MAX_TASKS_PER_ORGANIZATION + 1)
    await ScheduleRunner(storage.schedules, clock).fire_due()
    assert await outcomes(storage, plain) == ["fired"]
    while not await outcomes(storage, quick):
        pass
    assert [call.path for call in server.requests].count("/wait") == MAX_TASKS_PER_ORGANIZATION
    running.cancel()
    await asyncio.wait([running])


async def test_node_that_loses_the_chores_starts_no_more_checks(
    storage: Storage, agent: Agent, server: Receiver, runner: CheckRunner, chores: list[str]
) -> None:
    answered = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        await answered.wait()
        return web.json_response(1)

    server.answer = answer
    first = await watch(storage, agent)
    running = asyncio.create_task(runner.run_once())
    await server.wait_for(1)
    chores.clear()
    second = await watch(storage, agent, name="second")
    answered.set()
    await running
    assert (await outcomes(storage, first), await outcomes(storage, second)) == (["unchanged"], [])


async def test_check_that_is_not_stored_is_made_again(
    storage: Storage,
    pool: Pool,
    agent: Agent,
    server: Receiver,
    runner: CheckRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watching = await watch(storage, agent, "nonempty")
    server.answer = answering_json("[1]")
    fire, failures = storage.schedules.fire, [DatabaseUnavailable("away"), RuntimeError("a bug")]

    async def fail(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return await fire(*arguments)

    monkeypatch.setattr(storage.schedules, "fire", fail)
    while not await outcomes(storage, watching):
        await runner.run_once()
    assert len(server.requests) == 3
    assert [row["id"] for row in await pool.fetch(QUEUE)] == [occurrence_id(watching.id, NOW + MINUTE)]
