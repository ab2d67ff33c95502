"""Contacts, messages, documents and memories in memory: do what `storage.channels` does, for tools.

They keep no versions of documents. A search finds whole words, knows no stems and no operators.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

from hostsvc_testing.memory.tables import Tables, Wire
from storage.channels.addresses import normalize
from storage.channels.contacts import Contact, contact_with
from storage.channels.documents import WRITTEN, Document, DocumentHit, DocumentTitle, SearchScope, Writer
from storage.channels.memories import DirectoryEntry, MemoryFile, parents
from storage.channels.messages import Direction, Message, MessageFilters, MessageStatus, Origin
from storage.errors import NotUnique
from storage.postgres.paging import Chunk, Page

Row = TypeVar("Row")
SNIPPET_CHARACTERS = 200

_place = attrgetter("created_at", "id")


def page_of(rows: Iterable[Row], page: Page, place: Callable[[Row], Any] = _place) -> Chunk[Row]:
    """Return the page of rows that come newest first."""
    older = (each for each in rows if page.after is None or place(each) < page.after)
    return Chunk(list(islice(older, page.limit)), is_cut=False)


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
        return page_of(self._latest(filters.agent_id, filters.contact_id), page)

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


class MemoryDocuments:
    """Documents. A deleted one is only found by its id."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def get(self, document_id: UUID) -> Document | None:
        return self._tables.documents.get(document_id)

    async def insert(self, document: Document) -> None:
        await _reach_server(self._wire)
        if document.path in self._tables.memories(document.agent_id):
            raise NotUnique("agent", "path")
        self._tables.documents[document.id] = document

    async def update(
        self,
        document: Document,
        changes: Mapping[str, Any],
        writer: Writer,
        now: datetime,
        expected_version: int | None = None,
    ) -> Document | None:
        await _reach_server(self._wire)
        before = self._tables.documents.get(document.id)
        if before is None or expected_version not in {None, before.version}:
            return None
        after = replace(before, updated_at=now, **changes)
        if not WRITTEN.isdisjoint(changes):
            after = _next_version(after, writer)
        self._tables.documents[before.id] = after
        return after

    async def list_titles(self, agent_id: UUID, project_id: UUID | None, page: Page) -> Chunk[DocumentTitle]:
        seen = (each for each in self._seen(agent_id) if project_id in {None, each.project_id})
        return page_of((_as(DocumentTitle, each) for each in seen), page)

    async def search(self, scope: SearchScope, query: str, limit: int) -> list[DocumentHit]:
        """Return the documents with any of the words, first those with the most of them."""
        wanted, hits = set(_words(query)), []
        for each in self._seen(scope.agent_id):
            found = [word for word in _words(f"{each.title} {each.content}") if word in wanted]
            if found:
                rank = len(set(found)) + len(found) / 1000
                hits.append(_as(DocumentHit, each, rank=rank, snippet=each.content[:SNIPPET_CHARACTERS]))
        return sorted(hits, key=attrgetter("rank"), reverse=True)[:limit]

    def _seen(self, agent_id: UUID | None) -> list[Document]:
        """Return the documents that an agent sees, newest first."""
        rows = (each for each in self._tables.documents.values() if each.deleted_at is None)
        return sorted((each for each in rows if each.agent_id in {None, agent_id}), key=_place, reverse=True)


class MemoryMemories:
    """The documents of agents that have a path."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def get(self, agent_id: UUID, path: str) -> Document | None:
        return self._tables.memories(agent_id).get(path)

    async def find_conflict(self, agent_id: UUID, path: str) -> str | None:
        above, held = parents(path), self._tables.memories(agent_id)
        return next((each for each in held if each in above or each.startswith(f"{path}/")), None)

    async def list_directory(self, agent_id: UUID, path: str, limit: int) -> list[DirectoryEntry]:
        sizes: Counter[tuple[str, str, bool]] = Counter()
        for each, document in self._tables.memories(agent_id).items():
            if each.startswith(f"{path}/"):
                first, *deeper = each.removeprefix(f"{path}/").split("/")
                size = len(document.content.encode())
                sizes[first, deeper[0] if deeper else "", len(deeper) > 1] += size
        return [DirectoryEntry(*names, size) for names, size in sorted(sizes.items())][:limit]

    async def list_files(self, agent_id: UUID, path: str) -> list[MemoryFile]:
        held = sorted(self._tables.memories(agent_id).items())
        return [MemoryFile(each.id, at) for at, each in held if _is_below(at, path)]

    async def delete(self, files: Sequence[MemoryFile], writer: Writer, now: datetime) -> None:
        await _reach_server(self._wire)
        for each in self._present(files):
            gone = replace(each, content="", updated_at=now, deleted_at=now)
            self._tables.documents[each.id] = _next_version(gone, writer)

    async def rename(self, files: Sequence[MemoryFile], old: str, new: str, name: str) -> bool:
        await _reach_server(self._wire)
        moved = {}
        for each in self._present(files):
            path = each.path or ""
            if _is_below(path, old):
                path, title = new + path.removeprefix(old), name if path == old else each.title
                moved[each.id] = replace(each, path=path, title=title)
                if path in self._tables.memories(each.agent_id):
                    raise NotUnique("agent", "path")
        self._tables.documents.update(moved)
        return bool(moved)

    def _present(self, files: Sequence[MemoryFile]) -> list[Document]:
        """Return those of the files that have not been deleted since they were listed."""
        rows = (self._tables.documents[file.id] for file in files)
        return [each for each in rows if each.deleted_at is None]


async def _reach_server(wire: Wire) -> None:
    """Take the turns of the loop that a write takes, in which the process may be killed."""
    await wire.run_to_completion(wire.carry(partial(asyncio.sleep, 0), None))


def _is_below(path: str, directory: str) -> bool:
    """Return whether a path is this one, or of a file in this directory."""
    return f"{path}/".startswith(f"{directory}/")


def _next_version(document: Document, writer: Writer) -> Document:
    return replace(document, version=document.version + 1, author=writer.author, run_id=writer.run_id)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+(?:\.\w+)*", text.lower())


def _as(kind: Any, document: Document, **further: Any) -> Any:
    """Return what a list shows of a document."""
    further["size_bytes"] = len(document.content.encode())
    names = {each.name for each in fields(kind)} - further.keys()
    return kind(**further, **{name: getattr(document, name) for name in names})
