"""Stored notifications, their agents' states, and the agents that commits were reported for."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.model import Agent, Notification
from storage.notifications.notifications import NotificationFilters, Notifications
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import MINUTE, NOW, new_notification
from tests.storage.listed import listed_page

LATER = NOW + MINUTE


class ReportedAgents:
    """The callback of `Notifications`: it collects the agents that commits were reported for."""

    def __init__(self) -> None:
        self.agent_ids: list[UUID] = []
        self.is_reported = asyncio.Event()

    def __call__(self, agent_ids: Iterable[UUID]) -> None:
        self.agent_ids.extend(agent_ids)
        self.is_reported.set()

    def take(self) -> list[UUID]:
        """Return the agents that were reported since the last call."""
        agent_ids, self.agent_ids = self.agent_ids, []
        return agent_ids


async def stored_notification(queue: Notifications, at: Agent, **fields: Any) -> Notification:
    new = new_notification(at.id, **fields)
    await queue.insert(new, {at.organization_id})
    stored = await queue.get(new.id)
    assert stored is not None
    return stored


async def updated_notification(
    queue: Notifications, before: Notification, now: datetime, **changes: Any
) -> Notification:
    after = await queue.update(before.id, changes, now)
    assert after is not None
    assert after == await queue.get(before.id)
    return after


async def wake_seq(pool: Pool, of: Agent) -> int:
    seq: int = await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", of.id)
    return seq


async def next_due_at(pool: Pool, of: Agent) -> datetime | None:
    due: datetime | None = await pool.fetchval(
        "SELECT next_due_at FROM agent_state WHERE agent_id = $1", of.id
    )
    return due


async def titles(queue: Notifications, of: Agent, page: Page | None = None, **filters: Any) -> list[str]:
    named = NotificationFilters(organization_ids=(of.organization_id,), **filters)
    listed = await listed_page(queue, Notification, named, page)
    return [notification.title for notification in listed]
