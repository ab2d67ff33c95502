"""Checks of an agent's model: its provider is known, and its price if a spending cap demands one."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote
from uuid import UUID

from aiohttp import web

from storage.model import Agent, Organization, Template, Unpriced
from supervisors.llm.catalog import ModelCatalog, UnknownModel
from supervisors.policy.budgets import refusing_cap
from web.app_keys import CLOCK, MODELS, STORAGE
from web.errors import Invalid, require_found

UNPRICED = (
    "The price of {model} is not known, and the spending cap of the {owner} refuses such models. Set "
    '`unpriced` of the {owner} to "allow", or have the operator set a price in [models.{provider}.prices].'
)
UNPRICED_HEADER = "X-Unpriced-Models"
MAX_NAMED = 20  # models in this header
READ_BY_PRICE_CHECK = frozenset({"default_model", "max_cost_usd_per_day", "unpriced"})  # of a template
READ_BY_CHECK = frozenset({"model", "max_cost_usd_per_day", "unpriced", "template_id"})


async def require_usable_model(
    request: web.Request, organization_id: UUID, agent: Mapping[str, Any], template: Template | None
) -> None:
    """Raise Invalid if an agent with these fields could make no model call.

    If the agents' own code calls the models, any model may be named.
    """
    catalog = request.app[MODELS]
    if catalog is None:
        return
    _require_known(catalog, agent["model"])
    await _require_price(request, catalog, organization_id, agent, template)


async def require_usable_change(request: web.Request, agent: Agent, changes: Mapping[str, Any]) -> None:
    """Raise Invalid if the changes name a model that no provider has, or that a spending cap refuses."""
    catalog = request.app[MODELS]
    if catalog is None or not changes.keys() & READ_BY_CHECK:
        return
    if changes.get("model", agent.model) != agent.model:
        _require_known(catalog, changes["model"])
    changed = {name: changes.get(name, getattr(agent, name)) for name in READ_BY_CHECK}
    template_id = changed["template_id"]
    template = await request.app[STORAGE].templates.get(template_id) if template_id else None
    await _require_price(request, catalog, agent.organization_id, changed, template)


async def require_priced_default(request: web.Request, template: Mapping[str, Any]) -> None:
    """Raise Invalid if the cap of a template refuses the template's own default model."""
    catalog, model = request.app[MODELS], template["default_model"]
    is_refusing = template["max_cost_usd_per_day"] is not None and template["unpriced"] is Unpriced.REFUSE
    if catalog is None or not model or not is_refusing:
        return
    if not await catalog.is_priced(model, request.app[CLOCK].now()):
        raise Invalid({"default_model": [_unpriced(catalog, model, "template")]})


async def warn_of_refused_models(
    request: web.Request,
    answer: web.Response,
    owner: Organization | Template,
    list_models: Callable[[UUID], Awaitable[list[str]]],
) -> None:
    """Name in a header the models of agents that the cap of a template or organization now refuses."""
    catalog, now = request.app[MODELS], request.app[CLOCK].now()
    if catalog is None or owner.max_cost_usd_per_day is None or owner.unpriced is Unpriced.ALLOW:
        return
    models = [model for model in await list_models(owner.id) if not await catalog.is_priced(model, now)]
    if models:
        named = ", ".join(quote(catalog.qualify(model), safe="/:") for model in models[:MAX_NAMED])
        answer.headers[UNPRICED_HEADER] = f"{named}, ..." if len(models) > MAX_NAMED else named


def _unpriced(catalog: ModelCatalog, model: str, owner: str) -> str:
    model = catalog.qualify(model)
    return UNPRICED.format(model=model, owner=owner, provider=model.partition("/")[0])


def _require_known(catalog: ModelCatalog, model: str) -> None:
    try:
        catalog.require_known(model)
    except UnknownModel as error:
        raise Invalid({"model": [str(error)]}) from error


async def _require_price(
    request: web.Request,
    catalog: ModelCatalog,
    organization_id: UUID,
    agent: Mapping[str, Any],
    template: Template | None,
) -> None:
    if await catalog.is_priced(agent["model"], request.app[CLOCK].now()):
        return
    organization = require_found(await request.app[STORAGE].organizations.get(organization_id))
    owner = refusing_cap(agent["max_cost_usd_per_day"], agent["unpriced"], template, organization)
    if owner:
        raise Invalid({"model": [_unpriced(catalog, agent["model"], owner)]})
