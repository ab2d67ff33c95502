"""Writes the usage of a run: one record for each answer of a model."""

from collections import deque
from decimal import Decimal
from uuid import UUID

import structlog

from storage.errors import StorageError
from storage.ids import new_id
from storage.model import Agent
from storage.usage import UsageRecord
from supervisors.clock import Clock
from supervisors.models import ModelAnswer
from supervisors.ports import UsageStore
from supervisors.prices import ModelCall, Prices

log = structlog.get_logger()


class Meter:
    """The usage of one run. What could not be stored is kept for the next flush."""

    def __init__(self, agent: Agent, trace_id: UUID, store: UsageStore, prices: Prices, clock: Clock) -> None:
        self._agent = agent
        self._trace_id = trace_id
        self._store = store
        self._prices = prices
        self._clock = clock
        self._calls: deque[tuple[UUID, ModelCall]] = deque()

    def note(self, model: str, answer: ModelAnswer) -> None:
        """At once, without an await: what is noted is stored even if the run is ended right then."""
        call = ModelCall(
            model, answer.input_tokens, answer.output_tokens, answer.cached_tokens, self._clock.now()
        )
        self._calls.append((new_id(), call))

    async def flush(self) -> None:
        """Store what was noted so far. A failure is logged: the record never stops the work."""
        while self._calls:
            record_id, call = self._calls[0]
            try:
                await self._store.insert(await self._record(record_id, call))
            except StorageError as error:
                log.warning("usage could not be stored yet", count=len(self._calls), error=str(error))
                return
            self._calls.popleft()

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
