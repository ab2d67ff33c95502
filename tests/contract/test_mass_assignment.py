"""Mass assignment: a body sets the fields that its route declares, and no other column, whatever it names."""

import json
from typing import Any, get_type_hints
from uuid import uuid4

import pytest
from marshmallow import INCLUDE

from tests.contract.answers import contents, normalized, send
from tests.contract.tenants import Request, Tenant, make
from tests.web.conftest import Service
from web.app import ROUTES
from web.request.parsing import Body
from web.routes import Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

COLUMNS = """
SELECT column_name, min(data_type) AS data_type FROM information_schema.columns
WHERE table_schema = 'public' GROUP BY column_name
"""
PLANTED_ID = str(uuid4())
# A value of each type of column that a field would take, and that nothing else contains.
PLANTED: dict[str, Any] = {
    "uuid": PLANTED_ID,
    "text": "planted text",
    "timestamp with time zone": "1987-06-05T04:03:02Z",
    "date": "1987-06-05",
    "integer": 1987060501,
    "bigint": 1987060501,
    "numeric": 1987060501,
    "double precision": 1987060501,
    "json": {"planted": True},
    "jsonb": {"planted": True},
    "ARRAY": ["planted text"],
    "bytea": "planted text",
}
TRACES_OF_PLANTING = (PLANTED_ID, "planted", "1987-06-05", "1987060501")


def takes_declared_fields_only(route: Route) -> bool:
    """Return whether the route has a body, other than the arguments of a tool."""
    return isinstance(route.body, Body) and route.body.unknown != INCLUDE


async def undeclared(service: Service, route: Route, *, flag: bool) -> dict[str, Any]:
    """Return a value for each column of the database that the body of the route does not declare."""
    assert isinstance(route.body, Body)
    declared = {field.data_key or name for name, field in route.body.load_fields.items()}
    rows = await service.storage.pool.fetch(COLUMNS)
    values = {row["column_name"]: PLANTED.get(row["data_type"], flag) for row in rows}
    answer = get_type_hints(route.answer) if isinstance(route.answer, type) else {}
    values |= {name: PLANTED_ID for name in answer if name not in values}
    values |= {"organization": PLANTED_ID, "user": PLANTED_ID, "role": "owner", "visibility": "public"}
    values |= {"is_admin": flag, "is_staff": flag, "is_superuser": flag, "__class__": "x", "_id": PLANTED_ID}
    return {name: value for name, value in values.items() if name not in declared}


async def test_undeclared_column_in_a_body_has_no_effect(shared_service: Service, ours: Tenant) -> None:
    for route in filter(takes_declared_fields_only, ROUTES):
        await ignore_undeclared(shared_service, ours, route)
    rows = "\n".join(row for _, row in await contents(shared_service.storage.pool))
    assert ours.mark in rows, "the rows can be read"
    assert not [trace for trace in TRACES_OF_PLANTING if trace in rows]


async def ignore_undeclared(shared_service: Service, ours: Tenant, route: Route) -> None:
    plain = await send(shared_service, await make(ours, route))
    for flag in (True, False):
        request: Request = await make(ours, route)
        more = await undeclared(shared_service, route, flag=flag)
        answer = await send(shared_service, request.with_values(**more))
        assert (answer.status, normalized(answer.body)) == (plain.status, normalized(plain.body))
        assert not any(trace in json.dumps(answer.body) for trace in TRACES_OF_PLANTING)
