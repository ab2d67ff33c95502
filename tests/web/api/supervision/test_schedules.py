"""Schedules over HTTP: their fields, PUT by name, requests to notify, the record, and what is refused."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from supervisors.policy.schedules import WATCH_ENDS
from supervisors.text import format_timestamp
from tests.web.api.toolbox.toolbox import create_adapter, create_tool
from tests.web.conftest import Api, Service

SCHEDULES = "/api/defaults/schedules/"
LOCALS = [f"2127-01-0{day}T09:00:00+01:00" for day in range(1, 6)]


async def create(api: Api, **body: Any) -> Any:
    agent = await api.create_agent(timezone="Europe/Vienna")
    given = {"agent": agent["id"], "title": "Figures", "cron": "0 9 * * *", "starts_at": "2127-01-01T08:00"}
    return await api.create(SCHEDULES, **{**given, **body})


async def test_schedule_has_the_documented_fields(api: Api) -> None:
    created = await create(api)
    assert created == {
        "id": created["id"],
        "agent": created["agent"],
        "name": "Figures",
        "title": "Figures",
        "body": "",
        "priority": "high",
        "cron": "0 9 * * *",
        "every_seconds": None,
        "timezone": None,
        "starts_at": "2127-01-01T07:00:00.000000Z",
        "ends_at": None,
        "max_occurrences": None,
        "late_seconds": None,
        "if_uncleared": "merge",
        "only_if": "always",
        "jitter_seconds": 0,
        "check": None,
        "paused": False,
        "paused_reason": "",
        "says": "At 9:00, every day, Vienna time",
        "effective_timezone": "Europe/Vienna",
        "next_at": "2127-01-01T08:00:00.000000Z",
        "last_at": None,
        "last_outcome": None,
        "last_notification": None,
        "missed_count": 0,
        "created_at": created["created_at"],
        "created_by": created["created_by"],
        "upcoming": created["upcoming"],
    }
    assert created["created_by"]["type"] == "key"
    assert [moment["local"] for moment in created["upcoming"]] == LOCALS
    assert created["upcoming"][0]["at"] == created["next_at"]


async def test_schedule_put_by_name_twice_changes_nothing(api: Api) -> None:
    agent = await api.create_agent()
    path = f"/api/cloud/agents/{agent['id']}/schedules/every%20morning/"
    body = {"title": "Figures", "cron": "0 9 * * 1-5"}
    first = await api.request("PUT", path, json=body)
    again = await api.request("PUT", path, json=body)
    replaced = await api.request("PUT", path, json={"title": "Figures", "every_seconds": 3600})
    assert [answer.status for answer in (first, again, replaced)] == [200, 200, 200]
    assert first.body == again.body
    assert (first.body["name"], replaced.body["id"]) == ("every morning", first.body["id"])
    assert (replaced.body["cron"], replaced.body["says"]) == (None, "Every hour")
    events = await api.get(
        f"/api/cloud/agents/{agent['id']}/events/", params={"after": 0, "type": "schedule.*"}
    )
    assert [event["type"] for event in events.body["events"]] == ["schedule.created", "schedule.changed"]
    assert events.body["events"][1]["data"] == {"fields": ["cron", "every_seconds"]}


@pytest.mark.parametrize("name", ["a%00b", "%20", "x" * 101])
async def test_name_in_path_that_cannot_be_is_refused(api: Api, name: str) -> None:
    agent = await api.create_agent()
    body = {"title": "Figures", "cron": "0 9 * * 1-5"}
    answer = await api.request("PUT", f"/api/cloud/agents/{agent['id']}/schedules/{name}/", json=body)
    assert (answer.status, list(answer.body)) == (400, ["name"])


async def test_pause_hides_the_next_moment_until_it_ends(api: Api) -> None:
    created = await create(api)
    path = f"{SCHEDULES}{created['id']}/"
    paused = (await api.patch(path, {"paused": True})).body
    assert (paused["paused"], paused["paused_reason"], paused["next_at"], paused["upcoming"]) == (
        True,
        "manual",
        None,
        [],
    )
    listed = [(await api.get(SCHEDULES, params={"paused": value})).body for value in ("true", "false")]
    assert [[each["id"] for each in found] for found in listed] == [[created["id"]], []]
    assert (await api.patch(path, {"paused": False})).body == created


async def test_request_notifies_at_once_and_is_recorded(api: Api) -> None:
    agent = await api.create_agent()
    created = await create(api, agent=agent["id"], body="Look.", paused=True)
    occurred = await api.post(f"{SCHEDULES}{created['id']}/run/")
    assert (occurred.status, occurred.body["outcome"]) == (200, "manual")
    [notification] = (await api.get("/api/defaults/notifications/", params={"agent": agent["id"]})).body
    assert notification["id"] == occurred.body["notification"]
    assert (notification["source"], notification["source_id"]) == ("system", created["id"])
    path = f"{SCHEDULES}{created['id']}/occurrences/"
    assert (await api.get(path)).body == [occurred.body]
    assert (await api.get(path, params={"outcome": "fired"})).body == []


async def test_hint_warns_of_two_restricted_day_fields(api: Api) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "title": "Figures", "cron": "0 9 1 * 1"}
    answer = await api.post(SCHEDULES, body)
    assert "MON#1" in answer.headers["X-Hint"]
    preview = await api.post(f"{SCHEDULES}preview/", {"cron": "0 9 1 * 1"})
    assert (preview.body["hint"], len(preview.body["upcoming"])) == (answer.headers["X-Hint"], 5)
    assert (await api.post(SCHEDULES, {**body, "name": "b", "cron": "0 9 1 * *"})).headers.get(
        "X-Hint"
    ) is None


async def test_preview_shows_moments_without_creating_anything(api: Api) -> None:
    body = {"cron": "0 9 * * 1-5", "timezone": "Europe/Vienna", "n": 7}
    preview = await api.post(f"{SCHEDULES}preview/", body)
    assert preview.body["says"] == "At 9:00, Monday to Friday, Vienna time"
    assert len(preview.body["upcoming"]) == 7
    assert (await api.get(SCHEDULES)).body == []


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"cron": "0 0 30 2 *"}, {"cron": ["This is no cron expression: Bad day-of-month."]}),
        ({"cron": None}, {"cron": ["Give exactly one of cron and every_seconds."]}),
        ({"every_seconds": 60}, {"cron": ["Give exactly one of cron and every_seconds."]}),
        (
            {"cron": None, "every_seconds": 59},
            {"every_seconds": ["Ensure this value is greater than or equal to 60."]},
        ),
        ({"ends_at": "2000-01-01T00:00Z"}, {"ends_at": ["It does not come before that."]}),
        (
            {"timezone": "Europe/Viena"},
            {"timezone": ['"Europe/Viena" is not a valid choice. Did you mean "Europe/Vienna"?']},
        ),
        (
            {"timezone": "new york"},
            {"timezone": ['"new york" is not a valid choice. Did you mean "America/New_York"?']},
        ),
    ],
)
async def test_schedule_that_cannot_be_is_refused(api: Api, changes: Any, refusal: Any) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "title": "Figures", "cron": "0 9 * * *", **changes}
    answer = await api.post(SCHEDULES, body)
    assert (answer.status, answer.body) == (400, refusal)


async def test_name_that_another_schedule_has_is_refused(api: Api) -> None:
    created = await create(api)
    body = {"agent": created["agent"], "title": "Figures", "cron": "0 9 * * *"}
    answer = await api.post(SCHEDULES, body)
    assert (answer.status, answer.body) == (
        400,
        {"non_field_errors": ["The fields agent, name must make a unique set."]},
    )


async def test_schedule_is_why_its_agent_wakes(api: Api) -> None:
    created = await create(api)
    shown = (await api.get(f"/api/cloud/agents/{created['agent']}/supervisor/")).body
    because = 'The schedule "Figures" wakes it at 2127-01-01 9:00 Vienna time.'
    assert shown["why"].endswith(because)
    assert shown["next_wake"] == {"at": created["next_at"], "because": because}
    path = f"/api/cloud/agents/{created['agent']}/timeline/"
    period = {"start": "2127-01-01T00:00", "end": "2127-01-03T00:00"}
    ahead = (await api.get(path, params=period)).body["ahead"]
    assert [(each["kind"], each["because"], each["resource"]) for each in ahead] == [
        ("schedule", 'The schedule "Figures" comes.', created["id"])
    ] * 2
    await api.patch(f"{SCHEDULES}{created['id']}/", {"priority": "low"})
    assert (await api.get(f"/api/cloud/agents/{created['agent']}/supervisor/")).body["next_wake"] is None


async def test_jitter_counts_in_why_agenda_and_timeline(api: Api) -> None:
    created = await create(api, jitter_seconds=3600, starts_at=None, cron=None, every_seconds=7200)
    planned = datetime.fromisoformat(created["next_at"])
    digest = int.from_bytes(sha256(UUID(created["id"]).bytes).digest()[:8])
    comes = format_timestamp(planned + timedelta(seconds=digest % 3601))
    path = f"/api/cloud/agents/{created['agent']}/"
    assert (await api.get(f"{path}supervisor/")).body["next_wake"]["at"] == comes
    [item] = (await api.get("/api/cloud/overview/")).body["agenda"]
    assert item["at"] == comes
    period = {"start": created["created_at"], "end": format_timestamp(planned + timedelta(hours=2))}
    assert (await api.get(f"{path}timeline/", params=period)).body["ahead"][0]["at"] == comes


async def test_limits_delay_what_a_schedule_brings(api: Api) -> None:
    created = await create(api, only_if="waiting")
    path = f"/api/cloud/agents/{created['agent']}/"
    assert (await api.get(f"{path}supervisor/")).body["why"].endswith("9:00 Vienna time, if anything waits.")
    await api.patch(path, {"quiet_hours": "22:00-10:30"})
    because = 'The schedule "Figures" comes. Quiet until 2127-01-01 09:30 UTC.'
    assert (await api.get(f"{path}supervisor/")).body["next_wake"] == {
        "at": "2127-01-01T09:30:00.000000Z",
        "because": because,
    }


async def test_agenda_has_what_schedules_bring(api: Api) -> None:
    agent = await api.create_agent()
    await api.create(SCHEDULES, agent=agent["id"], title="Figures", every_seconds=3600)
    [item] = (await api.get("/api/cloud/overview/")).body["agenda"]
    assert (item["kind"], item["because"]) == ("schedule", 'The schedule "Figures" comes.')


async def test_schedule_without_a_zone_needs_a_person(service: Service, api: Api) -> None:
    created = await create(api)
    lost = "UPDATE schedule SET paused_reason = 'timezone', timezone = 'Europe/Atlantis', due_at = NULL"
    await service.storage.pool.execute(lost)
    [item] = (await api.get("/api/cloud/overview/")).body["attention"]
    assert (item["kind"], item["schedule"]) == ("stopped_schedule", created["id"])
    assert "Europe/Atlantis is not known any more" in item["sentence"]
    mended = await api.patch(f"{SCHEDULES}{created['id']}/", {"timezone": None})
    assert (mended.body["paused_reason"], mended.body["next_at"]) == ("", created["next_at"])


async def test_schedule_gets_a_zone_although_that_of_its_agent_is_unknown(service: Service, api: Api) -> None:
    created = await create(api)
    await service.storage.pool.execute("UPDATE agent SET timezone = 'Europe/Atlantis'")
    mended = await api.patch(f"{SCHEDULES}{created['id']}/", {"timezone": "Europe/Vienna"})
    assert (mended.status, mended.body["next_at"]) == (200, created["next_at"])


async def test_metrics_count_what_became_of_moments(service: Service, api: Api) -> None:
    created = await create(api)
    await api.post(f"{SCHEDULES}{created['id']}/run/")
    metrics = (await service.operator.get("/metrics")).body
    assert 'hostsvc_schedule_occurrences_total{outcome="manual"} 1.0' in metrics
    assert "hostsvc_schedule_late_seconds_total 0.0" in metrics


def days_ahead(days: float) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat()


async def agent_with_tools(api: Api) -> Any:
    """Create an agent with the tool `look`, which is idempotent, and `buy`, which is not."""
    adapter = await create_adapter(api)
    await create_tool(api, adapter, name="look", idempotent=True)
    await create_tool(api, adapter, name="buy")
    return await api.create_agent(adapters=[adapter["id"]])


async def test_check_needs_an_idempotent_tool_of_the_agent(api: Api) -> None:
    agent = await agent_with_tools(api)
    body = {"agent": agent["id"], "title": "Prices", "every_seconds": 60, "ends_at": days_ahead(1)}
    for tool, message in (
        ("buy", "The tool buy is not marked as idempotent."),
        ("list_runs", "The tool list_runs is not marked as idempotent."),
        ("sell", "There is no tool named sell."),
    ):
        refused = await api.post(SCHEDULES, {**body, "check": {"tool": tool}})
        assert (refused.status, refused.body) == (400, {"check": {"tool": [message]}})
    created = await api.create(SCHEDULES, **body, check={"tool": "look", "wake_if": "nonempty"})
    assert created["check"] == {"tool": "look", "arguments": {}, "wake_if": "nonempty"}
    path = f"{SCHEDULES}{created['id']}/"
    refused = await api.patch(path, {"check": {"tool": "buy"}})
    assert (refused.status, list(refused.body)) == (400, ["check"])
    refused = await api.patch(path, {"check": {"tool": "look", "arguments": {"a": "x" * 10_000}}})
    assert refused.body == {"check": {"arguments": ["Ensure this value has at most 10000 bytes."]}}
    assert (await api.patch(path, {"check": None})).body["check"] is None
    told = {"after": 0, "type": "schedule.changed"}
    events = (await api.get(f"/api/cloud/agents/{agent['id']}/events/", params=told)).body["events"]
    assert [event["data"] for event in events] == [{"fields": ["check"]}]


async def test_schedule_with_check_ends_within_30_days_and_is_renewed(service: Service, api: Api) -> None:
    agent = await agent_with_tools(api)
    body = {"agent": agent["id"], "title": "Prices", "every_seconds": 60, "check": {"tool": "look"}}
    for given in ({}, {"ends_at": None}, {"ends_at": days_ahead(31)}):
        refused = await api.post(SCHEDULES, {**body, **given})
        assert (refused.status, refused.body) == (400, {"ends_at": [WATCH_ENDS]})
    created = await api.create(SCHEDULES, **body, ends_at=days_ahead(29))
    ended = "UPDATE schedule SET paused_reason = 'ended', next_at = NULL, due_at = NULL, ends_at = $1"
    await service.storage.pool.execute(ended, datetime.now(UTC))
    path = f"{SCHEDULES}{created['id']}/"
    assert (await api.get(path)).body["paused_reason"] == "ended"
    renewed = await api.patch(path, {"ends_at": days_ahead(29)})
    assert (renewed.status, renewed.body["paused_reason"]) == (200, "")
    assert renewed.body["next_at"] is not None


async def test_schedule_with_check_promises_no_wake(api: Api) -> None:
    agent = await agent_with_tools(api)
    body = {"agent": agent["id"], "title": "Prices", "every_seconds": 3600, "ends_at": days_ahead(1)}
    await api.create(SCHEDULES, **body, check={"tool": "look"})
    assert (await api.get(f"/api/cloud/agents/{agent['id']}/supervisor/")).body["next_wake"] is None
    assert (await api.get("/api/cloud/overview/")).body["agenda"] == []


async def test_deleted_schedule_is_gone_and_its_notifications_stay(api: Api) -> None:
    created = await create(api)
    await api.post(f"{SCHEDULES}{created['id']}/run/")
    assert (await api.delete(f"{SCHEDULES}{created['id']}/")).status == 204
    assert (await api.get(f"{SCHEDULES}{created['id']}/")).status == 404
    assert len((await api.get("/api/defaults/notifications/")).body) == 1


async def test_interval_takes_the_place_of_an_expression(api: Api) -> None:
    created = await create(api)
    changed = await api.patch(f"{SCHEDULES}{created['id']}/", {"every_seconds": 5400})
    assert (changed.body["cron"], changed.body["says"]) == (None, "Every 90 minutes")
