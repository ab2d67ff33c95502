"""The spending of a run: the budget is checked before each call of a model, and its usage stored after it."""

from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

import structlog

from storage.errors import DatabaseUnavailable, StorageError
from storage.history.usage import Usage, UsageRecord
from storage.ids import new_id
from storage.model import Agent
from supervisors.clock import Clock
from supervisors.engine.run import ActiveRun, RunBudgetReached, RunError, RunModelUnpriced
from supervisors.errors import log_failure
from supervisors.llm.catalog import ModelCall, Prices, is_priced
from supervisors.llm.port import ModelResponse
from supervisors.policy.decisions import reached_budget
from supervisors.policy.explanations import dollars, name_of
from supervisors.ports import SpendingStore

log = structlog.get_logger()

RETRY_DELAYS_SECONDS = (0.2, 1.0, 3.0)
MAX_FREE_CALLS_KEPT = 16

NOT_STORED = (
    "The usage of the model's answer could not be stored, so the answer was not acted on: "
    "the database is unavailable."
)


@dataclass(frozen=True, slots=True)
class BudgetGuard:
    """Checks the budget before each model call. Concurrent calls may exceed a cap together."""

    spending: SpendingStore
    prices: Prices
    clock: Clock

    async def check(self, run: ActiveRun, qualified_model: str) -> None:
        """Raise RunBudgetReached if the day's budget is spent, or does not allow the model.

        A run without a cap costs no query.
        """
        if not run.is_capped:
            return
        now = self.clock.now()
        budgets = await self.spending.list_budgets(run.agent_id, now)
        budget = reached_budget(budgets)
        if budget is not None:
            spent, cap = dollars(budget.spent_usd), dollars(budget.cap_usd)
            raise RunBudgetReached(f"reached {name_of(budget)}: {spent} of {cap} USD a day")
        refusing = next((budget for budget in budgets if not budget.allows_unpriced), None)
        if refusing is not None and not await is_priced(self.prices, qualified_model, now):
            raise RunModelUnpriced(
                f"{name_of(refusing)} refuses the model {qualified_model}, because its price is not known"
            )


@dataclass(slots=True)
class UsageRecorder:
    """The usage of one run. A record that could not be stored is kept and stored later under the same id."""

    agent: Agent
    trace_id: UUID
    store: Usage
    prices: Prices
    clock: Clock
    cost_usd: Decimal = Decimal(0)  # of what is stored
    unpriced_calls: int = 0  # of what is stored, the calls of unknown cost
    cost_of_latest: Decimal | None = None  # of the latest call; None: no known price
    _calls: list[tuple[UUID, ModelCall]] = field(default_factory=list)

    def record(self, model: str, answer: ModelResponse) -> None:
        """Keep the usage of an answer. It does not await, so that a cancelled run loses no usage."""
        call = ModelCall(
            model, answer.input_tokens, answer.output_tokens, answer.cached_tokens, self.clock.now()
        )
        self._calls.append((new_id(), call))
        self.cost_of_latest = Decimal(0)  # unless it has tokens: then it is stored by the next flush

    async def flush(self) -> None:
        """Store the kept records. Raise RunError if the database stays unavailable for some seconds.

        Calls without tokens are kept until one with tokens, until there are many, or until the run ends.
        """
        has_tokens = any(call.input_tokens or call.output_tokens for _, call in self._calls)
        if not has_tokens and len(self._calls) < MAX_FREE_CALLS_KEPT:
            return
        for seconds in (*RETRY_DELAYS_SECONDS, None):
            try:
                await self._store_all()
                return
            except DatabaseUnavailable as error:
                if seconds is None:
                    raise RunError(NOT_STORED) from error
                log_failure(log, "usage not stored yet", error, count=len(self._calls))
                await self.clock.sleep(seconds)

    async def close(self) -> None:
        """Store the remaining records at the end of the run. Log what cannot be stored."""
        try:
            await self._store_all()
        except StorageError as error:
            for record_id, call in self._calls:
                if call.input_tokens or call.output_tokens:
                    kept = {"record": str(record_id), "call": repr(call), "error": str(error)}
                    log.error("usage not stored: add it by hand", **kept)

    async def _store_all(self) -> None:
        calls = tuple(self._calls)
        if not calls:
            return
        costs = [await self.prices.cost_of(call) for _, call in calls]
        records = [
            UsageRecord(
                id=record_id,
                organization_id=self.agent.organization_id,
                agent_id=self.agent.id,
                trace_id=self.trace_id,
                model=call.model,
                input_tokens=call.input_tokens,
                output_tokens=call.output_tokens,
                cached_tokens=call.cached_tokens,
                cost_usd=cost or Decimal(0),
                priced=cost is not None,
                occurred_at=call.at,
            )
            for (record_id, call), cost in zip(calls, costs, strict=True)
        ]
        await self.store.insert_all(records)
        del self._calls[: len(calls)]
        self.cost_of_latest = records[-1].cost_usd if records[-1].priced else None
        self.cost_usd += sum((record.cost_usd for record in records), Decimal(0))
        self.unpriced_calls += sum(not record.priced for record in records)
