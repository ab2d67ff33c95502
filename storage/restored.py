"""A database that was restored from a backup: its pause, what follows that, and whether it is sound."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from storage.postgres.connections import Connection
from storage.postgres.statement import from_row

# Ends the transaction of the restore, on the schema of any release. Its nodes do not live here. An approved
# call may have been made since the backup, so it counts as cut off: made again only if that does no harm.
SET_PAUSED = """
SET search_path = public;
ALTER TABLE instance ADD COLUMN IF NOT EXISTS paused_at timestamptz,
                     ADD COLUMN IF NOT EXISTS paused_because text NOT NULL DEFAULT '';
UPDATE instance SET paused_at = '/* now */',
                    paused_because = 'it was restored from a backup of /* made_at */';
DO $$ BEGIN
    IF to_regclass('node') IS NOT NULL THEN
        UPDATE node SET state = 'dead', ended_at = '/* now */' WHERE state <> 'dead';
    END IF;
    IF to_regclass('parked_call') IS NOT NULL THEN
        UPDATE parked_call SET state = 'calling' WHERE state = 'due';
    END IF;
END $$;
"""

LIST_WAKING = """
SELECT DISTINCT a.id, a.name FROM agent a
JOIN agent_state s ON s.agent_id = a.id AND s.status <> 'archived' AND NOT s.paused
JOIN organization o ON o.id = a.organization_id AND NOT o.paused
LEFT JOIN notification n ON n.agent_id = a.id AND n.activated_at <= $1
    AND (s.stopped_at IS NULL OR n.activated_at > greatest(s.stopped_at, s.seen_until))
WHERE a.deleted_at IS NULL
  AND (s.run_id IS NOT NULL OR s.queued_at IS NOT NULL OR s.next_due_at <= $1 OR n.id IS NOT NULL)
ORDER BY a.name, a.id LIMIT $2
"""

COUNT_DUE = """
SELECT (SELECT count(*) FROM run WHERE outcome IS NULL) AS runs,
       (SELECT count(*) FROM schedule WHERE due_at <= $1) AS schedules,
       (SELECT count(*) FROM webhook_delivery WHERE next_attempt_at <= $1) AS webhooks,
       (SELECT count(*) FROM parked_call WHERE due_at <= $1) AS calls
"""

MAX_AGENTS = 10_000


@dataclass(frozen=True, slots=True)
class Due:
    """What follows when the pause ends: the names of the agents, and how many rows of each kind."""

    agents: tuple[str, ...]
    runs: int
    schedules: int
    webhooks: int
    calls: int


async def read_due(connection: Connection, now: datetime) -> Due:
    """Return what would start or be sent if the instance were not paused."""
    agents = tuple(row["name"] for row in await connection.fetch(LIST_WAKING, now, MAX_AGENTS))
    [counts] = await connection.fetch(COUNT_DUE, now)
    return from_row(Due, counts, agents=agents)


# Of docs/invariants.md, as far as rows at rest can show a breach: each query returns the ids that break one.
BREACHES: Mapping[str, str] = {
    "I1: an active run that is not its agent's only one": """
        SELECT r.id FROM run r LEFT JOIN agent_state s ON s.agent_id = r.agent_id
        WHERE r.outcome IS NULL AND s.run_id IS DISTINCT FROM r.id
        UNION ALL
        SELECT s.agent_id FROM agent_state s LEFT JOIN run r ON r.id = s.run_id AND r.outcome IS NULL
        WHERE s.run_id IS NOT NULL AND r.id IS NULL""",
    "I2: an agent without a state, which nothing could wake": """
        SELECT a.id FROM agent a LEFT JOIN agent_state s ON s.agent_id = a.id
        WHERE a.deleted_at IS NULL AND s.agent_id IS NULL""",
    "I6: a reminder ahead of a sleeping agent that has no due time": """
        SELECT n.id FROM notification n JOIN agent_state s ON s.agent_id = n.agent_id
        JOIN organization o ON o.id = n.organization_id
        WHERE n.scheduled_for = n.activated_at AND n.activated_at > (SELECT paused_at FROM instance)
          AND s.status = 'sleeping' AND NOT s.paused AND NOT o.paused
          AND s.next_due_at IS NULL AND s.queued_at IS NULL""",
    "I7: a row of one organization at an agent of another": """
        SELECT x.id FROM (
            SELECT id, agent_id, organization_id FROM notification
            UNION ALL SELECT id, agent_id, organization_id FROM run
            UNION ALL SELECT id, agent_id, organization_id FROM message
            UNION ALL SELECT id, agent_id, organization_id FROM schedule
            UNION ALL SELECT id, agent_id, organization_id FROM parked_call
            UNION ALL SELECT agent_id, agent_id, organization_id FROM agent_state
        ) x JOIN agent a ON a.id = x.agent_id WHERE x.organization_id <> a.organization_id""",
    "I8: an event beyond the sequence, whose id would be given again": """
        SELECT id FROM event
        WHERE id > (SELECT last_value FROM pg_sequences WHERE sequencename = 'event_id_seq')""",
    "I10: a call to make that nothing looks at": """
        SELECT id FROM parked_call WHERE state IN ('due', 'calling') AND due_at IS NULL""",
    "I10: a grant that let through more than it says": """
        SELECT id FROM approval_grant WHERE used_count > max_uses""",
}


async def find_breaches(connection: Connection) -> dict[str, list[str]]:
    """Return the broken invariants, each with the ids of its rows."""
    found = {name: [str(row[0]) for row in await connection.fetch(sql)] for name, sql in BREACHES.items()}
    return {name: ids for name, ids in found.items() if ids}
