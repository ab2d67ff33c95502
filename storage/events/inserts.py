"""Events on their way into the log, for changes that are transactions of several statements."""

from collections.abc import Sequence
from datetime import UTC, datetime

from storage.events.model import NewEvent
from storage.postgres.pool import Connection

# The organization of the event is that of its agent, which may have been deleted in this transaction.
INSERT = """
INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
SELECT e.at, e.type, a.organization_id, a.id, event_run_id(e.actor), e.resource_id, e.actor,
       e.data::json
FROM unnest($1::timestamptz[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[])
    WITH ORDINALITY AS e (at, type, agent_id, resource_id, actor, data, ordinal)
JOIN agent a ON a.id = e.agent_id
ORDER BY e.ordinal
"""

MAX_TEXT = 200  # characters of a user's text, or of an error, that an event keeps


async def insert_events(connection: Connection, events: Sequence[NewEvent]) -> None:
    """Store events of agents within the transaction that makes the changes."""
    if not events:
        return
    rows = ((one.at, one.type, one.agent_id, one.resource_id, one.actor, one.data) for one in events)
    await connection.execute(INSERT, *zip(*rows, strict=True))


def format_moment(moment: datetime) -> str:
    """Format an aware datetime for the data of an event, such as 2026-11-21T09:00:00.000000Z."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
