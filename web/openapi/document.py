"""The OpenAPI document as a whole."""

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

from marshmallow import Schema

from supervisors.client_values import MAX_DEPTH
from web import idempotency
from web.access.auth import ORGANIZATION_HEADER, RunAccess
from web.api.supervision.supervisors import SortedAgentQuery
from web.errors import APPLIED_HEADER
from web.json import JSON_TYPE, to_json
from web.observability.requests import HEADER as REQUEST_ID
from web.observability.requests import HINT_HEADER
from web.openapi import error_responses, examples
from web.openapi.finishing import append_value_meanings, relate_bodies, single
from web.openapi.paths import path_parameters, request_header, tag, tags
from web.openapi.requests import body_content, query_parameters
from web.openapi.schemas import Components, Json, answer_schema, description_of
from web.openapi.webhooks import webhook_requests
from web.paging import TOTAL_HEADER, PageQuery
from web.request.forms import MAX_FIELDS
from web.request.json_text import MAX_VALUES, MAX_VALUES_OF_ITEMS
from web.request.unknown_names import IGNORED_HEADER, PREFER_HEADER, STRICT
from web.routes import EVENT_STREAM, LAST_EVENT_ID, Access, CallerRoute, Route
from web.settings import VERSION

INTERFACE_VERSION = "1.0.0"

INTRODUCTION = f"""\
Hosts long-lived autonomous agents for organizations. This document describes version {INTERFACE_VERSION} of \
the interface; `info.version` is that of the service.

**Credentials.** An API key under `Bearer` acts for its organization; a user's token under `Token` acts for \
that user in all of the user's organizations. `X-Organization` says which of them a request is about where \
the body does not tell; any route refuses one that is not the caller's, and a request that changes something \
reaches no other. Operators have a token of their own, for `/status/` and `/metrics` alone.

**Bodies** are JSON, `application/x-www-form-urlencoded` or `multipart/form-data`. Read-only fields are \
ignored. So are unknown fields and query parameters, but the answer names them in `{IGNORED_HEADER}`, and \
with `Prefer: {STRICT}` they are refused. What is described here is the usual way to write a value; \
besides, digits are taken for an integer, `true`, `false`, `1` and `0` for a boolean, ignoring case, and a \
number for text. One-line text is trimmed. NUL characters, lone surrogates and keys that an object has twice \
are refused. A datetime without \
an offset is local time of the agent it is about, else UTC. A body holds at most {MAX_VALUES:,} values \
(spans {MAX_VALUES_OF_ITEMS:,}) and {MAX_FIELDS:,} fields, free JSON {MAX_DEPTH} levels and integers of \
64 bits.

**Lists** are newest first and come whole, or in pages of `limit` with a `Link` to the next one. A filter by \
an id that does not exist finds nothing; one of another organization is refused with 403.

**Paths** end with a slash; without it the answer is a 308 to the right one. Every GET route answers \
HEAD, too. Any other method gets 405 with `Allow`, after the credential has been checked. Each answer has an \
`X-Request-ID`, the request's own if it was usable.
"""

BEARER = {"type": "http", "scheme": "bearer"}
SECURITY_SCHEMES: dict[str, Json] = {
    "ApiKey": {
        **BEARER,
        "description": "An organization's API key: `Authorization: Bearer hsk_…`.",
    },
    "UserToken": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "A user's token, with its prefix: `Token …`.",
    },
    "RunToken": {
        **BEARER,
        "bearerFormat": "JWT",
        "description": "The token of a run, for its own record and for what its agent's tools may do.",
    },
    "ApprovalLink": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "The token of a webhook's `link`, until its call is decided: `Approval …`.",
    },
    "OperatorToken": {
        **BEARER,
        "description": "The operator's token (`hostsvc operator-token`): `/status/` and `/metrics`.",
    },
}


STREAM_DESCRIPTION = (
    "Server-sent events. The `event` of each is its type, `id` the cursor to resume at, and `data` one line "
    "of JSON as `contentSchema` says. Events without `data` only move the cursor; comments keep the "
    "connection alive."
)
UUID_PATTERN = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"


HEADERS = {
    "RequestId": request_header(
        REQUEST_ID, "An id for the request, to be echoed and logged: 1 to 128 printable ASCII characters."
    ),
    "Organization": request_header(
        ORGANIZATION_HEADER,
        "The organization that the request is about, one of the caller's own. Required for a user of "
        "several, unless the body names a resource whose organization is meant.",
        pattern=UUID_PATTERN,  # generated clients cannot send the UUID objects that "format" makes of it
    ),
    "Prefer": request_header(
        PREFER_HEADER,
        f"With `{STRICT}` unknown fields and query parameters are refused instead of ignored: the 400 names "
        "each with the most similar known name. Other preferences (RFC 7240) have no effect.",
    ),
    "IdempotencyKey": request_header(
        idempotency.HEADER,
        "Within 24 hours, a repeated request with the same key has no second effect and gets the first "
        "answer, with null for a secret in it.",
        minLength=1,
        maxLength=idempotency.MAX_CHARACTERS,
        pattern="^[!-~]([ -~]*[!-~])?$",
    ),
    "LastEventId": request_header(
        LAST_EVENT_ID,
        "The cursor at which to resume: the id of the last event that you have. It counts more than `after`, "
        "because browsers add it when they connect again to the same URL.",
        pattern="^[0-9]{1,18}$",
    ),
}


