"""The tools of an agent, for outside harnesses: the same as in the built-in loop, and called the same way."""

from typing import Any

from aiohttp import web

from storage.errors import ReferenceMissing
from storage.model import Agent
from supervisors.tools.arguments import UNKNOWN_TOOL, ToolError
from supervisors.tools.toolkit import PartialResult
from web.access.auth import Caller, RunAccess
from web.access.path_access import load_agent
from web.app_keys import REGISTRY, TOOLBOX
from web.errors import NotFound
from web.fields import printable
from web.json import json_response
from web.request.parsing import read_values
from web.routes import Routes
from web.schemas.agent_tools import (
    AgentToolResponse,
    ToolCallBody,
    ToolCalledResponse,
    ToolRefusedResponse,
    build_call_schema,
    serialize_agent_tool,
)

routes = Routes()

BODY = ToolCallBody()


@routes.get("/api/cloud/agents/{id}/tools/", answer=list[AgentToolResponse], run_access=RunAccess.RUNNING)
async def list_agent_tools(request: web.Request, caller: Caller) -> web.Response:
    """List the tools that the agent has now: built-in ones and those of its adapters.

    Tools that deliver messages are left out, because only `send_message` and `send_sms` call them.
    """
    agent = await load_agent(request, caller)
    definitions = await request.app[TOOLBOX].definitions(agent)
    return json_response([serialize_agent_tool(definition) for definition in definitions])


@routes.post(
    "/api/cloud/agents/{id}/tools/{name}/",
    answer=ToolCalledResponse,
    body=BODY,
    run_access=RunAccess.RUNNING,
    refused=ToolRefusedResponse,
)
async def call_agent_tool(request: web.Request, caller: Caller) -> web.Response:
    """Call a tool on behalf of an agent. The body holds the parameters by name.

    With the token of a run, the run is the caller; only then can it sleep. A tool that fails is answered with
    400 and an `error` with a code, an unknown one with 404. A tool of an adapter may take up to
    `outbound.timeout_seconds`.
    """
    agent = await load_agent(request, caller)
    try:
        result = await _call_tool(request, caller, agent)
    except ToolError as error:
        refused: dict[str, Any] = {"error": error.as_json()}
        return json_response(refused, status=404 if error.code == UNKNOWN_TOOL else 400)
    except ReferenceMissing as error:
        raise NotFound from error  # the agent was deleted during the call
    return json_response(_called(result))


def _called(result: Any) -> ToolCalledResponse:
    if isinstance(result, PartialResult):
        return {"result": result.value, "left_out": result.left_out}
    return {"result": result}


async def _call_tool(request: web.Request, caller: Caller, agent: Agent) -> Any:
    toolbox = request.app[TOOLBOX]
    tool = await toolbox.find(agent, printable(request.match_info["name"]))
    parameters = await read_values(request, build_call_schema(tool.definition))
    run_id = caller.run.run_id if caller.run else None
    return await toolbox.use(
        tool, agent, run_id, request.app[REGISTRY].ask, parameters, caller=caller.identity
    )
