"""The log in memory, for its readers: does what `storage.events.events.Events` does."""

import asyncio
from functools import partial

from hostsvc_testing.memory.tables import Tables, Wire
from storage.events.events import MAX_ID
from storage.events.model import PAUSES, Event, Interest
from storage.postgres.paging import Chunk

MAX_EVENTS = 4  # that are read at once: so few that readers need several reads


class MemoryEvents:
    """A `supervisors.ports.EventStore`."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._table = tables.events
        self._wire = wire

    @property
    def written(self) -> asyncio.Event:
        return self._table.written

    async def list_after(
        self, interest: Interest, after: int, until: int = MAX_ID, limit: int = MAX_EVENTS
    ) -> Chunk[Event]:
        return await self._wire.carry(partial(self._list_after, interest, after, until, limit), None)

    async def get_first_id(self) -> int | None:
        await self._read()
        return min(self._table.rows, default=None)

    async def get_last_id(self) -> int:
        await self._read()
        return self._table.last_id

    async def list_writers(self) -> frozenset[str]:
        await self._read()
        return frozenset(map(str, self._table.writers))

    async def _read(self) -> None:
        await self._wire.carry(partial(asyncio.sleep, 0), None)

    async def _list_after(self, interest: Interest, after: int, until: int, limit: int) -> Chunk[Event]:
        await asyncio.sleep(0)
        ids = sorted(id_ for id_ in self._table.rows if after < id_ <= until)
        found = [self._table.rows[id_] for id_ in ids if concerns(interest, self._table.rows[id_])]
        await asyncio.sleep(0)
        return Chunk(found[:limit], is_cut=len(found) > limit)


def concerns(interest: Interest, event: Event) -> bool:
    """Return whether the event is among those that the interest wants."""
    organization_ids = interest.organization_ids
    if interest.run_id is not None:
        return event.run_id == interest.run_id
    if interest.agent_id is not None:
        is_pause = event.type in PAUSES and event.organization_id in (organization_ids or ())
        return is_pause or event.agent_id == interest.agent_id
    return organization_ids is None or event.organization_id in organization_ids
