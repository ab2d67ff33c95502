"""Parked calls whose process dies between any two of its statements: one call, one wake.

A process that dies loses its connections to the database and everything that it has in memory. Another one
goes on from the rows, nine days later or when the lease is over.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from aiohttp import web

from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from storage.ids import new_id
from storage.model import Agent
from storage.parked_calls import CallState
from storage.postgres import pool as pool_module
from storage.postgres.connections import PooledConnection
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.json_schema.checker import SchemaChecker, open_schema_checker
from supervisors.maintenance.parked_calls import ParkedCallRunner
from supervisors.outbound import Outbound
from supervisors.policy.parked_calls import CallAnswer, Decision, decide, receive_result
from supervisors.tools.parking import ResultAddresses
from supervisors.tools.toolset import Toolset
from tests.receiver import Receiver, answering_json, receiving
from tests.storage.factories import NOW, adapter, stored_agent, stored_organization, template, tool
from tests.supervisors.maintenance.test_parked_calls import BusyClock

pytestmark = pytest.mark.slow

NINE_DAYS = 9 * 86_400
LEASE_IS_OVER = 3600
MAX_STATEMENTS = 200
TOLD = """
SELECT (SELECT count(*) FROM notification WHERE agent_id = $1) AS notifications,
       (SELECT wake_seq FROM agent_state WHERE agent_id = $1) AS wakes,
       (SELECT array_agg(state) FROM parked_call WHERE agent_id = $1) AS states
