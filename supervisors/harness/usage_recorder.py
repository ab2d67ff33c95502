"""Writes the usage of a run: one record for each answer of a model."""

import asyncio
from decimal import Decimal
from uuid import UUID

import structlog

from storage.errors import DatabaseUnavailable, StorageError
from storage.history.usage import UsageRecord
from storage.ids import new_id
from storage.model import Agent
from supervisors.clock import Clock
from supervisors.engine.run import RunError
from supervisors.llm.port import ModelResponse
from supervisors.llm.pricing import ModelCall, Prices
from supervisors.ports import UsageStore

log = structlog.get_logger()

RETRIES_AFTER_SECONDS = (0.2, 1.0, 3.0)
FREE_CALLS_KEPT = 16


class UsageRecorder:
    """The usage of one run. What could not be stored is kept, and given again under the same id."""

    def __init__(self, agent: Agent, trace_id: UUID, store: UsageStore, prices: Prices, clock: Clock) -> None:
        self._agent = agent
        self._trace_id = trace_id
        self._store = store
        self._prices = prices
        self._clock = clock
        self._calls: list[tuple[UUID, ModelCall]] = []

    def note(self, model: str, answer: ModelResponse) -> None:
        """At once, without an await: what is noted is stored even if the run is ended right then."""
        call = ModelCall(
            model, answer.input_tokens, answer.output_tokens, answer.cached_tokens, self._clock.now()
        )
        self._calls.append((new_id(), call))

    async def settle(self) -> None:
        """Return when all that was noted is stored; RunError if it cannot be, for seconds on end.

        A few calls that used nothing wait for one that did, or for the end of the run.
        """
        if not any(map(_used_any, self._calls)) and len(self._calls) < FREE_CALLS_KEPT:
            return
        for seconds in RETRIES_AFTER_SECONDS:
            try:
                await self._store_all()
                return
            except DatabaseUnavailable as error:
                log.warning("usage could not be stored yet", count=len(self._calls), error=str(error))
                await self._clock.sleep(seconds)
        try:
            await self._store_all()
        except DatabaseUnavailable as error:
            raise RunError(
                "What the model's answer used could not be stored, so it was not acted on: "
                "the database is away."
            ) from error

    async def flush(self) -> None:
        """Store what is left at the end of the run. What cannot be stored is logged, to be booked by hand."""
        try:
            await self._store_all()
        except StorageError as error:
            for record_id, call in filter(_used_any, self._calls):
                log.error(
                    "usage is lost to the bill", record=str(record_id), call=repr(call), error=str(error)
                )

    async def _store_all(self) -> None:
        given = tuple(self._calls)
        records = [await self._record(record_id, call) for record_id, call in given]
        await asyncio.gather(*map(self._store.insert, records))
        del self._calls[: len(given)]

    async def _record(self, record_id: UUID, call: ModelCall) -> UsageRecord:
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


def _used_any(noted: tuple[UUID, ModelCall]) -> bool:
    _, call = noted
    return call.input_tokens > 0 or call.output_tokens > 0
