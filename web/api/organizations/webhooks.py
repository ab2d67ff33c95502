"""Event webhooks of organizations, for owners and admins, and the deliveries to all webhooks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from urllib.parse import urlsplit
from uuid import UUID

from aiohttp import web
from marshmallow import ValidationError, validate

from storage.delivery.outbox import DeliveryFilters, DeliveryStatus, WebhookDelivery
from storage.delivery.webhooks import MAX_OLD_SECRETS, OLD_SECRET_LIFETIME, Webhook
from storage.events.model import SHOWN_TYPES
from storage.ids import new_id
from storage.model import Purpose
from web.access.auth import Caller
from web.access.path_access import delete_owned, load_owned, require_owned
from web.access.references import load_named, single_organization
from web.app_keys import CLOCK, STORAGE
from web.credentials.formats import make_signing_secret
from web.errors import Conflict, PermissionDenied, require_found
from web.fields import Boolean, Choice, EventTypePattern, Line, ListOf, Text, Url, Uuid
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import PageQuery, answer_owned
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes

ALL_TYPES = "*"
MAX_TYPES = 50
MAX_URL_CHARACTERS = 500  # an index has it among its keys


class SubscribedType(EventTypePattern):
    """The name of an event type, `run.*` for a family, or `*` for all events."""

    def __init__(self, **options: Any) -> None:
        super().__init__(SHOWN_TYPES, **options)
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

routes = Routes()


@routes.create("/api/organizations/webhooks/", body=WebhookBody, by_header=True)
async def create_webhook(request: web.Request, caller: Caller) -> NewWebhookResponse:
    """Create an event webhook, which gets events from now on. Only this answer contains its secret.

    Members are refused with 403. If the organization would have more than `limits.webhooks`, the answer is
    400.
    """
    body = await read_body_once(request, caller)
    organization_id = single_organization(request, caller, await owners_of(request, caller, body))
    caller.require_admin(organization_id)
    storage, now = request.app[STORAGE], request.app[CLOCK].now()
    webhook = Webhook(
        id=new_id(),
        organization_id=organization_id,
        created_at=now,
        updated_at=now,
        **{**body, "types": tuple(body["types"])},
    )
    secret = make_signing_secret()
    answer: NewWebhookResponse = {**serialize_webhook(webhook), "secret": secret}
    async with storage.limits.webhooks.reserved(organization_id):
        await storage.webhooks.insert(webhook, secret, receipt_of(request, answer, "secret"))
    return answer


async def owners_of(request: web.Request, caller: Caller, body: Mapping[str, Any]) -> set[UUID]:
    """Return the organizations of the agent and the template that the body names.

    Raise Invalid for an id that does not exist, PermissionDenied for one of another organization.
    """
    storage = request.app[STORAGE]
    owners: set[UUID] = set()
    if (agent_id := body.get("agent_id")) is not None:
        owners.add((await load_named(caller, storage.agents.get, "agent", agent_id)).organization_id)
    if (template_id := body.get("template_id")) is not None:
        template = await load_named(caller, storage.templates.get, "template", template_id)
        owners.add(template.organization_id)
    return owners


@routes.get("/api/organizations/webhooks/", answer=list[WebhookResponse], query=PageQuery)
async def list_webhooks(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the event webhooks of the organizations that you administer, newest first.

    Members are refused with 403.
    """
    organization_ids = caller.administered()
    query = read_query(request)
    webhooks = request.app[STORAGE].webhooks
    fetch = partial(webhooks.list_page, organization_ids)
    return await answer_owned(request, query, organization_ids, webhooks.get, fetch, serialize_webhook)


@routes.get("/api/organizations/webhooks/{id}/")
async def get_webhook(request: web.Request, caller: Caller) -> WebhookResponse:
    """Read one event webhook, without its secret. Members are refused with 403."""
    return serialize_webhook(await _load(request, caller))


