"""Event webhooks: request bodies and responses. Only the responses that make a secret contain it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import urlsplit
from uuid import UUID

from marshmallow import ValidationError, validate

from storage.delivery.webhooks import Webhook
from storage.events.catalogue import EventType
from storage.model import Purpose
from web.event_type_fields import EventTypePattern
from web.fields import Boolean, Line, ListOf, Text, Url, Uuid
from web.request.parsing import Body
from web.serializers import Serializer

ALL_TYPES = "*"
MAX_TYPES = 50
MAX_URL_CHARACTERS = 500  # an index has it among its keys


class SubscribedType(EventTypePattern):
    """The name of an event type, `run.*` for a family, or `*` for all events."""

    def __init__(self, **options: Any) -> None:
        super().__init__(EventType, **options)
        self.choices = (*self.choices, ALL_TYPES)


class SubscribedTypes(ListOf[str]):
    """At least one of the types that can be subscribed to, each once."""

    def __init__(self, **options: Any) -> None:
        checks = validate.Length(min=1, error="This list may not be empty.")
        super().__init__(SubscribedType(blank=False), max_items=MAX_TYPES, validate=checks, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> list[str | None]:
        return list(dict.fromkeys(super()._deserialize(value, attr, data, **options)))


class WebhookUrl(Url):
    """An address without a user and a password, which no call could send.

    The log of deliveries and the events about failures would show the password.
    """

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        url = super()._deserialize(value, attr, data, **options)
        if "@" in urlsplit(url).netloc:
            raise ValidationError("The URL must not contain credentials. Requests are signed instead.")
        return url


class WebhookBody(Body):
    """The writable fields of an event webhook."""

    url = WebhookUrl(required=True, blank=False, max_length=MAX_URL_CHARACTERS)
    types = SubscribedTypes(required=True)
    agent_id = Uuid(data_key="agent", load_default=None, allow_none=True)
    template_id = Uuid(data_key="template", load_default=None, allow_none=True)
    tag = Line(load_default="", max_length=255)
    description = Text(load_default="", max_length=255)
    is_active = Boolean(load_default=True)
    """Whether it gets events. Switching it on forgets its failures; it gets the events from then on."""


class WebhookResponse(TypedDict):
    """An address that gets an organization's events as signed POST requests."""

    id: UUID
    """Chosen by the service."""
    organization: UUID
    """The organization whose events it gets."""
    url: str
    """Where the events go: an http or https URL of at most 500 characters. A change applies to later events
    only."""
    types: Sequence[str]
    """The types of events that it gets, such as `run.ended`; `run.*` for a family, `*` for all."""
    agent: UUID | None
    """Only events about this agent, and pauses of the organization; null: about all agents."""
    template: UUID | None
    """Only events about agents that have this template, and pauses of the organization; null: of any."""
    tag: str
    """Only events about agents that have this tag, and pauses of the organization; "": with any tags."""
    description: str
    """A text for people; "" if there is none."""
    is_active: bool
    """Whether it gets events. The service switches it off after five days in which every attempt failed."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When its fields were last changed by a request; at first the same as `created_at`."""
    failing_since: datetime | None
    """The first failed attempt since the last success; null if the last attempt did not fail."""
    disabled_at: datetime | None
    """When the service switched it off; null if it did not."""
    disabled_reason: str
    """Why the service switched it off, for its owner; "" if it did not."""


class NewWebhookResponse(WebhookResponse):
    """An event webhook with its secret, which no other response contains."""

    secret: str | None
    """The secret that signs its requests, `whsec_` and Base64. It cannot be read again: the answer to a
    repeated request with the same `Idempotency-Key` has null."""


class RotatedWebhookResponse(WebhookResponse):
    """An event webhook with its new secret, which no other response contains."""

    secret: str
    """The new secret, which signs all requests from now on. It cannot be read again."""
    old_secret_until: datetime
    """Until when the secret before it signs the same requests, too."""


class WebhookTest(TypedDict):
    """The data of `webhook.test`."""

    webhook: UUID
    """The webhook that is tested."""
    organization: UUID
    """The organization of the webhook."""


class AgentCreated(TypedDict):
    """The data of `agent.created`, as the webhook of a template gets it."""

    agent: UUID
    """The new agent."""
    template: UUID
    """The template that it was created from."""
    organization: UUID
    """The organization of both."""
    name: str
    """The name of the agent."""
    tags: Sequence[str]
    """The tags of the agent."""
    purpose: Purpose
    """What the agent is for."""
    created_at: datetime
    """When it was created."""


serialize_webhook = Serializer(WebhookResponse, Webhook)
