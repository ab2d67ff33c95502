"""Tools: what an adapter lets agents call. Seen by whoever sees the adapter, changed by its owner."""

from typing import Any
from uuid import UUID

from aiohttp import web

from storage.errors import ConstraintError
from storage.ids import new_id
from storage.toolbox.adapters import Adapter
from storage.toolbox.tools import Tool
from supervisors.tools.parameters import may_take_arguments
from web.access.auth import Caller
from web.access.path_access import may_see, path_id, require_adapter, require_visible
from web.app_keys import CLOCK, SCHEMA_CHECKER, STORAGE
from web.constraint_errors import refusal
from web.errors import Invalid, NotFound
from web.fields import unknown_id
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.tools import ToolBody, ToolChangesBody, ToolQuery, ToolResponse, serialize_tool

BODY = ToolBody()
CHANGES = ToolChangesBody()
QUERY = ToolQuery()


async def create_tool(request: web.Request, caller: Caller) -> web.Response:
    """A tool of an adapter of the caller's own."""
    storage = request.app[STORAGE]
    body = await read_body(request, BODY)
    is_enforced = await _check_parameters(request, body["parameters"])
    adapter = await storage.adapters.get(body["adapter_id"])
    if adapter is None:
        raise Invalid({"adapter": [unknown_id(body["adapter_id"])]})
    caller.require(adapter.organization_id)
    now = request.app[CLOCK].now()
    tool = Tool(id=new_id(), created_at=now, is_enforced=is_enforced, **body)
    try:
        await storage.tools.insert(tool)
    except ConstraintError as error:
        raise refusal(error, body) from error
    return json_response(serialize_tool(tool), status=201)


async def _check_parameters(request: web.Request, parameters: Any) -> bool:
    """Whether they are a schema that calls must fit. Any JSON will do, but for references to be fetched."""
    if parameters is None:
        return False
    checker = request.app[SCHEMA_CHECKER]
    if faults := await checker.find_outside_references(parameters):
        raise Invalid({"parameters": faults})
    return may_take_arguments(parameters) and not await checker.find_faults(parameters)


async def list_tools(request: web.Request, caller: Caller) -> web.StreamResponse:
    query = read_query(request, QUERY)
    await require_adapter(request, caller, query["adapter"])
    storage = request.app[STORAGE]

    async def find(tool_id: UUID) -> Tool | None:
        last = await storage.tools.get(tool_id)
        adapter = last and await storage.adapters.get(last.adapter_id)
        return last if adapter and may_see(caller, adapter) else None

    listing = Listing(
        fetch=lambda page: storage.tools.page(caller.organizations, query["adapter"], page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_tool,
    )
    return await answer_list(request, query, listing)


async def get_tool(request: web.Request, caller: Caller) -> web.Response:
    tool, adapter = await _tool(request)
    require_visible(caller, adapter)
    return json_response(serialize_tool(tool))


async def change_tool(request: web.Request, caller: Caller) -> web.Response:
    tool, adapter = await _tool(request)
    caller.require(adapter.organization_id)
    changes = await read_body(request, CHANGES, partial=True)
    if "parameters" in changes:
        changes["is_enforced"] = await _check_parameters(request, changes["parameters"])
    try:
        changed = await request.app[STORAGE].tools.update(tool.id, changes)
    except ConstraintError as error:
        raise refusal(error, changes) from error
    if changed is None:
        raise NotFound
    return json_response(serialize_tool(changed))


async def delete_tool(request: web.Request, caller: Caller) -> web.Response:
    tool, adapter = await _tool(request)
    caller.require(adapter.organization_id)
    if not await request.app[STORAGE].tools.delete(tool.id):
        raise NotFound
    return web.Response(status=204)


async def _tool(request: web.Request) -> tuple[Tool, Adapter]:
    """The tool that the path names, and the adapter that owns it."""
    storage = request.app[STORAGE]
    tool = await storage.tools.get(path_id(request))
    if tool is None:
        raise NotFound
    adapter = await storage.adapters.get(tool.adapter_id)
    if adapter is None:
        raise NotFound
    return tool, adapter


ROUTES = (
    for_callers(
        "GET", "/api/toolbox/tools/", list_tools, "List tools", answer=list[ToolResponse], query=QUERY
    ),
    for_callers(
        "POST",
        "/api/toolbox/tools/",
        create_tool,
        "Create a tool",
        status=201,
        answer=ToolResponse,
        body=BODY,
    ),
    for_callers("GET", "/api/toolbox/tools/{id}/", get_tool, "Read a tool", answer=ToolResponse),
    for_callers(
        "PATCH",
        "/api/toolbox/tools/{id}/",
        change_tool,
        "Change a tool",
        answer=ToolResponse,
        body=CHANGES,
        partial=True,
    ),
    for_callers("DELETE", "/api/toolbox/tools/{id}/", delete_tool, "Delete a tool", status=204),
)
