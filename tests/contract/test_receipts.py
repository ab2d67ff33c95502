"""Receipts: no stored answer to a repeated request holds a secret."""

import pytest

from tests.contract.requests_by_route import for_each_route
from tests.contract.tenants import Tenant, make
from tests.leaks import SECRET_FIELDS, contents_by
from tests.web.conftest import Service
from web.app import ROUTES
from web.routes import Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

IDEMPOTENT = [route for route in ROUTES if route.idempotent]


SECRETS = {  # by path: the field of the answer
    "/api/templates/": "tool_call_secret",
    "/api/organizations/api-keys/": "key",
    "/api/organizations/webhooks/": "secret",
    "/api/organizations/hooks/": "secret",
    "/api/organizations/invites/": "code",
    "/api/toolbox/adapter-configs/": "config",
    "/api/events/tickets/": "ticket",
}


@for_each_route(IDEMPOTENT)
async def test_repeated_answer_has_null_for_each_secret(ours: Tenant, route: Route) -> None:
    request = await make(ours, route)
    client = ours.service.nobody.with_authorization(request.authorization)
    once = {"Idempotency-Key": f"receipt of {route.path}"}
    first, again = [await client.post(request.path, request.body, headers=once) for _ in range(2)]
    assert ("Idempotency-Replayed" in first.headers, again.headers["Idempotency-Replayed"]) == (False, "true")
    assert (again.status, again.headers["Content-Type"]) == (first.status, first.headers["Content-Type"])
    secret = SECRETS.get(route.path)
    assert again.body == {**first.body, **({secret: None} if secret else {})}
    assert {name for name in SECRET_FIELDS if first.body.get(name)} <= {secret}
    other = await client.post(request.path, {**(request.body or {}), "one more": 1}, headers=once)
    assert other.status == 422
    assert other.body == {"detail": "This Idempotency-Key was used with another request body."}


async def test_receipts_of_all_creations_hold_no_secret(ours: Tenant) -> None:
    secrets: list[str] = []
    for route in IDEMPOTENT:
        request = await make(ours, route)
        if route.path == "/api/toolbox/adapter-configs/":
            request = request.with_values(config={"token": f"secret of {ours.mark}"})
        client = ours.service.nobody.with_authorization(request.authorization)
        once = {"Idempotency-Key": f"secrets of {route.path}"}
        answer = await client.post(request.path, request.body, headers=once)
        assert answer.status == route.status
        if route.path in SECRETS:
            shown = answer.body[SECRETS[route.path]]
            secrets += shown.values() if isinstance(shown, dict) else [shown]
    rows = await ours.service.storage.pool.fetch("SELECT answer FROM receipt")
    answers = b" ".join(row["answer"] for row in rows).decode()
    assert len(rows) >= len(IDEMPOTENT)
    assert len(secrets) == len(SECRETS)
    assert not [secret for secret in secrets if secret in answers]


async def test_database_holds_no_secret_of_a_template(shared_service: Service, ours: Tenant) -> None:
    created = await ours.key.create_template(tool_call_secret=f"whsec_{ours.mark}")
    assert created["tool_call_secret"] == f"whsec_{ours.mark}"
    rows = await contents_by(shared_service.storage.pool)
    assert ours.mark in rows, "the rows can be read"
    assert f"whsec_{ours.mark}" not in rows
