"""The tool that opens the attachments of a received message."""

from typing import Any

from storage.channels.messages import Attachment, Direction
from supervisors.tools.errors import ToolError
from supervisors.tools.toolkit import ToolDefinition, ToolInvocation, schema

MAX_TEXT_BYTES = 16_384  # of all attachments of a message that are shown as text
TEXT_TYPES = frozenset({"application/json", "application/xml", "application/x-yaml"})

OPEN_SMS_ATTACHMENT = ToolDefinition(
    name="open_sms_attachment",
    description=(
        "Opens what was attached to a message that came in: the name, type and size of each file, "
        "the text of text files, and addresses to read files from."
    ),
    parameters=schema(
        ("message_id",),
        message_id={"type": "string", "format": "uuid", "description": "As in the body of its notification."},
    ),
)


async def open_sms_attachment(call: ToolInvocation) -> dict[str, Any]:
    """Return the attachments of a message that the agent received.

    The text of uploaded text files is included, the first MAX_TEXT_BYTES of all together.
    """
    message_id = call.arguments.id("message_id")
    message = await call.stores.messages.get(message_id)
    if message is None or message.agent_id != call.agent.id or message.direction is not Direction.INBOUND:
        raise ToolError("not_found", f"You were sent no message {message_id}.")
    opened, remaining = [], MAX_TEXT_BYTES
    for attachment in message.attachments:
        shown = _shown(attachment)
        if remaining and attachment.id is not None and _is_text(attachment.content_type):
            start = await call.stores.attachments.get_start(attachment.id, remaining)
            remaining -= len(start)
            shown["text"] = start.decode(errors="replace").replace("\x00", "\ufffd")
            shown["is_cut"] = len(start) < (attachment.size or 0)
        opened.append(shown)
    return {"message_id": str(message.id), "attachments": opened}


def _shown(attachment: Attachment) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": attachment.name,
        "content_type": attachment.content_type,
        "url": attachment.url,
    }
    if attachment.id is not None:
        shown |= {"id": str(attachment.id), "size": attachment.size}
    return shown


def _is_text(content_type: str) -> bool:
    return content_type.startswith("text/") or content_type in TEXT_TYPES
