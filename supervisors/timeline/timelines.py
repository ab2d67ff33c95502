"""Timelines: what happened to an agent in a period, and how it was at a moment, read from the event log."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from uuid import UUID

from storage.events.model import Event
from storage.events.timeline import MarkEvents, NotificationTimes, Origin, PhaseChange, PhaseEvents
from storage.notifications.schedules import Schedule, Schedules
from supervisors.clock import Clock
from supervisors.engine.inspection import StatusReader
from supervisors.policy.explanations import WHY_ASLEEP, when, why_instance_paused
from supervisors.policy.phases import Phase
from supervisors.policy.schedules import because_of, jitter, upcoming
from supervisors.timeline.bands import (
    MOMENT,
    Band,
    BandPhase,
    Fallback,
    PauseChange,
    State,
    onsets_of,
    pause_changes,
    tile,
)
from supervisors.timeline.marks import Ahead, AheadKind, Mark, ahead, marks, notification_ids

MAX_CHANGES = 4_000  # of the phase
MAX_MARK_EVENTS = 4_000
MAX_PAUSES = 1_000  # and ends of pauses
MAX_REMINDERS = 100
MAX_COMING = 10  # moments of one schedule
MAX_WAITING = 500
FIRST_ID = 1


class TooManyChanges(Exception):
    """A period has more changes than a timeline shows. It may end at `fits_until` at the latest."""

    def __init__(self, fits_until: datetime) -> None:
        super().__init__(f"the period may end at {fits_until} at the latest")
        self.fits_until = fits_until


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened in a period, and what lies ahead in it.

    `waiting`: notifications from before the period that were not cleared in it.
    `marks_left_out`: the number of events before the first mark that were left out.
    """

    bands: Sequence[Band]
    marks: Sequence[Mark]
    ahead: Sequence[Ahead]
    marks_left_out: int
    waiting: Sequence[NotificationTimes]


@dataclass(frozen=True, slots=True)
class PastState:
    """An agent at a moment in the past; `since` is None if it is not known."""

    state: State
    since: datetime | None


