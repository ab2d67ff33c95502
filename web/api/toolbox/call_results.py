"""Results that asynchronous tools send later: `POST /api/toolbox/calls/{id}/result/`, with the call's token.

It takes room like a request of the organization. An unknown call has the answer of a wrong token.
"""

from functools import partial
from typing import Any

from aiohttp import web
from marshmallow import ValidationError

from supervisors.policy.parked_calls import CallAnswer, receive_result
from supervisors.text import storable
from web.access.auth import admit_address
from web.app_keys import CLOCK, ROOM, STORAGE, TOOLSET
from web.errors import BadRequest, Conflict, NotAuthenticated, NotFound, require_found
from web.fields import check_json, parse_uuid
from web.json import json_response
from web.request.json_text import parse_json
from web.request.parsing import BODY_LIMIT, BodyLimit, read_bytes
from web.request_room import PLACE, WRITE_UNITS

PATHS = ("/api/toolbox/calls/{id}/result", "/api/toolbox/calls/{id}/result/")
MAX_RESULT_BYTES = 1_048_576  # as of an answer that comes at once
MAX_ERROR_CHARACTERS = 2000
UNKNOWN = "There is no such call, or this is not its token."
EXACTLY_ONE = f'Send {{"result": …}}, or {{"error": "…"}} with 1 to {MAX_ERROR_CHARACTERS} characters.'
NOT_YET = {"Retry-After": "1"}


async def receive(request: web.Request) -> web.Response:
    """Take the result of a call that was answered with 202, and wake its agent.

    It is taken once: the same again has the same answer, another one is refused with 409, as is one that
    comes too late. Until the 202 is stored the answer is 404 with Retry-After.
    """
    app, call_id = request.app, parse_uuid(request.match_info["id"])
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if call_id is None or not app[TOOLSET].results.is_valid(call_id, token):
        admit_address(request)
        raise NotAuthenticated(UNKNOWN)
    call = await app[STORAGE].parked_calls.get(call_id)
    if call is None:
        raise NotFound(NOT_YET)
    place = request[PLACE] = app[ROOM].enter(call.organization_id, WRITE_UNITS)
    try:
        request[BODY_LIMIT] = BodyLimit(MAX_RESULT_BYTES, MAX_RESULT_BYTES)
        answer, now = await read_bytes(request, _read), app[CLOCK].now()
        rule = partial(receive_result, answer=answer, now=now)
        step = require_found(await app[STORAGE].parked_calls.change(call_id, rule, now))
    finally:
        place.leave()
    if step.refusal:
        raise Conflict(step.refusal)
    return json_response({"id": call_id, "state": step.after.state})


def _read(raw: bytes) -> CallAnswer:
    sent: Any = parse_json(raw)
    match sent:
        case {"result": value} if len(sent) == 1:
            try:
                check_json(value)
            except ValidationError as error:
                raise BadRequest(f"result: {error.messages[0]}") from error
            return CallAnswer(value)
        case {"error": str(text)} if len(sent) == 1 and len(text) <= MAX_ERROR_CHARACTERS:
            if reason := storable(text).strip():
                return CallAnswer(error=reason)
    raise BadRequest(EXACTLY_ONE)
