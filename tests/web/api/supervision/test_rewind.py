"""Rewinds over HTTP: what was recorded, what other settings would have led to, and what is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from storage.identity.instance import Instance
from supervisors.rewind import rewinds
from tests.storage.events.recorded import forget_events
from tests.web.conftest import Api, Service
from web.api.supervision import rewind

REWIND = "/api/cloud/rewind/"


async def rewound(api: Api, agent: Any, **patch: Any) -> Any:
    """Return the answer about the life of the agent until now."""
    asked = {"agent": agent["id"], "from": agent["created_at"], "to": datetime.now(UTC).isoformat()}
    answer = await api.post(REWIND, {**asked, "patch": patch})
    assert answer.status == 200, answer
    return answer.body


def hours_around_now() -> str:
    return "-".join(f"{datetime.now(UTC) + timedelta(hours=hours):%H:00}" for hours in (-2, 2))


async def woken_by_texts(service: Service, api: Api, *sources: str, **settings: Any) -> Any:
    """Return an agent that each of these notifications has woken."""
    agent = await api.create_agent(timezone="UTC", **settings)
    path = f"/api/cloud/agents/{agent['id']}/"
    for source in sources:
        await api.create_notification(agent, source=source, priority="high")
        await service.wait_until_idle()
        run = (await api.get(f"{path}supervisor/")).body["run"]["id"]
        await api.post("/api/defaults/notifications/clear/", {"agent": agent["id"]})
        await api.post(f"{path}stop/", {"force": True})
        await api.get(f"{path}runs/{run}/?wait=20")
    return agent


async def test_rewind_without_patch_reproduces_the_recorded_wakes(service: Service, api: Api) -> None:
    agent = await woken_by_texts(service, api, "sms", "api", "sms")

    answer = await rewound(api, agent)

    assert answer["recorded"] == answer["rewound"]
    assert (answer["recorded"]["wakes"], answer["reproduced"]) == (3, 3)
    assert answer["recorded"]["by_reason"] == {"notification:sms": 2, "notification:api": 1}
    assert answer["summary"].startswith(
        "With the settings of today the 3 wakes are 3; the median text waited "
    )


async def test_pause_of_the_instance_is_followed(service: Service, api: Api) -> None:
    agent, instance = await api.create_agent(), Instance(service.storage.pool)
    await instance.set_paused(datetime.now(UTC), "a test wants it")
    await api.create_notification(agent, source="api", priority="high")
    await service.wait_until_idle()
    held = await rewound(api, agent)
    await instance.set_paused(datetime.now(UTC), "")
    for paused in (True, False):  # which tells the agent
        await api.patch(f"/api/organizations/organizations/{agent['organization']}/", {"paused": paused})
    await service.wait_until_idle()
    started = await rewound(api, agent)

    assert (held["recorded"]["wakes"], held["rewound"]["wakes"]) == (0, 0)
    assert (started["recorded"]["wakes"], started["rewound"]["wakes"], started["reproduced"]) == (1, 1, 1)


async def test_window_and_quiet_hours_and_priorities_save_wakes(service: Service, api: Api) -> None:
    agent = await woken_by_texts(service, api, "sms", "api", "sms")

    held = await rewound(api, agent, debounce_window_seconds=3600)
    quiet = await rewound(api, agent, quiet_hours=hours_around_now())
    low = await rewound(api, agent, priorities=[{"source": "sms", "priority": "low"}])

    assert held["rewound"]["by_reason"] == {"notification:api": 1}
    assert held["summary"].startswith("With a window of 3600 s the 3 wakes are 1; the median text waited ")
    assert quiet["rewound"]["wakes"] == 0
    assert low["rewound"]["by_reason"] == {"notification:api": 1}
    assert held["recorded"]["wakes"] == quiet["recorded"]["wakes"] == low["recorded"]["wakes"] == 3


async def test_notification_that_would_still_wait_counts_until_the_end(service: Service, api: Api) -> None:
    agent = await api.create_agent(timezone="UTC")
    await api.create_notification(agent, source="api", priority="high")
    await service.wait_until_idle()

    quiet = await rewound(api, agent, quiet_hours=hours_around_now())

    assert (quiet["recorded"]["waiting"], quiet["rewound"]["waiting"]) == (0, 1)
    assert quiet["rewound"]["median_wait_seconds"] > quiet["recorded"]["median_wait_seconds"]
    assert quiet["summary"].startswith(f"With quiet hours of {hours_around_now()} the 1 wake is 0; ")
    assert quiet["summary"].endswith("; 1 still waited at the end instead of 0.")


async def test_rewind_stores_nothing(service: Service, api: Api) -> None:
    agent = await woken_by_texts(service, api, "sms")
    events = await service.storage.pool.fetchval("SELECT max(id) FROM event")

    await rewound(api, agent, debounce_window_seconds=60)

    assert await service.storage.pool.fetchval("SELECT max(id) FROM event") == events
    assert (await api.get(f"/api/cloud/agents/{agent['id']}/")).body["debounce_window_seconds"] is None


async def test_bad_periods_and_patches_are_refused(api: Api) -> None:
    agent, now = await api.create_agent(), datetime.now(UTC)

    async def refusal(start: datetime, end: datetime, **patch: Any) -> Any:
        asked = {"agent": agent["id"], "from": start.isoformat(), "to": end.isoformat(), "patch": patch}
        answer = await api.post(REWIND, asked)
        assert answer.status == 400
        return answer.body

    hour = timedelta(hours=1)
    assert await refusal(now, now - hour) == {"from": ["from must be before to."]}
    assert "must be over" in (await refusal(now, now + hour))["to"][0]
    assert "at most 31 days" in (await refusal(now - 40 * 24 * hour, now))["from"][0]
    assert "no period of quiet hours" in str(await refusal(now - hour, now, quiet_hours="late"))
    unknown = [{"id": agent["id"], "paused": True}]
    assert "does not exist" in str(await refusal(now - hour, now, schedules=unknown))


async def test_settings_changed_in_the_period_are_named(service: Service, api: Api) -> None:
    agent = await woken_by_texts(service, api, "sms")
    await api.patch(f"/api/cloud/agents/{agent['id']}/", {"name": "Bo"})
    unchanged = await rewound(api, agent)
    await api.patch(f"/api/cloud/agents/{agent['id']}/", {"name": "Ada", "debounce_window_seconds": 60})

    answer = await rewound(api, agent)

    assert len(unchanged["assumed"]) == 3
    assert answer["assumed"][3].endswith(" UTC: debounce_window_seconds.")
    assert (answer["recorded"]["wakes"], answer["reproduced"], answer["rewound"]["wakes"]) == (1, 0, 0)


async def test_period_may_begin_while_the_agent_runs_or_holds(service: Service, api: Api) -> None:
    agent = await woken_by_texts(service, api, "sms", "api")
    runs = (await api.get(f"/api/cloud/agents/{agent['id']}/runs/")).body
    for first in (runs[1]["started_at"], runs[1]["ended_at"]):
        inside = {
            **agent,
            "created_at": (datetime.fromisoformat(first) + timedelta(microseconds=1)).isoformat(),
        }

        answer = await rewound(api, inside)

        assert answer["recorded"] == answer["rewound"]
        assert (answer["recorded"]["by_reason"], answer["reproduced"]) == ({"notification:api": 1}, 1)


async def test_period_with_too_many_events_names_its_limit(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await woken_by_texts(service, api, "sms", "api")
    monkeypatch.setattr(rewinds, "MAX_RECORDED", 3)
    asked = {
        "agent": agent["id"],
        "from": agent["created_at"],
        "to": datetime.now(UTC).isoformat(),
        "patch": {},
    }

    refused = await api.post(REWIND, asked)
    until = refused.body["to"][0].removeprefix("Choose a moment up to ").partition(",")[0]
    fitting = await api.post(REWIND, {**asked, "to": until})

    assert (refused.status, fitting.status) == (400, 200)


async def test_period_that_is_not_kept_is_refused(service: Service, api: Api) -> None:
    agent, now = await api.create_agent(), datetime.now(UTC)
    await service.storage.pool.execute("UPDATE agent SET created_at = $1", now - timedelta(days=90))
    await forget_events(service.storage.pool, until=1)
    asked = {"agent": agent["id"], "to": (now - timedelta(days=40)).isoformat(), "patch": {}}

    answer = await api.post(REWIND, {**asked, "from": (now - timedelta(days=50)).isoformat()})

    assert answer.status == 400
    assert answer.body["from"][0].startswith("Events are kept from ")


async def test_paused_schedule_brings_nothing(service: Service, api: Api) -> None:
    agent = await woken_by_texts(service, api, "api")
    schedule = {"agent": agent["id"], "title": "Tea", "cron": "0 9 * * *"}
    made = await api.create("/api/defaults/schedules/", **schedule)
    await api.post(f"/api/defaults/schedules/{made['id']}/run/")
    await service.wait_until_idle()

    paused = await rewound(api, agent, schedules=[{"id": made["id"], "paused": True}])

    assert paused["recorded"]["by_reason"] == {"notification:api": 1, "notification:system": 1}
    assert paused["rewound"]["by_reason"] == {"notification:api": 1}
    assert "`only_if`" in paused["assumed"][3]


async def test_schedule_notifies_nobody_before_the_agent_was_created(service: Service, api: Api) -> None:
    agent = await woken_by_texts(service, api, "api")
    made = await api.create("/api/defaults/schedules/", agent=agent["id"], title="Tea", cron="0 9 * * *")

    day_before = (datetime.fromisoformat(agent["created_at"]) - timedelta(days=1)).isoformat()
    schedules = [{"id": made["id"], "cron": "* * * * *"}]
    often = await rewound(api, {**agent, "created_at": day_before}, schedules=schedules)

    by_source = often["rewound"]["median_wait_by_source"]
    assert by_source.get("system", 0) < 60


async def test_schedules_that_would_notify_too_often_are_refused(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await api.create_agent()
    await service.storage.pool.execute("UPDATE agent SET created_at = created_at - interval '3 hours'")
    made = await api.create("/api/defaults/schedules/", agent=agent["id"], title="Tea", cron="0 9 * * *")
    monkeypatch.setattr(rewind, "MAX_RECORDED", 100)
    now = datetime.now(UTC)
    asked = {"agent": agent["id"], "from": (now - timedelta(hours=2)).isoformat(), "to": now.isoformat()}
    patch = {"schedules": [{"id": made["id"], "cron": "* * * * *"}]}

    refused = await api.post(REWIND, {**asked, "patch": patch})

    assert refused.status == 400
    assert "more than" in refused.body["patch"]["schedules"][0]
