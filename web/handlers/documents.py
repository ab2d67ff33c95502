"""Documents: texts that agents write and look up."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import web

from storage.channels.document_search import SearchScope
from storage.channels.documents import Document, DocumentFilters, Writer
from storage.channels.memory_paths import core_refusal
from storage.ids import new_id
from storage.storage import Storage
from web.access.auth import Caller, RunAccess
from web.access.body_references import organization_for_new, require_same_owner
from web.access.path_access import (
    answer_of_agent,
    load,
    load_of_agent,
    load_owned,
    require_agent,
    require_of_agent,
)
from web.app_keys import CLOCK, ROOM, STORAGE
from web.constraint_errors import refusing_constraint_errors
from web.errors import Conflict, Invalid, require_found
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.page_reader import Listing
from web.paging import answer_list, find_owned, period
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.documents import (
    DocumentBody,
    DocumentHitResponse,
    DocumentQuery,
    DocumentResponse,
    DocumentSearchQuery,
    serialize_document,
    serialize_hit,
)

routes = Routes()

BODY = DocumentBody()
QUERY = DocumentQuery()
SEARCH_QUERY = DocumentSearchQuery()


@routes.create(
    "/api/defaults/documents/",
    answer=DocumentResponse,
    body=BODY,
    by_header=True,
    run_access=RunAccess.RUNNING,
)
async def create_document(request: web.Request, caller: Caller) -> web.Response:
    """Create a document, for one agent or for all agents of the organization.

    With a `path` the agent finds it by its tool `memory`; `/memories/core.md` may have 8,192 bytes. If the
    organization's documents would take more than `limits.document_bytes`, the answer is 400. A run creates
    documents of its agent, also without an `agent` in the body.
    """
    body = await read_body_once(request, caller, BODY)
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
    answer = json_response(serialize_document(document), status=201)
    with refusing_constraint_errors(body):
        await storage.documents.insert(document, receipt_of(request, answer))
    return answer


@routes.get(
    "/api/defaults/documents/", answer=list[DocumentResponse], query=QUERY, run_access=RunAccess.RUNNING
)
async def list_documents(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the documents of your organizations with their contents, newest first.

    A run lists those of its agent and those for all agents.
    """
    query, reach = read_query(request, QUERY), caller.reach
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
    listing = Listing(
        partial(documents.list_rows, filters),
        serialize_document.row,
        find_owned(reach.organization_ids, documents.get),
    )
    return await answer_list(request, query, listing)


@routes.get(
    "/api/defaults/documents/search/",
    answer=list[DocumentHitResponse],
    query=SEARCH_QUERY,
    run_access=RunAccess.RUNNING,
)
async def search_documents(request: web.Request, caller: Caller) -> web.Response:
    """Search titles, paths and the first 50,000 characters of contents for words, best first.

    Words are found as they are written and, with `agent`, by their stems in the agent's `language`, if they
    were written since it was set. If very many documents match, only some of them are compared. A run finds
    what its agent finds.
    """
    query, storage = read_query(request, SEARCH_QUERY), request.app[STORAGE]
    await require_agent(request, caller, query["agent"])
    scope, agent_id = SearchScope(caller.organizations), query["agent"] or caller.reach.agent_id
    if agent_id is not None:
        agent = await storage.agents.get(agent_id)
        if agent is None:
            return json_response([])
        scope = SearchScope.of(agent)
    async with request.app[ROOM].reading(caller.accountable):
        hits = await storage.documents.search(scope, query["query"], query["limit"])
    return json_response([serialize_hit(hit) for hit in hits])


@routes.get("/api/defaults/documents/{id}/", answer=DocumentResponse, run_access=RunAccess.RUNNING)
async def get_document(request: web.Request, caller: Caller) -> web.Response:
    """Read one document with its content."""
    return await answer_of_agent(request, caller, request.app[STORAGE].documents.get, serialize_document)


@routes.patch(
    "/api/defaults/documents/{id}/",
    answer=DocumentResponse,
    body=BODY,
    refusals={409},
    run_access=RunAccess.RUNNING,
)
async def change_document(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains. The limits hold as for a new document.

    A change of title, content or content type keeps the version before it, which counts against the limit,
    too. A document that its agent has deleted is refused with 409: revert it first. A run may not change the
    `agent`.
    """
    storage = request.app[STORAGE]
    document = await load_of_agent(request, caller, storage.documents.get)
    changes = await read_body(request, BODY, partial=True)
    await require_same_owner(request, caller, document, changes)
    document = await load(request, storage.documents.get)  # it may have changed while the body arrived
    if document.deleted_at is not None:
        raise Conflict("The agent has deleted this document; revert it to an earlier version first.")
    await refuse_misplaced(storage, replace(document, **changes), changes)
    with refusing_constraint_errors(changes):
        now = request.app[CLOCK].now()
        changed = await storage.documents.update(document, changes, writer_of(caller), now)
    return json_response(serialize_document(require_found(changed)))


@routes.delete("/api/defaults/documents/{id}/")
async def delete_document(request: web.Request, caller: Caller) -> web.Response:
    """Delete a document with all its versions for good, which makes room for others."""
    documents = request.app[STORAGE].documents
    document = await load_owned(request, caller, documents.get)
    await documents.delete(document.id)
    return web.Response(status=204)


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
