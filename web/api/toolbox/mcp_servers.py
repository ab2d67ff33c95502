"""MCP servers whose tools are tools of an adapter."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from aiohttp import web

from storage.errors import ReferenceMissing
from storage.mcp_servers import McpServer
from storage.toolbox import Adapter
from web.access.auth import Caller
from web.access.path_access import load_owned
from web.app_keys import CLOCK, STORAGE, TOOLSET
from web.errors import NotFound, require_found
from web.fields import Url
from web.json import Serializer
from web.request.parsing import Body, read_body
from web.routes import Routes
from web.secret_fields import SecretHeaders


class McpServerBody(Body):
    """The address of an MCP server, and the secrets that it wants."""

    url = Url(required=True, blank=False, max_length=200)
    headers = SecretHeaders(load_default=dict)


class McpServerResponse(TypedDict):
    """The MCP server of an adapter."""

    adapter: UUID
    """The adapter that has the tools of the server."""
    url: str
    """The http or https URL of the server, which all its tools have."""
    headers: Mapping[str, str]
    """Headers with which the list of tools is read, at most 20, such as `{"Authorization": "CRM_KEY"}`, each
    with the name of a secret of the organization as its value. Calls have those of adapter configs."""
    listed_at: datetime | None
    """When the list of tools was last read; null: never yet."""
    refresh_at: datetime
    """When it is read again."""
    error: str
    """Why the list could not be read the last time, or which tools were left out; "" if all is well."""


serialize_mcp_server = Serializer(McpServerResponse, McpServer)

routes = Routes()


@routes.post("/api/toolbox/adapters/{id}/mcp/", body=McpServerBody)
async def import_mcp_server(request: web.Request, caller: Caller) -> McpServerResponse:
    """Import the tools of an MCP server into the adapter. Members are refused with 403.

    The tools of the first list become tools of the adapter at once, with handlers `mcp:<name>`. The list is
    read again when it expires, and by each further call of this route; what has changed then waits as
    `offered` of the tool. A server that cannot be reached is tried again; `error` says why. An adapter has
    one server: a new `url` becomes that of all its tools.
    """
    storage = request.app[STORAGE]
    adapter = await load_owned(request, caller, storage.adapters.get, Caller.require_admin)
    body = await read_body(request)
    try:
        await storage.mcp_servers.put(adapter.id, body["url"], body["headers"], request.app[CLOCK].now())
    except ReferenceMissing as error:
        raise NotFound from error  # the adapter was deleted in between
    await request.app[TOOLSET].imports.refresh(await _load(request, adapter))
    return serialize_mcp_server(await _load(request, adapter))


@routes.get("/api/toolbox/adapters/{id}/mcp/")
async def get_mcp_server(request: web.Request, caller: Caller) -> McpServerResponse:
    """Read the MCP server of an adapter of your own; 404 if it has none."""
    adapter = await load_owned(request, caller, request.app[STORAGE].adapters.get)
    return serialize_mcp_server(await _load(request, adapter))


async def _load(request: web.Request, adapter: Adapter) -> McpServer:
    return require_found(await request.app[STORAGE].mcp_servers.get(adapter.id))
