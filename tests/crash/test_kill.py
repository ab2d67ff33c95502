"""kill -9 of the service, again and again, while clients write: every acknowledged write is kept."""

import asyncio
from random import Random

import aiohttp
import aiopg

from tests.acceptance.client import sign_up
from tests.acceptance.process import Sections
from tests.acceptance.services import Services
from tests.crash.cycles import CYCLES
from tests.crash.ledger import Note, Owned
from tests.crash.load import OFFLINE, Load
from tests.crash.recording import all_is_kept
from tests.openai_endpoint import Json, Says, clerk, open_endpoint

THINKING_SECONDS = 0.02
QUIET = "Quiet"
WINDOW_SECONDS = 4  # longer than a start of the service takes, so that it finds a hold that goes on
NARROW = {"max_concurrent": 4}  # so that some starts have to wait for a slot

INSERT = """
INSERT INTO notification (agent_id, title, priority, source, scheduled_for)
VALUES (%s, %s, 'high', %s, now() + %s * interval '1 second') RETURNING id::text, created_at, scheduled_for
"""


async def test_repeated_kill_9_loses_no_acknowledged_write(
    services: Services, session: aiohttp.ClientSession
) -> None:
    random = Random(CYCLES)  # noqa: S311
    async with open_endpoint() as endpoint:
        endpoint.otherwise = _think
        sections: Sections = {"runs": NARROW, "models.slow": {"base_url": endpoint.url}}
        service = await services.start(**sections)
        load = Load(await sign_up(session, service.url), seed=CYCLES, models=(OFFLINE, "slow/clerk"))
        async with load.going_on():
            for _ in range(CYCLES):
                await load.acknowledged(random.randint(10, 80))
                quiet = await _create_quiet_agent(load)
                await service.kill()
                await _insert_by_another_program(services.database["url"], load, quiet, random)
                service = await services.start(**sections)
                load.urls = [service.url]
        found = await all_is_kept(load, services)
    interrupted = sum(run.outcome == "interrupted" for runs in found.runs.values() for run in runs)
    assert interrupted >= CYCLES / 2, "too few runs were interrupted for the test to show anything"


async def _think(body: Json) -> Says:
    """Answer as a clerk does, but so slowly that most kills interrupt a run."""
    await asyncio.sleep(THINKING_SECONDS)
    return clerk(body)


async def _create_quiet_agent(load: Load) -> Owned:
    """Create an agent that no writer writes to: only the end of a hold can start it."""
    agent_id = await load.client.create_agent(name=QUIET, debounce_window_seconds=WINDOW_SECONDS)
    agent = load.ledger.agents[agent_id] = Owned(agent_id, QUIET, WINDOW_SECONDS)
    return agent


async def _insert_by_another_program(database_url: str, load: Load, quiet: Owned, random: Random) -> None:
    """Insert messages and a reminder by plain SQL, while no service runs."""
    agents = [agent for agent in load.ledger.agents.values() if not (agent.deleted_at or agent.name == QUIET)]
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        for agent, source, delay in (
            (random.choice(agents), "sms", None),
            (random.choice(agents), "api", 1.5),
            (quiet, "sms", None),
        ):
            await cursor.execute(INSERT, (agent.id, "From psql", source, delay))
            note_id, created_at, scheduled_for = await cursor.fetchone()
            note = Note(note_id, agent.id, "From psql", source, "high", created_at)
            note.schedules += [scheduled_for] if scheduled_for else []
            agent.notes.append(note)
