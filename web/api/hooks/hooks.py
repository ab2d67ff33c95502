"""Inbound hooks of organizations, for owners and admins, and their last deliveries."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from secrets import token_urlsafe
from typing import Any, TypedDict, cast
from uuid import UUID

from aiohttp import web

from storage.delivery.hooks import Hook, Verification
from storage.delivery.webhooks import OLD_SECRET_LIFETIME
from storage.ids import new_id
from storage.model import Priority, Source
from web.access.auth import Caller
from web.access.path_access import delete_owned, load_owned
from web.access.references import single_organization
from web.api.hooks.receiving import Delivery, HookDeliveryResponse, deliver
from web.api.hooks.verification import is_base64_key
from web.api.organizations.webhooks import owners_of
from web.app_keys import CLOCK, SCHEMA_CHECKER, STORAGE
from web.credentials.formats import make_signing_secret
from web.errors import Invalid, PermissionDenied, require_found
from web.fields import Choice, JsonObject, JsonValue, Line, Text, Uuid
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer, to_json
from web.paging import PageQuery, answer_owned
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes
from web.secret_fields import SecretValue

ONE_TARGET = "Name either an agent or a template."
NOT_BASE64 = "Standard Webhooks need a secret in Base64, with or without whsec_ before it."


class Algorithm(StrEnum):
    """The hash function of an HMAC."""

    SHA256 = "sha256"
    SHA512 = "sha512"
    SHA1 = "sha1"


class Encoding(StrEnum):
    """How a signature is written."""

    HEX = "hex"
    BASE64 = "base64"


class HookBody(Body):
    """The writable fields of a hook."""

    name = Line(required=True, blank=False, max_length=255)
    agent_id = Uuid(data_key="agent", load_default=None, allow_none=True)
    template_id = Uuid(data_key="template", load_default=None, allow_none=True)
    verify = Choice(Verification, required=True)
    header = Line(load_default="X-Signature", blank=False, max_length=64)
    algorithm = Choice(Algorithm, load_default=Algorithm.SHA256)
    encoding = Choice(Encoding, load_default=Encoding.HEX)
    prefix = Text(load_default="", max_length=64)
    title = Text(required=True, blank=False, max_length=1000)
    body = Text(load_default="", max_length=8192)
    source = Choice(Source, load_default=Source.API)
    priority = Choice(Priority, load_default=Priority.HIGH)
    only_if = JsonObject(allow_none=True, load_default=None)
    secret = SecretValue()
    """The secret that verifies deliveries, as the sender shows or takes it; without one the service makes it.
    The secret before a change stays valid for a day."""


class HookResponse(TypedDict):
    """An address at which another service delivers events, which become notifications."""

    id: UUID
    """Chosen by the service."""
    organization: UUID
    """The organization that owns it."""
    path: str
    """Where deliveries are sent: this path at the address of the service. With `verify` `token` the secret
    and a slash follow."""
    name: str
    """Any name; also the title of a notification whose `title` turns out blank."""
    agent: UUID | None
    """The agent that gets the notifications; null: `template` says which one."""
    template: UUID | None
    """Each delivery creates an agent from this template, named after the title, which gets the notification;
    null: `agent` gets all."""
    verify: Verification
    """How the sender proves that a delivery is its own."""
    header: str
    """The header with the signature, for `hmac`."""
    algorithm: Algorithm
    """The hash function of the signature, for `hmac`."""
    encoding: Encoding
    """How the signature is written, for `hmac`."""
    prefix: str
    """What stands before the signature in its header, such as `sha256=`, for `hmac`."""
    title: str
    """The title of the notifications, in which `{{ pull_request.title }}` stands for a value in the payload,
    and `{{ commits.0.id }}` for one in a list; what is missing is blank."""
    body: str
    """The details of the notifications, with the same placeholders."""
    source: Source
    """The source of the notifications."""
    priority: Priority
    """The priority of the notifications."""
    only_if: Mapping[str, Any] | None
    """A JSON Schema: a delivery whose payload does not fit is ignored; null: none is."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed; at first the same as `created_at`."""


class NewHookResponse(HookResponse):
    """A hook with its secret, which no other response contains."""

    secret: str | None
    """The secret that verifies deliveries. It cannot be read again: the answer to a repeated request with the
    same `Idempotency-Key` has null."""


class HookTestBody(Body):
    """What to deliver for a test."""

    payload = JsonValue(load_default=lambda: {"test": True})
    """The payload, which may be any JSON value. It needs no signature."""


serialize_hook = Serializer(HookResponse, Hook, path=lambda hook: f"/hooks/{hook.id}/")

routes = Routes()


