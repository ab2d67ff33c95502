"""What the built-in loop records of its model calls, also when the run dies right after one."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from hostsvc.llm.price_list import PriceList
from storage.errors import DatabaseUnavailable
from storage.history.spending import Spending
from storage.history.usage import ModelUsage, Usage, UsageRecord
from storage.ids import new_id
from storage.model import Agent, Outcome, RunStart
from storage.postgres.pool import Pool
from storage.storage import build_storage
from supervisors.clock import SystemClock
from supervisors.engine.messages import Reply, Request
from supervisors.engine.run import ActiveRun
from supervisors.harness.budget_guard import BudgetGuard
from supervisors.harness.builtin import BuiltinHarness
from supervisors.json_schema.checker import SchemaChecker
from supervisors.llm.inbox_model import InboxModel
from supervisors.llm.port import Model, ModelRequest, ModelResponse, ToolRequest
from supervisors.outbound import OutboundAnswer, OutboundCall
from supervisors.ports import UsageStore
from supervisors.settings import RunSettings
from supervisors.tools.toolbox import Toolbox
from tests.storage.factories import HOUR, NOW, stored_agent
from tests.supervisors.held_clock import HeldClock

LIST = (ToolRequest("call_1", "list_notifications", "{}"),)


class Parrot:
    """A model that asks for the same tool call for ever, and does something else meanwhile."""

    def __init__(self, tools: tuple[ToolRequest, ...], meanwhile: Callable[[], None] = lambda: None) -> None:
        self._tools = tools
        self.meanwhile = meanwhile

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.meanwhile()
        return ModelResponse("", self._tools, input_tokens=1000, output_tokens=10, cached_tokens=400)


class ForgetfulStore:
    """Usage storage whose database is away for the first few writes."""

    def __init__(self, inner: Usage, failures: int) -> None:
        self._inner = inner
        self._failures = failures

    async def insert(self, record: UsageRecord) -> None:
        if self._failures:
            self._failures -= 1
            raise DatabaseUnavailable("away")
        await self._inner.insert(record)


class SlowStore:
    """Usage storage in whose face the run is cancelled: each time that it is asked to store something."""

    def __init__(self, inner: Usage, cancel: Callable[[], None]) -> None:
        self._inner = inner
        self._cancel = cancel

    async def insert(self, record: UsageRecord) -> None:
        self._cancel()
        await asyncio.sleep(0)
        await self._inner.insert(record)


class Nowhere:
    """For runs that call nobody."""

    async def post(self, call: OutboundCall) -> OutboundAnswer:
        raise AssertionError(f"{call} was sent")


async def nobody_answers(agent_id: UUID, request: Request[Reply]) -> Reply:
    raise AssertionError(f"{request} was asked of {agent_id}")


def new_run(agent: Agent) -> ActiveRun:
    start = RunStart(new_id(), "run_requested", None, None, NOW, "invoke_agent")
    return ActiveRun(agent.id, start, active_at_start=0, clock=HeldClock())


async def carry_out(pool: Pool, run: ActiveRun, model: Model, usage: UsageStore) -> None:
    clock, storage = HeldClock(), build_storage(pool, lambda _: None, sleep=SystemClock().sleep)
    harness = BuiltinHarness(
        agents=storage.agents,
        templates=storage.templates,
        recent_notifications=storage.recent_notifications,
        spans=storage.traces,
        usage=usage,
        budget_guard=BudgetGuard(Spending(pool), clock),
        prices=PriceList(),
        toolbox=Toolbox(storage, clock, Nowhere(), SchemaChecker()),
        providers={"openai": model, "builtin": InboxModel()},
        clock=clock,
        settings=RunSettings(default_provider="openai"),
    )
    task = asyncio.create_task(run.carry_out(harness, nobody_answers, 60))
    while not task.done():
        await asyncio.wait({task}, timeout=0.01)
        clock.advance(0.2)  # whoever waits to try again need not


async def recorded(usage: Usage, agent: Agent) -> list[ModelUsage]:
    return await usage.by_model(agent.id, NOW, NOW + HOUR)


async def test_each_model_call_is_a_record_with_its_price_and_trace(pool: Pool) -> None:
    scout, usage = await stored_agent(pool, model="gpt-4o", max_turns=3), Usage(pool)
    run = new_run(scout)

    await carry_out(pool, run, Parrot(LIST), usage)

    assert run.result is not None
    assert run.result.outcome is Outcome.TURN_LIMIT
    (found,) = await recorded(usage, scout)
    assert (found.model, found.calls) == ("openai/gpt-4o", 3)
    assert (found.input_tokens, found.output_tokens, found.cached_tokens) == (3000, 30, 1200)
    assert found.cost_usd > 0
    rows = await pool.fetch("SELECT trace_id, priced FROM usage_record")
    assert {tuple(row) for row in rows} == {(run.id, True)}


async def test_calls_that_used_nothing_are_stored_together_and_not_one_by_one(pool: Pool) -> None:
    scout = await stored_agent(pool, model="openai/gpt-4o", max_turns=20)
    stored_at_once: list[int] = []

    class CountingStore(Usage):
        async def _insert_many(self, items: Any) -> list[None]:
            stored_at_once.append(len(items))
            return await super()._insert_many(items)

    class IdleParrot(Parrot):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            return ModelResponse("", LIST)

    await carry_out(pool, new_run(scout), IdleParrot(LIST), CountingStore(pool))

    assert stored_at_once == [16, 4]


@pytest.mark.parametrize("ending", ["stopped", "cancelled"])
async def test_a_run_that_dies_with_the_answer_has_paid_for_it(pool: Pool, ending: str) -> None:
    scout, usage = await stored_agent(pool, model="openai/gpt-4o"), Usage(pool)
    run, parrot = new_run(scout), Parrot(LIST)
    parrot.meanwhile = run.cancel if ending == "cancelled" else lambda: run.stop(60)

    await carry_out(pool, run, parrot, usage)

    assert run.result is not None
    assert run.result.outcome is (Outcome.INTERRUPTED if ending == "cancelled" else Outcome.STOPPED)
    (found,) = await recorded(usage, scout)
    assert found.calls == 1


async def test_the_builtin_model_is_recorded_and_free(pool: Pool) -> None:
    scout, usage = await stored_agent(pool, model="builtin/inbox", max_turns=1), Usage(pool)

    await carry_out(pool, new_run(scout), Parrot(()), usage)

    assert await recorded(usage, scout) == [ModelUsage("builtin/inbox", 0, 0, 0, Decimal(0), 1)]
    assert await pool.fetchval("SELECT priced FROM usage_record") is True


async def test_a_model_without_a_price_is_recorded_as_unpriced(pool: Pool) -> None:
    scout, usage = await stored_agent(pool, model="openai/nobody-knows-it"), Usage(pool)

    await carry_out(pool, new_run(scout), Parrot(()), usage)

    assert tuple(await pool.fetchrow("SELECT cost_usd, priced FROM usage_record") or ()) == (0, False)


async def test_what_could_not_be_stored_is_stored_later_and_once(pool: Pool) -> None:
    scout, usage = await stored_agent(pool, model="gpt-4o", max_turns=3), Usage(pool)

    await carry_out(pool, new_run(scout), Parrot(LIST), ForgetfulStore(usage, failures=2))

    (found,) = await recorded(usage, scout)
    assert found.calls == 3


async def test_an_answer_that_cannot_be_billed_is_not_acted_on_and_stands_in_the_log(pool: Pool) -> None:
    scout, usage = await stored_agent(pool, model="gpt-4o"), Usage(pool)
    run = new_run(scout)
    note = ToolRequest("call_1", "create_notification", '{"title": "Acted on"}')

    with capture_logs() as logged:
        await carry_out(pool, run, Parrot((note,)), ForgetfulStore(usage, failures=1000))

    assert run.result is not None
    assert run.result.outcome is Outcome.FAILED
    assert run.result.error.startswith("What the model's answer used could not be stored")
    assert await pool.fetchval("SELECT count(*) FROM notification") == 0
    assert [line["event"] for line in logged] == [
        *["usage could not be stored yet"] * 3,
        "usage is lost to the bill",
    ]
    assert "input_tokens=1000" in logged[-1]["call"]


async def test_a_run_that_is_cancelled_while_it_stores_its_end_stores_it_all_the_same(pool: Pool) -> None:
    scout, usage = await stored_agent(pool, model="openai/gpt-4o"), Usage(pool)
    run, parrot = new_run(scout), Parrot(LIST)
    store = SlowStore(usage, run.cancel)

    parrot.meanwhile = lambda: run.stop(60)
    await carry_out(pool, run, parrot, store)

    assert run.result is not None
    assert run.result.outcome is Outcome.STOPPED
    (found,) = await recorded(usage, scout)
    assert found.calls == 1
