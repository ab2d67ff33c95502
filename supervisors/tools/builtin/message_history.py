"""Message tools: an agent reads what it and its contacts have written to each other."""

from functools import partial
from typing import Any

from storage.channels.messages import Message, MessageFilters
from supervisors.text import cut
from supervisors.timestamps import format_local
from supervisors.tools.builtin.pages import LIMIT, by_creation, more, named_cursor, read_page
from supervisors.tools.builtin.reach import named_correspondent, named_resource
from supervisors.tools.toolkit import PartialResult, ToolDefinition, ToolInvocation, schema

MAX_LISTED_CHARACTERS = 2000  # of a body in a list

LIST_MESSAGES = ToolDefinition(
    name="list_messages",
    description="Lists the last messages with a contact, or with all, newest last; long bodies are cut.",
    parameters=schema(
        contact_id={"type": "string", "format": "uuid"},
        limit=LIMIT,
        before={"type": "string", "format": "uuid", "description": "Lists those before this message."},
    ),
)

GET_MESSAGE = ToolDefinition(
    name="get_message",
    description="Reads a message with its whole body.",
    parameters=schema(("message_id",), message_id={"type": "string", "format": "uuid"}),
)


async def list_messages(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the agent's last messages, in the order in which they were written."""
    messages, agent, contact_id = call.stores.messages, call.agent, None
    if call.arguments.given.get("contact_id") is not None:
        contact_id = (await named_correspondent(call)).id
    filters = MessageFilters((agent.organization_id,), agent.id, contact_id)
    before = await named_cursor(call, "before", "message", messages.get, by_creation)
    page = await read_page(
        call, partial(messages.list_page, filters), partial(_summary, agent.timezone), before
    )
    items = page.items[::-1]
    return PartialResult(items, more("before", items[0])) if page.has_more else items


async def get_message(call: ToolInvocation) -> dict[str, Any]:
    """Return one of the agent's messages."""
    message = await named_resource(call, "message_id", "message", call.stores.messages.get)
    return _serialize(call.agent.timezone, message)


def _summary(timezone: str, message: Message) -> dict[str, Any]:
    """Return the message with a short body, without a subject and attachments if it has none."""
    summary = _serialize(timezone, message)
    summary["body"] = cut(message.body, MAX_LISTED_CHARACTERS)
    return {name: value for name, value in summary.items() if value or name not in {"subject", "attachments"}}


def _serialize(timezone: str, message: Message) -> dict[str, Any]:
    return {
        "id": str(message.id),
        "contact": str(message.contact_id) if message.contact_id else None,
        "at": format_local(message.created_at, timezone),
        "direction": message.direction,
        "channel": message.channel,
        "status": message.status,
        "subject": message.subject,
        "body": message.body,
        "attachments": [attachment.name or attachment.content_type for attachment in message.attachments],
    }
