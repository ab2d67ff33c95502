"""The responses with which a route can refuse."""

from typing import Any

from web.errors import APPLIED_HEADER
from web.observability.requests import HINT_HEADER
from web.openapi.schemas import Json
from web.paging import TOTAL_HEADER
from web.request.unknown_names import IGNORED_HEADER, MAX_NAME_BYTES, MAX_NAMES, STRICT
from web.routes import Access, Route

RESPONSES = {  # by status: name and description
    400: ("Invalid", "The request is not valid: a sentence in `detail`, or messages by field."),
    401: ("NotAuthenticated", "No credential, or one that is not valid."),
    403: (
        "PermissionDenied",
        "The resource is another organization's, or the caller's role does not allow this.",
    ),
    404: ("NotFound", "The resource does not exist."),
    409: ("Conflict", "The state of the resource does not allow it."),
    413: ("TooLarge", "The body is too large, or holds too many values."),
    415: ("UnsupportedMediaType", "Neither JSON nor a form, or an encoding other than gzip and deflate."),
    422: ("Unprocessable", "The idempotency key was used before, with another body."),
    429: ("TooManyRequests", "Too many attempts, requests or event streams; `detail` names the limit."),
    500: ("Defect", "A defect of the service; the request id finds it in the log."),
    503: ("Unavailable", "The same request may succeed soon."),
}
HEADERS = {
    401: ["WWW-Authenticate"],
    429: ["Retry-After", "RateLimit-Policy", "RateLimit"],
    503: ["Retry-After"],
}

DETAIL: Json = {
    "type": "string",
    "description": "The reason in a sentence for people; programs use the status.",
}
SCHEMAS: dict[str, Json] = {
    "Refusal": {
        "type": "object",
        "properties": {"detail": DETAIL},
        "required": ["detail"],
        "description": "Why a request was refused, in a sentence.",
    },
    "FieldMessages": {
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                {"type": "array", "items": {"type": "string"}},
                {"$ref": "#/components/schemas/FieldMessages"},
            ]
        },
        "description": "What is wrong with each field; `non_field_errors` is about the whole. "
        "The messages about items of a list stand under their index.",
    },
    "DefectReport": {
        "type": "object",
        "properties": {
            "detail": DETAIL,
            "request_id": {
                "type": "string",
                "description": "The id of the request, by which the log has it.",
            },
        },
        "required": ["detail", "request_id"],
        "description": "What a client learns about a defect of the service.",
    },
}
REFUSAL: Json = {"$ref": "#/components/schemas/Refusal"}
BODIES: dict[int, Json] = {
    400: {"anyOf": [REFUSAL, {"$ref": "#/components/schemas/FieldMessages"}]},
    500: {"$ref": "#/components/schemas/DefectReport"},
}


def _header(description: str, **further: Any) -> Json:
    return {"description": description, "schema": {"type": "string", **further}}


HEADER_OBJECTS: dict[str, Json] = {
    "X-Request-ID": {
        **_header("The request's id, as it was sent or made here; it is in the log."),
        "required": True,
    },
    IGNORED_HEADER: _header(
        "What was ignored because the route does not know it, if there was anything: fields, "
        "query parameters, and `Idempotency-Key` where it has no effect. The names are separated by commas, "
        f"at most {MAX_NAMES}. Characters other than letters, digits and `._-` are escaped as in a URL; a "
        f"`~` ends a name that was cut after {MAX_NAME_BYTES} bytes."
    ),
    HINT_HEADER: _header("A sentence about something that was done as requested, but may not be meant so."),
    APPLIED_HEADER: _header(
        f"`{STRICT}`, if the request preferred that: no field or parameter was ignored.", enum=[STRICT]
    ),
    "Link": _header('`<…>; rel="next"` while there is more, if the request has a `limit`.'),
    TOTAL_HEADER: _header(
        "How many items all pages have together, on the first page.", type="integer", minimum=0
    ),
    "Retry-After": {
        **_header("Seconds after which to try again.", type="integer", minimum=0),
        "required": True,
    },
    "RateLimit-Policy": _header(
        "The quota: `q` requests in `w` seconds. All answers to counted requests have it."
    ),
    "RateLimit": _header("`r` requests are left; there will be more in `t` seconds."),
    "Idempotency-Replayed": _header(
        "The answer is the one that was given to this key before; nothing was done again.", enum=["true"]
    ),
    "WWW-Authenticate": {**_header("The schemes that are accepted."), "required": True},
}


def statuses(route: Route) -> set[int]:
    """Return all statuses with which the route can refuse."""
    statuses = {400, 500, *route.refusals}  # 400: a strict request may have an unknown parameter
    if route.access is not Access.ANYONE or route.method != "GET":
        statuses.add(503)  # public reads need no database
    if route.is_rate_limited:
        statuses.add(429)
    if route.body:
        statuses |= {413, 415}
    if route.access is not Access.ANYONE:
        statuses.add(401)
    if route.access is Access.CALLERS:
        statuses |= {400, 403}  # also for X-Organization, which every such route checks
    if route.idempotent:
        statuses.add(422)
    if "{" in route.path:
        statuses.add(404)
    return statuses


def reference(status: int) -> Json:
    return {"$ref": f"#/components/responses/{RESPONSES[status][0]}"}


def responses() -> Json:
    """Return a named response for each status."""
    return {name: response(status) for status, (name, _) in RESPONSES.items()}


def response(status: int, *further: Json) -> Json:
    """Return the response of a status, whose body may also be one of `further`."""
    usual = BODIES.get(status, REFUSAL)
    return {
        "description": RESPONSES[status][1],
        "headers": headers("X-Request-ID", IGNORED_HEADER, *HEADERS.get(status, [])),
        "content": {"application/json": {"schema": {"anyOf": [usual, *further]} if further else usual}},
    }


def headers(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
