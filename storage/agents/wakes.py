"""Wakes: everything that an agent is told when it wakes, read by one statement."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from asyncpg import Record

from storage.agents.templates import template_of
from storage.channels.memories import CORE
from storage.channels.messages import Channel, Direction, MessageStatus
from storage.encryption import NO_ENCRYPTION, SecretCipher
from storage.history.runs import PastRun
from storage.model import Agent, Outcome, Priority, Source, Template
from storage.postgres.pool import Pool
from storage.postgres.statement import Statement, from_row

BYTES_PER_TOKEN = 3  # an estimate: English has about four, other languages and numbers have fewer
MIN_TOKENS = 500  # whatever a template says: below this, hardly anything could be told
MAX_PART_BYTES = 131_072  # of each part of the texts, whatever a template allows
MAX_NOTIFICATIONS = 50
MAX_CONTACTS = 8
MAX_MESSAGES = 500  # with one contact
BYTES_PER_MESSAGE = 200  # on average: this decides how many messages are read, of all contacts together
MAX_RUNS = 5
MAX_LATEST_MESSAGES = 20  # those among which contacts are looked for
MAX_SHARED = 64  # agents in one statement: their texts are in memory together
MAX_SHARED_PART_BYTES = 24_576  # of each of them; an agent that is told more gets a statement of its own

BOUNDS = {
    "bytes_per_token": BYTES_PER_TOKEN,
    "min_tokens": MIN_TOKENS,
    "core": CORE,
    "max_runs": MAX_RUNS,
    "max_notifications": MAX_NOTIFICATIONS,
    "max_contacts": MAX_CONTACTS,
    "max_messages": MAX_MESSAGES,
    "max_latest_messages": MAX_LATEST_MESSAGES,
    "bytes_per_message": BYTES_PER_MESSAGE,
}

# The arrays are the results of subqueries, which hides their lengths from the planner: with a visible length
# PostgreSQL would plan the statement again at each execution.
# Notifications: high ones first, the longest active first; then low ones, the oldest first.
# Contacts: those of waiting notifications, then those of messages since the last run; if there are none of
# either, that of the last message. One of another agent is told of only if the agent has messages with it.
# A text is left out if those before it use up the budget.
GET = Statement(
    r"""
SELECT item.ordinal, a.*,
       s.status, s.paused, s.sleep_until, s.run_started_at, s.last_wake_reason,
       s.last_wake_interrupted_sleep_until,
       s.last_ended_at, o.name AS organization_name, t AS template, t.name AS template_name,
       coalesce(p.name, '') AS parent_name,
       ARRAY(SELECT adapter_id FROM agent_adapter WHERE agent_id = a.id ORDER BY position) AS adapters,
       r.id AS run_id, r.wake_reason, r.started_at, r.interrupted_sleep_until, r.max_sleep_until,
       waiting.notifications, concerned.conversations, budget.is_limited,
       left(d.content, budget.bytes) AS core_memory, octet_length(d.content) AS core_memory_bytes,
       ARRAY(
           SELECT ROW (
               e.wake_reason, e.started_at, e.ended_at, e.turns, e.outcome,
               left(coalesce(nullif(e.stop_reason, ''), e.error), 1000),
               left(e.output, 1000), e.journal::text
           )
           FROM run e WHERE e.agent_id = a.id AND e.outcome IS NOT NULL
           ORDER BY e.started_at DESC, e.id DESC
           LIMIT CASE coalesce(t.carry_over, 'journal')
                     WHEN 'journal' THEN (SELECT :max_runs::integer) WHEN 'transcript' THEN 1 ELSE 0 END
       ) AS runs
FROM unnest((SELECT :agent_id::uuid[]), (SELECT :now::timestamptz[]), (SELECT :tokens::integer[]))
     WITH ORDINALITY AS item (agent_id, now, tokens, ordinal)
