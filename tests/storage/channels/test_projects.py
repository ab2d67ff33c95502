"""Projects: updating them."""

from dataclasses import replace

from storage.channels.projects import Projects, ProjectStatus
from storage.model import Agent
from storage.postgres.pool import Pool
from tests.storage.channels.resources import project
from tests.storage.factories import HOUR, NOW


async def test_update_of_project_sets_its_time(pool: Pool, scout: Agent) -> None:
    projects, move = Projects(pool), project(scout)
    await projects.insert(move)

    done = await projects.update(move.id, {"status": ProjectStatus.DONE}, NOW + HOUR)

    assert done == replace(move, status=ProjectStatus.DONE, updated_at=NOW + HOUR)
    assert await projects.get(move.id) == done
