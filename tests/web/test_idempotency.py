"""Idempotency-Key: a repeated request has no second effect and receives the first answer."""

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import pytest
from aiohttp import FormData

from supervisors.maintenance.retention_cleaner import ReceiptCleaner
from tests.storage.factories import HOUR
from tests.supervisors.held_clock import HeldClock
from tests.web.conftest import Api, Service, StartService
from tests.web.creations import (
    AGENTS,
    BODIES,
    CONFIGS,
    COUNT,
    JSON,
    KEY,
    NOTIFICATIONS,
    RUN,
    SPANS,
    TEMPLATES,
    TOOLS,
    caller_of,
    is_replay,
    repeated,
    request_to,
    send,
)
from web.app import ROUTES
from web.app_keys import CLOCK, IN_FLIGHT
from web.routes import Access

BAD_KEYS = ("", '""', "x" * 256, "a\tb", "a\u200bb", f'"{"x" * 256}"')


def test_every_creation_by_a_caller_accepts_key() -> None:
    creations = [route for route in ROUTES if route.method == "POST" and route.status == 201]
    taking = {(route.method, route.path) for route in ROUTES if route.idempotent}
    assert taking == {("POST", route.path) for route in creations if route.access is Access.CALLERS} | {
        ("POST", RUN)
    }
    assert {path for _, path in taking} == BODIES.keys(), "add a body and a count for the new route"


@pytest.mark.parametrize("path", BODIES)
async def test_repeat_receives_first_answer(service: Service, api: Api, path: str) -> None:
    where, body = await request_to(api, path)
    api = await caller_of(service, api, path)
    first = await send(api, where, body)
    count = await service.storage.pool.fetchval(COUNT[path])
    again = await send(api, where, body)
    assert (again.status, again.body) == (first.status, repeated(first, path))
    assert again.headers["Content-Type"] == first.headers["Content-Type"]
    assert (is_replay(first), is_replay(again)) == (False, True)
    assert await service.storage.pool.fetchval(COUNT[path]) == count


@pytest.mark.parametrize("path", BODIES)
async def test_key_is_refused_with_another_body(service: Service, api: Api, path: str) -> None:
    where, body = await request_to(api, path)
    api = await caller_of(service, api, path)
    await send(api, where, body)
    answer = await send(api, where, {**body, "one more": 1})
    assert answer.status == 422
    assert answer.body == {"detail": "This Idempotency-Key was used with another request body."}


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


@pytest.mark.parametrize("path", [f"{NOTIFICATIONS}clear/", f"{AGENTS}{{id}}/stop/", f"{AGENTS}{{id}}/tag/"])
async def test_other_route_says_that_it_ignores_key(api: Api, path: str) -> None:
    agent = await api.create_agent()
    answers = [
        await send(api, path.format(**agent), {"agent": agent["id"], "tags": []}, "") for _ in range(2)
    ]
    assert [answer.status for answer in answers] == [200, 200]
    assert all(KEY in answer.headers["X-Ignored"] for answer in answers)
    assert not any(is_replay(answer) for answer in answers)


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


async def test_refused_spans_leave_key_free(service: Service, api: Api) -> None:
    where, body = await request_to(api, SPANS)
    taken = (await api.create(where, **body))["id"]
    assert (await send(api, where, [body, {**body, "id": taken}])).status == 400
    assert await service.storage.pool.fetchval("SELECT count(*) FROM receipt") == 0
    assert not is_replay(await send(api, where, body))


async def test_repeat_during_first_request_is_conflict(service: Service, api: Api, database_url: str) -> None:
    other_program = await asyncpg.connect(database_url)
    async with other_program.transaction():
        await other_program.execute("LOCK TABLE template IN SHARE MODE")
        first = asyncio.create_task(send(api, TEMPLATES, BODIES[TEMPLATES]))
        await somebody_waits_for_a_lock(other_program)
        repeat = await send(api, TEMPLATES, BODIES[TEMPLATES])
        assert repeat.status == 409
        assert repeat.body == {"detail": "A request with this Idempotency-Key is still being answered."}
    await other_program.close()
    assert (await first).status == 201
    assert is_replay(await send(api, TEMPLATES, BODIES[TEMPLATES]))
    assert not service.app[IN_FLIGHT]


