"""Idempotency-Key: a repeated request has no second effect and receives the first answer."""

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import pytest
from aiohttp import FormData

from storage.postgres import pool
from supervisors.maintenance.retention_cleaner import ReceiptCleaner
from tests.storage.factories import HOUR
from tests.supervisors.held_clock import HeldClock
from tests.web.conftest import Answer, Api, Service, StartService
from tests.web.people import as_user, new_user
from web.app import ROUTES
from web.app_keys import CLOCK
from web.routes import Access

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
SCHEDULES = "/api/defaults/schedules/"
TICKETS = "/api/events/tickets/"
HOOKS = "/api/organizations/hooks/"
ORGANIZATIONS = "/api/organizations/organizations/"
JSON = "application/json"
KEY = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"

CREATIONS: dict[str, tuple[str, dict[str, Any]]] = {  # by path: the table, and a valid body
    AGENTS: ("agent", {"name": "Bob", "model": "builtin/inbox"}),
    RUN: ("run", {}),
    USAGE: ("usage_record", {"model": "builtin/inbox", "input_tokens": "12", "output_tokens": "3"}),
    NOTIFICATIONS: ("notification", {"agent": "{id}", "title": "Hello"}),
    MESSAGES: ("message", {"agent": "{id}", "channel": "sms", "direction": "inbound"}),
    TEMPLATES: ("template", {"name": "Clerk"}),
    TRACES: ("trace", {"agent": "{id}", "name": "outside"}),
    SPANS: ("span", {"trace": "{trace}", "name": "chat"}),
    CONTACTS: ("contact", {"name": "Ada", "agent": "{id}"}),
    DOCUMENTS: ("document", {"title": "Notes"}),
    PROJECTS: ("project", {"name": "Move"}),
    ADAPTERS: ("adapter", {"name": "Weather"}),
    TOOLS: ("tool", {"adapter": "{adapter}", "name": "look_up"}),
    CONFIGS: (
        "adapter_config",
        {"adapter": "{adapter}", "template": "{template}", "config": {"token": "s3cr3t"}},
    ),
    SECRETS_OF_ALL: ("secret", {"name": "MODEL_KEY", "value": "s3cr3t"}),
    SECRETS_OF_TEMPLATE: ("secret", {"name": "MODEL_KEY", "value": "s3cr3t"}),
    INVITES: ("invite", {"email": "ann@example.org"}),
    API_KEYS: ("api_key", {"name": "server"}),
    WEBHOOKS: ("webhook", {"url": "https://hooks.example/", "types": ["*"]}),
    HOOKS: ("hook", {"name": "Tracker", "agent": "{id}", "verify": "github", "title": "{{{{ title }}}}"}),
    SCHEDULES: ("schedule", {"agent": "{id}", "title": "Figures", "every_seconds": "3600"}),
    ORGANIZATIONS: ("organization", {"name": "Acme"}),
    TICKETS: ("receipt", {}),
}
BODIES = {path: body for path, (_, body) in CREATIONS.items()}
COUNT = {path: f"SELECT count(*) FROM {table}" for path, (table, _) in CREATIONS.items()}  # noqa: S608
SECRETS = {
    CONFIGS: "config",
    INVITES: "code",
    API_KEYS: "key",
    WEBHOOKS: "secret",
    HOOKS: "secret",
    TICKETS: "ticket",
}  # null in a repeated answer
BAD_KEYS = ("", '""', "x" * 256, "a\tb", "a\u200bb", f'"{"x" * 256}"')


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


def test_every_creation_by_a_caller_accepts_key() -> None:
    creations = [route for route in ROUTES if route.method == "POST" and route.status == 201]
    taking = {(route.method, route.path) for route in ROUTES if route.idempotent}
    assert taking == {("POST", route.path) for route in creations if route.access is Access.CALLERS} | {
        ("POST", RUN)
    }
    assert {path for _, path in taking} == BODIES.keys(), "add a table and a body for the new route"


async def test_same_body_may_differ_in_order_and_boundary(api: Api) -> None:
    await send(api, TEMPLATES, data=b'{"name": "Clerk", "max_turns": 3}', headers={"Content-Type": JSON})
    again = await send(
        api, TEMPLATES, data=b'{ "max_turns":3, "name":"Clerk" }', headers={"Content-Type": JSON}
    )
    assert is_replay(again)

    answers = [await send(api, TEMPLATES, key="form", data=form()) for _ in range(2)]
    assert [is_replay(answer) for answer in answers] == [False, True]


def form() -> FormData:
    fields = FormData({"name": "Clerk"})
    fields.add_field("description", "Files things", content_type="text/plain")  # makes it multipart
    return fields


