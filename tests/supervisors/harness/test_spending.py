"""The spending of a run: the budget before each call, and the usage after it."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from hostsvc.llm.price_list import PriceList
from storage.agent_facts import Budget
from storage.errors import DatabaseUnavailable
from storage.history.usage import ModelUsage, Spending, Usage, UsageRecord
from storage.model import Agent, Outcome
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.engine.messages import Reply, Request
from supervisors.engine.run import ActiveRun, RunBudgetReached, RunModelUnpriced
from supervisors.harness.builtin import BuiltinHarness
from supervisors.harness.spending import BudgetGuard
from supervisors.json_schema.checker import SchemaChecker
from supervisors.llm.inbox_model import InboxModel
from supervisors.llm.port import Model, ModelRequest, ModelResponse, ToolCall
from supervisors.outbound import McpRequest, OutboundAnswer, OutboundCall
from supervisors.settings import RunSettings, TracingSettings
from supervisors.tools.toolset import Toolset
from supervisors.wake_context import WakeContexts
from tests.storage.factories import HOUR, NOW, stored_agent
from tests.supervisors.agent_facts import started_run
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.live_log import LiveLog

PRICED, UNPRICED = "openai/gpt-4o", "lab/llama"


class FixedSpending:
    """Spending that returns the same budgets, and counts the queries."""

    def __init__(self, *budgets: Budget) -> None:
        self._budgets = budgets
        self.queries = 0

    async def list_budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]:
        self.queries += 1
        return self._budgets


def guard(spending: FixedSpending) -> BudgetGuard:
    return BudgetGuard(spending, PriceList(), HeldClock())


def capped_run() -> ActiveRun:
    run = started_run(clock=HeldClock())
    run.is_capped = True
    return run


def budget(spent: str, *, of_organization: bool = False, allows_unpriced: bool = False) -> Budget:
    return Budget(of_organization, Decimal(5), Decimal(spent), allows_unpriced=allows_unpriced)


UNKNOWN_PRICE = "refuses the model lab/llama, because its price is not known"


@pytest.mark.parametrize(
    ("budgets", "model", "kind", "reason"),
    [
        ([budget("5.25")], PRICED, RunBudgetReached, r"reached its budget: 5\.25 of 5\.00 USD a day"),
        (
            [budget("5.25", of_organization=True)],
            PRICED,
            RunBudgetReached,
            r"reached its organization's budget: 5\.25 of 5\.00 USD a day",
        ),
        ([budget("0")], UNPRICED, RunModelUnpriced, f"its budget {UNKNOWN_PRICE}"),
        (
            [budget("0", allows_unpriced=True), budget("0", of_organization=True)],
            UNPRICED,
            RunModelUnpriced,
            f"its organization's budget {UNKNOWN_PRICE}",
        ),
        ([budget("5")], UNPRICED, RunBudgetReached, r"reached its budget: .*"),
    ],
)
async def test_budget_ends_the_run(
    budgets: list[Budget], model: str, kind: type[RunBudgetReached], reason: str
) -> None:
    with pytest.raises(RunBudgetReached, match=f"^{reason}$") as ended:
        await guard(FixedSpending(*budgets)).check(capped_run(), model)
    assert type(ended.value) is kind


async def test_budget_with_money_left_lets_the_run_go_on() -> None:
    for left, model in (
        (budget("4.99"), PRICED),
        (budget("0"), "builtin/inbox"),
        (budget("0", allows_unpriced=True), UNPRICED),
    ):
        await guard(FixedSpending(left)).check(capped_run(), model)


async def test_run_without_a_cap_costs_no_query() -> None:
    spending, run = FixedSpending(budget("5")), capped_run()
    run.is_capped = False

    await guard(spending).check(run, PRICED)

    assert spending.queries == 0


LIST = (ToolCall("call_1", "list_notifications", "{}"),)


class Parrot:
    """A model that requests the same tool calls for ever, and runs a callback at each request."""

    def __init__(self, tools: tuple[ToolCall, ...], on_request: Callable[[], None] = lambda: None) -> None:
        self._tools = tools
        self.on_request = on_request

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.on_request()
        return ModelResponse("", self._tools, input_tokens=1000, output_tokens=10, cached_tokens=400)


class UnavailableStore(Usage):
    """Usage storage whose database is unavailable for the first few writes."""

    def __init__(self, inner: Usage, failures: int) -> None:
        self._inner = inner
        self._failures = failures

    async def insert_all(self, records: Sequence[UsageRecord]) -> None:
        if self._failures:
            self._failures -= 1
            raise DatabaseUnavailable("unavailable")
        await self._inner.insert_all(records)


class CancellingStore(Usage):
    """Usage storage that cancels the run at each write."""

    def __init__(self, inner: Usage, cancel: Callable[[], None]) -> None:
        self._inner = inner
        self._cancel = cancel

    async def insert_all(self, records: Sequence[UsageRecord]) -> None:
        self._cancel()
        await asyncio.sleep(0)
        await self._inner.insert_all(records)


class NoOutbound:
    """An outbound port for runs that make no outbound calls."""

    max_seconds = 60.0

    async def post(self, call: OutboundCall) -> OutboundAnswer:
        raise AssertionError(f"{call} was sent")

    async def ask_mcp(self, request: McpRequest) -> dict[str, Any]:
        raise AssertionError(f"{request} was sent")


async def no_requests(agent_id: UUID, request: Request[Reply]) -> Reply:
    raise AssertionError(f"{request} was asked of {agent_id}")


async def execute(pool: Pool, run: ActiveRun, model: Model, usage: Usage) -> None:
    clock, storage = HeldClock(), Storage(pool, lambda _: None, sleep=SystemClock().sleep)
    storage.usage = usage
    harness = BuiltinHarness(
        stores=storage,
        wakes=WakeContexts(storage, clock, RunSettings(), {}),
        budget_guard=BudgetGuard(Spending(pool), PriceList(), clock),
        prices=PriceList(),
        toolset=Toolset(storage, clock, NoOutbound(), SchemaChecker(clock), None),
        schema_checker=SchemaChecker(clock),
        providers={"openai": model, "builtin": InboxModel()},
        feed=LiveLog(),
        clock=clock,
        settings=RunSettings(default_provider="openai"),
        tracing=TracingSettings(),
        max_content_bytes=2**20,
    )
    task = asyncio.create_task(run.carry_out(harness, no_requests, 60))
    while not task.done():
        await asyncio.wait({task}, timeout=0.01)
        clock.advance(0.2)  # so that no retry has to wait


async def recorded(usage: Usage, agent: Agent) -> tuple[ModelUsage, ...]:
    return (await usage.sum_by_model(agent.id, NOW, NOW + HOUR)).models


async def test_cost_is_known_before_the_run_ends(pool: Pool) -> None:
    agent = await stored_agent(pool, model="gpt-4o", max_turns=3)
    run = started_run(agent.id, HeldClock())
    costs: list[Decimal] = []

    await execute(pool, run, Parrot(LIST, lambda: costs.append(run.cost_usd)), Usage(pool))

    assert costs == [0, run.cost_usd / 3, run.cost_usd * 2 / 3]
    assert run.cost_usd > 0


async def test_model_calls_are_recorded_with_price_and_trace(pool: Pool) -> None:
    agent, usage = await stored_agent(pool, model="gpt-4o", max_turns=3), Usage(pool)
    run = started_run(agent.id, HeldClock())

    await execute(pool, run, Parrot(LIST), usage)

    assert run.result is not None
    assert run.result.outcome is Outcome.TURN_LIMIT
    (total,) = await recorded(usage, agent)
    assert (total.model, total.calls) == ("openai/gpt-4o", 3)
    assert (total.input_tokens, total.output_tokens, total.cached_tokens) == (3000, 30, 1200)
    assert run.cost_usd == total.cost_usd > 0
    rows = await pool.fetch("SELECT trace_id, priced FROM usage_record")
    assert {tuple(row) for row in rows} == {(run.id, True)}


async def test_calls_of_unknown_cost_are_counted_in_the_journal(pool: Pool) -> None:
    agent = await stored_agent(pool, model="openai/unheard-of", max_turns=3)
    run = started_run(agent.id, HeldClock())

    await execute(pool, run, Parrot(LIST), Usage(pool))

    assert (run.cost_usd, run.unpriced_calls) == (Decimal(0), 3)


async def test_calls_without_tokens_are_stored_in_batches(pool: Pool) -> None:
    agent = await stored_agent(pool, model="openai/gpt-4o", max_turns=20)
    batch_sizes: list[int] = []

    class CountingStore(Usage):
        async def insert_all(self, records: Sequence[UsageRecord]) -> None:
            batch_sizes.append(len(records))
            await super().insert_all(records)

    class FreeParrot(Parrot):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            return ModelResponse("", LIST)

    await execute(pool, started_run(agent.id, HeldClock()), FreeParrot(LIST), CountingStore(pool))

    assert batch_sizes == [16, 4]


@pytest.mark.parametrize("ending", ["stopped", "cancelled"])
async def test_run_ended_during_an_answer_is_billed_for_it(pool: Pool, ending: str) -> None:
    agent, usage = await stored_agent(pool, model="openai/gpt-4o"), Usage(pool)
    run, parrot = started_run(agent.id, HeldClock()), Parrot(LIST)
    parrot.on_request = run.cancel if ending == "cancelled" else lambda: run.stop(60)

    await execute(pool, run, parrot, usage)

    assert run.result is not None
    assert run.result.outcome is (Outcome.INTERRUPTED if ending == "cancelled" else Outcome.STOPPED)
    (total,) = await recorded(usage, agent)
    assert total.calls == 1


async def test_the_builtin_model_is_recorded_and_free(pool: Pool) -> None:
    agent, usage = await stored_agent(pool, model="builtin/inbox", max_turns=1), Usage(pool)

    await execute(pool, started_run(agent.id, HeldClock()), Parrot(()), usage)

    assert await recorded(usage, agent) == (ModelUsage("builtin/inbox", 0, 0, 0, Decimal(0), 1, priced=True),)
    assert await pool.fetchval("SELECT priced FROM usage_record") is True


async def test_a_model_without_a_price_is_recorded_as_unpriced(pool: Pool) -> None:
    agent, usage = await stored_agent(pool, model="openai/nobody-knows-it"), Usage(pool)

    await execute(pool, started_run(agent.id, HeldClock()), Parrot(()), usage)

    assert tuple(await pool.fetchrow("SELECT cost_usd, priced FROM usage_record") or ()) == (0, False)


async def test_record_that_failed_is_stored_later_and_once(pool: Pool) -> None:
    agent, usage = await stored_agent(pool, model="gpt-4o", max_turns=3), Usage(pool)

    await execute(pool, started_run(agent.id, HeldClock()), Parrot(LIST), UnavailableStore(usage, failures=2))

    (total,) = await recorded(usage, agent)
    assert total.calls == 3


async def test_unbilled_answer_has_no_effect_and_is_logged(pool: Pool) -> None:
    agent, usage = await stored_agent(pool, model="gpt-4o"), Usage(pool)
    run = started_run(agent.id, HeldClock())
    create = ToolCall("call_1", "create_notification", '{"title": "Acted on"}')

    with capture_logs() as logged:
        await execute(pool, run, Parrot((create,)), UnavailableStore(usage, failures=1000))

    assert run.result is not None
    assert run.result.outcome is Outcome.FAILED
    assert run.result.error.startswith("The usage of the model's answer could not be stored")
    assert await pool.fetchval("SELECT count(*) FROM notification") == 0
    assert [line["event"] for line in logged] == [
        *["usage not stored yet"] * 3,
        "usage not stored: add it by hand",
    ]
    assert "input_tokens=1000" in logged[-1]["call"]


async def test_run_cancelled_while_storing_usage_stores_all_of_it(pool: Pool) -> None:
    agent, usage = await stored_agent(pool, model="openai/gpt-4o"), Usage(pool)
    run, parrot = started_run(agent.id, HeldClock()), Parrot(LIST)
    store = CancellingStore(usage, run.cancel)

    parrot.on_request = lambda: run.stop(60)
    await execute(pool, run, parrot, store)

    assert run.result is not None
    assert run.result.outcome is Outcome.STOPPED
    (total,) = await recorded(usage, agent)
    assert total.calls == 1
