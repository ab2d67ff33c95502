"""Notifications over HTTP: bodies, wake-ups, filters and clearing."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api

NOTIFICATIONS = "/api/defaults/notifications/"


async def test_notification_has_the_documented_fields(api: Api) -> None:
    agent = await api.create_agent()
    created = await api.create_notification(agent, title="  Hello ", body=" text ", source_id="c1")
    assert created == {
        "id": created["id"],
        "agent": agent["id"],
        "source": "api",
        "source_id": "c1",
        "title": "Hello",
        "body": " text ",
        "priority": "low",
        "created_at": created["created_at"],
        "scheduled_for": None,
        "cleared": False,
        "cleared_at": None,
        "urgent": False,
    }
    assert datetime.fromisoformat(created["created_at"]).tzinfo is UTC
    assert created["created_at"].endswith("Z")
    assert len(created["created_at"]) == len("2026-11-21T09:00:00.000000Z")
    assert (await api.get(f"{NOTIFICATIONS}{created['id']}/")).body == created


async def test_local_time_uses_the_agent_timezone(api: Api, other: Api) -> None:
    agent = await api.create_agent(timezone="America/New_York")
    body = {"agent": agent["id"], "title": "Hello", "scheduled_for": "2127-01-01T09:00"}
    created = await api.post(NOTIFICATIONS, body)
    assert created.body["scheduled_for"] == "2127-01-01T14:00:00.000000Z"
    path = f"{NOTIFICATIONS}{created.body['id']}/"
    moved = await api.patch(path, {"scheduled_for": "2127-03-09T02:30"})
    assert moved.body["scheduled_for"] == "2127-03-09T07:30:00.000000Z"  # clocks skip 2:30 that day
    assert (await other.post(NOTIFICATIONS, body)).status == 403
    answer = await api.post(NOTIFICATIONS, {**body, "agent": UNKNOWN_ID})
    assert (answer.status, list(answer.body)) == (400, ["agent"])


async def test_low_reminder_is_answered_with_a_hint(api: Api) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "title": "Call Ada", "scheduled_for": "2127-01-01T09:00Z"}
    low = await api.post(NOTIFICATIONS, body)
    high = await api.post(NOTIFICATIONS, {**body, "priority": "high"})
    lowered = await api.patch(f"{NOTIFICATIONS}{high.body['id']}/", {"priority": "low"})
    due = await api.patch(f"{NOTIFICATIONS}{low.body['id']}/", {"scheduled_for": None})

    hints = [answer.headers.get("X-Hint") for answer in (low, high, lowered, due)]
    hint = "It will not wake the agent: its priority is low."
    assert hints == [hint, None, hint, None]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00.000001Z", "9999-12-31T23:59:59.999998Z"])
async def test_reminder_next_to_the_calendar_limits_is_stored(api: Api, moment: str) -> None:
    agent = await api.create_agent()
    created = await api.create_notification(agent, scheduled_for=moment)
    assert created["scheduled_for"] == moment
    assert (await api.get(NOTIFICATIONS)).body == [created]
    answer = await api.patch(f"{NOTIFICATIONS}{created['id']}/", {"priority": "high"})
    assert (answer.status, answer.body["scheduled_for"]) == (200, moment)
    assert (await api.get(f"/api/cloud/agents/{agent['id']}/supervisor/")).status == 200


async def test_clearing_sets_the_time_once_and_unclearing_removes_it(api: Api) -> None:
    created = await api.create_notification(await api.create_agent())
    path = f"{NOTIFICATIONS}{created['id']}/"
    cleared = (await api.patch(path, {"cleared": True})).body
    assert cleared["cleared"] is True
    assert cleared["cleared_at"] is not None
    assert (await api.patch(path, {"cleared": True, "title": "Same"})).body["cleared_at"] == cleared[
        "cleared_at"
    ]
    assert (await api.patch(path, {"cleared": "false"})).body["cleared_at"] is None


async def test_notifications_are_filtered_and_newest_first(api: Api) -> None:
    ann, bob = await api.create_agent(), await api.create_agent(name="Bob")
    first = await api.create_notification(ann, source="email")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    second = await api.create_notification(ann, priority="high", scheduled_for=later)
    third = await api.create_notification(bob)
    await api.patch(f"{NOTIFICATIONS}{third['id']}/", {"cleared": True})

    async def ids(query: str) -> list[str]:
        return [item["id"] for item in (await api.get(f"{NOTIFICATIONS}?{query}")).body]

    assert await ids("") == [third["id"], second["id"], first["id"]]
    assert await ids(f"agent={ann['id']}") == [second["id"], first["id"]]
    assert await ids("cleared=true") == [third["id"]]
    assert await ids("cleared=0&priority=low") == [first["id"]]
    assert await ids("source=email") == [first["id"]]
    assert await ids(f"agent={UNKNOWN_ID}") == []
