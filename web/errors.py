"""The errors of the HTTP interface, and how they are written as JSON.

    ApiError
    ├── BadRequest              400 with a sentence
    ├── Invalid                 400 with messages by field
    ├── NotAuthenticated        401
    ├── PermissionDenied        403
    ├── NotFound                404
    ├── Conflict                409
    ├── TooLarge                413
    ├── UnsupportedMediaType    415
    ├── KeyReused               422
    ├── TooManyRequests         429 with a sentence that names the limit
    │   └── Throttled           429 with the standard sentence
    └── Unavailable             503

The errors of marshmallow, storage and the supervisors become responses here, and nowhere else.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog
from aiohttp import web
from marshmallow import ValidationError

from storage.errors import (
    AddressTaken,
    BadAddress,
    ConstraintError,
    DatabaseBusy,
    DatabaseRefused,
    DatabaseUnavailable,
    Forbidden,
    LastOwner,
    LimitReached,
    NodeEnded,
    NotUnique,
    ReferenceMissing,
    RowLocked,
    SecretUnreadable,
    StorageError,
)
from supervisors.errors import (
    AgentArchived,
    AgentGone,
    ChecksPending,
    NoStarts,
    TryAgainLater,
)
from supervisors.policy.explanations import NO_STARTS
from web.fields import unknown_id
from web.json import json_response
from web.observability.requests import HEADER, HEADERS, path_without_token

log = structlog.get_logger(__name__)

Value = TypeVar("Value")

CHALLENGE = 'Bearer realm="api", Token'
DATABASE_RETRY_SECONDS = 2
BUSY_RETRY_SECONDS = 1
OPERATOR_RETRY_SECONDS = 60
FULL_RETRY_SECONDS = 10
BUSY = "The service is busy; nothing of this request was done."
APPLIED_HEADER = "Preference-Applied"  # of the answer to a strict request, unless it is refused
UNAVAILABLE = (DatabaseUnavailable, DatabaseRefused, NodeEnded)


# Called with each error by which the database refused a request.
REPORT_REFUSAL: web.AppKey[Callable[[StorageError], None]] = web.AppKey("report_refusal")


class ApiError(Exception):
    """A request is refused; `detail` is the sentence that the client reads."""

    status = 500

    def __init__(self, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.body: Any = {"detail": detail}
        self.headers = dict(headers or {})


class BadRequest(ApiError):
    """The request cannot be understood."""

    status = 400


class Invalid(ApiError):
    """Fields of the body or query are refused, with messages by field, and by index for items of a list."""

    status = 400

    def __init__(self, messages: Mapping[str, Any]) -> None:
        super().__init__("Invalid input.")
        self.body = {
            "non_field_errors" if field == "_schema" else field: message
            for field, message in messages.items()
        }


class NotAuthenticated(ApiError):
    status = 401

    def __init__(self, detail: str = "Authentication credentials were not provided.") -> None:
        super().__init__(detail, {"WWW-Authenticate": CHALLENGE})


class PermissionDenied(ApiError):
    """The resource belongs to another organization, or the caller's role does not allow this."""

    status = 403

    def __init__(self, detail: str = "You do not have permission to perform this action.") -> None:
        super().__init__(detail)


class NotFound(ApiError):
    status = 404

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        super().__init__("Not found.", headers)


def require_found(value: Value | None) -> Value:
    """Return the value. Raise NotFound if it is None, as what storage returns for a row that is gone."""
    if value is None:
        raise NotFound
    return value


class Conflict(ApiError):
    """The state of the resource forbids it."""

    status = 409


class TooLarge(ApiError):
    """A part of the body is larger than it may be."""

    status = 413


class UnsupportedMediaType(ApiError):
    status = 415


class KeyReused(ApiError):
    """The Idempotency-Key belongs to a request with another body."""

    status = 422

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used with another request body.")


class TooManyRequests(ApiError):
    """The client or its organization has reached a limit; the same request may succeed later."""

    status = 429

    def __init__(self, detail: str, retry_after_seconds: int) -> None:
        super().__init__(detail, {"Retry-After": str(retry_after_seconds)})


class Throttled(TooManyRequests):
    """Too many attempts or requests of a client; `limit` is a sentence on what the operator allows."""

    def __init__(self, retry_after_seconds: int, limit: str = "") -> None:
        detail = f"Request was throttled. Expected available in {retry_after_seconds} seconds."
        super().__init__(f"{detail} {limit}" if limit else detail, retry_after_seconds)


class Unavailable(ApiError):
    """The same request may succeed soon."""

    status = 503

    def __init__(self, detail: str, retry_after_seconds: int) -> None:
        super().__init__(detail, {"Retry-After": str(retry_after_seconds)})


