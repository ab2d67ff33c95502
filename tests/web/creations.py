"""Requests that create something, for tests of Idempotency-Key: a valid body for each path, and a count."""

from typing import Any

from tests.web.conftest import Answer, Api, Service
from tests.web.people import as_user, new_user

TEMPLATES = "/api/templates/"
AGENTS = "/api/cloud/agents/"
RUN = f"{AGENTS}{{id}}/run/"
USAGE = f"{AGENTS}{{id}}/usage/"
NOTIFICATIONS = "/api/defaults/notifications/"
MESSAGES = "/api/defaults/messages/"
TRACES = "/api/tracing/traces/"
SPANS = "/api/tracing/spans/"
CONTACTS = "/api/defaults/contacts/"
DOCUMENTS = "/api/defaults/documents/"
PROJECTS = "/api/defaults/projects/"
ADAPTERS = "/api/toolbox/adapters/"
TOOLS = "/api/toolbox/tools/"
CONFIGS = "/api/toolbox/adapter-configs/"
SECRETS_OF_ALL = "/api/organizations/secrets/"
SECRETS_OF_TEMPLATE = "/api/templates/{id}/secrets/"
INVITES = "/api/organizations/invites/"
API_KEYS = "/api/organizations/api-keys/"
WEBHOOKS = "/api/organizations/webhooks/"
TICKETS = "/api/events/tickets/"
ORGANIZATIONS = "/api/organizations/organizations/"
JSON = "application/json"
KEY = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"

BODIES: dict[str, dict[str, Any]] = {
    AGENTS: {"name": "Bob", "model": "builtin/inbox"},
    RUN: {},
    USAGE: {"model": "builtin/inbox", "input_tokens": "12", "output_tokens": "3"},
    NOTIFICATIONS: {"agent": "{id}", "title": "Hello"},
    MESSAGES: {"agent": "{id}", "channel": "sms", "direction": "inbound"},
    TEMPLATES: {"name": "Clerk"},
    TRACES: {"agent": "{id}", "name": "outside"},
    SPANS: {"trace": "{trace}", "name": "chat"},
    CONTACTS: {"name": "Ada", "agent": "{id}"},
    DOCUMENTS: {"title": "Notes"},
    PROJECTS: {"name": "Move"},
    ADAPTERS: {"name": "Weather"},
    TOOLS: {"adapter": "{adapter}", "name": "look_up"},
    CONFIGS: {"adapter": "{adapter}", "template": "{template}", "config": {"token": "s3cr3t"}},
    SECRETS_OF_ALL: {"name": "MODEL_KEY", "value": "s3cr3t"},
    SECRETS_OF_TEMPLATE: {"name": "MODEL_KEY", "value": "s3cr3t"},
    INVITES: {"email": "ann@example.org"},
    API_KEYS: {"name": "server"},
    WEBHOOKS: {"url": "https://hooks.example/", "types": ["*"]},
    ORGANIZATIONS: {"name": "Acme"},
    TICKETS: {},
}
SECRETS = {
    CONFIGS: "config",
    INVITES: "code",
    API_KEYS: "key",
    WEBHOOKS: "secret",
    TICKETS: "ticket",
}  # null in a repeated answer
COUNT = {
    AGENTS: "SELECT count(*) FROM agent",
    RUN: "SELECT count(*) FROM run",
    USAGE: "SELECT count(*) FROM usage_record",
    NOTIFICATIONS: "SELECT count(*) FROM notification",
    MESSAGES: "SELECT count(*) FROM message",
    TEMPLATES: "SELECT count(*) FROM template",
    TRACES: "SELECT count(*) FROM trace",
    SPANS: "SELECT count(*) FROM span",
    CONTACTS: "SELECT count(*) FROM contact",
    DOCUMENTS: "SELECT count(*) FROM document",
    PROJECTS: "SELECT count(*) FROM project",
    ADAPTERS: "SELECT count(*) FROM adapter",
    TOOLS: "SELECT count(*) FROM tool",
    CONFIGS: "SELECT count(*) FROM adapter_config",
    SECRETS_OF_ALL: "SELECT count(*) FROM secret",
    SECRETS_OF_TEMPLATE: "SELECT count(*) FROM secret",
    INVITES: "SELECT count(*) FROM invite",
    API_KEYS: "SELECT count(*) FROM api_key",
    WEBHOOKS: "SELECT count(*) FROM webhook",
    ORGANIZATIONS: "SELECT count(*) FROM organization",
    TICKETS: "SELECT count(*) FROM receipt",
}


async def send(api: Api, path: str, body: Any = None, key: str = "first try", **options: Any) -> Answer:
    options.setdefault("json", body)
    return await api.request("POST", path, headers={KEY: key, **options.pop("headers", {})}, **options)


def is_replay(answer: Answer) -> bool:
    return bool(answer.headers.get(REPLAYED) == "true")


async def caller_of(service: Service, api: Api, path: str) -> Api:
    """Return a client that may send requests to the path: a user, if an API key may not."""
    if path != ORGANIZATIONS:
        return api
    user, _ = await new_user(service, "grace@example.org", "Parcels")
    return as_user(service, user)


async def request_to(api: Api, path: str) -> tuple[str, Any]:
    """Return the path and the body of a request, about an agent and other resources of its own."""
    agent = await api.create_agent()
    ids = {
        "id": agent["id"],
        "template": (await api.create(TEMPLATES, name="Clerk"))["id"],
        "adapter": (await api.create(ADAPTERS, name="Weather"))["id"],
        "trace": (await api.create(TRACES, agent=agent["id"], name="outside"))["id"],
    }
    body = {
        name: value.format(**ids) if isinstance(value, str) else value for name, value in BODIES[path].items()
    }
    return path.format(**ids | ({"id": ids["template"]} if path.startswith(TEMPLATES) else {})), body


def repeated(first: Answer, path: str) -> Any:
    """Return the body that the answer to a repeated request has."""
    return {**first.body, **({SECRETS[path]: None} if path in SECRETS else {})}
