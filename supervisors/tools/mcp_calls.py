"""Calls of tools of MCP servers: the requests, and what follows from their results.

What a call that goes on later needs is `remote` of its row: a task that is asked for, or the state of a
server that has asked a person.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from storage.parked_calls import ParkedCall
from storage.postgres.json_values import decoded, to_json
from storage.toolbox import MAX_SHOWN_BYTES, MCP, CallableTool
from supervisors.clock import Clock
from supervisors.outbound import McpFailed, McpRequest, OutboundCall, OutboundError
from supervisors.policy.parked_calls import CallAnswer
from supervisors.text import cut, excerpt, format_timestamp, hide, storable
from supervisors.tools.arguments import ToolError

TASKS_GET = "tasks/get"
INVALID_PARAMS = -32602  # the server does not know the task
MAX_ERROR_CHARACTERS = 300
MAX_QUESTION_CHARACTERS = 10_000
MAX_REMOTE_BYTES = 65_536
FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 2.0, 600.0
MAX_TASK = timedelta(days=30)


AskMcp = Callable[[McpRequest], Awaitable[dict[str, Any]]]


async def call_mcp(
    tool: CallableTool, call: OutboundCall, parked: ParkedCall | None, ask: AskMcp, clock: Clock
) -> CallAnswer:
    """Call the tool, or go on with a parked call of it. Raise OutboundError, or ToolError if it has failed.

    A server that has forgotten what it asked a person is asked anew. If it asks the same, the answer of the
    person is still good: until it has the answer, the call has had no effect.
    """

    async def result_of(request: McpRequest) -> dict[str, Any]:
        return await asyncio.to_thread(_without_secrets, tool, await ask(request))

    request = _request(tool, call, parked)
    try:
        return _answer_of(request, await result_of(request), parked, clock.now())
    except OutboundError as error:
        code = error.code if isinstance(error, McpFailed) else 0
        if parked is not None and request.method == TASKS_GET and code != INVALID_PARAMS:
            return _poll_again(decoded(parked.remote), clock.now())
        if parked is None or code != INVALID_PARAMS or "requestState" not in str(error):
            raise
    again = _request(tool, call, None)
    answer = _answer_of(again, await result_of(again), None, clock.now())
    if (answer.question, answer.schema) != (parked.question, decoded(parked.answer_schema)):
        return answer
    request = _request(tool, call, replace(parked, remote=answer.remote))
    return _answer_of(request, await result_of(request), parked, clock.now())


def _request(tool: CallableTool, call: OutboundCall, parked: ParkedCall | None) -> McpRequest:
    """Return the request for a call, whose body is that for other tools, or to go on with a parked one."""
    remote = decoded(parked.remote) if parked else None
    name, arguments = tool.handler.removeprefix(MCP), orjson.loads(call.body)["data"]["arguments"]
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    method, headers = "tools/call", dict(call.headers)
    if parked is not None and remote:
        del headers["Idempotency-Key"]  # it is another request
        answers = _input_responses(remote.get("requests", {}), orjson.loads(parked.answer or "null"))
        if "task" in remote:
            method = "tasks/update" if answers else TASKS_GET
            params = {"taskId": remote["task"]} | ({"inputResponses": answers} if answers else {})
        else:
            params |= {"requestState": remote["state"], "inputResponses": answers}
            params = {key: value for key, value in params.items() if value is not None}
    return McpRequest(call.organization_id, tool.url, method, params, headers)


def _input_responses(requests: Mapping[str, str], answer: Any) -> dict[str, Any]:
    """Return the answer of a person as those to the requests of the server, by key."""
    forms = [key for key, mode in requests.items() if mode == "form"]
    contents = {key: answer if len(forms) == 1 else answer[key] for key in forms}
    return {
        key: {"action": "accept", **({"content": contents[key]} if key in contents else {})}
        for key in requests
    }


def _without_secrets(tool: CallableTool, result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a server, which may repeat the headers of the call."""
    if not tool.headers:
        return result
    hidden: dict[str, Any] = orjson.loads(hide(to_json(result), tool.headers.values()))
    return hidden


