"""Secrets for the code and the tools of agents, for owners and admins: written, listed, never read back."""

from datetime import datetime
from functools import partial
from typing import TypedDict
from uuid import UUID

from aiohttp import web

from storage.agents.secrets import Secret, SecretFilters
from storage.errors import NotUnique, ReferenceMissing
from storage.ids import new_id
from storage.model import Template
from web.access.auth import Caller, requested_organization
from web.access.path_access import load, load_owned
from web.app_keys import CLOCK, STORAGE
from web.errors import Invalid, NotFound, require_found
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import PageQuery, answer_owned
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes
from web.secret_fields import SecretName, SecretValue


class SecretChangesBody(Body):
    """The field of a secret that can be changed; the name stays."""

    value = SecretValue(required=True)
    """The secret itself, up to 64 KiB and unchanged; no answer contains it."""


class SecretBody(SecretChangesBody):
    """A new secret."""

    name = SecretName(required=True)


class SecretResponse(TypedDict):
    """A secret that code and tools of agents use, without its value, which nobody can read again."""

    id: UUID
    """Chosen by the service."""
    organization: UUID
    """The organization that the secret belongs to."""
    template: UUID | None
    """The template whose agents alone use the secret; null: the agents of all templates of the
    organization."""
    name: str
    """The name of an environment variable, unique in the organization or in the template. A secret of the
    template takes precedence over one of the organization with the same name."""
    created_at: datetime
    """When the secret was created."""
    updated_at: datetime
    """When the value was last set; at first the same as `created_at`."""


serialize_secret = Serializer(SecretResponse, Secret)

routes = Routes()

NAME_TAKEN = "secret with this name already exists."

OF_ORGANIZATION = "/api/organizations/secrets/"
OF_TEMPLATE = "/api/templates/{id}/secrets/"


@routes.create(OF_ORGANIZATION, body=SecretBody, by_header=True)
async def create_secret(request: web.Request, caller: Caller) -> SecretResponse:
    """Create a secret of the organization. Members are refused with 403.

    A template's `environment_secrets` and an adapter config's `secret_headers` say who gets it. If the
    organization would have more than `limits.secrets`, the answer is 400.
    """
    organization_id = requested_organization(request, caller)
    caller.require_admin(organization_id)
    return await _create(request, caller, organization_id, None)


@routes.create(OF_TEMPLATE, body=SecretBody)
async def create_template_secret(request: web.Request, caller: Caller) -> SecretResponse:
    """Create a secret for the agents of one template. Members are refused with 403.

    It takes precedence over a secret of the organization with the same name. If the organization would have
    more than `limits.secrets`, the answer is 400.
    """
    template = await _load_template(request, caller)
    return await _create(request, caller, template.organization_id, template.id)


async def _create(
    request: web.Request, caller: Caller, organization_id: UUID, template_id: UUID | None
) -> SecretResponse:
    body = await read_body_once(request, caller)
    now = request.app[CLOCK].now()
    secret = Secret(new_id(), organization_id, template_id, body["name"], now, now)
    answer = serialize_secret(secret)
    storage = request.app[STORAGE]
    async with storage.limits.secrets.reserved(organization_id):
        try:
            await storage.secrets.insert(secret, body["value"], receipt_of(request, answer))
        except NotUnique as error:
            raise Invalid({"name": [NAME_TAKEN]}) from error
        except ReferenceMissing as error:
            raise NotFound from error  # the template was deleted in between
    return answer


@routes.get(OF_ORGANIZATION, answer=list[SecretResponse], query=PageQuery)
async def list_secrets(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the secrets of the organizations that you administer, without their values, newest first.

    Secrets of templates are listed at each template. Members are refused with 403.
    """
    owners = caller.administered()
    query = read_query(request)
    secrets = request.app[STORAGE].secrets
    fetch = partial(secrets.list_page, SecretFilters(owners))
    return await answer_owned(request, query, owners, secrets.get, fetch, serialize_secret)


@routes.get(OF_TEMPLATE, answer=list[SecretResponse], query=PageQuery)
async def list_template_secrets(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the secrets of a template, without their values, newest first. Members are refused with 403."""
    template = await _load_template(request, caller)
    query, owners = read_query(request), (template.organization_id,)
    secrets = request.app[STORAGE].secrets
    fetch = partial(secrets.list_page, SecretFilters(owners, template.id))
    return await answer_owned(request, query, owners, secrets.get, fetch, serialize_secret)


@routes.get(f"{OF_ORGANIZATION}{{id}}/")
async def get_secret(request: web.Request, caller: Caller) -> SecretResponse:
    """Read the name and the times of a secret, without its value. Members are refused with 403."""
    return serialize_secret(await _load_secret(request, caller))


@routes.get(f"{OF_TEMPLATE}{{secret_id}}/")
async def get_template_secret(request: web.Request, caller: Caller) -> SecretResponse:
    """Read the name and the times of a template's secret, without its value. Members are refused with 403."""
    return serialize_secret(await _load_template_secret(request, caller))


@routes.patch(f"{OF_ORGANIZATION}{{id}}/", body=SecretChangesBody)
async def change_secret(request: web.Request, caller: Caller) -> SecretResponse:
    """Replace the value of a secret. The next run and the next tool call get the new one."""
    return await _change(request, await _load_secret(request, caller))


@routes.patch(f"{OF_TEMPLATE}{{secret_id}}/", body=SecretChangesBody)
async def change_template_secret(request: web.Request, caller: Caller) -> SecretResponse:
    """Replace the value of a template's secret. The next run and the next tool call get the new one."""
    return await _change(request, await _load_template_secret(request, caller))


async def _change(request: web.Request, secret: Secret) -> SecretResponse:
    changes = await read_body(request)
    if "value" in changes:
        now, secrets = request.app[CLOCK].now(), request.app[STORAGE].secrets
        secret = require_found(await secrets.update(secret.id, changes["value"], now))
    return serialize_secret(secret)


@routes.delete(f"{OF_ORGANIZATION}{{id}}/")
async def delete_secret(request: web.Request, caller: Caller) -> None:
    """Delete a secret. Runs and tool calls whose settings still name it fail from now on, and say so."""
    await _delete(request, await _load_secret(request, caller))


@routes.delete(f"{OF_TEMPLATE}{{secret_id}}/")
async def delete_template_secret(request: web.Request, caller: Caller) -> None:
    """Delete a template's secret. A secret of the organization with the same name takes its place."""
    await _delete(request, await _load_template_secret(request, caller))


async def _delete(request: web.Request, secret: Secret) -> None:
    if not await request.app[STORAGE].secrets.delete(secret.id):
        raise NotFound


async def _load_template(request: web.Request, caller: Caller) -> Template:
    return await load_owned(request, caller, request.app[STORAGE].templates.get, Caller.require_admin)


async def _load_secret(request: web.Request, caller: Caller) -> Secret:
    """Return the organization's secret in the path. Raise NotFound for a secret of a template."""
    secret = await load_owned(request, caller, request.app[STORAGE].secrets.get, Caller.require_admin)
    if secret.template_id is not None:
        raise NotFound
    return secret


async def _load_template_secret(request: web.Request, caller: Caller) -> Secret:
    """Return the secret in the path. Raise NotFound if it is not one of the template in the path."""
    template = await _load_template(request, caller)
    secret = await load(request, request.app[STORAGE].secrets.get, "secret_id")
    if secret.template_id != template.id:
        raise NotFound
    return secret
