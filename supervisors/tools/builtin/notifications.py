"""Notification tools: an agent lists, clears and creates notifications in its own queue."""

from typing import Any

from storage.ids import new_id
from storage.model import Notification, Priority, Source
from storage.notifications.notifications import NewNotification
from supervisors.policy.explanations import why_silent
from supervisors.text import format_timestamp
from supervisors.tools.arguments import ToolError
from supervisors.tools.tool import PartialResult, ToolInvocation, agent_tool

DEFAULT_LIST_LIMIT = 50
MAX_LIST_LIMIT = 100
MORE = "There are more, but the list would be too long. Clear those that you have handled, then list again."


@agent_tool(
    "Lists your uncleared notifications, high priority first; not those scheduled for later.",
    include_cleared={"type": "boolean", "default": False, "description": "List cleared ones as well."},
    limit={"type": "integer", "minimum": 1, "default": DEFAULT_LIST_LIMIT, "description": "At most 100."},
)
async def list_notifications(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the agent's notifications: high before low, then oldest first."""
    limit = call.arguments.integer("limit", DEFAULT_LIST_LIMIT, minimum=1)
    notifications = await call.stores.notifications.list_for_agent(
        call.agent.id,
        include_cleared=call.arguments.flag("include_cleared", default=False),
        limit=min(limit, MAX_LIST_LIMIT),
        now=call.now,
    )
    listed = [_serialize(notification) for notification in notifications]
    return PartialResult(listed, MORE) if notifications.is_cut else listed


@agent_tool(
    "Clears a notification that you have handled. Until then a high-priority one forbids sleep.",
    ("notification_id",),
    notification_id={"type": "string", "format": "uuid"},
)
async def clear_notification(call: ToolInvocation) -> dict[str, Any]:
    """Clear one of the agent's notifications; clearing it again has no effect."""
    notification_id = call.arguments.id("notification_id")
    if not await call.stores.notifications.clear(call.agent.id, notification_id, call.now, actor=call.actor):
        raise ToolError("not_found", f"You have no notification {notification_id}.")
    return {"id": str(notification_id), "cleared": True}


@agent_tool(
    "Creates a notification for yourself; with scheduled_for it is a reminder for later. Only one of "
    "high priority wakes you, so a reminder usually needs priority high.",
    ("title",),
    title={"type": "string"},
    body={"type": "string", "default": ""},
    priority={"type": "string", "enum": list(Priority), "default": Priority.LOW},
    scheduled_for={
        "type": "string",
        "format": "date-time",
        "description": "ISO 8601. It wakes you then if its priority is high.",
    },
)
async def create_notification(call: ToolInvocation) -> dict[str, Any]:
    """Put a notification into the agent's own queue; `hint` says of a low reminder that it wakes nobody."""
    new = NewNotification(
        id=new_id(),
        agent_id=call.agent.id,
        source=Source.AGENT,
        source_id="",
        title=call.arguments.line("title"),
        body=call.arguments.text("body", ""),
        priority=call.arguments.choice("priority", Priority) or Priority.LOW,
        created_at=call.now,
        scheduled_for=call.arguments.moment("scheduled_for", call.agent.timezone),
    )
    await call.stores.notifications.insert(new, {call.agent.organization_id}, actor=call.actor)
    hint = why_silent(new, call.now, "you")
    return _serialize(new) | ({"hint": hint} if hint else {})


def _serialize(notification: Notification | NewNotification) -> dict[str, Any]:
    return {
        "id": str(notification.id),
        "agent": str(notification.agent_id),
        "source": notification.source,
        "source_id": notification.source_id,
        "title": notification.title,
        "body": notification.body,
        "priority": notification.priority,
        "created_at": format_timestamp(notification.created_at),
        "scheduled_for": format_timestamp(notification.scheduled_for),
        "cleared": notification.cleared,
        "cleared_at": format_timestamp(notification.cleared_at),
    }
