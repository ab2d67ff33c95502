"""The table of requests: what a valid request to each route needs beyond the route's own description.

The suites that test every route build their requests from these rows, and fail for a route without a row.
"""

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from web.routes import Route

PASSWORD = "correct horse battery"

MARK = "MARK"  # in a text: replaced by the mark of the tenant, so that a leak can be found
UNIQUE = "UNIQUE"  # in a text: replaced by another text each time


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to a resource created for a request; the same one wherever the request refers to it."""

    kind: str
    attribute: str = "id"  # of the answer to the creation
    which: str = ""  # distinguishes resources of one kind


@dataclass(frozen=True, slots=True)
class Row:
    """What a valid request to one route contains.

    `path` fills in the placeholders. `by` is the account whose token must call, if not every caller may.
    `mixed_status` is the status that refuses ids of two organizations in one request, `unknown_status` that
    of a body with an id that does not exist.
    """

    path: Mapping[str, Ref | str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    by: Ref | None = None
    for_admins: bool = False
    mixed_status: int = 403
    unknown_status: int = 400


Test = Callable[..., Awaitable[None]]


def for_each_route(routes: Iterable[Route]) -> Callable[[Test], Test]:
    """Return a decorator that runs a test for each of the routes, and names all that failed.

    For pytest it is one test: thousands would cost more than the requests that they send. To test only a few
    routes, set HOSTSVC_TEST_ROUTE to a part of their methods and paths.
    """
    part = os.environ.get("HOSTSVC_TEST_ROUTE", "")
    assert any(part in key for key in ROWS), (
        f"no key of ROWS in tests/contract/requests_by_route.py contains HOSTSVC_TEST_ROUTE={part}: "
        "correct it, or add a row for the new route"
    )
    chosen = [route for route in routes if part in key_of(route)]

    def decorated(test: Test) -> Test:
        @wraps(test)
        async def for_all(**fixtures: Any) -> None:
            failures = []
            for route in chosen:
                try:
                    await test(route=route, **fixtures)
                except Exception as failure:
                    failure.add_note(f"The route was {key_of(route)}.")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(chosen)} routes failed", failures)

        signature = inspect.signature(test)
        fixtures = [each for name, each in signature.parameters.items() if name != "route"]
        vars(for_all)["__signature__"] = signature.replace(parameters=fixtures)
        return for_all

    return decorated


def key_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def row_of(route: Route) -> Row:
    """Return the row of a route. Fail with instructions if there is none."""
    assert key_of(route) in ROWS, (
        f"{key_of(route)} is a new route: add a row for it to ROWS in tests/contract/requests_by_route.py, "
        "with what its path names, a valid body, and for_admins=True if members may not call it"
    )
    return ROWS[key_of(route)]


ORGANIZATION = Ref("organization")
MEMBERSHIP = Ref("membership")
INVITE = Ref("invite")
API_KEY = Ref("api_key")
TEMPLATE = Ref("template")
ADAPTER = Ref("adapter")
TOOL = Ref("tool")
CONFIG = Ref("adapter_config")
AGENT = Ref("agent")
RUN = Ref("run")
NOTIFICATION = Ref("notification")
SCHEDULE = Ref("schedule")
APPROVAL = Ref("approval")
GRANT = Ref("approval_grant")
CONTACT = Ref("contact")
MESSAGE = Ref("message")
ATTACHMENT = Ref("attachment")
DOCUMENT = Ref("document")
PROJECT = Ref("project")
TRACE = Ref("trace")
SPAN = Ref("span")
SECRET = Ref("secret")
TEMPLATE_SECRET = Ref("template_secret")
DELIVERY = Ref("webhook_delivery")
WEBHOOK = Ref("webhook")
HOOK = Ref("hook")
MCP_SERVER = Ref("mcp_server")  # by the id of its adapter

# How each kind of resource is created: the path to post to, and a minimal body. Organizations, memberships,
# runs, approvals and their grants, webhook deliveries, attachments, MCP servers and reset codes are created
# otherwise, by `tests.contract.tenants`.
RESOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "account": (
        "/api/organizations/auth/signup/",
        {
            "email": "UNIQUE@example.org",
            "password": PASSWORD,
            "organization_name": "Account of MARK",
            "name": "MARK",
        },
    ),
    "invite": ("/api/organizations/invites/", {"email": "MARK-UNIQUE@example.org"}),
    "api_key": ("/api/organizations/api-keys/", {"name": "Key of MARK"}),
    "webhook": ("/api/organizations/webhooks/", {"url": "https://MARK.example/", "types": ["run.*"]}),
    "hook": (
        "/api/organizations/hooks/",
        {"name": "MARK", "agent": AGENT, "verify": "token", "title": "MARK", "only_if": {"title": "MARK"}},
    ),
    "secret": ("/api/organizations/secrets/", {"name": "MARK_UNIQUE", "value": "secret of MARK"}),
    "template": (
        "/api/templates/",
        {
            "name": "Template of MARK",
            "description": "MARK",
            "system_prompt": "You are MARK.",
            "default_model": "builtin/inbox",
            "tool_call_secret": "whsec_MARK",
            "agent_created_webhook_url": "https://MARK.example/",
        },
    ),
    "adapter": (
        "/api/toolbox/adapters/",
        {
            "name": "Adapter of MARK",
            "description": "MARK",
            "detail_url": "https://MARK.example/",
            "config_schema": {"type": "object", "title": "MARK"},
        },
    ),
    "tool": (
        "/api/toolbox/tools/",
        {"adapter": ADAPTER, "name": "Tool of MARK", "parameters": {"title": "MARK"}, "handler": "MARK"},
    ),
    "adapter_config": (
        "/api/toolbox/adapter-configs/",
        {
            "template": TEMPLATE,
            "adapter": ADAPTER,
            "config": {"a": "MARK"},
            "secret_headers": {"Authorization": "MARK"},
        },
    ),
    "agent": (
        "/api/cloud/agents/",
        {
            "name": "Agent of MARK",
            "model": "builtin/inbox",
            "system_prompt": "You are MARK.",
            "tags": ["MARK", "other"],
            "timezone": "America/St_Johns",
            "debounce_window_seconds": 3600,  # so that notifications start no run during the tests
        },
    ),
    "notification": ("/api/defaults/notifications/", {"agent": AGENT, "title": "MARK", "body": "MARK"}),
    "schedule": (
        "/api/defaults/schedules/",
        {"agent": AGENT, "name": "MARK_UNIQUE", "title": "MARK", "body": "MARK", "cron": "0 9 * * *"},
    ),
    "contact": (
        "/api/defaults/contacts/",
        {"name": "Contact of MARK", "email": "MARK-UNIQUE@example.org", "metadata": {"a": ["MARK"]}},
    ),
    "message": (
        "/api/defaults/messages/",
        {
            "agent": AGENT,
            "channel": "email",
            "direction": "outbound",
            "subject": "MARK",
            "body": "MARK",
            "attachments": [{"name": "MARK", "url": "https://MARK.example/a.png"}],
        },
    ),
    "document": ("/api/defaults/documents/", {"title": "Document of MARK", "content": "MARK"}),
    "project": ("/api/defaults/projects/", {"name": "Project of MARK", "description": "MARK"}),
    "trace": ("/api/tracing/traces/", {"agent": AGENT, "name": "MARK", "metadata": {"a": "MARK"}}),
    "span": ("/api/tracing/spans/", {"trace": TRACE, "name": "MARK", "metadata": {"a": "MARK"}}),
}


def new(kind: str, **more: Any) -> dict[str, Any]:
    """Return a body that creates a resource of this kind, with more fields than the minimum."""
    return {**RESOURCES[kind][1], **more}


USAGE = {"model": "example/MARK", "input_tokens": 10, "output_tokens": 2, "cached_tokens": 1, "cost_usd": 0.5}

ABSENT_SERVER = "http://127.0.0.1:1/MARK"

IN_TEMPLATE = {"id": TEMPLATE, "secret_id": TEMPLATE_SECRET}

ROWS: dict[str, Row] = {
    # accounts
    "POST /api/organizations/auth/signup/": Row(body=new("account")),
    "POST /api/organizations/auth/login/": Row(
        body={"email": Ref("account", "user.email"), "password": PASSWORD}
    ),
    "GET /api/organizations/auth/me/": Row(),
    "POST /api/organizations/auth/logout/": Row(by=Ref("account", "token")),
    "POST /api/organizations/auth/password/": Row(
        body={"current_password": PASSWORD, "new_password": "another horse"}, by=Ref("account", "token")
    ),
    "POST /api/organizations/auth/reset/": Row(
        body={
            "email": Ref("account", "user.email"),
            "code": Ref("reset_code", "code"),
            "new_password": "another horse",
        }
    ),
    "POST /api/organizations/auth/reset/request/": Row(body={"email": Ref("account", "user.email")}),
    # organizations and who is in them
    "GET /api/organizations/organizations/": Row(),
    "POST /api/organizations/organizations/": Row(
        body={"name": "Organization of MARK"}, by=Ref("account", "token", which="founder")
    ),
    "GET /api/organizations/organizations/{id}/": Row({"id": ORGANIZATION}),
    "PATCH /api/organizations/organizations/{id}/": Row(
        {"id": ORGANIZATION},
        {"name": "Organization of MARK", "paused": False, "max_cost_usd_per_day": 12.5},
        for_admins=True,
    ),
    "GET /api/organizations/limits/": Row(),
    "GET /api/organizations/memberships/": Row(for_admins=True),
    "GET /api/organizations/memberships/{id}/": Row({"id": MEMBERSHIP}, for_admins=True),
    "PATCH /api/organizations/memberships/{id}/": Row({"id": MEMBERSHIP}, {"role": "admin"}, for_admins=True),
    "DELETE /api/organizations/memberships/{id}/": Row({"id": MEMBERSHIP}, for_admins=True),
    "GET /api/organizations/invites/": Row(for_admins=True),
    "POST /api/organizations/invites/": Row(body=new("invite", role="admin"), for_admins=True),
    "DELETE /api/organizations/invites/{id}/": Row({"id": INVITE}, for_admins=True),
    "POST /api/organizations/invites/{id}/accept/": Row(
        {"id": INVITE}, {"code": Ref("invite", "code"), "password": PASSWORD, "name": "MARK"}
    ),
    "GET /api/organizations/api-keys/": Row(for_admins=True),
    "POST /api/organizations/api-keys/": Row(body=new("api_key", is_active=False), for_admins=True),
    "GET /api/organizations/api-keys/{id}/": Row({"id": API_KEY}, for_admins=True),
    "PATCH /api/organizations/api-keys/{id}/": Row(
        {"id": API_KEY}, {"name": "Renamed by MARK", "is_active": False}, for_admins=True
    ),
    "DELETE /api/organizations/api-keys/{id}/": Row({"id": API_KEY}, for_admins=True),
    "GET /api/organizations/secrets/": Row(for_admins=True),
    "POST /api/organizations/secrets/": Row(body=new("secret"), for_admins=True),
    "GET /api/organizations/secrets/{id}/": Row({"id": SECRET}, for_admins=True),
    "PATCH /api/organizations/secrets/{id}/": Row({"id": SECRET}, {"value": "of MARK"}, for_admins=True),
    "DELETE /api/organizations/secrets/{id}/": Row({"id": SECRET}, for_admins=True),
    "GET /api/organizations/audit-log/": Row(for_admins=True),
    "GET /api/organizations/audit-log/export/": Row(for_admins=True),
    "GET /api/organizations/webhooks/": Row(for_admins=True),
    "POST /api/organizations/webhooks/": Row(
        body=new("webhook", agent=AGENT, template=TEMPLATE), for_admins=True
    ),
    "GET /api/organizations/webhooks/{id}/": Row({"id": WEBHOOK}, for_admins=True),
    "PATCH /api/organizations/webhooks/{id}/": Row(
        {"id": WEBHOOK}, {"description": "of MARK", "agent": AGENT}, for_admins=True
    ),
    "DELETE /api/organizations/webhooks/{id}/": Row({"id": WEBHOOK}, for_admins=True),
    "POST /api/organizations/webhooks/{id}/test/": Row({"id": WEBHOOK}, for_admins=True),
    "POST /api/organizations/webhooks/{id}/rotate/": Row({"id": WEBHOOK}, for_admins=True),
    "GET /api/organizations/hooks/": Row(for_admins=True),
    "POST /api/organizations/hooks/": Row(body=new("hook", body="MARK"), for_admins=True),
    "GET /api/organizations/hooks/{id}/": Row({"id": HOOK}, for_admins=True),
    "PATCH /api/organizations/hooks/{id}/": Row(
        {"id": HOOK}, {"title": "of MARK", "agent": AGENT, "secret": "secret of MARK"}, for_admins=True
    ),
    "DELETE /api/organizations/hooks/{id}/": Row({"id": HOOK}, for_admins=True),
    "POST /api/organizations/hooks/{id}/test/": Row(
        {"id": HOOK}, {"payload": {"a": "MARK"}}, for_admins=True
    ),
    "GET /api/organizations/hooks/{id}/deliveries/": Row({"id": HOOK}, for_admins=True),
    "GET /api/organizations/webhook-deliveries/": Row(),
    "GET /api/organizations/webhook-deliveries/{id}/": Row({"id": DELIVERY}),
    "POST /api/organizations/webhook-deliveries/{id}/redeliver/": Row({"id": DELIVERY}),
    # templates and the toolbox
    "GET /api/templates/": Row(),
    "POST /api/templates/": Row(
        body=new(
            "template",
            default_reasoning_effort="low",
            max_turns=3,
            max_cost_usd_per_day=1.25,
            max_wakes_per_hour=30,
            max_wakes_per_day=200,
            quiet_hours="Sun 03:00-04:00",
            approvers="member",
            approval_hours=24,
            temperature=0.5,
        )
    ),
    "GET /api/templates/{id}/": Row({"id": TEMPLATE}),
    "PATCH /api/templates/{id}/": Row({"id": TEMPLATE}, {"name": "Renamed by MARK", "max_turns": 7}),
    "DELETE /api/templates/{id}/": Row({"id": TEMPLATE}),
    "GET /api/templates/{id}/prompts/": Row({"id": TEMPLATE}),
    "GET /api/templates/{id}/prompts/{number}/": Row({"id": TEMPLATE, "number": "1"}),
    "POST /api/templates/{id}/prompts/{number}/revert/": Row({"id": TEMPLATE, "number": "1"}),
    "GET /api/templates/{id}/secrets/": Row({"id": TEMPLATE}, for_admins=True),
    "POST /api/templates/{id}/secrets/": Row({"id": TEMPLATE}, new("secret"), for_admins=True),
    "GET /api/templates/{id}/secrets/{secret_id}/": Row(IN_TEMPLATE, for_admins=True),
    "PATCH /api/templates/{id}/secrets/{secret_id}/": Row(IN_TEMPLATE, {"value": "of MARK"}, for_admins=True),
    "DELETE /api/templates/{id}/secrets/{secret_id}/": Row(IN_TEMPLATE, for_admins=True),
    "GET /api/toolbox/adapters/": Row(),
    "POST /api/toolbox/adapters/": Row(body=new("adapter")),
    "GET /api/toolbox/adapters/{id}/": Row({"id": ADAPTER}),
    "PATCH /api/toolbox/adapters/{id}/": Row(
        {"id": ADAPTER}, {"description": "Changed by MARK", "config_schema": {"type": "object"}}
    ),
    "DELETE /api/toolbox/adapters/{id}/": Row({"id": ADAPTER}),
    "POST /api/toolbox/adapters/{id}/mcp/": Row(
        {"id": ADAPTER}, {"url": ABSENT_SERVER, "headers": {"X-Key": "MARK"}}, for_admins=True
    ),
    "GET /api/toolbox/adapters/{id}/mcp/": Row({"id": MCP_SERVER}),
    "GET /api/toolbox/tools/": Row(),
    "POST /api/toolbox/tools/": Row(
        body=new("tool", url="https://MARK.example/", approval={"when": {"title": "MARK"}})
    ),
    "GET /api/toolbox/tools/{id}/": Row({"id": TOOL}),
    "PATCH /api/toolbox/tools/{id}/": Row({"id": TOOL}, {"description": "MARK", "parameters": ["MARK", 1]}),
    "DELETE /api/toolbox/tools/{id}/": Row({"id": TOOL}),
    "POST /api/toolbox/tools/{id}/accept/": Row({"id": TOOL}, for_admins=True),
    "GET /api/toolbox/adapter-configs/": Row(),
    "POST /api/toolbox/adapter-configs/": Row(body=new("adapter_config")),
    "GET /api/toolbox/adapter-configs/{id}/": Row({"id": CONFIG}),
    "PATCH /api/toolbox/adapter-configs/{id}/": Row({"id": CONFIG}, {"config": {"b": ["MARK"]}}),
    "DELETE /api/toolbox/adapter-configs/{id}/": Row({"id": CONFIG}),
    # agents
    "GET /api/cloud/agents/": Row(),
    "POST /api/cloud/agents/": Row(
        body=new(
            "agent",
            template=TEMPLATE,
            parent=Ref("agent", which="parent"),
            adapters=[ADAPTER],
            email_alias="UNIQUE",
            max_turns=-1,
            purpose="dev",
            sleep_until="2999-01-01T00:00:00Z",
        )
    ),
    "GET /api/cloud/agents/{id}/": Row({"id": AGENT}),
    "PATCH /api/cloud/agents/{id}/": Row(
        {"id": AGENT},
        {
            "name": "Renamed by MARK",
            "template": TEMPLATE,
            "parent": Ref("agent", which="parent"),
            "adapters": [ADAPTER],
            "max_sleep_hours": None,
        },
    ),
    "POST /api/cloud/agents/{id}/tag/": Row({"id": AGENT}, {"tags": ["MARK", "fresh"]}),
    "POST /api/cloud/agents/{id}/untag/": Row({"id": AGENT}, {"tags": ["MARK", "fresh"]}),
    "DELETE /api/cloud/agents/{id}/": Row({"id": AGENT}),
    "GET /api/cloud/agents/{id}/prompts/": Row({"id": AGENT}),
    "GET /api/cloud/agents/{id}/prompts/{number}/": Row({"id": AGENT, "number": "1"}),
    "POST /api/cloud/agents/{id}/prompts/{number}/revert/": Row({"id": AGENT, "number": "1"}),
    "GET /api/cloud/agents/{id}/tools/": Row({"id": AGENT}),
    "GET /api/cloud/agents/{id}/context/": Row({"id": AGENT}),
    "POST /api/cloud/agents/{id}/tools/{name}/": Row(
        {"id": AGENT, "name": "create_notification"}, {"title": "MARK", "priority": "low"}
    ),
    "POST /api/cloud/agents/{id}/run/": Row({"id": AGENT}, {"wakeup": True}),
    "POST /api/cloud/agents/actions/": Row(
        body={"action": "tag", "agents": [AGENT], "tags": ["MARK"], "dry_run": False}, unknown_status=200
    ),
    "POST /api/cloud/agents/{id}/stop/": Row({"id": AGENT}, {"force": True, "reason": "MARK"}),
    "GET /api/cloud/agents/{id}/runs/": Row({"id": AGENT}),
    "GET /api/cloud/agents/{id}/runs/{run_id}/": Row({"id": AGENT, "run_id": RUN}),
    "GET /api/cloud/agents/{id}/runs/{run_id}/events/": Row({"id": AGENT, "run_id": RUN}),
    "GET /api/cloud/runs/": Row(),
    "GET /api/cloud/supervisors/": Row(),
    "GET /api/cloud/overview/": Row(),
    "POST /api/cloud/attention/": Row(
        body={"action": "dismiss", "kind": "failed_message", "ids": [MESSAGE]}, unknown_status=200
    ),
    "GET /api/cloud/usage/": Row(),
    "GET /api/cloud/agents/{id}/events/": Row({"id": AGENT}),
    "GET /api/events/": Row(),
    "POST /api/events/tickets/": Row(body={}),
    "GET /api/cloud/agents/{id}/transcript/": Row({"id": AGENT}),
    "DELETE /api/cloud/agents/{id}/transcript/": Row({"id": AGENT}),
    "GET /api/cloud/agents/{id}/supervisor/": Row({"id": AGENT}),
    "GET /api/cloud/agents/{id}/timeline/": Row({"id": AGENT}),
    "GET /api/cloud/agents/{id}/bounds/": Row({"id": AGENT}),
    "POST /api/cloud/agents/{id}/preview/": Row(
        {"id": AGENT},
        {"event": {"source": "sms", "count": 2}, "patch": {"template": TEMPLATE, "max_sleep_hours": 1}},
    ),
    "POST /api/cloud/rewind/": Row(
        body={
            "agent": AGENT,
            "from": "2026-11-01T00:00:00Z",
            "to": "2026-11-01T01:00:00Z",
            "patch": {
                "template": TEMPLATE,
                "priorities": [{"source": "sms", "priority": "low"}],
                "schedules": [{"id": SCHEDULE, "paused": True}],
            },
        }
    ),
    "GET /api/cloud/agents/{id}/usage/": Row({"id": AGENT}),
    "POST /api/cloud/agents/{id}/usage/": Row({"id": AGENT}, {**USAGE, "trace": TRACE}),
    # their queues and channels
    "GET /api/defaults/notifications/": Row(),
    "POST /api/defaults/notifications/": Row(
        body=new("notification", source="system", scheduled_for="2999-01-01T00:00:00+02:00")
    ),
    "POST /api/defaults/notifications/clear/": Row(body={"agent": AGENT, "ids": [NOTIFICATION]}),
    "GET /api/defaults/notifications/{id}/": Row({"id": NOTIFICATION}),
    "PATCH /api/defaults/notifications/{id}/": Row(
        {"id": NOTIFICATION}, {"cleared": True, "title": "Changed by MARK"}
    ),
    "DELETE /api/defaults/notifications/{id}/": Row({"id": NOTIFICATION}),
    "GET /api/defaults/schedules/": Row(),
    "POST /api/defaults/schedules/": Row(body=new("schedule", timezone="Europe/Vienna", late_seconds=60)),
    "POST /api/defaults/schedules/preview/": Row(body={"cron": "0 9 * * 1-5", "timezone": "Europe/Vienna"}),
    "GET /api/defaults/schedules/{id}/": Row({"id": SCHEDULE}),
    "PATCH /api/defaults/schedules/{id}/": Row({"id": SCHEDULE}, {"title": "Changed by MARK"}),
    "DELETE /api/defaults/schedules/{id}/": Row({"id": SCHEDULE}),
    "POST /api/defaults/schedules/{id}/run/": Row({"id": SCHEDULE}),
    "GET /api/defaults/schedules/{id}/occurrences/": Row({"id": SCHEDULE}),
    "PUT /api/cloud/agents/{id}/schedules/{name}/": Row(
        {"id": AGENT, "name": "morning"}, {"title": "MARK", "cron": "0 9 * * *"}
    ),
    "GET /api/defaults/approvals/": Row(),
    "GET /api/defaults/approvals/{id}/": Row({"id": APPROVAL}),
    "POST /api/defaults/approvals/{id}/decide/": Row(
        {"id": APPROVAL},
        {"approve": True, "note": "MARK", "arguments": {"a": "MARK"}, "grant": {"arguments": "exact"}},
        for_admins=True,
    ),
    "GET /api/defaults/approval-grants/": Row(),
    "GET /api/defaults/approval-grants/{id}/": Row({"id": GRANT}),
    "POST /api/defaults/approval-grants/{id}/revoke/": Row({"id": GRANT}),
    "GET /api/defaults/contacts/": Row(),
    "POST /api/defaults/contacts/": Row(body=new("contact", agent=AGENT)),
    "GET /api/defaults/contacts/{id}/": Row({"id": CONTACT}),
    "PATCH /api/defaults/contacts/{id}/": Row({"id": CONTACT}, {"agent": AGENT, "metadata": ["MARK"]}),
    "DELETE /api/defaults/contacts/{id}/": Row({"id": CONTACT}),
    "GET /api/defaults/messages/": Row(),
    "POST /api/defaults/messages/": Row(body=new("message", contact=CONTACT, direction="inbound")),
    "GET /api/defaults/messages/{id}/": Row({"id": MESSAGE}),
    "PATCH /api/defaults/messages/{id}/": Row({"id": MESSAGE}, {"contact": CONTACT, "subject": "MARK"}),
    "DELETE /api/defaults/messages/{id}/": Row({"id": MESSAGE}),
    "GET /api/defaults/attachments/{id}/": Row({"id": ATTACHMENT}),
    "GET /api/defaults/documents/": Row(),
    "POST /api/defaults/documents/": Row(body=new("document", agent=AGENT, project=PROJECT)),
    "GET /api/defaults/documents/{id}/": Row({"id": DOCUMENT}),
    "PATCH /api/defaults/documents/{id}/": Row(
        {"id": DOCUMENT}, {"agent": AGENT, "project": PROJECT, "content": " MARK\n"}
    ),
    "DELETE /api/defaults/documents/{id}/": Row({"id": DOCUMENT}),
    "GET /api/defaults/documents/search/": Row(),
    "GET /api/defaults/documents/{id}/versions/": Row({"id": DOCUMENT}),
    "GET /api/defaults/documents/{id}/versions/{number}/": Row({"id": DOCUMENT, "number": "1"}),
    "POST /api/defaults/documents/{id}/versions/{number}/revert/": Row({"id": DOCUMENT, "number": "1"}),
    "GET /api/defaults/projects/": Row(),
    "POST /api/defaults/projects/": Row(body=new("project", agent=AGENT, status="done")),
    "GET /api/defaults/projects/{id}/": Row({"id": PROJECT}),
    "PATCH /api/defaults/projects/{id}/": Row({"id": PROJECT}, {"agent": AGENT, "status": "archived"}),
    "DELETE /api/defaults/projects/{id}/": Row({"id": PROJECT}),
    # the record
    "GET /api/tracing/traces/": Row(),
    "GET /api/tracing/traces/list/": Row(),
    "POST /api/tracing/traces/": Row(body=new("trace", started_at="2026-01-01T12:00:00+01:00")),
    "GET /api/tracing/traces/{id}/": Row({"id": TRACE}),
    "GET /api/tracing/traces/{id}/waterfall/": Row({"id": TRACE}),
    "GET /api/tracing/traces/{id}/transcript/": Row({"id": TRACE}),
    "POST /api/tracing/traces/{id}/end/": Row(
        {"id": TRACE}, {"agent": AGENT, "error": "MARK", "metadata": {"b": "MARK"}}, mixed_status=400
    ),
    "POST /api/tracing/spans/": Row(body=new("span", span_type="tool")),
    "GET /api/tracing/spans/{id}/": Row({"id": SPAN}),
    "POST /api/tracing/spans/{id}/end/": Row({"id": SPAN}, {"error": "MARK", "metadata": [1.5]}),
    # the service itself
    "GET /": Row(),
    "GET /api/": Row(),
    "GET /healthz": Row(),
    "GET /readyz": Row(),
    "GET /status/": Row(),
    "GET /status/supervisors/": Row(),
    "GET /status/events/": Row(),
    "GET /status/supervisors/{id}/": Row({"id": AGENT}),
    "GET /metrics": Row(),
    "GET /api/schema/": Row(),
    "GET /api/docs/": Row(),
}
