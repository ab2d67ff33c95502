"""The time tool."""

from datetime import datetime

from tests.supervisors.world import World


async def test_time_is_that_of_the_agents_zone(world: World) -> None:
    run = await world.start(await world.agent(timezone="Pacific/Auckland"))

    told = await run.call("get_time")

    assert datetime.fromisoformat(told["time"]) == world.clock.now().replace(microsecond=0)
    assert told["time"][-6:] in {"+13:00", "+12:00"}
    local = datetime.fromisoformat(told["time"])
    assert (told["weekday"], told["timezone"]) == (f"{local:%A}", "Pacific/Auckland")