@routes.patch("/api/organizations/webhooks/{id}/", body=WebhookBody)
async def change_webhook(request: web.Request, caller: Caller) -> WebhookResponse:
    """Change the fields that the body contains. Later events are compared with the new ones."""
    webhook = await _load(request, caller)
    changes = await read_body(request)
    if await owners_of(request, caller, changes) - {webhook.organization_id}:
        raise PermissionDenied
    now, webhooks = request.app[CLOCK].now(), request.app[STORAGE].webhooks
    changed = require_found(await webhooks.update(webhook.id, changes, now))
    return serialize_webhook(changed)


@routes.delete("/api/organizations/webhooks/{id}/")
async def delete_webhook(request: web.Request, caller: Caller) -> None:
    """Delete an event webhook. Its pending deliveries fail, because they can no longer be signed."""
    await delete_owned(request, caller, request.app[STORAGE].webhooks, Caller.require_admin)


@routes.post("/api/organizations/webhooks/{id}/test/", refusals={409})
async def send_webhook_test(request: web.Request, caller: Caller) -> WholeDeliveryResponse:
    """Send a request of the type `webhook.test`, and answer with its delivery, whose status tells the result.

    A webhook that is switched off is refused with 409.
    """
    webhook = await _load(request, caller)
    now, outbox = request.app[CLOCK].now(), request.app[STORAGE].outbox
    delivery = await outbox.insert_test(webhook.id, now)
    if delivery is None:
        raise Conflict("The webhook is switched off. Set is_active to true first.")
    return serialize_whole_delivery(delivery)


@routes.post("/api/organizations/webhooks/{id}/rotate/", refusals={409})
async def rotate_webhook_secret(request: web.Request, caller: Caller) -> RotatedWebhookResponse:
    """Make a new secret, which only this answer contains. For a day, the old one signs the requests as well.

    A sixth rotation within a day is refused with 409.
    """
    webhook = await _load(request, caller)
    now, webhooks = request.app[CLOCK].now(), request.app[STORAGE].webhooks
    secret = make_signing_secret()
    if not await webhooks.rotate_secret(webhook.id, secret, now):
        raise Conflict(f"The secret was rotated {MAX_OLD_SECRETS} times within a day. Try again later.")
    return {
        **serialize_webhook(webhook),
        "secret": secret,
        "old_secret_until": now + OLD_SECRET_LIFETIME,
    }


async def _load(request: web.Request, caller: Caller) -> Webhook:
    return await load_owned(request, caller, request.app[STORAGE].webhooks.get, Caller.require_admin)


@routes.get("/api/organizations/webhook-deliveries/", answer=list[DeliveryResponse], query=DeliveryQuery)
async def list_webhook_deliveries(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the webhook deliveries of your organizations, newest first, without their payloads."""
    query = read_query(request)
    await require_owned(caller, request.app[STORAGE].agents.get_retained, query["agent"])
    await require_owned(caller, request.app[STORAGE].templates.get, query["template"])
    await require_owned(caller, request.app[STORAGE].webhooks.get, query["webhook"])
    outbox = request.app[STORAGE].outbox
    filters = DeliveryFilters(
        caller.organizations, query["agent"], query["template"], query["webhook"], query["status"]
    )
    fetch = partial(outbox.list_page, filters)
    return await answer_owned(request, query, caller.organizations, outbox.get, fetch, serialize_delivery)


@routes.get("/api/organizations/webhook-deliveries/{id}/")
async def get_webhook_delivery(request: web.Request, caller: Caller) -> WholeDeliveryResponse:
    """Read one webhook delivery with its payload."""
    delivery = await load_owned(request, caller, request.app[STORAGE].outbox.get)
    return serialize_whole_delivery(delivery)


@routes.post("/api/organizations/webhook-deliveries/{id}/redeliver/")
async def redeliver_webhook(request: web.Request, caller: Caller) -> WholeDeliveryResponse:
    """Send a delivery of any status again at once, under the same id and with a new retry schedule."""
    outbox = request.app[STORAGE].outbox
    delivery = await load_owned(request, caller, outbox.get)
    pending = require_found(await outbox.redeliver(delivery.id, request.app[CLOCK].now()))
    return serialize_whole_delivery(pending)
