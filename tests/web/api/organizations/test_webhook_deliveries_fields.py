"""Queries and responses of webhook deliveries."""

from storage.delivery.outbox import DeliveryStatus, WebhookDelivery
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    OTHER_ID,
    OTHER_ID_TEXT,
    accept,
    refuse,
    serve,
)
from web.api.organizations.webhooks import DeliveryQuery, serialize_delivery, serialize_whole_delivery

DELIVERY = WebhookDelivery(
    id=ID,
    organization_id=ORGANIZATION_ID,
    agent_id=OTHER_ID,
    template_id=OTHER_ID,
    webhook_id=None,
    type="agent.created",
    url="https://hooks.example/",
    payload={"type": "agent.created"},
    created_at=NOON,
    attempts=1,
    next_attempt_at=None,
    delivered_at=None,
    failed_at=NOON,
    last_status=410,
    last_error="The receiver answered 410.",
)


def test_query_accepts_only_known_statuses() -> None:
    assert accept(DeliveryQuery(), {"status": "failed"})["status"] is DeliveryStatus.FAILED
    assert refuse(DeliveryQuery(), {"status": "lost"}) == {"status": ['"lost" is not a valid choice.']}


def test_response_hides_the_payload_in_lists() -> None:
    listed = serve(serialize_delivery(DELIVERY))
    assert listed == {
        "id": ID_TEXT,
        "type": "agent.created",
        "agent": OTHER_ID_TEXT,
        "template": OTHER_ID_TEXT,
        "webhook": None,
        "url": "https://hooks.example/",
        "status": "failed",
        "attempts": 1,
        "created_at": NOON_TEXT,
        "next_attempt_at": None,
        "delivered_at": None,
        "failed_at": NOON_TEXT,
        "last_status": 410,
        "last_error": "The receiver answered 410.",
    }
    whole = serve(serialize_whole_delivery(DELIVERY))
    assert whole == {**listed, "payload": {"type": "agent.created"}}
