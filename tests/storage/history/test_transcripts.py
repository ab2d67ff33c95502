"""Transcripts: stored in order, read within a number of tokens, replaced by summaries, and deleted."""

from dataclasses import replace
from typing import Any

from storage.history.transcripts import (
    MAX_CARRIED_TURNS,
    TranscriptFilters,
    Transcripts,
    TranscriptTurn,
    TurnKind,
)
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.json_values import MAX_DECODED_BYTES
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, SECOND, stored_agent

INSERT_MANY = """
INSERT INTO transcript_turn (id, agent_id, run_id, kind, messages, tokens, created_at)
SELECT gen_random_uuid(), $1, $1, 'turn', '[]', 1, $2 FROM generate_series(1, $3::integer)
"""


def turn(of: Agent, **fields: Any) -> TranscriptTurn:
    defaults: dict[str, Any] = {
        "id": new_id(),
        "agent_id": of.id,
        "run_id": new_id(),
        "kind": TurnKind.TURN,
        "messages": [{"role": "assistant", "text": "Hello"}],
        "tokens": 10,
        "carried": True,
        "created_at": NOW,
    }
    return TranscriptTurn(**(defaults | fields))


async def inserted(transcripts: Transcripts, of: Agent, count: int, **fields: Any) -> list[TranscriptTurn]:
    turns = [turn(of, created_at=NOW + number * SECOND, **fields) for number in range(count)]
    for each in turns:
        await transcripts.insert(each)
    return turns


async def test_carried_turns_are_listed_in_the_order_of_insertion(pool: Pool) -> None:
    agent, transcripts = await stored_agent(pool), Transcripts(pool)
    await transcripts.insert(turn(await stored_agent(pool)))
    turns = [turn(agent, created_at=NOW - number * SECOND) for number in range(3)]  # the clock runs backwards
    for each in turns:
        await transcripts.insert(each)
    assert await transcripts.list_carried(agent.id, 1000) == turns


async def test_long_messages_of_carried_turns_are_decoded(pool: Pool) -> None:
    agent, transcripts = await stored_agent(pool), Transcripts(pool)
    long = [{"role": "assistant", "text": "x" * MAX_DECODED_BYTES}]
    await transcripts.insert(turn(agent, messages=long))
    [read] = await transcripts.list_carried(agent.id, 1000)
    assert read.messages == long


async def test_only_newest_turns_within_the_tokens_are_read(pool: Pool) -> None:
    agent, transcripts = await stored_agent(pool), Transcripts(pool)
    turns = await inserted(transcripts, agent, 5)
    assert await transcripts.list_carried(agent.id, 25) == turns[3:]


async def test_summary_takes_the_place_of_the_turns_before(pool: Pool) -> None:
    agent, transcripts = await stored_agent(pool), Transcripts(pool)
    turns = await inserted(transcripts, agent, 4)
    first = turn(agent, kind=TurnKind.SUMMARY)
    assert await transcripts.replace(turns[1].id, first)
    assert await transcripts.list_carried(agent.id, 1000) == [first, *turns[2:]]
    assert await transcripts.list_carried(agent.id, 10) == [first, turns[3]]

    second = turn(agent, kind=TurnKind.SUMMARY)
    assert await transcripts.replace(turns[2].id, second)
    assert await transcripts.list_carried(agent.id, 1000) == [second, turns[3]]

    kept = await transcripts.list_page(TranscriptFilters(agent.id, carried=False), Page())
    assert {each.id for each in kept} == {first.id, *(each.id for each in turns[:3])}


async def test_summary_of_a_deleted_transcript_is_not_stored(pool: Pool) -> None:
    agent, transcripts = await stored_agent(pool), Transcripts(pool)
    turns = await inserted(transcripts, agent, 2)
    await transcripts.delete_of_agent(agent.id)
    assert not await transcripts.replace(turns[1].id, turn(agent, kind=TurnKind.SUMMARY))
    assert await transcripts.list_carried(agent.id, 1000) == []


async def test_transcript_without_summaries_stays_bounded(pool: Pool) -> None:
    agent, transcripts = await stored_agent(pool), Transcripts(pool)
    [old] = await inserted(transcripts, agent, 1)
    summary = turn(agent, kind=TurnKind.SUMMARY)
    await transcripts.replace(old.id, summary)
    await pool.execute(INSERT_MANY, agent.id, NOW, MAX_CARRIED_TURNS + 5)
    newest = turn(agent)
    await transcripts.insert(newest)
    carried = await transcripts.list_carried(agent.id, 100_000)
    assert len(carried) == MAX_CARRIED_TURNS + 1
    assert (carried[0], carried[-1]) == (summary, newest)


async def test_delete_removes_replaced_turns_as_well(pool: Pool) -> None:
    agent, other, transcripts = await stored_agent(pool), await stored_agent(pool), Transcripts(pool)
    turns = await inserted(transcripts, agent, 2)
    kept = await inserted(transcripts, other, 1)
    await transcripts.replace(turns[0].id, turn(agent, kind=TurnKind.SUMMARY))
    await transcripts.delete_of_agent(agent.id)
    assert await pool.fetchval("SELECT count(*) FROM transcript_turn") == 1
    assert await transcripts.list_carried(other.id, 1000) == kept


async def test_turn_of_a_deleted_agent_is_not_found(pool: Pool) -> None:
    agent, transcripts = await stored_agent(pool), Transcripts(pool)
    [stored] = await inserted(transcripts, agent, 1)
    assert await transcripts.get(stored.id) == replace(stored)
    await pool.execute("UPDATE agent SET deleted_at = $2 WHERE id = $1", agent.id, NOW)
    assert await transcripts.get(stored.id) is None
