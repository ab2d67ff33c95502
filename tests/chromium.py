"""A real browser without a window: Chromium, driven by its DevTools protocol."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse

PATHS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
START_SECONDS = 60.0
MISSING = "needs Chromium: install the package chromium, or Google Chrome"


class Page:
    """A page of the browser."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)

    async def open(self, url: str) -> None:
        """Navigate to the address, and wait until the page is there."""
        await self._call("Page.navigate", url=url)
        await self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done(1) "
            ": addEventListener('load', () => done(1)))"
        )

    async def evaluate(self, script: str) -> Any:
        """Return the JSON value of an expression, or of the promise that it returns."""
        answer = await self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(START_SECONDS):
            while (message := await self._socket.receive_json()).get("id") != number:
                pass
        assert "error" not in message, message
        return message["result"]


@asynccontextmanager
async def chromium(directory: Path) -> AsyncIterator[Page]:
    """Yield a blank page; skip the test if there is no browser. The profile is kept in the directory."""
    path = next(filter(None, map(shutil.which, PATHS)), None)
    if path is None:
        pytest.skip(MISSING)
    options = (*FLAGS, "--remote-debugging-port=0", f"--user-data-dir={directory}", "about:blank")
    process = await asyncio.create_subprocess_exec(path, *options, stderr=asyncio.subprocess.PIPE)
    try:
        port = await _debugging_port(process)
        async with ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.get("/json/list") as response:
                [target] = [each for each in await response.json() if each["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"]) as socket:
                yield Page(socket)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _debugging_port(process: asyncio.subprocess.Process) -> int:
    assert process.stderr is not None
    async with asyncio.timeout(START_SECONDS):
        while line := await process.stderr.readline():
            if b"DevTools listening on ws://" in line:
                return int(line.rpartition(b":")[2].partition(b"/")[0])
    raise AssertionError("Chromium has ended before it listened")
