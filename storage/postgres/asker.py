"""Who asks for a change, and from where: given to PostgreSQL within the transaction of an audited write.

Triggers write the entries of the audit log (migration 0044), so they must know the actor. Connections tell it
for statements that write audited tables, and for no others. A group commit works for several askers, so it
has none: it must not write audited tables, and the events that it writes name their actors.
"""

import re
from contextvars import ContextVar
from functools import lru_cache

AUDITED_TABLES = (
    "organization|user_account|membership|invite|api_key|template|adapter|tool|adapter_config|mcp_server|"
    "secret|hook|webhook|webhook_secret|approval_grant"
)
"""The tables whose triggers write entries. A test compares them with the database."""

# The last three are written together with events.
WRITES = re.compile(rf"\b(INSERT INTO|UPDATE|DELETE FROM) ({AUDITED_TABLES}|agent|schedule|parked_call)\b")
TELL = "SELECT set_config('hostsvc.actor', $1, true), set_config('hostsvc.address', $2, true)"


class Asker:
    """Asks for the writes of a block, also for those of tasks that begin there, unless they set ASKER."""

    def __init__(self, actor: str, address: str = "") -> None:
        self.actor = actor
        self.address = address

    def __enter__(self) -> None:
        self._token = ASKER.set(self)

    def __exit__(self, *_: object) -> None:
        ASKER.reset(self._token)


ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)


def act_as(actor: str) -> None:
    """Name the actor of a request that has proved only now who asks."""
    if asker := ASKER.get():
        asker.actor = actor


def asked_from() -> str:
    """Return the address from which somebody asks; "" if nobody does."""
    asker = ASKER.get()
    return asker.address if asker else ""


def asker_of(sql: str) -> Asker | None:
    """Return who asks for a statement; None if nobody does, or if it writes no audited table."""
    asker = ASKER.get()
    return asker if asker is not None and _is_audited(sql) else None


@lru_cache(4096)
def _is_audited(sql: str) -> bool:
    return WRITES.search(sql) is not None
