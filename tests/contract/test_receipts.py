"""Receipts: no stored answer to a repeated request holds a secret."""

from typing import Any

import pytest

from tests.contract.requests_by_route import for_each_route
from tests.contract.tenants import Tenant, make
from tests.leaks import SECRET_FIELDS, contents_by
from tests.web.conftest import Service
from web.app import ROUTES
from web.routes import Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

IDEMPOTENT = [route for route in ROUTES if route.idempotent]


def secrets_in(answer: dict[str, Any]) -> dict[str, str]:
    """Return the secrets of an answer by field."""
    return {
        name: answer[name] for name in SECRET_FIELDS if isinstance(answer.get(name), str) and answer[name]
    }


@for_each_route(IDEMPOTENT)
async def test_repeated_answer_has_null_for_each_secret(ours: Tenant, route: Route) -> None:
    request = await make(ours, route)
    client = ours.service.nobody.with_authorization(request.authorization)
    once = {"Idempotency-Key": f"receipt of {route.path}"}
    first, again = [await client.post(request.path, request.body, headers=once) for _ in range(2)]
    assert again.headers["Idempotency-Replayed"] == "true"
    secrets = secrets_in(first.body)
    assert again.body == {**first.body, **dict.fromkeys(secrets)}
    assert bool(secrets) == (route.path == "/api/templates/")


async def test_database_holds_no_secret_of_a_template(shared_service: Service, ours: Tenant) -> None:
    created = await ours.key.create_template(tool_call_secret=f"whsec_{ours.mark}")
    assert created["tool_call_secret"] == f"whsec_{ours.mark}"
    rows = await contents_by(shared_service.storage.pool)
    assert ours.mark in rows, "the rows can be read"
    assert f"whsec_{ours.mark}" not in rows
