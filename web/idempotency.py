"""Idempotency-Key: a request that is sent again has no second effect and is given the first answer.

The handler of such a route keeps to three things: it reads the body by `read_body_once`, behind all
authorization; it makes its answer before the effect; and it hands `receipt_of` the answer to the storage call
that has the effect, which stores both in one transaction. So an answer is kept exactly if its effect is.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

from aiohttp import web

from storage.errors import AnsweredBefore
from storage.model import Receipt, ReceiptKey
from web.access.auth import ORGANIZATION_HEADER, Caller
from web.app_keys import CLOCK, IN_FLIGHT, STORAGE
from web.errors import BadRequest, Conflict, KeyReused
from web.json import JSON_TYPE
from web.request.parsing import Body, read_values

HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
MAX_CHARACTERS = 255

CallerHandler = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request with a key, while it is being answered."""

    key: ReceiptKey
    body_hash: bytes


ATTEMPT = web.RequestKey("attempt", Attempt)


def answered_once(handler: CallerHandler) -> CallerHandler:
    """Around the handler of an idempotent route: what was answered before is answered from its receipt."""

    @wraps(handler)
    async def answer(request: web.Request, caller: Caller) -> web.StreamResponse:
        try:
            return await handler(request, caller)
        except AnsweredBefore:
            return await _replay(request, caller)
        finally:
            if ATTEMPT in request:
                request.app[IN_FLIGHT].discard(request[ATTEMPT].key)

    return answer


async def read_body_once(request: web.Request, caller: Caller, schema: Body) -> dict[str, Any]:
    """As `read_body`; but a request that was answered before gets no further, and is answered again."""
    values = await read_values(request, schema)
    body = schema.checked(values)
    text = request.headers.get(HEADER)
    if text is not None:
        key = ReceiptKey(caller.credential, request.method, request.path, parse_key(text))
        await _begin(request, Attempt(key, _hash(request, values)))
    return body


def receipt_of(request: web.Request, answer: web.Response) -> Receipt | None:
    """What to store with the effect that this is the answer to; None for a request without a key."""
    attempt = request.get(ATTEMPT)
    if attempt is None:
        return None
    body, now = cast(bytes, answer.body), request.app[CLOCK].now()
    return Receipt(attempt.key, attempt.body_hash, answer.status, body, now)


def parse_key(text: str) -> str:
    """The key in a header's value: it may stand in quotes."""
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    key = text[1:-1] if is_quoted else text
    if not (1 <= len(key) <= MAX_CHARACTERS and key.isprintable()):
        raise BadRequest(f"{HEADER}: Ensure this value has 1 to {MAX_CHARACTERS} printable characters.")
    return key


async def _begin(request: web.Request, attempt: Attempt) -> None:
    """Note that this request is on its way; AnsweredBefore if it was answered, Conflict while it is."""
    in_flight = request.app[IN_FLIGHT]
    if attempt.key in in_flight:
        raise _still_running()
    in_flight.add(attempt.key)
    request[ATTEMPT] = attempt
    if await request.app[STORAGE].receipts.get(attempt.key) is not None:
        raise AnsweredBefore


async def _replay(request: web.Request, caller: Caller) -> web.Response:
    """The first answer, if the caller may still see it and the body is the same."""
    attempt = request[ATTEMPT]
    kept = await request.app[STORAGE].receipts.get(attempt.key)
    if kept is None:  # its time was up between two looks
        raise _still_running()
    if caller.run is None:  # a run's token is good for its own agent alone
        caller.require(kept.organization_id)
    if kept.body_hash != attempt.body_hash:
        raise KeyReused
    headers = {"Content-Type": JSON_TYPE, REPLAYED_HEADER: "true"}
    return web.Response(body=kept.answer, status=kept.status, headers=headers)


def _hash(request: web.Request, values: Mapping[str, Any]) -> bytes:
    """The same for the same request, by what its body says: a form has another boundary each time."""
    asked = [request.headers.get(ORGANIZATION_HEADER), values]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()


def _still_running() -> Conflict:
    return Conflict("A request with this Idempotency-Key is still being answered.")
