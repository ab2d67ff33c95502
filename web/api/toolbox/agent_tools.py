"""The tools of an agent, for outside harnesses: the same as in the built-in loop, and called the same way."""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, cast
from uuid import UUID

from aiohttp import web
from marshmallow import INCLUDE, fields

from storage.errors import ReferenceMissing
from storage.model import Agent
from supervisors.tools.arguments import UNKNOWN_TOOL, ToolError
from supervisors.tools.tool import AgentTool, PartialResult, ToolDefinition
from web.access.auth import Caller, RunAccess
from web.access.path_access import load_agent
from web.app_keys import REGISTRY, STORAGE, TOOLSET
from web.errors import NotFound
from web.fields import Boolean, JsonValue, Text, printable
from web.json import Serializer, json_response
from web.request.parsing import Body, read_values
from web.routes import Routes

JSON_FIELD = JsonValue(allow_none=True)
TEXT_FIELD = Text()
BOOLEAN_FIELD = Boolean(allow_none=True)


class ToolCallBody(Body):
    """The parameters, by name, as the tool's definition says."""

    class Meta:
        unknown = INCLUDE


class AgentToolResponse(TypedDict):
    """A tool of an agent, as its model sees it."""

    name: str
    """The name to call it by: letters, digits, `_` and `-`, unique among the agent's tools."""
    description: str
    """What the tool does, and what its parameters mean if they are no JSON Schema."""
    parameters: dict[str, Any]
    """A JSON Schema for the parameters."""
    adapter: UUID | None
    """The adapter that the tool belongs to; null: a built-in tool, which every agent has."""


class ToolCalledResponse(TypedDict):
    """The result of a call."""

    result: Any
    """The answer of the tool, as JSON or text; null if it had none."""
    left_out: NotRequired[str]
    """What is missing from a result that would have been too long; only in that case."""


class ToolErrorResponse(TypedDict):
    """Why a call failed. Some codes come with further fields, such as `status` or `errors`."""

    code: str
    """A code for programs, such as `invalid`, `not_found`, `unknown_tool` or `tool_failed`."""
    message: str
    """A sentence for the model that tells it what to do instead."""


class ToolRefusedResponse(TypedDict):
    """The answer to a call that failed."""

    error: ToolErrorResponse
    """Why the call failed."""


serialize_agent_tool = Serializer(AgentToolResponse, ToolDefinition)


def build_call_schema(definition: ToolDefinition) -> Body:
    """Return the schema that reads the parameters of a call to this tool.

    It only says how each parameter is written in a form; the tool checks the values. A parameter that the
    definition does not name is a text.
    """
    # Only our own tools accept a boolean that is written as text.
    boolean_field = BOOLEAN_FIELD if definition.adapter_id is None else JSON_FIELD
    properties = definition.parameters["properties"]
    form_fields = {name: _form_field(schema, boolean_field) for name, schema in properties.items()}
    return cast(Body, ToolCallBody.from_dict(form_fields)())


def _form_field(schema: Any, boolean_field: fields.Field[Any]) -> fields.Field[Any]:
    """Return the field for a property with this schema, which may be `true` or name several types."""
    match schema:
        case {"type": "string"}:
            return TEXT_FIELD
        case {"type": "boolean"}:
            return boolean_field
        case _:
            return JSON_FIELD


routes = Routes()


@routes.get("/api/cloud/agents/{id}/tools/", run_access=RunAccess.RUNNING)
async def list_agent_tools(request: web.Request, caller: Caller) -> list[AgentToolResponse]:
    """List the tools that the agent has now: built-in ones and those of its adapters.

    Tools that deliver messages are left out, because only `send_message` and `send_sms` call them.
    """
    agent = await load_agent(request, caller)
    template = await request.app[STORAGE].templates.get_of(agent)
    definitions = await request.app[TOOLSET].definitions(agent, template)
    return [serialize_agent_tool(definition) for definition in definitions]


@routes.post(
    "/api/cloud/agents/{id}/tools/{name}/",
    answer=ToolCalledResponse,
    body=ToolCallBody,
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
        tool = await request.app[TOOLSET].find(agent, printable(request.match_info["name"]))
        parameters = await read_values(request, build_call_schema(tool.definition))
        result = await use_tool(request, caller, agent, tool, parameters)
    except ToolError as error:
        refused: dict[str, Any] = {"error": error.as_json()}
        return json_response(refused, status=404 if error.code == UNKNOWN_TOOL else 400)
    return json_response(_called(result))


def _called(result: Any) -> ToolCalledResponse:
    if isinstance(result, PartialResult):
        return {"result": result.value, "left_out": result.left_out}
    return {"result": result}


async def use_tool(
    request: web.Request, caller: Caller, agent: Agent, tool: AgentTool, parameters: Mapping[str, Any]
) -> Any:
    """Call a tool on behalf of an agent, and for the run whose token is used.

    Raise ToolError if it fails, NotFound if the agent was deleted during the call.
    """
    run_id, ask = caller.run.run_id if caller.run else None, request.app[REGISTRY].ask
    try:
        return await request.app[TOOLSET].use(tool, agent, run_id, ask, parameters, caller=caller.identity)
    except ReferenceMissing as error:
        raise NotFound from error
