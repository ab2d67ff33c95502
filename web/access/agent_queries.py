"""The filters of lists of agents, as far as the caller may use them."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.agents.agent_filters import AgentFilters
from web.access.auth import Caller
from web.access.path_access import require_agent, require_organization, require_owned
from web.app_keys import STORAGE


async def read_agent_filters(request: web.Request, caller: Caller, query: Mapping[str, Any]) -> AgentFilters:
    """Return the filters of an `AgentFilterQuery`, over the caller's organizations.

    Raise PermissionDenied for an organization, a template or a parent of others.
    """
    await require_organization(request, caller, query["organization"])
    await require_owned(caller, request.app[STORAGE].templates.get, query["template"])
    await require_agent(request, caller, query["parent"])
    return AgentFilters(
        organization_ids=_filter_organizations(caller, query["organization"]),
        include_archived=query["include_archived"],
        purpose=query["purpose"],
        tags=tuple(query["tag"]),
        template_id=query["template"],
        status=query["status"],
        parent_id=query["parent"],
        name=query["name"],
        search=query["search"],
        phase=query.get("phase"),
        ids=tuple(query.get("agent", ())),
    )


def _filter_organizations(caller: Caller, organization_id: UUID | None) -> tuple[UUID, ...]:
    return tuple(own_id for own_id in caller.organizations if organization_id in {None, own_id})
