"""Bells: hints from one node to another by NOTIFY.

A bell says of what kind it is, in one word, and whom it concerns. It carries nothing that is not in the
tables, so a lost one only costs time, until the next scan. `storage.postgres.doorbell` hears them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from uuid import UUID

import structlog

from storage.errors import StorageError
from storage.postgres.pool import Pool

CHANNEL_OF_NODE = "hostsvc_node_{}"
MAX_IDS = 200  # in one payload, which may have 8,000 bytes
MAX_TEXT_BYTES = 7_900
MAX_TEXTS = 100  # of one moment
LIVE = "live "  # before a text
PAUSE_SECONDS = 0.01
PAUSE_PER_NODE_SECONDS = 0.002  # each NOTIFY wakes the listeners of all nodes

NOTIFY = "SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS bell (channel, payload)"

_log = structlog.get_logger(__name__)


class Bells:
    """Sends the bells of one node, those of a moment together."""

    def __init__(
        self, pool: Pool, node_count: Callable[[], int], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._pool, self._node_count, self._sleep = pool, node_count, sleep
        self._pending: dict[tuple[str, str], dict[UUID, None]] = {}  # by channel and kind
        self._texts: list[tuple[str, str]] = []  # by channel
        self._is_rung = asyncio.Event()

    def ring(self, node_id: int, kind: str, ids: Iterable[UUID]) -> None:
        """Ring a node soon, unless this one is alone."""
        if self._node_count() > 1:
            self._pending.setdefault((CHANNEL_OF_NODE.format(node_id), kind), {}).update(dict.fromkeys(ids))
            self._is_rung.set()

    def send(self, node_id: int, text: str) -> None:
        """Send a node a text that it shows at once and nobody keeps; one that is too long is left out."""
        if len(text.encode()) <= MAX_TEXT_BYTES and len(self._texts) < MAX_TEXTS:
            self._texts.append((CHANNEL_OF_NODE.format(node_id), LIVE + text))
            self._is_rung.set()

    async def run_once(self) -> None:
        """Wait for bells, send them by one statement, and let those that follow gather."""
        await self._is_rung.wait()
        self._is_rung.clear()
        pending, self._pending = self._pending, {}
        texts, self._texts = self._texts, []
        bells = texts + [
            (channel, payload) for (channel, kind), ids in pending.items() for payload in _payloads(kind, ids)
        ]
        try:
            await self._pool.execute(NOTIFY, *map(list, zip(*bells, strict=True)))
        except StorageError as error:
            _log.debug("bells were lost", count=len(bells), reason=str(error))
        await self._sleep(max(PAUSE_SECONDS, PAUSE_PER_NODE_SECONDS * self._node_count()))


def _payloads(kind: str, ids: Iterable[UUID]) -> Iterator[str]:
    words = [str(each) for each in ids]
    for start in range(0, max(1, len(words)), MAX_IDS):
        yield " ".join([kind, *words[start : start + MAX_IDS]])


def parse_bell(payload: str) -> tuple[str, list[UUID]]:
    """Return the kind of a bell, and the ids that it names; a blank kind if it is none."""
    kind, *words = payload.split(" ")
    try:
        return kind, [UUID(word) for word in words]
    except ValueError:
        return "", []
