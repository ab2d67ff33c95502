"""Messages between agents and their contacts, and the uploaded files of messages, stored in pieces."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.channels.contacts import Contact, insert_contact
from storage.delivery.receipts import insert_receipt
from storage.events.model import BY_SERVICE
from storage.model import Receipt, Source
from storage.notifications.notifications import InsertItem, NewNotification, Notifications, lock_states
from storage.postgres.json_values import decoded
from storage.postgres.paging import Chunk, OfAgents, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import ALWAYS, Period, assign
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import delete_row, fetch_one, fields_of, from_row, insert_into

INSERT_CHUNK = "INSERT INTO attachment_chunk (attachment_id, position, content) VALUES ($1, $2, $3)"

# The payload of a notification is an attachment with the notification's id.
GET_ATTACHMENT = """
SELECT t.* FROM (
    SELECT * FROM attachment
    UNION ALL
    SELECT id, organization_id, agent_id, NULL, 'payload.json', 'application/json', octet_length(content)
    FROM notification_payload
) t
WHERE t.id = ANY((SELECT $1::uuid[])::uuid[])
  AND (SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = t.agent_id) /* and */
"""

# Return $4 bytes from the byte $3 of a piece on.
GET_PART = """
SELECT substr(content, $3 + 1, $4) FROM attachment_chunk WHERE attachment_id = $1 AND position = $2
UNION ALL
SELECT nullif(substr(convert_to(content, 'UTF8'), $2 * 262144 + $3 + 1, $4), '')
FROM notification_payload WHERE id = $1
"""

CHUNK_BYTES = 262_144


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on its way into storage."""

    id: UUID
    name: str
    content_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoredAttachment:
    """A stored file without its content; it belongs to a message, or to the notification with its id."""

    id: UUID
    organization_id: UUID
    agent_id: UUID
    message_id: UUID | None
    name: str
    content_type: str
    size: int


class Attachments:
    """The tables `attachment` and `attachment_chunk`. A deleted agent's attachments are not found."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads("attachments", pool, GET_ATTACHMENT, partial(from_row, StoredAttachment))

    async def get_chunk(self, attachment_id: UUID, position: int) -> bytes | None:
        """Return a piece of the file, counted from 0; None after the last one."""
        chunk: bytes | None = await self._pool.fetchval(GET_PART, attachment_id, position, 0, CHUNK_BYTES)
        return chunk

    async def get_part(self, attachment_id: UUID, start: int, max_bytes: int) -> bytes:
        """Return up to `max_bytes` of the file from the byte `start` on, at most one piece."""
        position, offset = divmod(start, CHUNK_BYTES)
        count = min(max_bytes, CHUNK_BYTES - offset)
        return await self._pool.fetchval(GET_PART, attachment_id, position, offset, count) or b""


async def insert_uploads(
    connection: Connection,
    organization_id: UUID,
    agent_id: UUID,
    message_id: UUID,
    uploads: Sequence[Upload],
) -> None:
    """Store the files of a message within its transaction."""
    for upload in uploads:
        size = len(upload.content)
        stored = StoredAttachment(
            upload.id, organization_id, agent_id, message_id, upload.name, upload.content_type, size
        )
        await connection.execute(*insert_into("attachment", fields_of(stored)))
        for position, start in enumerate(range(0, size, CHUNK_BYTES)):
            chunk = upload.content[start : start + CHUNK_BYTES]
            await connection.execute(INSERT_CHUNK, upload.id, position, chunk)


# An outbound message has its event when it is sent or has failed. Readers of the log wait for a transaction
# from its first event on, so the event comes after the files and after the wait for the agent's state.
INSERT_EVENT = """
INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
SELECT created_at, CASE direction WHEN 'inbound' THEN 'message.received' ELSE 'message.' || status END,
       organization_id, agent_id, event_run_id($2), id, $2,
       json_strip_nulls(json_build_object('contact', contact_id, 'channel', channel))
FROM message WHERE id = $1 AND (direction = 'inbound' OR status IN ('sent', 'failed'))
"""

GET_LAST_ORIGIN = """
SELECT channel, address FROM message
WHERE contact_id = $2 AND agent_id = $1 AND direction = 'inbound'
ORDER BY created_at DESC, id DESC LIMIT 1
"""

LOCK_ATTACHMENTS = "SELECT attachments FROM message WHERE id = $1 FOR UPDATE"

UPDATE = """
WITH locked AS MATERIALIZED (
    SELECT id, status FROM message WHERE id = $1 FOR NO KEY UPDATE
), updated AS (
    UPDATE message SET /* set */ FROM locked WHERE message.id = locked.id
    RETURNING message.*, locked.status AS status_before
)
INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
SELECT $2, 'message.' || status, organization_id, agent_id, event_run_id($3), id, $3,
       json_strip_nulls(json_build_object('contact', contact_id, 'channel', channel))
