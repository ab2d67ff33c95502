"""Versions of documents: who wrote what, and how to go back."""

from aiohttp import web

from storage.channels.document_versions import DocumentVersion
from storage.channels.documents import Document
from supervisors.scalars import parse_integer
from web.access.auth import Caller
from web.access.path_access import load_owned
from web.app_keys import CLOCK, STORAGE
from web.constraint_errors import refusing_constraint_errors
from web.errors import require_found
from web.fields import MAX_INT32
from web.handlers.documents import refuse_misplaced, writer_of
from web.json import json_response
from web.routes import Routes
from web.schemas.document_versions import (
    FullVersionResponse,
    VersionResponse,
    serialize_full_version,
    serialize_version,
)
from web.schemas.documents import DocumentResponse, serialize_document

routes = Routes()


@routes.get("/api/defaults/documents/{id}/versions/", answer=list[VersionResponse])
async def list_versions(request: web.Request, caller: Caller) -> web.Response:
    """List the last 50 versions of a document, the current one first."""
    document = await load_owned(request, caller, request.app[STORAGE].documents.get)
    versions = await request.app[STORAGE].document_versions.list_all(document.id)
    return json_response([serialize_version(version) for version in versions])


@routes.get("/api/defaults/documents/{id}/versions/{number}/", answer=FullVersionResponse)
async def get_version(request: web.Request, caller: Caller) -> web.Response:
    """Read one version of a document with its content."""
    document = await load_owned(request, caller, request.app[STORAGE].documents.get)
    return json_response(serialize_full_version(await _load_version(request, document)))


@routes.post(
    "/api/defaults/documents/{id}/versions/{number}/revert/", answer=DocumentResponse, refusals={400}
)
async def revert_document(request: web.Request, caller: Caller) -> web.Response:
    """Make an earlier version the current one again, as a new version; nothing is lost.

    A document that its agent has deleted is restored.
    """
    storage = request.app[STORAGE]
    document = await load_owned(request, caller, storage.documents.get)
    version = await _load_version(request, document)
    await refuse_misplaced(storage, document, {"path": document.path, "content": version.content})
    changes = {
        "title": version.title,
        "content": version.content,
        "content_type": version.content_type,
        "deleted_at": None,
    }
    with refusing_constraint_errors(changes):
        writer, now = writer_of(caller), request.app[CLOCK].now()
        reverted = await storage.documents.update(document, changes, writer, now)
    return json_response(serialize_document(require_found(reverted)))


async def _load_version(request: web.Request, document: Document) -> DocumentVersion:
    number = parse_integer(request.match_info["number"])
    if number is None or not 0 < number <= MAX_INT32:
        number = 0
    return require_found(await request.app[STORAGE].document_versions.get(document.id, number))
