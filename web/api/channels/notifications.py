"""Notifications: the queue of things that an agent should look at."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web
from marshmallow import ValidationError

from storage.errors import Forbidden, ReferenceMissing
from storage.ids import new_id
from storage.model import Notification, Priority, Receipt, Source
from storage.notifications.changes import NotificationState
from storage.notifications.notifications import NewNotification, NotificationFilters
from supervisors.policy.explanations import why_silent
from web.access.auth import Caller, RunAccess
from web.access.path_access import load, load_owned, load_row_of_agent, require_agent
from web.access.references import load_named
from web.app_keys import CLOCK, STORAGE
from web.errors import Invalid, PermissionDenied, require_found
from web.fields import (
    MAX_SIDE_TEXT,
    Boolean,
    Choice,
    Datetime,
    Line,
    ListOf,
    Text,
    UtcDatetime,
    Uuid,
    unknown_id,
)
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.observability.requests import HEADERS, HINT_HEADER
from web.paging import CreatedPageQuery, answer_owned, period
from web.request.parsing import Body, localize, read_body, read_query
from web.routes import Routes


class NewNotificationBody(Body):
    """A new notification."""

    agent_id = Uuid(data_key="agent", required=True)
    title = Line(required=True, blank=False, max_length=MAX_SIDE_TEXT)
    body = Text(load_default="")
    source = Choice(Source, load_default=Source.API)
    source_id = Text(load_default="", max_length=MAX_SIDE_TEXT)
    priority = Choice(Priority, load_default=Priority.LOW)
    scheduled_for = Datetime(allow_none=True, load_default=None)
    urgent = Boolean(load_default=False)

    def check_together(self, checked: Mapping[str, Any]) -> None:
        if checked.get("urgent") and checked["priority"] is not Priority.HIGH:
            raise ValidationError({"urgent": ["Only a high notification can be urgent."]})


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
    urgent: bool
    """Whether it wakes the agent in its quiet hours, too, and when it has woken as often as it may. Only
    people and keys create such notifications, all of them high."""


serialize_notification: Serializer[Notification | NewNotification, NotificationResponse] = Serializer(
    NotificationResponse, Notification
)

routes = Routes()

DATETIME_FIELDS = ("scheduled_for",)


@routes.create("/api/defaults/notifications/", body=NewNotificationBody, run_access=RunAccess.RUNNING)
async def create_notification(request: web.Request, caller: Caller) -> NotificationResponse:
    """Add a notification to the queue of an agent.

    If it is high and not scheduled for later, it wakes the agent: at once, or after the debounce window if
    its source is conversational. A low one wakes nobody. An archived agent accepts notifications and stays
    asleep. With 201 the notification is stored durably. If the organization has too many waiting ones, the
    answer is 429. `X-Hint` says of a low one that is scheduled for later that it will wake nobody. A run
    creates notifications of its own agent, like its tool, with `agent` as their source.
    """
    body = await read_body_once(request, caller)
    agent_id: UUID = body["agent_id"]
    if caller.run is not None:
        caller.require_agent(agent_id, caller.run.organization_id)
        body["source"] = _source_of_run(body["source"])
        if body["urgent"]:
            raise PermissionDenied("The token of a run creates no urgent notifications.")
    scheduled_for: datetime | None = body["scheduled_for"]
    if scheduled_for is not None and scheduled_for.tzinfo is None:
        agent = await load_named(caller, request.app[STORAGE].agents.get, "agent", agent_id)
        localize(body, DATETIME_FIELDS, ZoneInfo(agent.timezone))
    now = request.app[CLOCK].now()
    new = NewNotification(id=new_id(), created_at=now, **body)
    answer = serialize_notification(new)
    await insert_notification(request, caller, new, receipt_of(request, answer))
    if new.scheduled_for is not None:
        _hint(request, new, now)
    return answer


async def insert_notification(
    request: web.Request, caller: Caller, new: NewNotification, receipt: Receipt | None = None
) -> None:
    """Store a notification. Raise Invalid for an unknown agent, PermissionDenied for one of others."""
    try:
        allowed = caller.reach.organization_ids
        await request.app[STORAGE].notifications.insert(new, allowed, receipt, actor=caller.identity)
    except ReferenceMissing as error:
        raise Invalid({"agent": [unknown_id(new.agent_id)]}) from error
    except Forbidden as error:
        raise caller.refusal() from error


def _hint(request: web.Request, notification: Notification | NewNotification, now: datetime) -> None:
    """Say in the head of the answer if the notification is a reminder that will wake nobody."""
    hint = why_silent(notification, now, "the agent")
    if hint:
        request[HEADERS][HINT_HEADER] = hint


def _source_of_run(named: Source) -> Source:
    """Return the source of a run's own notification. Raise PermissionDenied for any other."""
    if named not in {Source.API, Source.AGENT}:  # API is the default
        raise PermissionDenied(f"The token of a run creates notifications with the source {Source.AGENT}.")
    return Source.AGENT


