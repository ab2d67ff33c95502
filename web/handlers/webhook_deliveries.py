"""Deliveries to event webhooks and to those of templates: what was sent and with which result."""

from functools import partial

from aiohttp import web

from storage.delivery.outbox import DeliveryFilters
from web.access.auth import Caller
from web.access.path_access import load_owned, require_owned
from web.app_keys import CLOCK, STORAGE
from web.errors import require_found
from web.json import json_response
from web.page_reader import Listing
from web.paging import answer_list, find_owned
from web.request.parsing import read_query
from web.routes import Routes
from web.schemas.webhook_deliveries import (
    DeliveryQuery,
    DeliveryResponse,
    WholeDeliveryResponse,
    serialize_delivery,
    serialize_whole_delivery,
)

routes = Routes()

QUERY = DeliveryQuery()


@routes.get("/api/organizations/webhook-deliveries/", answer=list[DeliveryResponse], query=QUERY)
async def list_webhook_deliveries(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the webhook deliveries of your organizations, newest first, without their payloads."""
    query = read_query(request, QUERY)
    await require_owned(caller, request.app[STORAGE].agents.get_retained, query["agent"])
    await require_owned(caller, request.app[STORAGE].templates.get, query["template"])
    await require_owned(caller, request.app[STORAGE].webhooks.get, query["webhook"])
    outbox = request.app[STORAGE].outbox
    filters = DeliveryFilters(
        caller.organizations, query["agent"], query["template"], query["webhook"], query["status"]
    )
    listing = Listing(
        partial(outbox.list_page, filters), serialize_delivery, find_owned(caller.organizations, outbox.get)
    )
    return await answer_list(request, query, listing)


@routes.get("/api/organizations/webhook-deliveries/{id}/", answer=WholeDeliveryResponse)
async def get_webhook_delivery(request: web.Request, caller: Caller) -> web.Response:
    """Read one webhook delivery with its payload."""
    delivery = await load_owned(request, caller, request.app[STORAGE].outbox.get)
    return json_response(serialize_whole_delivery(delivery))


@routes.post("/api/organizations/webhook-deliveries/{id}/redeliver/", answer=WholeDeliveryResponse)
async def redeliver_webhook(request: web.Request, caller: Caller) -> web.Response:
    """Send a delivery of any status again at once, under the same id and with a new retry schedule."""
    outbox = request.app[STORAGE].outbox
    delivery = await load_owned(request, caller, outbox.get)
    pending = require_found(await outbox.redeliver(delivery.id, request.app[CLOCK].now()))
    return json_response(serialize_whole_delivery(pending))