"""


@dataclass
class Process:
    """A process that dies at its nth statement: before the server gets it, or with its answer on the way."""

    dies_at: int = 0  # 0: it lives
    is_answer_lost: bool = False
    statements: int = 0
    is_counted: bool = False
    dead: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, connection: Any, statement: Callable[[], Awaitable[Any]]) -> Any:
        if self.dead.is_set():
            await self.die(connection)
        self.statements += self.is_counted
        is_last = self.is_counted and self.statements == self.dies_at
        if is_last and not self.is_answer_lost:
            await self.die(connection)
        result = await statement()
        if is_last:
            await self.die(connection)
        return result

    async def die(self, connection: Any = None) -> None:
        """Do nothing more, for ever."""
        if connection is not None:
            connection.terminate()
        self.dead.set()
        await asyncio.Event().wait()


@contextmanager
def connections_of(process: Process) -> Iterator[None]:
    """Have the pools that are opened meanwhile pass their statements through the process."""

    class MortalConnection(PooledConnection):
        __slots__ = ()

        async def fetch(self, *args: Any, **options: Any) -> Any:
            return await process.send(self, partial(PooledConnection.fetch, self, *args, **options))

        async def fetchrow(self, *args: Any, **options: Any) -> Any:
            return await process.send(self, partial(PooledConnection.fetchrow, self, *args, **options))

        async def fetchval(self, *args: Any, **options: Any) -> Any:
            return await process.send(self, partial(PooledConnection.fetchval, self, *args, **options))

        async def execute(self, *args: Any, **options: Any) -> Any:
            return await process.send(self, partial(PooledConnection.execute, self, *args, **options))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "PooledConnection", MortalConnection)
        yield


@dataclass
class Desk:
    """What a process does for the agent, and what people and the tool server do to it."""

    storage: Storage
    toolset: Toolset
    runner: ParkedCallRunner
    clock: BusyClock
    agent: Agent
    ask: Any = None

    async def call(self, name: str, **arguments: Any) -> None:
        found = await self.toolset.find(self.agent, name)
        await self.toolset.use(found, self.agent, None, self.ask, arguments, new_id())

    async def decide(self, answer: str | None = None) -> None:
        decision = Decision(approve=True, answer=answer)
        rule = partial(decide, decision=decision, by="user:1", now=self.clock.now())
        await self._change(rule)

    async def send_result(self) -> None:
        await self._change(partial(receive_result, answer=CallAnswer("paid"), now=self.clock.now()))

    async def _change(self, rule: Any) -> None:
        [row] = await self.storage.pool.fetch("SELECT id FROM parked_call WHERE agent_id = $1", self.agent.id)
        step = await self.storage.parked_calls.change(row["id"], rule, self.clock.now())
        assert step is not None
        assert step.refusal == ""

    async def look(self) -> None:
        await self.runner.run_once()


Phase = Callable[[Desk], Awaitable[None]]


@dataclass
class World:
    """A database and a tool server that outlive the processes."""

    url: str
    pool: Pool
    server: Receiver
    checker: SchemaChecker
    outbound: Outbound
    process: Process = field(default_factory=Process)  # the present one

    @asynccontextmanager
    async def living(self, agent: Agent, clock: BusyClock) -> AsyncIterator[Desk]:
        """Start the present process; one that will die has connections of its own."""
        async with AsyncExitStack() as stack:
            pool = self.pool
            if self.process.dies_at:
                with connections_of(self.process):
                    opening = open_pool(DatabaseSettings(self.url, pool_size=1), node=None)
                    pool = await stack.enter_async_context(opening)
            storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
            results, ask = ResultAddresses("http://service", "secret"), cast("Any", None)
            toolset = Toolset(storage, clock, self.outbound, self.checker, None, results)
            make = partial(toolset.make, ask=ask)
            runner = ParkedCallRunner(storage.parked_calls, make, 60, clock, lambda: True)
            yield Desk(storage, toolset, runner, clock, agent)
            if self.process.dies_at and self.process.dead.is_set():
                vars(pool)["finish_writes"] = AsyncMock()  # nobody is left who would finish them

    async def agent(self, *, is_idempotent: bool) -> Agent:
        """Store an agent of its own organization, for whose calls somebody decides whenever."""
        storage = Storage(self.pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
        owner = await stored_organization(self.pool)
        used, payments = template(owner.id, approval_hours=None), adapter(owner.id)
        await storage.templates.insert(used)
        await storage.adapters.insert(payments)
        refund = tool(
            payments.id, name="refund", url=self.server.url, approval="always", idempotent=is_idempotent
        )
        await storage.tools.insert(refund)
        adapters, name = (payments.id,), used.name
        return await stored_agent(
            self.pool, owner.id, adapters=adapters, template_id=used.id, template_name=name
        )

    async def go_through(self, agent: Agent, phases: Sequence[Phase], dies_at: int, *, lost: bool) -> bool:
        """Let a process go through the phases until it dies, and others after it. Return whether it died."""
        clock = BusyClock(NOW)
        self.process = Process(dies_at, lost)
        self.server.requests.clear()
        has_died = False
        waiting = list(phases)
        while waiting:
            async with self.living(agent, clock) as desk:
                self.process.is_counted = True
                while waiting and await self._survives(waiting[0](desk)):
                    waiting.pop(0)
                    clock.advance(NINE_DAYS)
            if waiting:
                has_died, self.process = True, Process()
                clock.advance(LEASE_IS_OVER)
        return has_died

    async def _survives(self, phase: Awaitable[None]) -> bool:
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(phase)
        death = asyncio.ensure_future(self.process.dead.wait())
        await asyncio.wait({task, death}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            death.cancel()
            task.result()
            return True
        while left := {each for each in asyncio.all_tasks() - before if not _is_of_server(each)}:
            for each in left:  # nothing of a dead process goes on
                each.cancel()
            await asyncio.wait(left, timeout=0.01)  # some wait once more for the dead connection
        return False


def _is_of_server(task: asyncio.Task[Any]) -> bool:
    """Return whether the task belongs to the tool server, which outlives its callers."""
    name = repr(task.get_coro())
    return "RequestHandler" in name or "_accept_connection" in name


@pytest.fixture
async def world(database_url: str, pool: Pool) -> AsyncIterator[World]:
    async with (
        receiving() as server,
        open_schema_checker(SystemClock()) as checker,
        open_guarded_http(OutboundSettings(allow_private=True), SystemClock()) as outbound,
    ):
        yield World(database_url, pool, server, checker, outbound)


def call(desk: Desk) -> Awaitable[None]:
    return desk.call("refund", amount=80)


def question(desk: Desk) -> Awaitable[None]:
    return desk.call("ask_person", question="May I?")


def answer(desk: Desk) -> Awaitable[None]:
    return desk.decide('"yes"')


APPROVAL = (call, Desk.decide, Desk.look)
QUESTION = (question, answer, Desk.look)
ASYNCHRONOUS = (call, Desk.decide, Desk.look, Desk.send_result, Desk.look)


@pytest.mark.parametrize("lost", [False, True], ids=["statement lost", "answer lost"])
@pytest.mark.parametrize(
    ("phases", "status", "calls"),
    [(APPROVAL, 200, 1), (QUESTION, 200, 0), (ASYNCHRONOUS, 202, 1)],
    ids=["approval", "question", "asynchronous tool"],
)
async def test_process_that_dies_at_any_statement_costs_no_call_and_no_wake(
    world: World, phases: Sequence[Phase], status: int, calls: int, lost: bool
) -> None:
    world.server.answer = answering_json('{"expires_in": 2592000}', status)
    for dies_at in range(1, MAX_STATEMENTS):
        agent = await world.agent(is_idempotent=True)
        has_died = await world.go_through(agent, phases, dies_at, lost=lost)

        told = await world.pool.fetchrow(TOLD, agent.id)
        assert told is not None
        seen = {(request.id, request.body) for request in world.server.requests}
        assert (len(seen), dict(told)) == (
            calls,
            {"notifications": 1, "wakes": 1, "states": [CallState.DONE]},
        ), f"died at statement {dies_at}"
        if not has_died:
            assert dies_at > 15, "too few statements for the test to show anything"
            return
    raise AssertionError(f"it takes more than {MAX_STATEMENTS} statements")


@pytest.mark.parametrize("lost", [False, True], ids=["statement lost", "answer lost"])
async def test_harmful_call_is_made_at_most_once_wherever_its_process_dies(world: World, lost: bool) -> None:
    world.server.answer = answering_json("1")
    outcomes = set()
    for dies_at in range(1, MAX_STATEMENTS):
        agent = await world.agent(is_idempotent=False)
        has_died = await world.go_through(agent, APPROVAL, dies_at, lost=lost)

        told = await world.pool.fetchrow(TOLD, agent.id)
        assert told is not None
        assert (told["notifications"], told["wakes"]) == (1, 1), f"died at statement {dies_at}"
        outcomes.add((*told["states"], len(world.server.requests)))
        if not has_died:
            break
    # Nobody knows of a call that was claimed; whether it was made depends on the moment.
    assert outcomes == {("done", 1), ("failed", 0), ("failed", 1)}


@pytest.mark.parametrize(
    ("is_idempotent", "state", "requests"), [(True, CallState.DONE, 2), (False, CallState.FAILED, 1)]
)
async def test_process_that_dies_during_the_call_of_the_tool_tells_its_agent(
    world: World, is_idempotent: bool, state: CallState, requests: int
) -> None:
    async def kill_first(_: web.Request) -> web.Response:
        if len(world.server.requests) == 1:
            world.process.dead.set()
            await asyncio.Event().wait()
        return web.json_response(1)

    world.server.answer = kill_first
    agent = await world.agent(is_idempotent=is_idempotent)
    await world.go_through(agent, APPROVAL, 0, lost=False)

    told = await world.pool.fetchrow(TOLD, agent.id)
    assert told is not None
    assert dict(told) == {"notifications": 1, "wakes": 1, "states": [state]}
    assert len(world.server.requests) == requests
    assert len({(request.id, request.body) for request in world.server.requests}) == 1
