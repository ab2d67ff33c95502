"""Timelines over HTTP: what happened to an agent, compared with what was said of it at the time."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from storage.events.events import MAX_ID
from storage.identity.instance import Instance
from supervisors.text import format_timestamp
from supervisors.timeline import timelines
from tests.web.conftest import Api, Service

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
AGENTS = "/api/cloud/agents/"
INSERT = """
INSERT INTO event (at, type, organization_id, agent_id, phase, data)
SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::json[])
"""
CLEAR = "/api/defaults/notifications/clear/"


def timeline_of(agent: Any) -> str:
    return f"{AGENTS}{agent['id']}/timeline/"


def supervisor_of(agent: Any) -> str:
    return f"{AGENTS}{agent['id']}/supervisor/"


def stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


async def observe(service: Service, api: Api, agent: Any) -> tuple[str, str, str]:
    """Return the moment, the phase and the sentence of the agent when all is quiet."""
    await service.wait_until_idle()
    shown = (await api.get(supervisor_of(agent))).body
    return stamp(datetime.now(UTC)), shown["phase"], shown["why"]


async def live_through(service: Service, api: Api, agent: Any) -> list[tuple[str, str, str]]:
    """Take an agent through its phases, and return what was said of it after each step."""
    path = f"{AGENTS}{agent['id']}/"
    said = [await observe(service, api, agent)]
    await api.create_notification(agent, priority="high", source="sms")
    said.append(await observe(service, api, agent))
    await api.post(f"{path}run/")
    said.append(await observe(service, api, agent))
    await api.post(CLEAR, {"agent": agent["id"]})
    run = (await api.get(supervisor_of(agent))).body["run"]["id"]
    await api.post(f"{path}stop/", {"reason": "lunch", "force": True})
    await api.get(f"{path}runs/{run}/?wait=20")
    said.append(await observe(service, api, agent))
    await api.patch(path, {"status": "archived"})
    said.append(await observe(service, api, agent))
    await api.patch(path, {"status": "sleeping"})
    said.append(await observe(service, api, agent))
    return said


async def test_past_is_explained_as_it_was_then(service: Service, api: Api) -> None:
    agent = await api.create_agent(debounce_window_seconds=600)

    said = await live_through(service, api, agent)

    assert [phase for _, phase, _ in said] == ["asleep", "holding", "running", "asleep", "archived", "asleep"]
    bands = (await api.get(timeline_of(agent))).body["bands"]
    for moment, phase, why in said:
        past = (await api.get(f"{supervisor_of(agent)}?at={moment}")).body
        assert (past["phase"], past["why"]) == (phase, why)
        band = next(band for band in bands if band["start"] <= moment < band["end"])
        assert (band["phase"], band["why"], band["run"]) == (phase, why, past["run"])


async def test_past_names_since_run_and_next_wake(service: Service, api: Api) -> None:
    agent = await api.create_agent(debounce_window_seconds=600)
    await api.create_notification(agent, priority="high", source="sms")
    await api.post(f"{AGENTS}{agent['id']}/stop/")
    await api.create_notification(agent, priority="high", scheduled_for="2126-11-22T10:00:00Z")
    moment, _, _ = await observe(service, api, agent)
    live = (await api.get(supervisor_of(agent))).body

    past = (await api.get(f"{supervisor_of(agent)}?at={moment}")).body

    assert (past["since"], past["next_wake_at"]) == (live["since"], live["next_wake"]["at"])
    assert (past["agent"], past["name"], past["organization"]) == (
        agent["id"],
        agent["name"],
        agent["organization"],
    )
    assert (past["run"], past["at"][:19]) == (None, moment[:19])
    by_operator = (await service.operator.get(f"/status/supervisors/{agent['id']}/?at={moment}")).body
    assert by_operator == past


async def test_past_before_the_first_change_began_with_the_agent(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    moment, _, _ = await observe(service, api, agent)
    path = f"{supervisor_of(agent)}?at={moment}"
    for _ in range(2):
        past = (await api.get(path)).body
        assert (past["phase"], past["since"]) == ("asleep", agent["created_at"])
        await api.patch(f"{AGENTS}{agent['id']}/", {"status": "archived"})
        await service.wait_until_idle()


async def test_period_of_31_days_may_have_one_of_25_hours(api: Api) -> None:
    agent = await api.create_agent(timezone="America/New_York")

    answer = await api.get(f"{timeline_of(agent)}?start=2026-10-23T00:00&end=2026-11-23T00:00")

    assert (answer.status, answer.body["start"][:19]) == (200, "2026-10-23T04:00:00")


async def test_local_times_are_those_of_the_agent(service: Service, api: Api) -> None:
    agent = await api.create_agent(timezone="Asia/Tokyo")

    shown = (await api.get(f"{timeline_of(agent)}?start=2026-01-02T00:00&end=2026-01-03T00:00")).body
    past = (await api.get(f"{supervisor_of(agent)}?at=2026-01-02T00:00")).body

    assert (shown["start"], shown["end"]) == ("2026-01-01T15:00:00.000000Z", "2026-01-02T15:00:00.000000Z")
    assert past["at"] == "2026-01-01T15:00:00.000000Z"


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("start=2026-01-02T00:00Z&end=2026-01-02T00:00Z", "start", "start must be before end."),
        ("start=2999-01-02T00:00Z", "start", "start must be before end."),
        (
            "start=2026-01-01T00:00Z&end=2026-02-01T01:00:01Z",
            "start",
            "The period may be at most 31 days long",
        ),
        ("start=0001-01-01T00:00Z", "start", "Datetime value out of range."),
    ],
)
async def test_bad_period_is_refused(api: Api, query: str, field: str, message: str) -> None:
    agent = await api.create_agent()

    answer = await api.get(f"{timeline_of(agent)}?{query}")

    assert answer.status == 400
    assert answer.body[field][0].startswith(message)


@pytest.mark.parametrize(
    ("at", "message"),
    [("2999-01-01T00:00Z", "This moment lies ahead"), ("last night", "Datetime has wrong format.")],
)
async def test_moment_ahead_or_none_is_refused(service: Service, api: Api, at: str, message: str) -> None:
    agent = await api.create_agent()

    for caller, path in (
        (api, supervisor_of(agent)),
        (service.operator, f"/status/supervisors/{agent['id']}/"),
    ):
        answer = await caller.get(f"{path}?at={at}")
        assert answer.status == 400
        assert answer.body["at"][0].startswith(message)


async def test_first_days_of_the_calendar_can_be_shown(api: Api) -> None:
    agent = await api.create_agent()

    shown = (await api.get(f"{timeline_of(agent)}?end=0001-01-01T00:00:01Z")).body

    assert [band["phase"] for band in shown["bands"]] == ["unknown"]


async def test_notification_is_one_mark_until_its_clearing(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    path = f"{AGENTS}{agent['id']}/"
    kept = await api.create_notification(agent, title="Kept")
    cleared = await api.create_notification(agent, title="Cleared")
    await api.post(CLEAR, {"agent": agent["id"], "ids": [cleared["id"]]})
    done = (await api.get(f"/api/defaults/notifications/{cleared['id']}/")).body
    await api.patch(path, {"name": "Renamed"})
    await api.post(f"{path}run/")
    await service.wait_until_idle()

    marks = (await api.get(timeline_of(agent))).body["marks"]

    by_resource = {mark["resource"]: mark for mark in marks if mark["type"] == "notification.created"}
    assert (by_resource[kept["id"]]["title"], by_resource[kept["id"]]["cleared_at"]) == ("Kept", None)
    mark = by_resource[cleared["id"]]
    assert (mark["title"], mark["at"], mark["cleared_at"]) == (
        "Cleared",
        cleared["created_at"],
        done["cleared_at"],
    )
    assert mark["by"] == mark["cleared_by"]
    assert [mark["type"] for mark in marks].count("notification.cleared") == 0
    (requested,) = [mark for mark in marks if mark["type"] == "run.started"]
    assert requested["by"]["type"] == mark["by"]["type"]


async def test_notifications_of_earlier_days_wait_in_the_period(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    kept = await api.create_notification(agent, title="Kept")
    later = await api.create_notification(agent, title="Cleared after the period")
    within = await api.create_notification(agent, title="Cleared in the period")
    soon = await api.create_notification(agent, title="Due", scheduled_for=stamp(datetime.now(UTC)))
    await api.create_notification(agent, title="Not due", scheduled_for="2126-11-22T10:00:00Z")
    start = datetime.now(UTC)
    await api.post(CLEAR, {"agent": agent["id"], "ids": [within["id"]]})
    end = datetime.now(UTC)
    await api.post(CLEAR, {"agent": agent["id"], "ids": [later["id"]]})
    done = (await api.get(f"/api/defaults/notifications/{later['id']}/")).body

    shown = (await api.get(f"{timeline_of(agent)}?start={stamp(start)}&end={stamp(end)}")).body

    assert [one["notification"] for one in shown["waiting"]] == [kept["id"], later["id"], soon["id"]]
    assert shown["waiting"][1] == {
        "notification": later["id"],
        "title": "Cleared after the period",
        "priority": "low",
        "created_at": later["created_at"],
        "due_at": None,
        "cleared_at": done["cleared_at"],
    }
    assert shown["waiting"][2]["due_at"] == soon["scheduled_for"]
    assert [mark["resource"] for mark in shown["marks"]] == [within["id"]]
    assert shown["marks"][0]["priority"] == "low"


async def test_last_of_too_many_waiting_notifications_are_shown(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "MAX_WAITING", 2)
    agent = await api.create_agent()
    for title in ("1", "2", "3"):
        await api.create_notification(agent, title=title)

    shown = (
        await api.get(
            f"{timeline_of(agent)}?start={stamp(datetime.now(UTC))}&end={stamp(datetime.now(UTC) + MINUTE)}"
        )
    ).body

    assert [one["title"] for one in shown["waiting"]] == ["2", "3"]


async def test_ahead_names_wake_reminder_and_budget(service: Service, api: Api) -> None:
    agent = await api.create_agent(max_cost_usd_per_day=5)
    due_at = (datetime.now(UTC) + timedelta(hours=30)).replace(microsecond=0)
    reminder = await api.create_notification(
        agent, priority="high", title="Call Ann", scheduled_for=due_at.isoformat()
    )
    await service.wait_until_idle()
    end = stamp(due_at + timedelta(hours=1))

    shown = (await api.get(f"{timeline_of(agent)}?end={end}&start={stamp(datetime.now(UTC))}")).body

    at = due_at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    kinds = [one["kind"] for one in shown["ahead"]]
    assert sorted(kinds) == ["budget_renewal", "reminder", "wake"]
    (called,) = [one for one in shown["ahead"] if one["kind"] == "reminder"]
    assert called == {
        "at": at,
        "kind": "reminder",
        "because": 'The reminder "Call Ann" falls due.',
        "resource": reminder["id"],
    }
    assert shown["bands"][-1]["end"] < end


async def test_pause_of_the_organization_covers_its_agents(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    organization = f"/api/organizations/organizations/{agent['organization']}/"
    said = [await observe(service, api, agent)]
    for paused in (True, False):
        await api.patch(organization, {"paused": paused})
        said.append(await observe(service, api, agent))

    assert [phase for _, phase, _ in said] == ["asleep", "paused", "asleep"]
    for moment, phase, why in said:
        past = (await api.get(f"{supervisor_of(agent)}?at={moment}")).body
        assert (past["phase"], past["why"]) == (phase, why)
    bands = (await api.get(timeline_of(agent))).body["bands"]
    assert [band["phase"] for band in bands][-3:] == ["asleep", "paused", "asleep"]


async def test_pause_of_the_instance_covers_all_agents(service: Service, api: Api) -> None:
    agent, instance = await api.create_agent(), Instance(service.storage.pool)
    organization = f"/api/organizations/organizations/{agent['organization']}/"
    said = [await observe(service, api, agent)]
    for because, is_paused in (("a test wants it", True), ("a test wants it", False), ("", None)):
        await instance.set_paused(datetime.now(UTC), because)
        if is_paused is not None:
            await api.patch(organization, {"paused": is_paused})
        said.append(await observe(service, api, agent))

    assert [phase for _, phase, _ in said] == ["asleep", "paused", "paused", "asleep"]
    assert said[1][2] == said[2][2]
    assert said[1][2].endswith(
        ": a test wants it. Nothing starts until an operator runs hostsvc unpause --all."
    )
    for moment, phase, why in said:
        past = (await api.get(f"{supervisor_of(agent)}?at={moment}")).body
        assert (past["phase"], past["why"]) == (phase, why)
    bands = (await api.get(timeline_of(agent))).body["bands"]
    assert [(band["phase"], band["why"]) for band in bands][-3:] == [said[0][1:], said[1][1:], said[3][1:]]


async def test_agent_without_events_is_told_of_the_pause_now_and_at_present(
    service: Service, api: Api
) -> None:
    agent = await api.create_agent()
    await Instance(service.storage.pool).set_paused(datetime.now(UTC), "a test wants it")
    await service.storage.pool.execute("UPDATE instance SET chained_event_id = $1", MAX_ID)
    await service.storage.pool.execute("DELETE FROM event")
    _, _, why = await observe(service, api, agent)
    assert (await api.get(timeline_of(agent))).body["bands"][-1]["why"] == why


async def write_runs(service: Service, agent: Any, start: datetime, number: int) -> None:
    """Write the events of runs of 20 s, one a minute from `start` on, without living through them."""
    organization, agent_id = UUID(agent["organization"]), UUID(agent["id"])
    rows = [
        (
            start + timedelta(minutes=index, seconds=seconds),
            kind,
            organization,
            agent_id,
            phase,
            {"why": kind},
        )
        for index in range(number)
        for seconds, kind, phase in (
            (0, "notification.created", None),
            (0, "run.started", "running"),
            (20, "agent.asleep", "asleep"),
        )
    ]
    await service.storage.pool.execute(INSERT, *zip(*rows, strict=True))


async def test_too_many_changes_are_refused_with_an_end_that_fits(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "MAX_CHANGES", 10)
    agent = await api.create_agent()
    start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(days=2)
    await write_runs(service, agent, start, 8)
    period = f"{timeline_of(agent)}?start={stamp(start - MINUTE)}&end="

    refused = await api.get(f"{period}{stamp(start + timedelta(days=1))}")
    fits = format_timestamp(start + 5 * MINUTE)
    shown = await api.get(f"{period}{fits}")

    assert refused.status == 400
    assert refused.body["end"][0].startswith(f"Choose an end up to {fits}, or a later start: ")
    assert [band["phase"] for band in shown.body["bands"]][1:] == ["running", "asleep"] * 5


async def test_earliest_of_too_many_marks_are_counted(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "MAX_MARK_EVENTS", 10)
    agent = await api.create_agent()
    start = datetime.now(UTC) - timedelta(hours=1)
    await write_runs(service, agent, start, 13)

    shown = (await api.get(f"{timeline_of(agent)}?end={stamp(start + timedelta(minutes=30))}")).body

    assert shown["marks_left_out"] == 3
    assert [mark["at"] for mark in shown["marks"]] == [
        format_timestamp(start + timedelta(minutes=minute)) for minute in range(3, 13)
    ]


async def test_too_many_pauses_are_refused(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "MAX_PAUSES", 2)
    agent = await api.create_agent()
    for paused in (True, False, True):
        await api.patch(f"/api/organizations/organizations/{agent['organization']}/", {"paused": paused})

    answer = await api.get(timeline_of(agent))

    assert answer.status == 400
    assert answer.body["end"][0].startswith("Choose an end up to ")
