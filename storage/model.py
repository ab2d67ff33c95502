"""The model: what storage keeps, as plain values. Every instant is an aware UTC datetime."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID


class Role(StrEnum):
    """A user's rights in an organization, highest first."""

    OWNER = "owner"
    """May do everything. Every organization keeps at least one owner."""
    ADMIN = "admin"
    """May do everything but make, change or remove owners; API keys have this role."""
    MEMBER = "member"
    """May do everything but manage API keys, invites, memberships and the organization's settings."""

    def is_above(self, other: "Role") -> bool:
        """Return whether this role may do more than the other."""
        return list(Role).index(self) < list(Role).index(other)


class AgentStatus(StrEnum):
    """The activity of an agent as clients see it; the supervisor's `Phase` is finer."""

    RUNNING = "running"
    """A run is active, or is being stopped."""
    SLEEPING = "sleeping"
    """No run is active: the agent sleeps, or waits for its start or for a retry."""
    ARCHIVED = "archived"
    """Nothing wakes the agent until it is restored."""


class Purpose(StrEnum):
    """What an agent is for. It is a label to filter by and has no other effect."""

    PRODUCTION = "production"
    """It does real work; the default."""
    EVAL = "eval"
    """It is being evaluated."""
    DEV = "dev"
    """It is being developed."""


class ReasoningEffort(StrEnum):
    """How much a model should think before it answers. `none` sends no effort to the model."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


class Language(StrEnum):
    """A language whose words full-text search reduces to stems, by PostgreSQL's configuration for it."""

    ARABIC = "arabic"
    ARMENIAN = "armenian"
    BASQUE = "basque"
    CATALAN = "catalan"
    DANISH = "danish"
    DUTCH = "dutch"
    ENGLISH = "english"
    FINNISH = "finnish"
    FRENCH = "french"
    GERMAN = "german"
    GREEK = "greek"
    HINDI = "hindi"
    HUNGARIAN = "hungarian"
    INDONESIAN = "indonesian"
    IRISH = "irish"
    ITALIAN = "italian"
    LITHUANIAN = "lithuanian"
    NEPALI = "nepali"
    NORWEGIAN = "norwegian"
    PORTUGUESE = "portuguese"
    ROMANIAN = "romanian"
    RUSSIAN = "russian"
    SERBIAN = "serbian"
    SPANISH = "spanish"
    SWEDISH = "swedish"
    TAMIL = "tamil"
    TURKISH = "turkish"
    YIDDISH = "yiddish"


class CarryOver(StrEnum):
    """How much of its earlier runs an agent is told when it wakes."""

    NONE = "none"
    """Nothing but its core memory and the messages of the contacts concerned."""
    JOURNAL = "journal"
    """The last entries of its journal, which the service writes at the end of each run; the default."""
    TRANSCRIPT = "transcript"
    """The conversation of its earlier runs with the model, which is compacted when it grows too long, and the
    journal of the last run."""


class Reply(StrEnum):
    """How an agent answers the contact that woke it."""

    TOOL = "tool"
    """By a tool such as `send_message`; the text of a final answer goes to nobody. The default."""
    TEXT = "text"
    """By the text of its final answer, which the service sends to the contact that woke the agent."""


class ToolChoice(StrEnum):
    """Whether a model may or must call tools."""

    AUTO = "auto"
    """As the model decides. The default."""
    REQUIRED = "required"
    """The model must call a tool in each turn, so its runs end with `sleep`."""
    NONE = "none"
    """The model may call no tool. For templates whose `reply` is `text`."""


class Content(StrEnum):
    """Whether traces keep the texts that a model was told and answered."""

    FULL = "full"
    """All of them, without the secrets of providers and tools."""
    NONE = "none"
    """None of them: a trace keeps times, token counts and errors."""


class Unpriced(StrEnum):
    """Whether a spending cap allows calls of a model whose price is not known."""

    REFUSE = "refuse"
    """No: such a call could cost any amount. The default."""
    ALLOW = "allow"
    """Yes: such a call counts as free."""


class Priority(StrEnum):
    """Whether a notification wakes its agent."""

    HIGH = "high"
    """Wakes the agent, which can sleep again only when the notification is cleared."""
    LOW = "low"
    """Waits until the agent is awake for another reason, and does not keep it awake."""


class Source(StrEnum):
    """Where a notification comes from.

    Conversational sources (`email`, `sms`, `mms`, `sms_provider_a`, `sms_provider_b`, unless the operator
    chose others) wake the agent when no further message has come for the debounce window; all others wake it
    at once.
    """

    EMAIL = "email"
    """An inbound e-mail."""
    SMS = "sms"
    """An inbound SMS."""
    MMS = "mms"
    """An inbound iMessage or RCS message."""
    SMS_PROVIDER_A = "sms_provider_a"
    """An inbound SMS through a further provider."""
    SMS_PROVIDER_B = "sms_provider_b"
    """An inbound SMS through another further provider."""
    SYSTEM = "system"
    """An event of the service, such as the creation of a child agent or a reached spending cap."""
    AGENT = "agent"
    """Created by the agent itself, such as a reminder."""
    SUBAGENT = "subagent"
    """A message from the agent's parent or one of its children."""
    BROWSER = "browser"
    """A browser task that is done, has failed or needs help."""
    API = "api"
    """Created over the API; the default."""
    PORTAL = "portal"
    """Created by a person in a web portal."""


