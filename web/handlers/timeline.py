"""The timeline of an agent: what happened to it in a period."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web

from supervisors.timeline.timelines import MAX_CHANGES, MAX_PAUSES, TooManyChanges
from supervisors.timestamps import format_timestamp
from web.access.auth import Caller
from web.access.path_access import load_agent, load_in_turn
from web.app_keys import CLOCK, TIMELINES
from web.errors import Invalid
from web.json import json_response
from web.request.local_times import localize
from web.request.parsing import read_query
from web.routes import Routes
from web.schemas.timeline import TimelineQuery, TimelineResponse, serialize_timeline

routes = Routes()

QUERY = TimelineQuery()

DEFAULT_PERIOD = timedelta(days=1)
MAX_DAYS = 31
LONGER_BY_CLOCK = timedelta(hours=1)  # 31 days are an hour longer if the clock is set back in one of them
MIN_DATETIME = datetime.min.replace(tzinfo=UTC)
START_NOT_BEFORE_END = "start must be before end."
TOO_LONG = f"The period may be at most {MAX_DAYS} days long: choose a later start or an earlier end."
TOO_MANY_CHANGES = (
    f"Choose an end up to {{}}, or a later start: in this period the agent changed its phase more than "
    f"{MAX_CHANGES:,} times, or its organization was paused or unpaused more than {MAX_PAUSES:,} times."
)


@routes.get("/api/cloud/agents/{id}/timeline/", answer=TimelineResponse, query=QUERY)
async def get_timeline(request: web.Request, caller: Caller) -> web.Response:
    """Show what happened to an agent in a period, by default the last 24 hours: its phases, and what was
    beside them, such as notifications, messages and changes by people.

    If the period reaches past now, the answer says what lies ahead. A period with more than 4,000 changes of
    the phase is refused, with the latest `end` that its `start` takes.
    """
    agent = await load_agent(request, caller)
    query = read_query(request, QUERY)
    localize(query, ("start", "end"), ZoneInfo(agent.timezone))
    start, end = _period(query, request.app[CLOCK].now())
    read = partial(request.app[TIMELINES].timeline, start=start, end=end)
    try:
        timeline = await load_in_turn(request, read)
    except TooManyChanges as error:
        raise Invalid({"end": [TOO_MANY_CHANGES.format(format_timestamp(error.fits_until))]}) from None
    return json_response(serialize_timeline(agent.id, start, end, timeline))


def _period(query: dict[str, Any], now: datetime) -> tuple[datetime, datetime]:
    """Return the start and the end of the period. Raise Invalid for a period that is empty or too long."""
    end: datetime = query["end"] or now
    start: datetime = query["start"] or end - min(DEFAULT_PERIOD, end - MIN_DATETIME)
    if start >= end:
        raise Invalid({"start": [START_NOT_BEFORE_END]})
    if end - start > timedelta(days=MAX_DAYS) + LONGER_BY_CLOCK:
        raise Invalid({"start": [TOO_LONG]})
    return start, end
