"""Documents over HTTP: defaults, refused fields, and the project they belong to."""

from typing import Any

import pytest

from tests.web.api.unknown import UNKNOWN_ID, UNKNOWN_ID_MESSAGES
from tests.web.conftest import Api

DOCUMENTS = "/api/defaults/documents/"
PROJECTS = "/api/defaults/projects/"
REFUSED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"title": " "}, {"title": ["This field may not be blank."]}),
    (
        {"project": UNKNOWN_ID, "agent": UNKNOWN_ID},
        {"project": UNKNOWN_ID_MESSAGES, "agent": UNKNOWN_ID_MESSAGES},
    ),
]


async def test_document_needs_only_a_title(api: Api) -> None:
    created = await api.create(DOCUMENTS, title="x")
    defaults = {"agent": None, "project": None, "content": "", "content_type": "text/plain"}
    assert {**created, **defaults} == created


@pytest.mark.parametrize(("changes", "messages"), REFUSED)
async def test_document_with_bad_field_is_refused(
    api: Api, changes: dict[str, Any], messages: dict[str, Any]
) -> None:
    created = await api.create(DOCUMENTS, title="x")
    for answer in (
        await api.post(DOCUMENTS, {"title": "x", **changes}),
        await api.patch(f"{DOCUMENTS}{created['id']}/", changes),
    ):
        assert (answer.status, answer.body) == (400, messages)


async def test_documents_are_listed_by_project(api: Api) -> None:
    project = await api.create(PROJECTS, name="Move")
    document = await api.create(DOCUMENTS, title="Notes", project=project["id"])
    await api.create(DOCUMENTS, title="Loose")
    assert (await api.get(f"{DOCUMENTS}?project={project['id']}")).body == [document]


async def test_document_in_a_project_of_another_organization_is_refused(api: Api, other: Api) -> None:
    project = await api.create(PROJECTS, name="Move")
    assert (await other.get(f"{DOCUMENTS}?project={project['id']}")).status == 403
    assert (await other.post(DOCUMENTS, {"title": "x", "project": project["id"]})).status == 403
