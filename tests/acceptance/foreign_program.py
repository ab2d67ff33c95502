"""Another program that writes notifications: plain SQL over a connection of its own."""

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
INSERT_AGENTS = """
    WITH sleeper AS (
        INSERT INTO agent (id, organization_id, name, model, created_at)
        SELECT gen_random_uuid(), organization.id, 'Sleeper', 'builtin/inbox', now()
        FROM organization, generate_series(1, %s) RETURNING id
    )
    INSERT INTO agent_state (agent_id) SELECT id FROM sleeper RETURNING agent_id
"""
STARTS = "SELECT agent_id, started_at FROM run WHERE wake_reason = 'notification:api'"
NEXT_DUE = "SELECT next_due_at FROM agent_state WHERE agent_id = %s"


class ForeignProgram:
    """A foreign writer, each of whose calls is a transaction."""

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
        """Load one notification for each agent with COPY."""
        rows = "".join(f"{agent}\tFrom a file\thigh\n" for agent in agents)
        with self._connection.cursor() as cursor:
            cursor.copy_expert(COPY, io.StringIO(rows))

    def insert_agents(self, count: int) -> list[str]:
        """Insert agents of the only organization, and return their ids."""
        return [str(agent) for (agent,) in self.run(INSERT_AGENTS, count)]

    def starts(self) -> dict[str, datetime]:
        """Return when the run that such a notification started began, by agent."""
        return {str(agent): started_at.astimezone(UTC) for agent, started_at in self.run(STARTS)}


@contextmanager
def foreign_program(database_url: str) -> Iterator[ForeignProgram]:
    connection = psycopg2.connect(database_url)
    try:
        connection.set_isolation_level(ISOLATION_LEVEL_AUTOCOMMIT)
        yield ForeignProgram(connection)
    finally:
        connection.close()
