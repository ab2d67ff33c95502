"""Notifications: request bodies, queries and responses."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.model import Notification, Priority, Source
from storage.notifications.inserts import NewNotification
from web.fields import MAX_SIDE_TEXT, Boolean, Choice, Datetime, Line, ListOf, Text, Uuid
from web.filter_fields import UtcDatetime
from web.paging import CreatedPageQuery
from web.request.parsing import Body
from web.serializers import Serializer


class NewNotificationBody(Body):
    """A new notification."""

    agent_id = Uuid(data_key="agent", required=True)
    title = Line(required=True, blank=False, max_length=MAX_SIDE_TEXT)
    body = Text(load_default="")
    source = Choice(Source, load_default=Source.API)
    source_id = Text(load_default="", max_length=MAX_SIDE_TEXT)
    priority = Choice(Priority, load_default=Priority.LOW)
    scheduled_for = Datetime(allow_none=True, load_default=None)


class NotificationChangesBody(Body):
    """The fields to change. If the notification becomes active by it, it wakes the agent like a new one."""

    title = Line(blank=False, max_length=MAX_SIDE_TEXT)
    body = Text()
    priority = Choice(Priority)
    scheduled_for = Datetime(allow_none=True)
    cleared = Boolean()
    """true clears the notification; false puts it back into the queue, and sets `cleared_at` to null."""


class ClearBody(Body):
    """Which of an agent's notifications to clear."""

    agent_id = Uuid(data_key="agent", required=True)
    """The agent whose notifications are cleared."""
    ids = ListOf(Uuid())
    """The notifications to clear, all of this agent. Left out: all but those scheduled for later; an empty
    list: none."""


class ClearedResponse(TypedDict):
    """The result of clearing."""

    cleared: int
    """How many notifications this request cleared; those that were cleared before do not count."""


class NotificationQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    """Only notifications of this agent."""
    cleared = Boolean(load_default=None)
    """true: only cleared ones. false: only uncleared ones, those scheduled for later included."""
    priority = Choice(Priority, load_default=None)
    """Only notifications of this priority."""
    source = Choice(Source, load_default=None)
    """Only notifications from this source."""
    scheduled_after = UtcDatetime(load_default=None)
    """Only reminders that are due at this time or later. Without an offset it is UTC."""
    scheduled_before = UtcDatetime(load_default=None)
    """Only reminders that are due before this time, past ones included. Without an offset it is UTC."""


class NotificationResponse(TypedDict):
    """An entry in an agent's queue: something that the agent should look at."""

    id: UUID
    """Chosen by the service; the agent's tool `clear_notification` takes it."""
    agent: UUID
    """The agent in whose queue it is."""
    source: Source
    """Where it comes from, which also decides whether it wakes at once or after the debounce window."""
    source_id: str
    """An id in the source, such as the id of the contact who wrote; "" if there is none."""
    title: str
    """One line that tells the agent what it is about."""
    body: str
    """The details, such as the text of a message; "" if there are none."""
    priority: Priority
    """Whether it wakes the agent and keeps it from sleeping until it is cleared."""
    created_at: datetime
    """When it was created."""
    scheduled_for: datetime | None
    """When it becomes active: until then the agent's own tool does not list it, and at that time a high one
    wakes the agent. null or a time in the past: at once."""
    cleared: bool
    """Whether it was dismissed; a cleared one neither wakes the agent nor keeps it awake."""
    cleared_at: datetime | None
    """When it was cleared; null while it is not."""


serialize_notification: Serializer[Notification | NewNotification, NotificationResponse] = Serializer(
    NotificationResponse, Notification
)