@routes.get(
    "/api/defaults/notifications/",
    answer=list[NotificationResponse],
    query=NotificationQuery,
    run_access=RunAccess.RUNNING,
)
async def list_notifications(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List notifications, including those scheduled for later, which only the agent's own tool hides.

    A run lists those of its agent.
    """
    query, reach = read_query(request), caller.reach
    await require_agent(request, caller, query["agent"])
    notifications = request.app[STORAGE].notifications
    filters = NotificationFilters(
        reach.organization_ids,
        query["agent"] or reach.agent_id,
        query["cleared"],
        query["priority"],
        query["source"],
        period(query, "created"),
        period(query, "scheduled"),
    )
    fetch = partial(notifications.list_rows, filters)
    owners = reach.organization_ids
    return await answer_owned(request, query, owners, notifications.get, fetch, serialize_notification.row)


@routes.get("/api/defaults/notifications/{id}/", run_access=RunAccess.RUNNING)
async def get_notification(request: web.Request, caller: Caller) -> NotificationResponse:
    """Read one notification. Reading changes nothing: only clearing takes it from the queue."""
    row = await load_row_of_agent(request, caller, request.app[STORAGE].notifications.get)
    return serialize_notification.row(row)


@routes.patch("/api/defaults/notifications/{id}/", body=NotificationChangesBody)
async def change_notification(request: web.Request, caller: Caller) -> NotificationResponse:
    """Change the fields that the body contains.

    If this makes the notification high, uncleared and due, it wakes the agent like a new one. Clearing it,
    making it low or moving it to a later time can end a wait for further messages.
    """
    storage = request.app[STORAGE]
    notification = await load_owned(request, caller, storage.notifications.get)
    changes = await read_body(request)
    scheduled_for: datetime | None = changes.get("scheduled_for")
    if scheduled_for is not None and scheduled_for.tzinfo is None:
        agent = require_found(await storage.agents.get(notification.agent_id))
        localize(changes, DATETIME_FIELDS, ZoneInfo(agent.timezone))
    if changes.get("cleared") is False:  # it may have been cleared while the body arrived
        notification = await load(request, storage.notifications.get)
    waits_again = notification.cleared and changes.get("cleared") is False
    async with storage.limits.waiting_notifications.reserved(notification.organization_id, int(waits_again)):
        changed = await storage.notifications.update(
            notification.id, changes, request.app[CLOCK].now(), actor=caller.identity
        )
    changed = require_found(changed)
    _hint(request, changed, request.app[CLOCK].now())
    return serialize_notification(changed)


@routes.delete("/api/defaults/notifications/{id}/")
async def delete_notification(request: web.Request, caller: Caller) -> None:
    """Delete a notification. It no longer wakes the agent, nor keeps it from sleeping."""
    notifications = request.app[STORAGE].notifications
    notification = await load_owned(request, caller, notifications.get)
    await notifications.delete(notification.id, request.app[CLOCK].now(), actor=caller.identity)


@routes.post("/api/defaults/notifications/clear/", body=ClearBody, run_access=RunAccess.RUNNING)
async def clear_notifications(request: web.Request, caller: Caller) -> ClearedResponse:
    """Clear many notifications of one agent at once, or none if one of the ids does not belong to it.

    Notifications that are already cleared keep their `cleared_at` and do not count.
    """
    storage = request.app[STORAGE]
    body = await read_body(request)
    agent_id: UUID = body["agent_id"]
    ids: list[UUID] | None = body.get("ids")
    organization_id = await storage.agents.get_organization_id(agent_id)
    if organization_id is None:
        raise Invalid({"agent": [unknown_id(agent_id)]})
    owners = {each.id: each for each in await storage.notifications.list_states(ids or ())}
    unknown = {
        index: [unknown_id(notification_id)]
        for index, notification_id in enumerate(ids or ())
        if notification_id not in owners or _is_of_sibling(owners[notification_id], organization_id, agent_id)
    }
    if unknown:
        raise Invalid({"ids": unknown})
    caller.require_agent(agent_id, organization_id)
    if any(owner.agent_id != agent_id for owner in owners.values()):
        raise PermissionDenied
    count = await storage.notifications.clear_many(
        agent_id, ids, request.app[CLOCK].now(), actor=caller.identity
    )
    return {"cleared": count}


def _is_of_sibling(owner: NotificationState, organization_id: UUID, agent_id: UUID) -> bool:
    """Return whether the owner is another agent of the same organization."""
    return owner.organization_id == organization_id and owner.agent_id != agent_id
