"""Every route that changes a recorded row leaves exactly its events, with its caller as the actor."""

from typing import Any

from tests.storage.events.recorded import forget_events
from tests.web.conftest import Api, Service
from web.app import ROUTES

AGENT = "/api/cloud/agents/{agent}/"
ACTIONS = "/api/cloud/agents/actions/"
NOTIFICATIONS = "/api/defaults/notifications/"
MESSAGES = "/api/defaults/messages/"
SCHEDULES = "/api/defaults/schedules/"
MESSAGE: dict[str, Any] = {"agent": "{agent}", "channel": "sms", "direction": "inbound", "body": "Hi"}
OUTBOUND = {**MESSAGE, "direction": "outbound"}
SELF = {"agent": "{agent}"}
DAILY = {"title": "Daily", "cron": "0 9 * * *"}


Step = tuple[str, str, dict[str, Any], list[str]]
STEPS: tuple[Step, ...] = (
    ("POST", NOTIFICATIONS, {**SELF, "title": "Low"}, ["notification.created"]),
    ("PATCH", NOTIFICATIONS + "{notification}/", {"title": "Lower"}, ["notification.changed"]),
    ("PATCH", NOTIFICATIONS + "{notification}/", {"title": "Lower"}, []),
    ("POST", NOTIFICATIONS + "clear/", SELF, ["notification.cleared"]),
    ("POST", NOTIFICATIONS + "clear/", SELF, []),
    ("PATCH", NOTIFICATIONS + "{notification}/", {"cleared": False}, ["notification.changed"]),
    (
        "POST",
        AGENT + "tools/clear_notification/",
        {"notification_id": "{notification}"},
        ["notification.cleared"],
    ),
    ("DELETE", NOTIFICATIONS + "{notification}/", {}, ["notification.deleted"]),
    ("POST", AGENT + "tools/create_notification/", {"title": "Note"}, ["notification.created"]),
    ("POST", MESSAGES, OUTBOUND, []),
    ("PATCH", MESSAGES + "{message}/", {"status": "sent"}, ["message.sent"]),
    ("PATCH", MESSAGES + "{message}/", {"body": "Hello"}, []),
    ("DELETE", MESSAGES + "{message}/", {}, []),
    ("POST", MESSAGES, MESSAGE, ["message.received", "notification.created"]),
    ("PUT", AGENT + "schedules/daily/", DAILY, ["schedule.created"]),
    ("PUT", AGENT + "schedules/daily/", DAILY, []),
    ("POST", SCHEDULES, {**SELF, **DAILY}, ["schedule.created"]),
    ("PATCH", SCHEDULES + "{schedule}/", {"paused": True}, ["schedule.changed"]),
    ("PATCH", SCHEDULES + "{schedule}/", {"paused": True}, []),
    ("POST", SCHEDULES + "{schedule}/run/", {}, ["schedule.occurred", "notification.created"]),
    ("POST", SCHEDULES + "{schedule}/run/", {}, ["schedule.occurred", "notification.changed"]),
    ("DELETE", SCHEDULES + "{schedule}/", {}, ["schedule.deleted"]),
    ("PATCH", AGENT, {"name": "Ranger"}, ["agent.changed"]),
    ("PATCH", AGENT, {"name": "Ranger"}, []),
    ("PATCH", AGENT, {"system_prompt": "Help."}, ["agent.changed"]),
    ("POST", AGENT + "prompts/1/revert/", {}, ["agent.changed"]),
    ("POST", AGENT + "tag/", {"tags": ["a"]}, ["agent.changed"]),
    ("POST", AGENT + "untag/", {"tags": ["a"]}, ["agent.changed"]),
    ("POST", ACTIONS, {"action": "tag", "agents": ["{agent}"], "tags": ["a"]}, ["agent.changed"]),
    ("POST", ACTIONS, {"action": "tag", "agents": ["{agent}"], "tags": ["a"]}, []),
    ("POST", ACTIONS, {"action": "untag", "agents": ["{agent}"], "tags": ["a"]}, ["agent.changed"]),
    ("POST", "/api/cloud/agents/", {"name": "Bob", "model": "builtin/inbox"}, ["agent.created"]),
    ("POST", AGENT + "stop/", {}, []),
    ("DELETE", AGENT, {}, ["agent.deleted"]),
)
RECORDED = (
    "notification.",
    "message.",
    "agent.created",
    "agent.changed",
    "agent.deleted",
    "schedule.",
    "organization.",
)
# These change the state of an agent, or none of these rows.
OTHERS = {
    ("POST", "/api/cloud/agents/{id}/preview/"),
    ("POST", "/api/cloud/agents/{id}/run/"),
    ("POST", "/api/defaults/schedules/preview/"),
    ("POST", "/api/cloud/agents/{id}/usage/"),
    ("DELETE", "/api/cloud/agents/{id}/transcript/"),
}
FAMILIES = ("/api/cloud/agents/", NOTIFICATIONS, MESSAGES, SCHEDULES)
KINDS = {NOTIFICATIONS: "notification", MESSAGES: "message", SCHEDULES: "schedule"}


