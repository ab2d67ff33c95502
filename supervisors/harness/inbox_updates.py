"""Inbox updates: the model learns at a turn boundary which notifications have arrived during its run."""

from uuid import UUID

from storage.notifications.since import RecentNotification
from supervisors.clock import Clock
from supervisors.engine.run import ActiveRun
from supervisors.ports import InboxUpdateStore
from supervisors.text import quoted

MAX_FETCHED = 100  # the latest ones
MAX_NAMED = 10
FETCH_INTERVAL_SECONDS = 30.0  # for what sends no signal: due reminders and low-priority notifications


class InboxUpdates:
    """The notifications that arrive during one run. They are read after a signal, or after a while."""

    def __init__(self, run: ActiveRun, queue: InboxUpdateStore, clock: Clock) -> None:
        self._run = run
        self._queue = queue
        self._clock = clock
        self._reported: set[UUID] = set()
        self._fetched_at = clock.monotonic()

    def may_exist(self) -> bool:
        """Return whether it is time to read the queue."""
        return self._run.is_notified or self._clock.monotonic() >= self._fetched_at + FETCH_INTERVAL_SECONDS

    async def fetch(self) -> str:
        """Return the message to the model; blank if nothing has arrived."""
        # Clear the flag first: what arrives during the read sets it again for the next boundary.
        self._run.is_notified = False
        self._fetched_at = self._clock.monotonic()
        recent = await self._queue.list_for_agent(
            self._run.agent_id, since=self._run.started_at, limit=MAX_FETCHED, now=self._clock.now()
        )
        arrived = [notification for notification in recent if notification.id not in self._reported]
        self._reported.update(notification.id for notification in arrived)
        return _message(arrived) if arrived else ""


def _message(arrived: list[RecentNotification]) -> str:
    fields = ("id", "priority", "source", "title")
    named = [{field: getattr(one, field) for field in fields} for one in arrived[:MAX_NAMED]]
    at_least = "at least " if len(arrived) == MAX_FETCHED else ""
    more = f" and {at_least}{len(arrived) - MAX_NAMED} more" if len(arrived) > MAX_NAMED else ""
    return (
        f"Since this run began, this came into your queue: {quoted(named)}{more}. "
        "list_notifications shows it in full."
    )
