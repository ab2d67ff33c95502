"""Limits over HTTP: what they refuse, and what an organization is shown of them."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from storage.model import Role
from tests.web.conftest import Api, Service, StartService
from tests.web.people import as_user, join, new_user

pytestmark = pytest.mark.one_node  # each node may use its share of the room that is left

LIMITS = "/api/organizations/limits/"
AGENTS = "/api/cloud/agents/"
NOTIFICATIONS = "/api/defaults/notifications/"
DOCUMENTS = "/api/defaults/documents/"
MESSAGES = "/api/defaults/messages/"
JSON = {"Content-Type": "application/json"}
HELLO = {"title": "Hello", "priority": "high"}


async def uses(api: Api) -> dict[str, int | None]:
    return {limit["name"]: limit["used"] for limit in (await api.get(LIMITS)).body["limits"]}


def set_limits(service: Service, **limits: int) -> None:
    for limit in service.storage.limits.all():
        limit.limit = limits.get(limit.name, 0)


async def test_limits_are_shown_with_their_use(start_service: StartService) -> None:
    service = await start_service(requests_per_minute=6)  # one token flows in every ten seconds
    set_limits(service, agents=5, document_bytes=10_000)
    api = await service.new_organization()
    agent = await api.create_agent()
    await api.create_agent()
    await api.create_notification(agent)
    await api.create(DOCUMENTS, title="A", content="B" * 1000)
    assert (await api.post(f"{AGENTS}{agent['id']}/run/")).status < 300
    answer = await api.get(LIMITS)
    assert answer.body == {
        "organization": answer.body["organization"],
        "limits": [
            {"name": "requests_per_minute", "per": "credential", "limit": 6, "used": 6},
            {"name": "agents", "per": "organization", "limit": 5, "used": 2},
            {"name": "waiting_notifications", "per": "organization", "limit": None, "used": 1},
            {"name": "document_bytes", "per": "organization", "limit": 10_000, "used": 2025},
            {"name": "secrets", "per": "organization", "limit": None, "used": 0},
            {"name": "webhooks", "per": "organization", "limit": None, "used": 0},
            {"name": "concurrent_runs", "per": "organization", "limit": None, "used": 1},
            {"name": "organizations_per_user", "per": "user", "limit": 100, "used": None},
            {"name": "tags_per_agent", "per": "agent", "limit": 1000, "used": None},
            {"name": "spans_per_trace", "per": "trace", "limit": 100_000, "used": None},
        ],
    }


async def test_header_chooses_the_organization_to_show(service: Service, api: Api, other: Api) -> None:
    for _ in range(2):
        await other.create_agent()
    user, own = await new_user(service)
    theirs = (await other.get(LIMITS)).body["organization"]
    await join(service, user, UUID(theirs), Role.MEMBER)
    ann = as_user(service, user)
    assert (await ann.get(LIMITS)).status == 400
    ours = await ann.get(LIMITS, headers={"X-Organization": str(own.id)})
    assert ours.body["organization"] == str(own.id)
    shown = (await ann.get(LIMITS, headers={"X-Organization": theirs})).body
    assert (shown["organization"], shown["limits"][1]["used"]) == (theirs, 2)
    assert (await api.get(LIMITS, headers={"X-Organization": theirs})).status == 403


async def test_agents_over_the_limit_are_refused(service: Service, api: Api, other: Api) -> None:
    set_limits(service, agents=2)
    first = await api.create_agent()
    await api.create_agent()
    refused = await api.post(AGENTS, {"name": "Ann", "model": "builtin/inbox"})
    assert (refused.status, refused.body) == (
        400,
        {"detail": "The organization has reached limits.agents, which is 2."},
    )
    await other.create_agent()
    assert (await api.delete(f"{AGENTS}{first['id']}/")).status == 204
    assert await service.storage.pool.fetchval("SELECT count(*) FROM agent WHERE deleted_at IS NULL") == 2


async def test_full_queue_refuses_everything_that_tenants_send(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    first = await api.create_notification(agent)
    set_limits(service, waiting_notifications=1)
    refused = await api.post(NOTIFICATIONS, {"agent": agent["id"], **HELLO})
    assert (refused.status, refused.headers["Retry-After"]) == (429, "10")
    assert refused.body == {
        "detail": "The organization has reached limits.waiting_notifications, which is 1."
    }
    message = {"agent": agent["id"], "channel": "sms", "direction": "inbound", "body": "Hi"}
    assert (await api.post(MESSAGES, message)).status == 429
    tool = await api.post(f"{AGENTS}{agent['id']}/tools/create_notification/", {"title": "Note"})
    assert (tool.status, tool.body["error"]["code"]) == (400, "limit_reached")
    assert "waiting_notifications" in tool.body["error"]["message"]
    assert [each["id"] for each in (await api.get(NOTIFICATIONS)).body] == [first["id"]]
    assert (await api.get(MESSAGES)).body == []


async def test_cleared_notification_cannot_return_to_full_queue(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    first = await api.create_notification(agent)
    path = f"{NOTIFICATIONS}{first['id']}/"
    assert (await api.patch(path, {"cleared": True})).status == 200
    await api.create_notification(agent)
    set_limits(service, waiting_notifications=1)
    assert (await api.patch(path, {"cleared": False})).status == 429
    assert (await api.patch(path, {"title": "Changed"})).status == 200


async def test_repeated_request_is_answered_by_a_full_organization(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    set_limits(service, waiting_notifications=1)
    key = {"Idempotency-Key": "one"}
    body = {"agent": agent["id"], **HELLO}
    first, second = [await api.post(NOTIFICATIONS, body, headers=key) for _ in range(2)]
    assert (first.status, second.status, second.body) == (201, 201, first.body)
    assert (await api.post(NOTIFICATIONS, body, headers={"Idempotency-Key": "two"})).status == 429


@pytest.mark.parametrize("changes", [{"content": "x" * 2000}, {"title": "t" * 200, "content": "x" * 900}])
async def test_documents_may_not_grow_beyond_their_bytes(
    service: Service, api: Api, changes: dict[str, Any]
) -> None:
    set_limits(service, document_bytes=3000)
    document = await api.create(DOCUMENTS, title="A", content="x" * 900)
    refused = await api.post(DOCUMENTS, {"title": "B", "content": "x" * 900})
    assert refused.body == {"detail": "The organization has reached limits.document_bytes, which is 3000."}
    path = f"{DOCUMENTS}{document['id']}/"
    other = await api.create(DOCUMENTS, title="B", content="")
    assert (await api.patch(path, changes)).status == 400
    assert (
        await api.patch(path, {"content": "", "title": "Smaller"})
    ).status == 400  # keeps the version before
    assert (await api.patch(path, {"project": None})).status == 200
    assert (await api.delete(f"{DOCUMENTS}{other['id']}/")).status == 204


async def test_earlier_versions_of_documents_count(service: Service, api: Api) -> None:
    set_limits(service, document_bytes=10_000)
    document = await api.create(DOCUMENTS, title="A", content="x" * 100)
    path = f"{DOCUMENTS}{document['id']}/"
    assert (await api.patch(path, {"content": "x" * 200})).status == 200
    assert (await api.post(f"{path}versions/1/revert/")).status == 200
    assert (await uses(api))["document_bytes"] == 3 * 1025 + 100 + 200 + 100
    set_limits(service, document_bytes=3500)
    assert (await api.post(f"{path}versions/2/revert/")).status == 400


@pytest.mark.parametrize("collection", [AGENTS, "/api/templates/"])
async def test_earlier_versions_of_prompts_count(service: Service, api: Api, collection: str) -> None:
    set_limits(service, document_bytes=10_000)
    body = {"name": "Ann", "model": "builtin/inbox", "system_prompt": "x" * 3000}
    path = f"{collection}{(await api.post(collection, body)).body['id']}/"
    for prompt in ("x" * 2000, "x" * 2000, "y"):
        assert (await api.patch(path, {"system_prompt": prompt})).status == 200
    assert (await uses(api))["document_bytes"] == 2 * 1024 + 3000 + 2000
    assert (await api.patch(path, {"system_prompt": "x" * 2000})).status == 200
    refused = [await api.patch(path, {"system_prompt": "z"}), await api.post(f"{path}prompts/1/revert/")]
    assert [answer.status for answer in refused] == [400, 400]
    assert "limits.document_bytes" in refused[0].body["detail"]
    assert (await api.patch(path, {"name": "Bob", "system_prompt": "x" * 2000})).status == 200


async def test_refusals_are_counted_by_limit(service: Service, api: Api) -> None:
    set_limits(service, agents=1)
    await api.create_agent()
    for _ in range(3):
        assert (await api.post(AGENTS, {"name": "Ann", "model": "builtin/inbox"})).status == 400
    metrics = (await service.operator.get("/metrics")).body
    assert 'hostsvc_limit_refusals_total{limit="agents"} 3.0' in metrics
    assert 'hostsvc_limit_refusals_total{limit="requests_per_minute"} 0.0' in metrics


async def test_change_whose_body_is_late_counts_in_full(service: Service, api: Api) -> None:
    document = await api.create(DOCUMENTS, title="A", content="B" * 5000)
    path = f"{DOCUMENTS}{document['id']}/"
    set_limits(service, document_bytes=14_000)

    async def late_body() -> AsyncIterator[bytes]:
        yield b'{"content": "'
        assert (await api.patch(path, {"content": ""})).status == 200
        await api.create(DOCUMENTS, title="B", content="B" * 5000)
        yield b"B" * 5000 + b'"}'

    answer = await api.request("PATCH", path, data=late_body(), headers=JSON)
    assert (answer.status, (await uses(api))["document_bytes"]) == (400, 3 * 1025 + 2 * 5000)


async def test_notification_cleared_while_change_arrives_waits_within_limit(
    service: Service, api: Api
) -> None:
    agent = await api.create_agent()
    path = f"{NOTIFICATIONS}{(await api.create_notification(agent))['id']}/"
    set_limits(service, waiting_notifications=1)

    async def late_body() -> AsyncIterator[bytes]:
        yield b'{"cleared": '
        assert (await api.patch(path, {"cleared": True})).status == 200
        await api.create_notification(agent)
        yield b"false}"

    answer = await api.request("PATCH", path, data=late_body(), headers=JSON)
    assert (answer.status, (await uses(api))["waiting_notifications"]) == (429, 1)
