"""The overview of several organizations: what their agents do, what needs a person, and who wakes next.

Every list is bounded, and so is what an overview costs: about ten short statements, one after the other, and
the facts of the agents that it names.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from storage.agents.attention import (
    DELIVERIES,
    MESSAGES,
    RUNS,
    AttentionItems,
    AttentionKind,
    FailedDelivery,
    FailedMessage,
    FailedRun,
)
from storage.agents.overviews import (
    ALL_PHASES,
    AskingAgent,
    FailingAgent,
    FailingWebhook,
    NextReminder,
    Overviews,
    PausedOrganization,
    TroubledAgent,
    WakingAgent,
)
from storage.channels.messages import Channel
from storage.notifications.schedules import Schedule, Schedules
from storage.parked_calls import CallKind
from supervisors.clock import Clock
from supervisors.engine.inspection import StatusReader
from supervisors.engine.snapshot import AgentSummary
from supervisors.policy import explanations
from supervisors.policy.decisions import Decision, WakeCause
from supervisors.policy.explanations import when, why_instance_paused
from supervisors.policy.phases import ShownPhase
from supervisors.policy.schedules import because_of, comes_at, why_stopped
from supervisors.text import excerpt, quoted

AGENDA_PERIOD = timedelta(hours=24)
MAX_AGENDA = 100
MAX_SHOWN = 20  # of one kind
MAX_COUNTED = 100  # of the kinds that are not counted by phase
UNCLEARED_AFTER = timedelta(minutes=10)  # before that, a run may be at it
FORGOTTEN_AFTER = timedelta(minutes=1)
UNPAUSED = frozenset({ShownPhase.RUNNING, ShownPhase.STOPPING, ShownPhase.ARCHIVED})
MAX_NAME = 100
MAX_ERROR = 200
NO_AGENTS = "There are no agents yet."
ALL_WELL = "Nothing needs a person."

# In the order of a sentence, which begins with what happens at present.
WORDS: Mapping[ShownPhase, str] = {
    ShownPhase.RUNNING: "running",
    ShownPhase.STOPPING: "stopping",
    ShownPhase.QUEUED: "waiting for a run slot",
    ShownPhase.HOLDING: "holding",
    ShownPhase.BACKING_OFF: "backing off",
    ShownPhase.QUARANTINED: "quarantined",
    ShownPhase.OVER_BUDGET: "over budget",
    ShownPhase.HELD_BY_LIMITS: "held by limits",
    ShownPhase.PAUSED: "paused",
    ShownPhase.ASLEEP: "asleep",
    ShownPhase.ARCHIVED: "archived",
}


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
    SCHEDULE = "schedule"
    """A schedule comes."""


KINDS: Mapping[WakeCause, AgendaKind] = {
    WakeCause.RUN_REQUEST: AgendaKind.RUN_REQUEST,
    WakeCause.NOTIFICATION: AgendaKind.NOTIFICATION,
    WakeCause.HOLD: AgendaKind.HOLD,
    WakeCause.REMINDER: AgendaKind.REMINDER,
    WakeCause.SLEEP_UNTIL: AgendaKind.SLEEP,
    WakeCause.RETRY: AgendaKind.RETRY,
}


Found = TypeVar("Found", bound="Subject")
Subject = TroubledAgent | FailedDelivery | FailingWebhook | PausedOrganization


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """Something that needs a person."""

    kind: AttentionKind
    sentence: str
    subject: Subject


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

    def add(
        self, kind: AttentionKind, found: Sequence[Found], sentence: Callable[[Found], str], total: int = 0
    ) -> None:
        """Add what was found of a kind, of which there are `total`, if those are more."""
        self.items += [AttentionItem(kind, sentence(one), one) for one in found[:MAX_SHOWN]]
        self.counts += Counter({kind: max(total, len(found))})


@dataclass(frozen=True, slots=True)
class OrganizationsOverview:
    """The overview. `agenda_total` counts the moments that the agenda has no room for, too."""

    as_of: datetime
    sentence: str
    phases: Mapping[ShownPhase, int]
    attention: Attention
    agenda: Sequence[AgendaItem]
    agenda_total: int


@dataclass(slots=True, eq=False)
class OverviewReader:
    """Reads overviews."""

    store: Overviews
    failed: AttentionItems
    schedules: Schedules
    status: StatusReader
    clock: Clock

    async def read(
        self, organization_ids: Sequence[UUID], administered_ids: Sequence[UUID], stuck: Collection[UUID]
    ) -> OrganizationsOverview:
        """Return the overview of the organizations; webhooks only of the `administered_ids` among them.

        `stuck`: agents of any organization that nothing will start, although something is active.
        """
        now = self.clock.now()
        paused = await self.store.list_paused(organization_ids)
        paused_ids = {organization.organization_id for organization in paused}
        active_ids = [owner for owner in organization_ids if owner not in paused_ids]
        counts = await self.store.count_phases(organization_ids)
        phases = shown_phases((one.organization_id in paused_ids, one.phase, one.agents) for one in counts)
        attention = Attention()
        attention.add(AttentionKind.PAUSED, [one for one in paused if one.is_itself], why_paused)
        of_instance = [one for one in paused if not one.is_itself]
        attention.add(AttentionKind.INSTANCE_PAUSED, of_instance[:1], why_paused)
        await self._add_agents(attention, active_ids, phases, stuck, now)
        asking = await self.store.list_asking(organization_ids, MAX_COUNTED)
        attention.add(AttentionKind.APPROVAL, asking, why_asking)
        messages = await self.failed.list(MESSAGES, organization_ids, MAX_COUNTED)
        attention.add(AttentionKind.FAILED_MESSAGE, messages, why_unsent)
        runs = await self.failed.list(RUNS, organization_ids, MAX_COUNTED)
        attention.add(AttentionKind.FAILED_RUN, runs, why_unsolved)
        stopped = await self.store.list_schedules_without_zone(organization_ids, MAX_COUNTED)
        attention.add(AttentionKind.STOPPED_SCHEDULE, stopped, why_stopped)
        deliveries = await self.failed.list(DELIVERIES, administered_ids, MAX_COUNTED)
        attention.add(AttentionKind.FAILING_HOOK, deliveries, why_undelivered)
        webhooks = await self.store.list_failing_webhooks(administered_ids, MAX_COUNTED)
        attention.add(AttentionKind.FAILING_WEBHOOK, webhooks, why_failing)
        agenda = await self._agenda(active_ids, now)
        return OrganizationsOverview(
            as_of=now,
            sentence=organization_sentence(phases, attention.counts.total()),
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
        store = self.store
        found: dict[AttentionKind, Sequence[TroubledAgent]] = {
            AttentionKind.FORGOTTEN: await store.list_forgotten(
                organization_ids, now - FORGOTTEN_AFTER, stuck, MAX_COUNTED
            ),
            AttentionKind.QUARANTINED: await store.list_in_phase(
                organization_ids, ShownPhase.QUARANTINED, MAX_SHOWN
            ),
            AttentionKind.OVER_BUDGET: await store.list_in_phase(
                organization_ids, ShownPhase.OVER_BUDGET, MAX_SHOWN
            ),
            AttentionKind.FAILING: await store.list_failing(organization_ids, MAX_COUNTED),
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
            summaries = await self.status.summaries([agent.agent_id for agent in new[:MAX_SHOWN]])
            known = [agent for agent in new if agent.agent_id in summaries]
            total = totals[kind] - (len(agents) - len(new))
            attention.add(kind, known, partial(_sentence, kind, summaries), total)

    async def _agenda(self, organization_ids: Sequence[UUID], now: datetime) -> list[AgendaItem]:
        waking = await self.store.list_waking(organization_ids, now + AGENDA_PERIOD, MAX_AGENDA)
        found = await asyncio.gather(*(self.status.outlook(agent.agent_id) for agent in waking))
        outlooks = [(agent, each[1]) for agent, each in zip(waking, found, strict=True) if each is not None]
        reminded = [agent.agent_id for agent, decision in outlooks if _is_reminder(decision)]
        reminders = await self.store.list_next_reminders(reminded, now)
        titles = {reminder.agent_id: reminder for reminder in reminders}
        coming = await self.schedules.list_coming(organization_ids, now + AGENDA_PERIOD, MAX_AGENDA)
        items = [*_agenda_items(outlooks, titles, now + AGENDA_PERIOD), *map(_item_of_schedule, coming)]
        return sorted(items, key=lambda item: item.at)[:MAX_AGENDA]

    async def _count_agenda(self, organization_ids: Sequence[UUID], now: datetime, shown: int) -> int:
        """Count the wakes. If all are shown, the number of the rows would count moments that are no wakes."""
        if shown < MAX_AGENDA:
            return shown
        return await self.store.count_waking(organization_ids, now + AGENDA_PERIOD)


def _sentence(kind: AttentionKind, summaries: Mapping[UUID, AgentSummary], agent: TroubledAgent) -> str:
    why = summaries[agent.agent_id].why
    match kind:
        case AttentionKind.UNCLEARED_HIGH:
            return why_uncleared(agent, why)
        case AttentionKind.FORGOTTEN:
            return why_forgotten(agent, why)
        case AttentionKind.FAILING if isinstance(agent, FailingAgent):
            return why_failing_agent(agent, why)
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
        if _is_reminder(decision) and reminder is not None and not (wake.is_postponed or wake.delay):
            because = because_of_reminder(reminder.title)
        yield AgendaItem(wake.at, KINDS[wake.cause], because, agent)


def _item_of_schedule(coming: Schedule) -> AgendaItem:
    agent = WakingAgent(coming.agent_id, coming.agent_name, coming.agent_timezone)
    return AgendaItem(
        comes_at(coming) or coming.created_at, AgendaKind.SCHEDULE, because_of(coming.title), agent
    )


def shown_phases(counts: Iterable[tuple[bool, str, int]]) -> dict[ShownPhase, int]:
    """Return the number of agents in each phase that has any.

    A count says whether the organization is paused, the phase, and the number of agents; those asleep are
    only counted in `ALL_PHASES`. A pause, which the log does not tell of each agent, holds all that neither
    run nor are archived.
    """
    phases: Counter[ShownPhase] = Counter()
    for is_paused, name, agents in counts:
        resting = ShownPhase.PAUSED if is_paused else ShownPhase.ASLEEP
        if name == ALL_PHASES:
            phases[resting] += agents
            continue
        phase = ShownPhase(name)
        phases[resting if is_paused and phase not in UNPAUSED else phase] += agents
        phases[resting] -= agents
    return {phase: phases[phase] for phase in WORDS if phases[phase] > 0}


def organization_sentence(phases: Mapping[ShownPhase, int], attention: int) -> str:
    """Say how many agents do what, and how many things need a person."""
    present = [(phases[phase], word) for phase, word in WORDS.items() if phases.get(phase)]
    if not present:
        return NO_AGENTS if not attention else f"{NO_AGENTS} {_needed(attention)}"
    return f"{_agents(present)} {_needed(attention)}"


def _agents(present: list[tuple[int, str]]) -> str:
    total = sum(count for count, _ in present)
    if len(present) == 1:
        [(_, word)] = present
        return f"The only agent is {word}." if total == 1 else f"All {total:,} agents are {word}."
    *first, last = (f"{count:,} {word}" for count, word in present)
    return f"{total:,} agents: {', '.join(first)} and {last}."


def _needed(attention: int) -> str:
    if not attention:
        return ALL_WELL
    return "1 thing needs a person." if attention == 1 else f"{attention:,} things need a person."


def why_uncleared(agent: TroubledAgent, why: str) -> str:
    """Say since when a notification waits, and what the agent does."""
    return f"A high-priority notification has been uncleared since {when(agent.since)}. {why}"


def why_forgotten(agent: TroubledAgent, why: str) -> str:
    """Say that nothing has started an agent that was due."""
    return f"It has been due since {when(agent.since)}, and nothing has started it. {why}"


def why_failing_agent(agent: FailingAgent, why: str) -> str:
    """Say how many runs in a row count toward a quarantine, and what follows."""
    runs = "Its last run" if agent.failures == 1 else f"Its last {agent.failures} runs"
    return f"{runs} failed, or cleared nothing. {why}"


def why_asking(call: AskingAgent) -> str:
    """Say what an agent asks a person, and until when."""
    what = f"It asks: {quoted(excerpt(call.question, MAX_ERROR))}"
    if call.kind is CallKind.APPROVAL:
        what = f"It wants to call {quoted(excerpt(call.tool, MAX_NAME))}"
    end = "." if call.expires_at is None else f", and waits for an answer until {when(call.expires_at)}."
    return f"{what}{end}"


def why_unsent(message: FailedMessage) -> str:
    """Say to whom a message was not sent, and why."""
    recipient = quoted(excerpt(message.recipient, MAX_NAME)) if message.recipient else "a contact"
    reason = message.error or "Its sending goes on, or was interrupted."
    kind = "e-mail" if message.channel == Channel.EMAIL else "text message"
    return f"The {kind} to {recipient} was not sent. {excerpt(reason, MAX_ERROR)}"


def why_unsolved(run: FailedRun) -> str:
    """Say which tools failed, or that the run left contacts without an answer."""
    if run.is_unanswered:
        return "It cleared messages of contacts that got no answer."
    tools = ", ".join(quoted(name) for name in run.tools)
    return f"{tools} failed, and nothing was changed afterwards: {excerpt(run.error, MAX_ERROR)}"


def why_undelivered(delivery: FailedDelivery) -> str:
    """Say which host did not take a delivery, and whether it is tried again."""
    host = excerpt(urlsplit(delivery.url).hostname or "an unknown host", MAX_NAME)
    then = "It was given up" if delivery.is_given_up else "It is tried again"
    return (
        f"The webhook of a template at {host} did not take the delivery of an event. {then}: {delivery.error}"
    )


def why_paused(organization: PausedOrganization) -> str:
    """Say what is paused, the organization or the whole instance, and what that means."""
    if not organization.is_itself:
        return why_instance_paused(organization.since, organization.because)
    name = f'The organization "{excerpt(organization.name, MAX_NAME)}"'
    since = "" if organization.since is None else f" since {when(organization.since)}"
    return f"{name} has been paused{since}; none of its agents starts until the pause ends."


def why_failing(webhook: FailingWebhook) -> str:
    """Say since when a webhook fails. Only the host of its address, which may contain a secret."""
    host = excerpt(urlsplit(webhook.url).hostname or "an unknown host", MAX_NAME)
    if not webhook.is_disabled:
        since = when(webhook.since)
        return f"Deliveries to the webhook at {host} have failed since {since}; they are tried again."
    reason = excerpt(webhook.disabled_reason, 2 * MAX_NAME)
    return f"The service switched the webhook at {host} off at {when(webhook.since)}: {reason}"


def because_of_reminder(title: str) -> str:
    """Say which reminder wakes the agent."""
    return f'The reminder "{excerpt(title, MAX_NAME)}" falls due.'
