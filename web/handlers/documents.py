"""Documents: texts that agents write and look up."""

from dataclasses import replace

from aiohttp import web

from storage.channels.documents import Document, DocumentFilters
from storage.ids import new_id
from storage.organization_limits import document_bytes
from web.access.auth import Caller, RunAccess
from web.access.body_references import organization_for_new, require_same_owner
from web.access.path_access import load, load_of_agent, load_owned, require_agent, require_of_agent
from web.app_keys import CLOCK, STORAGE
from web.constraint_errors import refusing_constraint_errors
from web.errors import require_found
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.paging import answer_owned_list, period
from web.request.parsing import read_body, read_query
from web.routes import CallerRoute
from web.schemas.documents import DocumentBody, DocumentQuery, DocumentResponse, serialize_document

BODY = DocumentBody()
QUERY = DocumentQuery()


async def create_document(request: web.Request, caller: Caller) -> web.Response:
    """Create a document, for one agent or for all agents of the organization.

    If the organization's documents would take more than `limits.document_bytes`, the answer is 400. A run
    creates documents of its agent, also without an `agent` in the body.
    """
    body = await read_body_once(request, caller, BODY)
    if caller.run is not None and body["agent_id"] is None:
        body["agent_id"] = caller.run.agent_id
    organization_id, now = await organization_for_new(request, caller, body), request.app[CLOCK].now()
    document = Document(id=new_id(), organization_id=organization_id, created_at=now, updated_at=now, **body)
    answer = json_response(serialize_document(document), status=201)
    storage = request.app[STORAGE]
    with refusing_constraint_errors(body):
        async with storage.limits.document_bytes.reserved(organization_id, _bytes_of(document)):
            await storage.documents.insert(document, receipt_of(request, answer))
    return answer


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
        visible_to=reach.agent_id,
    )
    return await answer_owned_list(
        request, query, reach.organization_ids, documents, filters, serialize_document
    )


async def get_document(request: web.Request, caller: Caller) -> web.Response:
    """Read one document with its content."""
    document = await load_of_agent(request, caller, request.app[STORAGE].documents.get)
    return json_response(serialize_document(document))


async def change_document(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains. The limit of bytes holds as for a new document.

    A run may not change the `agent`.
    """
    storage = request.app[STORAGE]
    document = await load_of_agent(request, caller, storage.documents.get)
    changes = await read_body(request, BODY, partial=True)
    await require_same_owner(request, caller, document, changes)
    document = await load(request, storage.documents.get)  # its size may have changed while the body arrived
    growth = _bytes_of(replace(document, **changes)) - _bytes_of(document)
    with refusing_constraint_errors(changes):
        async with storage.limits.document_bytes.reserved(document.organization_id, growth):
            changed = await storage.documents.update(document.id, changes, request.app[CLOCK].now())
    return json_response(serialize_document(require_found(changed)))


async def delete_document(request: web.Request, caller: Caller) -> web.Response:
    """Delete a document, which makes room for others."""
    documents = request.app[STORAGE].documents
    document = await load_owned(request, caller, documents.get)
    await documents.delete(document.id)
    return web.Response(status=204)


def _bytes_of(document: Document) -> int:
    return document_bytes(document.title, document.content)


ROUTES = (
    CallerRoute(
        "GET",
        "/api/defaults/documents/",
        list_documents,
        "List documents",
        answer=list[DocumentResponse],
        query=QUERY,
        run_access=RunAccess.RUNNING,
    ),
    CallerRoute(
        "POST",
        "/api/defaults/documents/",
        create_document,
        "Create a document",
        status=201,
        answer=DocumentResponse,
        body=BODY,
        idempotent=True,
        by_header=True,
        run_access=RunAccess.RUNNING,
    ),
    CallerRoute(
        "GET",
        "/api/defaults/documents/{id}/",
        get_document,
        "Read a document",
        answer=DocumentResponse,
        run_access=RunAccess.RUNNING,
    ),
    CallerRoute(
        "PATCH",
        "/api/defaults/documents/{id}/",
        change_document,
        "Change a document",
        answer=DocumentResponse,
        body=BODY,
        run_access=RunAccess.RUNNING,
    ),
    CallerRoute("DELETE", "/api/defaults/documents/{id}/", delete_document, "Delete a document", status=204),
)
