"""Contacts and messages in memory: does what their namesakes in `storage.channels` do, for tools."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hostsvc_testing.memory.tables import Tables, Wire
from storage.channels.addresses import normalize
from storage.channels.contacts import Contact, contact_with
from storage.channels.messages import Direction, Message, MessageFilters, MessageStatus, Origin
from storage.postgres.paging import Chunk, Page


class MemoryContacts:
    """Contacts, all of them for all agents."""

    def __init__(self, tables: Tables) -> None:
        self._contacts = tables.contacts

    async def get(self, contact_id: UUID) -> Contact | None:
        return self._contacts.get(contact_id)

    async def normalize_address(self, organization_id: UUID, text: str) -> str:
        return normalize(text, "")

    async def find(self, organization_id: UUID, address: str) -> Contact | None:
        return next((each for each in self._contacts.values() if address in {each.phone, each.email}), None)

    async def find_or_insert(self, organization_id: UUID, address: str, now: datetime) -> Contact:
        contact = await self.find(organization_id, address) or contact_with(organization_id, address, now)
        return self._contacts.setdefault(contact.id, contact)


class MemoryMessages:
    """Messages, in the order of their creation."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._messages = tables.messages
        self._wire = wire

    async def get(self, message_id: UUID) -> Message | None:
        return self._messages.get(message_id)

    async def insert(self, message: Message, **_: Any) -> None:
        async def write() -> None:
            await asyncio.sleep(0)
            self._messages[message.id] = message

        await self._wire.run_to_completion(self._wire.carry(write, message.agent_id))

    async def list_page(self, filters: MessageFilters, page: Page) -> Chunk[Message]:
        found = list(self._latest(filters.agent_id, filters.contact_id))
        older = [each for each in found if page.after is None or (each.created_at, each.id) < page.after]
        return Chunk(older[: page.limit], is_cut=False)

    async def get_last_origin(self, agent_id: UUID, contact_id: UUID) -> Origin | None:
        own = (each for each in self._latest(agent_id, contact_id) if each.direction is Direction.INBOUND)
        return next((Origin(each.channel, each.address) for each in own), None)

    async def update_queued(
        self, message_id: UUID, status: MessageStatus, now: datetime, *, error: str = "", **_: Any
    ) -> MessageStatus:
        await self.insert(replace(self._messages[message_id], status=status, error=error))
        return status

    async def requeue(self, message_id: UUID, now: datetime, until: datetime) -> bool:
        return await self.update_queued(message_id, MessageStatus.QUEUED, now) is MessageStatus.QUEUED

    def _latest(self, agent_id: UUID | None, contact_id: UUID | None) -> Iterator[Message]:
        """Yield the messages of an agent, with one contact or with all, the latest first."""
        for each in reversed(self._messages.values()):
            if each.agent_id == agent_id and contact_id in {None, each.contact_id}:
                yield each
