"""A backup of a serving instance, restored elsewhere: nothing starts until the pause ends."""

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import asyncpg

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.process import Launch
from tests.acceptance.services import OPERATOR_TOKEN, Services

REMINDERS = 5
TIME_PASSES = (
    "UPDATE notification SET scheduled_for = scheduled_for - interval '2 h'",
    "UPDATE notification SET activated_at = scheduled_for",
    "UPDATE agent_state SET next_due_at = next_due_at - interval '2 h'",
)


async def hostsvc(directory: Path, database_url: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hostsvc", *arguments),
        cwd=directory,
        env=os.environ | {"HOSTSVC__DATABASE__URL": database_url},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


async def execute(database_url: str, statements: Sequence[str]) -> None:
    connection = await asyncpg.connect(database_url, server_settings={"hostsvc.origin": "service"})
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def test_restored_instance_starts_nothing_until_the_pause_ends(
    services: Services,
    session: aiohttp.ClientSession,
    directory: Path,
    launch: Launch,
    database_url: str,
    empty_database_url: str,
) -> None:
    client = await sign_up(session, (await services.start()).url)
    agent = await client.create_agent(name="Ada")
    in_an_hour = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for _ in range(REMINDERS):
        await client.notify(agent, scheduled_for=in_an_hour)
    await hostsvc(directory, database_url, "backup", "b.sql.gz")
    await hostsvc(directory, database_url, "restore", "b.sql.gz", "--database", empty_database_url)
    await execute(empty_database_url, TIME_PASSES)

    elsewhere = Services(directory / "elsewhere", {"url": empty_database_url}, launch)
    elsewhere.directory.mkdir()
    try:
        client = client.at((await elsewhere.start()).url)
        operator = Client(session, client.url, f"Bearer {OPERATOR_TOKEN}")

        async def reasons() -> list[str] | None:
            return (await operator.get("/status/"))["service"]["reasons"] or None

        [reason] = await eventually(reasons, "the status to name the pause")
        assert reason.startswith("The whole instance is paused since ")
        assert reason.endswith(" UTC. Nothing starts until an operator runs hostsvc unpause --all.")
        assert await client.status_of("/readyz") == 200
        assert (await client.supervisor_in("paused", agent))["why"].startswith("The whole instance is paused")
        assert (await client.post(f"/api/cloud/agents/{agent}/run/", wakeup=True))["status"] == "paused"
        assert await client.runs(agent) == []

        await hostsvc(directory, empty_database_url, "unpause", "--all")
        run = await client.ended_run(agent)
        assert (run["wake_reason"], len(await client.runs(agent))) == ("reminder", 1)

        async def is_ready() -> bool | None:
            return await reasons() is None or None

        await eventually(is_ready, "the status to be ready")
    finally:
        await elsewhere.close()
