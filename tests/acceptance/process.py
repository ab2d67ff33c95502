"""The service as an operator runs it: a separate process, observed by what it prints and how it ends."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.forked_processes import ForkedProcess
from tests.patience import PATIENCE_SECONDS

LISTENING = "hostsvc: listening on "
KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "LANG")

Sections = Mapping[str, Mapping[str, Any]]
Process = asyncio.subprocess.Process | ForkedProcess
# How to start `hostsvc` with arguments in a directory, with these variables, logging to a file.
Launch = Callable[[Sequence[str], Path, Mapping[str, str], IO[bytes]], Awaitable[Process]]


class Unexpected(AssertionError):
    """The process did not do what was expected; the message holds its log."""


@dataclass(slots=True)
class ServiceProcess:
    """A process of the service."""

    _process: Process
    _log_file: Path
    url: str = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        """Return what it has written to stderr."""
        return self._log_file.read_text()

    async def line(self) -> str:
        """Return the next line that it prints."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise Unexpected(f"nothing printed within {PATIENCE_SECONDS} s\n{self.log()}") from None
        if not line:
            raise Unexpected(f"ended instead of printing a line\n{self.log()}")
        return line.decode().rstrip("\n")

    async def rest(self) -> str:
        """Return what it prints from now on until its end."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await self._process.stdout.read()).decode()

    async def ready(self) -> str:
        """Wait until it says that it listens, and return its address."""
        line = await self.line()
        if not line.startswith(LISTENING):
            raise Unexpected(f"printed {line!r} instead of {LISTENING!r}…\n{self.log()}")
        self.url = line.removeprefix(LISTENING)
        return self.url

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        await self.exit_code()

    async def exit_code(self, within: float = PATIENCE_SECONDS) -> int:
        """Wait until it has ended, and return its exit code."""
        try:
            async with asyncio.timeout(within):
                return await self._process.wait()
        except TimeoutError:
            raise Unexpected(f"still running after {within} s\n{self.log()}") from None

    async def close(self) -> None:
        """End it if it still runs, in order if possible, so that an embedded PostgreSQL ends with it."""
        if self._process.returncode is None:
            self.terminate()
            try:
                await self.exit_code()
            except Unexpected:
                await self.kill()
                raise


def launched_by(*options: str, **variables: str) -> Launch:
    """Return how to start `hostsvc` in a new interpreter with these options and environment variables."""

    async def launch(
        arguments: Sequence[str], directory: Path, environment: Mapping[str, str], log: IO[bytes]
    ) -> Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, *options, *arguments),
            cwd=directory,
            env={**environment, **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )

    return launch


MODULE = ("-W", "error", "-m", "hostsvc")
launch_fresh = launched_by(*MODULE)


async def spawn(
    directory: Path,
    name: str,
    sections: Sections,
    launch: Launch = launch_fresh,
    options: Sequence[str] = (),
) -> ServiceProcess:
    """Start `hostsvc serve` with a configuration file of its own, without waiting for anything."""
    config = directory / f"{name}.toml"
    config.write_text(_toml(sections))
    environment = {variable: os.environ[variable] for variable in KEPT_VARIABLES if variable in os.environ}
    log_file = directory / f"{name}.log"
    with log_file.open("ab") as log:
        process = await launch(["serve", "--config", str(config), *options], directory, environment, log)
    return ServiceProcess(process, log_file)


@asynccontextmanager
async def serving(
    directory: Path,
    name: str,
    sections: Sections,
    launch: Launch = launch_fresh,
    options: Sequence[str] = (),
) -> AsyncIterator[ServiceProcess]:
    """Run a service that listens while the block lasts."""
    process = await spawn(directory, name, sections, launch, options)
    try:
        await process.ready()
        yield process
    finally:
        await process.close()


def _toml(sections: Sections) -> str:
    """Write TOML, whose strings, numbers, booleans and lists look as in JSON."""
    return "\n".join(
        line
        for section, keys in sections.items()
        for line in (f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()))
    )
