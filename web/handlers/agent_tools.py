"""The tools of an agent, for outside harnesses: the same as in the built-in loop, and called the same way."""

from typing import Any

from aiohttp import web

from storage.errors import ReferenceMissing
from storage.model import Agent
from supervisors.tools.errors import UNKNOWN_TOOL, ToolError
from web.access.auth import Caller, RunAccess
from web.access.path_access import path_id
from web.app_keys import REGISTRY, STORAGE, TOOLBOX
from web.errors import NotFound
from web.fields import shown
from web.json import json_response
from web.request.parsing import read_values
from web.routes import for_callers
from web.schemas.agent_tools import (
    AgentToolResponse,
    ToolCallBody,
    ToolCalledResponse,
    ToolRefusedResponse,
    build_call_schema,
    serialize_agent_tool,
)

BODY = ToolCallBody()


async def list_agent_tools(request: web.Request, caller: Caller) -> web.Response:
    agent = await _agent(request, caller)
    definitions = await request.app[TOOLBOX].definitions(agent)
    return json_response([serialize_agent_tool(each) for each in definitions])


async def call_agent_tool(request: web.Request, caller: Caller) -> web.Response:
    """By a run's own token it is the run that calls, and only so can it sleep; else it is on its behalf."""
    agent = await _agent(request, caller)
    try:
        called: ToolCalledResponse = {"result": await _call(request, caller, agent)}
    except ToolError as error:
        refused: dict[str, Any] = {"error": error.as_json()}
        return json_response(refused, status=404 if error.code == UNKNOWN_TOOL else 400)
    except ReferenceMissing as error:
        raise NotFound from error  # the agent was deleted meanwhile
    return json_response(called)


async def _call(request: web.Request, caller: Caller, agent: Agent) -> Any:
    toolbox = request.app[TOOLBOX]
    tool = await toolbox.find(agent, shown(request.match_info["name"]))
    parameters = await read_values(request, build_call_schema(tool.definition))
    run_id = caller.run.run_id if caller.run else None
    return await toolbox.use(tool, agent, run_id, request.app[REGISTRY].ask, parameters)


async def _agent(request: web.Request, caller: Caller) -> Agent:
    agent = await request.app[STORAGE].agents.get(path_id(request))
    if agent is None:
        raise NotFound
    caller.require_agent(agent.id, agent.organization_id)
    return agent


ROUTES = (
    for_callers(
        "GET",
        "/api/cloud/agents/{id}/tools/",
        list_agent_tools,
        "List the tools that an agent has",
        answer=list[AgentToolResponse],
        run_access=RunAccess.RUNNING,
    ),
    for_callers(
        "POST",
        "/api/cloud/agents/{id}/tools/{name}/",
        call_agent_tool,
        "Call a tool on behalf of an agent",
        answer=ToolCalledResponse,
        body=BODY,
        run_access=RunAccess.RUNNING,
        refused=ToolRefusedResponse,
    ),
)
