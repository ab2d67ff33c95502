"""Previews over HTTP: what they answer and refuse, and that they leave the agent as it was."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.web.conftest import Api, Service

AGENTS = "/api/cloud/agents/"
SOON = timedelta(minutes=30)


def preview_of(agent: Any) -> str:
    return f"{AGENTS}{agent['id']}/preview/"


async def said(api: Api, agent: Any, **asked: Any) -> Any:
    answer = await api.post(preview_of(agent), asked)
    assert answer.status == 200, answer
    return answer.body


async def test_preview_of_texts_is_answered_and_changes_nothing(service: Service, api: Api) -> None:
    agent = await api.create_agent(debounce_window_seconds=60)
    await service.wait_until_idle()
    before = await service.storage.agent_states.get_facts(agent["id"], datetime.now(UTC))
    events = await service.storage.pool.fetchval("SELECT max(id) FROM event")

    five = {"source": "sms", "count": 5, "seconds_apart": 2}
    answer = await said(api, agent, event=five, patch={"debounce_window_seconds": 5})

    assert (answer["now"]["phase"], answer["then"]["phase"]) == ("asleep", "holding")
    assert "it wakes 5 s after the last message, at " in answer["then"]["why"]
    assert answer["then"]["next_wake"]["because"] == "The debounce window over its messages ends."
    assert await service.storage.agent_states.get_facts(agent["id"], datetime.now(UTC)) == before
    assert await service.storage.pool.fetchval("SELECT max(id) FROM event") == events
    assert (await api.get(f"{AGENTS}{agent['id']}/")).body == agent


async def test_template_is_previewed_with_the_values_it_passes_on(api: Api) -> None:
    old = await api.create_template(debounce_window_seconds=60, max_cost_usd_per_day=5)
    new = await api.create_template(name="Other", debounce_window_seconds=7, max_cost_usd_per_day=0)
    agent = await api.create_agent(template=old["id"])

    text = {"source": "sms"}

    paused = await said(api, agent, event=text)
    capped = await said(api, agent, event=text, patch={"template": new["id"]})

    assert "it wakes 60 s after the last message" in paused["then"]["why"]
    assert capped["then"]["why"].startswith("Over its budget of 0.00 USD a day; it starts no run at all")


async def test_cap_is_previewed_with_what_was_spent_today(api: Api) -> None:
    agent = await api.create_agent()
    usage = {"model": "m", "provider": "p", "input_tokens": 1, "output_tokens": 1, "cost_usd": 2}
    assert (await api.post(f"{AGENTS}{agent['id']}/usage/", usage)).status == 201

    answer = await said(api, agent, patch={"max_cost_usd_per_day": 1}, event={"source": "api"})

    assert answer["then"]["why"].startswith("Over its budget of 1.00 USD a day; it starts no run before ")
    assert answer["then"]["next_wake"]["because"].startswith("Its budget is renewed.")


async def test_reminders_of_one_source_are_told_apart(api: Api) -> None:
    agent = await api.create_agent()
    first, second = datetime.now(UTC) + SOON, datetime.now(UTC) + 2 * SOON
    for moment in (second, first):
        await api.create_notification(agent, priority="high", scheduled_for=moment.isoformat())

    before = await said(api, agent, at=(datetime.now(UTC) + SOON / 2).isoformat())
    after = await said(api, agent, at=(datetime.now(UTC) + 3 * SOON).isoformat())

    assert (before["then"]["phase"], after["then"]["phase"]) == ("asleep", None)
    for answer in (before, after):
        assert datetime.fromisoformat(answer["then"]["next_wake"]["at"]) == first


async def test_change_that_patch_would_refuse_is_refused(api: Api) -> None:
    agent = await api.create_agent()
    await api.patch(f"{AGENTS}{agent['id']}/", {"status": "archived"})

    answer = await api.post(preview_of(agent), {"patch": {"sleep_until": None}})

    assert answer.status == 409


async def test_local_times_are_those_of_the_agent(api: Api) -> None:
    agent = await api.create_agent(timezone="Asia/Tokyo")
    noon = (datetime.now(UTC) + timedelta(days=2)).replace(hour=12, minute=0, second=0, microsecond=0)

    answer = await said(api, agent, patch={"sleep_until": noon.strftime("%Y-%m-%dT%H:%M")})

    assert datetime.fromisoformat(answer["then"]["next_wake"]["at"]) == noon - timedelta(hours=9)


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        ("2020-01-01T00:00", "This moment has passed: leave at out to ask about the present."),
        ("2999-01-01T00:00", "This moment may be at most 31 days ahead."),
    ],
)
async def test_moment_that_is_past_or_too_far_is_refused(api: Api, moment: str, message: str) -> None:
    agent = await api.create_agent()
    answer = await api.post(preview_of(agent), {"at": moment})

    assert (answer.status, answer.body) == (400, {"at": [message]})


async def test_unknown_template_is_refused_inside_the_patch(api: Api) -> None:
    agent = await api.create_agent()
    answer = await api.post(preview_of(agent), {"patch": {"template": agent["id"]}})

    assert answer.status == 400
    assert "object does not exist" in answer.body["patch"]["template"][0]


async def test_least_change_that_would_have_woken_it_is_named(service: Service, api: Api) -> None:
    agent = await api.create_agent(debounce_window_seconds=600, timezone="UTC")
    text = await api.create_notification(agent, source="sms", priority="high")
    await service.wait_until_idle()

    least = (await said(api, agent, wanted={"woken_by": text["id"]}))["least_change"]

    assert least["patch"] == {"debounce_window_seconds": 0}
    assert least["sentence"].endswith(" with a window of 0 s.")


async def test_least_change_needs_a_notification_of_the_agent(api: Api) -> None:
    agent, other = await api.create_agent(), await api.create_agent()
    text = await api.create_notification(other)
    early = {"as_of": "2026-01-01T00:00:00Z", "wanted": {"woken_by": text["id"]}}

    foreign = await api.post(preview_of(agent), {"wanted": {"woken_by": text["id"]}})
    before = await api.post(preview_of(other), early)

    assert (foreign.status, foreign.body.keys()) == (400, {"wanted"})
    assert (before.status, before.body.keys()) == (400, {"as_of"})
