"""What the templates' webhooks are told, and what came of it. For every member, as the templates are."""

from uuid import UUID

from aiohttp import web

from storage.delivery.outbox import DeliveryFilters, WebhookDelivery
from web.access.auth import Caller
from web.access.path_access import path_id, require_retained_agent, require_template
from web.app_keys import CLOCK, STORAGE
from web.errors import NotFound
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.parsing import read_query
from web.routes import for_callers
from web.schemas.webhook_deliveries import (
    DeliveryQuery,
    DeliveryResponse,
    WholeDeliveryResponse,
    serialize_delivery,
    serialize_whole_delivery,
)

QUERY = DeliveryQuery()


async def list_webhook_deliveries(request: web.Request, caller: Caller) -> web.StreamResponse:
    query = read_query(request, QUERY)
    await require_retained_agent(request, caller, query["agent"])
    await require_template(request, caller, query["template"])
    outbox = request.app[STORAGE].outbox
    filters = DeliveryFilters(caller.organizations, query["agent"], query["template"], query["status"])

    async def find(delivery_id: UUID) -> WebhookDelivery | None:
        last = await outbox.get(delivery_id)
        return last if last and last.organization_id in caller.roles else None

    listing = Listing(
        fetch=lambda page: outbox.page(filters, page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_delivery,
    )
    return await answer_list(request, query, listing)


async def get_webhook_delivery(request: web.Request, caller: Caller) -> web.Response:
    return json_response(serialize_whole_delivery(await _delivery(request, caller)))


async def redeliver_webhook(request: web.Request, caller: Caller) -> web.Response:
    """Whatever came of it so far, it is sent at once, under the same id, and as often as a fresh one."""
    delivery = await _delivery(request, caller)
    pending = await request.app[STORAGE].outbox.redeliver(delivery.id, request.app[CLOCK].now())
    if pending is None:
        raise NotFound
    return json_response(serialize_whole_delivery(pending))


async def _delivery(request: web.Request, caller: Caller) -> WebhookDelivery:
    delivery = await request.app[STORAGE].outbox.get(path_id(request))
    if delivery is None:
        raise NotFound
    caller.require(delivery.organization_id)
    return delivery


ROUTES = (
    for_callers(
        "GET",
        "/api/organizations/webhook-deliveries/",
        list_webhook_deliveries,
        "List webhook deliveries",
        answer=list[DeliveryResponse],
        query=QUERY,
    ),
    for_callers(
        "GET",
        "/api/organizations/webhook-deliveries/{id}/",
        get_webhook_delivery,
        "Read a webhook delivery, with what is sent",
        answer=WholeDeliveryResponse,
    ),
    for_callers(
        "POST",
        "/api/organizations/webhook-deliveries/{id}/redeliver/",
        redeliver_webhook,
        "Send a webhook again, at once",
        answer=WholeDeliveryResponse,
    ),
)
