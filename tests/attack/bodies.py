"""Attacks by request bodies: without end, compressed, nested, with huge numbers, with slow JSON schemas."""

import asyncio
import gzip
import socket
import zlib
from contextlib import suppress
from io import BytesIO
from time import perf_counter
from typing import Any

from tests.attack.findings import Finding, at_most, none_of
from tests.attack.measuring import memory_of, processor_seconds, victim_works
from tests.attack.raw import connected, head_of, send_endlessly
from tests.attack.target import AGENTS, LOG_IN, Target
from tests.processor_time import slowness

CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
TINY = b"1\r\n \r\n" * 10_000
TINY_SENDERS = 8
TINY_SECONDS = 2.0
BODY_MB = 8.0  # the limit of 1 MiB, and what the buffers of the service's kernel hold
SEND_BUFFER_BYTES = 65_536  # of the attacker's kernel, which may not hide what the service takes
CHUNKED_SECONDS = 20.0
BOMB_BYTES = 32 << 20
BOMB_GROWTH_MB = 16
COSTLY_REQUESTS = 4
COSTLY_MS = 100
SCHEMA_SECONDS = 3.0
ADAPTERS = "/api/toolbox/adapters/"
CONFIGS = "/api/toolbox/adapter-configs/"
JSON = {"Content-Type": "application/json"}
DEEP = 100_000
REFUSED = frozenset({400, 413, 415, 422})


async def endless_chunks(target: Target) -> list[Finding]:
    """Send an anonymous chunked body that goes on beyond its limit."""
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    taken, deadline = 0, perf_counter() + CHUNKED_SECONDS
    async with connected(target) as (reader, writer):
        sender = writer.get_extra_info("socket")
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        writer.write(head_of(target, "POST", LOG_IN, *lines))
        answering = asyncio.create_task(reader.read())
        with suppress(OSError, TimeoutError):
            while taken < target.sizes.chunked_bytes and not writer.is_closing() and not answering.done():
                writer.write(CHUNK)
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - perf_counter()):
                    await writer.drain()
                taken += len(CHUNK)
        answering.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await answering
    return [at_most("taken of a body without end", taken / (1 << 20), BODY_MB, "MiB")]


async def tiny_chunks(target: Target) -> list[Finding]:
    """Send anonymous bodies of one byte a chunk on several connections, while another tenant works."""
    head = head_of(target, "POST", LOG_IN, "Transfer-Encoding: chunked")
    async with victim_works(target) as latencies, asyncio.TaskGroup() as group:
        for _ in range(TINY_SENDERS):
            group.create_task(send_endlessly(target, head, TINY, perf_counter() + TINY_SECONDS))
    return [
        at_most("another tenant's POST, p99", latencies.p99, 100 * target.sizes.patience, "ms"),
        latencies.failures,
    ]


async def compressed_bombs(target: Target) -> list[Finding]:
    """Send bodies that decompress to far more than the limit."""
    blanks = b" " * BOMB_BYTES
    bomb = gzip.compress(blanks)
    bombs = {
        "gzip": bomb,
        "deflate": zlib.compress(blanks),
        "gzip, gzip": gzip.compress(bomb),
        "identity, gzip": bomb,
        "br": b"\x00" * 100,
        "zstd": b"\x00" * 100,
    }
    accepted = []
    async with memory_of(target) as memory:
        for encoding, data in bombs.items():
            headers = {**JSON, "Content-Encoding": encoding}
            answer = await target.send("POST", LOG_IN, data=data, headers=headers)
            if answer.status not in REFUSED:
                accepted.append(f"{encoding} → {answer.status}")
    return [
        none_of("bombs that were not refused", accepted, len(bombs)),
        at_most("growth", memory.growth_mb, BOMB_GROWTH_MB, "MB"),
    ]


