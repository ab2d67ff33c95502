"""The main job, from sign-up to sleep, over HTTP."""

from datetime import timedelta

import aiohttp
import pytest

from tests.acceptance.client import moment, sign_up
from tests.acceptance.services import Services

WINDOW = timedelta(seconds=1)
LATE = timedelta(seconds=1)  # tolerance for a busy machine


@pytest.mark.everyday
async def test_three_texts_cause_one_wake_then_sleep_until_reminder(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    template = await client.post(
        "/api/templates/", name="Desk", debounce_window_seconds=int(WINDOW.total_seconds())
    )
    agent = await client.create_agent(template=template["id"], max_sleep_hours=8)

    texts = [await client.notify(agent, f"Text {number}", source="sms") for number in (1, 2, 3)]
    run = await client.ended_run(agent)
    waited = moment(run["started_at"]) - moment(texts[-1]["created_at"])
    assert WINDOW <= waited < WINDOW + LATE
    assert run["wake_reason"] == "notification:sms"
    assert set(run["notifications"]) == {text["id"] for text in texts}
    assert run["outcome"] == "slept"
    cleared = await client.notifications(agent)
    assert [notification["cleared"] for notification in cleared] == [True] * 3

    asleep = await client.agent(agent)
    cap = moment(run["started_at"]) + timedelta(hours=8)
    assert asleep["status"] == "sleeping"
    assert moment(asleep["sleep_until"]) == cap == moment(run["max_sleep_until"])

    due_at = moment(cleared[0]["cleared_at"]) + timedelta(seconds=1.5)
    reminder = await client.notify(agent, "Call back", scheduled_for=due_at.isoformat())
    second = await client.ended_run(agent, 2)
    assert timedelta() <= moment(second["started_at"]) - due_at < LATE
    assert second["wake_reason"] == "reminder"
    assert second["notifications"] == [reminder["id"]]
    assert moment(second["interrupted_sleep_until"]) == cap

    trace = await client.trace(run)
    names = [span["name"] for span in trace["spans"]]
    assert names.count("execute_tool clear_notification") == 3
    assert names.count("execute_tool sleep") == 1
    assert trace["total_spans"] == len(names)


@pytest.mark.everyday
async def test_low_priority_notification_wakes_no_agent(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    low = await client.notify(agent, "By the way", priority="low")
    await client.notify(agent, "Now")
    run = await client.ended_run(agent)
    assert low["id"] not in run["notifications"]
    assert [each["wake_reason"] for each in await client.runs(agent)] == ["notification:api"]
