"""Documents: texts that agents write and look up."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web
from marshmallow import ValidationError

from storage.channels.documents import (
    MAX_HITS,
    Document,
    DocumentFilters,
    DocumentHit,
    SearchScope,
    Writer,
)
from storage.channels.memories import MAX_PATH_CHARACTERS, ROOT, InvalidPath, core_refusal, normalized
from storage.ids import new_id
from storage.storage import Storage
from web.access.auth import Caller, RunAccess
from web.access.path_access import (
    delete_owned,
    load,
    load_of_agent,
    load_row_of_agent,
    require_agent,
    require_of_agent,
)
from web.access.references import organization_for_new, require_same_owner
from web.app_keys import CLOCK, ROOM, STORAGE
from web.errors import Conflict, Invalid, refusing_constraint_errors, require_found
from web.fields import Boolean, Integer, Line, Text, Uuid
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import CreatedPageQuery, answer_owned, period
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes

DEFAULT_HITS = 10


class MemoryPath(Text):
    """The path of a document as its agent's tool `memory` sees it, without a closing slash or `..`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=MAX_PATH_CHARACTERS, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if len(text) > MAX_PATH_CHARACTERS:
            return text  # refused by its length
        try:
            path = normalized(text)
        except InvalidPath as error:
            raise ValidationError(f"{error}.") from error
        if path == ROOT:
            raise ValidationError(f"{ROOT} is a directory: give the path of a file in it.")
        return path


class DocumentBody(Body):
    """The writable fields of a document."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    project_id = Uuid(data_key="project", allow_none=True, load_default=None)
    title = Line(required=True, blank=False, max_length=255)
    content = Text(load_default="")
    content_type = Line(blank=False, max_length=255, load_default="text/plain")
    path = MemoryPath(allow_none=True, load_default=None)


class DocumentQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    """Only documents of this agent; those for all agents of the organization are left out."""
    project = Uuid(load_default=None)
    """Only documents of this project."""
    path = MemoryPath(load_default=None)
    """Only the documents of agents at this path."""
    deleted = Boolean(load_default=False)
    """true: only documents that agents have deleted; they can be restored until their retention is over."""


class DocumentSearchQuery(Body):
    query = Text(load_default="")
    """The words to look for, as in a web search: `"quoted words"` stand together, `or` and `-` work. Without
    words nothing is found."""
    agent = Uuid(load_default=None)
    """Only what this agent finds: its own documents and those for all agents. Its language is used."""
    limit = Integer(min_value=1, max_value=MAX_HITS, load_default=DEFAULT_HITS)
    """The maximum number of documents."""


class DocumentResponse(TypedDict):
    """A text that agents keep or are given."""

    id: UUID
    """Chosen by the service."""
    agent: UUID | None
    """The agent that the document is for; null: all agents of the organization."""
    project: UUID | None
    """The project that the document belongs to; null if there is none or it was deleted."""
    title: str
    """One line; several documents may have the same."""
    content: str
    """The text; "" for an empty document. Title and content of each version count against
    `limits.document_bytes`."""
    content_type: str
    """The media type of the content, which the service only stores."""
    created_at: datetime
    """When the document was created."""
    updated_at: datetime
    """When the document was last changed; at first the same as `created_at`."""
    path: str | None
    """Where the agent's tool `memory` finds the document, such as `/memories/people/ada.md`; null: nowhere.
    It needs an `agent`, which may have one document at each path."""
    version: int
    """The number of the current version: a change of title, content or content type adds 1."""
    author: str
    """Who wrote the current version: `user:`, `key:` or `agent:` and the id; "" if it is not known."""
    run: UUID | None
    """The run in which the agent wrote the current version; null if no run did."""
    deleted_at: datetime | None
    """When the agent deleted the document; null if it did not. Reverting it to a version restores it."""


serialize_document = Serializer(DocumentResponse, Document)


class DocumentHitResponse(TypedDict):
    """A document that a search has found, without its content."""

    id: UUID
    """The id of the document."""
    agent: UUID | None
    """The agent that the document is for; null: all agents of the organization."""
    project: UUID | None
    """The project that the document belongs to; null if there is none or it was deleted."""
    title: str
    """The title of the document."""
    path: str | None
    """Where the agent's tool `memory` finds the document; null: nowhere."""
    content_type: str
    """The media type of the content."""
    size_bytes: int
    """The length of the content in UTF-8."""
    version: int
    """The number of the current version."""
    created_at: datetime
    """When the document was created."""
    updated_at: datetime
    """When the document was last changed."""
    rank: float
    """How well the document fits the query, to compare with the others; words of the title count more."""
    snippet: str
    """The places of the content where the words are, which are marked by `**`."""


serialize_hit = Serializer(DocumentHitResponse, DocumentHit)


routes = Routes()