FROM updated WHERE direction = 'outbound' AND status IN ('sent', 'failed') AND status <> status_before
"""

# The first report stays: the tool of the channel may set the status itself before it answers.
UPDATE_QUEUED = """
WITH locked AS MATERIALIZED (
    SELECT id, status FROM message WHERE id = $1 FOR NO KEY UPDATE
), updated AS (
    UPDATE message SET status = $2, error = $5, sending_until = NULL FROM locked
    WHERE message.id = locked.id AND locked.status = 'queued'
    RETURNING message.*
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
    SELECT $3, 'message.' || status, organization_id, agent_id, event_run_id($4), id, $4,
           json_strip_nulls(json_build_object('contact', contact_id, 'channel', channel))
    FROM updated WHERE status <> 'queued'
)
SELECT coalesce(updated.status, locked.status) AS status FROM locked LEFT JOIN updated USING (id)
"""

REQUEUE = """
UPDATE message SET status = 'queued', needs_person = true, sending_until = $3
WHERE id = $1 AND (status = 'failed' OR needs_person) AND (sending_until IS NULL OR sending_until <= $2)
RETURNING id
"""

IS_BEING_SENT = "SELECT sending_until > $2 FROM message WHERE id = $1"


class Channel(StrEnum):
    """The ways that messages travel: the sources of notifications that are conversations."""

    EMAIL = Source.EMAIL
    """E-mail."""
    SMS = Source.SMS
    """SMS."""
    MMS = Source.MMS
    """iMessage or RCS."""
    SMS_PROVIDER_A = Source.SMS_PROVIDER_A
    """SMS through a further provider."""
    SMS_PROVIDER_B = Source.SMS_PROVIDER_B
    """SMS through another further provider."""


class Direction(StrEnum):
    """The direction of a message, seen from the agent."""

    INBOUND = "inbound"
    """From a contact to the agent."""
    OUTBOUND = "outbound"
    """From the agent to a contact."""


class MessageStatus(StrEnum):
    """The state of a message.

    It is `queued` while a tool sends it, and stays so if the service ends or the run is stopped before that.
    """

    RECEIVED = "received"
    """An inbound message; its default."""
    QUEUED = "queued"
    """An outbound message that is not yet known to be sent; its default."""
    SENT = "sent"
    """An outbound message that was handed to its channel."""
    FAILED = "failed"
    """An outbound message that was not sent, also because no tool of the agent serves its channel."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that belongs to a message: one that was uploaded with it, or one elsewhere, by its address."""

    name: str
    content_type: str
    url: str  # of an uploaded file, its path in the API
    id: UUID | None = None  # of an uploaded file; None for a file elsewhere, which is not stored here
    size: int | None = None  # in bytes, of an uploaded file


@dataclass(frozen=True, slots=True)
class Message:
    id: UUID
    organization_id: UUID
    agent_id: UUID
    contact_id: UUID | None
    channel: Channel
    direction: Direction
    subject: str
    body: str
    attachments: tuple[Attachment, ...]
    status: MessageStatus
    created_at: datetime
    run_id: UUID | None = None  # the run that sent it
    address: str = ""  # of the contact, in the form of storage.channels.addresses; "" if it is not known
    error: str = ""  # why it was not sent
    needs_person: bool = False  # set by the database: it was not sent, and nobody has dealt with that


TABLE = OwnedTable("message", "m", Message, OfAgents.ALL)


@dataclass(frozen=True, slots=True)
class Origin:
    """The channel that a message came by, and the address that it came from, "" if that is not known."""

    channel: Channel
    address: str


@dataclass(frozen=True, slots=True)
class MessageFilters:
    """The messages that a list shows."""

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    contact_id: UUID | None = None
    channel: Channel | None = None
    direction: Direction | None = None
    status: MessageStatus | None = None
    needs_person: bool | None = None
    created: Period = ALWAYS