def build_document(routes: Iterable[Route]) -> Json:
    """Build the OpenAPI 3.1 document of these routes. Raise ValueError if two types have the same name."""
    components = Components()
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    webhooks = webhook_requests(components)
    relate_bodies(paths.values(), components)
    append_value_meanings(paths.values(), components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hostsvc",
            "version": VERSION,
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": tags(paths),
        "paths": paths,
        "webhooks": webhooks,
        "components": {
            "schemas": {**components.schemas, **error_responses.SCHEMAS},
            "responses": error_responses.responses(),
            "headers": error_responses.HEADER_OBJECTS,
            "parameters": HEADERS,
            "securitySchemes": SECURITY_SCHEMES,
        },
    }


def _operation(route: Route, components: Components) -> Json:
    operation: Json = {
        "operationId": route.handler.__name__,
        "summary": route.handler.__name__.replace("_", " ").capitalize(),
        "tags": [tag(route.path)],
        "security": _security(route),
        "parameters": _parameters(route, components),
        "responses": _responses(route, components),
    }
    description = description_of(route.handler.__doc__)
    if description:
        operation["description"] = description
    if route.body is not None:
        operation["requestBody"] = _request_body(route, route.body, components)
    return operation


def _security(route: Route) -> list[Json]:
    match route.access:
        case Access.ANYONE:
            return [{}, {"UserToken": []}] if route.user_token else []
        case Access.OPERATORS:
            return [{"OperatorToken": []}]
        case Access.CALLERS:
            schemes = ["ApiKey", "UserToken"]
            if route.run_access is not RunAccess.NEVER:
                schemes.append("RunToken")
            if isinstance(route, CallerRoute) and route.takes_link:
                schemes.append("ApprovalLink")
            return [{scheme: []} for scheme in schemes]


def _parameters(route: Route, components: Components) -> list[Json]:
    headers = ["RequestId", "Prefer"]
    if route.by_header:
        headers.append("Organization")
    if route.idempotent:
        headers.append("IdempotencyKey")
    if route.stream is not None:
        headers.append("LastEventId")
    query = query_parameters(route.query, components) if route.query is not None else []
    referred = [{"$ref": f"#/components/parameters/{name}"} for name in headers]
    return [*path_parameters(route.path), *referred, *query]


def _request_body(route: Route, schema: Schema, components: Components) -> Json:
    content = body_content(schema, components, partial=route.partial, max_items=route.max_items)
    example = examples.REQUESTS.get(route.handler.__name__)
    if example is not None:
        content[JSON_TYPE] = {**content[JSON_TYPE], "example": example}
    is_required = "required" in components.referred(single(content[JSON_TYPE]["schema"]))
    return {"required": is_required, "content": content}


def _responses(route: Route, components: Components) -> Json:
    responses: dict[str, Any] = {str(route.status): _success(route, components)}
    for status in sorted(error_responses.statuses(route)):
        responses[str(status)] = error_responses.reference(status)
    for status in {400, 404} if route.refused else ():
        responses[str(status)] = error_responses.response(status, answer_schema(route.refused, components))
    return responses


def _stream(kind: Any, components: Components) -> Json:
    """Describe a stream of server-sent events, which no schema can express as a whole."""
    return {
        "type": "string",
        "description": STREAM_DESCRIPTION,
        "contentMediaType": EVENT_STREAM,
        "contentSchema": answer_schema(kind, components),
    }


def _success(route: Route, components: Components) -> Json:
    names = ["X-Request-ID", IGNORED_HEADER, APPLIED_HEADER]
    if route.body is not None:
        names.append(HINT_HEADER)
    if isinstance(route.query, PageQuery | SortedAgentQuery):
        names.append("Link")
    if isinstance(route.query, SortedAgentQuery):
        names.append(TOTAL_HEADER)
    if route.idempotent:
        names.append(idempotency.REPLAYED_HEADER)
    success: Json = {
        "description": HTTPStatus(route.status).phrase,
        "headers": error_responses.headers(*names),
    }
    if route.answer is not None:
        schema = answer_schema(route.answer, components)
        success["content"] = {media_type: {"schema": schema} for media_type in route.media_types}
        if route.stream is not None:
            success["content"][EVENT_STREAM] = {"schema": _stream(route.stream, components)}
        example = examples.ANSWERS.get(route.handler.__name__)
        if example is not None:
            success["content"][JSON_TYPE]["example"] = example
    return success


class ServedDocument:
    """The JSON text of the OpenAPI document of these routes.

    Building it takes a fifth of a second and some megabytes, and most services are never asked for it.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._text: bytes | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> bytes:
        """Return the text. The first call builds it in a thread; the others wait for that."""
        async with self._lock:
            if self._text is None:
                self._text = await asyncio.to_thread(lambda: to_json(build_document(self._routes)))
        return self._text
