"""Complete contacts, messages, documents and projects of an agent; a test gives only what matters."""

from dataclasses import replace
from typing import Any

from storage.channels.contacts import Contact
from storage.channels.documents import Document
from storage.channels.messages import Attachment, Channel, Direction, Message, MessageStatus
from storage.channels.projects import Project, ProjectStatus
from storage.ids import new_id
from storage.model import Agent
from tests.storage.factories import NOW


def contact(of: Agent, **fields: Any) -> Contact:
    plain = Contact(new_id(), of.organization_id, of.id, "Ada", "", "", {"vip": True}, NOW)
    return replace(plain, **fields)


def message(of: Agent, **fields: Any) -> Message:
    plain = Message(
        id=new_id(),
        organization_id=of.organization_id,
        agent_id=of.id,
        contact_id=None,
        channel=Channel.SMS,
        direction=Direction.INBOUND,
        subject="",
        body="Hello",
        attachments=(Attachment("a.png", "image/png", "https://example.com/a.png"),),
        status=MessageStatus.RECEIVED,
        created_at=NOW,
    )
    return replace(plain, **fields)


def project(of: Agent, **fields: Any) -> Project:
    plain = Project(new_id(), of.organization_id, of.id, "Move", "", ProjectStatus.ACTIVE, NOW, NOW)
    return replace(plain, **fields)


def document(of: Agent, **fields: Any) -> Document:
    plain = Document(new_id(), of.organization_id, of.id, None, "Notes", "text", "text/plain", NOW, NOW)
    return replace(plain, **fields)
