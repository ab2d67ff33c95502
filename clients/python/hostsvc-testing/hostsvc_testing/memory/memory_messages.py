"""Contacts and messages in memory: does what their namesakes in `storage.channels` do, for tools."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

from hostsvc_testing.memory.tables import Tables, Wire
from storage.channels.addresses import normalize
from storage.channels.contacts import Contact, contact_with
from storage.channels.messages import Direction, Message, MessageFilters, MessageStatus, Origin
from storage.postgres.paging import Chunk, Page

_place = attrgetter("created_at", "id")


class MemoryContacts:
    """Contacts, all of them for all agents."""

    def __init__(self, tables: Tables) -> None:
        self._contacts = tables.contacts

    async def get(self, contact_id: UUID) -> Contact | None:
        return self._contacts.get(contact_id)

    async def normalize_address(self, organization_id: UUID, text: str) -> str:
        return normalize(text, "")

    async def find(self, organization_id: UUID, address: str) -> Contact | None:
        held = ((each, (each.phone, each.email, *each.other_addresses)) for each in self._contacts.values())
        return next((each for each, addresses in held if address in addresses), None)

    async def find_or_insert(self, organization_id: UUID, address: str, now: datetime) -> Contact:
        contact = await self.find(organization_id, address) or contact_with(organization_id, address, now)
        return self._contacts.setdefault(contact.id, contact)


class MemoryMessages:
    """Messages, in the order of their times."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._messages = tables.messages
        self._wire = wire

    async def get(self, message_id: UUID) -> Message | None:
        return self._messages.get(message_id)

    async def insert(self, message: Message, **_: Any) -> None:
        await self._wire.run_to_completion(self._wire.carry(partial(self._write, message), message.agent_id))

    async def list_page(self, filters: MessageFilters, page: Page) -> Chunk[Message]:
        found = self._latest(filters.agent_id, filters.contact_id)
        older = [each for each in found if page.after is None or _place(each) < page.after]
        return Chunk(older[: page.limit], is_cut=False)

    async def get_last_origin(self, agent_id: UUID, contact_id: UUID) -> Origin | None:
        own = (each for each in self._latest(agent_id, contact_id) if each.direction is Direction.INBOUND)
        return next((Origin(each.channel, each.address) for each in own), None)

    async def update_queued(
        self, message_id: UUID, status: MessageStatus, now: datetime, *, error: str = "", **_: Any
    ) -> MessageStatus:
        before = self._messages[message_id]
        if before.status is MessageStatus.QUEUED:
            await self.insert(replace(before, status=status, error=error))
        return self._messages[message_id].status

    async def requeue(self, message_id: UUID, now: datetime, until: datetime) -> bool:
        before = self._messages[message_id]
        if before.status is MessageStatus.FAILED:
            await self.insert(replace(before, status=MessageStatus.QUEUED))
        return before.status is MessageStatus.FAILED

    def put(self, message: Message) -> None:
        """Store the message in its place by time: the clock may have been set back since others."""
        last = next(reversed(self._messages.values()), message)
        self._messages[message.id] = message
        if message.created_at < last.created_at:
            rows = sorted(self._messages.values(), key=_place)
            self._messages.clear()
            self._messages.update((each.id, each) for each in rows)

    async def _write(self, message: Message) -> None:
        await asyncio.sleep(0)
        self.put(message)

    def _latest(self, agent_id: UUID | None, contact_id: UUID | None) -> Iterator[Message]:
        """Yield the messages of an agent, with one contact or with all, the latest first."""
        for each in reversed(self._messages.values()):
            if each.agent_id == agent_id and contact_id in {None, each.contact_id}:
                yield each