@dataclass(slots=True, eq=False)
class Timelines:
    """Reads timelines. Events are kept for `kept_days`; 0: for ever."""

    phases: PhaseEvents
    mark_events: MarkEvents
    schedules: Schedules
    status: StatusReader
    clock: Clock
    kept_days: int

    async def timeline(self, agent_id: UUID, start: datetime, end: datetime) -> Timeline | None:
        """Return the timeline from `start` to before `end`; None if the agent does not exist.

        Raise TooManyChanges.
        """
        origin, now = await self.phases.get_origin(agent_id), self.clock.now()
        if origin is None:
            return None
        bands = await self._bands(agent_id, origin, start, min(end, now))
        events = await self.mark_events.list_marks(agent_id, start, end, MAX_MARK_EVENTS)
        left_out = 0
        if len(events) == MAX_MARK_EVENTS:
            left_out = await self.mark_events.count_marks(agent_id, start, end) - MAX_MARK_EVENTS
        notifications = await self.mark_events.list_notifications(notification_ids(events), agent_id)
        waiting = await self.mark_events.list_waiting(agent_id, start, min(end, now), MAX_WAITING)
        lying_ahead = await self._ahead(agent_id, now, end) if end > now else ()
        return Timeline(bands, marks(events, notifications), lying_ahead, left_out, waiting)

    async def state_at(self, agent_id: UUID, moment: datetime) -> PastState | None:
        """Return the agent as it was at a moment; None if it does not exist."""
        origin = await self.phases.get_origin(agent_id)
        if origin is None:
            return None
        changes = await self.phases.list_changes(agent_id, moment, moment, 0)
        pauses = await self.phases.list_pauses(origin.organization_id, moment, moment, 0)
        fallback = await self._fallback(agent_id, origin, changes)
        pauses_then = pauses_of(origin, pauses)
        state = tile(onsets_of(changes, fallback), pauses_then, moment, moment + MOMENT)[0].state
        for pause in pauses:
            if pause.id == state.event_id:
                return PastState(state, pause.at)
        change = next((change for change in changes if change.id == state.event_id), None)
        return PastState(state, await self._since(agent_id, state, change, fallback))

    async def _bands(self, agent_id: UUID, origin: Origin, start: datetime, end: datetime) -> list[Band]:
        if start >= end:
            return []
        changes = await self.phases.list_changes(agent_id, start, end, MAX_CHANGES + 1)
        pauses = await self.phases.list_pauses(origin.organization_id, start, end, MAX_PAUSES + 1)
        require_few((change.at for change in changes if start < change.at < end), MAX_CHANGES)
        require_few((pause.at for pause in pauses if start < pause.at < end), MAX_PAUSES)
        fallback = await self._fallback(agent_id, origin, changes)
        pauses_then = pauses_of(origin, pauses)
        return tile(onsets_of(changes, fallback), pauses_then, start, end)

    async def _fallback(self, agent_id: UUID, origin: Origin, changes: Sequence[PhaseChange]) -> Fallback:
        is_new = origin.phase_since is None and not changes
        present = State(BandPhase(origin.phase), WHY_ASLEEP if is_new else None, origin.run_id)
        if not changes and not is_new:
            snapshot = await self.status.snapshot(agent_id)
            is_held = origin.paused or origin.instance_paused_at is not None
            is_seen = snapshot is not None and (snapshot.phase is not Phase.PAUSED or not is_held)
            if snapshot is not None and is_seen:
                present = State(present.phase, snapshot.why, present.run_id)
        oldest_at = kept_from(origin, self.clock.now(), self.kept_days)
        existed = origin.created_at < oldest_at
        return Fallback(
            present,
            since=origin.phase_since,
            is_paused=origin.paused,
            known_from=max(oldest_at, origin.created_at),
            why_unknown=(
                f"Not known: events from before {when(oldest_at)} are not kept."
                if existed
                else f"The agent did not exist before {when(origin.created_at)}."
            ),
            first_why=None if existed else WHY_ASLEEP,
        )

    async def _since(
        self, agent_id: UUID, state: State, change: PhaseChange | None, fallback: Fallback
    ) -> datetime | None:
        """Return when the phase of a state began; None if it is not known."""
        if change is None:
            if state is fallback.present and fallback.since is not None:
                return fallback.since
            is_first = fallback.first_why is not None and state.why == fallback.first_why
            return fallback.known_from if is_first else None
        return await self.phases.get_since(agent_id, change)

    async def _ahead(self, agent_id: UUID, now: datetime, end: datetime) -> list[Ahead]:
        outlook = await self.status.outlook(agent_id)
        if outlook is None:
            return []
        reminders = await self.mark_events.list_reminders(agent_id, now, end, MAX_REMINDERS)
        schedules = await self.schedules.list_of_agent(agent_id)
        coming = await asyncio.to_thread(_coming, schedules, now, end)
        return sorted([*ahead(*outlook, reminders, now, end), *coming], key=lambda one: one.at)


def pauses_of(origin: Origin, events: Iterable[Event]) -> list[PauseChange]:
    """Return the pauses of the organization and of the whole instance; `events`: their begins and ends."""
    since, because = origin.instance_paused_at, origin.instance_paused_because
    instance_why = why_instance_paused(since, because) if since else ""
    return pause_changes(events, is_paused=origin.paused, instance_why=instance_why)


def kept_from(origin: Origin, now: datetime, kept_days: int) -> datetime:
    """Return the moment from which the log is complete, if it keeps events for `kept_days`; 0: for ever."""
    oldest_at = origin.oldest_at or now
    is_cleaned = kept_days and origin.oldest_id != FIRST_ID
    return min(oldest_at, now - timedelta(days=kept_days)) if is_cleaned else oldest_at


def _coming(schedules: Sequence[Schedule], now: datetime, end: datetime) -> list[Ahead]:
    """Return the next moments of the schedules before `end`, at most MAX_COMING of each."""
    coming = []
    for schedule in schedules:
        if schedule.next_at is None or schedule.next_at >= end:
            continue  # without a search, which may take long
        later = jitter(schedule)
        moments = (moment + later for moment in upcoming(schedule, now - later, MAX_COMING))
        coming += [
            Ahead(moment, AheadKind.SCHEDULE, because_of(schedule.title), schedule.id)
            for moment in takewhile(lambda found: found < end, moments)
        ]
    return coming


def require_few(moments: Iterable[datetime], most: int) -> None:
    """Raise TooManyChanges if there are more moments than `most`: a period without the last one fits."""
    ordered = sorted(moments)
    if len(ordered) > most:
        raise TooManyChanges(ordered[most])