def filled(value: Any, ids: dict[str, str]) -> Any:
    """Return the value with the ids in place of their names in braces."""
    if isinstance(value, dict):
        return {name: filled(one, ids) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, ids) for one in value]
    return value.format(**ids) if isinstance(value, str) else value


async def actors(service: Service) -> list[tuple[str, str]]:
    """Return the types and the actors of the events about recorded rows."""
    rows = await service.storage.pool.fetch("SELECT type, actor FROM event ORDER BY id")
    return [(row["type"], row["actor"]) for row in rows if row["type"].startswith(RECORDED)]


def pattern(path: str) -> str:
    """Return the path of a step as the routes name it."""
    for name in ("agent", *KINDS.values()):
        path = path.replace(f"{{{name}}}", "{id}")
    path = path.replace("/prompts/1/", "/prompts/{number}/").replace(
        "/schedules/daily/", "/schedules/{name}/"
    )
    return "/".join("{name}" if part.endswith("_notification") else part for part in path.split("/"))


async def test_each_change_leaves_its_events_with_the_caller(service: Service, api: Api) -> None:
    [key_id] = [key["id"] for key in await service.storage.pool.fetch("SELECT id FROM api_key")]
    ids = {"agent": (await api.create_agent())["id"]}
    for method, path, body, expected in STEPS:
        await forget_events(service.storage.pool)
        answer = await api.request(method, filled(path, ids), json=filled(body, ids))
        assert answer.status < 300, (method, path, answer.body)
        if method == "POST" and path in KINDS:
            ids[KINDS[path]] = answer.body["id"]
        assert await actors(service) == [(type_, f"key:{key_id}") for type_ in expected], (method, path)


def test_each_route_that_writes_recorded_rows_has_a_step() -> None:
    steps = {(method, pattern(path)) for method, path, _, _ in STEPS}
    routes = {
        (route.method, route.path)
        for route in ROUTES
        if route.method != "GET" and route.path.startswith(FAMILIES)
    }
    assert routes - steps == OTHERS


async def test_repeated_request_leaves_no_second_event(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "title": "Once"}
    await forget_events(service.storage.pool)
    for _ in range(2):
        answer = await api.post(NOTIFICATIONS, body, headers={"Idempotency-Key": "same"})
        assert answer.status == 201

    assert [type_ for type_, _ in await actors(service)] == ["notification.created"]


async def test_refused_request_leaves_no_event(service: Service, api: Api, other: Api) -> None:
    agent = await api.create_agent()
    created = await api.create_notification(agent)
    await forget_events(service.storage.pool)
    path = f"{NOTIFICATIONS}{created['id']}/"
    for answer in (
        await other.post(NOTIFICATIONS, {"agent": agent["id"], "title": "Foreign"}),
        await other.patch(path, {"cleared": True}),
        await other.delete(path),
        await other.delete(f"/api/cloud/agents/{agent['id']}/"),
        await other.post(f"{NOTIFICATIONS}clear/", {"agent": agent["id"]}),
    ):
        assert answer.status == 403

    assert await actors(service) == []


async def test_pause_of_an_agent_leaves_its_events(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    path = f"/api/cloud/agents/{agent['id']}/"
    for paused in (True, True, False):
        assert (await api.patch(path, {"paused": paused})).body["paused"] is paused

    rows = await service.storage.pool.fetch("SELECT type, actor FROM event WHERE type <> 'audit' ORDER BY id")
    assert [row["type"] for row in rows] == ["agent.created", "agent.paused", "agent.unpaused"]
    assert len({row["actor"] for row in rows}) == 1


async def test_pause_by_an_administrator_leaves_its_event(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    path = f"/api/organizations/organizations/{agent['organization']}/"
    assert (await api.patch(path, {"paused": True})).status == 200
    assert (await api.patch(path, {"paused": True})).status == 200

    types = [type_ for type_, _ in await actors(service) if type_.startswith("organization.")]
    assert types == ["organization.paused"]