async def hostile_json(target: Target) -> list[Finding]:
    """Send JSON that is nested, numeric or textual beyond all sense."""
    bodies: dict[str, str | bytes] = {
        "deep array": "[" * DEEP,
        "deep object": '{"a":' * DEEP,
        "closed deep array": '{"name":' + "[" * DEEP + "]" * DEEP + "}",
        "integer of 5,000 digits": '{"max_turns":' + "9" * 5_000 + "}",
        "1e400": '{"max_cost_usd_per_day":1e400}',
        "1e-400 of turns": '{"max_turns":1e-400}',
        "NaN": '{"max_cost_usd_per_day":NaN}',
        "Infinity": '{"max_turns":-Infinity}',
        "lone surrogate": r'{"name":"\ud800"}',
        "NUL": r'{"name":"a\u0000b"}',
        "key twice": '{"name":"a","name":"b"}',
        "many keys": "{" + ",".join(f'"k{number}":0' for number in range(60_000)) + "}",
        "prototype": '{"__proto__":{"admin":true},"constructor":1,"name":""}',
        "comment": '{"name":"a"}//',
        "two documents": '{"name":"a"}{"name":"b"}',
        "not UTF-8": b'{"name":"\xff"}',
    }
    wrong = []
    for name, text in bodies.items():
        data = text if isinstance(text, bytes) else text.encode()
        answer = await target.as_attacker("POST", AGENTS, data=data, headers=JSON)
        if answer.status not in REFUSED:
            wrong.append(f"{name} → {answer.status}")
    return [none_of("bodies that were not refused", wrong, len(bodies))]


async def costly_texts(target: Target) -> list[Finding]:
    """Send and read texts that look like much work: blanks around values, and ends of datetimes."""
    texts = {
        "/api/tracing/spans/": b"[" + b" " * (7 << 20) + b"]",
        "/api/defaults/documents/": b'{"title":"x","content":"' + b"Z" * 900_000 + b'"}',
    }
    findings = []
    for path, text in texts.items():
        before = processor_seconds(target.pid)
        for _ in range(COSTLY_REQUESTS):
            answer = await target.as_attacker("POST", path, data=BytesIO(text), headers=JSON)
            assert answer.status == 201, answer
        after = processor_seconds(target.pid)
        spent = None if before is None or after is None else 1000 * (after - before) / COSTLY_REQUESTS
        bar = COSTLY_MS * slowness()
        findings.append(at_most(f"processor time of the service for {path}", spent, bar, "ms"))
    return findings


async def slow_schemas(target: Target) -> list[Finding]:
    """Check values against schemas that never end, while another tenant checks a plain one."""
    key = target.attacker.key
    slow = await key.post(ADAPTERS, name="Slow", config_schema=_fanning_out(30))
    template = await key.post("/api/templates/", name="Slow", default_model="builtin/inbox")
    body = {"template": template["id"], "adapter": slow["id"], "config": {"value": 7}}
    victim = target.victim.key
    plain = await victim.post(ADAPTERS, name="Plain", config_schema={"type": "object"})
    victims = await victim.post("/api/templates/", name="Plain", default_model="builtin/inbox")
    checking = [
        asyncio.create_task(target.as_attacker("POST", CONFIGS, json=body))
        for _ in range(target.sizes.slow_schemas)
    ]
    await asyncio.sleep(0.1)
    started = target.clock()
    await victim.post(CONFIGS, template=victims["id"], adapter=plain["id"], config={})
    waited = target.clock() - started
    wrong = [str(answer.status) for answer in await asyncio.gather(*checking) if answer.status == 201]
    return [
        at_most("another tenant's check", waited, SCHEMA_SECONDS * target.sizes.patience, "s"),
        none_of("slow checks that passed", wrong, len(checking)),
    ]


def _fanning_out(levels: int) -> dict[str, Any]:
    """Return a small schema that applies 2^levels schemas to each value."""
    branches = {f"a{level}": {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**branches, f"a{levels}": {"type": "string"}}}