def _answer_of(
    request: McpRequest, result: Mapping[str, Any], parked: ParkedCall | None, now: datetime
) -> CallAnswer:
    """Return what follows from the result of a request. Raise ToolError if the tool has failed."""
    remote = (decoded(parked.remote) if parked else None) or {}
    if request.method == "tasks/update":
        answered = [*remote.get("answered", ()), *remote["requests"]]
        return _poll_again({**remote, "answered": answered, "requests": {}}, now)
    if request.method == TASKS_GET or result.get("resultType") == "task":
        return _answer_of_task(result, remote, now)
    if result.get("resultType") == "input_required":
        state, requests = result.get("requestState"), result.get("inputRequests")
        return _question(requests, {"state": state})
    return CallAnswer(result_of_call(result))


def _answer_of_task(task: Mapping[str, Any], remote: Mapping[str, Any], now: datetime) -> CallAnswer:
    task_id, status = task.get("taskId"), task.get("status")
    if not isinstance(task_id, str) or remote.get("task", task_id) != task_id:
        raise ToolError("unusable_answer", "The MCP server answered for another task than the one asked for.")
    if status == "completed" and isinstance(task.get("result"), dict):
        return CallAnswer(result_of_call(task["result"]))
    if status in {"completed", "failed", "cancelled"}:
        error = task.get("error")
        reason = (error.get("message") if isinstance(error, dict) else None) or task.get("statusMessage")
        details = f": {excerpt(str(reason), MAX_ERROR_CHARACTERS)}" if reason else "."
        raise ToolError("tool_failed", f"The task of the tool ended as {status}{details}")
    lifetime, interval = _span(task.get("ttlMs")) or MAX_TASK, _span(task.get("pollIntervalMs"))
    new = {"task": task_id, "until": format_timestamp(now + min(lifetime, MAX_TASK)), **remote}
    requests = task.get("inputRequests") if status == "input_required" else None
    if isinstance(requests, dict) and (unanswered := requests.keys() - {*new.get("answered", ())}):
        return _question({key: requests[key] for key in unanswered}, new)
    return _poll_again(new, now, interval)


def _span(milliseconds: Any) -> timedelta | None:
    return timedelta(milliseconds=min(milliseconds, 10**12)) if type(milliseconds) is int else None


def _poll_again(remote: Mapping[str, Any], now: datetime, interval: timedelta | None = None) -> CallAnswer:
    """Return that a task goes on, and is asked for later and later, but not before the server wants it."""
    least = interval.total_seconds() if interval else 0.0
    seconds = min(max(least, 2 * remote.get("seconds", FIRST_POLL_SECONDS / 2)), MAX_POLL_SECONDS)
    until = datetime.fromisoformat(remote["until"])
    poll_at = min(now + timedelta(seconds=seconds), until)
    return CallAnswer(expires_at=until, poll_at=poll_at, remote={**remote, "seconds": seconds})


def _question(requests: Any, remote: Mapping[str, Any]) -> CallAnswer:
    """Return what the server asks a person. Raise ToolError if it asks for anything else."""
    texts: list[str] = []
    schemas: dict[str, Any] = {}
    modes: dict[str, str] = {}
    for key, request in requests.items() if isinstance(requests, dict) else ():
        match request:
            case {"method": "elicitation/create", "params": {"message": str(text), "url": str(url)}}:
                texts.append(f"{text}\n{url}")
                modes[key] = "url"
            case {"method": "elicitation/create", "params": {"message": str(text), **params}}:
                texts.append(text)
                modes[key], schemas[key] = "form", params.get("requestedSchema", {})
            case _:
                raise ToolError("unusable_answer", "The MCP server asks for what the service does not have.")
    schema = {"type": "object", "properties": schemas, "required": list(schemas)}
    if len(schemas) < 2:
        schema = next(iter(schemas.values()), {})
    question, new = storable("\n\n".join(texts)), {**remote, "requests": modes}
    if not question or len(to_json(schema)) > MAX_SHOWN_BYTES or len(to_json(new)) > MAX_REMOTE_BYTES:
        raise ToolError("unusable_answer", "The MCP server asks nothing, or too much.")
    return CallAnswer(question=cut(question, MAX_QUESTION_CHARACTERS), schema=schema, remote=new)


def result_of_call(result: Mapping[str, Any]) -> Any:
    """Return what the model reads of the result of `tools/call`. Raise ToolError if the tool has failed."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if _is_text(block)]
    if result.get("isError"):
        details = excerpt(" ".join("\n".join(texts).split()), MAX_ERROR_CHARACTERS)
        raise ToolError("tool_failed", f"The tool failed: {details}" if details else "The tool failed.")
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    if len(texts) == len(blocks):
        return "\n".join(texts) if texts else None
    return blocks


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
