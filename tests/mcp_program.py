"""An MCP server written with the official SDK, for the tests: `python -m tests.mcp_program` prints its port.

With `--legacy` it knows no version after 2025-11-25, like most servers of that time. It appends the calls of
tools that go on later to the file that `--log` names, and its tasks are done once the file `--done` exists.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ImageContent,
    InputRequiredResult,
    RequestParams,
    Result,
    TextContent,
)
from pydantic import BaseModel

from tests.paths import ROOT
from tests.patience import PATIENCE_SECONDS

Scope = MutableMapping[str, Any]
REQUESTED = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}

parser = argparse.ArgumentParser()
parser.add_argument("--legacy", action="store_true")
parser.add_argument("--log", type=Path, default=Path("/dev/null"))
parser.add_argument("--done", type=Path, default=Path("/dev/null"))
given = parser.parse_args() if __name__ == "__main__" else parser.parse_args([])


class TaskParams(RequestParams):
    """Which task is meant."""

    task_id: str
    input_responses: dict[str, Any] | None = None


class Task(Result):
    """A task, as it is created, and as it is asked for."""

    result_type: Literal["task", "complete"]
    task_id: str
    status: str
    created_at: str = "2026-07-28T00:00:00Z"
    last_updated_at: str = "2026-07-28T00:00:00Z"
    ttl_ms: int | None = None
    poll_interval_ms: int = 20
    result: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


def note(what: str, value: Any) -> None:
    with given.log.open("a") as file:
        file.write(json.dumps([what, value]) + "\n")


def asked(message: str) -> dict[str, Any]:
    return {
        "sure": ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=REQUESTED))
    }


class Tasks(Extension):
    """The tool `build` answers by a task, and so does `build_if_sure`, whose task asks a person first."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.sure: set[str] = set()

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/update", TaskParams, self.update),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        arguments, responses = params.arguments or {}, params.input_responses
        match params.name:
            case "build" | "build_if_sure":
                note("build", arguments)
                task_id = f"{params.name} {arguments['what']}"
                return Task(result_type="task", task_id=task_id, status="working")
            case "refund" if responses is None:
                note("refund", arguments)
                requests = asked(f"Refund {arguments['amount']}?")
                return InputRequiredResult(input_requests=requests, request_state="the state")
            case "refund" if responses is not None:
                answers = {key: each.model_dump()["content"] for key, each in responses.items()}
                note("refunded", [arguments, params.request_state, answers])
                text = TextContent(type="text", text=f"refunded {arguments['amount']}")
                return CallToolResult(content=[text])
        return await call_next(ctx)

    async def get(self, _: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        task = Task(result_type="complete", task_id=params.task_id, status="working")
        if params.task_id.startswith("build_if_sure") and params.task_id not in self.sure:
            return task.model_copy(update={"status": "input_required", "input_requests": asked("Sure?")})
        if given.done.exists():
            result = {"content": [{"type": "text", "text": f"did {params.task_id}"}]}
            return task.model_copy(update={"status": "completed", "result": result})
        return task

    async def update(self, _: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        note("update", [params.task_id, params.input_responses])
        self.sure.add(params.task_id)
        return {"resultType": "complete"}


server = MCPServer("weather", log_level="CRITICAL", extensions=[Tasks()])


class Weather(BaseModel):
    """What it is like in a city."""

    city: str
    degrees: int


class Answer(BaseModel):
    """What a person fills in."""

    sure: bool


@server.tool()
def look_up(city: str) -> Weather:
    """Tells how warm it is in a city."""
    return Weather(city=city, degrees=21)


@server.tool(structured_output=False)
def say(words: list[str]) -> list[TextContent]:
    """Says words."""
    return [TextContent(type="text", text=word) for word in words]


@server.tool(structured_output=False)
def draw() -> list[TextContent | ImageContent]:
    """Draws the weather."""
    picture = ImageContent(type="image", data="aGk=", mime_type="image/png")
    return [TextContent(type="text", text="sun"), picture]


@server.tool(structured_output=False)
def headers(context: Context) -> str:
    """Tells some headers of its request."""
    request = context.request_context.request
    assert request is not None
    names = ("authorization", "idempotency-key", "mcp-protocol-version", "host")
    return " ".join(f"{name}={request.headers[name]}" for name in names if name in request.headers)


@server.tool(structured_output=False)
async def confirm(question: str, context: Context) -> str:
    """Asks the person at the client, during the call."""
    answer = await context.elicit(question, Answer)
    return answer.action


@server.tool(structured_output=False)
def build(what: str) -> str:
    """Builds something, which takes long."""
    raise AssertionError(what)


@server.tool(structured_output=False)
def build_if_sure(what: str) -> str:
    """Builds something once a person is sure."""
    raise AssertionError(what)


@server.tool(structured_output=False)
def refund(amount: int) -> str:
    """Refunds an amount if a person is sure."""
    raise AssertionError(amount)


def application() -> Callable[..., Awaitable[None]]:
    """Return the server as an ASGI application."""
    app = server.streamable_http_app()

    async def before_2026(scope: Scope, receive: Any, send: Any) -> None:
        versions = {value for name, value in scope.get("headers", ()) if name == b"mcp-protocol-version"}
        if given.legacy and b"2026-07-28" in versions:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"Unsupported protocol version"})
            return
        await app(scope, receive, send)

    return before_2026


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[str]:
    """Run the server in a process of its own, and yield the URL of its endpoint."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.mcp_program", *arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.communicate()


async def main() -> None:
    serving = uvicorn.Server(uvicorn.Config(application(), host="127.0.0.1", port=0, log_level="error"))
    task = asyncio.create_task(serving.serve())
    while not serving.started:  # noqa: ASYNC110 -- it has no event for that
        await asyncio.sleep(0.01)
    print(serving.servers[0].sockets[0].getsockname()[1], flush=True)  # noqa: T201
    await task


if __name__ == "__main__":
    asyncio.run(main())
