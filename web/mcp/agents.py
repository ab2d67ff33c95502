"""The tools of an agent as a server of the Model Context Protocol, for any framework that speaks it."""

from typing import Any

from aiohttp import web

from supervisors.tools.arguments import UNKNOWN_TOOL, ToolError
from supervisors.tools.tool import PartialResult, ToolDefinition
from web.access.auth import Caller, RunAccess
from web.access.path_access import load_agent
from web.api.toolbox.agent_tools import use_tool
from web.app_keys import STORAGE, TOOLSET
from web.fields import printable
from web.mcp.protocol import (
    INVALID_PARAMS,
    Json,
    Message,
    MessageBody,
    ProtocolError,
    Server,
    serve,
    tool_result,
)
from web.routes import Routes

INSTRUCTIONS = "The tools of one agent. A call acts for that agent, and for the run whose token is used."
HEADER_MARK = "x-mcp-header"

routes = Routes()


@routes.post("/api/cloud/agents/{id}/mcp/", body=MessageBody, run_access=RunAccess.RUNNING)
async def serve_agent_tools(request: web.Request, caller: Caller) -> web.Response:
    """List and call the tools of an agent by the Model Context Protocol, as its built-in loop would."""
    agent = await load_agent(request, caller)
    toolset = request.app[TOOLSET]

    async def tools() -> list[Json]:
        template = await request.app[STORAGE].templates.get_of(agent)
        return [_describe(definition) for definition in await toolset.definitions(agent, template)]

    async def call(message: Message) -> Json:
        arguments = message.params.get("arguments") or {}
        try:
            tool = await toolset.find(agent, printable(message.params["name"]))
            result = await use_tool(request, caller, agent, tool, arguments)
        except ToolError as error:
            if error.code == UNKNOWN_TOOL:
                raise ProtocolError(INVALID_PARAMS, error.message) from error
            return tool_result(error.as_json(), is_error=True)
        if isinstance(result, PartialResult):
            return tool_result(result.value, result.left_out)
        return tool_result(result)

    return await serve(request, Server(INSTRUCTIONS, tools, call))


def _describe(definition: ToolDefinition) -> Json:
    """Return a tool as the protocol describes one.

    A mark that asks clients to repeat a parameter in a header is left out: it is for the tool's own server.
    """
    schema = _without_marks(definition.parameters)
    return {"name": definition.name, "description": definition.description, "inputSchema": schema}


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_marks(item)
        for name, item in value.items()
        if name != HEADER_MARK or not isinstance(item, str)
    }
