"""The explanation of an agent: at present, or at a moment in the past."""

from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from web.app_keys import CLOCK, STATUS, STORAGE, TIMELINES
from web.errors import Invalid, require_found
from web.json import json_response
from web.request.local_times import localize
from web.request.parsing import read_query
from web.schemas.timeline import SupervisorAtQuery, serialize_past

QUERY = SupervisorAtQuery()
LIES_AHEAD = "This moment lies ahead: leave at out to see the present."


async def answer_supervisor(request: web.Request, agent_id: UUID) -> web.Response:
    """Answer with the explanation of the agent at the moment `at` of the query, else at present.

    Raise NotFound if the agent does not exist, Invalid for a moment that lies ahead.
    """
    query = read_query(request, QUERY)
    if query["at"] is None:
        return json_response(require_found(await request.app[STATUS].snapshot(agent_id)))
    agent = require_found(await request.app[STORAGE].agents.get(agent_id))
    localize(query, ("at",), ZoneInfo(agent.timezone))
    if query["at"] > request.app[CLOCK].now():
        raise Invalid({"at": [LIES_AHEAD]})
    past = require_found(await request.app[TIMELINES].state_at(agent_id, query["at"]))
    return json_response(serialize_past(agent, query["at"], past))
