"""The bands of a period, rebuilt from all events of an agent and of its organization."""

from collections.abc import Iterable
from datetime import datetime

from storage.events.model import Event
from storage.events.timeline import PhaseChange
from supervisors.timeline.bands import Band, Fallback, onsets_of, pause_changes, tile


def bands(
    events: Iterable[Event],
    organization_events: Iterable[Event],
    start: datetime,
    end: datetime,
    fallback: Fallback,
) -> list[Band]:
    """Return the bands from `start` to before `end`."""
    onsets = onsets_of(filter(None, map(change_of, events)), fallback)
    return tile(onsets, pause_changes(organization_events, is_paused=fallback.is_paused), start, end)


def change_of(event: Event) -> PhaseChange | None:
    """Return the change of the phase that an event tells of; None if it tells of none."""
    if event.phase is None:
        return None
    data = event.data
    return PhaseChange(
        event.id, event.at, event.phase, event.run_id, data.get("from"), data.get("why"), data.get("next_at")
    )
