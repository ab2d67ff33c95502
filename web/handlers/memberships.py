"""Memberships: the users of an organization and their roles, managed by its owners and admins."""

from functools import partial

from aiohttp import web

from storage.identity.memberships import Member
from web.access.auth import Caller
from web.access.path_access import load_owned
from web.app_keys import STORAGE
from web.errors import require_found
from web.json import json_response
from web.page_reader import Listing
from web.paging import PageQuery, answer_list, find_owned
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.memberships import MembershipChangesBody, MembershipResponse, serialize_member

routes = Routes()

CHANGES = MembershipChangesBody()
QUERY = PageQuery()


@routes.get("/api/organizations/memberships/", answer=list[MembershipResponse], query=QUERY)
async def list_memberships(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the members of the organizations that you administer, newest first.

    Members are refused with 403.
    """
    organization_ids = caller.administered()
    query = read_query(request, QUERY)
    memberships = request.app[STORAGE].memberships
    listing = Listing(
        partial(memberships.list_page, organization_ids),
        serialize_member,
        find_owned(organization_ids, memberships.get),
    )
    return await answer_list(request, query, listing)


@routes.get("/api/organizations/memberships/{id}/", answer=MembershipResponse)
async def get_membership(request: web.Request, caller: Caller) -> web.Response:
    """Read one membership of an organization that you administer."""
    member = await load_owned(request, caller, request.app[STORAGE].memberships.get, Caller.require_admin)
    return json_response(serialize_member(member))


@routes.patch("/api/organizations/memberships/{id}/", answer=MembershipResponse, body=CHANGES)
async def change_membership(request: web.Request, caller: Caller) -> web.Response:
    """Give a member another role.

    A role above your own is refused with 403, and so is the demotion of somebody above you. The last owner
    stays: 400.
    """
    member = await _load_manageable_member(request, caller)
    changes = await read_body(request, CHANGES, partial=True)
    if "role" not in changes:
        return json_response(serialize_member(member))
    caller.require_role(member.organization_id, changes["role"])
    changed = await request.app[STORAGE].memberships.update_role(
        member.id, changes["role"], by=caller.roles[member.organization_id]
    )
    return json_response(serialize_member(require_found(changed)))


@routes.delete("/api/organizations/memberships/{id}/", refusals={400})
async def delete_membership(request: web.Request, caller: Caller) -> web.Response:
    """Remove a member, who loses access with the next request.

    A member above you is refused with 403. The last owner stays: 400.
    """
    member = await _load_manageable_member(request, caller)
    await request.app[STORAGE].memberships.delete(member.id, by=caller.roles[member.organization_id])
    return web.Response(status=204)


async def _load_manageable_member(request: web.Request, caller: Caller) -> Member:
    """Return the member whose id is in the path. Raise PermissionDenied if the role is above the caller's."""
    member = await load_owned(request, caller, request.app[STORAGE].memberships.get, Caller.require_admin)
    caller.require_role(member.organization_id, member.role)
    return member
