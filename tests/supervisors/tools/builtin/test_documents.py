"""Document tools: texts that an agent lists, searches, reads and writes, and its projects."""

from typing import Any
from uuid import UUID

import pytest

from storage.channels.projects import ProjectStatus
from storage.ids import new_id
from supervisors.tools.builtin.documents import MAX_CONTENT_BYTES, MAX_READ_CHARACTERS
from supervisors.tools.tool import PartialResult
from tests.storage.factories import NOW, SECOND
from tests.supervisors.tools.builtin.resources import (
    deleted_document,
    refusal,
    stored_document,
    stored_project,
)
from tests.supervisors.world import World


async def test_documents_are_listed_without_their_contents(world: World) -> None:
    agent, sibling = await world.agent(timezone="Europe/Vienna"), await world.agent()
    project = await stored_project(world, agent)
    notes = await stored_document(world, agent, title="Notes", content="\u20ac", project_id=project.id)
    shared = await stored_document(
        world, agent, agent_id=None, title="Prices", content="x" * 400_000, created_at=NOW + SECOND
    )
    await stored_document(world, sibling)
    await deleted_document(world, agent)
    run = await world.start(agent)

    listed = await run.call("list_documents")

    assert [(each["id"], each["title"], each["size_bytes"]) for each in listed] == [
        (str(shared.id), "Prices", 400_000),
        (str(notes.id), "Notes", 3),
    ]
    assert listed[1] == {
        "id": str(notes.id),
        "title": "Notes",
        "path": None,
        "project": str(project.id),
        "size_bytes": 3,
        "updated_at": "2126-11-21T10:00:00+01:00",
    }
    assert await run.call("list_documents", project_id=str(project.id)) == listed[1:]
    assert isinstance(await run.call("list_documents", limit=1), PartialResult)
    assert await run.call("list_documents", limit=1, after=str(shared.id)) == listed[1:]


async def test_search_finds_words_in_own_and_shared_documents(world: World) -> None:
    agent, sibling = await world.agent(), await world.agent()
    found = await stored_document(world, agent, title="Ada", content="Ada likes green tea.")
    shared = await stored_document(world, agent, agent_id=None, title="Menu", content="Green tea, 3 euros.")
    await stored_document(world, agent, title="Other", content="Coffee")
    await stored_document(world, sibling, content="green tea")
    run = await world.start(agent)

    hits = await run.call("search_documents", query="green tea")

    assert {hit["id"] for hit in hits} == {str(found.id), str(shared.id)}
    assert all("**" in hit["snippet"] for hit in hits)
    assert len(await run.call("search_documents", query="tea", limit=1)) == 1
    assert await run.call("search_documents", query='"tea green"') == []
    assert (await refusal(run, "search_documents", query=" "))["parameter"] == "query"


async def test_long_document_is_read_in_parts(world: World) -> None:
    agent = await world.agent()
    content = "".join(f"{n:08}" for n in range(5000))
    document = await stored_document(world, agent, content=content)
    run = await world.start(agent)

    part = await run.call("read_document", document_id=str(document.id))
    assert isinstance(part, PartialResult)
    assert part.left_out == (
        f"It has 40000 characters. To read on, call this again with offset={MAX_READ_CHARACTERS}."
    )
    read = part.value["content"]
    while isinstance(part, PartialResult):
        part = await run.call("read_document", document_id=str(document.id), offset=len(read))
        read += part.value["content"] if isinstance(part, PartialResult) else part["content"]
    assert read == content
    assert (await refusal(run, "read_document", document_id=str(document.id), offset=-1))["code"] == "invalid"


async def test_written_document_belongs_to_agent_and_names_its_run(world: World) -> None:
    agent = await world.agent()
    project = await stored_project(world, agent, agent_id=None)
    run = await world.start(agent)

    written = await run.call(
        "write_document", title=" Notes ", content="Ada: tea\n", project_id=str(project.id)
    )

    document = await world.storage.documents.get(UUID(written["id"]))
    assert document is not None
    assert (document.title, document.content, document.agent_id) == ("Notes", "Ada: tea\n", agent.id)
    assert (document.author, document.run_id) == (f"agent:{agent.id}", run.run.id)
    assert (document.project_id, written["version"]) == (project.id, 1)
    assert (await run.call("read_document", document_id=written["id"]))["content"] == "Ada: tea\n"


