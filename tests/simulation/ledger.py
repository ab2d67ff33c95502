"""The writes that the service has acknowledged, and therefore must keep (I3)."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from hostsvc_testing.memory.tables import Tables
from storage.model import Notification, Source
from storage.notifications.notifications import NewNotification


class Ledger:
    """Expects the last acknowledged value of each notification; nothing if writes overlapped or failed."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._expected: dict[UUID, dict[str, Any]] = {}
        self._gone: set[UUID] = set()
        self._doubtful: set[UUID] = set()
        self._attempts: Counter[UUID] = Counter()
        self._under_way: Counter[UUID] = Counter()

    def inserted(self, notification: NewNotification) -> None:
        fields = {"title": notification.title, "source": notification.source}
        self._expected.setdefault(notification.id, fields)

    @contextmanager
    def changing(self, notification_id: UUID, changes: Mapping[str, Any]) -> Iterator[Callable[[], None]]:
        """Attempt to change a notification; calling the yielded function acknowledges the change.

        The acknowledgement counts if no other attempt overlapped and none has returned an error: an attempt
        with an error may still take effect, after any later one.
        """
        self._attempts[notification_id] += 1
        self._under_way[notification_id] += 1
        attempts, is_alone = self._attempts[notification_id], self._under_way[notification_id] == 1
        expected = self._expected.setdefault(notification_id, {})
        for name in changes:
            expected.pop(name, None)

        def acknowledge() -> None:
            is_last = is_alone and self._attempts[notification_id] == attempts
            if is_last and notification_id not in self._doubtful:
                expected.update(changes)

        try:
            yield acknowledge
        except BaseException:
            self._doubtful.add(notification_id)
            raise
        finally:
            self._under_way[notification_id] -= 1

    def tried_to_delete(self, notification_id: UUID) -> None:
        """Note that the notification may be gone from now on."""
        self._attempts[notification_id] += 1
        self._expected[notification_id] = {}

    def deleted(self, notification_id: UUID) -> None:
        self._expected[notification_id] = {}
        self._gone.add(notification_id)

    def lost(self) -> Iterator[tuple[UUID | None, str]]:
        """Yield each acknowledged write that is lost, with its agent."""
        for notification_id, fields in self._expected.items():
            kept = self._tables.notifications.get(notification_id)
            if kept is None:
                if fields:
                    yield None, f"notification #{notification_id.int} is lost"
                continue
            for name, value in fields.items():
                if getattr(kept, name) != value and not self._is_merged(kept, name, value):
                    yield kept.agent_id, f"{kept.title} has {name} {getattr(kept, name)} and not {value}"
        for notification_id in self._gone & self._tables.notifications.keys():
            yield None, f"notification #{notification_id.int} was deleted and is there"

    def _is_merged(self, kept: Notification, name: str, value: Any) -> bool:
        """Return whether a schedule has changed the field since: to a later moment, or to its priority."""
        if kept.source is not Source.SYSTEM:
            return False
        if name == "scheduled_for":
            return kept.scheduled_for is not None and (value is None or kept.scheduled_for > value)
        schedules = [each for each in self._tables.schedules.values() if str(each.id) == kept.source_id]
        return name == "priority" and kept.priority in {schedule.priority for schedule in schedules}
