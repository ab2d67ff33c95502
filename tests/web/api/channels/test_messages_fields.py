"""Bodies and responses of messages."""

from storage.channels.messages import Attachment, Channel, Direction, Message, MessageStatus
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    OTHER_ID,
    OTHER_ID_TEXT,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.channels.messages import MessageChangesBody, NewMessageBody, serialize_message

URL = "https://example.com/a.png"
NEW = {"agent": ID_TEXT, "channel": "sms", "direction": "inbound"}


def test_new_message_needs_agent_channel_and_direction() -> None:
    assert refuse(NewMessageBody(), {}) == dict.fromkeys(NEW, REQUIRED)


def test_new_message_leaves_the_status_open() -> None:
    checked = accept(NewMessageBody(), NEW)
    assert (checked["channel"], checked["direction"]) == (Channel.SMS, Direction.INBOUND)
    assert (checked["status"], checked["attachments"]) == (None, [])


def test_attachment_needs_a_url() -> None:
    attachments = [{"url": URL}, {"name": "b"}]
    assert refuse(NewMessageBody(), {**NEW, "attachments": attachments}) == {
        "attachments": {1: {"url": REQUIRED}}
    }
    assert accept(MessageChangesBody(), {"attachments": attachments[:1]}, partial=True) == {
        "attachments": [{"name": "", "content_type": "", "url": URL}]
    }


def test_attachments_are_limited_in_bytes() -> None:
    long = [{"url": f"https://example.org/{'a' * 1900}"} for _ in range(150)]
    refused = {"attachments": ["Ensure this field has no more than 262144 bytes as JSON."]}
    assert refuse(MessageChangesBody(), {"attachments": long}) == refused
    assert len(accept(MessageChangesBody(), {"attachments": long[:100]})["attachments"]) == 100


def test_change_ignores_agent_channel_and_direction() -> None:
    assert accept(MessageChangesBody(), {**NEW, "status": "sent"}, partial=True) == {
        "status": MessageStatus.SENT
    }


def test_response_hides_the_organization() -> None:
    message = Message(
        id=ID,
        organization_id=ORGANIZATION_ID,
        agent_id=OTHER_ID,
        contact_id=None,
        channel=Channel.MMS,
        direction=Direction.INBOUND,
        subject="",
        body="Hello",
        attachments=(Attachment("a.png", "image/png", URL),),
        status=MessageStatus.RECEIVED,
        created_at=NOON,
    )
    assert serve(serialize_message(message)) == {
        "id": ID_TEXT,
        "agent": OTHER_ID_TEXT,
        "contact": None,
        "channel": "mms",
        "direction": "inbound",
        "subject": "",
        "body": "Hello",
        "address": "",
        "attachments": [{"name": "a.png", "content_type": "image/png", "url": URL}],
        "status": "received",
        "created_at": NOON_TEXT,
    }
