"""The schema checker: JSON Schemas of others, and values against them, are checked in separate processes.

A small schema can take endless time or all memory to apply (references that fan out), and the library cannot
be interrupted. So it works in worker processes, which end when a schema exceeds their limits.
"""

import asyncio
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import orjson

from storage.postgres.json_values import to_json
from supervisors.json_schema.worker_process import CheckRequest

MAX_WORKERS = 2
LIMIT_EXCEEDED = "$: this takes too long to check."


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker process and the pipes to it."""

    process: Process
    requests: StreamWriter
    answers: StreamReader

    async def ask(self, request: bytes) -> bytes:
        """Send a request line and return the answer line; empty if the process has ended."""
        try:
            self.requests.write(request)
            await self.requests.drain()
        except ConnectionError:
            return b""
        return await self.answers.readline()

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        self.requests.close()


class SchemaChecker:
    """Owns the worker processes; `open_schema_checker` makes one."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._slots = asyncio.Semaphore(MAX_WORKERS)

    async def find_schema_errors(self, schema: dict[str, Any]) -> list[str]:
        """Return why this is no valid JSON Schema (2020-12), as `<path>: <error>`; empty if it is one."""
        return await self._ask(CheckRequest.SCHEMA, schema)

    async def find_errors(self, schema: dict[str, Any], value: Any) -> list[str]:
        """Return why the value does not fit the schema, as `<path>: <error>`; empty if it does."""
        return await self._ask(CheckRequest.SCHEMA, schema, value)

    async def find_outside_references(self, value: Any) -> list[str]:
        """Return an error if a reference in this JSON value, schema or not, leaves the document."""
        return await self._ask(CheckRequest.REFERENCES, value)

    async def _ask(self, *request: Any) -> list[str]:
        async with self._slots:
            worker = await self._take()
            try:
                answer = await worker.ask(to_json(request) + b"\n")
            except BaseException:
                await worker.close()  # its answer would be taken for the answer to the next request
                raise
            if not answer:
                await worker.close()
                return [LIMIT_EXCEEDED]
            self._idle.append(worker)
        errors: list[str] = orjson.loads(answer)
        return errors

    async def _take(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.process.returncode is None:
                return worker
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            "supervisors.json_schema.worker_process",
            stdin=PIPE,
            stdout=PIPE,
            env={},
        )
        return Worker(process, cast(StreamWriter, process.stdin), cast(StreamReader, process.stdout))

    async def close(self) -> None:
        for worker in self._idle:
            await worker.close()


@asynccontextmanager
async def open_schema_checker() -> AsyncIterator[SchemaChecker]:
    """Open a checker. Its worker processes start when they are needed, and end with it."""
    checker = SchemaChecker()
    try:
        yield checker
    finally:
        await checker.close()
