"""Write the generated modules of the client from the API document and `names.toml`.

`models.py`: enums and frozen dataclasses. `inputs.py`: typed dicts. `_operations.py`: operation to path.
`_async_api.py`: resources and their methods. `_sync….py`: the asynchronous modules, replaced word by word.
"""

import json
import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomllib
from web.app import ROUTES
from web.openapi.document import build_document

Json = dict[str, Any]

SCRIPTS = Path(__file__).parent
PACKAGE = SCRIPTS.parent / "src" / "hostsvc_client"
HEADER = '"""{}\n\nWritten by `make client` from the API document; do not edit.\n"""\n\n'
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
IN_FILES = ("TemplateBody", "AgentBody", "NewScheduleBody", "HookBody", "AdapterBody", "ToolBody")
MAX_LITERALS = 20
MAX_UNION = 8  # a value with more shapes than that is shown as a plain dict
LOST_SECRET = re.compile(r"null in (a|the answer to a) repeated|repeated request with the same")
OPERATION = '''class Operation(NamedTuple):
    """Where an operation of the API is, and how it may be called."""

    method: str
    path: str
    is_repeatable: bool = False
    takes_key: bool = False
    is_paged: bool = False
    secrets: tuple[str, ...] = ()

'''
REPEATABLE = {
    *("preview_agent", "rewind_agent", "preview_schedule", "decide_approval"),
    *("tag_agent", "untag_agent", "act_on_agents"),
}
STREAM_PARAMETERS = {"after", "limit", "wait", "ticket"}  # `since` stands for them
BASES = {"agent": "AsyncAgentExtras", "runs": "AsyncRunsExtras", "webhooks": "WebhooksExtras, AsyncResource"}
# In this order; the longer word first.
REPLACED = {
    "async def": "def",
    "async for": "for",
    "async with": "with",
    "await ": "",
    "asyncio.sleep": "time.sleep",
    "import asyncio\n": "",
    "AsyncIterator": "Iterator",
    r"AsyncGenerator\[(.*), None\]": r"Generator[\1, None, None]",
    "AsyncGenerator": "Generator",
    "__a(enter|exit|iter)__": r"__\1__",
    "aclose": "close",
    "aread": "read",
    "_async": "_sync",
    r"\bAsync(?=[A-Z])": "",
}


def main() -> None:
    for path, text in generated().items():
        path.write_text(text)


def stale(texts: Mapping[Path, str]) -> list[str]:
    """Return a sentence for each module that is not what the document and the written modules lead to."""
    return [
        f"{path.name} is out of date: run `make client`, and look at what has changed"
        for path, text in texts.items()
        if not path.exists() or path.read_text() != text
    ]


def generated() -> dict[Path, str]:
    """Return the text of each generated module."""
    api = Api(json.loads(json.dumps(build_document(ROUTES))))
    resources = formatted(api.resources())
    return {
        PACKAGE / "models.py": formatted(api.models()),
        PACKAGE / "inputs.py": formatted(api.inputs()),
        PACKAGE / "_operations.py": formatted(api.table()),
        PACKAGE / "_async_api.py": resources,
        PACKAGE / "_sync_api.py": formatted(synchronous(resources)),
        **{
            PACKAGE / f"_sync{part}.py": formatted(synchronous((PACKAGE / f"_async{part}.py").read_text()))
            for part in ("", "_http")
        },
    }


def synchronous(text: str) -> str:
    """Return a module without `async`."""
    for pattern, replacement in REPLACED.items():
        text = re.sub(pattern, replacement, text)
    return text