async def refuse(request: web.Request, error: Exception) -> web.StreamResponse:
    """Answer a refusal, or a crash of a handler, in JSON.

    What the database refuses is reported instead of logged: in an outage that is every request.
    """
    if isinstance(error, web.HTTPNotFound):
        return await _without_slash(request)
    if isinstance(error, web.HTTPException):
        return _framework_error_response(error)
    if isinstance(error, UNAVAILABLE):
        request.app[REPORT_REFUSAL](error)
    refusal = refusal_of(error)
    if refusal is None:
        log.error("request failed", method=request.method, path=path_without_token(request), exc_info=error)
        detail = {"detail": "Internal server error.", "request_id": request[HEADERS][HEADER]}
        return json_response(detail, status=500)
    return json_response(refusal.body, refusal.status, refusal.headers)


def refusal_of(error: Exception) -> ApiError | None:
    """Return the response to an error; None if it is a bug of ours."""
    match error:
        case ApiError():
            return error
        case ValidationError():  # a schema raises it with messages by field
            return Invalid(error.messages_dict)
        case StorageError():
            return _refusal_by_storage(error)
        case AgentGone():
            return NotFound()
        case AgentArchived():
            return Conflict("The agent is archived; restore it first.")
        case NoStarts():
            return Unavailable(f"{NO_STARTS.capitalize()}.", error.retry_after_seconds)
        case ChecksPending():
            detail = "Too many JSON Schemas of your organization are being checked."
            return Unavailable(detail, error.retry_after_seconds)
        case TryAgainLater():
            detail = "Too many requests to this agent wait for an answer."
            return Unavailable(detail, error.retry_after_seconds)
        case _:
            return None


def _refusal_by_storage(error: StorageError) -> ApiError | None:
    match error:
        case Forbidden():
            return PermissionDenied()
        case LastOwner():
            return Invalid({"non_field_errors": [str(error)]})
        case LimitReached(name="waiting_notifications"):  # room comes by itself, as agents clear their queues
            return TooManyRequests(str(error), FULL_RETRY_SECONDS)
        case LimitReached():  # somebody must make room
            return BadRequest(str(error))
        case RowLocked():
            return Unavailable("Another change to the same resource takes too long.", BUSY_RETRY_SECONDS)
        case DatabaseBusy():
            return Unavailable(BUSY, BUSY_RETRY_SECONDS)
        case SecretUnreadable():
            log.error("request refused", reason=str(error))
            detail = f"The stored secret {error.place} cannot be decrypted; the operator must look into it."
            return Unavailable(detail, OPERATOR_RETRY_SECONDS)
        case DatabaseUnavailable() | DatabaseRefused() | NodeEnded():
            return Unavailable("The database is not available.", DATABASE_RETRY_SECONDS)
        case _:
            return None


@contextmanager
def refusing_constraint_errors(body: Mapping[str, Any]) -> Iterator[None]:
    """Raise Invalid about the fields of `body` for a constraint that the block violates."""
    try:
        yield
    except ConstraintError as error:
        raise constraint_refusal(error, body) from error


def constraint_refusal(error: ConstraintError, body: Mapping[str, Any]) -> Invalid:
    """Return the error for a value that was taken, or an id that was deleted, after the checks."""
    match error:
        case NotUnique():
            message = f"The fields {', '.join(error.fields)} must make a unique set."
            return Invalid({"non_field_errors": [message]})
        case ReferenceMissing():
            return Invalid({error.field: [unknown_id(body[f"{error.field}_id"])]})
        case BadAddress():
            return Invalid({error.field: [str(error)]})
        case AddressTaken():
            return Invalid({error.field: [f"{error}."]})
        case _:
            raise error


async def _without_slash(request: web.Request) -> web.Response:
    """Answer 404, or redirect a path that lacks only its final slash, with the same method and body."""
    path, _, query = request.raw_path.partition("?")
    if not path.endswith("/") and not path.startswith("//"):  # "//" would redirect to another host
        with_slash = request.clone(rel_url=f"{path}/")
        if (await request.app.router.resolve(with_slash)).http_exception is None:
            location = f"{path}/?{query}" if query else f"{path}/"
            return web.Response(status=308, headers={"Location": location})
    return json_response({"detail": "Not found."}, 404)


def _framework_error_response(error: web.HTTPException) -> web.StreamResponse:
    """Return the framework's own refusal, such as 405 or 413, as JSON in our wording."""
    match error:
        case web.HTTPMethodNotAllowed():
            detail = f'Method "{error.method}" not allowed.'
            return json_response({"detail": detail}, 405, {"Allow": ", ".join(sorted(error.allowed_methods))})
        case _:
            return json_response({"detail": f"{error.reason}."}, error.status)
