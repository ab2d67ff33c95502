"""What needs a person: its kinds, and those that last until they are solved or dismissed.

Each kind is read along an index of what is open, so it costs what needs a person, not what exists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar
from uuid import UUID

from storage.agents.overviews import TroubledAgent
from storage.postgres.paging import OfAgents
from storage.postgres.pool import Pool
from storage.postgres.statement import fetch_all


class AttentionKind(StrEnum):
    """A kind of thing that needs a person."""

    PAUSED = "paused"
    """The organization is paused."""
    INSTANCE_PAUSED = "instance_paused"
    """The whole instance is paused; only its operator can end that. There is one for all organizations."""
    FORGOTTEN = "forgotten"
    """The agent was due a minute ago or earlier, and nothing has started it."""
    QUARANTINED = "quarantined"
    """The agent rests after too many failures in a row."""
    OVER_BUDGET = "over_budget"
    """The budget of the day is spent."""
    FAILING = "failing"
    """The last runs of the agent failed, or cleared nothing; it tries again, and rests after the fifth."""
    UNCLEARED_HIGH = "uncleared_high"
    """A high-priority notification has been active for ten minutes or longer."""
    APPROVAL = "approval"
    """A call of a tool waits until a person allows it, or a question until a person answers."""
    STOPPED_SCHEDULE = "stopped_schedule"
    """The time zone of a schedule is not known any more, so it comes no more."""
    FAILING_WEBHOOK = "failing_webhook"
    """Deliveries to the webhook fail, or the service has switched it off."""
    FAILED_MESSAGE = "failed_message"
    """An outbound message was not sent."""
    FAILED_RUN = "failed_run"
    """A tool failed in the run and nothing was changed afterwards; or it cleared messages of contacts
    that got no answer."""
    FAILING_HOOK = "failing_hook"
    """The `agent_created_webhook_url` of a template does not take a delivery."""


@dataclass(frozen=True, slots=True)
class FailedMessage(TroubledAgent):
    """A message that was not sent, with the agent that wrote it."""

    id: UUID
    run_id: UUID | None
    channel: str
    recipient: str
    error: str


@dataclass(frozen=True, slots=True)
class FailedRun(TroubledAgent):
    """A run in which something failed that nothing solved, with its agent."""

    id: UUID
    run_id: UUID
    is_unanswered: bool
    tools: tuple[str, ...]
    error: str


@dataclass(frozen=True, slots=True)
class FailedDelivery:
    """A delivery that the webhook of a template did not take."""

    id: UUID
    organization_id: UUID
    since: datetime
    is_given_up: bool
    error: str
    url: str = field(repr=False)  # it may contain a secret


LIST = """
SELECT t.id, t.organization_id, t.{at} AS since, t.agent_id, a.name, a.timezone, {columns}
FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT * FROM {table} t
    WHERE organization_id = o.id AND {is_open}
      AND ($2::uuid IS NULL OR ({at}, id) > (SELECT {at}, id FROM {table} WHERE id = $2))
    ORDER BY {at}, id LIMIT $3
) t
LEFT JOIN agent a ON a.id = t.agent_id
ORDER BY t.{at}, t.id LIMIT $3
"""
LIST_OWNERS = "SELECT id, organization_id FROM {table} WHERE id = ANY($1::uuid[])"
DISMISS = "UPDATE {table} SET {dismissal} WHERE id = ANY($1::uuid[])"

Item = TypeVar("Item", bound=FailedMessage | FailedRun | FailedDelivery)


class Failures(Generic[Item]):
    """The statements about one kind of failure: the rows of a table that are open, the oldest first."""

    def __init__(self, item: type[Item], **names: str) -> None:
        self.item = item
        self.list = LIST.format(**names)
        self.list_owners = LIST_OWNERS.format(**names)
        self.dismiss = DISMISS.format(**names)


IN_NEED = f"needs_person {OfAgents.ALL.format(t='t')}"

MESSAGES = Failures(
    FailedMessage,
    table="message",
    at="created_at",
    is_open=IN_NEED,
    dismissal="needs_person = false",
    columns="""
       t.run_id, t.channel, t.error, coalesce(
           nullif((SELECT c.name FROM contact c WHERE c.id = t.contact_id), ''), t.address) AS recipient""",
)
RUNS = Failures(
    FailedRun,
    table="run",
    at="started_at",
    is_open=IN_NEED,
    dismissal="needs_person = false",
    columns="""
       t.id AS run_id, t.journal -> 'unanswered' ->> 0 IS NOT NULL AS is_unanswered,
       ARRAY(SELECT left(u ->> 'name', 100) FROM json_array_elements(t.journal -> 'tools') u
             WHERE (u ->> 'unsolved')::boolean) AS tools,
       coalesce((SELECT u ->> 'last_error' FROM json_array_elements(t.journal -> 'tools') u
                 WHERE (u ->> 'unsolved')::boolean LIMIT 1), '') AS error""",
)
DELIVERIES = Failures(
    FailedDelivery,
    table="webhook_delivery",
    at="created_at",
    is_open="webhook_id IS NULL AND delivered_at IS NULL AND attempts > 0 AND NOT dismissed",
    dismissal="dismissed = true",
    columns="t.url, t.failed_at IS NOT NULL AS is_given_up, left(t.last_error, 200) AS error",
)
FAILURES: Mapping[AttentionKind, Failures[Any]] = {
    AttentionKind.FAILED_MESSAGE: MESSAGES,
    AttentionKind.FAILED_RUN: RUNS,
    AttentionKind.FAILING_HOOK: DELIVERIES,
}


class AttentionItems:
    """Reads and dismisses what failed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list(
        self, of: Failures[Item], organization_ids: Sequence[UUID], limit: int, after: UUID | None = None
    ) -> list[Item]:
        """List what is open of a kind, from the oldest on, or from the one after the item `after`."""
        return await fetch_all(self._pool, of.item, of.list, organization_ids, after, limit)

    async def list_owners(self, of: Failures[Any], ids: Sequence[UUID]) -> dict[UUID, UUID]:
        """Return the organizations of the messages, runs or deliveries that exist, by id."""
        rows = await self._pool.fetch(of.list_owners, ids)
        return {row["id"]: row["organization_id"] for row in rows}

    async def dismiss(self, of: Failures[Any], ids: Sequence[UUID]) -> None:
        """Record that these need no person any more."""
        await self._pool.execute(of.dismiss, ids)
