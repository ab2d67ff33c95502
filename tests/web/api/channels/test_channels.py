"""Contacts, documents and projects over HTTP: defaults, filters, and what belongs to an agent."""

from typing import Any

import pytest

from tests.web.conftest import Api

REQUIRED = {"contacts": {}, "documents": {"title": "x"}, "projects": {"name": "x"}}
DEFAULTS: dict[str, dict[str, Any]] = {
    "contacts": {"name": "", "email": "", "phone": "", "metadata": {}, "other_addresses": []},
    "documents": {"project": None, "content": "", "content_type": "text/plain", "path": None},
    "projects": {"description": "", "status": "active"},
}


def path(channel: str, item: Any = None) -> str:
    return f"/api/defaults/{channel}/" + (f"{item['id']}/" if item else "")


@pytest.mark.parametrize("channel", REQUIRED)
async def test_resource_has_defaults_and_is_filtered_by_agent(api: Api, channel: str) -> None:
    agent = await api.create_agent()
    created = await api.create(path(channel), agent=agent["id"], **REQUIRED[channel])
    for_all = await api.create(path(channel), **REQUIRED[channel])
    assert {**for_all, "agent": None, **DEFAULTS[channel]} == for_all
    assert (await api.get(f"{path(channel)}?agent={agent['id']}")).body == [created]
    assert (await api.patch(path(channel, created), {"agent": None})).body["agent"] is None
    assert (await api.get(f"{path(channel)}?agent={agent['id']}")).body == []


@pytest.mark.parametrize("channel", REQUIRED)
async def test_resource_is_deleted_with_its_agent(api: Api, channel: str) -> None:
    agent = await api.create_agent()
    created = await api.create(path(channel), agent=agent["id"], **REQUIRED[channel])
    await api.delete(f"/api/cloud/agents/{agent['id']}/")
    assert (await api.get(path(channel, created))).status == 404
    assert (await api.get(path(channel))).body == []


async def test_documents_are_listed_by_project_and_projects_by_status(api: Api) -> None:
    project = await api.create(path("projects"), name="Move", status="done")
    await api.create(path("projects"), name="Stay")
    document = await api.create(path("documents"), title="Notes", project=project["id"])
    await api.create(path("documents"), title="Loose")
    assert (await api.get(f"{path('documents')}?project={project['id']}")).body == [document]
    assert (await api.get(f"{path('projects')}?status=done")).body == [project]
