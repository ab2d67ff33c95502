"""Projects: listing, updating and deleting them."""

from dataclasses import replace

from storage.channels.projects import ProjectFilters, Projects, ProjectStatus
from storage.model import Agent
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.channels.resources import project
from tests.storage.factories import HOUR, NOW, SECOND


async def test_update_of_project_sets_its_time(pool: Pool, scout: Agent) -> None:
    projects, move = Projects(pool), project(scout)
    await projects.insert(move)

    done = await projects.update(move.id, {"status": ProjectStatus.DONE}, NOW + HOUR)

    assert done == replace(move, status=ProjectStatus.DONE, updated_at=NOW + HOUR)
    assert await projects.get(move.id) == done


async def test_page_filters_projects_newest_first(pool: Pool, scout: Agent) -> None:
    projects = Projects(pool)
    done = project(scout, status=ProjectStatus.DONE)
    shared = project(scout, agent_id=None, created_at=NOW + SECOND)
    for new in (done, shared):
        await projects.insert(new)
    filters = ProjectFilters((scout.organization_id,))

    assert await projects.list_page(filters, Page()) == [shared, done]
    assert await projects.list_page(filters, Page(after=(shared.created_at, shared.id))) == [done]
    assert await projects.list_page(replace(filters, status=ProjectStatus.DONE), Page()) == [done]
    assert await projects.list_page(replace(filters, status=ProjectStatus.ARCHIVED), Page()) == []
    assert await projects.list_page(replace(filters, agent_id=scout.id), Page()) == [done]


async def test_deleted_project_is_not_found(pool: Pool, scout: Agent) -> None:
    projects, move = Projects(pool), project(scout)
    await projects.insert(move)

    assert await projects.delete(move.id)

    assert not await projects.delete(move.id)
    assert await projects.get(move.id) is None
    assert await projects.update(move.id, {"name": "x"}, NOW) is None
