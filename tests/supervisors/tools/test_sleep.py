"""The sleep tool: its arguments and its refusals."""

from typing import Any

from tests.supervisors.world import World

SLEEPS: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"until": None, "hours": None}, None),
    ({"hours": 0.5}, "2126-11-21T09:30:00.000000Z"),
    ({"hours": " 0.5 "}, "2126-11-21T09:30:00.000000Z"),
    ({"until": " 2126-11-21t12:00:00z"}, "2126-11-21T12:00:00.000000Z"),
    ({"hours": 87_600}, "2136-11-18T09:00:00.000000Z"),
    ({"until": "2126-11-21T12:00:00Z"}, "2126-11-21T12:00:00.000000Z"),
    ({"until": "2126-11-21T07:00:00-05:00"}, "2126-11-21T12:00:00.000000Z"),
    ({"until": "2126-11-21T12:00:00"}, "2126-11-21T11:00:00.000000Z"),
]


async def test_sleep_takes_a_time_or_hours_or_neither(world: World) -> None:
    for arguments, sleep_until in SLEEPS:
        run = await world.start(await world.agent(timezone="Europe/Berlin"))

        assert await run.sleeps(**arguments) == {"sleep_until": sleep_until, "clamped": False}
