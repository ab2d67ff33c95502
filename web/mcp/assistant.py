"""The service for a person's assistant, as a server of the Model Context Protocol.

A run that a tool starts is a task of the protocol: its handle is the id of the run, and all that is told of
the task is read from the run.
"""

from functools import cache, partial
from typing import Any

from aiohttp import web
from asyncpg import Record
from marshmallow import ValidationError

from storage.errors import StorageError
from storage.model import Outcome
from supervisors.engine.messages import StopRequest
from supervisors.errors import SupervisorError
from web.access.auth import Caller
from web.api.agents.runs import serialize_run
from web.app_keys import REGISTRY
from web.errors import ApiError, Invalid, NotFound, PermissionDenied, refusal_of, require_found
from web.fields import parse_uuid, printable
from web.json import to_json
from web.mcp import protocol
from web.mcp.protocol import Json, Message, ProtocolError, tool_result
from web.mcp.service_tools import (
    MAX_RESULT_BYTES,
    MAX_WAIT_SECONDS,
    TOOLS,
    await_run,
    load_run,
    run_agent,
    start_run,
)
from web.openapi.requests import body_schema
from web.openapi.schemas import Components, description_of
from web.request.parsing import Body
from web.routes import Routes

INSTRUCTIONS = (
    "Agents that work by themselves for the user's organization: they sleep, and wake for notifications, "
    "schedules and messages. Begin with overview or list_agents; why explains what one agent is doing."
)
POLL_MS = 5000  # at which clients should ask for a task
TOLD = frozenset({400, 403, 404, 409})  # refusals that the model can do something about
SUCCESSES = frozenset({Outcome.SLEPT, Outcome.ENDED, Outcome.TURN_LIMIT})
RELATED_TASK = "io.modelcontextprotocol/related-task"
TASK_METHODS = {
    protocol.MODERN: frozenset({"tasks/get", "tasks/update", "tasks/cancel"}),
    protocol.LEGACY[0]: frozenset({"tasks/get", "tasks/result"}),
}

routes = Routes()


@routes.post("/mcp/", body=protocol.MessageBody)
async def serve_assistant(request: web.Request, caller: Caller) -> web.Response:
    """List and call the tools for a person's assistant by the Model Context Protocol."""
    tools = partial(protocol.loaded, _described_tools)
    call, task = partial(_call, request, caller), partial(_answer_task, request, caller)
    return await protocol.serve(request, protocol.Server(INSTRUCTIONS, tools, call, task))


@cache
def _described_tools() -> list[Json]:
    """Describe the tools. The descriptions of their arguments are read from the source."""
    return [
        {
            "name": name,
            "description": description_of(each.use.__doc__),
            "inputSchema": _argument_schema(each.arguments),
            "annotations": {"readOnlyHint": each.is_read},
        }
        | ({"execution": {"taskSupport": "optional"}} if each.use is run_agent else {})
        for name, each in TOOLS.items()
    ]


def _argument_schema(arguments: Body) -> Json:
    components = Components()
    schema = _inlined(body_schema(arguments, components, partial=False), components)
    schema.pop("description", None)  # that of the class
    return {**schema, "additionalProperties": False}


def _inlined(schema: Any, components: Components) -> Any:
    """Return a schema that contains what it refers to, without defaults of null."""
    if isinstance(schema, list):
        return [_inlined(item, components) for item in schema]
    if not isinstance(schema, dict):
        return schema
    whole = components.referred(schema) | {name: each for name, each in schema.items() if name != "$ref"}
    named = {name: each for name, each in whole.items() if (name, each) != ("default", None)}
    return {name: _inlined(each, components) for name, each in named.items()}


async def _call(request: web.Request, caller: Caller, message: Message) -> Json:
    """Call a tool. What a route would refuse because of the arguments is told to the model."""
    name, given = message.params["name"], message.params.get("arguments") or {}
    called = TOOLS.get(name)
    if called is None:
        raise ProtocolError(protocol.INVALID_PARAMS, f"There is no tool named {printable(name)}.")
    try:
        if unknown := called.arguments.known.unknown_in(given):
            raise Invalid({printable(path): ["There is no such argument."] for path in unknown})
        arguments = called.arguments.checked(given)
        if called.use is run_agent and message.takes_tasks:
            return await _begin_task(request, caller, message, arguments)
        return _result(await called.use(request, caller, arguments))
    except (ApiError, ValidationError, StorageError, SupervisorError) as error:
        refusal = refusal_of(error)
        if refusal is None or refusal.status not in TOLD:
            raise
        return tool_result(refusal.body, is_error=True)


def _result(value: Any) -> Json:
    text = to_json(value)
    if len(text) <= MAX_RESULT_BYTES:
        return tool_result(text.decode())
    reason = f"The result is too long: {len(text)} bytes. Ask for a shorter period, or for fewer items."
    return tool_result(reason, is_error=True)


async def _begin_task(request: web.Request, caller: Caller, message: Message, arguments: Json) -> Json:
    """Start a run and return it as a task; without a run, say why there is none."""
    reply = await start_run(request, caller, arguments)
    if reply.run is None:
        return tool_result({"status": reply.status, "run": None}, is_error=True)
    task = _task(await load_run(request, caller, reply.run), message)
    return {"resultType": "task", **task} if message.is_modern else {"task": task}


async def _answer_task(request: web.Request, caller: Caller, message: Message) -> Json:
    """Answer a request about a task, which is the run of that id."""
    if message.method not in TASK_METHODS.get(message.version, ()):
        raise protocol.unknown_method(message)
    if message.is_modern and not message.takes_tasks:
        data: Json = {"requiredCapabilities": {"extensions": {protocol.TASKS: {}}}}
        raise ProtocolError(protocol.MISSING_CAPABILITY, "Missing required client capability", data)
    run_id = parse_uuid(str(message.params.get("taskId")))
    seconds = MAX_WAIT_SECONDS if message.method == "tasks/result" else 0
    try:
        run = await await_run(request, caller, require_found(run_id), seconds)
    except (NotFound, PermissionDenied) as error:
        raise ProtocolError(protocol.INVALID_PARAMS, "There is no such task.") from error
    match message.method:
        case "tasks/get":
            return _task(run, message)
        case "tasks/result" if run["ended_at"] is None:
            raise ProtocolError(protocol.INTERNAL_ERROR, "The run is still active. Ask again.")
        case "tasks/result":
            return _ended(run) | {"_meta": {RELATED_TASK: {"taskId": run["id"]}}}
        case "tasks/cancel" if run["ended_at"] is None:
            stop = StopRequest(caller=caller.identity, waits=False)
            await request.app[REGISTRY].ask(run["agent_id"], stop)
    return {}


def _task(run: Record, message: Message) -> Json:
    """Return the run as a task; one of the modern era contains its result."""
    is_modern, status = message.is_modern, "working"
    if run["outcome"] == Outcome.STOPPED:
        status = "cancelled"
    elif run["ended_at"] is not None:
        status = "completed" if is_modern or run["outcome"] in SUCCESSES else "failed"
    task = {
        "taskId": run["id"],
        "status": status,
        "createdAt": run["started_at"],
        "lastUpdatedAt": run["ended_at"] or run["started_at"],
        "ttlMs" if is_modern else "ttl": None,
        "pollIntervalMs" if is_modern else "pollInterval": POLL_MS,
    }
    return task | ({"result": _ended(run)} if is_modern and status == "completed" else {})


def _ended(run: Record) -> Json:
    return _result(serialize_run.row(run)) | {"isError": run["outcome"] not in SUCCESSES}
