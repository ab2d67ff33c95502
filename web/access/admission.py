"""Admission: who calls, and whether that client may send a request now.

A refused request costs no more than its authentication: neither its body nor the database is read for it,
beyond what finds the credential. Valid credentials never count for an address, so nobody is kept out by what
others send from the same one.
"""

import math
from collections.abc import Callable, Hashable

from aiohttp import web

from web.access.auth import Caller, authenticate, authenticate_ticket
from web.app_keys import CLOCK, RATE_LIMITS
from web.credentials.rate_limits import RateLimit
from web.errors import NotAuthenticated, Throttled
from web.observability.requests import HEADERS
from web.request.client_address import client_network

TICKET_PARAMETER = "ticket"


async def admit_caller(request: web.Request, *, takes_ticket: bool = False) -> Caller:
    """Return the caller, who may use a stream ticket if it has no credential and `takes_ticket`.

    Raise NotAuthenticated, or Throttled if the caller or the address must wait.
    """
    has_credential = not takes_ticket or "Authorization" in request.headers
    ticket = "" if has_credential else request.query.get(TICKET_PARAMETER, "")
    try:
        caller = await (authenticate_ticket(request, ticket) if ticket else authenticate(request))
    except NotAuthenticated:
        admit_address(request)
        raise
    limit = request.app[RATE_LIMITS].of_callers
    if limit is not None:
        _take(request, limit, caller.credential)
    return caller


def admit_operator(request: web.Request, check: Callable[[web.Request], None]) -> None:
    """Check the operator's token. Raise NotAuthenticated, or Throttled if the address must wait."""
    try:
        check(request)
    except NotAuthenticated:
        admit_address(request)
        raise


def admit_address(request: web.Request) -> None:
    """Count a request without a valid credential. Raise Throttled if its address must wait."""
    limit = request.app[RATE_LIMITS].of_addresses
    if limit is not None:
        _take(request, limit, client_network(request))


def _take(request: web.Request, limit: RateLimit, client: Hashable) -> None:
    quota = limit.take(client, request.app[CLOCK].monotonic())
    seconds = max(1, math.ceil(quota.more_in_seconds))
    headers = request[HEADERS]
    headers["RateLimit-Policy"] = limit.policy_header
    headers["RateLimit"] = f"{limit.policy};r={quota.remaining};t={seconds}"
    if not quota.is_granted:
        allowed = f"{limit.buckets.size} for each {limit.clients}"
        raise Throttled(seconds, f"limits.{limit.name} is {allowed}.")
