"""The statuses with which routes refuse."""

import pytest

from tests.web.openapi.routes import CREATE, LIST, STATUS, create_thing
from web.openapi.error_responses import RESPONSES, reference, response, responses, statuses
from web.routes import CallerRoute, Route


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (LIST, {400, 429, 500}),
        (CREATE, {400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503}),
        (STATUS, {400, 401, 429, 500, 503}),
    ],
)
def test_statuses_follow_from_route(route: Route, expected: set[int]) -> None:
    assert statuses(route) == expected


def test_every_status_has_named_response() -> None:
    assert responses().keys() == {name for name, _ in RESPONSES.values()}
    assert reference(404) == {"$ref": "#/components/responses/NotFound"}
    assert set(response(503)["headers"]) == {"X-Request-ID", "X-Ignored", "Retry-After"}


def test_further_body_is_an_alternative() -> None:
    further = {"type": "integer"}
    schema = response(404, further)["content"]["application/json"]["schema"]
    assert further in schema["anyOf"]


def test_read_that_a_header_directs_may_be_invalid() -> None:
    assert 400 in statuses(CallerRoute("GET", "/api/shop/", create_thing, by_header=True))
