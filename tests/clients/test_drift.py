"""The generated modules fit the API document, and each operation has one method with all its parameters."""

import ast
import inspect
import json
import subprocess
import sys
from functools import cache
from typing import Any

import hostsvc_client
from hostsvc_client import AsyncHostsvc, Hostsvc, inputs
from hostsvc_client._operations import OPERATIONS

from tests.paths import ROOT
from tests.web.conftest import api_document

GENERATOR = ROOT / "clients/python/hostsvc-client/scripts/generate.py"
WRITTEN = {"why", "notify", "wait", "unwrap"}  # beside the operations
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
    checked = subprocess.run(
        [sys.executable, GENERATOR, "--check"], cwd=ROOT, capture_output=True, text=True, env={"PYTHONPATH": "."}
    )
    assert checked.returncode == 0, checked.stderr


def test_each_operation_has_exactly_one_method() -> None:
    assert OPERATIONS.keys() == described().keys(), "run `make client`"
    assert {name for name, methods in methods_by_operation().items() if len(methods) != 1} == set()


def test_each_parameter_is_in_the_signature() -> None:
    missing = {}
    for name, (document, operation) in described().items():
        is_stream = "text/event-stream" in json.dumps(operation["responses"])
        wanted = set()
        for parameter in operation["parameters"]:
            shown = document["components"]["parameters"].get(parameter.get("$ref", "").split("/")[-1], parameter)
            if shown["name"] not in OWN | (STREAM if is_stream else set()):
                wanted.add(HEADERS.get(shown["name"], shown["name"]))
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        wanted |= document["components"]["schemas"].get(body.get("$ref", "").split("/")[-1], {}).get("properties", {}).keys()
        [(resource, _, _)] = methods_by_operation()[name]
        wanted -= {"id"} if resource.__name__ == "AgentHandle" else set()
        if left := wanted - parameters(name):
            missing[name] = left
    assert missing == {}, "run `make client`"


def test_both_clients_have_the_same_surface() -> None:
    def surface(client: type) -> dict[str, list[str]]:
        module = sys.modules[client.__module__]
        return {
            name.removeprefix("Async"): sorted(
                f"{method.removeprefix('a') if method == 'aclose' else method}{inspect.signature(function).parameters}"
                for method, function in inspect.getmembers(resource, inspect.isfunction)
                if not method.startswith("_")
            )
            for name, resource in vars(module).items()
            if inspect.isclass(resource) and resource.__module__ == module.__name__
        }

    synchronous, asynchronous = surface(Hostsvc), surface(AsyncHostsvc)
    assert json.loads(json.dumps(asynchronous).replace("Async", "")) == synchronous


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