CROSS JOIN LATERAL (SELECT * FROM agent WHERE id = item.agent_id AND deleted_at IS NULL OFFSET 0) a
JOIN agent_state s ON s.agent_id = a.id
JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN agent p ON p.id = a.parent_id
LEFT JOIN run r ON r.id = s.run_id
CROSS JOIN LATERAL (
    SELECT least(w.bytes, (SELECT :max_part_bytes::integer)) AS bytes,
           w.bytes > (SELECT :max_part_bytes::integer) AS is_limited
    FROM (
        SELECT (SELECT :bytes_per_token::integer)
            * greatest((SELECT :min_tokens::integer), coalesce(nullif(t.context_tokens, 0), item.tokens))
            AS bytes
    ) w
) budget
LEFT JOIN LATERAL (
    SELECT d.content FROM document d
    WHERE d.agent_id = a.id AND d.path = (SELECT :core::text) AND d.deleted_at IS NULL LIMIT 1
) d ON true
CROSS JOIN LATERAL (
    SELECT array_agg(ROW (
               n.id, n.source, left(n.source_id, 255), n.priority, left(n.title, 1000),
               CASE WHEN n.bytes_before < budget.bytes THEN left(n.body, budget.bytes) ELSE '' END,
               octet_length(n.body), n.created_at, n.scheduled_for
           ) ORDER BY n.place) AS notifications,
           array_agg(n.source_id::uuid) FILTER (
               WHERE n.source_id ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$') AS source_ids
    FROM (
        SELECT n.*, sum(octet_length(n.body)) OVER (ORDER BY n.place) - octet_length(n.body) AS bytes_before
        FROM (
            SELECT n.*, row_number() OVER w AS place
            FROM (
                (SELECT n.* FROM notification n
                 WHERE n.agent_id = a.id AND n.activated_at IS NOT NULL
                   AND (n.scheduled_for IS NULL OR n.scheduled_for <= item.now)
                 ORDER BY n.activated_at LIMIT (SELECT :max_notifications::integer) + 1)
                UNION ALL
                (SELECT n.* FROM notification n
                 WHERE n.agent_id = a.id AND NOT n.cleared AND n.priority = 'low'
                   AND (n.scheduled_for IS NULL OR n.scheduled_for <= item.now)
                 ORDER BY n.created_at, n.id LIMIT (SELECT :max_notifications::integer) + 1)
            ) n
            WINDOW w AS (ORDER BY n.priority = 'high' DESC, n.activated_at, n.created_at, n.id)
        ) n
        WHERE n.place <= (SELECT :max_notifications::integer) + 1
    ) n
) waiting
CROSS JOIN LATERAL (
    SELECT array_agg(ROW (c.id, c.name, c.phone, c.email, talk.messages, talk.has_earlier)
                     ORDER BY k.rank, k.latest_at DESC NULLS LAST, c.id) AS conversations
    FROM (
        SELECT k.contact_id, min(k.rank) AS rank, max(k.created_at) AS latest_at,
               least(count(*) OVER (), (SELECT :max_contacts::integer)) AS contacts
        FROM (
            SELECT k.*, min(k.rank) OVER () AS best, max(k.created_at) OVER () AS latest_at
            FROM (
                SELECT u.contact_id, 0 AS rank, NULL::timestamptz AS created_at
                FROM unnest(waiting.source_ids) AS u (contact_id)
                UNION ALL
                SELECT m.contact_id, CASE WHEN m.created_at <= s.last_ended_at THEN 2 ELSE 1 END, m.created_at
                FROM (
                    SELECT m.contact_id, m.created_at FROM message m WHERE m.agent_id = a.id
                    ORDER BY m.created_at DESC, m.id DESC LIMIT (SELECT :max_latest_messages::integer)
                ) m
                WHERE m.contact_id IS NOT NULL
            ) k
        ) k
        WHERE k.rank < 2 OR k.best = 2 AND k.created_at = k.latest_at
        GROUP BY k.contact_id
        ORDER BY min(k.rank), max(k.created_at) DESC NULLS LAST, k.contact_id
        LIMIT (SELECT :max_contacts::integer)
    ) k
    JOIN contact c ON c.id = k.contact_id AND c.organization_id = a.organization_id
    CROSS JOIN LATERAL (
        SELECT least((SELECT :max_messages::integer),
                     budget.bytes / (SELECT :bytes_per_message::integer) / k.contacts)::integer
            AS messages
    ) most
    CROSS JOIN LATERAL (
        SELECT array_agg(ROW (
                   m.id, m.channel, m.direction, left(m.subject, 1000), left(m.body, budget.bytes),
                   octet_length(m.body), json_array_length(m.attachments), m.status, m.created_at
               ) ORDER BY m.place) AS messages,
               coalesce(max(m.found) > count(*), false) AS has_earlier
        FROM (
            SELECT m.*, count(*) OVER () AS found,
                   sum(octet_length(m.body)) OVER (ORDER BY m.place) - octet_length(m.body) AS bytes_before
            FROM (
                SELECT m.*, row_number() OVER (ORDER BY m.created_at DESC, m.id DESC) AS place
                FROM message m
                WHERE m.contact_id = c.id AND m.agent_id = a.id
                ORDER BY m.created_at DESC, m.id DESC
                LIMIT most.messages + 1
            ) m
        ) m
        WHERE m.bytes_before < budget.bytes AND m.place <= greatest(most.messages, 1)
    ) talk
    WHERE coalesce(c.agent_id = a.id, true) OR talk.messages IS NOT NULL
) concerned
    """,
    ["agent_id", "now", "tokens", "max_part_bytes", *BOUNDS],
)


@dataclass(frozen=True, slots=True)
class WaitingNotification:
    """A notification that is uncleared and due. `body` may be cut; the whole one has `body_bytes` bytes."""

    id: UUID
    source: Source
    source_id: str
    priority: Priority
    title: str
    body: str
    body_bytes: int
    created_at: datetime
    scheduled_for: datetime | None


@dataclass(frozen=True, slots=True)
class PastMessage:
    """A message to or from a contact. `body` may be cut; the whole one has `body_bytes` bytes."""

    id: UUID
    channel: Channel
    direction: Direction
    subject: str
    body: str
    body_bytes: int
    attachment_count: int
    status: MessageStatus
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ContactMessages:
    """The last messages between the agent and a contact, the newest first. `has_earlier`: others exist."""

    contact_id: UUID
    name: str
    phone: str
    email: str
    messages: tuple[PastMessage, ...]
    has_earlier: bool = False


@dataclass(frozen=True, slots=True)
class RunUnderWay:
    """The run that is under way."""

    id: UUID
    wake_reason: str
    started_at: datetime
    interrupted_sleep_until: datetime | None
    max_sleep_until: datetime | None


@dataclass(frozen=True, slots=True)
class CoreMemory:
    """The document that each run starts with. `content` may be cut; the whole one has `bytes` bytes."""

    content: str
    bytes: int


@dataclass(frozen=True, slots=True)
class WakeFacts:
    """Everything that a wake is told from. `run` is None if none is under way.

    The notifications are in the order of the queue, one more than `MAX_NOTIFICATIONS` if there are more. The
    conversations come with the contacts that are most concerned first; `runs` are the last ones, the latest
    first, and empty if the template carries nothing over.
    """

    agent: Agent
    template: Template | None
    organization_name: str
    run: RunUnderWay | None
    last_ended_at: datetime | None
    notifications: tuple[WaitingNotification, ...]
    conversations: tuple[ContactMessages, ...]
    core_memory: CoreMemory | None
    runs: tuple[PastRun, ...]


_Item = tuple[UUID, datetime, int]  # an agent, the time, and the tokens for templates that do not say
_Found = tuple[WakeFacts | None, bool]  # and whether the agent may be told more than was read


class Wakes:
    """Reads what agents are told when they wake. Concurrent reads share a statement."""

    def __init__(self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION) -> None:
        self._pool = pool
        self._cipher = cipher
        self._reads = pool.group_commit("wakes", self._read, max_items=MAX_SHARED)

    async def get(self, agent_id: UUID, now: datetime, context_tokens: int) -> WakeFacts | None:
        """Return the facts; None if there is no such agent. They suffice for this number of tokens.

        A template may have another number. The tokens are estimated by `BYTES_PER_TOKEN`.
        """
        item = (agent_id, now, context_tokens)
        facts, is_limited = await self._reads.add(item)
        if is_limited:
            [(facts, _)] = await self._read([item], MAX_PART_BYTES)
        return facts

    async def _read(self, items: list[_Item], max_part_bytes: int = MAX_SHARED_PART_BYTES) -> list[_Found]:
        found: list[_Found] = [(None, False)] * len(items)
        agent_ids, moments, tokens = zip(*items, strict=True)
        rows = await self._pool.fetch(
            *GET.given(BOUNDS, agent_id=agent_ids, now=moments, tokens=tokens, max_part_bytes=max_part_bytes)
        )
        for row in rows:
            found[row["ordinal"] - 1] = (self._facts(row), row["is_limited"])
        return found

    def _facts(self, row: Record) -> WakeFacts:
        template, content = row["template"], row["core_memory"]
        # The parts of a row have no names for their columns: they are in the order of the fields.
        notifications = (
            WaitingNotification(id_, Source(source), source_id, Priority(priority), *rest)
            for id_, source, source_id, priority, *rest in row["notifications"] or ()
        )
        runs = (
            PastRun(reason, started_at, ended_at, turns, Outcome(outcome), *rest)
            for reason, started_at, ended_at, turns, outcome, *rest in row["runs"]
        )
        return WakeFacts(
            agent=from_row(Agent, row),
            template=None if template is None else template_of(template, self._cipher),
            organization_name=row["organization_name"],
            run=None if row["run_id"] is None else from_row(RunUnderWay, row, id=row["run_id"]),
            last_ended_at=row["last_ended_at"],
            notifications=tuple(notifications),
            conversations=tuple(_conversations(row["conversations"])) if row["conversations"] else (),
            core_memory=None if content is None else CoreMemory(content, row["core_memory_bytes"]),
            runs=tuple(runs),
        )


def _conversations(rows: Sequence[Record]) -> Iterator[ContactMessages]:
    for contact_id, name, phone, email, messages, has_earlier in rows:
        yield ContactMessages(contact_id, name, phone, email, tuple(_messages(messages or ())), has_earlier)


def _messages(rows: Sequence[Record]) -> Iterator[PastMessage]:
    for id_, channel, direction, *content, status, created_at in rows:
        rest = (*content, MessageStatus(status), created_at)
        yield PastMessage(id_, Channel(channel), Direction(direction), *rest)
