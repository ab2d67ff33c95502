"""An attack by volume: one organization sends far more than the service can store and start."""

import asyncio
from collections import Counter
from uuid import uuid4

from aiohttp import ClientConnectorError, ClientOSError, ClientSession, ServerDisconnectedError

from tests.attack.findings import Finding, at_most, holds, none_of
from tests.attack.measuring import victim_works
from tests.attack.target import AGENTS, NOTIFICATIONS, Answer, Target, calling_from

TAKEN = frozenset({201, 408, 503})
FLOOD_FROM = 15
FLOODED_AGENTS = 40
PAGE = 1000
VICTIM_SECONDS = 1.0


async def notification_flood(target: Target) -> list[Finding]:
    """Send very many high notifications at once, while another organization creates some."""
    agents = [await _create_agent(target) for _ in range(FLOODED_AGENTS)]
    mark = uuid4().hex  # in the title of each notification that the flood has sent
    async with victim_works(target) as latencies:
        # In a thread of its own, so that what the flood costs its sender does not hold up the victim.
        answers = await asyncio.to_thread(asyncio.run, _flood(target, agents, mark))
    statuses = Counter(answer.status for answer in answers)
    stored = await _count_stored(target, agents, mark)
    refused = [answer for answer in answers if answer.status == 503]
    return [
        holds("the flood is answered with 201, 408 or 503", set(statuses) <= TAKEN, str(dict(statuses))),
        none_of(
            "503 without Retry-After",
            [str(answer) for answer in refused if "Retry-After" not in answer.headers],
            len(answers),
        ),
        holds(
            "a refused notification has no effect, and one with 201 is stored",
            stored == statuses[201],
            f"{stored} are stored",
        ),
        latencies.failures,
        at_most(
            "the victim's slowest request",
            latencies.longest,
            1000 * VICTIM_SECONDS * target.sizes.patience,
            "ms",
        ),
    ]


async def _create_agent(target: Target) -> str:
    answer = await target.as_attacker("POST", AGENTS, json={"name": "Flooded", "model": "builtin/inbox"})
    return str(answer.json()["id"])


async def _flood(target: Target, agents: list[str], mark: str) -> list[Answer]:
    async with calling_from(target.url, FLOOD_FROM) as session:
        return await asyncio.gather(
            *(
                _notify(target, session, agents[number % len(agents)], mark)
                for number in range(target.sizes.flood)
            )
        )


async def _notify(target: Target, session: ClientSession, agent: str, mark: str) -> Answer:
    body = {"agent": agent, "title": mark, "priority": "high", "source": "system"}
    try:
        return await target.as_attacker("POST", NOTIFICATIONS, session=session, json=body)
    except ClientConnectorError:
        raise
    except (ServerDisconnectedError, ClientOSError):
        # A busy machine connects so many sooner than it sends their heads, which then cannot be written.
        return Answer(408, {}, "")


async def _count_stored(target: Target, agents: list[str], mark: str) -> int:
    count = 0
    for agent in agents:
        answer = await target.as_attacker("GET", f"{NOTIFICATIONS}?agent={agent}&limit={PAGE}")
        count += sum(each["title"] == mark for each in answer.json())
    return count
