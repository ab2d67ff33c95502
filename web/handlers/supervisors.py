"""Agents with what they do and why, sorted, a page at a time."""

from collections.abc import Sequence

from aiohttp import web

from storage.agents.agent_filters import AgentFilters
from storage.agents.sorted_agents import AgentRow, SortedPage
from web.access.agent_queries import read_agent_filters
from web.access.auth import Caller
from web.app_keys import CLOCK, ROOM, STATUS, STORAGE
from web.json import json_response
from web.list_positions import read_position, write_position
from web.paging import TOTAL_HEADER, next_link
from web.request.parsing import read_query
from web.routes import Routes
from web.schemas.supervisors import SortedAgentQuery, SupervisorRowResponse, serialize_row

routes = Routes()

QUERY = SortedAgentQuery()
MAX_TOTAL = 100_000


@routes.get("/api/cloud/supervisors/", answer=list[SupervisorRowResponse], query=QUERY)
async def list_own_supervisors(request: web.Request, caller: Caller) -> web.Response:
    """List the agents of your organizations with what they do, why, and what it costs.

    The first page counts all that match in `X-Total-Count`, up to 100,000; that number stands for more, too.
    """
    query = read_query(request, QUERY)
    filters = await read_agent_filters(request, caller, query)
    after = query["after"] and read_position(query["after"], query["sort"])
    page = SortedPage(request.app[CLOCK].now(), after, query["limit"] + 1)
    headers: dict[str, str] = {}
    async with request.app[ROOM].reading(caller.accountable):
        sorted_agents = request.app[STORAGE].sorted_agents
        rows = await sorted_agents.list_page(filters, query["sort"], page)
        if after is None and not filters.ids:
            headers[TOTAL_HEADER] = str(await sorted_agents.count(filters, MAX_TOTAL))
        has_next = rows.is_cut or len(rows) > query["limit"]
        del rows[query["limit"] :]
        items = await _explain(request, filters, rows)
    if has_next:
        headers |= next_link(request, write_position(rows[-1].position), query["limit"])
    return json_response(items, headers=headers)


async def _explain(
    request: web.Request, filters: AgentFilters, rows: Sequence[AgentRow]
) -> list[SupervisorRowResponse]:
    """Return the rows with the explanations of their agents.

    An agent that was deleted since the rows were read is left out, and so is one that has left the phase
    of the filter.
    """
    summaries = await request.app[STATUS].summaries([row.id for row in rows])
    shown: list[SupervisorRowResponse] = []
    for row in rows:
        summary = summaries.get(row.id)
        if summary is not None and filters.phase in {None, summary.phase}:
            shown.append(serialize_row(row, summary))
    return shown
