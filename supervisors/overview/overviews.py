"""The overview of several organizations: what their agents do, what needs a person, and who wakes next.

Every list is bounded, and so is what an overview costs: about ten short statements, one after the other, and
the facts of the agents that it names.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from storage.agent_facts import AgentFacts
from storage.agents.overviews import (
    FailingWebhook,
    NextReminder,
    PausedOrganization,
    PhaseCount,
    TroubledAgent,
    WakingAgent,
)
from supervisors.clock import Clock
from supervisors.engine.snapshot import AgentSummary
from supervisors.overview import sentences
from supervisors.overview.phases import shown_phases
from supervisors.policy import explanations
from supervisors.policy.decisions import Decision, WakeCause
from supervisors.policy.phases import ShownPhase

AGENDA_PERIOD = timedelta(hours=24)
MAX_AGENDA = 100
MAX_SHOWN = 20  # of one kind
MAX_COUNTED = 100  # of the kinds that are not counted by phase
UNCLEARED_AFTER = timedelta(minutes=10)  # before that, a run may be at it
FORGOTTEN_AFTER = timedelta(minutes=1)


class AttentionKind(StrEnum):
    """A kind of thing that needs a person."""

    PAUSED = "paused"
    """The organization is paused."""
    FORGOTTEN = "forgotten"
    """The agent was due a minute ago or earlier, and nothing has started it."""
    QUARANTINED = "quarantined"
    """The agent rests after too many failures in a row."""
    OVER_BUDGET = "over_budget"
    """The budget of the day is spent."""
    UNCLEARED_HIGH = "uncleared_high"
    """A high-priority notification has been active for ten minutes or longer."""
    FAILING_WEBHOOK = "failing_webhook"
    """Deliveries to the webhook fail, or the service has switched it off."""


class AgendaKind(StrEnum):
    """The cause of a wake that lies ahead."""

    RUN_REQUEST = "run_request"
    """A run was requested."""
    NOTIFICATION = "notification"
    """A notification is active."""
    HOLD = "hold"
    """A conversation has paused for the debounce window."""
    REMINDER = "reminder"
    """A reminder falls due."""
    SLEEP = "sleep"
    """The sleep that the agent was given ends."""
    RETRY = "retry"
    """The agent tries again."""


KINDS: Mapping[WakeCause, AgendaKind] = {
    WakeCause.RUN_REQUEST: AgendaKind.RUN_REQUEST,
    WakeCause.NOTIFICATION: AgendaKind.NOTIFICATION,
    WakeCause.HOLD: AgendaKind.HOLD,
    WakeCause.REMINDER: AgendaKind.REMINDER,
    WakeCause.SLEEP_UNTIL: AgendaKind.SLEEP,
    WakeCause.RETRY: AgendaKind.RETRY,
}


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """Something that needs a person."""

    kind: AttentionKind
    sentence: str
    since: datetime | None
    organization_id: UUID
    agent: TroubledAgent | None = None
    webhook_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class AgendaItem:
    """A wake that lies ahead, or is due at this moment."""

    at: datetime
    kind: AgendaKind
    because: str
    agent: WakingAgent


@dataclass(slots=True)
class Attention:
    """What needs a person: some of each kind, and how many there are."""

    items: list[AttentionItem] = field(default_factory=list)
    counts: Counter[AttentionKind] = field(default_factory=Counter)

    def add(self, kind: AttentionKind, items: Iterable[AttentionItem], total: int) -> None:
        """Add the items of a kind, of which there are `total`."""
        self.items += items
        if total > 0:
            self.counts[kind] = total


@dataclass(frozen=True, slots=True)
class OrganizationsOverview:
    """The overview. `agenda_total` counts the moments that the agenda has no room for, too."""

    as_of: datetime
    sentence: str
    phases: Mapping[ShownPhase, int]
    attention: Attention
    agenda: Sequence[AgendaItem]
    agenda_total: int


class OverviewStore(Protocol):
    """The reads of an overview; see `storage.agents.overviews.Overviews`."""

    async def count_phases(self, organization_ids: Sequence[UUID]) -> Sequence[PhaseCount]: ...

    async def list_in_phase(
        self, organization_ids: Sequence[UUID], phase: str, limit: int
    ) -> Sequence[TroubledAgent]: ...

    async def list_forgotten(
        self, organization_ids: Sequence[UUID], due_before: datetime, stuck: Collection[UUID], limit: int
    ) -> Sequence[TroubledAgent]: ...

    async def list_uncleared(
        self, organization_ids: Sequence[UUID], active_before: datetime, limit: int
    ) -> Sequence[TroubledAgent]: ...

    async def list_waking(
        self, organization_ids: Sequence[UUID], until: datetime, limit: int
    ) -> Sequence[WakingAgent]: ...

    async def count_waking(self, organization_ids: Sequence[UUID], until: datetime) -> int: ...

    async def list_next_reminders(
        self, agent_ids: Sequence[UUID], now: datetime
    ) -> Sequence[NextReminder]: ...

    async def list_paused(self, organization_ids: Sequence[UUID]) -> Sequence[PausedOrganization]: ...

    async def list_failing_webhooks(
        self, organization_ids: Sequence[UUID], limit: int
    ) -> Sequence[FailingWebhook]: ...


class StatusReader(Protocol):
    """The present of agents."""

    async def summaries(self, agent_ids: Sequence[UUID]) -> Mapping[UUID, AgentSummary]: ...

    async def outlook(self, agent_id: UUID) -> tuple[AgentFacts, Decision] | None: ...


class OverviewReader:
    """Reads overviews."""

    def __init__(self, store: OverviewStore, status: StatusReader, clock: Clock) -> None:
        self._store = store
        self._status = status
        self._clock = clock

    async def read(
        self, organization_ids: Sequence[UUID], administered_ids: Sequence[UUID], stuck: Collection[UUID]
    ) -> OrganizationsOverview:
        """Return the overview of the organizations; webhooks only of the `administered_ids` among them.

        `stuck`: agents of any organization that nothing will start, although something is active.
        """
        now = self._clock.now()
        paused = await self._store.list_paused(organization_ids)
        paused_ids = {organization.organization_id for organization in paused}
        active_ids = [owner for owner in organization_ids if owner not in paused_ids]
        counts = await self._store.count_phases(organization_ids)
        phases = shown_phases((one.organization_id in paused_ids, one.phase, one.agents) for one in counts)
        attention = Attention()
        items = [
            AttentionItem(AttentionKind.PAUSED, sentences.why_paused(one), one.since, one.organization_id)
            for one in paused
        ]
        attention.add(AttentionKind.PAUSED, items[:MAX_SHOWN], len(items))
        await self._add_agents(attention, active_ids, phases, stuck, now)
        await self._add_webhooks(attention, administered_ids)
        agenda = await self._agenda(active_ids, now)
        return OrganizationsOverview(
            as_of=now,
            sentence=sentences.organization_sentence(phases, attention.counts.total()),
            phases=phases,
            attention=attention,
            agenda=agenda,
            agenda_total=await self._count_agenda(active_ids, now, len(agenda)),
        )

    async def _add_agents(
        self,
        attention: Attention,
        organization_ids: Sequence[UUID],
        phases: Mapping[ShownPhase, int],
        stuck: Collection[UUID],
        now: datetime,
    ) -> None:
        """Add the agents that need a person, each to the first kind that fits it."""
        store = self._store
        found = {
            AttentionKind.FORGOTTEN: await store.list_forgotten(
                organization_ids, now - FORGOTTEN_AFTER, stuck, MAX_COUNTED
            ),
            AttentionKind.QUARANTINED: await store.list_in_phase(
                organization_ids, ShownPhase.QUARANTINED, MAX_SHOWN
            ),
            AttentionKind.OVER_BUDGET: await store.list_in_phase(
                organization_ids, ShownPhase.OVER_BUDGET, MAX_SHOWN
            ),
            AttentionKind.UNCLEARED_HIGH: await store.list_uncleared(
                organization_ids, now - UNCLEARED_AFTER, MAX_COUNTED
            ),
        }
        totals = {kind: len(agents) for kind, agents in found.items()}
        for kind in (AttentionKind.QUARANTINED, AttentionKind.OVER_BUDGET):
            # The phases were counted a moment before.
            totals[kind] = max(totals[kind], phases.get(ShownPhase(kind), 0))
        seen: set[UUID] = set()
        for kind, agents in found.items():
            new = [agent for agent in agents if agent.agent_id not in seen]
            seen.update(agent.agent_id for agent in new)
            items = await self._explain(kind, new[:MAX_SHOWN])
            attention.add(kind, items, totals[kind] - (len(agents) - len(new)))

    async def _explain(self, kind: AttentionKind, agents: Sequence[TroubledAgent]) -> Sequence[AttentionItem]:
        summaries = await self._status.summaries([agent.agent_id for agent in agents])
        return [
            AttentionItem(
                kind,
                _sentence(kind, agent, summaries[agent.agent_id].why),
                agent.since,
                agent.organization_id,
                agent,
            )
            for agent in agents
            if agent.agent_id in summaries
        ]

    async def _add_webhooks(self, attention: Attention, organization_ids: Sequence[UUID]) -> None:
        webhooks = await self._store.list_failing_webhooks(organization_ids, MAX_COUNTED)
        kind = AttentionKind.FAILING_WEBHOOK
        items = [
            AttentionItem(kind, sentences.why_failing(one), one.since, one.organization_id, webhook_id=one.id)
            for one in webhooks[:MAX_SHOWN]
        ]
        attention.add(kind, items, len(webhooks))

    async def _agenda(self, organization_ids: Sequence[UUID], now: datetime) -> list[AgendaItem]:
        waking = await self._store.list_waking(organization_ids, now + AGENDA_PERIOD, MAX_AGENDA)
        found = await asyncio.gather(*(self._status.outlook(agent.agent_id) for agent in waking))
        outlooks = [(agent, each[1]) for agent, each in zip(waking, found, strict=True) if each is not None]
        reminded = [agent.agent_id for agent, decision in outlooks if _is_reminder(decision)]
        reminders = await self._store.list_next_reminders(reminded, now)
        titles = {reminder.agent_id: reminder for reminder in reminders}
        items = _agenda_items(outlooks, titles, now + AGENDA_PERIOD)
        return sorted(items, key=lambda item: item.at)

    async def _count_agenda(self, organization_ids: Sequence[UUID], now: datetime, shown: int) -> int:
        """Count the wakes. If all are shown, the number of the rows would count moments that are no wakes."""
        if shown < MAX_AGENDA:
            return shown
        return await self._store.count_waking(organization_ids, now + AGENDA_PERIOD)


def _sentence(kind: AttentionKind, agent: TroubledAgent, why: str) -> str:
    match kind:
        case AttentionKind.UNCLEARED_HIGH:
            return sentences.why_uncleared(agent, why)
        case AttentionKind.FORGOTTEN:
            return sentences.why_forgotten(agent, why)
        case _:
            return why


def _is_reminder(decision: Decision) -> bool:
    return decision.wake is not None and decision.wake.cause is WakeCause.REMINDER


def _agenda_items(
    outlooks: Iterable[tuple[WakingAgent, Decision]],
    reminders: Mapping[UUID, NextReminder],
    until: datetime,
) -> Iterator[AgendaItem]:
    """Yield the wakes that come until then. A moment to act that wakes nobody is left out."""
    for agent, decision in outlooks:
        wake = explanations.next_wake(decision)
        if wake is None or wake.at > until:
            continue
        because = explanations.describe_cause(wake)
        reminder = reminders.get(agent.agent_id)
        if _is_reminder(decision) and reminder is not None and not wake.is_postponed:
            because = sentences.because_of_reminder(reminder.title)
        yield AgendaItem(wake.at, KINDS[wake.cause], because, agent)
