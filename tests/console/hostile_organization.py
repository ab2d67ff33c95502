"""An organization whose every text is hostile: each field that a tenant can write has all of the strings."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from marshmallow import Schema
from marshmallow.validate import Length

from tests.acceptance.client import Client
from tests.console.hostile_strings import STRINGS, in_lines
from tests.console.visits import Person
from web.app import ROUTES
from web.fields import JsonObject, JsonValue, Line, ListOf, ObjectOf, Text, WordOrObject

BODIES = {(route.method, route.path): route.body for route in ROUTES if route.body is not None}
# Texts that must be something certain, or that no answer contains.
FIXED = frozenset(
    {
        "content_type",
        "default_model",
        "from",
        "model",
        "other_addresses",
        "phone",
        "response_format",
        "secret_headers",
        "tool_call_secret",
    }
)
LINES = in_lines()
LONG_CHARACTERS = 1_000_000
SINGLE = frozenset({"config"})  # a template has one for each adapter
ELEMENT = {"type": "script", "props": {"children": "window.alive=1"}, "__v": 1, "constructor": None}
Organization = tuple[Person, dict[str, str]]
AGENTS = "/api/cloud/agents/"
NOTIFICATIONS = "/api/defaults/notifications/"
AT_ONCE = 4


async def fill(person: Person, lines: int | None = None) -> dict[str, str]:
    """Store all strings, or `lines` lines of them, in the person's organization.

    Return the ids that its addresses need.
    """
    client = person.client
    ids: dict[str, str] = {}
    organization = f"/api/organizations/organizations/{person.organization['id']}/"
    await client.patch(organization, name=LINES[0])
    for kind, path, fixed in kinds(ids):
        chosen = LINES[-1:] if kind in SINGLE else LINES[-lines:] if lines else LINES
        ids[kind] = await store(client, path, fixed, chosen)
    ids["approval"] = await ask(client, ids)
    await client.post(f"{AGENTS}{ids['agent']}/run/", wakeup=True)
    run = await client.ended_run(ids["agent"])
    return {**ids, "run": run["id"]}


async def ask(client: Client, ids: dict[str, str]) -> str:
    """Have the agent call a tool that needs an approval, and return the id of what waits."""
    tools = await client.get(f"{AGENTS}{ids['agent']}/tools/")
    [name, *_] = [tool["name"] for tool in tools if tool["adapter"] == ids["adapter"]]
    call = await client.post(f"{AGENTS}{ids['agent']}/tools/{name}/", **{LINES[0]: STRINGS})
    return str(call["result"]["call"])


def kinds(ids: dict[str, str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield what to create: a kind, its path, and fields that are not free; `ids` has those before."""
    yield "template", "/api/templates/", {"default_model": "builtin/inbox"}
    yield "adapter", "/api/toolbox/adapters/", {"config_schema": {"type": "object", "title": STRINGS[0]}}
    yield "tool", "/api/toolbox/tools/", {"adapter": ids["adapter"]}
    yield "config", "/api/toolbox/adapter-configs/", {"template": ids["template"], "adapter": ids["adapter"]}
    adapters = [ids["adapter"]]
    yield "agent", AGENTS, {"model": "builtin/inbox", "template": ids["template"], "adapters": adapters}
    agent = {"agent": ids["agent"]}
    yield "notification", NOTIFICATIONS, {**agent, "priority": "low", "source": "sms"}
    yield "contact", "/api/defaults/contacts/", agent
    talk = {**agent, "contact": ids["contact"], "channel": "email", "direction": "outbound"}
    yield "message", "/api/defaults/messages/", talk
    yield "document", "/api/defaults/documents/", agent
    yield "project", "/api/defaults/projects/", agent
    yield "trace", "/api/tracing/traces/", agent
    yield "span", "/api/tracing/spans/", {"trace": ids["trace"]}
    yield "api_key", "/api/organizations/api-keys/", {}
    hook = {"url": "https://example.org/'\"><script>", "types": ["run.*"], "is_active": False}
    yield "webhook", "/api/organizations/webhooks/", hook
    hook = {"verify": "hmac", "title": f"{{{{ {STRINGS[0]} }}}}", "header": "X-Signature"}
    yield "hook", "/api/organizations/hooks/", {**agent, **hook}


async def store(client: Client, path: str, fixed: dict[str, Any], lines: list[str]) -> str:
    """Create a resource for each line, and return the id of the last, whose long texts have all strings."""
    schema = BODIES["POST", path]
    turn = asyncio.Semaphore(AT_ONCE)

    async def create(line: str) -> str:
        async with turn:
            return str((await client.post(path, **{**hostile_body(schema, line), **fixed}))["id"])

    *_, last = await asyncio.gather(*map(create, lines))
    return last


def hostile_body(schema: Schema, line: str) -> dict[str, Any]:
    """Return a body with hostile text in each field that takes free text."""
    body: dict[str, Any] = {}
    for name, field in schema.fields.items():
        key = field.data_key or name
        value = None if key in FIXED else hostile_value(field, line)
        if value is not None:
            body[key] = value
    return body


def hostile_value(field: Any, line: str) -> Any:
    """Return hostile text for a field; None if it takes only certain values."""
    match field:
        case ListOf():
            item = hostile_value(field.inner, line)
            return None if item is None else [item]
        case ObjectOf():
            return {**hostile_body(field.schema, line), "url": f"https://example.org/{uuid4().hex}"}
        case WordOrObject():
            return {field.key: {"title": line}}
        case JsonObject():
            return {"type": "object", "title": line}
        case JsonValue():
            return {line: line, "all": list(STRINGS), "element": ELEMENT, "long": long_line(line)}
        case _ if type(field) in {Line, Text}:
            limits = [check.max for check in field.validators if isinstance(check, Length) and check.max]
            is_long = type(field) is Text and not limits
            return "\n".join((*STRINGS, long_line(line))) if is_long else line[: min([len(line), *limits])]
        case _:
            return None


def long_line(line: str) -> str:
    """Return a line of a million characters once for each kind of resource, else an empty one."""
    return "A" * LONG_CHARACTERS if line == LINES[-1] else ""
