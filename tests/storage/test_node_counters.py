"""Counters of nodes: sums over those that live and those that have ended."""

from datetime import timedelta
from uuid import uuid4

from storage.node_counters import NodeCounters
from storage.postgres.pool import Pool
from tests.storage.factories import NOW

INSERT_NODE = """
INSERT INTO node (life, name, version, protocol, roles) VALUES ($1, '', '', 1, '{}') RETURNING id
"""
END = "UPDATE node SET state = 'dead', ended_at = $2 WHERE id = $1"
COUNT_ROWS = "SELECT count(*) FROM node WHERE counters::text <> '{}'"
SERIES = '["hostsvc_wakes_total", {"reason": "reminder"}]'


async def test_sums_include_nodes_that_have_ended(pool: Pool) -> None:
    store = NodeCounters(pool)
    assert await store.sum() == {}
    await _node(pool, {SERIES: 3_000_000, "once": 1}, ended=True)
    await _node(pool, {SERIES: 2**60}, ended=False)
    assert await store.sum() == {SERIES: 2**60 + 3_000_000, "once": 1}


async def test_another_life_with_the_same_number_publishes_nothing(pool: Pool) -> None:
    store = NodeCounters(pool)
    node_id = await _node(pool, {SERIES: 1}, ended=False)
    await store.publish(node_id, uuid4(), {SERIES: 5})
    assert await store.sum() == {SERIES: 1}


async def test_merging_ended_nodes_changes_no_sum(pool: Pool) -> None:
    store = NodeCounters(pool)
    for count in range(1, 5):
        await _node(pool, {SERIES: count, str(count): 1}, ended=True)
    await _node(pool, {SERIES: 100}, ended=False)
    before = await store.sum()
    for _ in range(2):
        await store.merge_ended(NOW + timedelta(seconds=1))
        assert await store.sum() == before
        assert await pool.fetchval(COUNT_ROWS) == 2


async def _node(pool: Pool, counters: dict[str, int], *, ended: bool) -> int:
    life = uuid4()
    node_id: int = await pool.fetchval(INSERT_NODE, life)
    await NodeCounters(pool).publish(node_id, life, counters)
    if ended:
        await pool.execute(END, node_id, NOW)
    return node_id
