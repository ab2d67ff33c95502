"""Notifications: request bodies, queries and responses."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.model import Notification, Priority, Source
from storage.notifications.inserts import NewNotification
from web.fields import MAX_SIDE_TEXT, Boolean, Choice, Datetime, Line, ListOf, Text, UtcDatetime, Uuid
from web.paging import CreatedPageQuery
from web.request.parsing import Body


class NewNotificationBody(Body):
    agent_id = Uuid(data_key="agent", required=True)
    title = Line(required=True, blank=False, max_length=MAX_SIDE_TEXT)
    body = Text(load_default="")
    source = Choice(Source, load_default=Source.API)
    source_id = Text(load_default="", max_length=MAX_SIDE_TEXT)
    priority = Choice(Priority, load_default=Priority.LOW)
    scheduled_for = Datetime(allow_none=True, load_default=None)


class NotificationChangesBody(Body):
    title = Line(blank=False, max_length=MAX_SIDE_TEXT)
    body = Text()
    priority = Choice(Priority)
    scheduled_for = Datetime(allow_none=True)
    cleared = Boolean()


class ClearBody(Body):
    """Which of an agent's notifications to clear; without `ids` all that are not scheduled for later."""

    agent_id = Uuid(data_key="agent", required=True)
    ids = ListOf(Uuid())


class ClearedResponse(TypedDict):
    """How many notifications this request cleared."""

    cleared: int


class NotificationQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    cleared = Boolean(load_default=None)
    priority = Choice(Priority, load_default=None)
    source = Choice(Source, load_default=None)
    scheduled_after = UtcDatetime(
        load_default=None,
        metadata={"description": "Only notifications whose `scheduled_for` is at this time or later."},
    )
    scheduled_before = UtcDatetime(
        load_default=None,
        metadata={"description": "Only notifications whose `scheduled_for` is before this time."},
    )


class NotificationResponse(TypedDict):
    id: UUID
    agent: UUID
    source: Source
    source_id: str
    title: str
    body: str
    priority: Priority
    created_at: datetime
    scheduled_for: datetime | None
    cleared: bool
    cleared_at: datetime | None


def serialize_notification(notification: Notification | NewNotification) -> NotificationResponse:
    return {
        "id": notification.id,
        "agent": notification.agent_id,
        "source": notification.source,
        "source_id": notification.source_id,
        "title": notification.title,
        "body": notification.body,
        "priority": notification.priority,
        "created_at": notification.created_at,
        "scheduled_for": notification.scheduled_for,
        "cleared": notification.cleared,
        "cleared_at": notification.cleared_at,
    }
