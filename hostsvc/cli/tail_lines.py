"""Events as lines for a terminal. Pure functions from the events of the API to text."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.text import Text

from hostsvc.cli.status_screen import COLORS, plain
from storage.events.model import EventType
from supervisors.policy.explanations import describe_reason
from supervisors.text import excerpt

Json = Mapping[str, Any]

MAX_TITLE = 80  # characters of a title that a line quotes
TYPE_WIDTH = max(map(len, EventType))
EVENT_COLORS = {
    **dict.fromkeys(("notification.created", "message.received"), "cyan"),
    **dict.fromkeys(("run.started", "agent.restored"), "green"),
    **dict.fromkeys(("message.failed", "budget.reached", "webhook.given_up", "webhook.disabled"), "red"),
    **dict.fromkeys(("agent.over_budget", "agent.stopped", "agent.paused", "organization.paused"), "yellow"),
    "model.delta": "dim",
}
KINDS = {"key": "key", "user": "user", "run": "run", "operator": "the operator", "program": "another program"}


def event_line(event: Json, name: str) -> Text:
    """Return the line of an event; `name` is that of its agent, "" if it is about no agent."""
    type_ = plain(event["type"])
    line = Text(no_wrap=True, overflow="ignore")
    line.append(local_time(event["at"]), "dim")
    line.append("  ").append(type_.ljust(TYPE_WIDTH), color_of(type_, event["data"])).append("  ")
    if name:
        line.append(plain(name), "bold").append("  ")
    return line.append(plain(sentence_of(event) + _by(event)))


def local_time(timestamp: str) -> str:
    """Format a timestamp of the API in the time zone of this machine, to the second."""
    return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d %H:%M:%S}"


def color_of(type_: str, data: Json) -> str:
    """Return the color of an event: that of the phase that it begins, or its own."""
    if type_ == EventType.RUN_ENDED and data.get("error"):
        return "red"
    return EVENT_COLORS.get(type_) or COLORS.get(type_.removeprefix("agent."), "")


def sentence_of(event: Json) -> str:
    """Say in a sentence what has happened."""
    data = event["data"]
    why: str = data.get("why", "")
    if why:
        return why
    topic, _, _ = str(event["type"]).partition(".")
    match topic:
        case "run":
            return _run_ended(data)
        case "notification":
            return _notification(event)
        case "message":
            return _message(event)
        case "webhook":
            return _webhook(event)
        case "model":
            return f"Turn {data['turn']}: {data['text']}"
        case _:
            return _other(event)


def _run_ended(data: Json) -> str:
    turns = data.get("turns", 0)
    counted = f"{turns} turn{'' if turns == 1 else 's'}"
    error = f": {data['error']}" if data.get("error") else "."
    woken_by = describe_reason(data.get("reason", ""))
    return f"A run woken by {woken_by} has ended after {counted}, outcome {data['outcome']}{error}"


def _notification(event: Json) -> str:
    data, resource = event["data"], event["resource"] or {}
    title = f': "{excerpt(resource["title"], MAX_TITLE)}"' if resource.get("title") else ""
    match event["type"]:
        case EventType.NOTIFICATION_CREATED:
            due = f" for {local_time(data['scheduled_for'])}" if data.get("scheduled_for") else ""
            source = f" from {data['source']}" if data.get("source") else ""
            return f"A {data['priority']}-priority notification{source}{due}{title}"
        case EventType.NOTIFICATION_CHANGED:
            return f"Changed {_fields(data)} of a notification{title}"
        case EventType.NOTIFICATION_CLEARED:
            return f"Cleared a notification{title}"
        case _:
            return f"Deleted a notification{title}"


def _message(event: Json) -> str:
    data = event["data"]
    contact, channel = data.get("contact") or "an unknown contact", data.get("channel", "")
    match event["type"]:
        case EventType.MESSAGE_RECEIVED:
            return f"A message by {channel} from {contact} was received."
        case EventType.MESSAGE_SENT:
            return f"A message by {channel} to {contact} was sent."
        case _:
            return f"A message by {channel} to {contact} could not be sent."


def _webhook(event: Json) -> str:
    data = event["data"]
    error = f": {data['error']}" if data.get("error") else "."
    if event["type"] == EventType.WEBHOOK_DISABLED:
        return f"The webhook to {data.get('url', 'its receiver')} was switched off{error}"
    return f"A delivery to {data['url']} was given up{error}"


def _other(event: Json) -> str:
    data = event["data"]
    match event["type"]:
        case EventType.AGENT_CREATED:
            return "Created."
        case EventType.AGENT_CHANGED:
            return f"Changed {_fields(data)}."
        case EventType.AGENT_DELETED:
            return f"Deleted {data['name']}." if "name" in data else "Deleted."
        case EventType.BUDGET_REACHED:
            return (
                f"The budget of the {data['of']} for today is spent: "
                f"{data['spent_usd']} of {data['cap_usd']} USD."
            )
        case EventType.ORGANIZATION_PAUSED:
            return f"The organization {event['organization']} is paused."
        case EventType.ORGANIZATION_UNPAUSED:
            return f"The pause of the organization {event['organization']} has ended."
        case _:  # a type of a newer service
            return ", ".join(f"{key} {value}" for key, value in data.items())


def _fields(data: Json) -> str:
    return ", ".join(map(str, data.get("fields", ()))) or "fields"


def _by(event: Json) -> str:
    """Say who made the change; blank for the service itself, and for a run that changes its own state."""
    by = event.get("by") or {}
    is_state = str(event["type"]).startswith(("run.", "agent.", "model."))
    if is_state and by.get("type") == "run" and by["id"] == event["run"]:
        return ""
    kind = KINDS.get(by.get("type", ""))
    return f" ({' '.join(filter(None, ('by', kind, by.get('id'))))})" if kind else ""
