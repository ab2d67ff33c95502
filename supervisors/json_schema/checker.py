"""The schema checker: JSON Schemas of others, and values against them, are checked in separate processes.

A small schema can take endless time or all memory to apply (references that fan out), and the library cannot
be interrupted. So it works in worker processes, which end when a schema exceeds their limits. Organizations
take turns, and those that had a slow schema lately go last. So even many organizations with slow schemas,
which one person may have signed up, delay the others by little.
"""

import asyncio
import hashlib
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import ceil
from typing import Any, Literal
from uuid import UUID

import orjson
import structlog

from storage.postgres.json_values import to_json
from supervisors.clock import Clock
from supervisors.errors import ChecksPending
from supervisors.fair_slots import FairSlots, QueueFull
from supervisors.line_process import LineProcess, start_line_process

log = structlog.get_logger()

MAX_WORKERS = 2  # one organization alone uses one of them
MAX_WAITING = 256  # checks of one organization
MAX_WAIT_SECONDS = 5.0
MAX_ANSWER_SECONDS = 10.0  # a worker limits its processor time itself; this is for one that gets none
WORKER = "supervisors.json_schema.worker_process"
LIMIT_EXCEEDED = "$: this takes too long to check."
REFUSED_SECONDS = 60.0
TOOK_TOO_LONG = "$: {} took too long to check"
MAX_SCHEMAS = 1000
Kind = Literal["schema", "references"]  # of a check, as the worker process knows it
SchemaKey = tuple[UUID, bytes]
"""The organization that a schema was checked for, and a hash of the schema and the kind of the check.

The values may be what makes a schema slow, so what one organization checks must not refuse it to others.
"""


def is_undecided(errors: Sequence[str], place: str) -> bool:
    """Return whether these errors of the checker only say that the check takes too long."""
    return bool(errors) and errors[0].startswith((LIMIT_EXCEEDED, TOOK_TOO_LONG.format(place)))


class SchemaChecker:
    """Owns the worker processes; `open_schema_checker` makes one.

    Each check is on behalf of an organization. It raises ChecksPending if too many checks of this
    organization wait, or if this one did not get its turn in time. `place` says what the schema is.
    """

    def __init__(self, clock: Clock) -> None:
        self._idle: list[LineProcess] = []
        self._slow_schemas = SlowSchemas(clock)
        self._slots = FairSlots[UUID](MAX_WORKERS, MAX_WAITING, self._slow_schemas.has_any)

    async def find_schema_errors(
        self, organization_id: UUID, place: str, schema: dict[str, Any]
    ) -> list[str]:
        """Return why this is no valid JSON Schema (2020-12), as `<path>: <error>`; empty if it is one."""
        return await self._check(organization_id, place, "schema", schema)

    async def find_errors(
        self, organization_id: UUID, place: str, schema: dict[str, Any], value: Any
    ) -> list[str]:
        """Return why the value does not fit the schema, as `<path>: <error>`; empty if it does."""
        return await self._check(organization_id, place, "schema", schema, value)

    async def find_outside_references(self, organization_id: UUID, place: str, value: Any) -> list[str]:
        """Return an error if a reference in this JSON value, schema or not, leaves the document."""
        return await self._check(organization_id, place, "references", value)

    async def _check(
        self, organization_id: UUID, place: str, kind: Kind, schema: Any, *values: Any
    ) -> list[str]:
        """Return the errors; one that names the place if this schema exceeded the limits a moment ago."""
        key = organization_id, hashlib.sha256(to_json((kind, len(values), schema))).digest()
        if refusal := self._refusal(key, place):
            return refusal
        async with self._turn(organization_id):
            if refusal := self._refusal(key, place):  # it was checked in the meantime
                return refusal
            answer = await self._ask(to_json((kind, schema, *values)) + b"\n")
            if not answer:
                self._slow_schemas.add(key)
                return [LIMIT_EXCEEDED]
        errors: list[str] = orjson.loads(answer)
        return errors

    def _refusal(self, key: SchemaKey, place: str) -> list[str]:
        seconds = self._slow_schemas.seconds_left(key)
        if not seconds:
            return []
        return [f"{TOOK_TOO_LONG.format(place)}; it is not tried again for {ceil(seconds)} s."]

    @asynccontextmanager
    async def _turn(self, organization_id: UUID) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await self._slots.take(organization_id)
        except (QueueFull, TimeoutError) as error:
            raise ChecksPending("too many JSON Schemas of this organization are being checked") from error
        try:
            yield
        finally:
            self._slots.release(organization_id)

    async def _ask(self, request: bytes) -> bytes:
        """Return the answer of a worker; empty if the request exceeded the limits."""
        worker, answer = await self._take(), b""
        try:
            async with asyncio.timeout(MAX_ANSWER_SECONDS):
                answer = await worker.ask(request)
        except TimeoutError:
            pass
        except BaseException:
            await worker.close()  # its answer would be taken for the answer to the next request
            raise
        if answer:
            self._idle.append(worker)
        else:
            await worker.close()
        return answer

    async def _take(self) -> LineProcess:
        while self._idle:
            worker = self._idle.pop()
            if not worker.has_ended:
                return worker
        return await start_line_process(WORKER, "-I", stderr=PIPE, environment={})

    async def close(self) -> None:
        for worker in self._idle:
            await worker.close()


@asynccontextmanager
async def open_schema_checker(clock: Clock) -> AsyncIterator[SchemaChecker]:
    """Open a checker. Its worker processes start when they are needed, and end with it."""
    checker = SchemaChecker(clock)
    try:
        yield checker
    finally:
        await checker.close()


class SlowSchemas:
    """Remembers schemas for REFUSED_SECONDS, the latest MAX_SCHEMAS of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused_until: dict[SchemaKey, float] = {}  # the oldest first
        self._latest: dict[UUID, SchemaKey] = {}  # of each organization

    def add(self, key: SchemaKey) -> None:
        self._refused_until.pop(key, None)
        if len(self._refused_until) >= MAX_SCHEMAS:
            self._forget(next(iter(self._refused_until)))
        self._refused_until[key] = self._clock.monotonic() + REFUSED_SECONDS
        self._latest[key[0]] = key

    def has_any(self, organization_id: UUID) -> bool:
        """Return whether a schema of this organization is refused at present."""
        latest = self._latest.get(organization_id)
        return latest is not None and self.seconds_left(latest) > 0

    def seconds_left(self, key: SchemaKey) -> float:
        """Return how long this schema is still refused, at most 0 if it is not."""
        left = self._refused_until.get(key, 0.0) - self._clock.monotonic()
        if left <= 0:
            self._forget(key)
        return max(left, 0.0)

    def _forget(self, key: SchemaKey) -> None:
        self._refused_until.pop(key, None)
        if self._latest.get(key[0]) == key:
            del self._latest[key[0]]
