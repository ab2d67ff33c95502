"""The audit log grows here: audited events are chained by digests, a moment after they were written.

Events are numbered before they are committed, so their order is known only once no earlier one can follow.
"""

from functools import partial

from storage.events.audit_log import AuditLog
from storage.events.events import Events
from storage.events.reader import EventReader
from supervisors.clock import Clock

WRITERS_SECONDS = 0.05  # until it is looked again whether transactions that may have written events are over


class AuditChainer:
    """Chains the audited events of all organizations."""

    def __init__(self, log: AuditLog, events: Events, clock: Clock) -> None:
        self._log = log
        self._events = events
        self._pause = partial(clock.sleep, WRITERS_SECONDS)

    async def run_once(self) -> None:
        """Chain everything written until now, once the transactions in progress are over."""
        if await self._events.get_last_id() <= await self._log.get_position():
            return
        reader = EventReader(self._events)
        await reader.skip(self._pause)
        while await self._log.chain(reader.settled):
            pass
