"""The storage of the service: one object for each family of tables."""

from collections.abc import Callable, Sequence
from uuid import UUID

from storage.agents.actions import AgentSelections
from storage.agents.agents import Agents
from storage.agents.attention import AttentionItems
from storage.agents.filters import SortedAgents
from storage.agents.overviews import Overviews
from storage.agents.secrets import Secrets
from storage.agents.state import AgentStates
from storage.agents.templates import Templates
from storage.agents.wakes import Wakes
from storage.approval_grants import ApprovalGrants
from storage.channels.contacts import Contacts
from storage.channels.documents import Documents
from storage.channels.memories import Memories
from storage.channels.messages import Attachments, Messages
from storage.channels.projects import Projects
from storage.delivery.hooks import Hooks
from storage.delivery.outbox import Outbox
from storage.delivery.receipts import Receipts
from storage.delivery.webhooks import WebhookMatching, Webhooks
from storage.due import DueMoments
from storage.encryption import NO_ENCRYPTION, SecretCipher
from storage.event_resources import EventResources
from storage.events.audit_log import AuditLog
from storage.events.events import Events
from storage.events.rewind import RecordedEvents
from storage.events.timeline import MarkEvents, PhaseEvents
from storage.history.runs import Journals, Runs
from storage.history.spans import MAX_SPANS_PER_TRACE, SharedContents
from storage.history.traces import Traces
from storage.history.transcripts import Transcripts
from storage.history.usage import Spending, Usage, UsageByDay
from storage.identity.accounts import Accounts, LoginNetworks, TokenHolders
from storage.identity.api_keys import ApiKeys
from storage.identity.instance import Instance
from storage.identity.organizations import Invites, Memberships, Organizations
from storage.identity.throttle import ThrottleBuckets
from storage.mcp_servers import McpServers
from storage.node_counters import NodeCounters
from storage.notifications.notifications import Notifications, OnCommit
from storage.notifications.queues import RecentNotifications
from storage.notifications.schedules import Schedules
from storage.organization_limits import OrganizationLimits
from storage.parked_calls import ParkedCalls
from storage.postgres.membership import Sleep
from storage.postgres.pool import Pool
from storage.postgres.shared_reads import FORGOTTEN_SECONDS
from storage.retention import Retention
from storage.service_facts import ServiceFacts
from storage.toolbox import AdapterConfigs, Adapters, AgentTools, Tools
from storage.versions import Versions


class Storage:
    """Every table family of one database, over one pool.

    `on_commit` is called with the agents that a committed change of the queue concerns, and the nodes that
    attend them, as far as they are known. If given, `on_clear` is called instead when notifications were only
    cleared. `sleep` is the clock's. `cipher` encrypts and decrypts the secrets among the columns. Without
    `limits`, organizations may store as much as they like. `node_count` returns how many nodes live.
    """

    def __init__(
        self,
        pool: Pool,
        on_commit: OnCommit,
        on_clear: Callable[[Sequence[UUID]], None] | None = None,
        *,
        sleep: Sleep,
        cipher: SecretCipher = NO_ENCRYPTION,
        spans_per_trace: int = MAX_SPANS_PER_TRACE,
        limits: OrganizationLimits | None = None,
        node_count: Callable[[], int] = lambda: 1,
    ) -> None:
        self.pool = pool
        self.limits = limits or OrganizationLimits(pool)
        self.instance = Instance(pool, cipher)
        self.events = Events(pool)
        pool.on_write = self.events.written.set
        self.audit_log = AuditLog(pool)
        self.due = DueMoments(pool)
        self.event_resources = EventResources(pool)
        self.receipts = Receipts(pool)
        self.retention = Retention(pool)
        self.service_facts = ServiceFacts(pool)
        self.node_counters = NodeCounters(pool)
        self.outbox = Outbox(pool, cipher)
        self.webhooks = Webhooks(pool, cipher)
        self.webhook_matching = WebhookMatching(
            pool, stored=self.outbox.stored, changed=self.webhooks.changed
        )
        self._open_identity(pool, cipher, sleep, node_count)
        self._open_agents(pool, cipher)
        self._open_queues(pool, on_commit, on_clear, sleep)
        self._open_history(pool, spans_per_trace)

    def _open_identity(
        self, pool: Pool, cipher: SecretCipher, sleep: Sleep, node_count: Callable[[], int]
    ) -> None:
        """Open what callers are known by, senders of hooks too; nodes remember it for a moment."""

        async def others_forget() -> None:
            if node_count() > 1:
                await sleep(FORGOTTEN_SECONDS)

        self.token_holders = TokenHolders(pool, others_forget)
        self.accounts = Accounts(pool, self.token_holders)
        self.organizations = Organizations(pool)
        self.memberships = Memberships(pool, self.token_holders)
        self.invites = Invites(pool, self.token_holders)
        self.login_networks = LoginNetworks(pool)
        self.throttle = ThrottleBuckets(pool)
        self.api_keys = ApiKeys(pool, others_forget)
        self.hooks = Hooks(pool, cipher, others_forget)

    def _open_agents(self, pool: Pool, cipher: SecretCipher) -> None:
        """Open agents, what they are made of and what they may use."""
        self.agents = Agents(pool, self.limits, self.outbox.stored.set)
        self.sorted_agents = SortedAgents(pool)
        self.agent_selections = AgentSelections(pool)
        self.agent_states = AgentStates(pool)
        self.overviews = Overviews(pool)
        self.attention = AttentionItems(pool)
        self.wakes = Wakes(pool, cipher)
        self.templates = Templates(pool, cipher, self.limits)
        self.secrets = Secrets(pool, cipher)
        self.adapters = Adapters(pool)
        self.tools = Tools(pool)
        self.adapter_configs = AdapterConfigs(pool, cipher)
        self.agent_tools = AgentTools(pool, cipher)
        self.mcp_servers = McpServers(pool)

    def _open_queues(
        self,
        pool: Pool,
        on_commit: OnCommit,
        on_clear: Callable[[Sequence[UUID]], None] | None,
        sleep: Sleep,
    ) -> None:
        """Open what reaches agents, and what they write."""
        self.notifications = Notifications(pool, on_commit, on_clear, self.limits, sleep=sleep)
        self.schedules = Schedules(pool, self.notifications)
        self.parked_calls = ParkedCalls(pool, self.notifications)
        self.approval_grants = ApprovalGrants(pool)
        self.recent_notifications = RecentNotifications(pool)
        self.contacts = Contacts(pool)
        self.messages = Messages(pool, self.notifications)
        self.attachments = Attachments(pool)
        self.documents = Documents(pool, self.limits)
        self.versions = Versions(pool)
        self.memories = Memories(pool)
        self.projects = Projects(pool)

    def _open_history(self, pool: Pool, spans_per_trace: int) -> None:
        self.runs = Runs(pool)
        self.journals = Journals(pool)
        self.transcripts = Transcripts(pool)
        self.traces = Traces(pool, spans_per_trace)
        self.shared_contents = SharedContents(pool)
        self.usage = Usage(pool)
        self.usage_by_day = UsageByDay(pool)
        self.spending = Spending(pool)
        self.phase_events = PhaseEvents(pool)
        self.mark_events = MarkEvents(pool)
        self.recorded_events = RecordedEvents(pool)
