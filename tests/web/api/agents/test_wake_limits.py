"""Limits on wakes over HTTP: what is refused, what an agent is bound to, and what a change raises."""

from typing import Any

import pytest

from tests.web.access.test_run_tokens import start_run
from tests.web.conftest import Api, Service

AGENTS = "/api/cloud/agents/"
NOTIFICATIONS = "/api/defaults/notifications/"
RAISED = "X-Bounds-Raised"


async def bounds(api: Api, agent: Any) -> dict[str, float | None]:
    answer = await api.get(f"{AGENTS}{agent['id']}/bounds/")
    assert answer.status == 200, answer
    return {name: bound["at_most"] for name, bound in answer.body.items()}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"quiet_hours": "22-7"},
            '"22-7" is no period of quiet hours, such as "22:00-07:00" or "Mon-Fri 22:00-07:00".',
        ),
        (
            {"quiet_hours": "Mon-Sat 00:00-24:00, Sun 00:00-24:00"},
            "Quiet hours may not fill the whole week. A pause holds every start.",
        ),
        ({"max_wakes_per_hour": 0}, "Ensure this value is greater than or equal to 1."),
    ],
)
async def test_limit_that_allows_nothing_is_refused(api: Api, fields: Any, message: str) -> None:
    agent, template = await api.create_agent(), await api.create_template()
    for path in (f"{AGENTS}{agent['id']}/", f"/api/templates/{template['id']}/"):
        refused = await api.patch(path, fields)
        assert (refused.status, [*refused.body.values()]) == (400, [[message]])


async def test_urgent_notification_is_high_and_not_of_a_run(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    urgent = {"agent": agent["id"], "title": "Fire", "urgent": True}

    assert (await api.post(NOTIFICATIONS, urgent)).body == {
        "urgent": ["Only a high notification can be urgent."]
    }
    created = await api.post(NOTIFICATIONS, {**urgent, "priority": "high"})
    assert (created.status, created.body["urgent"]) == (201, True)
    assert (await api.get(f"{NOTIFICATIONS}{created.body['id']}/")).body == created.body
    _, own = await start_run(service, api, agent)
    refused = await own.post(NOTIFICATIONS, {**urgent, "priority": "high"})
    assert (refused.status, refused.body) == (
        403,
        {"detail": "The token of a run creates no urgent notifications."},
    )


async def test_agent_without_settings_is_bound_to_nothing(api: Api) -> None:
    agent = await api.create_agent()

    assert await bounds(api, agent) == {
        "wakes_per_day": None,
        "cost_usd_per_day": None,
        "hold_seconds": 0,
        "next_look_seconds": None,
    }


async def test_settings_of_agent_and_template_bind_it_together(api: Api) -> None:
    template = await api.create_template(
        max_wakes_per_hour=2, quiet_hours="22:00-07:00", debounce_window_seconds=60
    )
    agent = await api.create_agent(template=template["id"], max_cost_usd_per_day=5, max_sleep_hours=8)
    hold = 300 + 25 * 3600 + 3600 + 10 * 3600

    assert await bounds(api, agent) == {
        "wakes_per_day": 50,
        "cost_usd_per_day": 5,
        "hold_seconds": hold,
        "next_look_seconds": 8 * 3600 + hold,
    }


async def test_change_that_raises_bounds_says_so(api: Api) -> None:
    agent = await api.create_agent(max_wakes_per_day=24, max_cost_usd_per_day=2)
    path = f"{AGENTS}{agent['id']}/"
    day = 25 * 3600

    lower = await api.patch(path, {"max_wakes_per_day": 12, "name": "Ada"})
    assert RAISED not in lower.headers
    higher = {"max_wakes_per_day": 48, "quiet_hours": "12:00-13:00", "max_cost_usd_per_day": None}
    preview = await api.post(f"{path}preview/", {"patch": higher})
    raised = await api.patch(path, higher)

    assert raised.headers[RAISED] == "wakes_per_day=48, cost_usd_per_day=unbounded"
    assert preview.body["bounds_raised"] == raised.headers[RAISED]
    assert (await bounds(api, agent))["hold_seconds"] == day + 2 * 3600
    assert (
        (await api.patch(path, {"max_wakes_per_day": None}))
        .headers[RAISED]
        .startswith("wakes_per_day=unbounded")
    )


async def test_limits_of_a_template_hold_its_agents_at_once(service: Service, api: Api) -> None:
    template = await api.create_template(quiet_hours="00:00-23:59")
    agent = await api.create_agent(template=template["id"])
    await api.create_notification(agent, priority="high")
    await service.wait_until_idle()
    [row] = (await api.get("/api/cloud/supervisors/")).body
    if row["phase"] == "asleep":
        pytest.skip("it is the minute before midnight")
    assert row["phase"] == "held_by_limits"
    assert row["why"].startswith("Quiet until ")
    assert "held by limits" in (await api.get("/api/cloud/overview/")).body["sentence"]

    await api.patch(f"/api/templates/{template['id']}/", {"quiet_hours": ""})
    await service.wait_until_idle()

    assert len((await api.get(f"{AGENTS}{agent['id']}/runs/")).body) == 1
