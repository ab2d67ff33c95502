"""Attacks by the form of a request: smuggling, odd methods and paths, heads without limit."""

import asyncio
from time import perf_counter

from tests.attack.findings import Finding, at_most, none_of
from tests.attack.measuring import memory_of, processor_seconds
from tests.attack.raw import Exchange, exchange_each, head_of, send_endlessly
from tests.attack.target import AGENTS, LOG_IN, Target
from tests.patience import PATIENCE_SECONDS

INNER = b"GET /smuggled HTTP/1.1\r\nHost: inner\r\n\r\n"
EMPTY_CHUNK = b"0\r\n\r\n"
TYPE = "Content-Type: application/json"
CHUNKED = "Transfer-Encoding: chunked"
PIECE_BYTES = 250_000
SENDERS_OF_EACH = 3
GARBAGE_SECONDS = 2.0
GARBAGE_MS = 10
GARBAGE_GROWTH_MB = 64


async def smuggled_requests(target: Target) -> list[Finding]:
    """Hide a second request where two parsers could disagree about the end of the first."""
    through = []
    cases = _ambiguous(target)
    for name, seen in (await exchange_each(target, cases)).items():
        if 404 in seen.statuses or len(seen.statuses) > 1 or _is_success(seen):
            through.append(f"{name} → {seen.statuses}")
    return [none_of("ambiguous requests that were answered as two", through, len(cases))]


def _is_success(seen: Exchange) -> bool:
    return any(200 <= status < 400 for status in seen.statuses)


def _ambiguous(target: Target) -> dict[str, bytes]:
    """Return requests that must be refused, or whose rest must not be read as a request."""

    def post(*lines: str) -> bytes:
        return head_of(target, "POST", LOG_IN, TYPE, *lines)

    length = f"Content-Length: {len(INNER)}"
    line = f"POST {LOG_IN} HTTP/1.1\r\nHost: x\r\n".encode()
    return {
        "length and chunked": post("Content-Length: 5", CHUNKED) + EMPTY_CHUNK + INNER,
        "chunked and length": post(CHUNKED, "Content-Length: 5") + EMPTY_CHUNK + INNER,
        "two lengths": post("Content-Length: 0", length) + INNER,
        "list of lengths": post("Content-Length: 0, 5") + INNER,
        "signed length": post("Content-Length: +0") + INNER,
        "negative length": post("Content-Length: -1") + INNER,
        "length in hex": post("Content-Length: 0x0") + INNER,
        "length with underscore": post("Content-Length: 0_0") + INNER,
        "length of blanks": post("Content-Length:  ") + INNER,
        "unknown coding": post("Transfer-Encoding: xchunked") + EMPTY_CHUNK + INNER,
        "identity": post("Transfer-Encoding: identity") + EMPTY_CHUNK + INNER,
        "chunked twice": post("Transfer-Encoding: chunked, chunked") + EMPTY_CHUNK + INNER,
        "chunked, identity": post("Transfer-Encoding: chunked, identity") + EMPTY_CHUNK + INNER,
        "blank before the colon": post("Transfer-Encoding : chunked") + EMPTY_CHUNK + INNER,
        "vertical tab": post("Transfer-Encoding: \x0bchunked") + EMPTY_CHUNK + INNER,
        "folded header": post("Transfer-Encoding:\r\n chunked") + EMPTY_CHUNK + INNER,
        "bare carriage return": post("X-A: b\rTransfer-Encoding: chunked") + EMPTY_CHUNK + INNER,
        "chunk size with sign": post(CHUNKED) + b"+0\r\n\r\n" + INNER,
        "chunk size in hex form": post(CHUNKED) + b"0x0\r\n\r\n" + INNER,
        "chunk size with blank": post(CHUNKED) + b" 0\r\n\r\n" + INNER,
        "huge chunk size": post(CHUNKED) + b"FFFFFFFFFFFFFFFFF\r\n" + INNER,
        "chunk without its end": post(CHUNKED) + b"1\r\nabc\r\n0\r\n\r\n" + INNER,
        "header without a name": line + b": chunked\r\n\r\n" + INNER,
        "header name with a blank": line + b"Content Length: 5\r\n\r\n" + INNER,
        "NUL in a header": line + b"X-A: \x00\r\n\r\n" + INNER,
        "two hosts": head_of(target, "POST", LOG_IN, "Host: other") + INNER,
        "blank before the first header": f"POST {LOG_IN} HTTP/1.1\r\n Host: x\r\n\r\n".encode() + INNER,
        "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + INNER,
        "HTTP/0.9": b"GET /smuggled\r\n" + INNER,
        "unknown version": b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n" + INNER,
    }


