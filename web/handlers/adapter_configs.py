"""Adapter configs: the settings with which a template's agents use an adapter."""

from functools import partial
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.ids import new_id
from storage.model import Template, Visibility
from storage.toolbox.adapter_configs import AdapterConfig
from storage.toolbox.adapters import Adapter
from web.access.auth import Caller
from web.access.path_access import load_owned, require_adapter, require_owned
from web.app_keys import CLOCK, SCHEMA_CHECKER, STORAGE
from web.constraint_errors import refusing_constraint_errors
from web.errors import Invalid, NotFound, PermissionDenied, require_found
from web.fields import unknown_id
from web.idempotency import read_body_once, receipt_without
from web.json import json_response
from web.page_reader import Listing
from web.paging import answer_list, find_owned
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.adapter_configs import (
    AdapterConfigBody,
    AdapterConfigChangesBody,
    AdapterConfigQuery,
    AdapterConfigResponse,
    serialize_adapter_config,
)

routes = Routes()

BODY = AdapterConfigBody()
CHANGES = AdapterConfigChangesBody()
QUERY = AdapterConfigQuery()


@routes.create("/api/toolbox/adapter-configs/", answer=AdapterConfigResponse, body=BODY)
async def create_config(request: web.Request, caller: Caller) -> web.Response:
    """Create the config of an adapter for a template.

    A config that does not fit the adapter's `config_schema` is refused with 400, and so is a second one.
    """
    body = await read_body_once(request, caller, BODY)
    template, adapter = await _load_template_and_adapter(request, body)
    caller.require(template.organization_id)
    if adapter.visibility is not Visibility.PUBLIC and adapter.organization_id != template.organization_id:
        raise PermissionDenied
    await _check_config(request, template.organization_id, adapter, body["config"])
    now = request.app[CLOCK].now()
    config = AdapterConfig(
        id=new_id(), organization_id=template.organization_id, created_at=now, updated_at=now, **body
    )
    answer = serialize_adapter_config(config)
    with refusing_constraint_errors(body):
        await request.app[STORAGE].adapter_configs.insert(config, receipt_without(request, answer, "config"))
    return json_response(answer, status=201)


async def _load_template_and_adapter(request: web.Request, body: dict[str, Any]) -> tuple[Template, Adapter]:
    """Return what the body names. Raise Invalid for ids that name nothing."""
    storage = request.app[STORAGE]
    template = await storage.templates.get(body["template_id"])
    adapter = await storage.adapters.get(body["adapter_id"])
    if template is None or adapter is None:
        named = {"template": template, "adapter": adapter}
        raise Invalid(
            {field: [unknown_id(body[f"{field}_id"])] for field, row in named.items() if row is None}
        )
    return template, adapter


async def _check_config(request: web.Request, organization_id: UUID, adapter: Adapter, config: Any) -> None:
    checker, place = request.app[SCHEMA_CHECKER], f"the config_schema of the adapter {adapter.id}"
    errors = await checker.find_errors(organization_id, place, adapter.config_schema, config)
    if errors:
        raise Invalid({"config": errors})


@routes.get("/api/toolbox/adapter-configs/", answer=list[AdapterConfigResponse], query=QUERY)
async def list_configs(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the adapter configs of your organizations, newest first."""
    query = read_query(request, QUERY)
    await require_owned(caller, request.app[STORAGE].templates.get, query["template"])
    await require_adapter(request, caller, query["adapter"])
    configs = request.app[STORAGE].adapter_configs
    fetch = partial(configs.list_page, caller.organizations, query["template"], query["adapter"])
    find = find_owned(caller.organizations, configs.get)
    return await answer_list(request, query, Listing(fetch, serialize_adapter_config, find))


@routes.get("/api/toolbox/adapter-configs/{id}/", answer=AdapterConfigResponse)
async def get_config(request: web.Request, caller: Caller) -> web.Response:
    """Read one adapter config."""
    config = await load_owned(request, caller, request.app[STORAGE].adapter_configs.get)
    return json_response(serialize_adapter_config(config))


@routes.patch("/api/toolbox/adapter-configs/{id}/", answer=AdapterConfigResponse, body=CHANGES)
async def change_config(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains. Tool calls use them at once.

    A config that does not fit the adapter's `config_schema` is refused with 400.
    """
    config = await load_owned(request, caller, request.app[STORAGE].adapter_configs.get)
    changes = await read_body(request, CHANGES, partial=True)
    storage, now = request.app[STORAGE], request.app[CLOCK].now()
    if "config" in changes:
        adapter = require_found(await storage.adapters.get(config.adapter_id))
        await _check_config(request, config.organization_id, adapter, changes["config"])
    changed = require_found(await storage.adapter_configs.update(config.id, changes, now))
    return json_response(serialize_adapter_config(changed))


@routes.delete("/api/toolbox/adapter-configs/{id}/")
async def delete_config(request: web.Request, caller: Caller) -> web.Response:
    """Delete an adapter config. Tool calls then carry null as their config."""
    configs = request.app[STORAGE].adapter_configs
    config = await load_owned(request, caller, configs.get)
    if not await configs.delete(config.id):
        raise NotFound
    return web.Response(status=204)
