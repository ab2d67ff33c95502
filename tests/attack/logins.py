"""Attacks on the routes that anybody may call: log-in, sign-up, and the rate limits for all of them."""

import asyncio
from collections import Counter
from time import perf_counter
from uuid import uuid4

import aiohttp

from tests.attack.findings import Finding, at_most, holds, none_of, unmeasured
from tests.attack.target import LOG_IN, PASSWORD, SIGN_UP, Answer, Target, calling_from
from tests.patience import PATIENCE_SECONDS

KNOWN_FROM, FLOOD_FROM, SIGN_UPS_FROM, RATE_FROM = 11, 12, 13, 14
LEAD_SECONDS = 0.2
LOG_IN_SECONDS = 3.0  # two seconds of work may wait before it
MAX_ATTEMPTS = 36  # thirty at once, and some room
MORE_SECONDS = 10  # of the flood, for each of which one more is answered
REFUSED = frozenset({429, 503})


async def log_in_flood(target: Target) -> list[Finding]:
    """Send many anonymous log-ins at once, while a known account logs in from another address.

    Afterwards the account logs in from the address of the flood, as it did before.
    """
    async with calling_from(target.url, FLOOD_FROM) as flood, calling_from(target.url, KNOWN_FROM) as known:
        await _seconds_to_log_in(target, flood)
        began = perf_counter()
        sending = [asyncio.create_task(_log_in(target, flood)) for _ in range(target.sizes.log_ins)]
        await asyncio.sleep(LEAD_SECONDS)
        seconds = await _seconds_to_log_in(target, known)
        statuses = Counter(answer.status for answer in await asyncio.gather(*sending))
        attempts = MAX_ATTEMPTS + (perf_counter() - began) // MORE_SECONDS
        neighbours = await _seconds_to_log_in(target, flood)
    return [
        at_most("a known account's log-in", seconds, LOG_IN_SECONDS * target.sizes.patience, "s"),
        at_most(
            "the same behind the flood's address", neighbours, LOG_IN_SECONDS * target.sizes.patience, "s"
        ),
        at_most(
            f"attempts answered with 401, of {len(sending)}",
            statuses[401],
            attempts,
            "attempts",
        ),
        holds(
            "all others are refused with 429 or 503", set(statuses) <= {401, *REFUSED}, str(dict(statuses))
        ),
    ]


async def sign_up_flood(target: Target) -> list[Finding]:
    """Sign up many organizations from one address, while a known account logs in from another."""
    async with (
        calling_from(target.url, SIGN_UPS_FROM) as flood,
        calling_from(target.url, KNOWN_FROM) as known,
    ):
        sending = [asyncio.create_task(_sign_up(target, flood)) for _ in range(target.sizes.sign_ups)]
        await asyncio.sleep(LEAD_SECONDS)
        seconds = await _seconds_to_log_in(target, known)
        statuses = Counter(answer.status for answer in await asyncio.gather(*sending))
    return [
        at_most("a known account's log-in", seconds, LOG_IN_SECONDS * target.sizes.patience, "s"),
        at_most(f"organizations signed up, of {len(sending)}", statuses[201], 60, "organizations"),
        holds(
            "all others are refused with 429 or 503", set(statuses) <= {201, *REFUSED}, str(dict(statuses))
        ),
    ]


async def rate_limits(target: Target) -> list[Finding]:
    """Call anonymously more often than allowed, and look whether limits are shown and kept."""
    limits = await target.as_attacker("GET", "/api/organizations/limits/")
    findings = [holds("an organization can read its limits", limits.status == 200, f"status {limits.status}")]
    async with calling_from(target.url, RATE_FROM) as session:
        first = await _refused_body(target, session)
        findings.append(holds("answers have the RateLimit headers", "RateLimit" in first.headers))
        count = target.sizes.anonymous_requests
        if not count:
            return [*findings, unmeasured("anonymous requests over the limit", "not sent")]
        answers = [await _refused_body(target, session) for _ in range(count)]
    over = [answer for answer in answers if answer.status == 429]
    return [
        *findings,
        holds(f"{count} requests without a pause meet 429", bool(over)),
        none_of(
            "429 without Retry-After",
            [str(each) for each in over if "Retry-After" not in each.headers],
            len(over),
        ),
    ]


async def _log_in(target: Target, session: aiohttp.ClientSession) -> Answer:
    body = {"email": f"{uuid4().hex}@example.org", "password": "wrong"}
    return await target.send("POST", LOG_IN, session, json=body)


async def _sign_up(target: Target, session: aiohttp.ClientSession) -> Answer:
    body = {"email": f"{uuid4().hex}@example.org", "password": PASSWORD, "organization_name": "Flood"}
    return await target.send("POST", SIGN_UP, session, json=body)


async def _refused_body(target: Target, session: aiohttp.ClientSession) -> Answer:
    """Send a log-in without fields, which is refused before any password is hashed."""
    return await target.send("POST", LOG_IN, session, json={})


async def _seconds_to_log_in(target: Target, session: aiohttp.ClientSession) -> float | None:
    """Return how long the victim needs to get a token; None if the flood's address is the victim's, too.

    503 with Retry-After is an answer that a client repeats, so its waiting counts.
    """
    body, started = {"email": target.victim.email, "password": PASSWORD}, target.clock()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await target.send("POST", LOG_IN, session, json=body)).status != 200:
            if not target.is_local:
                return None
            await asyncio.sleep(0.2)
    return target.clock() - started
