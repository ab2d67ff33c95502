"""Projects over HTTP: defaults, refused fields, and the filter by status."""

from tests.web.conftest import Api

PROJECTS = "/api/defaults/projects/"


async def test_project_needs_only_a_name(api: Api) -> None:
    created = await api.create(PROJECTS, name="x")
    assert {**created, "agent": None, "description": "", "status": "active"} == created


async def test_projects_are_listed_by_status(api: Api) -> None:
    project = await api.create(PROJECTS, name="Move", status="done")
    await api.create(PROJECTS, name="Stay")
    assert (await api.get(f"{PROJECTS}?status=done")).body == [project]