async def test_replaced_content_keeps_the_version_before(world: World) -> None:
    agent = await world.agent()
    document = await stored_document(world, agent, agent_id=None, title="Menu", content="Tea")
    run = await world.start(agent)

    changed = await run.call("write_document", document_id=str(document.id), content="Coffee")

    assert (changed["title"], changed["version"]) == ("Menu", 2)
    stored = await world.storage.documents.get(document.id)
    assert stored is not None
    assert (stored.content, stored.agent_id, stored.run_id) == ("Coffee", None, run.run.id)
    before = await world.storage.versions.get(document.id, 1)
    assert before is not None
    assert before.content == "Tea"


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"content": "x"}, "title"),
        ({"title": " "}, "title"),
        ({"title": "x" * 256}, "title"),
        ({"title": "x", "content": "x" * (MAX_CONTENT_BYTES + 1)}, "content"),
        ({"title": "x", "content": "a\0b"}, "content"),
        ({"title": "x", "project_id": "7"}, "project_id"),
    ],
)
async def test_unfit_document_is_refused(world: World, arguments: dict[str, Any], parameter: str) -> None:
    run = await world.start(await world.agent())

    error = await refusal(run, "write_document", **arguments)

    assert (error["code"], error["parameter"]) == ("invalid", parameter)
    assert await run.call("list_documents") == []


async def test_change_of_document_needs_something_to_change(world: World) -> None:
    agent = await world.agent()
    document = await stored_document(world, agent)
    run = await world.start(agent)

    error = await refusal(run, "write_document", document_id=str(document.id))
    assert error["message"] == "Give at least one of title, content, project_id."
    error = await refusal(run, "write_document", document_id=str(document.id), title=" ")
    assert error["message"] == "title takes a text that is not blank."


async def test_documents_out_of_reach_are_not_found(world: World) -> None:
    """Invariant I7."""
    agent, sibling = await world.agent(), await world.agent()
    run = await world.start(agent)
    hidden = await stored_document(world, sibling)
    gone = await deleted_document(world, agent)
    project = await stored_project(world, sibling)

    for document_id in (hidden.id, new_id()):
        for tool in ("read_document", "write_document"):
            error = await refusal(run, tool, document_id=str(document_id), content="x")
            assert error == {"code": "not_found", "message": f"You have no document {document_id}."}
    for tool in ("read_document", "write_document"):
        error = await refusal(run, tool, document_id=str(gone.id), content="x")
        assert error["message"] == f"The document {gone.id} was deleted."
    for tool in ("list_documents", "write_document"):
        error = await refusal(run, tool, title="x", project_id=str(project.id))
        assert error["message"] == f"You have no project {project.id}."
    assert await world.storage.documents.get(hidden.id) == hidden
    assert await world.storage.documents.get(gone.id) == gone


async def test_projects_of_agent_and_organization_are_listed(world: World) -> None:
    agent, sibling = await world.agent(), await world.agent()
    move = await stored_project(world, agent, name="Move", description="x" * 1001)
    shared = await stored_project(
        world, agent, agent_id=None, name="Budget", status=ProjectStatus.DONE, created_at=NOW + SECOND
    )
    await stored_project(world, sibling)
    run = await world.start(agent)

    listed = await run.call("list_projects")

    assert listed == [
        {"id": str(shared.id), "name": "Budget", "status": "done", "description": ""},
        {
            "id": str(move.id),
            "name": "Move",
            "status": "active",
            "description": f"{'x' * 1000}… (cut: 1000 of 1001 characters)",
        },
    ]
    assert await run.call("list_projects", status="active") == listed[1:]
    assert await run.call("list_projects", limit=1) == PartialResult(
        listed[:1], f'There are more. To read on, call this again with after="{shared.id}".'
    )
    assert await run.call("list_projects", after=str(shared.id)) == listed[1:]
    error = await refusal(run, "list_projects", status="lost")
    assert error["message"] == "status takes one of active, done, archived."
