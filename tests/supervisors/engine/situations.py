"""Agents in every phase, and how they got there."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal

from storage.model import Agent, AgentStatus, Outcome, Source
from supervisors.engine.messages import OwnedFieldsRequest, RunRequest, StopRequest
from supervisors.policy.phases import Phase
from tests.supervisors.world import World

Situation = Callable[[World], Awaitable[Agent]]


async def never_run(world: World) -> Agent:
    return await world.agent()


async def asleep(world: World) -> Agent:
    agent = await world.agent()
    await (await world.start(agent)).sleeps(until=world.at(5000).isoformat())
    return agent


async def asleep_to_its_cap(world: World) -> Agent:
    agent = await world.agent(max_sleep_hours=2)
    await (await world.start(agent)).sleeps()
    return agent


async def asleep_to_its_cap_before_any_run(world: World) -> Agent:
    agent = await world.agent(max_sleep_hours=1)
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(5 * 3600)))
    return agent


async def asleep_before_a_reminder(world: World) -> Agent:
    agent = await asleep(world)
    await world.remind(agent, 4000)
    return agent


async def asleep_after_a_stop(world: World) -> Agent:
    agent = await world.agent()
    await world.notify(agent)
    await world.go_to(5)
    await world.ask(agent, StopRequest())
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(700)))
    return agent


async def asleep_for_zero_hours(world: World) -> Agent:
    agent = await world.agent(max_sleep_hours=0)
    await (await world.start(agent)).sleeps()
    return agent


async def holding(world: World) -> Agent:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(50)
    await world.sms(agent)
    return agent


async def holding_by_its_template(world: World) -> Agent:
    shared = await world.template(debounce_window_seconds=90)
    agent = await world.agent(template_id=shared.id)
    await world.notify(agent, Source.EMAIL)
    return agent


async def holding_at_the_cap(world: World) -> Agent:
    agent = await world.agent(debounce_window_seconds=60)
    for second in range(0, 300, 50):
        await world.go_to(second)
        await world.sms(agent)
    return agent


async def holding_before_a_reminder(world: World) -> Agent:
    agent = await holding(world)
    await world.remind(agent, 70)
    return agent


async def holding_a_message_from_a_run(world: World) -> Agent:
    agent = await world.agent(debounce_window_seconds=60)
    run = await world.start(agent)
    await world.go_to(10)
    await world.sms(agent)
    await world.go_to(15)
    await run.end()
    return agent


async def backing_off(world: World) -> Agent:
    agent = await world.agent()
    await world.notify(agent)
    for second in (0, 1, 3):
        await world.go_to(second)
        await world.puppets[agent.id].end()
    return agent


async def backing_off_after_failures(world: World) -> Agent:
    agent = await world.agent(max_sleep_hours=0)
    await world.ask(agent, RunRequest())
    for second in (0, 1, 3):
        await world.go_to(second)
        await world.puppets[agent.id].fail()
    return agent


async def backing_off_for_its_own_notification(world: World) -> Agent:
    agent = await world.agent()
    run = await world.start(agent)
    await world.go_to(2)
    await run.call("create_notification", title="Think", priority="high")
    await world.go_to(3)
    await run.end()
    return agent


async def backing_off_with_an_earlier_reminder(world: World) -> Agent:
    agent = await backing_off(world)
    await world.remind(agent, 4)
    return agent


async def backing_off_after_the_service_died(world: World) -> Agent:
    agent = await world.agent()
    await world.start(agent)
    await world.restart()
    return agent


async def quarantined(world: World) -> Agent:
    agent = await world.agent()
    await world.ask(agent, RunRequest())
    for second in (0, 1, 3, 7, 15):
        await world.go_to(second)
        await world.puppets[agent.id].fail()
    return agent


async def quarantined_with_a_message(world: World) -> Agent:
    agent = await quarantined(world)
    await world.go_to(20)
    await world.notify(agent)
    return agent


async def quarantined_with_an_earlier_reminder(world: World) -> Agent:
    agent = await quarantined(world)
    await world.remind(agent, 100)
    return agent


async def quarantined_with_a_hold(world: World) -> Agent:
    agent = await quarantined(world)
    await world.change(agent, debounce_window_seconds=100)
    await world.sms(agent)
    return agent


def start_ten_minutes_before_midnight(world: World) -> None:
    world.clock.step(14 * 3600 + 50 * 60)
    world.began_at = world.clock.now()


async def over_its_budget(world: World) -> Agent:
    start_ten_minutes_before_midnight(world)
    agent = await world.agent(max_cost_usd_per_day=Decimal(5))
    await world.spend(agent, "5.01")
    await world.wait_until_idle()
    return agent


async def over_its_budget_with_a_message(world: World) -> Agent:
    agent = await over_its_budget(world)
    await world.change(agent, debounce_window_seconds=60)
    await world.sms(agent)
    return agent


async def over_its_budget_until_long_after_midnight(world: World) -> Agent:
    agent = await over_its_budget(world)
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.clock.now() + timedelta(hours=1)))
    return agent


async def over_the_budget_of_its_organization(world: World) -> Agent:
    agent, other = await world.agent(max_cost_usd_per_day=Decimal(9)), await over_its_budget(world)
    await world.change_organization(other.organization_id, max_cost_usd_per_day=Decimal(2))
    await world.notify(agent)
    return agent


async def over_a_zero_budget(world: World) -> Agent:
    shared = await world.template(max_cost_usd_per_day=Decimal(0))
    agent = await world.agent(template_id=shared.id)
    await world.notify(agent)
    return agent


async def ended_by_its_budget(world: World) -> Agent:
    agent = await over_its_budget(world)
    await world.change(agent, max_cost_usd_per_day=None)
    await world.notify(agent)
    await world.change(agent, max_cost_usd_per_day=Decimal(5))
    await world.puppets[agent.id].end(Outcome.BUDGET)
    return agent


async def quarantined_and_over_its_budget(world: World) -> Agent:
    start_ten_minutes_before_midnight(world)
    agent = await quarantined(world)
    await world.change(agent, max_cost_usd_per_day=Decimal(5))
    await world.spend(agent, "5")
    await world.notify(agent)
    return agent


async def queued(world: World) -> Agent:
    await world.start(await world.agent())
    agent = await world.agent(debounce_window_seconds=5)
    await world.sms(agent)
    await world.go_to(10)
    return agent


async def running(world: World) -> Agent:
    agent = await world.agent()
    await world.start(agent)
    await world.go_to(30)
    await world.notify(agent)
    await world.remind(agent, 100)
    return agent


async def stopping(world: World) -> Agent:
    world.puppets_are_stubborn = True
    agent = await running(world)
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))
    return agent


async def paused(world: World) -> Agent:
    agent = await asleep_before_a_reminder(world)
    await world.pause(agent.organization_id, True)
    return agent


async def paused_alone(world: World) -> Agent:
    agent = await asleep_before_a_reminder(world)
    await world.notify(agent)
    await world.ask(agent, OwnedFieldsRequest(paused=True))
    await world.wait_until_idle()
    return agent


async def archived(world: World) -> Agent:
    agent = await asleep_before_a_reminder(world)
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.ARCHIVED))
    return agent


SITUATIONS: dict[Situation, Phase] = {
    never_run: Phase.ASLEEP,
    asleep: Phase.ASLEEP,
    asleep_to_its_cap: Phase.ASLEEP,
    asleep_to_its_cap_before_any_run: Phase.ASLEEP,
    asleep_before_a_reminder: Phase.ASLEEP,
    asleep_after_a_stop: Phase.ASLEEP,
    asleep_for_zero_hours: Phase.ASLEEP,
    holding: Phase.HOLDING,
    holding_by_its_template: Phase.HOLDING,
    holding_at_the_cap: Phase.HOLDING,
    holding_before_a_reminder: Phase.HOLDING,
    holding_a_message_from_a_run: Phase.HOLDING,
    backing_off: Phase.BACKING_OFF,
    backing_off_after_failures: Phase.BACKING_OFF,
    backing_off_with_an_earlier_reminder: Phase.BACKING_OFF,
    backing_off_for_its_own_notification: Phase.BACKING_OFF,
    backing_off_after_the_service_died: Phase.BACKING_OFF,
    quarantined: Phase.QUARANTINED,
    quarantined_with_a_message: Phase.QUARANTINED,
    quarantined_with_an_earlier_reminder: Phase.QUARANTINED,
    quarantined_with_a_hold: Phase.QUARANTINED,
    over_its_budget: Phase.ASLEEP,
    over_its_budget_with_a_message: Phase.ASLEEP,
    over_its_budget_until_long_after_midnight: Phase.ASLEEP,
    over_the_budget_of_its_organization: Phase.ASLEEP,
    over_a_zero_budget: Phase.ASLEEP,
    ended_by_its_budget: Phase.ASLEEP,
    quarantined_and_over_its_budget: Phase.QUARANTINED,
    queued: Phase.QUEUED,
    running: Phase.RUNNING,
    stopping: Phase.STOPPING,
    paused: Phase.PAUSED,
    paused_alone: Phase.PAUSED,
    archived: Phase.ARCHIVED,
}
