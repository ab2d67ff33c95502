"""Replies: which contact the text of a final answer goes to. Pure: values in, values out."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.channels.messages import Channel
from storage.ids import derive_id
from storage.model import Notification, Source

CHANNELS = frozenset(map(Source, Channel))


@dataclass(frozen=True, slots=True)
class WaitingContact:
    """A contact whose messages wait for an answer, and the notifications about them, the latest first."""

    contact_id: UUID
    notifications: tuple[Notification, ...]

    @property
    def message_id(self) -> UUID:
        """Return the id of the answer, which is the same in each run that answers the latest message.

        So an answer is not sent twice if the service dies before it has cleared the notifications. One that
        was cleared, and is uncleared again, has another answer.
        """
        latest = self.notifications[0]
        return derive_id(latest.id, f"answered by text, active since {latest.activated_at}")


def waiting_contacts(notifications: Iterable[Notification]) -> list[WaitingContact]:
    """Return the contacts that these notifications are messages of, the one with the latest first."""
    by_contact: dict[UUID, list[Notification]] = {}
    for one in sorted(notifications, key=_activation, reverse=True):
        contact_id = contact_of(one)
        if contact_id is not None:
            by_contact.setdefault(contact_id, []).append(one)
    return [WaitingContact(contact_id, tuple(group)) for contact_id, group in by_contact.items()]


def _activation(notification: Notification) -> tuple[datetime, UUID]:
    return notification.activated_at or notification.created_at, notification.id


def contact_of(notification: Notification) -> UUID | None:
    """Return the contact that wrote the message; None if it is not about the message of a contact."""
    if notification.source not in CHANNELS:
        return None
    try:
        return UUID(notification.source_id)
    except ValueError:  # of another program, which names its contacts as it likes
        return None
