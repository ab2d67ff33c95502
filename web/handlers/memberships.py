"""Who belongs to an organization and in which role, for its owners and admins."""

from uuid import UUID

from aiohttp import web

from storage.identity.memberships import Member
from web.access.auth import Caller
from web.access.path_access import path_id
from web.app_keys import STORAGE
from web.errors import NotFound, PermissionDenied
from web.json import json_response
from web.paging import Listing, PageQuery, answer_list
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.memberships import MembershipChangesBody, MembershipResponse, serialize_member

CHANGES = MembershipChangesBody()
QUERY = PageQuery()


async def list_memberships(request: web.Request, caller: Caller) -> web.StreamResponse:
    organization_ids = caller.administered()
    query = read_query(request, QUERY)
    memberships = request.app[STORAGE].memberships

    async def find(membership_id: UUID) -> Member | None:
        last = await memberships.get(membership_id)
        return last if last and last.organization_id in organization_ids else None

    listing = Listing(
        fetch=lambda page: memberships.page(organization_ids, page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_member,
    )
    return await answer_list(request, query, listing)


async def get_membership(request: web.Request, caller: Caller) -> web.Response:
    return json_response(serialize_member(await _member(request, caller)))


async def change_membership(request: web.Request, caller: Caller) -> web.Response:
    """Nobody changes or grants a role above their own, and one owner always stays."""
    member = await _member_below(request, caller)
    changes = await read_body(request, CHANGES, partial=True)
    if "role" not in changes:
        return json_response(serialize_member(member))
    changed = await request.app[STORAGE].memberships.change_role(
        member.id, changes["role"], by=caller.roles[member.organization_id]
    )
    if changed is None:
        raise NotFound
    return json_response(serialize_member(changed))


async def delete_membership(request: web.Request, caller: Caller) -> web.Response:
    """The user loses the organization with the very next request."""
    member = await _member_below(request, caller)
    await request.app[STORAGE].memberships.delete(member.id, by=caller.roles[member.organization_id])
    return web.Response(status=204)


async def _member(request: web.Request, caller: Caller) -> Member:
    member = await request.app[STORAGE].memberships.get(path_id(request))
    if member is None:
        raise NotFound
    caller.require_admin(member.organization_id)
    return member


async def _member_below(request: web.Request, caller: Caller) -> Member:
    """The member that the path names, in a role that is not above the caller's."""
    member = await _member(request, caller)
    if member.role.is_above(caller.roles[member.organization_id]):
        raise PermissionDenied
    return member


ROUTES = (
    for_callers(
        "GET",
        "/api/organizations/memberships/",
        list_memberships,
        "List memberships",
        answer=list[MembershipResponse],
        query=QUERY,
    ),
    for_callers(
        "GET",
        "/api/organizations/memberships/{id}/",
        get_membership,
        "Read a membership",
        answer=MembershipResponse,
    ),
    for_callers(
        "PATCH",
        "/api/organizations/memberships/{id}/",
        change_membership,
        "Give a member another role",
        answer=MembershipResponse,
        body=CHANGES,
        partial=True,
    ),
    for_callers(
        "DELETE",
        "/api/organizations/memberships/{id}/",
        delete_membership,
        "Remove a member",
        status=204,
        refusals=frozenset({400}),
    ),
)
