"""Contacts, documents and projects over HTTP: what they have in common."""

from typing import Any

import pytest

from tests.web.conftest import Api

CHANNELS: dict[str, dict[str, Any]] = {
    "contacts": {"name": "Ada", "email": "ada@example.com", "phone": "+43123456", "metadata": {"vip": [1]}},
    "documents": {"title": "Notes", "content": " text ", "content_type": "text/markdown"},
    "projects": {"name": "Move", "description": "To a new house.", "status": "done"},
}
REQUIRED = {"contacts": {}, "documents": {"title": "x"}, "projects": {"name": "x"}}


def path(channel: str, item: Any = None) -> str:
    return f"/api/defaults/{channel}/" + (f"{item['id']}/" if item else "")


@pytest.mark.parametrize("channel", CHANNELS)
async def test_resource_is_created_read_changed_and_deleted(api: Api, channel: str) -> None:
    agent, fields = await api.create_agent(), CHANNELS[channel]
    created = await api.create(path(channel), agent=agent["id"], **fields)
    assert {**created, **fields, "agent": agent["id"]} == created
    assert (await api.get(path(channel, created))).body == created
    changed = await api.patch(path(channel, created), {"agent": None})
    assert changed.status == 200
    assert {**changed.body, "agent": agent["id"], "updated_at": None} == {**created, "updated_at": None}
    assert (await api.delete(path(channel, created))).status == 204
    for method in ("GET", "PATCH", "DELETE"):
        assert (await api.request(method, path(channel, created))).status == 404, method


@pytest.mark.parametrize("channel", CHANNELS)
async def test_list_is_newest_first_filtered_and_paged(api: Api, channel: str) -> None:
    agent = await api.create_agent()
    first = await api.create(path(channel), agent=agent["id"], **REQUIRED[channel])
    second = await api.create(path(channel), **REQUIRED[channel])
    assert (await api.get(path(channel))).body == [second, first]
    assert (await api.get(f"{path(channel)}?agent={agent['id']}")).body == [first]
    page = await api.get(f"{path(channel)}?limit=1")
    assert (page.body, f"after={second['id']}" in page.headers["Link"]) == ([second], True)
    assert (await api.get(f"{path(channel)}?after={second['id']}")).body == [first]
    assert (await api.get(f"{path(channel)}?agent=x")).status == 400


@pytest.mark.parametrize("channel", CHANNELS)
async def test_resource_is_deleted_with_its_agent(api: Api, channel: str) -> None:
    agent = await api.create_agent()
    created = await api.create(path(channel), agent=agent["id"], **REQUIRED[channel])
    await api.delete(f"/api/cloud/agents/{agent['id']}/")
    assert (await api.get(path(channel, created))).status == 404
    assert (await api.get(path(channel))).body == []
