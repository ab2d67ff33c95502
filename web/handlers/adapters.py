"""Adapters: packages of tools. An organization changes its own; everybody reads the public ones."""

from functools import partial
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.ids import new_id
from storage.model import Visibility
from storage.toolbox.adapters import Adapter
from web.access.auth import Caller, requested_organization
from web.access.path_access import load, load_owned, may_see, require_visible
from web.app_keys import CLOCK, SCHEMA_CHECKER, STORAGE
from web.errors import Invalid, NotFound, require_found
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.page_reader import Listing
from web.paging import answer_list
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.adapters import AdapterBody, AdapterQuery, AdapterResponse, serialize_adapter

routes = Routes()

BODY = AdapterBody()
QUERY = AdapterQuery()


@routes.create("/api/toolbox/adapters/", answer=AdapterResponse, body=BODY, by_header=True)
async def create_adapter(request: web.Request, caller: Caller) -> web.Response:
    """Create a private adapter; only an operator can publish it. Add its tools afterwards."""
    organization_id = requested_organization(request, caller)
    body = await read_body_once(request, caller, BODY)
    await _check_schema(request, organization_id, body)
    now = request.app[CLOCK].now()
    adapter = Adapter(
        id=new_id(), organization_id=organization_id, visibility=Visibility.PRIVATE, created_at=now, **body
    )
    answer = json_response(serialize_adapter(adapter), status=201)
    await request.app[STORAGE].adapters.insert(adapter, receipt_of(request, answer))
    return answer


async def _check_schema(request: web.Request, organization_id: UUID, body: dict[str, Any]) -> None:
    if body.get("config_schema"):
        checker = request.app[SCHEMA_CHECKER]
        errors = await checker.find_schema_errors(organization_id, "this schema", body["config_schema"])
        if errors:
            raise Invalid({"config_schema": errors})


@routes.get("/api/toolbox/adapters/", answer=list[AdapterResponse], query=QUERY)
async def list_adapters(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List your own adapters and the public ones, newest first."""
    query = read_query(request, QUERY)
    adapters = request.app[STORAGE].adapters

    async def find(adapter_id: UUID) -> Adapter | None:
        adapter = await adapters.get(adapter_id)
        return adapter if adapter and may_see(caller, adapter) else None

    fetch = partial(adapters.list_page, caller.organizations, query["visibility"])
    return await answer_list(request, query, Listing(fetch, serialize_adapter, find))


@routes.get("/api/toolbox/adapters/{id}/", answer=AdapterResponse)
async def get_adapter(request: web.Request, caller: Caller) -> web.Response:
    """Read one adapter, of your own or public."""
    adapter = await load(request, request.app[STORAGE].adapters.get)
    require_visible(caller, adapter)
    return json_response(serialize_adapter(adapter))


@routes.patch("/api/toolbox/adapters/{id}/", answer=AdapterResponse, body=BODY)
async def change_adapter(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains.

    Existing configs are not checked against a new `config_schema`.
    """
    adapters = request.app[STORAGE].adapters
    adapter = await load_owned(request, caller, adapters.get)
    changes = await read_body(request, BODY, partial=True)
    await _check_schema(request, adapter.organization_id, changes)
    changed = require_found(await adapters.update(adapter.id, changes))
    return json_response(serialize_adapter(changed))


@routes.delete("/api/toolbox/adapters/{id}/")
async def delete_adapter(request: web.Request, caller: Caller) -> web.Response:
    """Delete an adapter with its tools and configs, and remove it from all agents."""
    adapters = request.app[STORAGE].adapters
    adapter = await load_owned(request, caller, adapters.get)
    if not await adapters.delete(adapter.id):
        raise NotFound
    return web.Response(status=204)
