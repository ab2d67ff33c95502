"""Adapter configs: how a template's agents use an adapter."""

from typing import Any
from uuid import UUID

from aiohttp import web

from storage.errors import ConstraintError
from storage.ids import new_id
from storage.model import Template, Visibility
from storage.toolbox.adapter_configs import AdapterConfig
from storage.toolbox.adapters import Adapter
from web.access.auth import Caller
from web.access.path_access import path_id, require_adapter, require_template
from web.app_keys import CLOCK, SCHEMA_CHECKER, STORAGE
from web.constraint_errors import refusal
from web.errors import Invalid, NotFound, PermissionDenied
from web.fields import unknown_id
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.adapter_configs import (
    AdapterConfigBody,
    AdapterConfigChangesBody,
    AdapterConfigQuery,
    AdapterConfigResponse,
    serialize_adapter_config,
)

BODY = AdapterConfigBody()
CHANGES = AdapterConfigChangesBody()
QUERY = AdapterConfigQuery()


async def create_config(request: web.Request, caller: Caller) -> web.Response:
    body = await read_body(request, BODY)
    template, adapter = await _resolve(request, body)
    caller.require(template.organization_id)
    if adapter.visibility is not Visibility.PUBLIC and adapter.organization_id != template.organization_id:
        raise PermissionDenied
    await _check_config(request, adapter, body["config"])
    now = request.app[CLOCK].now()
    config = AdapterConfig(
        id=new_id(), organization_id=template.organization_id, created_at=now, updated_at=now, **body
    )
    try:
        await request.app[STORAGE].adapter_configs.insert(config)
    except ConstraintError as error:
        raise refusal(error, body) from error
    return json_response(serialize_adapter_config(config), status=201)


async def _resolve(request: web.Request, body: dict[str, Any]) -> tuple[Template, Adapter]:
    storage = request.app[STORAGE]
    template = await storage.templates.get(body["template_id"])
    adapter = await storage.adapters.get(body["adapter_id"])
    if template is None or adapter is None:
        found = {"template": template, "adapter": adapter}
        raise Invalid(
            {name: [unknown_id(body[f"{name}_id"])] for name, known in found.items() if known is None}
        )
    return template, adapter


async def _check_config(request: web.Request, adapter: Adapter, config: Any) -> None:
    errors = await request.app[SCHEMA_CHECKER].find_errors(adapter.config_schema, config)
    if errors:
        raise Invalid({"config": errors})


async def list_configs(request: web.Request, caller: Caller) -> web.StreamResponse:
    query = read_query(request, QUERY)
    await require_template(request, caller, query["template"])
    await require_adapter(request, caller, query["adapter"])
    configs = request.app[STORAGE].adapter_configs

    async def find(config_id: UUID) -> AdapterConfig | None:
        last = await configs.get(config_id)
        return last if last and last.organization_id in caller.roles else None

    listing = Listing(
        fetch=lambda page: configs.page(caller.organizations, query["template"], query["adapter"], page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_adapter_config,
    )
    return await answer_list(request, query, listing)


async def get_config(request: web.Request, caller: Caller) -> web.Response:
    return json_response(serialize_adapter_config(await _config(request, caller)))


async def change_config(request: web.Request, caller: Caller) -> web.Response:
    config = await _config(request, caller)
    changes = await read_body(request, CHANGES, partial=True)
    if "config" in changes:
        config = await _replace(request, config, changes["config"])
    return json_response(serialize_adapter_config(config))


async def _replace(request: web.Request, before: AdapterConfig, config: Any) -> AdapterConfig:
    storage = request.app[STORAGE]
    adapter = await storage.adapters.get(before.adapter_id)
    if adapter is None:
        raise NotFound
    await _check_config(request, adapter, config)
    after = await storage.adapter_configs.update(before.id, config, request.app[CLOCK].now())
    if after is None:
        raise NotFound
    return after


async def delete_config(request: web.Request, caller: Caller) -> web.Response:
    config = await _config(request, caller)
    if not await request.app[STORAGE].adapter_configs.delete(config.id):
        raise NotFound
    return web.Response(status=204)


async def _config(request: web.Request, caller: Caller) -> AdapterConfig:
    config = await request.app[STORAGE].adapter_configs.get(path_id(request))
    if config is None:
        raise NotFound
    caller.require(config.organization_id)
    return config


ROUTES = (
    for_callers(
        "GET",
        "/api/toolbox/adapter-configs/",
        list_configs,
        "List adapter configs",
        answer=list[AdapterConfigResponse],
        query=QUERY,
    ),
    for_callers(
        "POST",
        "/api/toolbox/adapter-configs/",
        create_config,
        "Create an adapter config",
        status=201,
        answer=AdapterConfigResponse,
        body=BODY,
    ),
    for_callers(
        "GET",
        "/api/toolbox/adapter-configs/{id}/",
        get_config,
        "Read an adapter config",
        answer=AdapterConfigResponse,
    ),
    for_callers(
        "PATCH",
        "/api/toolbox/adapter-configs/{id}/",
        change_config,
        "Change an adapter config",
        answer=AdapterConfigResponse,
        body=CHANGES,
        partial=True,
    ),
    for_callers(
        "DELETE",
        "/api/toolbox/adapter-configs/{id}/",
        delete_config,
        "Delete an adapter config",
        status=204,
    ),
)
