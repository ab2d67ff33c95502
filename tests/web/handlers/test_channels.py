"""Contacts, documents and projects over HTTP: made, read, changed, listed, deleted, each by its owner."""

from typing import Any

import pytest

from tests.web.conftest import Api

NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"
UNKNOWN = [f'Invalid pk "{NOBODY}" - object does not exist.']
CHANNELS: dict[str, dict[str, Any]] = {
    "contacts": {"name": "Ada", "email": "ada@example.com", "phone": "+43 1", "metadata": {"vip": [1]}},
    "documents": {"title": "Notes", "content": " text ", "content_type": "text/markdown"},
    "projects": {"name": "Move", "description": "To a new house.", "status": "done"},
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "contacts": {"name": "", "email": "", "phone": "", "metadata": {}},
    "documents": {"title": "x", "content": "", "content_type": "text/plain", "project": None},
    "projects": {"name": "x", "description": "", "status": "active"},
}
REQUIRED = {"contacts": {}, "documents": {"title": "x"}, "projects": {"name": "x"}}
REFUSED = [
    ("contacts", {"email": "ada"}, {"email": ["Enter a valid email address."]}),
    ("contacts", {"metadata": None}, {"metadata": ["This field may not be null."]}),
    ("contacts", {"phone": "1" * 65}, {"phone": ["Ensure this field has no more than 64 characters."]}),
    ("contacts", {"agent": NOBODY}, {"agent": UNKNOWN}),
    ("documents", {"title": " "}, {"title": ["This field may not be blank."]}),
    ("documents", {"project": NOBODY, "agent": NOBODY}, {"project": UNKNOWN, "agent": UNKNOWN}),
    ("projects", {"status": "lost"}, {"status": ['"lost" is not a valid choice.']}),
]


def path(channel: str, item: Any = None) -> str:
    return f"/api/defaults/{channel}/" + (f"{item['id']}/" if item else "")


@pytest.mark.parametrize("channel", CHANNELS)
async def test_what_is_created_is_shown_changed_and_deleted(api: Api, channel: str) -> None:
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
async def test_what_is_left_out_has_its_default(api: Api, channel: str) -> None:
    created = await api.create(path(channel), **REQUIRED[channel])
    assert {**created, **DEFAULTS[channel], "agent": None} == created


@pytest.mark.parametrize(("channel", "changes", "messages"), REFUSED)
async def test_bad_fields_are_named(
    api: Api, channel: str, changes: dict[str, Any], messages: dict[str, Any]
) -> None:
    answer = await api.post(path(channel), {**REQUIRED[channel], **changes})
    assert (answer.status, answer.body) == (400, messages)
    created = await api.create(path(channel), **REQUIRED[channel])
    answer = await api.patch(path(channel, created), changes)
    assert (answer.status, answer.body) == (400, messages)


@pytest.mark.parametrize("channel", CHANNELS)
async def test_nobody_else_sees_or_changes_it(api: Api, other: Api, channel: str) -> None:
    agent = await api.create_agent()
    created = await api.create(path(channel), agent=agent["id"], **REQUIRED[channel])
    for method in ("GET", "PATCH", "DELETE"):
        assert (await other.request(method, path(channel, created))).status == 403, method
    assert (await other.get(path(channel))).body == []
    assert (await other.get(f"{path(channel)}?agent={agent['id']}")).status == 403
    assert (await other.post(path(channel), {**REQUIRED[channel], "agent": agent["id"]})).status == 403
    theirs = await other.create(path(channel), **REQUIRED[channel])
    assert (await other.patch(path(channel, theirs), {"agent": agent["id"]})).status == 403


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_list_is_newest_first_filtered_and_paged(api: Api, channel: str) -> None:
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
async def test_it_goes_with_its_agent(api: Api, channel: str) -> None:
    agent = await api.create_agent()
    created = await api.create(path(channel), agent=agent["id"], **REQUIRED[channel])
    await api.delete(f"/api/cloud/agents/{agent['id']}/")
    assert (await api.get(path(channel, created))).status == 404
    assert (await api.get(path(channel))).body == []


async def test_documents_are_found_by_project_and_projects_by_status(api: Api, other: Api) -> None:
    project = await api.create(path("projects"), name="Move", status="done")
    document = await api.create(path("documents"), title="Notes", project=project["id"])
    await api.create(path("projects"), name="Stay")
    await api.create(path("documents"), title="Loose")
    assert (await api.get(f"{path('documents')}?project={project['id']}")).body == [document]
    assert (await api.get(f"{path('projects')}?status=done")).body == [project]
    assert (await other.get(f"{path('documents')}?project={project['id']}")).status == 403
    assert (await other.post(path("documents"), {"title": "x", "project": project["id"]})).status == 403


async def test_an_organization_that_is_named_must_be_that_of_what_the_body_names(
    api: Api, other: Api
) -> None:
    mine, theirs = await api.create_agent(), await other.create_agent()
    for named, status in ((mine["organization"], 201), (theirs["organization"], 403)):
        answer = await api.post(path("contacts"), {"agent": mine["id"]}, headers={"X-Organization": named})
        assert answer.status == status
