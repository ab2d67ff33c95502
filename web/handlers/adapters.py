"""Adapters: capability packages. An organization changes its own; what is public, everybody reads."""

from typing import Any
from uuid import UUID

from aiohttp import web

from storage.ids import new_id
from storage.model import Visibility
from storage.toolbox.adapters import Adapter
from web.access.auth import Caller, organization_for_create
from web.access.path_access import may_see, path_id, require_visible
from web.app_keys import CLOCK, SCHEMA_CHECKER, STORAGE
from web.errors import Invalid, NotFound
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.adapters import AdapterBody, AdapterQuery, AdapterResponse, serialize_adapter

BODY = AdapterBody()
QUERY = AdapterQuery()


async def create_adapter(request: web.Request, caller: Caller) -> web.Response:
    """An adapter of the caller's own; only an operator makes it public."""
    organization_id = organization_for_create(request, caller)
    body = await read_body(request, BODY)
    await _check_schema(request, body)
    now = request.app[CLOCK].now()
    adapter = Adapter(
        id=new_id(),
        organization_id=organization_id,
        visibility=Visibility.PRIVATE,
        created_at=now,
        **body,
    )
    await request.app[STORAGE].adapters.insert(adapter)
    return json_response(serialize_adapter(adapter), status=201)


async def _check_schema(request: web.Request, body: dict[str, Any]) -> None:
    if body.get("config_schema"):
        faults = await request.app[SCHEMA_CHECKER].find_faults(body["config_schema"])
        if faults:
            raise Invalid({"config_schema": faults})


async def list_adapters(request: web.Request, caller: Caller) -> web.StreamResponse:
    """The caller's own and the public ones."""
    query = read_query(request, QUERY)
    adapters = request.app[STORAGE].adapters

    async def find(adapter_id: UUID) -> Adapter | None:
        last = await adapters.get(adapter_id)
        return last if last and may_see(caller, last) else None

    listing = Listing(
        fetch=lambda page: adapters.page(caller.organizations, query["visibility"], page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_adapter,
    )
    return await answer_list(request, query, listing)


async def get_adapter(request: web.Request, caller: Caller) -> web.Response:
    adapter = await _adapter(request)
    require_visible(caller, adapter)
    return json_response(serialize_adapter(adapter))


async def change_adapter(request: web.Request, caller: Caller) -> web.Response:
    adapter = await _adapter(request)
    caller.require(adapter.organization_id)
    changes = await read_body(request, BODY, partial=True)
    await _check_schema(request, changes)
    changed = await request.app[STORAGE].adapters.update(adapter.id, changes)
    if changed is None:
        raise NotFound
    return json_response(serialize_adapter(changed))


async def delete_adapter(request: web.Request, caller: Caller) -> web.Response:
    """With its tools and configs; no agent has it any more."""
    adapter = await _adapter(request)
    caller.require(adapter.organization_id)
    if not await request.app[STORAGE].adapters.delete(adapter.id):
        raise NotFound
    return web.Response(status=204)


async def _adapter(request: web.Request) -> Adapter:
    adapter = await request.app[STORAGE].adapters.get(path_id(request))
    if adapter is None:
        raise NotFound
    return adapter


ROUTES = (
    for_callers(
        "GET",
        "/api/toolbox/adapters/",
        list_adapters,
        "List adapters",
        answer=list[AdapterResponse],
        query=QUERY,
    ),
    for_callers(
        "POST",
        "/api/toolbox/adapters/",
        create_adapter,
        "Create an adapter",
        status=201,
        answer=AdapterResponse,
        body=BODY,
        by_header=True,
    ),
    for_callers("GET", "/api/toolbox/adapters/{id}/", get_adapter, "Read an adapter", answer=AdapterResponse),
    for_callers(
        "PATCH",
        "/api/toolbox/adapters/{id}/",
        change_adapter,
        "Change an adapter",
        answer=AdapterResponse,
        body=BODY,
        partial=True,
    ),
    for_callers(
        "DELETE",
        "/api/toolbox/adapters/{id}/",
        delete_adapter,
        "Delete an adapter with its tools",
        status=204,
    ),
)
