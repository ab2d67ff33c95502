"""The examples of the document; `tests/contract` checks that they fit their schemas."""

from web.app import ROUTES
from web.openapi.examples import ANSWERS, REQUESTS


def test_examples_belong_to_operations() -> None:
    operations = {route.handler.__name__ for route in ROUTES}
    assert REQUESTS.keys() | ANSWERS.keys() <= operations