async def test_another_organization_is_another_request(api: Api) -> None:
    template = (await send(api, TEMPLATES, BODIES[TEMPLATES])).body
    organization = {"X-Organization": template["organization"]}
    answer = await send(api, TEMPLATES, BODIES[TEMPLATES], headers=organization)
    assert answer.status == 422


@pytest.mark.parametrize("key", BAD_KEYS)
async def test_bad_key_is_refused(service: Service, api: Api, key: str) -> None:
    answer = await send(api, TEMPLATES, BODIES[TEMPLATES], key)
    assert answer.status == 400
    assert "Idempotency-Key" in answer.body["detail"]
    assert await service.storage.pool.fetchval(COUNT[TEMPLATES]) == 0


async def test_quotes_are_not_part_of_key(api: Api) -> None:
    for plain in ("x" * 255, "a b", '"', 'a"b', "Ärger"):
        first = await send(api, TEMPLATES, BODIES[TEMPLATES], plain)
        again = await send(api, TEMPLATES, BODIES[TEMPLATES], f'"{plain}"')
        assert (first.status, again.status) == (201, 201)
        assert is_replay(again), plain


async def test_key_belongs_to_one_credential(service: Service, api: Api) -> None:
    created = await api.post("/api/organizations/api-keys/", {"name": "another"})
    colleague = api.with_authorization(f"Bearer {created.body['key']}")
    first = await send(api, TEMPLATES, BODIES[TEMPLATES])
    second = await send(colleague, TEMPLATES, BODIES[TEMPLATES])
    assert second.status == 201
    assert second.body["id"] != first.body["id"]


async def test_key_belongs_to_one_path(api: Api) -> None:
    ann, bob = await api.create_agent(), await api.create_agent()
    answers = [await send(api, f"{AGENTS}{agent['id']}/run/") for agent in (ann, bob)]
    assert [answer.body["status"] for answer in answers] == ["started", "started"]


async def test_creation_with_taken_values_is_repeated(api: Api) -> None:
    """The values of the first request are taken when it is repeated."""
    for path in (TOOLS, CONFIGS):
        where, body = await request_to(api, path)
        assert (await send(api, where, body)).status == 201
        assert is_replay(await send(api, where, body))
        assert (await api.post(where, body)).status == 400
    where, body = await request_to(api, SPANS)
    body["id"] = body["trace"]
    assert [is_replay(await send(api, where, body, "span")) for _ in range(2)] == [False, True]


