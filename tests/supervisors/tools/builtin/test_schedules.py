"""The schedule tools, called by a run."""

import asyncio
from typing import Any

import pytest

from storage.notifications.schedules import MAX_PER_AGENT
from supervisors.tools.builtin.schedules import MAX_OWN
from tests.storage.factories import schedule
from tests.supervisors.tools.builtin.resources import refusal
from tests.supervisors.world import Puppet, World

MORNING: dict[str, Any] = {"name": "morning", "title": "Look at the figures", "cron": "0 9 * * 1-5"}
ZONE, DAY = "Vienna time", "2126-11-22"
SHORT = {
    "name": "morning",
    "title": "Look at the figures",
    "says": "At 9:00, Monday to Friday, Vienna time",
    "next": "2126-11-22 9:00 Vienna time",
    "paused": None,
}


@pytest.fixture
async def run(world: World) -> Puppet:
    return await world.start(await world.agent(timezone="Europe/Vienna"))


async def test_set_schedule_is_harmless_to_repeat(world: World, run: Puppet) -> None:
    answer = await run.call("set_schedule", **MORNING)
    assert answer == {
        "says": "At 9:00, Monday to Friday, Vienna time",
        "next": [f"2126-11-{day} 9:00 Vienna time" for day in (22, 25, 26)],
        "schedules": [SHORT],
    }
    assert await run.call("set_schedule", **MORNING) == answer
    changed = await run.call("set_schedule", name="morning", title="Figures", every_minutes=90)
    assert (changed["says"], len(changed["schedules"])) == ("Every 90 minutes", 1)


async def test_delete_schedule_removes_what_the_agent_has_made(run: Puppet) -> None:
    await run.call("set_schedule", **MORNING)
    assert await run.call("list_schedules") == [SHORT]
    assert await run.call("delete_schedule", name="morning") == {"deleted": "morning", "schedules": []}
    assert (await refusal(run, "delete_schedule", name="morning"))["code"] == "not_found"


async def test_schedule_of_a_person_is_listed_but_not_changed(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await world.storage.schedules.insert(schedule(agent, name="morning", created_by="key:x"))
    assert [each["name"] for each in await run.call("list_schedules")] == ["morning"]
    assert (await refusal(run, "set_schedule", **MORNING))["code"] == "not_allowed"
    assert (await refusal(run, "delete_schedule", name="morning"))["code"] == "not_found"


async def test_number_of_schedules_that_an_agent_makes_is_limited(world: World, run: Puppet) -> None:
    for number in range(MAX_OWN - 1):
        await run.call("set_schedule", **{**MORNING, "name": str(number)})
    calls = [run.call("set_schedule", **{**MORNING, "name": name}) for name in ("a", "b", "c")]
    answers = await asyncio.gather(*calls, return_exceptions=True)  # as the calls of one reply are made
    assert [type(answer) for answer in answers].count(dict) == 1
    refused = await refusal(run, "set_schedule", **MORNING)
    assert refused == {"code": "limit_reached", "message": "You have 20 schedules. Delete one first."}
    assert MAX_OWN < MAX_PER_AGENT


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"cron": "0,3 9 * * *"},
            f"It comes at {DAY} 9:00 {ZONE} and at {DAY} 9:03 {ZONE}: leave at least 5 minutes between.",
        ),
        ({"cron": None, "every_minutes": 4}, "every_minutes takes an integer of at least 5."),
        ({"cron": "0 0 30 2 *"}, "This is no cron expression: Bad day-of-month."),
        ({"every_minutes": 30}, "Give exactly one of cron and every_seconds."),
        ({"timezone": "Vienna"}, 'timezone takes an IANA name. Did you mean "Europe/Vienna"?'),
    ],
)
async def test_schedule_that_cannot_be_is_refused(run: Puppet, changes: dict[str, Any], message: str) -> None:
    refused = await refusal(run, "set_schedule", **{**MORNING, **changes})
    assert (refused["code"], refused["message"]) == ("invalid", message)


async def test_hint_warns_of_two_restricted_day_fields(run: Puppet) -> None:
    answer = await run.call("set_schedule", **{**MORNING, "cron": "0 9 1 * 1"})
    assert "MON#1" in answer["hint"]
