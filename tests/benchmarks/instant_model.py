"""A model that answers at once with the same tool call, and records when it is asked and has answered.

    python -m tests.benchmarks.instant_model [SECONDS]

With SECONDS it thinks for so long first. GET /gaps tells what passed between each answer and the next
question, in milliseconds: so long the loop takes for its part of a turn. GET /waiting: how many wait.
"""

import asyncio
import socket
import sys
import time

import orjson
import uvloop
from aiohttp import web

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "instant",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "list_notifications", "arguments": "{}"},
                    }
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010},
}


async def serve(thinks_seconds: float) -> None:
    """Serve until the process ends."""
    answer, gaps = orjson.dumps(ANSWER), list[float]()
    answered_at = 0.0
    waiting = 0

    async def complete(request: web.Request) -> web.Response:
        nonlocal answered_at, waiting
        if answered_at:
            gaps.append(1000 * (time.perf_counter() - answered_at))
        waiting += 1
        await request.read()
        if thinks_seconds:
            await asyncio.sleep(thinks_seconds)
        waiting -= 1
        answered_at = time.perf_counter()
        return web.Response(body=answer, content_type="application/json")

    async def tell_gaps(_: web.Request) -> web.Response:
        return web.json_response(gaps)

    async def tell_waiting(_: web.Request) -> web.Response:
        return web.json_response(waiting)

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", complete)
    app.router.add_get("/gaps", tell_gaps)
    app.router.add_get("/waiting", tell_waiting)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    await web.SockSite(runner, listener).start()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