@routes.create("/api/organizations/hooks/", body=HookBody)
async def create_hook(request: web.Request, caller: Caller) -> NewHookResponse:
    """Create a hook, which takes deliveries from now on. Only this answer contains its secret.

    It belongs to an agent or to a template. Members are refused with 403. If the organization would have
    more than `limits.webhooks` event webhooks and hooks, the answer is 400.
    """
    body = await read_body_once(request, caller)
    organization_id = single_organization(request, caller, await owners_of(request, caller, body))
    caller.require_admin(organization_id)
    now = request.app[CLOCK].now()
    is_in_path = body["verify"] is Verification.TOKEN
    body.setdefault("secret", token_urlsafe() if is_in_path else make_signing_secret())
    hook = Hook(id=new_id(), organization_id=organization_id, created_at=now, updated_at=now, **body)
    await _check(request, hook)
    answer: NewHookResponse = {**serialize_hook(hook), "secret": hook.secret}
    storage = request.app[STORAGE]
    async with storage.limits.webhooks.reserved(organization_id):
        await storage.hooks.insert(hook, receipt_of(request, answer, "secret"))
    return answer


@routes.get("/api/organizations/hooks/", answer=list[HookResponse], query=PageQuery)
async def list_hooks(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the hooks of the organizations that you administer, newest first. Members are refused with 403."""
    organization_ids, query, hooks = caller.administered(), read_query(request), request.app[STORAGE].hooks
    fetch = partial(hooks.list_page, organization_ids)
    return await answer_owned(request, query, organization_ids, hooks.get, fetch, serialize_hook)


@routes.get("/api/organizations/hooks/{id}/")
async def get_hook(request: web.Request, caller: Caller) -> HookResponse:
    """Read one hook, without its secret. Members are refused with 403."""
    return serialize_hook(await _load(request, caller))


@routes.patch("/api/organizations/hooks/{id}/", body=HookBody)
async def change_hook(request: web.Request, caller: Caller) -> HookResponse:
    """Change the fields that the body contains, also the secret. The next delivery sees the change.

    The secret before stays valid for a day; a second change ends it at once.
    """
    hook = await _load(request, caller)
    changes = await read_body(request)
    if await owners_of(request, caller, changes) - {hook.organization_id}:
        raise PermissionDenied
    now, hooks = request.app[CLOCK].now(), request.app[STORAGE].hooks
    if "secret" in changes:
        changes |= {"old_secret": hook.secret, "old_secret_until": now + OLD_SECRET_LIFETIME}
    await _check(request, replace(hook, **changes))
    return serialize_hook(require_found(await hooks.update(hook.id, changes, now)))


@routes.delete("/api/organizations/hooks/{id}/")
async def delete_hook(request: web.Request, caller: Caller) -> None:
    """Delete a hook. Its notifications stay."""
    await delete_owned(request, caller, request.app[STORAGE].hooks, Caller.require_admin)


@routes.post("/api/organizations/hooks/{id}/test/", body=HookTestBody, refusals={409})
async def send_hook_test(request: web.Request, caller: Caller) -> HookDeliveryResponse:
    """Handle a payload as if it had been delivered now, and verified: its notification may wake the agent."""
    hook = await _load(request, caller)
    payload = (await read_body(request))["payload"]
    delivery = Delivery(new_id(), to_json(payload), payload)
    return await deliver(request, hook, delivery, request.app[CLOCK].now())


@routes.get("/api/organizations/hooks/{id}/deliveries/")
async def list_hook_deliveries(request: web.Request, caller: Caller) -> Sequence[HookDeliveryResponse]:
    """List the last 100 deliveries to a hook, newest first. Members are refused with 403."""
    hook = await _load(request, caller)
    rows = await request.app[STORAGE].hooks.list_deliveries(hook)
    return [cast(HookDeliveryResponse, dict(row)) for row in rows]


async def _load(request: web.Request, caller: Caller) -> Hook:
    return await load_owned(request, caller, request.app[STORAGE].hooks.get, Caller.require_admin)


async def _check(request: web.Request, hook: Hook) -> None:
    """Raise Invalid if it has not exactly one target, a secret that cannot sign, or a schema that is none."""
    if (hook.agent_id is None) == (hook.template_id is None):
        raise Invalid({"agent": [ONE_TARGET]})
    if hook.verify is Verification.STANDARD and hook.secret and not is_base64_key(hook.secret):
        raise Invalid({"secret": [NOT_BASE64]})
    if hook.only_if is not None:
        checker = request.app[SCHEMA_CHECKER]
        if errors := await checker.find_schema_errors(hook.organization_id, "only_if", hook.only_if):
            raise Invalid({"only_if": errors})
