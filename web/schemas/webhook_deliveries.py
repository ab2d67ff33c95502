"""Webhook deliveries: query and responses."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.delivery.outbox import DeliveryStatus, WebhookDelivery
from web.fields import Choice, Uuid
from web.paging import PageQuery


class DeliveryQuery(PageQuery):
    agent = Uuid(load_default=None)
    template = Uuid(load_default=None)
    status = Choice(DeliveryStatus, load_default=None)


class DeliveryResponse(TypedDict):
    """`attempts` counts since creation or the last redelivery; `last_status` is that of the last answer."""

    id: UUID
    type: str
    agent: UUID
    template: UUID
    url: str
    status: DeliveryStatus
    attempts: int
    created_at: datetime
    next_attempt_at: datetime | None
    delivered_at: datetime | None
    failed_at: datetime | None
    last_status: int | None
    last_error: str


class WholeDeliveryResponse(DeliveryResponse):
    """With what is sent."""

    payload: Mapping[str, Any]


def serialize_delivery(delivery: WebhookDelivery) -> DeliveryResponse:
    return {
        "id": delivery.id,
        "type": delivery.type,
        "agent": delivery.agent_id,
        "template": delivery.template_id,
        "url": delivery.url,
        "status": delivery.status,
        "attempts": delivery.attempts,
        "created_at": delivery.created_at,
        "next_attempt_at": delivery.next_attempt_at,
        "delivered_at": delivery.delivered_at,
        "failed_at": delivery.failed_at,
        "last_status": delivery.last_status,
        "last_error": delivery.last_error,
    }


def serialize_whole_delivery(delivery: WebhookDelivery) -> WholeDeliveryResponse:
    return {**serialize_delivery(delivery), "payload": delivery.payload}
