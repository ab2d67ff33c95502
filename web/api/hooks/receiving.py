"""The receiving of deliveries: `POST /hooks/{id}/`, which needs no credential but a valid signature.

It takes room like a request of the hook's organization. An unknown hook has the answer of a wrong signature.
"""

import json
import re
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import orjson
from aiohttp import web

from storage.delivery.hooks import Hook, Verification
from storage.errors import LimitReached, NotUnique, ReferenceMissing
from storage.events.model import EventType
from storage.ids import derive_id
from storage.notifications.notifications import NewNotification
from storage.organization_limits import attachment_bytes
from supervisors.errors import ChecksPending
from supervisors.json_schema.checker import REFUSED_SECONDS, is_undecided
from supervisors.text import payload_hint, storable
from web.access.auth import admit_address
from web.api.agents.agents import create_of_template
from web.api.hooks.verification import BadSignature, notification_id, verify
from web.app_keys import CLOCK, REFUSALS, ROOM, SCHEMA_CHECKER, STORAGE
from web.errors import ApiError, Conflict, Invalid, NotAuthenticated, Unavailable
from web.fields import MAX_SIDE_TEXT, parse_uuid
from web.json import json_response, to_json
from web.request.json_text import parse_json
from web.request.parsing import BODY_LIMIT, BodyLimit, read_bytes
from web.request_room import PLACE, WRITE_UNITS

PATHS = ("/hooks/{id}", "/hooks/{id}/", "/hooks/{id}/{token}", "/hooks/{id}/{token}/")
MAX_PAYLOAD_BYTES = 1_048_576
MAX_TITLE_CHARACTERS = 255  # what the name of an agent may have
PLACEHOLDER = re.compile(r"\{\{\s*([^\s{}]{1,200})\s*\}\}")
INDEX = re.compile("[0-9]{1,9}")
UNKNOWN = "There is no such hook, or the signature of the delivery is missing, wrong or too old."
GONE = "The agent or the template of the hook was deleted."


class HookDeliveryResponse(TypedDict):
    """A delivery to a hook."""

    outcome: str
    """`accepted`, `ignored` because of `only_if`, or `refused`, of which one a minute is recorded. A test can
    also be `repeated`."""
    error: str
    """Why it was not accepted; "" if it was."""
    notification: UUID | None
    """The notification that it became, which may have been deleted; null if it was not accepted."""
    agent: UUID | None
    """The agent that it is for, which may have been deleted; null if there was none yet."""
    created_at: datetime
    """When it came."""


class Delivery(NamedTuple):
    """A verified delivery, and the id of the notification that it becomes."""

    id: UUID
    raw: bytes
    payload: Any


async def receive(request: web.Request) -> web.Response:
    """Take a delivery: 202 once its notification is stored, 200 if it was delivered before or is ignored."""
    app, now, hook_id = request.app, request.app[CLOCK].now(), parse_uuid(request.match_info["id"])
    hook = await app[STORAGE].hooks.get_cached(hook_id, now) if hook_id else None
    if hook is None:
        admit_address(request)
        raise NotAuthenticated(UNKNOWN)
    place = request[PLACE] = app[ROOM].enter(hook.organization_id, WRITE_UNITS)
    try:
        return await _receive(request, hook, now)
    except (BadSignature, ApiError, LimitReached, ChecksPending) as error:
        # Strangers can cause this, but not fill the log.
        if app[REFUSALS].take(hook.id, app[CLOCK].monotonic()).is_granted:
            reason = to_json(error.body).decode() if isinstance(error, Invalid) else str(error)
            await app[STORAGE].hooks.record(hook, EventType.HOOK_REFUSED, reason, now)
        admit_address(request)
        if isinstance(error, BadSignature):
            raise NotAuthenticated(UNKNOWN) from error
        raise
    finally:
        place.leave()


