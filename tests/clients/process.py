"""A service that the tests of the client kill and start again, and the asynchronous client, made blocking."""

import asyncio
import inspect
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.acceptance.process import LISTENING
from tests.forked_processes import ForkedCommand, ForkServer
from tests.patience import PATIENCE_SECONDS

OPERATOR_TOKEN = "operator-token-of-the-client"


class Service:
    """A process of the service, always at the same address."""

    def __init__(
        self, directory: Path, database_url: str, fork_server: ForkServer | None, sections: str = ""
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            port = reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.config, self.log = directory / "hostsvc.toml", directory / "hostsvc.log"
        self.config.write_text(
            f'[server]\nport = {port}\n[database]\nurl = "{database_url}"\n'
            f'[operator]\ntoken = "{OPERATOR_TOKEN}"\n{sections}'
        )
        self._fork_server = fork_server
        self.process: subprocess.Popen[str] | ForkedCommand | None = None

    def start(self) -> None:
        """Start it and wait until it listens."""
        arguments, directory = ["serve", "--config", str(self.config)], self.config.parent
        with self.log.open("a") as log:
            if self._fork_server is not None:
                self.process = self._fork_server.start(arguments, directory, os.environ, log)
            else:
                command = [sys.executable, "-m", "hostsvc", *arguments]
                self.process = subprocess.Popen(
                    command, cwd=directory, stdout=subprocess.PIPE, stderr=log, text=True
                )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(LISTENING), self.log.read_text()

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal and wait until it has ended."""
        if self.process is not None:
            with self.process as process:
                process.send_signal(number)
                process.wait(timeout=PATIENCE_SECONDS)
            self.process = None

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.end(signal.SIGKILL)
        self.start()

    def sign_up(self, email: str) -> str:
        """Create an organization and return a key of it."""
        from hostsvc_client import Hostsvc

        with Hostsvc(self.url, "") as anyone:
            user = anyone.auth.sign_up(
                email=email, password="correct horse battery", organization_name="Parcels"
            )
        with Hostsvc(self.url, authorization=f"Token {user.token}") as person:
            key = person.api_keys.create(name="tests").key
        assert key is not None
        return key


class Blocking:
    """The asynchronous client as the synchronous one is used: what must be awaited is awaited."""

    def __init__(self, asynchronous: Any, runner: asyncio.Runner) -> None:
        self.__dict__.update(_asynchronous=asynchronous, _runner=runner)

    def __getattr__(self, name: str) -> Any:
        return self._shown(getattr(self._asynchronous, name))

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self._shown(self._asynchronous(*values, **named))

    def __iter__(self) -> Iterator[Any]:
        iterator: AsyncIterator[Any] = aiter(self._asynchronous)
        with suppress(StopAsyncIteration):
            while True:
                yield self._runner.run(_next(iterator))

    def _shown(self, value: Any) -> Any:
        if inspect.iscoroutine(value):
            return self._runner.run(value)
        is_ours = type(value).__module__.startswith("hostsvc_client._async") or callable(value)
        return Blocking(value, self._runner) if is_ours or hasattr(value, "__anext__") else value


async def _next(iterator: AsyncIterator[Any]) -> Any:
    return await anext(iterator)


def environment(**variables: str) -> dict[str, str]:
    """Return the variables of this process without those that the client reads."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOSTSVC_")}
    return kept | variables