async def test_list_of_spans_is_repeated_as_a_whole(service: Service, api: Api) -> None:
    where, body = await request_to(api, SPANS)
    first, again = [await send(api, where, [body] * 3) for _ in range(2)]
    assert (is_replay(first), is_replay(again)) == (False, True)
    assert again.body == first.body
    assert await service.storage.pool.fetchval(COUNT[SPANS]) == 3
    assert (await send(api, where, [body] * 2)).status == 422
    assert (await send(api, where, body)).status == 422
    form = await send(api, where, data=body, key="form")
    assert is_replay(await send(api, where, body, "form"))
    assert form.body["id"] not in {span["id"] for span in first.body}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writes wait for a lock for as long as a busy machine needs, and not for a second."""
    monkeypatch.setattr(pool, "LIMIT_WAIT", "60s")


@pytest.mark.usefixtures("patient")
async def test_repeat_during_first_request_waits_for_its_answer(
    service: Service, api: Api, database_url: str
) -> None:
    other_program = await asyncpg.connect(database_url)
    async with other_program.transaction():
        await other_program.execute("LOCK TABLE template IN SHARE MODE")
        first = asyncio.create_task(send(api, TEMPLATES, BODIES[TEMPLATES]))
        await waits_for_a_lock(other_program, 1)
        repeat = asyncio.create_task(send(api, TEMPLATES, BODIES[TEMPLATES]))
        await waits_for_a_lock(other_program, 2)
    await other_program.close()
    answers = [await first, await repeat]
    # A write that waits begins again, so that its repetition may come before it.
    assert sorted((answer.status, is_replay(answer)) for answer in answers) == [(201, False), (201, True)]
    assert answers[0].body["id"] == answers[1].body["id"]
    assert await service.storage.pool.fetchval(COUNT[TEMPLATES]) == 1


async def waits_for_a_lock(connection: Any, count: int) -> None:
    while await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < count:
        pass


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("path", BODIES)
async def test_many_repeats_of_slow_request_leave_room_to_others(
    service: Service, api: Api, other: Api, database_url: str, path: str
) -> None:
    where, body = await request_to(api, path)
    caller = await caller_of(service, api, path)
    other_program = await asyncpg.connect(database_url)
    async with other_program.transaction():
        await other_program.execute("LOCK TABLE receipt IN SHARE MODE")
        repeats = [asyncio.create_task(send(caller, where, body)) for _ in range(40)]
        await waits_for_a_lock(other_program, 1)
        assert {(await other.get(TEMPLATES)).status for _ in range(10)} == {200}
    await other_program.close()
    assert Counter(map(is_replay, await asyncio.gather(*repeats))) == {False: 1, True: 39}


@pytest.mark.parametrize("path", BODIES)
async def test_concurrent_requests_to_two_processes_make_one_row(
    service: Service, api: Api, start_service: StartService, path: str
) -> None:
    """After a failover the last commit of the old leader may still be on its way."""
    where, body = await request_to(api, path)
    api = await caller_of(service, api, path)
    before = await service.storage.pool.fetchval(COUNT[path])
    twin = Api((await start_service()).client, api.authorization)
    answers = await asyncio.gather(*(send(caller, where, body) for caller in (api, twin) * 10))
    assert len({str(repeated(answer, path)) for answer in answers}) == 1
    assert Counter(map(is_replay, answers)) == {False: 1, True: 19}
    assert await service.storage.pool.fetchval(COUNT[path]) == before + 1


async def test_repeat_is_answered_after_its_references_changed(api: Api) -> None:
    agent = await api.create_agent()
    body = {"name": "Bob", "model": "builtin/inbox", "email_alias": "bob", "parent": agent["id"]}
    first = await send(api, AGENTS, body)
    await api.delete(f"{AGENTS}{agent['id']}/")
    again = await send(api, AGENTS, body)
    assert (again.status, again.body) == (201, first.body)


async def test_repeat_is_refused_after_access_was_lost(service: Service, api: Api) -> None:
    account = {"email": "ann@example.com", "password": "correct horse", "organization_name": "Acme"}
    token = (await service.nobody.post("/api/organizations/auth/signup/", account)).body["token"]
    user = api.with_authorization(f"Token {token}")
    agent = await user.create_agent()
    body = {"agent": agent["id"], "title": "Hello"}
    assert (await send(user, NOTIFICATIONS, body)).status == 201
    async with service.storage.token_holders.invalidating():
        await service.storage.pool.execute(
            "DELETE FROM membership WHERE organization_id = $1", agent["organization"]
        )
    assert (await send(user, NOTIFICATIONS, body)).status == 403


async def test_callers_without_access_learn_nothing_about_keys(api: Api, other: Api) -> None:
    agent = await api.create_agent()
    path = f"{AGENTS}{agent['id']}/run/"
    await send(api, path)
    assert (await send(other, path, key="")).status == 403
    assert (await send(api.with_authorization(None), path, key="")).status == 401
    await api.delete(f"{AGENTS}{agent['id']}/")
    assert (await send(api, path)).status == 404


async def test_run_request_is_repeated_with_every_answer(service: Service, api: Api) -> None:
    agent = await api.create_agent(sleep_until="2099-01-01T00:00Z")
    path = f"{AGENTS}{agent['id']}/run/"
    answers = {
        "sleeping": await send(api, path, {"wakeup": False}, "1"),
        "started": await send(api, path, {"wakeup": True}, "2"),
        "already_running": await send(api, path, {"wakeup": True}, "3"),
    }
    assert {answer.body["status"] for answer in answers.values()} == answers.keys()
    await api.post(f"{AGENTS}{agent['id']}/stop/")
    again = [
        await send(api, path, {"wakeup": False}, "1"),
        await send(api, path, {"wakeup": True}, "2"),
        await send(api, path, {"wakeup": True}, "3"),
    ]
    assert all(is_replay(answer) for answer in again)
    assert [answer.body for answer in again] == [answer.body for answer in answers.values()]
    assert len((await api.get(f"{AGENTS}{agent['id']}/runs/")).body) == 1


async def test_key_is_free_after_a_day(service: Service, api: Api) -> None:
    first = await send(api, TEMPLATES, BODIES[TEMPLATES])
    clock = HeldClock(service.app[CLOCK].now())
    purge = ReceiptCleaner(service.storage.receipts, service.storage.throttle, clock)
    clock.advance(23 * HOUR.total_seconds())
    await purge.run_once()
    assert is_replay(await send(api, TEMPLATES, BODIES[TEMPLATES]))
    clock.advance(2 * HOUR.total_seconds())
    await purge.run_once()
    second = await send(api, TEMPLATES, BODIES[TEMPLATES])
    assert second.body["id"] != first.body["id"]