async def _receive(request: web.Request, hook: Hook, now: datetime) -> web.Response:
    def read(raw: bytes) -> Delivery:
        verify(hook, request.headers, request.match_info.get("token", ""), raw, now)
        payload = parse_json(raw)
        return Delivery(notification_id(hook, request.headers, raw, payload), raw, payload)

    request[BODY_LIMIT] = BodyLimit(MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES)
    delivery = await read_bytes(request, read)
    if hook.verify is Verification.SLACK and (challenge := value_at("challenge", delivery.payload)):
        return json_response({"challenge": challenge})  # Slack asks once whether the address is ours
    outcome = (await deliver(request, hook, delivery, now))["outcome"]
    return json_response({"outcome": outcome}, 202 if outcome == "accepted" else 200)


async def deliver(
    request: web.Request, hook: Hook, delivery: Delivery, now: datetime
) -> HookDeliveryResponse:
    """Store the notification of a delivery unless it is there already, or does not fit `only_if`.

    Raise Conflict if the agent or template of the hook is gone, and the errors of `Notifications.insert`.
    """
    storage, owner = request.app[STORAGE], hook.organization_id
    agent_id = hook.agent_id or derive_id(delivery.id, "agent")
    done = HookDeliveryResponse(
        outcome="accepted", error="", notification=delivery.id, agent=hook.agent_id, created_at=now
    )
    if misfits := await _misfits(request, hook, delivery):
        await storage.hooks.record(hook, EventType.HOOK_IGNORED, misfits[0], now)
        return {**done, "outcome": "ignored", "error": misfits[0], "notification": None}
    new = _notification(hook, delivery, agent_id, now)
    size = attachment_bytes([len(delivery.raw)])
    options: dict[str, Any] = {"actor": hook.actor, "payload": delivery.raw.decode()}
    if hook.template_id is not None:
        of_template = request, hook.template_id, agent_id, new.title, hook.actor
        options["prepare"] = partial(create_of_template, *of_template)
    try:
        async with storage.limits.document_bytes.reserved(owner, size):
            await storage.notifications.insert(new, {owner}, **options)
    except NotUnique:
        return {**done, "outcome": "repeated", "agent": agent_id}
    except ReferenceMissing as error:
        raise Conflict(GONE) from error
    return {**done, "agent": agent_id}


async def _misfits(request: web.Request, hook: Hook, delivery: Delivery) -> list[str]:
    """Return why the payload does not fit `only_if`. Raise Unavailable if that takes too long to say."""
    if hook.only_if is None:
        return []
    value = orjson.loads(delivery.raw)  # the checker takes no integers of more than 64 bits
    check = request.app[SCHEMA_CHECKER].find_errors(hook.organization_id, "only_if", hook.only_if, value)
    errors = await check
    if is_undecided(errors, "only_if"):
        raise Unavailable(errors[0], int(REFUSED_SECONDS))
    return errors


def _notification(hook: Hook, delivery: Delivery, agent_id: UUID, now: datetime) -> NewNotification:
    title = " ".join(render(hook.title, delivery.payload).split())[:MAX_TITLE_CHARACTERS].strip()
    hint = payload_hint(len(delivery.raw), delivery.id)
    return NewNotification(
        id=delivery.id,
        agent_id=agent_id,
        source=hook.source,
        source_id=str(hook.id),
        title=title or hook.name,
        body=f"{render(hook.body, delivery.payload)}\n\n{hint}".strip(),
        priority=hook.priority,
        created_at=now,
        scheduled_for=None,
    )


def render(template: str, payload: Any) -> str:
    """Replace each `{{ a.b.0 }}` by the value at this path of the payload; a missing one is blank."""
    text = ""
    for index, part in enumerate(PLACEHOLDER.split(template)):
        text += value_at(part, payload) if index % 2 else part  # every second part is a path
        if len(text) > MAX_SIDE_TEXT:
            break
    return storable(text[:MAX_SIDE_TEXT])


def value_at(path: str, payload: Any) -> str:
    """Return the value at a dotted path: a text as it is, anything else as JSON; "" if it is missing."""
    value = payload
    for step in path.split("."):
        if isinstance(value, list):
            index = int(step) if INDEX.fullmatch(step) else len(value)
            value = value[index] if index < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
