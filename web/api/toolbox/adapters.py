"""Adapters, which are packages of tools, and the configs with which the agents of a template use them."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.ids import new_id
from storage.model import Template, Visibility
from storage.toolbox import Adapter, AdapterConfig
from web.access.approval_rules import ApprovalMode, ApprovalWhen, approval_rule, check_approval
from web.access.auth import Caller, requested_organization
from web.access.path_access import (
    delete_owned,
    load,
    load_owned,
    may_see,
    require_adapter,
    require_owned,
    require_visible,
)
from web.access.references import load_all_named
from web.app_keys import CLOCK, SCHEMA_CHECKER, STORAGE
from web.errors import Invalid, PermissionDenied, refusing_constraint_errors, require_found
from web.fields import MAX_SIDE_TEXT, Choice, JsonObject, JsonValue, Line, Text, Url, Uuid
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import Listing, PageQuery, answer_list, answer_owned
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes
from web.secret_fields import SecretHeaders


class AdapterBody(Body):
    """The writable fields of an adapter."""

    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="", max_length=MAX_SIDE_TEXT)
    detail_url = Url(load_default="", max_length=200)
    config_schema = JsonObject(load_default=dict)


class AdapterQuery(PageQuery):
    visibility = Choice(Visibility, load_default=None)
    """Only adapters with this visibility."""


class AdapterResponse(TypedDict):
    """A package of tools that agents can be given."""

    id: UUID
    """Chosen by the service; tool calls carry it, so that a server can tell whose call it is."""
    name: str
    """Any name. If tools have the same name, models see some of them with the adapter's name in front."""
    description: str
    """A text for people; "" if there is none."""
    visibility: Visibility
    """Who can see and use it. New adapters are private; an operator can publish one."""
    organization_id: UUID
    """The organization that owns the adapter, and alone may change it."""
    created_at: datetime
    """When the adapter was created."""
    detail_url: str
    """An http or https URL with more about it, for people; "" if there is none."""
    config_schema: dict[str, Any]
    """The JSON Schema (2020-12) that the adapter's configs must fit, without references to other documents;
    {}: any config."""


serialize_adapter = Serializer(AdapterResponse, Adapter)


class AdapterConfigChangesBody(Body):
    """The fields that can be changed; template and adapter stay."""

    config = JsonValue(load_default=dict)
    secret_headers = SecretHeaders(load_default=dict)
    approval = approval_rule(allow_none=True, load_default=None)


class AdapterConfigBody(AdapterConfigChangesBody):
    """An adapter config. There is at most one for each template and adapter."""

    template_id = Uuid(data_key="template", required=True)
    adapter_id = Uuid(data_key="adapter", required=True)


class AdapterConfigQuery(PageQuery):
    template = Uuid(load_default=None)
    """Only configs of this template."""
    adapter = Uuid(load_default=None)
    """Only configs for this adapter."""


class AdapterConfigResponse(TypedDict):
    """The settings with which the agents of a template use an adapter."""

    id: UUID
    """Chosen by the service."""
    template: UUID
    """The template whose agents use this config."""
    adapter: UUID
    """The adapter that gets this config with each tool call."""
    config: Any
    """A JSON value that fits the adapter's `config_schema`, such as an API key for it; null in the answer to
    a repeated request, and if it cannot be decrypted: then set it again."""
    secret_headers: Mapping[str, str]
    """Headers of each tool call, at most 20, such as `{"Authorization": "CRM_KEY"}`. The value of each is the
    secret of this name of the template, else of the organization; a call fails if there is none."""
    approval: ApprovalMode | ApprovalWhen | None
    """Which calls of the agents of the template wait until a person allows them, instead of what the tools
    say; null: as the tools say. Only admins and owners change it."""
    created_at: datetime
    """When the config was created."""
    updated_at: datetime
    """When the config was last changed; at first the same as `created_at`."""


serialize_adapter_config = Serializer(AdapterConfigResponse, AdapterConfig)

routes = Routes()


@routes.create("/api/toolbox/adapters/", body=AdapterBody, by_header=True)
async def create_adapter(request: web.Request, caller: Caller) -> AdapterResponse:
    """Create a private adapter; only an operator can publish it. Add its tools afterwards."""
    organization_id = requested_organization(request, caller)
    body = await read_body_once(request, caller)
    await _check_schema(request, organization_id, body)
    now = request.app[CLOCK].now()
    adapter = Adapter(
        id=new_id(), organization_id=organization_id, visibility=Visibility.PRIVATE, created_at=now, **body
    )
    answer = serialize_adapter(adapter)
    await request.app[STORAGE].adapters.insert(adapter, receipt_of(request, answer))
    return answer


async def _check_schema(request: web.Request, organization_id: UUID, body: dict[str, Any]) -> None:
    if body.get("config_schema"):
        checker = request.app[SCHEMA_CHECKER]
        errors = await checker.find_schema_errors(organization_id, "this schema", body["config_schema"])
        if errors:
            raise Invalid({"config_schema": errors})