class Messages:
    """The table `message`. A received one is stored together with its notification."""

    def __init__(self, pool: Pool, notifications: Notifications) -> None:
        self._pool = pool
        self._notifications = notifications
        self.get = SharedReads(
            "messages",
            pool,
            TABLE.get,
            message_of,
            texts=("m.subject", "m.body", "m.error"),
            documents=("m.attachments",),
        )

    async def insert(
        self,
        message: Message,
        receipt: Receipt | None = None,
        *,
        uploads: Sequence[Upload] = (),
        actor: str = BY_SERVICE,
    ) -> None:
        """Store a message and its files, without a notification.

        Raise ReferenceMissing for `agent` or `contact`, AnsweredBefore if the receipt exists already.
        """

        async def write(connection: Connection) -> None:
            await _insert(connection, message, receipt, uploads)
            await connection.execute(INSERT_EVENT, message.id, actor)

        await self._pool.write(write, f"storing of message {message.id}")

    async def receive(
        self,
        message: Message,
        notification: NewNotification,
        allowed: Collection[UUID],
        receipt: Receipt | None = None,
        *,
        sender: Contact | None = None,
        uploads: Sequence[Upload] = (),
        actor: str = BY_SERVICE,
    ) -> None:
        """Store a message, its files and its notification, and `sender` if that is a new contact.

        Raise the errors of `insert`, of `Contacts.insert` and of `Notifications.insert`.
        """

        async def write(connection: Connection) -> InsertItem:
            await insert_receipt(connection, receipt, message.organization_id)
            if sender is not None:
                await insert_contact(connection, sender)
            await _insert(connection, message, None, uploads)
            await lock_states(connection, [message.agent_id])
            await connection.execute(INSERT_EVENT, message.id, actor)
            return await self._notifications.insert_in_transaction(connection, notification, allowed, actor)

        def report(item: InsertItem) -> None:
            self._notifications.report_committed([item])

        async with self._notifications.limit.reserved(message.organization_id):
            await self._pool.write(write, f"receipt of message {message.id}", report)

    async def list_page(self, filters: MessageFilters, page: Page) -> Chunk[Message]:
        """List one page of the messages, newest first."""
        return await fetch_page(self._pool, Message, TABLE.page, _conditions(filters, page), message_of)

    async def get_last_origin(self, agent_id: UUID, contact_id: UUID) -> Origin | None:
        """Return where the contact's last message to the agent came from; None if there is none."""
        return await fetch_one(self._pool, Origin, GET_LAST_ORIGIN, agent_id, contact_id)

    async def update(
        self, message_id: UUID, changes: Mapping[str, Any], now: datetime, *, actor: str = BY_SERVICE
    ) -> Message | None:
        """Set the columns in `changes` and return the message; None if there is no such message.

        The message keeps its uploaded files, whatever `attachments` holds. Raise ReferenceMissing for
        `contact`.
        """

        async def write(connection: Connection) -> None:
            columns = dict(changes)
            if "attachments" in changes:
                stored = attachments_of(await connection.fetchval(LOCK_ATTACHMENTS, message_id))
                uploaded = tuple(item for item in stored if item.id is not None)
                columns["attachments"] = uploaded + tuple(changes["attachments"])
            await connection.execute(sql, message_id, now, actor, *columns.values())

        if changes:
            sql = assign(UPDATE, changes, Message, after=3)
            await self._pool.write(write, f"update of message {message_id}")
        return await self.get(message_id)

    async def update_queued(
        self,
        message_id: UUID,
        status: MessageStatus,
        now: datetime,
        *,
        error: str = "",
        actor: str = BY_SERVICE,
    ) -> MessageStatus:
        """Set the status of a queued message; return the status that the message has now.

        A message that is no longer queued keeps its status. For a deleted one, return `status`.
        """
        stored = await self._pool.change(UPDATE_QUEUED, message_id, status, now, actor, error)
        return MessageStatus(stored[0]["status"]) if stored else status

    async def requeue(self, message_id: UUID, now: datetime, until: datetime) -> bool:
        """Set a message that failed back to queued, because it is sent again; return False for others.

        Return False, too, while another request sends it. `until`: when the process that sends it must have
        ended if it has not told the result. It needs a person until it is sent: the process may end before.
        """
        return await self._pool.fetchval(REQUEUE, message_id, now, until) is not None

    async def is_being_sent(self, message_id: UUID, now: datetime) -> bool:
        """Return whether a request sends the message again at this moment."""
        return bool(await self._pool.fetchval(IS_BEING_SENT, message_id, now))

    async def delete(self, message_id: UUID) -> bool:
        """Delete the message; return False if there is no such message. Its notification stays."""
        return await delete_row(self._pool, "message", message_id)


async def _insert(
    connection: Connection, message: Message, receipt: Receipt | None, uploads: Sequence[Upload]
) -> None:
    await insert_receipt(connection, receipt, message.organization_id)
    await connection.execute(*insert_into("message", fields_of(message)))
    await insert_uploads(connection, message.organization_id, message.agent_id, message.id, uploads)


def message_of(row: Record) -> Message:
    """Build a message from its row."""
    return from_row(Message, row, attachments=attachments_of(row["attachments"]))


def attachments_of(value: Any) -> tuple[Attachment, ...]:
    """Build the attachments of a message from the value of their column."""
    return tuple(
        Attachment(**{**attachment, "id": UUID(attachment["id"]) if attachment.get("id") else None})
        for attachment in decoded(value or [])
    )


def _conditions(filters: MessageFilters, page: Page) -> OrganizationsPage:
    conditions = OrganizationsPage(filters.organization_ids, page, TABLE.order)
    conditions.add_optional("m.agent_id = $", filters.agent_id)
    conditions.add_optional("m.contact_id = $", filters.contact_id)
    conditions.add_optional("m.channel = $", filters.channel)
    conditions.add_optional("m.direction = $", filters.direction)
    conditions.add_optional("m.status = $", filters.status)
    if filters.status in {MessageStatus.FAILED, MessageStatus.QUEUED}:
        conditions.add("m.status IN ('failed', 'queued')")  # their index has no others
    if filters.needs_person is not None:
        conditions.add("m.needs_person" if filters.needs_person else "NOT m.needs_person")
    conditions.add_period("m.created_at", filters.created)
    return conditions
