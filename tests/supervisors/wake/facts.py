"""Facts for the tests of what agents are told when they wake."""

from typing import Any

from storage.agents.wakes import (
    ContactMessages,
    CoreMemory,
    PastMessage,
    RunUnderWay,
    WaitingNotification,
    WakeFacts,
)
from storage.channels.messages import Channel, Direction, MessageStatus
from storage.history.runs import PastRun
from storage.ids import new_id
from storage.model import Outcome, Priority, Source
from storage.postgres.json_values import to_json
from tests.storage.factories import HOUR, MINUTE, NOW, agent


def wake_facts(**fields: Any) -> WakeFacts:
    """Make the facts of a first run that a request started, with nothing else to tell."""
    values: dict[str, Any] = {
        "agent": agent(new_id()),
        "template": None,
        "organization_name": "Acme",
        "run": RunUnderWay(new_id(), "run_requested", NOW, None, None),
        "last_ended_at": None,
        "notifications": (),
        "conversations": (),
        "core_memory": None,
        "runs": (),
    }
    return WakeFacts(**values | fields)


def waiting(title: str = "Look here", body: str = "", **fields: Any) -> WaitingNotification:
    values: dict[str, Any] = {
        "id": new_id(),
        "source": Source.API,
        "source_id": "",
        "priority": Priority.HIGH,
        "title": title,
        "body": body,
        "body_bytes": len(body.encode()),
        "created_at": NOW - MINUTE,
        "scheduled_for": None,
    }
    return WaitingNotification(**values | fields)


def said(body: str, *, by_agent: bool = False, **fields: Any) -> PastMessage:
    values: dict[str, Any] = {
        "id": new_id(),
        "channel": Channel.SMS,
        "direction": Direction.OUTBOUND if by_agent else Direction.INBOUND,
        "subject": "",
        "body": body,
        "body_bytes": len(body.encode()),
        "attachment_count": 0,
        "status": MessageStatus.SENT if by_agent else MessageStatus.RECEIVED,
        "created_at": NOW - MINUTE,
    }
    return PastMessage(**values | fields)


def talk(*newest_first: PastMessage, name: str = "Ann") -> ContactMessages:
    return ContactMessages(new_id(), name, "+49 30 1", "", newest_first)


def memory(content: str) -> CoreMemory:
    return CoreMemory(content, len(content.encode()))


def past_run(**fields: Any) -> PastRun:
    values: dict[str, Any] = {
        "wake_reason": "reminder",
        "started_at": NOW - HOUR,
        "ended_at": NOW - HOUR + MINUTE,
        "outcome": Outcome.SLEPT,
        "turns": 3,
        "error": "",
        "output": "",
        "journal": None,
    }
    values |= fields
    return PastRun(**values | {"journal": values["journal"] and to_json(values["journal"]).decode()})
