"""What agents write down and look up."""

from uuid import UUID

from aiohttp import web

from storage.channels.documents import Document, DocumentFilters
from storage.errors import ReferenceMissing
from storage.ids import new_id
from web.access.auth import Caller
from web.access.body_references import owner_of_new, require_owner
from web.access.path_access import path_id, require_agent, require_project
from web.app_keys import CLOCK, STORAGE
from web.constraint_errors import refusal
from web.errors import NotFound
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.documents import DocumentBody, DocumentQuery, DocumentResponse, serialize_document

BODY = DocumentBody()
QUERY = DocumentQuery()


async def create_document(request: web.Request, caller: Caller) -> web.Response:
    body = await read_body(request, BODY)
    organization_id, now = await owner_of_new(request, caller, body), request.app[CLOCK].now()
    document = Document(id=new_id(), organization_id=organization_id, created_at=now, updated_at=now, **body)
    try:
        await request.app[STORAGE].documents.insert(document)
    except ReferenceMissing as error:
        raise refusal(error, body) from error
    return json_response(serialize_document(document), status=201)


async def list_documents(request: web.Request, caller: Caller) -> web.StreamResponse:
    query = read_query(request, QUERY)
    await require_agent(request, caller, query["agent"])
    await require_project(request, caller, query["project"])
    documents = request.app[STORAGE].documents
    filters = DocumentFilters(caller.organizations, query["agent"], query["project"])

    async def find(document_id: UUID) -> Document | None:
        last = await documents.get(document_id)
        return last if last and last.organization_id in caller.roles else None

    listing = Listing(
        fetch=lambda page: documents.page(filters, page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_document,
    )
    return await answer_list(request, query, listing)


async def get_document(request: web.Request, caller: Caller) -> web.Response:
    return json_response(serialize_document(await _document(request, caller)))


async def change_document(request: web.Request, caller: Caller) -> web.Response:
    document = await _document(request, caller)
    changes = await read_body(request, BODY, partial=True)
    await require_owner(request, document.organization_id, changes)
    documents = request.app[STORAGE].documents
    try:
        changed = await documents.update(document.id, changes, request.app[CLOCK].now())
    except ReferenceMissing as error:
        raise refusal(error, changes) from error
    if changed is None:
        raise NotFound
    return json_response(serialize_document(changed))


async def delete_document(request: web.Request, caller: Caller) -> web.Response:
    document = await _document(request, caller)
    await request.app[STORAGE].documents.delete(document.id)
    return web.Response(status=204)


async def _document(request: web.Request, caller: Caller) -> Document:
    document = await request.app[STORAGE].documents.get(path_id(request))
    if document is None:
        raise NotFound
    caller.require(document.organization_id)
    return document


ROUTES = (
    for_callers(
        "GET",
        "/api/defaults/documents/",
        list_documents,
        "List documents",
        answer=list[DocumentResponse],
        query=QUERY,
    ),
    for_callers(
        "POST",
        "/api/defaults/documents/",
        create_document,
        "Create a document",
        status=201,
        answer=DocumentResponse,
        body=BODY,
        by_header=True,
    ),
    for_callers(
        "GET", "/api/defaults/documents/{id}/", get_document, "Read a document", answer=DocumentResponse
    ),
    for_callers(
        "PATCH",
        "/api/defaults/documents/{id}/",
        change_document,
        "Change a document",
        answer=DocumentResponse,
        body=BODY,
        partial=True,
    ),
    for_callers("DELETE", "/api/defaults/documents/{id}/", delete_document, "Delete a document", status=204),
)
