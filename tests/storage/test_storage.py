"""The storage as a whole: its callbacks, and its end."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import pytest

from storage.errors import DatabaseUnavailable
from storage.model import Priority
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.storage.factories import NOW, new_notification, stored_agent, usage_record


async def test_commits_and_clearings_are_reported_apart(pool: Pool) -> None:
    reports: list[tuple[str, list[UUID]]] = []

    def on_commit(agent_ids: Iterable[UUID]) -> None:
        reports.append(("commit", list(agent_ids)))

    def on_clear(agent_ids: Sequence[UUID]) -> None:
        reports.append(("clear", list(agent_ids)))

    storage = Storage(pool, on_commit, on_clear, sleep=SystemClock().sleep)
    scout = await stored_agent(pool)
    high, low = new_notification(scout.id), new_notification(scout.id, priority=Priority.LOW)
    for notification in (high, low):
        await storage.notifications.insert(notification, {scout.organization_id})
    for notification in (high, low):
        assert await storage.notifications.clear(scout.id, notification.id, NOW)

    assert reports == [("commit", [scout.id]), ("clear", [scout.id])]


async def test_closed_storage_refuses_shared_writes_and_reads(pool: Pool) -> None:
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    scout = await stored_agent(pool)
    await storage.usage.insert(usage_record(scout))

    await pool.finish_writes()

    for refused in (
        storage.usage.insert(usage_record(scout)),
        storage.notifications.insert(new_notification(scout.id), {scout.organization_id}),
        storage.agent_states.get_facts(scout.id, NOW),
    ):
        with pytest.raises(DatabaseUnavailable, match="closed"):
            await refused
