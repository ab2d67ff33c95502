"""Tools of adapters. Those who see an adapter see its tools; only the adapter's owner changes them."""

from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.ids import new_id
from storage.toolbox import Adapter, Tool
from supervisors.tools.adapter_tools import check_parameters
from web.access.approval_rules import ApprovalMode, ApprovalWhen, approval_rule, check_approval
from web.access.auth import Caller
from web.access.path_access import load, require_adapter, require_visible
from web.access.references import load_named
from web.app_keys import CLOCK, SCHEMA_CHECKER, STORAGE
from web.errors import Invalid, NotFound, refusing_constraint_errors, require_found
from web.fields import MAX_SIDE_TEXT, Boolean, JsonValue, Line, Text, Url, Uuid
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import Listing, PageQuery, answer_list
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes


class ToolChangesBody(Body):
    """The fields of a tool that can be changed; its adapter stays."""

    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="", max_length=MAX_SIDE_TEXT)
    parameters = JsonValue(allow_none=True, load_default=None)
    url = Url(load_default="", max_length=200)
    handler = Line(load_default="", max_length=255)
    detail_url = Url(load_default="", max_length=200)
    idempotent = Boolean(load_default=False)
    approval = approval_rule(load_default=ApprovalMode.NEVER)


class ToolBody(ToolChangesBody):
    """A new tool."""

    adapter_id = Uuid(data_key="adapter", required=True)


class ToolQuery(PageQuery):
    adapter = Uuid(load_default=None)
    """Only tools of this adapter."""


class ToolResponse(TypedDict):
    """Something that an agent can do: a URL of yours to which a call is sent."""

    id: UUID
    """Chosen by the service."""
    adapter: UUID
    """The adapter that the tool belongs to. Agents that have the adapter have the tool."""
    name: str
    """Unique in its adapter. Models see it with `_` for all but letters, digits, `_` and `-`."""
    description: str
    """What the tool does, as models read it; "" if there is none."""
    created_at: datetime
    """When the tool was created."""
    parameters: Any
    """A JSON Schema (2020-12) for objects, which calls must fit; any other value is only shown to models.
    null: no parameters are described."""
    url: str
    """The http or https URL to which calls are sent; "": calls fail with the code `no_url`."""
    handler: str
    """A text of yours that is sent with each call, so that one URL can serve many tools. `channel:<channel>`
    makes the tool deliver messages and hides it from models; `mcp:<name>` makes it that of an MCP server."""
    detail_url: str
    """An http or https URL with more about it, for people; "" if there is none."""
    idempotent: bool
    """Whether a repeated call with the same arguments does no harm. Checks of schedules need such a tool."""
    approval: ApprovalMode | ApprovalWhen
    """Which calls wait until a person allows them. Only admins and owners change it."""
    offered: Any
    """What the MCP server of the tool offers and nobody has accepted, with `description`, `parameters`, and
    `is_enforced`, whether calls must fit them; {}: it offers the tool no more; null: nothing is different. A
    new tool has no `url` until it is accepted, and agents do not have it."""


serialize_tool = Serializer(ToolResponse, Tool)

routes = Routes()


@routes.create("/api/toolbox/tools/", body=ToolBody)
async def create_tool(request: web.Request, caller: Caller) -> ToolResponse:
    """Create a tool in one of your own adapters.

    Agents that have the adapter have the tool from their next model call on. A `$ref` to another document is
    refused.
    """
    storage = request.app[STORAGE]
    body = await read_body_once(request, caller)
    adapter = await load_named(caller, storage.adapters.get, "adapter", body["adapter_id"])
    is_enforced = await _check_parameters(request, adapter.organization_id, body["parameters"])
    await check_approval(request, caller, adapter.organization_id, body["approval"], body["approval"])
    now = request.app[CLOCK].now()
    tool = Tool(id=new_id(), created_at=now, is_enforced=is_enforced, **body)
    answer = serialize_tool(tool)
    with refusing_constraint_errors(body):
        await storage.tools.insert(tool, receipt_of(request, answer))
    return answer


async def _check_parameters(request: web.Request, organization_id: UUID, parameters: Any) -> bool:
    """Return whether the parameters are a schema that calls must fit. Raise Invalid if it is refused."""
    errors, is_enforced = await check_parameters(request.app[SCHEMA_CHECKER], organization_id, parameters)
    if errors:
        raise Invalid({"parameters": errors})
    return is_enforced


@routes.get("/api/toolbox/tools/", answer=list[ToolResponse], query=ToolQuery)
async def list_tools(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the tools of your own adapters and of the public ones, newest first."""
    query = read_query(request)
    await require_adapter(request, caller, query["adapter"])
    storage = request.app[STORAGE]

    async def find(tool_id: UUID) -> Tool | None:
        tool = await storage.tools.get(tool_id)
        await require_adapter(request, caller, tool.adapter_id if tool else None)
        return tool

    fetch = partial(storage.tools.list_page, caller.organizations, query["adapter"])
    return await answer_list(request, query, Listing(fetch, serialize_tool, find))


@routes.get("/api/toolbox/tools/{id}/")
async def get_tool(request: web.Request, caller: Caller) -> ToolResponse:
    """Read one tool, of your own or of a public adapter."""
    tool, adapter = await _load_tool_and_adapter(request)
    require_visible(caller, adapter)
    return serialize_tool(tool)


@routes.patch("/api/toolbox/tools/{id}/", body=ToolChangesBody)
async def change_tool(request: web.Request, caller: Caller) -> ToolResponse:
    """Change the fields that the body contains. Calls use the new values at once."""
    tool, adapter = await _load_tool_and_adapter(request)
    caller.require(adapter.organization_id)
    changes = await read_body(request)
    if "parameters" in changes:
        changes["is_enforced"] = await _check_parameters(
            request, adapter.organization_id, changes["parameters"]
        )
    approval = changes.get("approval", tool.approval)
    await check_approval(request, caller, adapter.organization_id, tool.approval, approval)
    with refusing_constraint_errors(changes):
        changed = await request.app[STORAGE].tools.update(tool.id, changes)
    return serialize_tool(require_found(changed))


@routes.post("/api/toolbox/tools/{id}/accept/")
async def accept_tool(request: web.Request, caller: Caller) -> ToolResponse:
    """Change the tool to what its MCP server offers, so that agents have it. Members are refused with 403.

    What waits for an approval of the tool is withdrawn. If nothing is offered, the tool stays as it is; one
    that its server offers no more can be deleted.
    """
    tool, adapter = await _load_tool_and_adapter(request)
    caller.require_admin(adapter.organization_id)
    return serialize_tool(await request.app[STORAGE].tools.accept(tool.id) or tool)


@routes.delete("/api/toolbox/tools/{id}/")
async def delete_tool(request: web.Request, caller: Caller) -> None:
    """Delete a tool. Agents no longer have it."""
    tool, adapter = await _load_tool_and_adapter(request)
    caller.require(adapter.organization_id)
    if not await request.app[STORAGE].tools.delete(tool.id):
        raise NotFound


async def _load_tool_and_adapter(request: web.Request) -> tuple[Tool, Adapter]:
    """Return the tool whose id is in the path and its adapter, of any organization."""
    storage = request.app[STORAGE]
    tool = await load(request, storage.tools.get)
    return tool, require_found(await storage.adapters.get(tool.adapter_id))
