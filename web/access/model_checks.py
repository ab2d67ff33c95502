"""Checks of an agent's model: its provider is known, and its price if a spending cap demands one."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote
from uuid import UUID

from aiohttp import web

from storage.model import Agent, Organization, Template, Unpriced
from supervisors.errors import UnusableModel
from supervisors.new_agents import require_usable_model, unpriced
from web.app_keys import CLOCK, MODELS, STORAGE
from web.errors import Invalid
from web.observability.requests import HEADERS

UNPRICED_HEADER = "X-Unpriced-Models"
MAX_NAMED = 20  # models in this header
READ_BY_PRICE_CHECK = frozenset({"default_model", "max_cost_usd_per_day", "unpriced"})  # of a template
READ_BY_CHECK = frozenset({"model", "max_cost_usd_per_day", "unpriced", "template_id"})


async def require_usable(
    request: web.Request, organization_id: UUID, agent: Mapping[str, Any], template: Template | None
) -> None:
    """Raise Invalid if an agent with these fields could make no model call."""
    catalog, stores, now = request.app[MODELS], request.app[STORAGE], request.app[CLOCK].now()
    with _refusing("model"):
        await require_usable_model(catalog, stores, organization_id, agent, template, now)


async def require_usable_change(request: web.Request, agent: Agent, changes: Mapping[str, Any]) -> None:
    """Raise Invalid if the changes name a model that no provider has, or that a spending cap refuses."""
    catalog, stores, now = request.app[MODELS], request.app[STORAGE], request.app[CLOCK].now()
    if catalog is None or not changes.keys() & READ_BY_CHECK:
        return
    changed = {name: changes.get(name, getattr(agent, name)) for name in READ_BY_CHECK}
    template_id, is_new = changed["template_id"], changed["model"] != agent.model
    template = await stores.templates.get(template_id) if template_id else None
    with _refusing("model"):
        await require_usable_model(
            catalog, stores, agent.organization_id, changed, template, now, is_new=is_new
        )


def require_known_default(request: web.Request, model: str) -> None:
    """Raise Invalid if the default model of a template, unless blank, names a provider that there is not."""
    catalog = request.app[MODELS]
    if catalog is not None and model:
        with _refusing("default_model"):
            catalog.require_known(model)


async def require_priced_default(request: web.Request, template: Mapping[str, Any]) -> None:
    """Raise Invalid if the cap of a template refuses the template's own default model."""
    catalog, model = request.app[MODELS], template["default_model"]
    is_refusing = template["max_cost_usd_per_day"] is not None and template["unpriced"] is Unpriced.REFUSE
    if catalog is None or not model or not is_refusing:
        return
    with _refusing("default_model"):
        if not await catalog.is_priced(model, request.app[CLOCK].now()):
            raise unpriced(catalog, model, "template")


async def warn_of_refused_models(
    request: web.Request,
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
        request[HEADERS][UNPRICED_HEADER] = f"{named}, ..." if len(models) > MAX_NAMED else named


@contextmanager
def _refusing(field: str) -> Iterator[None]:
    try:
        yield
    except UnusableModel as error:
        raise Invalid({field: [str(error)]}) from error
