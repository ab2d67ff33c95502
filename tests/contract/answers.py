"""Send the requests of the suites that test every route, and check what holds for every answer."""

import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from itertools import count
from typing import Any

from storage.postgres.pool import Pool
from tests.contract.tenants import Request
from tests.web.conftest import Answer, Service
from web.errors import CHALLENGE
from web.openapi.error_responses import statuses

VARYING = {
    "id",
    "token",
    "ticket",
    "key",
    "prefix",
    "code",
    "email",
    "email_alias",
    "duration_ms",
    "secret",
    "digest",
}
UUID_OR_INSTANT = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z"
    r"|\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2} UTC"  # in sentences
)
UNIQUE_PART = re.compile(r"(?<=_)[0-9a-f]{16}$")  # of a name that ends in _UNIQUE

# Builds the statement that reads all rows of all tables, without what reading or the beat of a node changes.
WHOLE_DATABASE = """
SELECT string_agg(
    format('SELECT %L AS of, (to_jsonb(each) - ''last_used_at'')::json AS is FROM %I AS each', name, name),
    ' UNION ALL '
)
FROM (
    SELECT table_name AS name
    FROM information_schema.tables
    WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name <> 'node'
) AS tables
"""

_addresses = count(int(IPv4Address("10.0.0.1")))


async def send(service: Service, request: Request, **options: Any) -> Answer:
    """Return the answer. Check that its status is documented, and its request id and form are right."""
    client = service.nobody.with_authorization(request.authorization)
    request_id = secrets.token_hex(8)
    headers = {
        "X-Request-ID": request_id,
        "X-Forwarded-For": str(IPv4Address(next(_addresses))),  # else the throttle would refuse requests soon
        **options.pop("headers", {}),
    }
    if request.body is not None and not options.keys() & {"data", "json"}:
        options["json"] = request.body
    answer = await client.request(request.route.method, request.path, headers=headers, **options)
    assert answer.status in {request.route.status, *statuses(request.route)}, answer
    assert answer.headers["X-Request-ID"] == request_id
    if answer.status >= 400:
        check_refusal(answer)
    return answer


def check_refusal(answer: Answer) -> None:
    """Check that a refusal is no internal error and has the JSON form of its status."""
    assert answer.status not in {500, 503}, answer
    assert answer.headers["Content-Type"] == "application/json"
    assert (answer.headers.get("WWW-Authenticate") == CHALLENGE) == (answer.status == 401), answer
    match answer.body:
        case {"detail": str(), **rest} if not rest:
            pass
        case {"error": {"code": str(), "message": str()}, **rest} if not rest:  # of an agent's tool
            assert answer.status in {400, 404}, answer
        case messages:
            assert answer.status == 400, answer
            assert messages
            assert _are_messages(messages), answer


def _are_messages(value: Any) -> bool:
    """Return whether the value holds sentences by field or by index."""
    if isinstance(value, dict):
        return all(_are_messages(item) for item in value.values())
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def normalized(value: Any) -> Any:
    """Return the answer without the values that differ each time."""
    match value:
        case dict():
            return {name: "…" if name in VARYING else normalized(item) for name, item in value.items()}
        case list():
            return [normalized(item) for item in value]
        case str():
            return UNIQUE_PART.sub("…", UUID_OR_INSTANT.sub("…", value))
        case _:
            return value


@asynccontextmanager
async def unchanged(pool: Pool) -> AsyncIterator[None]:
    """Check that the block changes no row of any table."""
    before = await contents(pool)
    yield
    assert await contents(pool) == before


async def contents(pool: Pool) -> set[tuple[str, str]]:
    """Return all rows of all tables."""
    rows = await pool.fetch(await pool.fetchval(WHOLE_DATABASE))
    return {(row["of"], json.dumps(row["is"], sort_keys=True)) for row in rows}