@routes.create("/api/defaults/documents/", body=DocumentBody, by_header=True, run_access=RunAccess.RUNNING)
async def create_document(request: web.Request, caller: Caller) -> DocumentResponse:
    """Create a document, for one agent or for all agents of the organization.

    With a `path` the agent finds it by its tool `memory`; `/memories/core.md` may have 8,192 bytes. If the
    organization's documents would take more than `limits.document_bytes`, the answer is 400. A run creates
    documents of its agent, also without an `agent` in the body.
    """
    body = await read_body_once(request, caller)
    if caller.run is not None and body["agent_id"] is None:
        body["agent_id"] = caller.run.agent_id
    organization_id, now = await organization_for_new(request, caller, body), request.app[CLOCK].now()
    storage, writer = request.app[STORAGE], writer_of(caller)
    document = Document(
        id=new_id(),
        organization_id=organization_id,
        created_at=now,
        updated_at=now,
        author=writer.author,
        run_id=writer.run_id,
        **body,
    )
    await refuse_misplaced(storage, document, body)
    answer = serialize_document(document)
    with refusing_constraint_errors(body):
        await storage.documents.insert(document, receipt_of(request, answer))
    return answer


@routes.get(
    "/api/defaults/documents/",
    answer=list[DocumentResponse],
    query=DocumentQuery,
    run_access=RunAccess.RUNNING,
)
async def list_documents(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the documents of your organizations with their contents, newest first.

    A run lists those of its agent and those for all agents.
    """
    query, reach = read_query(request), caller.reach
    await require_agent(request, caller, query["agent"])
    await require_of_agent(caller, request.app[STORAGE].projects.get, query["project"])
    documents = request.app[STORAGE].documents
    filters = DocumentFilters(
        reach.organization_ids,
        query["agent"],
        query["project"],
        period(query, "created"),
        query["path"],
        query["deleted"],
        visible_to=reach.agent_id,
    )
    fetch = partial(documents.list_rows, filters)
    owners = reach.organization_ids
    return await answer_owned(request, query, owners, documents.get, fetch, serialize_document.row)


@routes.get("/api/defaults/documents/search/", query=DocumentSearchQuery, run_access=RunAccess.RUNNING)
async def search_documents(request: web.Request, caller: Caller) -> list[DocumentHitResponse]:
    """Search titles, paths and the first 50,000 characters of contents for words, best first.

    Words are found as they are written and, with `agent`, by their stems in the agent's `language`, if they
    were written since it was set. If very many documents match, only some of them are compared. A run finds
    what its agent finds.
    """
    query, storage = read_query(request), request.app[STORAGE]
    await require_agent(request, caller, query["agent"])
    scope, agent_id = SearchScope(caller.organizations), query["agent"] or caller.reach.agent_id
    if agent_id is not None:
        agent = await storage.agents.get(agent_id)
        if agent is None:
            return []
        scope = SearchScope.of(agent)
    async with request.app[ROOM].reading(caller.accountable):
        hits = await storage.documents.search(scope, query["query"], query["limit"])
    return [serialize_hit(hit) for hit in hits]


@routes.get("/api/defaults/documents/{id}/", run_access=RunAccess.RUNNING)
async def get_document(request: web.Request, caller: Caller) -> DocumentResponse:
    """Read one document with its content."""
    row = await load_row_of_agent(request, caller, request.app[STORAGE].documents.get)
    return serialize_document.row(row)


@routes.patch(
    "/api/defaults/documents/{id}/", body=DocumentBody, refusals={409}, run_access=RunAccess.RUNNING
)
async def change_document(request: web.Request, caller: Caller) -> DocumentResponse:
    """Change the fields that the body contains. The limits hold as for a new document.

    A change of title, content or content type keeps the version before it, which counts against the limit,
    too. A document that its agent has deleted is refused with 409: revert it first. A run may not change the
    `agent`.
    """
    storage = request.app[STORAGE]
    document = await load_of_agent(request, caller, storage.documents.get)
    changes = await read_body(request)
    await require_same_owner(request, caller, document, changes)
    document = await load(request, storage.documents.get)  # it may have changed while the body arrived
    if document.deleted_at is not None:
        raise Conflict("The agent has deleted this document; revert it to an earlier version first.")
    await refuse_misplaced(storage, replace(document, **changes), changes)
    with refusing_constraint_errors(changes):
        now = request.app[CLOCK].now()
        changed = await storage.documents.update(document, changes, writer_of(caller), now)
    return serialize_document(require_found(changed))


@routes.delete("/api/defaults/documents/{id}/")
async def delete_document(request: web.Request, caller: Caller) -> None:
    """Delete a document with all its versions for good, which makes room for others."""
    await delete_owned(request, caller, request.app[STORAGE].documents)


def writer_of(caller: Caller) -> Writer:
    """Return the caller as the author of a document. A run writes as its agent."""
    if caller.run is not None:
        return Writer.of_agent(caller.run.agent_id, caller.run.run_id)
    return Writer(caller.identity)


async def refuse_misplaced(storage: Storage, document: Document, changes: Mapping[str, Any]) -> None:
    """Raise Invalid if the document cannot stand at its path, as far as the path or content is changed."""
    path, agent_id = document.path, document.agent_id
    if path is None:
        return
    if agent_id is None:
        raise Invalid(
            {"path": ["A document with a path needs an agent, whose tool `memory` finds it there."]}
        )
    refusal = core_refusal(path, changes.get("content", document.content))
    if refusal is not None:
        raise Invalid({"content": [refusal]})
    if not {"path", "agent_id"}.isdisjoint(changes):
        conflict = await storage.memories.find_conflict(agent_id, path)
        if conflict is not None:
            raise Invalid({"path": [f"The path does not go together with that of a document, {conflict}."]})
