"""Who is told of commits and live text: nodes that show it, and those that have not told what they show."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from hostsvc.signals import FOLLOWED, STREAMS, Signals
from storage.postgres.node import Node
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.events.subscription import LiveEvent
from tests.nodes import living_node

RUN = UUID(int=7)
UNTOLD, FOLLOWER, IDLE = (
    living_node(2),
    living_node(3, **{STREAMS: True, FOLLOWED: [str(RUN)]}),
    living_node(4, **{STREAMS: False, FOLLOWED: []}),
)


class RecordedBells:
    """Note which nodes are rung, and which are sent something live."""

    def __init__(self) -> None:
        self.rung: list[int] = []
        self.sent: list[int] = []

    def ring(self, node_id: int, *_: Any) -> None:
        self.rung.append(node_id)

    def send(self, node_id: int, _: str) -> None:
        self.sent.append(node_id)


def signals_beside(pool: Pool, *others: Node) -> tuple[Signals, RecordedBells]:
    """Return the signals of a node beside these, and the bells that it rings."""
    signals, bells = Signals(cast(Any, SimpleNamespace(others=others))), RecordedBells()
    storage = Storage(pool, signals.on_commit, sleep=SystemClock().sleep)
    signals.connect(storage, cast(Any, bells), cast(Any, SimpleNamespace()))
    return signals, bells


async def test_commit_is_told_to_feed_and_nodes_that_may_show_it(pool: Pool) -> None:
    signals, bells = signals_beside(pool, UNTOLD, FOLLOWER, IDLE)
    await pool.change("UPDATE organization SET name = name")
    assert signals.storage.events.written.is_set()
    assert bells.rung == [UNTOLD.id, FOLLOWER.id]


async def test_live_text_is_sent_to_nodes_that_may_show_it(pool: Pool) -> None:
    signals, bells = signals_beside(pool, UNTOLD, FOLLOWER, IDLE)
    signals.pass_on(LiveEvent("run.text", datetime.now(UTC), UUID(int=5), UUID(int=6), RUN, {}))
    assert bells.sent == [UNTOLD.id, FOLLOWER.id]


async def test_lone_node_follows_only_its_own_streams(pool: Pool) -> None:
    signals, _ = signals_beside(pool)
    assert not signals.is_followed_elsewhere(UUID(int=5), UUID(int=6), RUN)
