"""Event webhooks of an organization, for its owners and admins."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.delivery.webhooks import MAX_OLD_SECRETS, OLD_SECRET_LIFETIME, Webhook
from storage.ids import new_id
from web.access.auth import Caller
from web.access.body_references import load_named, single_organization
from web.access.path_access import load_owned
from web.app_keys import CLOCK, STORAGE
from web.credentials.formats import make_signing_secret
from web.errors import Conflict, NotFound, PermissionDenied, require_found
from web.idempotency import read_body_once, receipt_without
from web.json import json_response
from web.page_reader import Listing
from web.paging import PageQuery, answer_list, find_owned
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.webhook_deliveries import WholeDeliveryResponse, serialize_whole_delivery
from web.schemas.webhooks import (
    NewWebhookResponse,
    RotatedWebhookResponse,
    WebhookBody,
    WebhookResponse,
    serialize_webhook,
)

routes = Routes()

BODY = WebhookBody()
QUERY = PageQuery()


@routes.create("/api/organizations/webhooks/", answer=NewWebhookResponse, body=BODY, by_header=True)
async def create_webhook(request: web.Request, caller: Caller) -> web.Response:
    """Create an event webhook, which gets events from now on. Only this answer contains its secret.

    Members are refused with 403. If the organization would have more than `limits.webhooks`, the answer is
    400.
    """
    body = await read_body_once(request, caller, BODY)
    organization_id = single_organization(request, caller, await _owners(request, caller, body))
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
        await storage.webhooks.insert(webhook, secret, receipt_without(request, answer, "secret"))
    return json_response(answer, status=201)


async def _owners(request: web.Request, caller: Caller, body: Mapping[str, Any]) -> set[UUID]:
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


@routes.get("/api/organizations/webhooks/", answer=list[WebhookResponse], query=QUERY)
async def list_webhooks(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the event webhooks of the organizations that you administer, newest first.

    Members are refused with 403.
    """
    organization_ids = caller.administered()
    query = read_query(request, QUERY)
    webhooks = request.app[STORAGE].webhooks
    listing = Listing(
        partial(webhooks.list_page, organization_ids),
        serialize_webhook,
        find_owned(organization_ids, webhooks.get),
    )
    return await answer_list(request, query, listing)


@routes.get("/api/organizations/webhooks/{id}/", answer=WebhookResponse)
async def get_webhook(request: web.Request, caller: Caller) -> web.Response:
    """Read one event webhook, without its secret. Members are refused with 403."""
    return json_response(serialize_webhook(await _load(request, caller)))


@routes.patch("/api/organizations/webhooks/{id}/", answer=WebhookResponse, body=BODY)
async def change_webhook(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains. Later events are compared with the new ones."""
    webhook = await _load(request, caller)
    changes = await read_body(request, BODY, partial=True)
    if await _owners(request, caller, changes) - {webhook.organization_id}:
        raise PermissionDenied
    now, webhooks = request.app[CLOCK].now(), request.app[STORAGE].webhooks
    changed = require_found(await webhooks.update(webhook.id, changes, now))
    return json_response(serialize_webhook(changed))


@routes.delete("/api/organizations/webhooks/{id}/")
async def delete_webhook(request: web.Request, caller: Caller) -> web.Response:
    """Delete an event webhook. Its pending deliveries fail, because they can no longer be signed."""
    webhook = await _load(request, caller)
    if not await request.app[STORAGE].webhooks.delete(webhook.id):
        raise NotFound
    return web.Response(status=204)


@routes.post("/api/organizations/webhooks/{id}/test/", answer=WholeDeliveryResponse, refusals={409})
async def send_webhook_test(request: web.Request, caller: Caller) -> web.Response:
    """Send a request of the type `webhook.test`, and answer with its delivery, whose status tells the result.

    A webhook that is switched off is refused with 409.
    """
    webhook = await _load(request, caller)
    now, outbox = request.app[CLOCK].now(), request.app[STORAGE].outbox
    delivery = await outbox.insert_test(webhook.id, now)
    if delivery is None:
        raise Conflict("The webhook is switched off. Set is_active to true first.")
    return json_response(serialize_whole_delivery(delivery))


@routes.post("/api/organizations/webhooks/{id}/rotate/", answer=RotatedWebhookResponse, refusals={409})
async def rotate_webhook_secret(request: web.Request, caller: Caller) -> web.Response:
    """Make a new secret, which only this answer contains. For a day, the old one signs the requests as well.

    A sixth rotation within a day is refused with 409.
    """
    webhook = await _load(request, caller)
    now, webhooks = request.app[CLOCK].now(), request.app[STORAGE].webhooks
    secret = make_signing_secret()
    if not await webhooks.rotate_secret(webhook.id, secret, now):
        raise Conflict(f"The secret was rotated {MAX_OLD_SECRETS} times within a day. Try again later.")
    answer: RotatedWebhookResponse = {
        **serialize_webhook(webhook),
        "secret": secret,
        "old_secret_until": now + OLD_SECRET_LIFETIME,
    }
    return json_response(answer)


async def _load(request: web.Request, caller: Caller) -> Webhook:
    return await load_owned(request, caller, request.app[STORAGE].webhooks.get, Caller.require_admin)
