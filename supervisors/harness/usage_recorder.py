"""The usage recorder: it stores one usage record for each answer of a model in a run."""

from decimal import Decimal
from uuid import UUID

import structlog

from storage.errors import DatabaseUnavailable, StorageError
from storage.history.usage import UsageRecord
from storage.ids import new_id
from storage.model import Agent
from supervisors.clock import Clock
from supervisors.engine.run import RunError
from supervisors.failure_log import log_failure
from supervisors.llm.port import ModelResponse
from supervisors.llm.pricing import ModelCall, Prices
from supervisors.ports import UsageStore

log = structlog.get_logger()

RETRY_DELAYS_SECONDS = (0.2, 1.0, 3.0)
MAX_FREE_CALLS_KEPT = 16
NOT_STORED = (
    "The usage of the model's answer could not be stored, so the answer was not acted on: "
    "the database is unavailable."
)


class UsageRecorder:
    """The usage of one run. A record that could not be stored is kept and stored later under the same id."""

    def __init__(self, agent: Agent, trace_id: UUID, store: UsageStore, prices: Prices, clock: Clock) -> None:
        self._agent = agent
        self._trace_id = trace_id
        self._store = store
        self._prices = prices
        self._clock = clock
        self._calls: list[tuple[UUID, ModelCall]] = []
        self.cost_usd = Decimal(0)  # of what is stored
        self.cost_of_latest: Decimal | None = None  # of the latest call; None: no known price

    def record(self, model: str, answer: ModelResponse) -> None:
        """Keep the usage of an answer. It does not await, so that a cancelled run loses no usage."""
        call = ModelCall(
            model, answer.input_tokens, answer.output_tokens, answer.cached_tokens, self._clock.now()
        )
        self._calls.append((new_id(), call))
        self.cost_of_latest = Decimal(0)  # unless it has tokens: then it is stored by the next flush

    async def flush(self) -> None:
        """Store the kept records. Raise RunError if the database stays unavailable for some seconds.

        Calls without tokens are kept until one with tokens, until there are many, or until the run ends.
        """
        if not any(map(_has_tokens, self._calls)) and len(self._calls) < MAX_FREE_CALLS_KEPT:
            return
        for seconds in (*RETRY_DELAYS_SECONDS, None):
            try:
                await self._store_all()
                return
            except DatabaseUnavailable as error:
                if seconds is None:
                    raise RunError(NOT_STORED) from error
                log_failure(log, "usage not stored yet", error, count=len(self._calls))
                await self._clock.sleep(seconds)

    async def close(self) -> None:
        """Store the remaining records at the end of the run. Log what cannot be stored."""
        try:
            await self._store_all()
        except StorageError as error:
            for record_id, call in filter(_has_tokens, self._calls):
                kept = {"record": str(record_id), "call": repr(call), "error": str(error)}
                log.error("usage not stored: add it by hand", **kept)

    async def _store_all(self) -> None:
        calls = tuple(self._calls)
        if not calls:
            return
        records = [await self._priced_record(record_id, call) for record_id, call in calls]
        await self._store.insert_all(records)
        del self._calls[: len(calls)]
        self.cost_of_latest = records[-1].cost_usd if records[-1].priced else None
        self.cost_usd += sum((record.cost_usd for record in records), Decimal(0))

    async def _priced_record(self, record_id: UUID, call: ModelCall) -> UsageRecord:
        cost = await self._prices.cost_of(call)
        return UsageRecord(
            id=record_id,
            organization_id=self._agent.organization_id,
            agent_id=self._agent.id,
            trace_id=self._trace_id,
            model=call.model,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            cached_tokens=call.cached_tokens,
            cost_usd=cost or Decimal(0),
            priced=cost is not None,
            occurred_at=call.at,
        )


def _has_tokens(kept: tuple[UUID, ModelCall]) -> bool:
    _, call = kept
    return call.input_tokens > 0 or call.output_tokens > 0
