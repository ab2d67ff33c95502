"""Inbox updates: notifications that arrive during a run are shown at a turn boundary."""

from datetime import timedelta

from storage.model import Priority
from storage.postgres.pool import Pool
from supervisors.harness.inbox_updates import MAX_FETCHED
from supervisors.llm.port import ChatRole
from tests.storage.factories import new_notification
from tests.supervisors.harness.scripted_runs import notify, running, start_once


async def test_arrival_is_shown_once_at_the_next_turn_boundary(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [("wait", "")], [], agent={"max_turns": 3}) as (
        world,
        agent,
        script,
    ):
        arrived: list[str] = []

        async def wait() -> None:
            if not arrived:
                arrived.append(str((await notify(world, agent, "A fire")).id))

        world.toolbox.rigged = {"wait": wait}
        await start_once(world, agent)

        updates = [message.text for message in script.conversation if message.role is ChatRole.USER][1:]
        named = f'[{{"id":"{arrived[0]}","priority":"high","source":"api","title":"A fire"}}]'
        assert updates == [
            f"Since this run began, this came into your queue: {named}. list_notifications shows it in full."
        ]
        assert script.conversation[4].text == updates[0], "it follows the tool's answer"


async def test_arrival_is_shown_despite_many_older_notifications(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [], agent={"max_turns": 2}) as (world, agent, script):

        async def wait() -> None:
            before = world.clock.now() - timedelta(minutes=1)
            for _ in range(MAX_FETCHED):
                old = new_notification(agent.id, created_at=before)
                await world.storage.notifications.insert(old, {agent.organization_id})
            await world.pool.execute("UPDATE notification SET activated_at = created_at")
            await notify(world, agent, "A fire")

        world.toolbox.rigged = {"wait": wait}
        await start_once(world, agent)

        assert '"title":"A fire"' in script.conversation[-1].text


async def test_more_arrivals_than_fetched_are_counted_as_at_least(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [], agent={"max_turns": 2}) as (world, agent, script):

        async def wait() -> None:
            for number in range(MAX_FETCHED + 1):
                await notify(world, agent, f"Fire {number}")

        world.toolbox.rigged = {"wait": wait}
        await start_once(world, agent)

        assert "] and at least 90 more. list_notifications" in script.conversation[-1].text


async def test_notification_of_another_program_is_shown_after_its_signal(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [], agent={"max_turns": 2}) as (world, agent, script):

        async def wait() -> None:
            await world.pool.execute(
                "INSERT INTO notification "
                "(id, organization_id, agent_id, title, priority, created_at, activated_at) "
                "VALUES (gen_random_uuid(), $1, $2, 'By psql', 'high', $3, $3)",
                agent.organization_id,
                agent.id,
                world.clock.now(),
            )
            world._tell([agent.id])

        world.toolbox.rigged = {"wait": wait}
        await start_once(world, agent)

        assert "By psql" in script.conversation[-1].text


async def test_notification_raised_to_high_during_the_run_is_shown(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [], agent={"max_turns": 2}) as (world, agent, script):
        low = await world.notify(agent, priority=Priority.LOW, title="Smoke")
        world.clock.advance(60)

        async def wait() -> None:
            raised = {"priority": Priority.HIGH}
            await world.storage.notifications.update(low.id, raised, world.clock.now())

        world.toolbox.rigged = {"wait": wait}
        await start_once(world, agent)

        assert "Smoke" in script.conversation[-1].text


async def test_ten_of_many_arrivals_are_named(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [], agent={"max_turns": 2}) as (world, agent, script):

        async def wait() -> None:
            for number in range(12):
                await notify(world, agent, f"Fire {number}")

        world.toolbox.rigged = {"wait": wait}
        await start_once(world, agent)

        assert "Fire 9" in script.conversation[-1].text
        assert "Fire 10" not in script.conversation[-1].text
        assert "] and 2 more." in script.conversation[-1].text


async def test_arrival_without_signal_is_shown_after_an_interval(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [("wait", "")], [], agent={"max_turns": 3}) as (
        world,
        agent,
        script,
    ):

        async def wait() -> None:
            if len(script.requests) == 1:
                await notify(world, agent, "By the way", priority=Priority.LOW)
            else:
                assert "By the way" not in str(script.conversation), "the queue is not read at every turn"
                world.clock.advance(30)

        world.toolbox.rigged = {"wait": wait}
        await start_once(world, agent)

        assert "By the way" in script.conversation[-1].text
