"""The overview of the caller's organizations."""

from aiohttp import web

from supervisors.overview.overviews import OverviewReader
from web.access.auth import Caller
from web.access.path_access import require_organization
from web.app_keys import CLOCK, HEALTH, ROOM, STATUS, STORAGE
from web.json import json_response
from web.request.parsing import read_query
from web.routes import Routes
from web.schemas.overview import OverviewQuery, OverviewResponse, serialize_overview

routes = Routes()

QUERY = OverviewQuery()


@routes.get("/api/cloud/overview/", answer=OverviewResponse, query=QUERY)
async def get_overview(request: web.Request, caller: Caller) -> web.Response:
    """Show what the agents of your organizations do, what needs a person, and who wakes next.

    Event webhooks are among it where you are an admin or owner.
    """
    organization_id = read_query(request, QUERY)["organization"]
    await require_organization(request, caller, organization_id)
    owners = [own_id for own_id in caller.organizations if organization_id in {None, own_id}]
    administered = [own_id for own_id in owners if caller.is_admin(own_id)]
    app = request.app
    reader = OverviewReader(app[STORAGE].overviews, app[STATUS], app[CLOCK])
    async with app[ROOM].reading(caller.accountable):
        overview = await reader.read(owners, administered, app[HEALTH].forgotten())
    return json_response(serialize_overview(overview))
