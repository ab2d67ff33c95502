"""API keys of an organization, for its owners and admins."""

from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.errors import NotUnique
from storage.ids import new_id
from storage.model import ApiKey
from web.access.auth import Caller, requested_organization
from web.access.path_access import delete_owned, load_owned
from web.app_keys import CLOCK, STORAGE
from web.credentials.formats import make_key
from web.errors import require_found
from web.fields import Boolean, Line
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import PageQuery, answer_owned
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes


class ApiKeyChangesBody(Body):
    """The fields of an API key that can be changed; the key itself stays."""

    name = Line(required=True, blank=False, max_length=255)
    is_active = Boolean(load_default=True)


class NewApiKeyBody(ApiKeyChangesBody):
    """A new API key."""


class ApiKeyResponse(TypedDict):
    """An API key, without the key itself."""

    id: UUID
    """Chosen by the service."""
    name: str
    """Any name, to tell keys apart."""
    prefix: str
    """The eight characters after `hsk_`, by which you recognize the key in your own settings."""
    is_active: bool
    """Whether the key is accepted; one that is switched off can be switched on again."""
    last_used_at: datetime | None
    """When a request last used the key, to the minute; null if none did."""
    created_at: datetime
    """When the key was created."""


class NewApiKeyResponse(ApiKeyResponse):
    """An API key with the key itself, which no other response contains."""

    key: str | None
    """The key itself, to be sent as `Authorization: Bearer …`. It cannot be read again: the answer to a
    repeated request with the same `Idempotency-Key` has null."""


serialize_api_key = Serializer(ApiKeyResponse, ApiKey)

routes = Routes()


@routes.create("/api/organizations/api-keys/", body=NewApiKeyBody, by_header=True)
async def create_key(request: web.Request, caller: Caller) -> NewApiKeyResponse:
    """Create an API key, which acts as an admin of the organization.

    Only this answer contains the key itself. Members are refused with 403.
    """
    organization_id = requested_organization(request, caller)
    caller.require_admin(organization_id)
    body = await read_body_once(request, caller)
    while True:
        secret = make_key()
        key = _build_key(organization_id, body, secret.prefix, request.app[CLOCK].now())
        answer: NewApiKeyResponse = {**serialize_api_key(key), "key": secret.text}
        receipt = receipt_of(request, answer, "key")
        try:
            await request.app[STORAGE].api_keys.insert(key, secret.hash, receipt)
        except NotUnique:
            continue  # the prefix is taken, with a probability of 1 in 2.8 trillion; try another
        return answer


def _build_key(organization_id: UUID, body: dict[str, Any], prefix: str, now: datetime) -> ApiKey:
    return ApiKey(
        id=new_id(), organization_id=organization_id, prefix=prefix, last_used_at=None, created_at=now, **body
    )


@routes.get("/api/organizations/api-keys/", answer=list[ApiKeyResponse], query=PageQuery)
async def list_keys(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the keys of the organizations that you administer, newest first. Members are refused with 403."""
    organization_ids = caller.administered()
    query = read_query(request)
    keys = request.app[STORAGE].api_keys
    fetch = partial(keys.list_page, organization_ids)
    return await answer_owned(request, query, organization_ids, keys.get, fetch, serialize_api_key)


@routes.get("/api/organizations/api-keys/{id}/")
async def get_key(request: web.Request, caller: Caller) -> ApiKeyResponse:
    """Read one API key, without the key itself. Members are refused with 403."""
    key = await load_owned(request, caller, request.app[STORAGE].api_keys.get, Caller.require_admin)
    return serialize_api_key(key)


@routes.patch("/api/organizations/api-keys/{id}/", body=ApiKeyChangesBody)
async def change_key(request: web.Request, caller: Caller) -> ApiKeyResponse:
    """Change an API key. One that is switched off is refused from the next request on."""
    keys = request.app[STORAGE].api_keys
    key = await load_owned(request, caller, keys.get, Caller.require_admin)
    changes = await read_body(request)
    changed = require_found(await keys.update(key.id, changes))
    return serialize_api_key(changed)


@routes.delete("/api/organizations/api-keys/{id}/")
async def delete_key(request: web.Request, caller: Caller) -> None:
    """Delete an API key, which is refused from the next request on."""
    await delete_owned(request, caller, request.app[STORAGE].api_keys, Caller.require_admin)
