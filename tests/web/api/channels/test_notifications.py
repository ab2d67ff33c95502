"""Notifications over HTTP: bodies, wake-ups, filters and clearing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api, Service

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
    }
    assert datetime.fromisoformat(created["created_at"]).tzinfo is UTC
    assert created["created_at"].endswith("Z")
    assert len(created["created_at"]) == len("2026-11-21T09:00:00.000000Z")
    assert (await api.get(f"{NOTIFICATIONS}{created['id']}/")).body == created


@pytest.mark.parametrize("form", ["json", "data"])
async def test_notification_may_be_written_as_json_or_form(api: Api, form: str) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "title": "Hello", "priority": "high", "scheduled_for": "2127-01-01T00:00Z"}
    answer = await api.request("POST", NOTIFICATIONS, **{form: body})
    assert (answer.status, answer.body["scheduled_for"]) == (201, "2127-01-01T00:00:00.000000Z")


async def test_high_notification_wakes_the_agent(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    await api.create_notification(agent, priority="high")
    answer = await api.post(f"/api/cloud/agents/{agent['id']}/run/")
    assert answer.body["status"] in {"already_running", "started"}
    shown = await api.get(f"/api/cloud/agents/{agent['id']}/")
    assert (shown.body["status"], shown.body["last_wake_reason"]) == ("running", "notification:api")


async def test_empty_body_lacks_required_fields(api: Api) -> None:
    answer = await api.request("POST", NOTIFICATIONS)
    required = ["This field is required."]
    assert (answer.status, answer.body) == (400, {"agent": required, "title": required})


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


async def test_deleted_notification_is_gone(api: Api) -> None:
    created = await api.create_notification(await api.create_agent())
    path = f"{NOTIFICATIONS}{created['id']}/"
    answer = await api.delete(path)
    assert (answer.status, answer.body) == (204, "")
    assert [(await api.request(method, path)).status for method in ("GET", "PATCH", "DELETE")] == [404] * 3


async def test_request_behind_a_lasting_lock_is_refused(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    async with service.storage.pool.transaction() as holder:
        await holder.execute("SELECT FROM agent_state FOR UPDATE")
        answer = await api.post(NOTIFICATIONS, {"agent": agent["id"], "title": "Hello", "priority": "high"})
    detail = "Another change to the same resource takes too long."
    assert (answer.status, answer.body) == (503, {"detail": detail})
    assert int(answer.headers["Retry-After"]) > 0


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


async def test_notifications_of_an_agent_are_cleared_together(api: Api) -> None:
    agent, bob = await api.create_agent(), await api.create_agent()
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    first, second = [await api.create_notification(agent) for _ in range(2)]
    ahead = await api.create_notification(agent, priority="high", scheduled_for=later)
    await api.create_notification(bob)

    async def clear(**body: Any) -> Any:
        answer = await api.post(f"{NOTIFICATIONS}clear/", {"agent": agent["id"], **body})
        assert answer.status == 200
        return answer.body

    assert await clear(ids=[]) == {"cleared": 0}
    assert await clear(ids=[first["id"]]) == {"cleared": 1}
    assert await clear() == {"cleared": 1}
    assert await clear(ids=[first["id"], second["id"], ahead["id"]]) == {"cleared": 1}
    assert await clear() == {"cleared": 0}
    assert len((await api.get(f"{NOTIFICATIONS}?cleared=false")).body) == 1


async def test_clearing_takes_only_notifications_of_the_agent(api: Api, other: Api) -> None:
    agent, bob, theirs = await api.create_agent(), await api.create_agent(), await other.create_agent()
    own, of_bob = await api.create_notification(agent), await api.create_notification(bob)
    of_other = await other.create_notification(theirs)
    path = f"{NOTIFICATIONS}clear/"
    for unknown in (UNKNOWN_ID, of_bob["id"]):
        answer = await api.post(path, {"agent": agent["id"], "ids": [own["id"], unknown]})
        message = f'Invalid pk "{unknown}" - object does not exist.'
        assert (answer.status, answer.body) == (400, {"ids": {"1": [message]}})
    answer = await api.post(path, {"agent": agent["id"], "ids": [own["id"], of_other["id"]]})
    assert answer.status == 403
    assert (await api.post(path, {"agent": theirs["id"]})).status == 403
    assert (await api.post(path, {"agent": UNKNOWN_ID})).status == 400
    assert (await api.get(f"{NOTIFICATIONS}{own['id']}/")).body["cleared"] is False