async def somebody_waits_for_a_lock(connection: Any) -> None:
    async with asyncio.timeout(10):
        while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            pass


async def test_hundred_concurrent_requests_make_one_row(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "title": "Hello", "priority": "high"}
    answers = await asyncio.gather(*(send(api, NOTIFICATIONS, body) for _ in range(100)))
    kinds = Counter((answer.status, is_replay(answer)) for answer in answers)
    assert kinds.keys() <= {(201, False), (201, True), (409, False)}
    assert kinds[201, False] == 1
    assert len((await api.get(NOTIFICATIONS)).body) == 1
    assert len({answer.body["id"] for answer in answers if answer.status == 201}) == 1


async def test_repeated_high_notification_wakes_once(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "title": "Hello", "priority": "high"}
    for _ in range(3):
        assert (await send(api, NOTIFICATIONS, body)).status == 201
    assert await service.storage.pool.fetchval("SELECT wake_seq FROM agent_state") == 1
    await service.registry.wait_until_idle()
    assert len((await api.get(f"{AGENTS}{agent['id']}/runs/")).body) == 1


async def test_lost_answer_is_given_by_next_process(api: Api, start_service: StartService) -> None:
    agent = await api.create_agent()
    lost = await send(api, NOTIFICATIONS, {"agent": agent["id"], "title": "Hello"})
    next_process = Api((await start_service()).client, api.authorization)
    again = await send(next_process, NOTIFICATIONS, {"agent": agent["id"], "title": "Hello"})
    assert is_replay(again)
    assert again.body == lost.body


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
    given = [answer for answer in answers if answer.status != 409]
    assert len({str(repeated(answer, path)) for answer in given}) == 1
    assert Counter(map(is_replay, given))[False] == 1
    assert await service.storage.pool.fetchval(COUNT[path]) == before + 1


async def test_refused_request_leaves_key_free(service: Service, api: Api, other: Api) -> None:
    agent, foreign = await api.create_agent(), await other.create_agent()
    refused = (
        ({"agent": agent["id"]}, 400),
        ({"agent": TEMPLATES, "title": "Hello"}, 400),
        ({"agent": "01890a5d-ac96-774b-bcce-b302099a8057", "title": "Hello"}, 400),
        ({"agent": foreign["id"], "title": "Hello"}, 403),
    )
    for body, status in refused:
        assert (await send(api, NOTIFICATIONS, body)).status == status
    created = await send(api, NOTIFICATIONS, {"agent": agent["id"], "title": "Hello"})
    assert (created.status, is_replay(created)) == (201, False)
    assert await service.storage.pool.fetchval("SELECT count(*) FROM receipt") == 1


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
    with service.storage.token_holders.invalidating():
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


async def test_agent_created_running_runs_once(api: Api) -> None:
    body = {"name": "Bob", "model": "builtin/inbox", "status": "running"}
    first = await send(api, AGENTS, body)
    again = await send(api, AGENTS, body)
    assert first.body["status"] == "running"
    assert (is_replay(again), again.body) == (True, first.body)
    assert len((await api.get(f"{AGENTS}{first.body['id']}/runs/")).body) == 1


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
    purge = ReceiptCleaner(service.storage.receipts, clock)
    clock.advance(23 * HOUR.total_seconds())
    await purge.run_once()
    assert is_replay(await send(api, TEMPLATES, BODIES[TEMPLATES]))
    clock.advance(2 * HOUR.total_seconds())
    await purge.run_once()
    second = await send(api, TEMPLATES, BODIES[TEMPLATES])
    assert second.body["id"] != first.body["id"]