def formatted(text: str) -> str:
    settings = SCRIPTS.parent / "pyproject.toml"
    command = [sys.executable, "-m", "ruff", "format", "--config", settings, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def documented(text: str, indent: str) -> str:
    """Return the docstring for this description."""
    text = text.replace("\\", "\\\\").replace('"""', "'''").strip()
    if "\n" not in text and len(text) < 100:
        return f'{indent}"""{text}"""\n' if not text.endswith('"') else f'{indent}"""{text} """\n'
    lines = [textwrap.fill(line, 104) if line else "" for line in text.split("\n")]
    return textwrap.indent('"""' + "\n".join(lines) + '\n"""\n', indent)


def python_name(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")


def constant(value: str) -> str:
    """Return the name of a member of an enum."""
    name = re.sub(r"\W", "_", value).upper()
    return f"DESCENDING{name}" if value.startswith("-") else name or "NONE"


class Api:
    """The API document, and what it is called in the client."""

    def __init__(self, document: Json) -> None:
        self.schemas: Json = document["components"]["schemas"]
        self.enums = [name for name, schema in self.schemas.items() if "enum" in schema]
        self.tags = {tag["name"].replace("-", "_"): tag["description"] for tag in document["tags"]}
        self.names: dict[str, dict[str, str]] = tomllib.loads((SCRIPTS / "names.toml").read_text())
        self.operations: Json = {
            operation["operationId"]: {**operation, "path": path, "method": method.upper()}
            for path, item in document["paths"].items()
            for method, operation in item.items()
        }
        named = [name for methods in self.names.values() for name in methods.values()]
        unnamed, unknown = self.operations.keys() - set(named), set(named) - self.operations.keys()
        twice = {name for name in named if named.count(name) > 1}
        if unnamed or unknown or twice:
            sys.exit(
                f"{SCRIPTS / 'names.toml'}: add a line for {sorted(unnamed)}; "
                f"remove those for {sorted(unknown)}; name once {sorted(twice)}. Then run `make client`."
            )

    def annotation(self, schema: Json, is_input: bool) -> str:
        """Return the Python type of a value."""
        if "$ref" in schema:
            name = schema["$ref"].split("/")[-1]
            return f"{name}Value" if is_input and name in self.enums else str(name)
        if "anyOf" in schema:
            return self._union(schema["anyOf"], is_input)
        if isinstance(schema.get("type"), list):
            return self._union([{**schema, "type": one} for one in schema["type"]], is_input)
        if "enum" in schema:
            return self._inline(schema["enum"], is_input)
        return self._plain(schema, is_input)

    def _inline(self, values: list[str], is_input: bool) -> str:
        """Return the enum with these values, if there is one."""
        for name, schema in self.schemas.items():
            if schema.get("enum") == values:
                return f"{name}Value" if is_input else name
        if not is_input or len(values) > MAX_LITERALS:
            return "str"
        return f"Literal[{', '.join(map(repr, values))}]"

    def _union(self, schemas: list[Json], is_input: bool) -> str:
        parts = list(dict.fromkeys(self.annotation(one, is_input) for one in schemas))
        if len(parts) > MAX_UNION:
            return "dict[str, Any]"
        if "Any" in parts:
            return "Any"
        return " | ".join(sorted(parts, key=lambda part: part == "None"))

    def _plain(self, schema: Json, is_input: bool) -> str:
        match schema.get("type"), schema.get("format"):
            case "string", "date-time":
                return "dt.datetime | str" if is_input else "dt.datetime"
            case "string", "date":
                return "dt.date | str" if is_input else "dt.date"
            case "string", "binary":
                return "bytes"
            case "array", _:
                return f"{'Sequence' if is_input else 'list'}[{self.annotation(schema['items'], is_input)}]"
            case "object", _:
                values = schema.get("additionalProperties") or {}
                value = self.annotation(values, is_input) if isinstance(values, dict) else "Any"
                return f"{'Mapping' if is_input else 'dict'}[str, {value}]"
            case kind, _:
                return PLAIN.get(str(kind), "Any")

    def _classes(self, annotations: Iterable[str], is_input: bool) -> list[str]:
        """Return the objects that these types need, in the order of the document."""
        found: set[str] = set()
        waiting = list(annotations)
        while waiting:
            for name in set(re.findall(r"\w+", waiting.pop())) & self.schemas.keys() - found - {*self.enums}:
                found.add(name)
                fields = self.schemas[name].get("properties", {}).values()
                waiting += [self.annotation(field, is_input) for field in fields]
        return [name for name in self.schemas if name in found]

    def answers(self) -> dict[str, str]:
        """Return the type of the answer of each operation."""
        return {name: self._answer(name) for name in self.operations}

    def _success(self, name: str) -> Json:
        responses: dict[str, Json] = self.operations[name]["responses"]
        return next(value for status, value in responses.items() if status.startswith("2"))

    def _answer(self, name: str) -> str:
        content = self._success(name).get("content", {})
        if "application/json" in content:
            return self.annotation(content["application/json"]["schema"], is_input=False)
        if not content:
            return "None"
        return "bytes" if "application/octet-stream" in content else "str"

    def models(self) -> str:
        """Return the module of the enums and the answers."""
        classes = self._classes(self.answers().values(), is_input=False)
        answers = "".join(f"    {name!r}: {answer},\n" for name, answer in self.answers().items())
        return (
            HEADER.format("What the API answers: enums, and dataclasses that keep fields they do not know.")
            + "from __future__ import annotations\n\nimport datetime as dt\n"
            + "from dataclasses import dataclass\nfrom typing import Any, Mapping\n\n"
            + "from hostsvc_client._decode import Answer, Enumeration\n\n"
            + "".join(map(self._enum, self.enums))
            + "".join(map(self._dataclass, classes))
            + f"ANSWERS: Mapping[str, Any] = {{\n{answers}}}\n"
        )

    def _enum(self, name: str) -> str:
        schema = self.schemas[name]
        members = "".join(f"    {constant(value)} = {value!r}\n" for value in schema["enum"])
        return f"class {name}(Enumeration):\n{documented(schema['description'], '    ')}\n{members}\n\n"

    def _dataclass(self, name: str) -> str:
        schema, fields = self.schemas[name], ""
        for field, value in schema.get("properties", {}).items():
            kind = self.annotation(value, is_input=False)
            if field not in schema.get("required", []):
                kind = (kind if kind == "Any" or kind.endswith("None") else f"{kind} | None") + " = None"
            fields += f"    {python_name(field)}: {kind}\n{documented(value.get('description', ''), '    ')}"
        head = documented(schema.get("description", name), "    ")
        return f"@dataclass(frozen=True, kw_only=True)\nclass {name}(Answer):\n{head}\n{fields}\n\n"

    def inputs(self) -> str:
        """Return the module of what is sent."""
        bodies = [body for one in self.operations.values() if (body := self._body(one))]
        classes = self._classes([self.annotation(body, True) for body in bodies], is_input=True)
        values = {name: ", ".join(map(repr, self.schemas[name]["enum"])) for name in self.enums}
        aliases = "".join(
            f'{name}Value: TypeAlias = "{name} | Literal[{texts}]"\n' for name, texts in values.items()
        )
        return (
            HEADER.format("What the API takes: typed dicts. An enum may be written as its text.")
            + "from __future__ import annotations\n\nimport datetime as dt\n"
            + "from typing import TYPE_CHECKING, Any, Literal, Mapping, Sequence, TypedDict\n\n"
            + "if TYPE_CHECKING:\n    from typing_extensions import Required, TypeAlias\n\n"
            + f"    from hostsvc_client.models import {', '.join(sorted(self.enums))}\n\n{aliases}\n"
            + "".join(map(self._typed_dict, classes))
        )

    def _typed_dict(self, name: str) -> str:
        schema, fields = self.schemas[name], ""
        for field, value in schema.get("properties", {}).items():
            kind = self.annotation(value, is_input=True)
            kind = f"Required[{kind}]" if field in schema.get("required", []) else kind
            fields += f"    {python_name(field)}: {kind}\n{documented(value.get('description', ''), '    ')}"
        head = documented(schema.get("description", name), "    ")
        return f"class {name}(TypedDict, total=False):\n{head}\n{fields}\n\n"

    def _body(self, operation: Json) -> Json | None:
        content = operation.get("requestBody", {}).get("content", {})
        return content["application/json"]["schema"] if content else None

    def table(self) -> str:
        """Return the module that says where each operation is."""
        rows = "".join(f"    {name!r}: {self._operation(name)},\n" for name in self.operations)
        fields = {name: self.schemas[name]["properties"].items() for name in IN_FILES}
        defaults = {
            name: {field: value["default"] for field, value in shown if "default" in value}
            for name, shown in fields.items()
        }
        return (
            HEADER.format("Where each operation of the API is, and how it may be called.")
            + f"from typing import Any, Mapping, NamedTuple\n\n\n{OPERATION}\n"
            + f"OPERATIONS: Mapping[str, Operation] = {{\n{rows}}}\n"
            + f"DEFAULTS: Mapping[str, Mapping[str, Any]] = {defaults!r}\n"
        )

    def _operation(self, name: str) -> str:
        operation = self.operations[name]
        takes_key = self._has(operation, "IdempotencyKey")
        fields = self.schemas.get(self.answers()[name], {}).get("properties", {})
        secrets = tuple(key for key, value in fields.items() if LOST_SECRET.search(value["description"]))
        flags = {
            "is_repeatable": takes_key or operation["method"] != "POST" or name in REPEATABLE,
            "takes_key": takes_key,
            "is_paged": self._is_paged(name),
            "secrets": secrets if takes_key else (),
        }
        given = "".join(f", {flag}={value!r}" for flag, value in flags.items() if value)
        return f"Operation({operation['method']!r}, {operation['path']!r}{given})"

    def _has(self, operation: Json, parameter: str) -> bool:
        return any(one.get("$ref", "").endswith(f"/{parameter}") for one in operation["parameters"])

    def _is_paged(self, name: str) -> bool:
        return "Link" in self._success(name).get("headers", {})

    def _query(self, name: str) -> list[Json]:
        return [one for one in self.operations[name]["parameters"] if one.get("in") == "query"]

    def resources(self) -> str:
        """Return the module of the resources and the client."""
        classes = "".join(self._resource(*item) for item in self.names.items() if item[0] != "client")
        plain = [name for name in self.names if name not in ("client", "agent")]
        made = "".join(f"        self.{name} = {self._class(name)}(self)\n" for name in plain)
        return (
            HEADER.format("The resources of the API, and the client that has them.")
            + "from __future__ import annotations\n\nimport builtins\nimport datetime as dt\n"
            + "from typing import TYPE_CHECKING, Any, AsyncGenerator, Literal, Sequence\n\n"
            + "from hostsvc_client._async import AsyncAgentExtras, AsyncClient, AsyncPages, AsyncResource, "
            + "AsyncRunsExtras\nfrom hostsvc_client._base import Upload\n"
            + "from hostsvc_client._webhooks import WebhooksExtras\n\n"
            + "if TYPE_CHECKING:\n    from typing_extensions import Unpack\n\n"
            + "    from hostsvc_client import inputs, models\n\n"
            + classes
            + 'class AsyncHostsvc(AsyncClient):\n    """A client of a hostsvc service."""\n\n'
            + f"    def _make_resources(self) -> None:\n{made}\n"
            + "    def agent(self, agent: str | models.Agent) -> AsyncAgentHandle:\n"
            + '        """Return what can be asked of one agent, without a request."""\n'
            + "        return AsyncAgentHandle(self, agent if isinstance(agent, str) else agent.id)\n\n"
            + "".join(self._method("client", *item) for item in self.names["client"].items())
        )

    def _class(self, resource: str) -> str:
        words = "".join(word.capitalize() for word in resource.split("_"))
        return "AsyncAgentHandle" if resource == "agent" else f"Async{words}"

    def _resource(self, resource: str, methods: Mapping[str, str]) -> str:
        text = self.tags.get(resource) or f"What can be asked of {resource.replace('agent', 'one agent')}."
        head = f"class {self._class(resource)}({BASES.get(resource, 'AsyncResource')}):"
        body = "".join(self._method(resource, *item) for item in methods.items())
        return f"{head}\n{documented(text, '    ')}\n{body}\n"

    def _method(self, resource: str, method: str, name: str) -> str:
        """Return the method for an operation."""
        operation = self.operations[name]
        ids = [python_name(one["name"]) for one in operation["parameters"] if one.get("in") == "path"]
        path = ["self.id", *ids[1:]] if resource == "agent" else list(ids)
        ids = ids[1:] if resource == "agent" else ids
        is_stream = "text/event-stream" in self._success(name).get("content", {})
        keywords, sent = self._keywords(name, is_stream)
        positional, rest, body = self._sent_body(operation)
        signature = ["self", *(f"{one}: {'int' if one == 'number' else 'str'}" for one in ids), *positional]
        signature += ["/"] if ids or positional else []
        signature += (["*", *keywords] if keywords else []) + rest
        client = "self" if resource == "client" else "self._client"
        arguments = ", ".join([repr(name), f"({', '.join(path)}{',' if path else ''})", *sent, *body])
        shown = re.sub(r"\b(?!Any|None)([A-Z]\w+)", r"models.\1", self.answers()[name])
        shown = shown.replace("list[", "builtins.list[")
        doc = documented(operation["description"], "        ")
        head = f"def {method}({', '.join(signature)}) ->"
        if is_stream:
            head = f"{head} AsyncGenerator[models.Event, None]"
            return f"    {head}:\n{doc}        return {client}._events({arguments})\n\n"
        if self._is_paged(name):
            item = shown.removeprefix("builtins.list[").removesuffix("]")
            return f"    {head} AsyncPages[{item}]:\n{doc}        return {client}._pages({arguments})\n\n"
        call = f"await {client}._call({arguments})"
        return f"    async {head} {shown}:\n{doc}        return {call}\n\n"

    def _keywords(self, name: str, is_stream: bool) -> tuple[list[str], list[str]]:
        """Return the keyword parameters of a method, and the arguments that pass them on."""
        operation, keywords, query = self.operations[name], [], []
        for parameter in self._query(name):
            if is_stream and parameter["name"] in STREAM_PARAMETERS:
                continue
            kind = re.sub(r"([A-Z]\w+Value)", r"inputs.\1", self.annotation(parameter["schema"], True))
            optional = kind if kind.endswith("None") else f"{kind} | None"
            keywords.append(f"{python_name(parameter['name'])}: {optional} = None")
            query.append(f"{parameter['name']!r}: {python_name(parameter['name'])}")
        sent = [f"query={{{', '.join(query)}}}"] if query else []
        if is_stream:
            return ["since: int | None = None", *keywords], ["since=since", *sent]
        for header, parameter in (("Organization", "organization"), ("IdempotencyKey", "idempotency_key")):
            if self._has(operation, header):
                keywords.append(f"{parameter}: str | None = None")
                sent.append(f"{parameter}={parameter}")
        if '"binary"' in json.dumps(operation.get("requestBody", {})):
            keywords.append("files: Sequence[Upload] = ()")
            sent.append("files=files")
        return keywords, sent

    def _sent_body(self, operation: Json) -> tuple[list[str], list[str], list[str]]:
        """Return the positional parameters and the last ones that stand for the body, and the argument."""
        schema = self._body(operation)
        if schema is None:
            return [], [], []
        if "$ref" not in schema:
            kind = re.sub(r"\b([A-Z]\w+Body)", r"inputs.\1", self.annotation(schema, is_input=True))
            return [f"body: {kind}"], [], ["body=body"]
        name = schema["$ref"].split("/")[-1]
        if not self.schemas[name]["properties"]:
            return [], ["**body: Any"], ["body=body"]
        return [], [f"**body: Unpack[inputs.{name}]"], ["body=body"]


if __name__ == "__main__":
    main()