@routes.get("/api/toolbox/adapters/", answer=list[AdapterResponse], query=AdapterQuery)
async def list_adapters(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List your own adapters and the public ones, newest first."""
    query = read_query(request)
    adapters = request.app[STORAGE].adapters
    fetch = partial(adapters.list_page, caller.organizations, query["visibility"])
    listing = Listing(fetch, serialize_adapter, adapters.get, partial(may_see, caller))
    return await answer_list(request, query, listing)


@routes.get("/api/toolbox/adapters/{id}/")
async def get_adapter(request: web.Request, caller: Caller) -> AdapterResponse:
    """Read one adapter, of your own or public."""
    adapter = await load(request, request.app[STORAGE].adapters.get)
    require_visible(caller, adapter)
    return serialize_adapter(adapter)


@routes.patch("/api/toolbox/adapters/{id}/", body=AdapterBody)
async def change_adapter(request: web.Request, caller: Caller) -> AdapterResponse:
    """Change the fields that the body contains.

    Existing configs are not checked against a new `config_schema`.
    """
    adapters = request.app[STORAGE].adapters
    adapter = await load_owned(request, caller, adapters.get)
    changes = await read_body(request)
    await _check_schema(request, adapter.organization_id, changes)
    changed = require_found(await adapters.update(adapter.id, changes))
    return serialize_adapter(changed)


@routes.delete("/api/toolbox/adapters/{id}/")
async def delete_adapter(request: web.Request, caller: Caller) -> None:
    """Delete an adapter with its tools and configs, and remove it from all agents."""
    await delete_owned(request, caller, request.app[STORAGE].adapters)


@routes.create("/api/toolbox/adapter-configs/", body=AdapterConfigBody)
async def create_config(request: web.Request, caller: Caller) -> AdapterConfigResponse:
    """Create the config of an adapter for a template.

    A config that does not fit the adapter's `config_schema` is refused with 400, and so is a second one.
    """
    body = await read_body_once(request, caller)
    storage = request.app[STORAGE]
    named = await load_all_named(body, template=storage.templates.get, adapter=storage.adapters.get)
    template: Template = named["template"]
    adapter: Adapter = named["adapter"]
    caller.require(template.organization_id)
    if adapter.visibility is not Visibility.PUBLIC and adapter.organization_id != template.organization_id:
        raise PermissionDenied
    await _check_config(request, template.organization_id, adapter, body["config"])
    await check_approval(request, caller, template.organization_id, None, body["approval"])
    now = request.app[CLOCK].now()
    config = AdapterConfig(
        id=new_id(), organization_id=template.organization_id, created_at=now, updated_at=now, **body
    )
    answer = serialize_adapter_config(config)
    with refusing_constraint_errors(body):
        await request.app[STORAGE].adapter_configs.insert(config, receipt_of(request, answer, "config"))
    return answer


async def _check_config(request: web.Request, organization_id: UUID, adapter: Adapter, config: Any) -> None:
    checker, place = request.app[SCHEMA_CHECKER], f"the config_schema of the adapter {adapter.id}"
    errors = await checker.find_errors(organization_id, place, adapter.config_schema, config)
    if errors:
        raise Invalid({"config": errors})


@routes.get("/api/toolbox/adapter-configs/", answer=list[AdapterConfigResponse], query=AdapterConfigQuery)
async def list_configs(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the adapter configs of your organizations, newest first."""
    query = read_query(request)
    await require_owned(caller, request.app[STORAGE].templates.get, query["template"])
    await require_adapter(request, caller, query["adapter"])
    configs = request.app[STORAGE].adapter_configs
    fetch = partial(configs.list_page, caller.organizations, query["template"], query["adapter"])
    owners = caller.organizations
    return await answer_owned(request, query, owners, configs.get, fetch, serialize_adapter_config)


@routes.get("/api/toolbox/adapter-configs/{id}/")
async def get_config(request: web.Request, caller: Caller) -> AdapterConfigResponse:
    """Read one adapter config."""
    config = await load_owned(request, caller, request.app[STORAGE].adapter_configs.get)
    return serialize_adapter_config(config)


@routes.patch("/api/toolbox/adapter-configs/{id}/", body=AdapterConfigChangesBody)
async def change_config(request: web.Request, caller: Caller) -> AdapterConfigResponse:
    """Change the fields that the body contains. Tool calls use them at once.

    A config that does not fit the adapter's `config_schema` is refused with 400.
    """
    config = await load_owned(request, caller, request.app[STORAGE].adapter_configs.get)
    changes = await read_body(request)
    storage, now = request.app[STORAGE], request.app[CLOCK].now()
    approval = changes.get("approval", config.approval)
    await check_approval(request, caller, config.organization_id, config.approval, approval)
    if "config" in changes:
        adapter = require_found(await storage.adapters.get(config.adapter_id))
        await _check_config(request, config.organization_id, adapter, changes["config"])
    changed = require_found(await storage.adapter_configs.update(config.id, changes, now))
    return serialize_adapter_config(changed)


@routes.delete("/api/toolbox/adapter-configs/{id}/")
async def delete_config(request: web.Request, caller: Caller) -> None:
    """Delete an adapter config. Tool calls then carry null as their config, and wait as the tools say.

    One with an `approval` is deleted by admins and owners only.
    """
    configs = request.app[STORAGE].adapter_configs
    config = await load_owned(request, caller, configs.get)
    if config.approval is not None:
        caller.require_admin(config.organization_id)
    await delete_owned(request, caller, configs)
