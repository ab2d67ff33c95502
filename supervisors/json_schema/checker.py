"""JSON Schemas that others wrote, and values checked against them, where that can do no harm.

A small schema can take for ever or all memory to apply (references that fan out), and the library cannot be
interrupted. So it works in processes of its own, which end when one schema asks too much of them.
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

from supervisors.json_schema.worker_process import CheckRequest

AT_ONCE = 2
ASKS_TOO_MUCH = "$: this takes too long to check."


@dataclass(frozen=True, slots=True)
class Checking:
    """One process, and the ends of its pipes that are here."""

    process: Process
    questions: StreamWriter
    answers: StreamReader

    async def ask(self, request: bytes) -> bytes:
        """The line that answers; empty if the process ended over the question."""
        try:
            self.questions.write(request)
            await self.questions.drain()
        except ConnectionError:
            return b""
        return await self.answers.readline()

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        self.questions.close()


class SchemaChecker:
    """Owns the processes that check; `open_schema_checker` makes one."""

    def __init__(self) -> None:
        self._idle: list[Checking] = []
        self._turns = asyncio.Semaphore(AT_ONCE)

    def __repr__(self) -> str:
        return f"<SchemaChecker: {len(self._idle)} idle>"

    async def find_faults(self, schema: dict[str, Any]) -> list[str]:
        """Why this is no valid JSON Schema (2020-12): `<path>: <what>`; nothing for a valid one."""
        return await self._ask(CheckRequest.SCHEMA, schema)

    async def find_errors(self, schema: dict[str, Any], value: Any) -> list[str]:
        """Why the value does not fit the schema: `<path>: <what>`; nothing for one that does."""
        return await self._ask(CheckRequest.SCHEMA, schema, value)

    async def find_outside_references(self, value: Any) -> list[str]:
        """That a reference leaves the document, in a schema or in what may be none; nothing if all stay."""
        return await self._ask(CheckRequest.REFERENCES, value)

    async def _ask(self, *request: Any) -> list[str]:
        async with self._turns:
            checking = await self._take()
            try:
                answer = await checking.ask(orjson.dumps(request) + b"\n")
            except BaseException:
                await checking.end()  # its answer would be read as that to the next question
                raise
            if not answer:
                await checking.end()
                return [ASKS_TOO_MUCH]
            self._idle.append(checking)
        errors: list[str] = orjson.loads(answer)
        return errors

    async def _take(self) -> Checking:
        while self._idle:
            checking = self._idle.pop()
            if checking.process.returncode is None:
                return checking
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            "supervisors.json_schema.worker_process",
            stdin=PIPE,
            stdout=PIPE,
            env={},
        )
        return Checking(process, cast(StreamWriter, process.stdin), cast(StreamReader, process.stdout))

    async def close(self) -> None:
        for checking in self._idle:
            await checking.end()


@asynccontextmanager
async def open_schema_checker() -> AsyncIterator[SchemaChecker]:
    """A checker; its processes start when they are needed and end with it."""
    checker = SchemaChecker()
    try:
        yield checker
    finally:
        await checker.close()