async def odd_methods(target: Target) -> list[Finding]:
    """Call with methods and overrides that no route has, and look for effects or failures."""
    path = f"{AGENTS}{target.attacker.agent}/"
    credential = f"Authorization: {target.attacker.key.authorization}"
    methods = ("TRACE", "CONNECT", "PUT", "PROPFIND", "get", "delete", "GET\t", "A" * 5_000)
    wrong = []
    heads = {each: head_of(target, each, path, credential, "Connection: close") for each in methods}
    for method, seen in (await exchange_each(target, heads)).items():
        if seen.status and not 400 <= seen.status < 500:
            wrong.append(f"{method[:10]} → {seen.status}")
    overrides = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "_method")
    for name in overrides:
        await target.as_attacker("GET", path, headers={name: "DELETE"})
        await target.as_attacker("POST", f"{path}stop/?_method=DELETE", headers={name: "DELETE"})
    if (await target.as_attacker("GET", path)).status != 200:
        wrong.append("an override deleted the agent")
    return [none_of("methods that were not refused", wrong, len(methods) + len(overrides))]


async def odd_paths(target: Target) -> list[Finding]:
    """Ask for the operator's pages and for files by odd spellings of a path, without a credential."""
    paths = (
        "//status/",
        "/./status/",
        "/api/../status/",
        "/api/docs/..%2f..%2fstatus/",
        "/%73tatus/",
        "/status/%00",
        "/status/;x=1",
        "/status/%20",
        "/STATUS/",
        "/status//",
        "/status/?x=%00",
        "/api/docs/../../../../etc/passwd",
        "/api/docs/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/api/docs/..%5c..%5cetc%5cpasswd",
        "/console/assets/../../status/",
        "/console/assets/0/..%2f..%2f..%2f..%2fhandlers%2fconsole.py",
        "/static/../../hostsvc/config.py",
        f"http://{target.host}:{target.port}/status/",
        "http://example.org/status/",
        "*",
        "/metrics/",
        "/metrics?token=",
        "/%ff%fe",
        "/" + "a" * 60_000,
        "/" + "a/" * 3_000,
    )
    wrong = []
    heads = {path: head_of(target, "GET", path, "Connection: close") for path in paths}
    for path, seen in (await exchange_each(target, heads)).items():
        has_contents = b"uptime_seconds" in seen.received or b"root:" in seen.received
        if seen.status in range(200, 300) or seen.status >= 500 or has_contents:
            wrong.append(f"{path[:40]} → {seen.status}")
    return [none_of("paths that opened or broke something", wrong, len(paths))]


async def endless_heads(target: Target) -> list[Finding]:
    """Send heads far over every limit at once."""
    heads = {
        "one long value": head_of(target, "GET", "/healthz", "X-A: " + "a" * 100_000),
        "one long name": head_of(target, "GET", "/healthz", "A" * 100_000 + ": a"),
        "2,000 headers": head_of(target, "GET", "/healthz", *(f"X-{n}: {'a' * 50}" for n in range(2_000))),
        "a long query": head_of(target, "GET", "/healthz?" + "a" * 100_000),
        "no end": b"GET /healthz HTTP/1.1\r\n" + b"X-A: a\r\n" * 100_000,
    }
    wrong = []
    for name, seen in (await exchange_each(target, heads, PATIENCE_SECONDS)).items():
        if not (400 <= seen.status < 500 and seen.is_closed) and not (seen.is_closed and not seen.received):
            wrong.append(f"{name} → {seen.status}")
    return [none_of("heads that were not refused", wrong, len(heads))]


async def endless_garbage(target: Target) -> list[Finding]:
    """Send malformed HTTP without end on several connections, and again on new ones."""
    upgrade = ("Connection: Upgrade", "Upgrade: websocket")
    streams = {
        b"": b"\xfe" * PIECE_BYTES,
        b"GET /healthz HTTP/1.1\r\nX-A: ": b"a" * PIECE_BYTES,
        head_of(target, "GET", "/healthz", *upgrade): b"\x81\x01a" * (PIECE_BYTES // 3),
    }
    before, deadline = processor_seconds(target.pid), perf_counter() + GARBAGE_SECONDS
    async with memory_of(target) as memory:
        senders = (
            send_endlessly(target, first, piece, deadline)
            for first, piece in list(streams.items()) * SENDERS_OF_EACH
        )
        opened = sum(await asyncio.gather(*senders))
    after = processor_seconds(target.pid)
    spent = None if before is None or after is None else 1000 * (after - before) / opened
    bar = GARBAGE_MS * target.sizes.patience
    return [
        at_most("processor time of the service for each connection", spent, bar, "ms"),
        at_most("growth", memory.growth_mb, GARBAGE_GROWTH_MB, "MB"),
    ]
