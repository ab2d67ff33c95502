"""Who asks for a change, and from where: given to PostgreSQL within the transaction of an audited write.

Triggers write the entries of the audit log (migration 0044), so they must know the actor. The pool tells it
at the beginning of a transaction; a single statement has one if it writes an audited table. A group commit
works for several askers, so it has none: it must not write audited tables, and the events that it writes name
their actors.
"""

import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

AUDITED_TABLES = (
    "organization|user_account|membership|invite|api_key|template|adapter|tool|adapter_config|mcp_server|"
    "secret|hook|webhook|webhook_secret|approval_grant"
)
"""The tables whose triggers write entries. A test compares them with the database."""

# The last three are written together with events.
WRITES = re.compile(rf"\b(INSERT INTO|UPDATE|DELETE FROM) ({AUDITED_TABLES}|agent|schedule|parked_call)\b")


@dataclass(slots=True)
class Asker:
    """Who asks for what is written while ASKER is set, also by tasks that begin then, unless they set it."""

    actor: str
    get_address: Callable[[], str] = str  # it is asked for only if something is written that is audited


ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)


def act_as(actor: str) -> None:
    """Name the actor of a request that has proved only now who asks."""
    if asker := ASKER.get():
        asker.actor = actor


@lru_cache(4096)
def is_audited(sql: str) -> bool:
    """Return whether a statement writes an audited table."""
    return WRITES.search(sql) is not None
