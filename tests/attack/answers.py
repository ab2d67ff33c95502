"""Attacks through what the service repeats: header injection, and what its answers tell or lack."""

import re
from collections.abc import Iterable

from tests.attack.findings import Finding, none_of
from tests.attack.raw import Exchange, exchange_each, head_of
from tests.attack.target import AGENTS, Target

INJECTED = "X-Injected"
BANNER = re.compile(r"aiohttp|python|uvloop|asyncpg|postgres", re.IGNORECASE)
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
TRACEBACK = re.compile(r"Traceback|File \"|\.py\b|asyncpg|SELECT |psycopg")


async def injected_headers(target: Target) -> list[Finding]:
    """Put line breaks into values that the service repeats: request id, redirect, Link, Allow."""
    key = f"Authorization: {target.attacker.key.authorization}"
    escaped = f"%0d%0a{INJECTED}:%201"
    sent = {
        "request id": head_of(target, "GET", AGENTS, key, f"X-Request-ID: a\r\n {INJECTED}: 1"),
        "request id, bare LF": head_of(target, "GET", AGENTS, key, f"X-Request-ID: a\n{INJECTED}: 1"),
        "request id, unicode": head_of(target, "GET", AGENTS, key, f"X-Request-ID: a\x85{INJECTED}: 1"),
        "redirect": head_of(target, "GET", f"/api/cloud/agents{escaped}", key),
        "redirect, double": head_of(target, "GET", f"//example.org/{escaped}/..", key),
        "next page": head_of(target, "GET", f"{AGENTS}?limit=1&search={escaped}", key),
        "host": f"GET {AGENTS}?limit=1 HTTP/1.1\r\nHost: a\r\n {INJECTED}: 1\r\n{key}\r\n\r\n".encode(),
        "method": f"GET{escaped} {AGENTS} HTTP/1.1\r\nHost: a\r\n{key}\r\n\r\n".encode(),
        "idempotency key": head_of(target, "POST", AGENTS, key, f"Idempotency-Key: a\r\n {INJECTED}: 1"),
        "organization": head_of(target, "POST", AGENTS, key, f"X-Organization: {escaped}"),
        "forwarded": head_of(target, "GET", AGENTS, key, f"X-Forwarded-For: 1.2.3.4\r\n {INJECTED}: 1"),
    }
    wrong = []
    for name, seen in (await exchange_each(target, sent)).items():
        if re.search(rf"^{INJECTED}:", seen.head, re.MULTILINE | re.IGNORECASE) or seen.status >= 500:
            wrong.append(f"{name} → {seen.status}")
    return [none_of("injected headers that came back", wrong, len(sent))]


async def revealing_answers(target: Target) -> list[Finding]:
    """Collect answers of every kind, and look for missing security headers, banners and tracebacks."""
    answers = await _of_every_kind(target)
    unsafe = [f"{name} lacks {header}" for name, seen in answers.items() for header in _missing(seen)]
    banners = [name for name, seen in answers.items() if BANNER.search(_without_body(seen))]
    traces = [
        name for name, seen in answers.items() if name not in DOCUMENTS and TRACEBACK.search(_body(seen))
    ]
    return [
        none_of("answers without a security header", unsafe, len(answers) * len(SECURITY_HEADERS)),
        none_of("answers with a server banner", banners, len(answers)),
        none_of("answers with a traceback", traces, len(answers)),
    ]


DOCUMENTS = frozenset({"the document", "the page"})


async def _of_every_kind(target: Target) -> dict[str, Exchange]:
    """Return successes, redirects, and refusals by routes, by the framework and by the parser."""
    close, key = "Connection: close", f"Authorization: {target.attacker.key.authorization}"
    agent = f"{AGENTS}{target.attacker.agent}/"
    sent = {
        "health": head_of(target, "GET", "/healthz", close),
        "readiness": head_of(target, "GET", "/readyz", close),
        "a list": head_of(target, "GET", AGENTS, key, close),
        "a page of a list": head_of(target, "GET", f"{AGENTS}?limit=1", key, close),
        "an agent": head_of(target, "GET", agent, key, close),
        "HEAD": head_of(target, "HEAD", agent, key, close),
        "a deletion": head_of(target, "DELETE", "/api/defaults/documents/x/", key, close),
        "the document": head_of(target, "GET", "/api/schema/", close),
        "the page": head_of(target, "GET", "/api/docs/", close),
        "status, no credential": head_of(target, "GET", "/status/", close),
        "metrics, no credential": head_of(target, "GET", "/metrics", close),
        "401": head_of(target, "GET", AGENTS, close),
        "404": head_of(target, "GET", "/nowhere/", close),
        "405": head_of(target, "PUT", agent, key, close),
        "308": head_of(target, "GET", AGENTS.rstrip("/"), key, close),
        "400": head_of(target, "GET", f"{AGENTS}?limit=x", key, close),
        "415": head_of(target, "POST", AGENTS, key, "Content-Type: text/plain", "Content-Length: 1", close)
        + b"x",
        "417": head_of(target, "POST", AGENTS, key, "Expect: nothing", close),
        "413": head_of(target, "POST", AGENTS, key, "Content-Length: 99999999", close),
        "malformed": b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    }
    answers = await exchange_each(target, sent)
    return {name: seen for name, seen in answers.items() if seen.received}


def _missing(seen: Exchange) -> Iterable[str]:
    head = seen.head.lower()
    for name, value in SECURITY_HEADERS.items():
        line = re.search(rf"^{name.lower()}:(.*)$", head, re.MULTILINE)
        if line is None or value not in line[1]:
            yield name


def _without_body(seen: Exchange) -> str:
    return "\n".join(
        line for line in seen.head.splitlines() if not line.lower().startswith("www-authenticate")
    )


def _body(seen: Exchange) -> str:
    return seen.received.partition(b"\r\n\r\n")[2].decode(errors="replace")
