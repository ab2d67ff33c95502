"""Documents over HTTP: defaults, refused fields, and the project they belong to."""

from tests.web.conftest import Api

DOCUMENTS = "/api/defaults/documents/"
PROJECTS = "/api/defaults/projects/"


async def test_document_needs_only_a_title(api: Api) -> None:
    created = await api.create(DOCUMENTS, title="x")
    defaults = {"agent": None, "project": None, "content": "", "content_type": "text/plain"}
    assert {**created, **defaults} == created


async def test_documents_are_listed_by_project(api: Api) -> None:
    project = await api.create(PROJECTS, name="Move")
    document = await api.create(DOCUMENTS, title="Notes", project=project["id"])
    await api.create(DOCUMENTS, title="Loose")
    assert (await api.get(f"{DOCUMENTS}?project={project['id']}")).body == [document]
