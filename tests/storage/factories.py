"""Factories for values of the model, complete with defaults that a test may override."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any
from uuid import UUID

from hostsvc_testing.rows import NOW as NOW
from hostsvc_testing.rows import agent as agent
from hostsvc_testing.rows import new_notification as new_notification
from hostsvc_testing.rows import organization as organization
from hostsvc_testing.rows import template as template
from storage.agents.agents import Agents
from storage.approval_grants import ApprovalGrant
from storage.delivery.hooks import Hook, Verification
from storage.delivery.webhooks import Webhook
from storage.history.trace_model import NewSpan, Span, SpanContent
from storage.history.usage import UsageRecord
from storage.identity.accounts import INSERT_MEMBERSHIP, Accounts, TokenHolders
from storage.identity.organizations import Invite
from storage.ids import new_id
from storage.model import (
    Agent,
    ApiKey,
    Notification,
    Organization,
    Priority,
    Receipt,
    ReceiptKey,
    Role,
    Source,
    User,
    Visibility,
)
from storage.notifications.schedules import Schedule
from storage.parked_calls import CallKind, CallState, ParkedCall
from storage.postgres.json_values import to_json
from storage.postgres.pool import Pool
from storage.postgres.statement import fetch_all
from storage.toolbox import Adapter, Tool

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def user(**fields: Any) -> User:
    user_id = new_id()
    defaults = User(
        id=user_id,
        email=f"{user_id}@example.com",
        name="Ada",
        password_hash="$argon2id$",
        token_version=1,
        created_at=NOW,
    )
    return replace(defaults, **fields)


def api_key(organization_id: UUID, **fields: Any) -> ApiKey:
    key_id = new_id()
    defaults = ApiKey(
        id=key_id,
        organization_id=organization_id,
        name="deploy",
        prefix=key_id.hex[-8:],
        is_active=True,
        last_used_at=None,
        created_at=NOW,
    )
    return replace(defaults, **fields)


def webhook(organization_id: UUID, **fields: Any) -> Webhook:
    defaults = Webhook(
        id=new_id(),
        organization_id=organization_id,
        url="https://hooks.example/",
        description="",
        types=("*",),
        agent_id=None,
        template_id=None,
        tag="",
        is_active=True,
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(defaults, **fields)


def hook(organization_id: UUID, **fields: Any) -> Hook:
    defaults = Hook(
        id=new_id(),
        organization_id=organization_id,
        name="Tracker",
        agent_id=new_id(),
        template_id=None,
        verify=Verification.GITHUB,
        header="X-Signature",
        algorithm="sha256",
        encoding="hex",
        prefix="",
        title="{{ title }}",
        body="",
        source=Source.API,
        priority=Priority.HIGH,
        only_if=None,
        created_at=NOW,
        updated_at=NOW,
        secret="secret",
    )
    return replace(defaults, **fields)


def adapter(organization_id: UUID, **fields: Any) -> Adapter:
    defaults = Adapter(
        id=new_id(),
        organization_id=organization_id,
        name="Weather",
        description="",
        visibility=Visibility.PRIVATE,
        detail_url="",
        config_schema={},
        created_at=NOW,
    )
    return replace(defaults, **fields)


def tool(adapter_id: UUID, **fields: Any) -> Tool:
    defaults = Tool(
        id=new_id(),
        adapter_id=adapter_id,
        name="look_up",
        description="",
        parameters=None,
        is_enforced=False,
        url="",
        handler="",
        detail_url="",
        created_at=NOW,
    )
    return replace(defaults, **fields)


def schedule(of: Agent, **fields: Any) -> Schedule:
    """Make a schedule that comes at 9:00 in the zone of its agent, next a day after NOW."""
    defaults = Schedule(
        id=new_id(),
        organization_id=of.organization_id,
        agent_id=of.id,
        name="Morning figures",
        title="Morning figures",
        body="Look at the figures.",
        cron="0 9 * * *",
        created_at=NOW,
        created_by="",
        agent_timezone=of.timezone,
        next_at=NOW + 24 * HOUR,
        due_at=NOW + 24 * HOUR,
    )
    return replace(defaults, **fields)


def parked_call(of: Agent, **fields: Any) -> ParkedCall:
    """Make a call for which a person is asked, until a week after NOW."""
    arguments = fields.get("arguments", '{"amount":80}')
    tool_id = fields.get("tool_id")
    defaults = ParkedCall(
        id=new_id(),
        organization_id=of.organization_id,
        agent_id=of.id,
        run_id=None,
        kind=CallKind.APPROVAL if tool_id else CallKind.QUESTION,
        state=CallState.PENDING,
        tool_id=None,
        tool="refund" if tool_id else "ask_person",
        arguments=arguments,
        digest=sha256(f"{tool_id} {arguments}".encode()).digest(),
        created_at=NOW,
        expires_at=NOW + 168 * HOUR,
        due_at=NOW + 3 * HOUR,
        question="" if tool_id else "May I?",
        agent_name=of.name,
    )
    return replace(defaults, **fields)


def approval_grant(call: ParkedCall, **fields: Any) -> ApprovalGrant:
    """Make a grant for calls of the same tool with any arguments."""
    defaults = ApprovalGrant(
        id=new_id(),
        organization_id=call.organization_id,
        agent_id=call.agent_id,
        tool_id=call.tool_id or new_id(),
        tool_digest=call.tool_digest,
        call_id=call.id,
        digest=None,
        arguments_schema=None,
        until=None,
        max_uses=None,
        created_at=NOW,
        created_by="",
    )
    return replace(defaults, **fields)


def notice(parent: Agent) -> Notification:
    """Make the system notification that a parent gets about a new child."""
    return Notification(
        id=new_id(),
        organization_id=parent.organization_id,
        agent_id=parent.id,
        source=Source.SYSTEM,
        source_id="",
        title="Agent created",
        body="",
        priority=Priority.LOW,
        created_at=NOW,
        scheduled_for=None,
        cleared=False,
        cleared_at=None,
        activated_at=None,
    )


def new_span(
    trace_id: UUID,
    metadata: dict[str, Any] | None = None,
    content: SpanContent | None = None,
    **fields: Any,
) -> NewSpan:
    defaults = Span(
        id=new_id(),
        trace_id=trace_id,
        parent_id=None,
        name="chat builtin/inbox",
        span_type="llm",
        started_at=NOW,
        ended_at=NOW + SECOND,
        error="",
    )
    return NewSpan(replace(defaults, **fields), to_json(metadata or {}).decode(), content)


def usage_record(of: Agent, **fields: Any) -> UsageRecord:
    """Make the record of a model call that cost a cent."""
    defaults = UsageRecord(
        id=new_id(),
        organization_id=of.organization_id,
        agent_id=of.id,
        trace_id=None,
        model="openai/gpt-4o",
        input_tokens=100,
        output_tokens=10,
        cached_tokens=40,
        cost_usd=Decimal("0.01"),
        priced=True,
        occurred_at=NOW,
    )
    return replace(defaults, **fields)


def receipt(**fields: Any) -> Receipt:
    """Make a receipt with an idempotency key of its own."""
    key = ReceiptKey(new_id(), "POST", "/api/templates/", "first try")
    defaults = Receipt(key, body_hash=b"asked", status=201, answer=b"{}", created_at=NOW)
    return replace(defaults, **fields)


async def stored_spans(pool: Pool, trace_id: UUID) -> list[Span]:
    """Return the spans of a trace with their errors, oldest first."""
    return await fetch_all(
        pool, Span, "SELECT * FROM span WHERE trace_id = $1 ORDER BY started_at, id", trace_id
    )


async def pairs(pool: Pool, sql: str) -> dict[Any, Any]:
    """Return the rows of a query with two columns as a dict from the first to the second."""
    return {row[0]: row[1] for row in await pool.fetch(sql)}


def open_invite(organization_id: UUID, **fields: Any) -> Invite:
    """Make an invite that can be accepted."""
    defaults = Invite(
        id=new_id(),
        organization_id=organization_id,
        email="bob@example.com",
        role=Role.ADMIN,
        code_hash=b"hash",
        expires_at=NOW + HOUR,
        accepted_at=None,
        created_at=NOW,
    )
    return replace(defaults, **fields)


async def stored_organization(pool: Pool, **fields: Any) -> Organization:
    """Insert an organization with its owner."""
    stored = organization(**fields)
    await Accounts(pool, TokenHolders(pool)).insert_account(user(), stored)
    return stored


async def stored_member(
    pool: Pool, organization_id: UUID, role: Role, *, joined_at: datetime = NOW, **fields: Any
) -> UUID:
    """Insert a new user as a member; return the membership's id. The user owns another organization, too."""
    member, membership_id = user(**fields), new_id()
    await Accounts(pool, TokenHolders(pool)).insert_account(member, organization())
    await pool.execute(INSERT_MEMBERSHIP, membership_id, organization_id, member.id, role, joined_at)
    return membership_id


async def stored_agent(pool: Pool, organization_id: UUID | None = None, **fields: Any) -> Agent:
    """Insert a sleeping agent, in an organization of its own unless one is given."""
    owner = organization_id or (await stored_organization(pool)).id
    stored = agent(owner, **fields)
    await Agents(pool).insert(stored, None)
    return stored
