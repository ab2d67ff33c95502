"""The document of a small route table; `tests/contract` checks that of the service."""

from tests.web.openapi.routes import CREATE, LIST, STATUS
from web.openapi.document import build_document
from web.version import VERSION

DOCUMENT = build_document([LIST, CREATE, STATUS])
THING = {"$ref": "#/components/schemas/Thing"}


def test_document_names_release_and_interface_version() -> None:
    info = DOCUMENT["info"]
    assert info["version"] == VERSION
    assert "This document describes version 1.0.0 of the interface" in info["description"]


def test_operation_describes_its_route() -> None:
    operation = DOCUMENT["paths"]["/api/shop/things/"]["get"]
    assert (operation["operationId"], operation["summary"]) == ("list_things", "List things")
    assert operation["description"] == "All of them."
    assert operation["tags"] == ["things"]
    assert operation["security"] == []
    assert [parameter.get("name") for parameter in operation["parameters"]] == [None, None, "size"]
    assert operation["responses"]["200"]["content"]["application/json"]["schema"]["items"] == THING


def test_caller_operation_names_credentials_and_headers() -> None:
    operation = DOCUMENT["paths"]["/api/shop/things/{id}/"]["post"]
    assert operation["security"] == [{"ApiKey": []}, {"UserToken": []}, {"RunToken": []}]
    path_id, *headers = operation["parameters"]
    names = [header["$ref"].rpartition("/")[2] for header in headers]
    assert (path_id["name"], names) == ("id", ["RequestId", "Prefer", "Organization", "IdempotencyKey"])
    assert DOCUMENT["components"]["parameters"].keys() == {*names, "LastEventId"}
    assert operation["requestBody"]["required"]
    assert "Idempotency-Replayed" in operation["responses"]["201"]["headers"]


def test_operator_operation_names_its_token() -> None:
    operation = DOCUMENT["paths"]["/status/"]["get"]
    assert operation["security"] == [{"OperatorToken": []}]
    assert operation["tags"] == ["service"]


def test_components_hold_bodies_and_responses() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["ThingBody"]["required"] == ["name"]
    assert schemas["Thing"]["properties"]["id"] == {"type": "integer", "readOnly": True}
