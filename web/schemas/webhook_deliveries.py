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
    """Only deliveries about this agent, which may have been deleted."""
    template = Uuid(load_default=None)
    """Only deliveries to the webhook of this template."""
    webhook = Uuid(load_default=None)
    """Only deliveries to this event webhook."""
    status = Choice(DeliveryStatus, load_default=None)
    """Only deliveries with this status."""


class DeliveryResponse(TypedDict):
    """The delivery of one event to an event webhook, or to the webhook of a template."""

    id: UUID
    """Chosen by the service; the receiver gets it as `webhook-id`, the same with each attempt."""
    type: str
    """The kind of event, such as `run.ended`; `webhook.test` for a test."""
    agent: UUID | None
    """The agent that the event is about, which may have been deleted; null if it is about none."""
    template: UUID | None
    """The template whose webhook it is, which may have been deleted; null for an event webhook."""
    webhook: UUID | None
    """The event webhook that it goes to, which may have been deleted; null for the webhook of a template."""
    url: str
    """Where it goes: the URL that the webhook had at the time of the event."""
    status: DeliveryStatus
    """Whether it is still to be delivered, was delivered, or was given up."""
    attempts: int
    """How often it was sent since the event or the last redelivery."""
    created_at: datetime
    """When the event happened."""
    next_attempt_at: datetime | None
    """When it is sent next; null if it is no longer pending."""
    delivered_at: datetime | None
    """When the receiver confirmed it; null if it did not."""
    failed_at: datetime | None
    """When it was given up; null if it was not."""
    last_status: int | None
    """The HTTP status of the last answer; null if there was none."""
    last_error: str
    """Why the last attempt failed; "" if it did not."""


class WholeDeliveryResponse(DeliveryResponse):
    """A delivery with what is sent."""

    payload: Mapping[str, Any]
    """The body of the request: `type`, `timestamp` and `data`."""


def serialize_delivery(delivery: WebhookDelivery) -> DeliveryResponse:
    return {
        "id": delivery.id,
        "type": delivery.type,
        "agent": delivery.agent_id,
        "template": delivery.template_id,
        "webhook": delivery.webhook_id,
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
