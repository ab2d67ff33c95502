"""Templates: defaults that many agents share."""

from functools import partial

from aiohttp import web

from storage.ids import new_id
from storage.model import Template
from supervisors.engine.broadcast import tell_agents_of_template
from supervisors.engine.messages import Signal
from web.access.auth import Caller, requested_organization
from web.access.model_checks import READ_BY_PRICE_CHECK, require_priced_default, warn_of_refused_models
from web.access.path_access import load_owned
from web.app_keys import CLOCK, REGISTRY, STORAGE
from web.errors import Conflict, require_found
from web.idempotency import read_body_once, receipt_without
from web.json import json_response
from web.page_reader import Listing
from web.paging import PageQuery, answer_list, find_owned
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.templates import (
    TemplateBody,
    TemplateDeletionQuery,
    TemplateResponse,
    serialize_template,
    without_hidden_secret,
)

routes = Routes()

BODY = TemplateBody()
QUERY = PageQuery()
DELETION = TemplateDeletionQuery()


@routes.create("/api/templates/", answer=TemplateResponse, body=BODY, by_header=True)
async def create_template(request: web.Request, caller: Caller) -> web.Response:
    """Create a template. If its cap refuses its `default_model`, whose price is not known, the answer is 400.

    A repeated request with the same `Idempotency-Key` gets the first answer without its `tool_call_secret`.
    """
    organization_id = requested_organization(request, caller)
    body = await read_body_once(request, caller, BODY)
    body["tool_call_secret"] = body["tool_call_secret"] or ""
    await require_priced_default(request, body)
    now = request.app[CLOCK].now()
    template = Template(id=new_id(), organization_id=organization_id, created_at=now, **body)
    whole = serialize_template(template, show_secret=True)
    receipt = receipt_without(request, whole, "tool_call_secret")
    await request.app[STORAGE].templates.insert(template, receipt)
    return _answer(caller, template, status=201)


@routes.get("/api/templates/{id}/", answer=TemplateResponse)
async def get_template(request: web.Request, caller: Caller) -> web.Response:
    """Read one template."""
    return _answer(caller, await load_owned(request, caller, request.app[STORAGE].templates.get))


@routes.patch("/api/templates/{id}/", answer=TemplateResponse, body=BODY)
async def change_template(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains. All agents that inherit them are affected.

    A new debounce window applies to current holds at once; a higher cap wakes agents that are due. If the cap
    refuses models of its agents, whose prices are not known, `X-Unpriced-Models` names them.
    """
    storage = request.app[STORAGE]
    template = await load_owned(request, caller, storage.templates.get)
    changes = without_hidden_secret(await read_body(request, BODY, partial=True))
    if changes.keys() & READ_BY_PRICE_CHECK:
        changed_fields = {name: changes.get(name, getattr(template, name)) for name in READ_BY_PRICE_CHECK}
        await require_priced_default(request, changed_fields)
    changed = require_found(await storage.templates.update(template.id, changes))
    if changed.debounce_window_seconds != template.debounce_window_seconds:
        for agent_id in await storage.agents.list_holding_of_template(template.id):
            request.app[REGISTRY].tell(agent_id, Signal.RELOAD)
    if changes.keys() & {"max_cost_usd_per_day", "unpriced"}:
        await tell_agents_of_template(template.id, storage.agent_states, request.app[REGISTRY])
    answer = _answer(caller, changed)
    if changes.keys() & READ_BY_PRICE_CHECK:
        await warn_of_refused_models(request, answer, changed, storage.agents.list_models_of_template)
    return answer


@routes.get("/api/templates/", answer=list[TemplateResponse], query=QUERY)
async def list_templates(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the templates of your organizations, newest first."""
    templates = request.app[STORAGE].templates
    query, owners = read_query(request, QUERY), caller.organizations
    listing = Listing(
        partial(templates.list_page, owners),
        partial(_serialize_for, caller),
        find_owned(owners, templates.get),
    )
    return await answer_list(request, query, listing)


def _serialize_for(caller: Caller, template: Template) -> TemplateResponse:
    """Return the response, whose secret only admins and owners see."""
    return serialize_template(template, show_secret=caller.is_admin(template.organization_id))


def _answer(caller: Caller, template: Template, status: int = 200) -> web.Response:
    return json_response(_serialize_for(caller, template), status=status)


@routes.delete("/api/templates/{id}/", query=DELETION, refusals={409})
async def delete_template(request: web.Request, caller: Caller) -> web.Response:
    """Delete a template with its adapter configs.

    While agents use it, the answer is 409, unless `detach` lets them keep the settings that they inherit. Its
    pending webhooks fail, because they can no longer be signed.
    """
    storage = request.app[STORAGE]
    template = await load_owned(request, caller, storage.templates.get)
    if read_query(request, DELETION)["detach"]:
        holding = await storage.agents.list_holding_of_template(template.id)
        await storage.templates.delete_detaching(template.id, request.app[CLOCK].now(), actor=caller.identity)
        for agent_id in holding:
            request.app[REGISTRY].tell(agent_id, Signal.RELOAD)
    else:
        agent_count = await storage.templates.delete_unused(template.id)
        if agent_count:
            agents_use = "1 agent uses" if agent_count == 1 else f"{agent_count} agents use"
            raise Conflict(f"{agents_use} this template. With ?detach=true they keep what they inherit.")
    return web.Response(status=204)