class Visibility(StrEnum):
    """Who can see and use an adapter with its tools."""

    PUBLIC = "public"
    """All organizations; only an operator can publish an adapter."""
    PRIVATE = "private"
    """Only its own organization."""


class Outcome(StrEnum):
    """How a run ended."""

    SLEPT = "slept"
    """The agent asked for sleep, and it was granted."""
    ENDED = "ended"
    """The agent finished without asking for sleep. It is a failure if its queue is left as it was."""
    TURN_LIMIT = "turn_limit"
    """The agent used all turns of `max_turns`."""
    FAILED = "failed"
    """An error ended the run; it is retried after a backoff."""
    STOPPED = "stopped"
    """A request, an archive, a pause or the deletion of the agent ended the run."""
    TIMED_OUT = "timed_out"
    """The run took longer than `runs.max_seconds`; it is retried after a backoff."""
    BUDGET = "budget"
    """A spending cap was reached, or refuses the model because its price is not known."""
    INTERRUPTED = "interrupted"
    """The service ended during the run; it is retried after the restart."""


@dataclass(frozen=True, slots=True)
class Organization:
    id: UUID
    name: str
    created_at: datetime
    paused: bool = False
    max_cost_usd_per_day: Decimal | None = None
    unpriced: Unpriced = Unpriced.REFUSE
    phone_region: str = ""  # of phone numbers without a country code


@dataclass(frozen=True, slots=True)
class User:
    id: UUID
    email: str
    name: str
    password_hash: str = field(repr=False)
    token_version: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: UUID
    organization_id: UUID
    name: str
    prefix: str
    is_active: bool
    last_used_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Template:
    id: UUID
    organization_id: UUID
    name: str
    description: str
    system_prompt: str
    default_model: str
    default_reasoning_effort: ReasoningEffort
    thinking_max_tokens: int
    max_turns: int
    debounce_window_seconds: int
    harness_git_ref: str
    agent_created_webhook_url: str
    tool_call_secret: str | None = field(repr=False)  # None: it cannot be decrypted
    created_at: datetime
    max_cost_usd_per_day: Decimal | None = None
    context_tokens: int = 0
    carry_over: CarryOver = CarryOver.JOURNAL
    reply: Reply = Reply.TOOL
    content: str = ""
    content_days: int | None = None
    environment_secrets: tuple[str, ...] = ()
    unpriced: Unpriced = Unpriced.REFUSE
    may_create_contacts: bool = True
    temperature: float | None = None
    max_output_tokens: int = 0
    tool_choice: ToolChoice = ToolChoice.AUTO
    response_format: dict[str, Any] | None = None
    may_create_agents: bool = False
    max_wakes_per_hour: int | None = None
    max_wakes_per_day: int | None = None
    quiet_hours: str = ""
    approvers: Role = Role.ADMIN
    approval_hours: int | None = 168


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent as its organization sees it: its settings, and the visible part of its state."""

    id: UUID
    organization_id: UUID
    template_id: UUID | None
    template_name: str | None
    parent_id: UUID | None
    parent_name: str
    adapters: tuple[UUID, ...]
    tags: tuple[str, ...]
    name: str
    model: str
    created_at: datetime
    timezone: str
    system_prompt: str
    email_alias: str | None
    max_turns: int
    max_sleep_hours: int | None
    harness_git_ref: str | None
    reasoning_effort: str
    debounce_window_seconds: int | None
    call_voice_id: str
    purpose: Purpose
    status: AgentStatus
    sleep_until: datetime | None
    run_started_at: datetime | None
    last_wake_reason: str
    last_wake_interrupted_sleep_until: datetime | None
    max_cost_usd_per_day: Decimal | None = None
    language: str = ""
    unpriced: Unpriced | None = None
    paused: bool = False
    max_wakes_per_hour: int | None = None
    max_wakes_per_day: int | None = None
    quiet_hours: str | None = None


@dataclass(frozen=True, slots=True)
class ReceiptKey:
    """The identity of a request that may be repeated: its sender, its target and its Idempotency-Key."""

    credential: UUID
    method: str
    path: str
    key: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to a request that may be repeated, stored in the transaction of the request's effect."""

    key: ReceiptKey
    body_hash: bytes
    status: int
    answer: bytes = field(repr=False)
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Notification:
    id: UUID
    organization_id: UUID
    agent_id: UUID
    source: Source
    source_id: str
    title: str
    body: str
    priority: Priority
    created_at: datetime
    scheduled_for: datetime | None
    cleared: bool
    cleared_at: datetime | None
    activated_at: datetime | None
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One run, from wake to sleep. Its trace has the same id."""

    id: UUID
    agent_id: UUID
    organization_id: UUID
    wake_reason: str
    notifications: tuple[UUID, ...]  # active at the start: those longest active
    notification_count: int  # of all that were active at the start
    interrupted_sleep_until: datetime | None
    max_sleep_until: datetime | None
    started_at: datetime
    ended_at: datetime | None
    turns: int
    outcome: Outcome | None
    error: str
    stop_reason: str = ""  # of the stop that ended it
    output: str = ""  # the text of the final answer
    journal: Any = None  # what it did; None while it is active
    failed_calls: int = 0  # of tools, once it has ended
    needs_person: bool = False  # something failed in it, and was neither solved in it nor dismissed since
    prompt: Any = None  # the version of the system prompt that it was told, and whose it is
    node_id: int | None = None  # the node that carries it out, or did
