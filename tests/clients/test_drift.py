"""The generated modules fit the API document, and each operation has one method with all its parameters."""

import ast
import inspect
import json
import runpy
import sys
from functools import cache
from typing import Any

import hostsvc_client
from hostsvc_client import AsyncHostsvc, Hostsvc, inputs
from hostsvc_client._operations import OPERATIONS

from tests.paths import ROOT
from tests.web.conftest import api_document

GENERATOR = ROOT / "clients/python/hostsvc-client/scripts/generate.py"
# The client sends these itself; `since` stands for the position in a stream.
OWN = {"X-Request-ID", "Prefer"}
STREAM = {"after", "limit", "wait", "ticket", "Last-Event-ID"}
HEADERS = {"X-Organization": "organization", "Idempotency-Key": "idempotency_key"}


@cache
def methods_by_operation() -> dict[str, list[Any]]:
    """Return the methods that call each operation, found in their code."""
    found: dict[str, list[Any]] = {name: [] for name in OPERATIONS}
    module = sys.modules[Hostsvc.__module__]
    for resource in vars(module).values():
        if not inspect.isclass(resource) or resource.__module__ != module.__name__:
            continue
        for name, method in vars(resource).items():
            if inspect.isfunction(method):
                for constant in set(method.__code__.co_consts) & OPERATIONS.keys():
                    found[constant].append((resource, name, method))
    return found


def parameters(operation: Any) -> set[str]:
    """Return what a method takes, with the fields of its body."""
    [(_, _, method)] = methods_by_operation()[operation]
    names = set()
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and parameter.annotation != "Any":
            body = getattr(inputs, parameter.annotation.removeprefix("Unpack[inputs.").removesuffix("]"))
            names |= {name.removesuffix("_") for name in body.__required_keys__ | body.__optional_keys__}
        else:
            names.add(parameter.name.removesuffix("_"))
    return names


def described() -> dict[str, Any]:
    document = json.loads(json.dumps(api_document()))
    return {
        operation["operationId"]: (document, operation)
        for item in document["paths"].values()
        for operation in item.values()
    }


def test_generated_modules_are_up_to_date() -> None:
    generate = runpy.run_path(str(GENERATOR))
    assert generate["stale"](generate["generated"]()) == []


def test_each_operation_has_exactly_one_method() -> None:
    assert OPERATIONS.keys() == described().keys(), "run `make client`"
    assert {name for name, methods in methods_by_operation().items() if len(methods) != 1} == set()


def wanted(document: Any, operation: Any, is_stream: bool) -> set[str]:
    """Return the parameters and fields that the document describes, without those that the client sends."""
    components, names = document["components"], set()
    for parameter in operation["parameters"]:
        shown = components["parameters"].get(parameter.get("$ref", "").split("/")[-1], parameter)
        if shown["name"] not in OWN | (STREAM if is_stream else set()):
            names.add(HEADERS.get(shown["name"], shown["name"]))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        for schema in (content["schema"], *content["schema"].get("allOf", ())):
            body = components["schemas"].get(schema.get("$ref", "").split("/")[-1], schema)
            names |= body.get("properties", {}).keys()
    return names


def test_each_parameter_is_in_the_signature() -> None:
    missing = {}
    for name, (document, operation) in described().items():
        [(resource, _, _)] = methods_by_operation()[name]
        bound = {"id"} if resource.__name__ == "AgentHandle" else set()
        is_stream = "text/event-stream" in json.dumps(operation["responses"])
        missing[name] = wanted(document, operation, is_stream) - bound - parameters(name)
    del missing["create_spans"]  # its body is one span or a list of them, and so one parameter
    assert {name: left for name, left in missing.items() if left} == {}, "run `make client`"


def surface(client: type) -> dict[str, list[str]]:
    """Return the public methods of each resource, with their parameters."""
    module = sys.modules[client.__module__]
    return {
        name.removeprefix("Async"): sorted(
            f"{method} {inspect.signature(function).parameters}".replace("Async", "").replace(
                "aclose", "close"
            )
            for method, function in inspect.getmembers(resource, inspect.isfunction)
            if not method.startswith("_")
        )
        for name, resource in vars(module).items()
        if inspect.isclass(resource) and resource.__module__ == module.__name__
    }


def test_both_clients_have_the_same_surface() -> None:
    assert surface(AsyncHostsvc) == surface(Hostsvc)


def test_public_signatures_name_no_type_of_the_library() -> None:
    for path in (ROOT / "clients/python/hostsvc-client/src/hostsvc_client").glob("*.py"):
        if path.name not in ("_async_http.py", "_sync_http.py"):
            imported = [
                alias.name
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names
            ]
            assert "httpx2" not in imported, path.name
    assert set(hostsvc_client.__all__) <= set(dir(hostsvc_client)) | {"AsyncHostsvc"}
