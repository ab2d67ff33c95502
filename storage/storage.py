"""The storage of the service: one object for each family of tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from storage.agents.agents import Agents
from storage.agents.state import AgentStates
from storage.agents.templates import Templates
from storage.channels.contacts import Contacts
from storage.channels.documents import Documents
from storage.channels.messages import Messages
from storage.channels.projects import Projects
from storage.delivery.outbox import Outbox
from storage.delivery.receipts import Receipts
from storage.history.runs import Runs
from storage.history.spending import Spending
from storage.history.traces import Traces
from storage.history.usage import Usage
from storage.identity.accounts import Accounts
from storage.identity.api_keys import ApiKeys
from storage.identity.instance import Instance
from storage.identity.invites import Invites
from storage.identity.memberships import Memberships
from storage.identity.organizations import Organizations
from storage.identity.token_holders import TokenHolders
from storage.notifications.notifications import Notifications
from storage.notifications.since import RecentNotifications
from storage.postgres.leadership import Sleep
from storage.postgres.pool import Pool
from storage.retention import Retention
from storage.toolbox.adapter_configs import AdapterConfigs
from storage.toolbox.adapters import Adapters
from storage.toolbox.agent_tools import AgentTools
from storage.toolbox.tools import Tools


@dataclass(frozen=True, slots=True)
class Storage:
    """Every table family of one database, over one pool."""

    pool: Pool
    instance: Instance
    accounts: Accounts
    token_holders: TokenHolders
    organizations: Organizations
    memberships: Memberships
    invites: Invites
    api_keys: ApiKeys
    templates: Templates
    adapters: Adapters
    tools: Tools
    adapter_configs: AdapterConfigs
    agent_tools: AgentTools
    agents: Agents
    agent_states: AgentStates
    notifications: Notifications
    recent_notifications: RecentNotifications
    contacts: Contacts
    messages: Messages
    documents: Documents
    projects: Projects
    outbox: Outbox
    receipts: Receipts
    runs: Runs
    traces: Traces
    usage: Usage
    spending: Spending
    retention: Retention

    async def close(self) -> None:
        """Finish pending writes and reads, then refuse new ones."""
        await self.agents.close()
        await self.notifications.close()
        await self.recent_notifications.close()
        await self.agent_states.close()
        await self.traces.close()
        await self.usage.close()
        await self.spending.close()
        await self.token_holders.close()
        await self.api_keys.close()


def build_storage(
    pool: Pool,
    on_commit: Callable[[Sequence[UUID]], None],
    on_clear: Callable[[Sequence[UUID]], None] | None = None,
    *,
    sleep: Sleep,
) -> Storage:
    """Build the storage on `pool`, waiting with the clock's `sleep`.

    `on_commit` is called with the ids of the agents that a committed change of the queue concerns. If given,
    `on_clear` is called instead of it when notifications were only cleared.
    """
    notifications, outbox = Notifications(pool, on_commit, on_clear, sleep=sleep), Outbox(pool)
    token_holders = TokenHolders(pool)
    return Storage(
        pool=pool,
        instance=Instance(pool),
        accounts=Accounts(pool, token_holders),
        token_holders=token_holders,
        organizations=Organizations(pool),
        memberships=Memberships(pool, token_holders),
        invites=Invites(pool, token_holders),
        api_keys=ApiKeys(pool),
        templates=Templates(pool),
        adapters=Adapters(pool),
        tools=Tools(pool),
        adapter_configs=AdapterConfigs(pool),
        agent_tools=AgentTools(pool),
        agents=Agents(pool, on_webhook_stored=outbox.stored.set),
        agent_states=AgentStates(pool, sleep),
        notifications=notifications,
        recent_notifications=RecentNotifications(pool, sleep),
        contacts=Contacts(pool),
        messages=Messages(pool, notifications),
        documents=Documents(pool),
        projects=Projects(pool),
        outbox=outbox,
        receipts=Receipts(pool),
        runs=Runs(pool),
        traces=Traces(pool, sleep),
        usage=Usage(pool, sleep),
        spending=Spending(pool),
        retention=Retention(pool),
    )
