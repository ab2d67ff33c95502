"""Transcripts: what agents and their models said, carried from run to run until a summary takes its place."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from storage.postgres.json_values import decoded
from storage.postgres.paging import Chunk, Page, PageConditions, fetch_page
from storage.postgres.pool import Pool
from storage.postgres.statement import delete_rows, fetch_one, fields_of, from_row, insert_into

GET = """
SELECT t.* FROM transcript_turn t JOIN agent a ON a.id = t.agent_id AND a.deleted_at IS NULL WHERE t.id = $1
"""

PAGE = """
SELECT t.* FROM transcript_turn t
WHERE t.agent_id = $1 /* and */
ORDER BY t.created_at DESC, t.id DESC LIMIT $2 OFFSET $3
"""

# The newest turns whose tokens fit, and the summary before them, oldest first. Tokens are counted before any
# messages are read.
LIST_CARRIED = """
SELECT t.* FROM (
    SELECT id, kind, sum(tokens) OVER (ORDER BY position DESC) AS total
    FROM transcript_turn WHERE agent_id = $1 AND carried
) n
JOIN transcript_turn t USING (id)
WHERE n.kind = 'summary' OR n.total <= $2
ORDER BY t.position
"""

# A transcript that no summary ever shortens must not grow for ever: the oldest turns are carried no further.
LEAVE_OLDEST = """
UPDATE transcript_turn SET carried = false
WHERE agent_id = $1 AND carried AND kind = 'turn' AND position <= (
    SELECT position FROM transcript_turn WHERE agent_id = $1 AND carried AND kind = 'turn'
    ORDER BY position DESC OFFSET $2 LIMIT 1)
"""

# The summary takes the position of the last turn that it replaces. It is not stored if that turn is no longer
# carried: somebody has deleted the transcript since it was read.
REPLACE = """
WITH last AS (
    SELECT position FROM transcript_turn WHERE id = $8 AND agent_id = $2 AND carried FOR UPDATE
), replaced AS (
    UPDATE transcript_turn t SET carried = false FROM last
    WHERE t.agent_id = $2 AND t.carried AND t.position <= last.position
)
INSERT INTO transcript_turn (id, agent_id, run_id, kind, messages, tokens, created_at, position)
SELECT $1, $2, $3, $4, $5, $6, $7, last.position FROM last
RETURNING id
"""

DELETE_CARRIED = "DELETE FROM transcript_turn WHERE agent_id = $1 AND carried"

DELETE_REPLACED = """
DELETE FROM transcript_turn WHERE id IN (
    SELECT id FROM transcript_turn WHERE agent_id = $1 AND NOT carried LIMIT $2)
"""

MAX_CARRIED_TURNS = 1000  # of an agent
DELETED_AT_ONCE = 500


class TurnKind(StrEnum):
    """The kind of an entry in a transcript."""

    TURN = "turn"
    """What the agent was told, its model's answer, and the results of the tools that it called."""
    SUMMARY = "summary"
    """The model's summary of all earlier entries, which are carried no further."""


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """One entry of a transcript. `messages` is a list in the order of the conversation."""

    id: UUID
    agent_id: UUID
    run_id: UUID
    kind: TurnKind
    messages: Any
    tokens: int
    carried: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TranscriptFilters:
    """The entries of an agent that a list shows: those carried into its next run, or all others."""

    agent_id: UUID
    carried: bool = True


class Transcripts:
    """The table `transcript_turn`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def insert(self, turn: TranscriptTurn) -> None:
        """Store a turn after all others of its agent."""
        await self._pool.execute(*insert_into("transcript_turn", fields_of(turn)))

    async def list_carried(self, agent_id: UUID, max_tokens: int) -> list[TranscriptTurn]:
        """List the newest carried turns that have at most so many tokens, after the summary; oldest first."""
        await self._pool.execute(LEAVE_OLDEST, agent_id, MAX_CARRIED_TURNS)
        rows = await self._pool.fetch(LIST_CARRIED, agent_id, max_tokens)
        return [from_row(TranscriptTurn, row, messages=decoded(row["messages"])) for row in rows]

    async def replace(self, last_id: UUID, summary: TranscriptTurn) -> bool:
        """Store a summary in place of this turn and those before; return False if it is no longer carried."""
        row = await self._pool.fetchrow(
            REPLACE,
            summary.id,
            summary.agent_id,
            summary.run_id,
            summary.kind,
            summary.messages,
            summary.tokens,
            summary.created_at,
            last_id,
        )
        return row is not None

    async def get(self, turn_id: UUID) -> TranscriptTurn | None:
        return await fetch_one(self._pool, TranscriptTurn, GET, turn_id)

    async def list_page(self, filters: TranscriptFilters, page: Page) -> Chunk[TranscriptTurn]:
        """List one page of an agent's transcript, newest first."""
        conditions = PageConditions(filters.agent_id, page, "t.created_at, t.id")
        conditions.add("t.carried" if filters.carried else "NOT t.carried")  # as the indexes say it
        return await fetch_page(self._pool, TranscriptTurn, PAGE, conditions)

    async def delete_of_agent(self, agent_id: UUID) -> None:
        """Delete the transcript: what is carried at once, then all that summaries have replaced."""
        await self._pool.execute(DELETE_CARRIED, agent_id)
        while await delete_rows(self._pool, DELETE_REPLACED, agent_id, DELETED_AT_ONCE):
            pass
