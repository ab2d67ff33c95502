"""Another program that writes notifications by plain SQL over its own connection."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg2
from psycopg2.extensions import ISOLATION_LEVEL_AUTOCOMMIT

INSERT = """
    INSERT INTO notification (agent_id, title, source, priority) VALUES (%s, 'From psql', %s, %s) RETURNING id
"""
COPY = "COPY notification (agent_id, title, priority) FROM STDIN"
SLEEPERS = """
    WITH sleeper AS (
        INSERT INTO agent (id, organization_id, name, model, created_at)
        SELECT gen_random_uuid(), organization.id, 'Sleeper', 'builtin/inbox', now()
        FROM organization, generate_series(1, %s) RETURNING id
    )
    INSERT INTO agent_state (agent_id) SELECT id FROM sleeper RETURNING agent_id
"""
STARTS = "SELECT agent_id, started_at FROM run WHERE wake_reason = 'notification:api'"
END_DOORBELL = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'hostsvc doorbell'
"""
NEXT_DUE = "SELECT next_due_at FROM agent_state WHERE agent_id = %s"


class ForeignProgram:
    """The program. Each call is one transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, args)
            return list(cursor.fetchall()) if cursor.description else []

    def insert(self, agent: str, source: str = "api", priority: str = "high") -> str:
        """Insert a notification and return its id."""
        [(notification,)] = self.run(INSERT, agent, source, priority)
        return str(notification)

    def copy(self, agents: Sequence[str]) -> None:
        """Load a notification for each agent."""
        rows = "".join(f"{agent}\tFrom a file\thigh\n" for agent in agents)
        with self._connection.cursor() as cursor:
            cursor.copy_expert(COPY, io.StringIO(rows))

    def sleepers(self, number: int) -> list[str]:
        """Create this many agents of the only organization, and return their ids."""
        return [str(agent) for (agent,) in self.run(SLEEPERS, number)]

    def starts(self) -> dict[str, datetime]:
        """Return the start of each agent's run that such a notification started."""
        return {str(agent): started_at.astimezone(UTC) for agent, started_at in self.run(STARTS)}

    def end_doorbell(self) -> int:
        """End the service's listening connections as an administrator can; return their number."""
        return len(self.run(END_DOORBELL))


@contextmanager
def foreign_program(database_url: str) -> Iterator[ForeignProgram]:
    connection = psycopg2.connect(database_url)
    try:
        connection.set_isolation_level(ISOLATION_LEVEL_AUTOCOMMIT)
        yield ForeignProgram(connection)
    finally:
        connection.close()
