"""What failed and needs a person: one action sends it again, or says that it needs nobody any more."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.agents.attention import FAILURES, AttentionKind
from supervisors.bulk_requests import BulkReplies, ask_each
from supervisors.tools.arguments import ToolError
from web.access.auth import Caller
from web.access.path_access import require_organization
from web.app_keys import CLOCK, REGISTRY, STORAGE, TOOLSET
from web.errors import Invalid
from web.fields import MAX_ITEMS, Choice, ListOf, Uuid, unknown_id
from web.request.parsing import Body, read_body
from web.request_room import ACTION_UNITS, PLACE
from web.routes import Routes

MAX_SECONDS = 5.0  # in which one call sends
NOT_SENT = "A run is not sent again: request another run of its agent, then dismiss it."
NOT_FOUND = "There is no such item."


class AttentionAction(StrEnum):
    """What to do about something that failed."""

    SEND = "send"
    """Send the message or the delivery again, under its own id."""
    DISMISS = "dismiss"
    """Show it no longer among what needs a person. A message that fails again is shown again."""


class ActOnAttentionBody(Body):
    """An action, and what it concerns: the given items of a kind, or all of them that need a person."""

    action = Choice(AttentionAction, required=True)
    """What to do."""
    kind = Choice(FAILURES, required=True)
    """What it concerns; runs can only be dismissed."""
    ids = ListOf(Uuid())
    """The ids of messages, runs or deliveries, as the items of the overview name them. Left out: all of the
    kind that need a person."""
    organization = Uuid()
    """Of all, only those of this organization; not for `ids`."""
    after = Uuid()
    """Of all, only those behind this one, the `next` of the answer before; not for `ids`."""


class AttentionFailure(TypedDict):
    """An item that the action could not be done for."""

    id: UUID
    """The message, run or delivery."""
    error: str
    """Why not, in a sentence."""


class AttentionActedResponse(TypedDict):
    """What an action has done."""

    done: int
    """How many items it was done for. A delivery is done when it waits to be sent at once."""
    failures: Sequence[AttentionFailure]
    """The items that it could not be done for; those that need a person go on doing so."""
    next: UUID | None
    """The last item that was looked at: send it as `after`, or go on with the `ids` behind it; null if there
    are no more."""


routes = Routes()


@routes.post("/api/cloud/attention/", body=ActOnAttentionBody)
async def act_on_attention(request: web.Request, caller: Caller) -> AttentionActedResponse:
    """Send again what failed, or dismiss it: the given items, or all of a kind that need a person.

    A message that was sent meanwhile is not sent twice, so the call can be repeated. It sends for about five
    seconds, at most 1,000 items; go on with `next`. An item of another organization is refused with 403,
    before anything is done. Deliveries to webhooks need the role of an admin.
    """
    body = await read_body(request)
    with request[PLACE].more(ACTION_UNITS):
        chosen, missing, has_more = await _choose(request, caller, body)
        result = await _act(request, caller, body, chosen)
    rest = result.rest
    looked_at = [id_ for id_ in chosen if id_ not in set(rest)]
    failures = {**dict.fromkeys(missing, NOT_FOUND), **result.failures}
    return {
        "done": len(result.replies),
        "failures": [{"id": id_, "error": error} for id_, error in failures.items()],
        "next": looked_at[-1] if looked_at and (rest or has_more) else None,
    }


async def _choose(
    request: web.Request, caller: Caller, body: Mapping[str, Any]
) -> tuple[list[UUID], list[UUID], bool]:
    """Return the items that the body names, those of them that do not exist, and whether there are more."""
    items, failures = request.app[STORAGE].attention, FAILURES[body["kind"]]
    is_for_admins = body["kind"] is AttentionKind.FAILING_HOOK
    require = caller.require_admin if is_for_admins else caller.require
    if "ids" in body:
        given = list(dict.fromkeys(body["ids"]))
        owners = await items.list_owners(failures, given)
        for owner in set(owners.values()):
            require(owner)
        return [id_ for id_ in given if id_ in owners], [id_ for id_ in given if id_ not in owners], False
    organization_id = body.get("organization")
    await require_organization(request, caller, organization_id)
    owned = [own_id for own_id in caller.organizations if organization_id in {None, own_id}]
    if is_for_admins:
        owned = [own_id for own_id in owned if caller.is_admin(own_id)]
    after = body.get("after")
    if after is not None:
        owners = await items.list_owners(failures, [after])
        if after not in owners:
            raise Invalid({"after": [unknown_id(after)]})
        require(owners[after])
    listed = [item.id for item in await items.list(failures, owned, MAX_ITEMS + 1, after)]
    return listed[:MAX_ITEMS], [], len(listed) > MAX_ITEMS


async def _act(
    request: web.Request, caller: Caller, body: Mapping[str, Any], ids: Sequence[UUID]
) -> BulkReplies[Any]:
    app, kind = request.app, body["kind"]
    if body["action"] is AttentionAction.DISMISS:
        await app[STORAGE].attention.dismiss(FAILURES[kind], ids)
        return BulkReplies(dict.fromkeys(ids))

    async def send(id_: UUID) -> None:
        if kind is AttentionKind.FAILING_HOOK:
            await app[STORAGE].outbox.redeliver(id_, app[CLOCK].now())
        elif kind is AttentionKind.FAILED_RUN:
            raise ToolError("invalid", NOT_SENT)
        else:
            await app[TOOLSET].send_again(id_, app[REGISTRY].ask, caller=caller.identity)

    return await ask_each(send, ids, app[CLOCK], MAX_SECONDS)
