"""What comes into an agent's queue while its run goes on: the model is told at the next turn boundary."""

from uuid import UUID

from storage.model import Notification
from storage.postgres.pool import to_json
from supervisors.clock import Clock
from supervisors.engine.run import ActiveRun
from supervisors.ports import InboxUpdateStore

LOOKED_THROUGH = 100  # the last of what came
NAMED = 10
LOOKS_EVERY_SECONDS = 30.0  # for what nobody is told of: reminders that fall due, and low ones


class InboxUpdates:
    """The news of one run. The queue is read only if something came, or after a while."""

    def __init__(self, run: ActiveRun, queue: InboxUpdateStore, clock: Clock) -> None:
        self._run = run
        self._queue = queue
        self._clock = clock
        self._told: set[UUID] = set()
        self._looked_at = clock.monotonic()

    def may_be_there(self) -> bool:
        """Whether it is time to look."""
        return self._run.notified or self._clock.monotonic() >= self._looked_at + LOOKS_EVERY_SECONDS

    async def look(self) -> str:
        """What to tell the model; blank if there is nothing."""
        # First the mark: what comes while the queue is read leaves it for the next boundary.
        self._run.notified = False
        self._looked_at = self._clock.monotonic()
        came = await self._queue.list_for_agent(
            self._run.agent_id, since=self._run.started_at, limit=LOOKED_THROUGH, now=self._clock.now()
        )
        found = [one for one in came if one.id not in self._told]
        self._told.update(one.id for one in found)
        return _told(found) if found else ""


def _told(found: list[Notification]) -> str:
    named = [
        {"id": one.id, "priority": one.priority, "source": one.source, "title": one.title}
        for one in found[:NAMED]
    ]
    at_least = "at least " if len(found) == LOOKED_THROUGH else ""
    more = f" and {at_least}{len(found) - NAMED} more" if len(found) > NAMED else ""
    return (
        f"Since this run began, this came into your queue: {to_json(named).decode()}{more}. "
        "list_notifications shows it in full."
    )
