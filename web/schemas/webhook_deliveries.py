"""Webhook deliveries: query and responses."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.delivery.outbox import DeliveryStatus, WebhookDelivery
from web.fields import Choice, Uuid
from web.paging import PageQuery
from web.serializers import Serializer


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


serialize_delivery = Serializer(DeliveryResponse, WebhookDelivery)


serialize_whole_delivery = Serializer(WholeDeliveryResponse, WebhookDelivery)
