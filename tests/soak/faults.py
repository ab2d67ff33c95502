"""The faults of a soak, one at a time. Each lasts some seconds and leaves nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.attack.big_answers import DOCUMENTS, readers, requested
from tests.attack.bodies import compressed_bombs, hostile_json
from tests.attack.forgery import forged_tokens
from tests.attack.framing import endless_heads, odd_paths, smuggled_requests
from tests.attack.raw import connected
from tests.attack.target import LOG_IN, Target, calling_from
from tests.crash.faults import (
    END_BEAT_CONNECTIONS,
    END_POOL_CONNECTIONS,
    end_connections,
    stopped_with_children,
)

STALLED = 10
CALLERS = 10
HALF_OPEN = 200
GUESSER = 66
GUESSES = 5


@dataclass(frozen=True, slots=True)
class Scene:
    """What the faults are injected into: the service, and its own PostgreSQL."""

    target: Target
    database_url: str
    data_dir: Path
    fault_seconds: float


Fault = Callable[[Scene], Awaitable[None]]


async def stalled_readers(scene: Scene) -> None:
    with requested(scene.target, DOCUMENTS, STALLED):
        await asyncio.sleep(scene.fault_seconds)


async def big_lists(scene: Scene) -> None:
    with readers(scene.target, f"{DOCUMENTS}?limit=1000", CALLERS):
        await asyncio.sleep(scene.fault_seconds)


async def half_open_connections(scene: Scene) -> None:
    async with AsyncExitStack() as stack:
        for number in range(HALF_OPEN):
            _, writer = await stack.enter_async_context(connected(scene.target))
            writer.write(b"GET /healthz HTTP/1.1\r\nX-Slow:" * (number % 2))
        await asyncio.sleep(scene.fault_seconds)


async def hostile_requests(scene: Scene) -> None:
    for attack in (
        smuggled_requests,
        endless_heads,
        odd_paths,
        hostile_json,
        compressed_bombs,
        forged_tokens,
    ):
        await attack(scene.target)


async def guessed_passwords(scene: Scene) -> None:
    body = {"email": scene.target.victim.email, "password": "wrong"}
    async with calling_from(scene.target.url, GUESSER) as session:
        sending = (scene.target.send("POST", LOG_IN, session, json=body) for _ in range(GUESSES))
        await asyncio.gather(*sending)


async def ended_pool_connections(scene: Scene) -> None:
    await end_connections(scene.database_url, END_POOL_CONNECTIONS)


async def ended_beat_connection(scene: Scene) -> None:
    await end_connections(scene.database_url, END_BEAT_CONNECTIONS)


async def suspended_postgres(scene: Scene) -> None:
    """Stop all processes of PostgreSQL, as a machine that hangs does."""
    with _suspended(scene.data_dir):
        await asyncio.sleep(scene.fault_seconds)


FAULTS: tuple[Fault, ...] = (
    stalled_readers,
    half_open_connections,
    ended_pool_connections,
    big_lists,
    hostile_requests,
    suspended_postgres,
    guessed_passwords,
    ended_beat_connection,
)


@contextmanager
def _suspended(data_dir: Path) -> Iterator[None]:
    pid_file = data_dir / "postgres" / "postmaster.pid"
    postmaster = int(pid_file.read_text().splitlines()[0])
    with stopped_with_children(postmaster):
        yield
