"""The lines that a service process has logged, in JSON."""

import json
from typing import Any

from tests.acceptance.client import eventually
from tests.acceptance.process import ServiceProcess


def lines_of(process: ServiceProcess, since: int = 0) -> list[dict[str, Any]]:
    """Return the complete lines of the log from this character on, each of which must be JSON."""
    complete, _, _ = process.log()[since:].rpartition("\n")
    return [json.loads(line) for line in complete.splitlines()]


async def line_of(process: ServiceProcess, since: int = 0, **fields: Any) -> dict[str, Any]:
    """Wait for the first line with these fields, and return it."""

    async def find() -> dict[str, Any] | None:
        return next((line for line in lines_of(process, since) if _has(line, fields)), None)

    return await eventually(find, f"the log to say {fields}")


def _has(line: dict[str, Any], fields: dict[str, Any]) -> bool:
    return all(line.get(name) == value for name, value in fields.items())
