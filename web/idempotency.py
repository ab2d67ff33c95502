"""Idempotency-Key: a repeated request has no second effect and receives the first answer.

The handler of such a route follows three rules. It reads the body with `read_body_once`, after all
authorization. It builds its answer before the effect. It passes `receipt_of` the answer to the storage call
that has the effect, which stores both in one transaction; so an answer is stored exactly if its effect is.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.errors import AnsweredBefore
from storage.model import Receipt, ReceiptKey
from web.access.auth import ORGANIZATION_HEADER, Caller
from web.app_keys import CLOCK, STORAGE
from web.errors import BadRequest, KeyReused, PermissionDenied, Unavailable
from web.json import JSON_TYPE, to_json
from web.request.files import encode_for_hash
from web.request.parsing import EXPECTED, check_items, read_converted

HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
MAX_CHARACTERS = 255
RETRY_SECONDS = 1

CallerHandler = Callable[[web.Request, Caller], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request with an idempotency key that is being answered."""

    key: ReceiptKey
    body_hash: bytes


ATTEMPT = web.RequestKey("attempt", Attempt)


def answered_once(handler: CallerHandler) -> CallerHandler:
    """Wrap the handler of an idempotent route for requests with a key, so that it answers from receipts."""

    @wraps(handler)
    async def answer(request: web.Request, caller: Caller) -> object:
        try:
            return await handler(request, caller)
        except AnsweredBefore:
            return await _replay(request, caller)

    return answer


async def read_body_once(request: web.Request, caller: Caller) -> dict[str, Any]:
    """Return the checked fields of the body, as `read_body` does.

    Raise AnsweredBefore if the request was answered before. While it is being answered, the effect waits for
    the receipt, and then raises it.
    """
    schema, organization = request[EXPECTED].body, request.headers.get(ORGANIZATION_HEADER)
    has_key = HEADER in request.headers

    def convert(values: Any) -> tuple[dict[str, Any], bytes]:
        return schema.checked(values), _hash(organization, values) if has_key else b""

    body, body_hash = await read_converted(request, schema, convert)
    if has_key:
        await _begin(request, caller, body_hash)
    return body


async def read_items_once(
    request: web.Request, caller: Caller, prepare: Callable[[dict[str, Any]], None]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the checked items of the body and whether it is a list of them or a single item.

    `prepare` may refuse or change each item. Raise the errors of `read_body_once`.
    """
    schema, max_items = request[EXPECTED].body, request[EXPECTED].max_items
    organization = request.headers.get(ORGANIZATION_HEADER)
    has_key = HEADER in request.headers

    def convert(value: Any) -> tuple[tuple[list[dict[str, Any]], bool], bytes]:
        body_hash = _hash(organization, value) if has_key else b""
        return check_items(value, schema, max_items, prepare), body_hash

    items, body_hash = await read_converted(request, schema, convert)
    if has_key:
        await _begin(request, caller, body_hash)
    return items


def receipt_of(request: web.Request, answer: Any, *secrets: str) -> Receipt | None:
    """Return the receipt to store together with the effect; None for a request without a key.

    It has the answer with null for the fields in `secrets`, unless they are blank.
    """
    attempt = request.get(ATTEMPT)
    if attempt is None:
        return None
    if secrets:
        answer = {**answer, **{name: None for name in secrets if answer[name]}}
    status, now = request[EXPECTED].status, request.app[CLOCK].now()
    return Receipt(attempt.key, attempt.body_hash, status, to_json(answer), now)


def parse_key(text: str) -> str:
    """Return the key in a header, which may be quoted. Raise BadRequest if it is unusable."""
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    key = text[1:-1] if is_quoted else text
    if not (1 <= len(key) <= MAX_CHARACTERS and key.isprintable()):
        raise BadRequest(f"{HEADER}: Ensure this value has 1 to {MAX_CHARACTERS} printable characters.")
    return key


async def _begin(request: web.Request, caller: Caller, body_hash: bytes) -> None:
    """Note what the receipt needs. Raise AnsweredBefore if there is one."""
    key = parse_key(request.headers[HEADER])
    attempt = Attempt(ReceiptKey(caller.credential, request.method, request.path, key), body_hash)
    request[ATTEMPT] = attempt
    if await request.app[STORAGE].receipts.get(attempt.key) is not None:
        raise AnsweredBefore


async def _replay(request: web.Request, caller: Caller) -> web.Response:
    """Return the first answer, if the caller may still see it and the body is the same."""
    attempt = request[ATTEMPT]
    receipt = await request.app[STORAGE].receipts.get(attempt.key)
    if receipt is None:  # it has expired since it was last read
        raise Unavailable("The answer to this Idempotency-Key has just expired.", RETRY_SECONDS)
    await _require_access(request, caller, receipt.organization_id)
    if receipt.body_hash != attempt.body_hash:
        raise KeyReused
    headers = {"Content-Type": JSON_TYPE, REPLAYED_HEADER: "true"}
    return web.Response(body=receipt.answer, status=receipt.status, headers=headers)


async def _require_access(request: web.Request, caller: Caller, organization_id: UUID) -> None:
    """Raise PermissionDenied unless the caller still belongs to the organization.

    The roles of the caller may have been read before the first request created the organization.
    """
    if caller.run is not None or organization_id in caller.roles:  # a run is limited to its own agent anyway
        return
    user_id = caller.require_user()
    memberships = await request.app[STORAGE].accounts.list_memberships(user_id)
    if organization_id not in {membership.organization_id for membership in memberships}:
        raise PermissionDenied


def _hash(organization: str | None, values: Any) -> bytes:
    """Hash the values of a request, not its bytes: a form has another boundary each time.

    The encoder yields piece by piece, so that the thread of a long body does not hold up the event loop.
    """
    digest = hashlib.sha256()
    for piece in json.JSONEncoder(sort_keys=True, default=encode_for_hash).iterencode([organization, values]):
        digest.update(piece.encode())
    return digest.digest()
