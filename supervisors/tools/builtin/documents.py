"""Document tools: an agent lists, searches, reads and writes texts, and looks up its projects."""

from functools import partial
from typing import Any
from uuid import UUID

from storage.channels.documents import Document, DocumentHit, DocumentTitle, SearchScope, Writer
from storage.channels.memories import core_refusal
from storage.channels.projects import Project, ProjectFilters, ProjectStatus
from storage.errors import ReferenceMissing
from storage.ids import new_id
from supervisors.text import cut, format_local
from supervisors.tools.arguments import ToolError
from supervisors.tools.builtin.listing import (
    AFTER,
    LIMIT,
    named_resource,
    read_page,
)
from supervisors.tools.tool import PartialResult, ToolInvocation, agent_tool

DEFAULT_HITS = 10
MAX_HITS = 50
MAX_READ_CHARACTERS = 16_000  # of a document at a time
MAX_TITLE_LENGTH = 255
MAX_CONTENT_BYTES = 1_048_576  # also of a memory; over the API the body of the request bounds it
DOCUMENT_ID = {"type": "string", "format": "uuid"}
PROJECT_ID = {"type": "string", "format": "uuid"}


MAX_LISTED_CHARACTERS = 1000  # of a description


@agent_tool(
    "Lists the titles of your documents, newest first.", project_id=PROJECT_ID, limit=LIMIT, after=AFTER
)
async def list_documents(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the documents that the agent reaches, without their contents."""
    documents, project_id = call.stores.documents, await _project_id(call)
    fetch = partial(documents.list_titles, call.agent.id, project_id)
    serialize = partial(_serialize_title, call.agent.timezone)
    page = await read_page(call, "document", documents.get, fetch, serialize)
    return page.result()


@agent_tool(
    'Finds documents by their words, best first. "two words" stand together; or and - work.',
    ("query",),
    query={"type": "string"},
    limit={"type": "integer", "maximum": MAX_HITS, "default": DEFAULT_HITS},
)
async def search_documents(call: ToolInvocation) -> list[dict[str, Any]]:
    """Return the documents in which the words of the query occur, with the places where they do."""
    query = call.arguments.line("query")
    limit = min(call.arguments.integer("limit", DEFAULT_HITS, minimum=1), MAX_HITS)
    hits = await call.stores.documents.search(SearchScope.of(call.agent), query, limit)
    return [_serialize_hit(call.agent.timezone, hit) for hit in hits]


@agent_tool(
    f"Reads a document, {MAX_READ_CHARACTERS} characters at a time.",
    ("document_id",),
    document_id=DOCUMENT_ID,
    offset={"type": "integer", "default": 0, "description": "The first character to read."},
)
async def read_document(call: ToolInvocation) -> dict[str, Any] | PartialResult:
    """Return a document with a part of its content."""
    document = await _load(call)
    offset = call.arguments.integer("offset", 0, minimum=0)
    end = offset + MAX_READ_CHARACTERS
    read = {**_serialize(call.agent.timezone, document), "content": document.content[offset:end]}
    if end < len(document.content):
        left_out = (
            f"It has {len(document.content)} characters. To read on, call this again with offset={end}."
        )
        return PartialResult(read, left_out)
    return read


@agent_tool(
    "Writes a new document, or replaces what is given of the document document_id.",
    document_id=DOCUMENT_ID,
    title={"type": "string"},
    content={"type": "string"},
    project_id=PROJECT_ID,
)
async def write_document(call: ToolInvocation) -> dict[str, Any]:
    """Create a document of the agent, or change one that it reaches; the version before stays readable."""
    changes = await _changes(call)
    try:
        if call.arguments.given.get("document_id") is None:
            return _serialize(call.agent.timezone, await _create(call, changes))
        return _serialize(call.agent.timezone, await _change(call, await _load(call), changes))
    except ReferenceMissing as error:
        if error.field != "project":
            raise
        raise ToolError("not_found", "The project was deleted.") from error


async def _create(call: ToolInvocation, changes: dict[str, Any]) -> Document:
    if not changes.get("title"):
        raise ToolError("invalid", "A new document needs a title.", parameter="title")
    document = new_document(call, **changes)
    await call.stores.documents.insert(document)
    return document


def new_document(
    call: ToolInvocation,
    title: str,
    content: str = "",
    *,
    project_id: UUID | None = None,
    path: str | None = None,
    content_type: str = "text/plain",
) -> Document:
    """Return a document that the agent writes now."""
    writer = writer_of(call)
    return Document(
        id=new_id(),
        organization_id=call.agent.organization_id,
        agent_id=call.agent.id,
        project_id=project_id,
        title=title,
        content=content,
        content_type=content_type,
        created_at=call.now,
        updated_at=call.now,
        path=path,
        author=writer.author,
        run_id=writer.run_id,
    )


async def _change(call: ToolInvocation, document: Document, changes: dict[str, Any]) -> Document:
    if not changes:
        raise ToolError("invalid", "Give at least one of title, content, project_id.")
    if changes.get("title") == "":
        raise ToolError("invalid", "title takes a text that is not blank.", parameter="title")
    if refusal := core_refusal(document.path, changes.get("content", document.content)):
        raise ToolError("invalid", refusal, parameter="content")
    changed = await call.stores.documents.update(document, changes, writer_of(call), call.now)
    if changed is None:
        raise ToolError("not_found", f"The document {document.id} was deleted.")
    return changed


async def _changes(call: ToolInvocation) -> dict[str, Any]:
    """Return the columns that the arguments give."""
    title = call.arguments.optional_line("title", MAX_TITLE_LENGTH)
    changes: dict[str, Any] = {} if title is None else {"title": title}
    if call.arguments.given.get("content") is not None:
        content = changes["content"] = call.arguments.text("content")
        if len(content.encode()) > MAX_CONTENT_BYTES:
            message = f"content takes at most {MAX_CONTENT_BYTES} bytes; write several documents."
            raise ToolError("invalid", message, parameter="content")
    project_id = await _project_id(call)
    return changes if project_id is None else {**changes, "project_id": project_id}


async def _load(call: ToolInvocation) -> Document:
    document = await named_resource(call, "document_id", "document", call.stores.documents.get)
    if document.deleted_at is not None:
        raise ToolError("not_found", f"The document {document.id} was deleted.")
    return document


async def _project_id(call: ToolInvocation) -> UUID | None:
    """Return the id of the project in the arguments, if there is one. Raise ToolError for a hidden one."""
    if call.arguments.given.get("project_id") is None:
        return None
    return (await named_resource(call, "project_id", "project", call.stores.projects.get)).id


def writer_of(call: ToolInvocation) -> Writer:
    """Return who writes: the agent, in its run if there is one."""
    return Writer.of_agent(call.agent.id, call.run_id)


def _serialize_title(timezone: str, document: DocumentTitle) -> dict[str, Any]:
    project = str(document.project_id) if document.project_id else None
    return _described(timezone, document, project=project, size_bytes=document.size_bytes)


def _serialize_hit(timezone: str, hit: DocumentHit) -> dict[str, Any]:
    return _described(timezone, hit, snippet=hit.snippet, size_bytes=hit.size_bytes)


def _serialize(timezone: str, document: Document) -> dict[str, Any]:
    project = str(document.project_id) if document.project_id else None
    return _described(timezone, document, project=project, version=document.version)


def _described(
    timezone: str, document: Document | DocumentTitle | DocumentHit, **further: Any
) -> dict[str, Any]:
    return {
        "id": str(document.id),
        "title": document.title,
        "path": document.path,
        **further,
        "updated_at": format_local(document.updated_at, timezone),
    }


@agent_tool(
    "Lists your projects, newest first.",
    status={"type": "string", "enum": list(ProjectStatus)},
    limit=LIMIT,
    after=AFTER,
)
async def list_projects(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the projects that the agent reaches, newest first."""
    projects, agent = call.stores.projects, call.agent
    status = call.arguments.choice("status", ProjectStatus)
    filters = ProjectFilters((agent.organization_id,), status=status, visible_to=agent.id)
    fetch = partial(projects.list_page, filters)
    page = await read_page(call, "project", projects.get, fetch, _serialize_project)
    return page.result()


def _serialize_project(project: Project) -> dict[str, Any]:
    return {
        "id": str(project.id),
        "name": project.name,
        "status": project.status,
        "description": cut(project.description, MAX_LISTED_CHARACTERS),
    }
