"""Webhook deliveries over HTTP: their log, and redelivery."""

from typing import Any

import pytest

from storage.delivery.outbox import Attempt
from supervisors.clock import SystemClock
from tests.web.conftest import Api, Service

PATH = "/api/organizations/webhook-deliveries/"
URL = "https://hooks.example/created"


@pytest.fixture
async def agent(api: Api) -> Any:
    """Create an agent whose template has a webhook, so that a delivery is pending."""
    template = await api.create_template(agent_created_webhook_url=URL, tool_call_secret="whsec_c2VjcmV0")
    return await api.create_agent(template=template["id"], tags=["a"])


async def record_attempt(service: Service, attempt: Attempt) -> None:
    """Record this attempt for the only due delivery."""
    [due] = await service.storage.outbox.list_due(SystemClock().now(), limit_per_receiver=10, limit=10)
    await service.storage.outbox.record(due, attempt, SystemClock().now())


async def test_deliveries_show_their_result_and_one_its_payload(
    service: Service, api: Api, agent: Any
) -> None:
    [listed] = (await api.get(PATH)).body
    assert listed == {
        "id": listed["id"],
        "type": "agent.created",
        "agent": agent["id"],
        "template": agent["template"],
        "webhook": None,
        "url": URL,
        "status": "pending",
        "attempts": 0,
        "created_at": agent["created_at"],
        "next_attempt_at": agent["created_at"],
        "delivered_at": None,
        "failed_at": None,
        "last_status": None,
        "last_error": "",
    }
    whole = (await api.get(f"{PATH}{listed['id']}/")).body
    payload = whole.pop("payload")
    assert whole == listed
    assert (payload["type"], payload["data"]["agent"]) == ("agent.created", agent["id"])

    await record_attempt(
        service, Attempt(failed_at=SystemClock().now(), status=410, error="The receiver answered 410.")
    )
    [failed] = (await api.get(PATH)).body
    assert (failed["status"], failed["attempts"], failed["last_status"]) == ("failed", 1, 410)
    assert (failed["last_error"], failed["next_attempt_at"]) == ("The receiver answered 410.", None)


async def test_deliveries_are_filtered_by_agent_template_and_status(
    service: Service, api: Api, agent: Any
) -> None:
    another = await api.create_agent(template=agent["template"])
    for query, expected in (
        (f"agent={agent['id']}", [agent["id"]]),
        (f"template={agent['template']}", [another["id"], agent["id"]]),
        ("status=pending&limit=1", [another["id"]]),
        ("status=delivered", []),
        ("status=failed", []),
    ):
        assert [each["agent"] for each in (await api.get(f"{PATH}?{query}")).body] == expected, query


async def test_deliveries_of_a_deleted_agent_stay_listed(api: Api, agent: Any) -> None:
    assert (await api.delete(f"/api/cloud/agents/{agent['id']}/")).status == 204
    assert len((await api.get(f"{PATH}?agent={agent['id']}")).body) == 1


async def test_redelivery_starts_over_and_repeats_harmlessly(service: Service, api: Api, agent: Any) -> None:
    now = SystemClock().now()
    for attempt in (Attempt(delivered_at=now, status=204), Attempt(failed_at=now, error="No connection.")):
        await record_attempt(service, attempt)
        [listed] = (await api.get(PATH)).body
        for _ in range(2):
            answer = await api.post(f"{PATH}{listed['id']}/redeliver/")
            assert (answer.status, answer.body["id"]) == (200, listed["id"])
            assert (answer.body["status"], answer.body["attempts"]) == ("pending", 0)
            assert answer.body["next_attempt_at"] > listed["created_at"]
        assert len((await api.get(PATH)).body) == 1
