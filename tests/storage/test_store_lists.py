"""The lists of every store: who is due, who needs attention, and who waits for what."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from storage.agent_facts import (
    AttendedAgent,
    Counts,
    RowVersion,
)
from storage.errors import RunLimitReached
from storage.model import Agent, AgentStatus
from tests.storage.factories import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    template,
    usage_record,
)
from tests.storage.stores import Store, start


async def test_due_agents_are_listed_by_time_in_pages(store: Store) -> None:
    owner = await store.new_organization()
    agents = [await store.agent(owner.id, sleep_until=NOW + n // 2 * SECOND) for n in range(6)]
    await store.agent(owner.id, sleep_until=NOW + HOUR)
    await store.agent(owner.id)

    found: list[tuple[datetime, UUID]] = []
    while page := await store.storage.agent_states.list_due(NOW + MINUTE, found[-1] if found else None, 4):
        found += [(one.next_due_at, one.agent_id) for one in page]

    expected = sorted((NOW + n // 2 * SECOND, one.id) for n, one in enumerate(agents))
    assert found == expected


async def test_sleeping_agents_that_need_attention_are_listed(store: Store) -> None:
    """The lists: active notifications, agents that a pause concerns, and agents without a due time."""
    owner, paused = await store.new_organization(), await store.new_organization()
    await store.storage.organizations.update(paused.id, {"paused": True}, NOW)
    names = (
        "woken",
        "running",
        "queued",
        "stopped",
        "stopped, then notified",
        "archived",
        "reminded",
        "idle",
    )
    agents = {name: await store.agent(owner.id) for name in names}
    held = await store.agent(paused.id)
    for name, one in [*agents.items(), ("held", held)]:
        if name == "reminded":
            await store.insert(one, scheduled_for=NOW + HOUR)
        elif name != "idle":
            await store.insert(one)
    await store.started(agents["running"])
    await store.put(agents["queued"], queued_at=NOW)
    await store.put(agents["stopped"], stopped_at=NOW)
    await store.put(agents["stopped, then notified"], stopped_at=NOW - SECOND)
    await store.put(agents["archived"], status=AgentStatus.ARCHIVED)
    await store.put(agents["reminded"], next_due_at=None)
    states = store.storage.agent_states

    def ids(*names: str) -> list[UUID]:
        return sorted(agents[name].id for name in names)

    woken = ids("woken", "stopped, then notified")
    active = [AttendedAgent(agent_id, None) for agent_id in woken]
    assert await states.list_with_active_notification(NOW, None, 9) == active
    assert await states.list_with_active_notification(NOW, woken[0], 9) == active[1:]
    assert await states.list_with_active_notification(NOW, None, 1) == active[:1]
    concerned = ids("woken", "running", "queued", "stopped", "stopped, then notified", "reminded")
    assert await states.list_non_idle(None, 9, organization_id=owner.id) == concerned
    assert await states.list_non_idle(concerned[0], 2, organization_id=owner.id) == concerned[1:3]
    assert await states.list_non_idle(None, 9, organization_id=paused.id) == [held.id]
    assert await states.list_without_due_time(NOW, None, 9) == ids("reminded")
    await store.put(agents["idle"], run_requested_at=NOW)
    assert await states.list_without_due_time(NOW, None, 9) == ids("reminded", "idle")


async def test_orphans_are_listed_with_runs_first_then_by_wait(store: Store) -> None:
    owner = await store.new_organization()
    dead, living, leaving = 1, 2, 3
    agents = [await store.agent(owner.id) for _ in range(8)]
    await store.started(agents[0], NOW + SECOND)
    await store.started(agents[1], NOW)
    await store.put(agents[2], queued_at=NOW + SECOND, node_id=dead)
    await store.put(agents[3], queued_at=NOW)
    await store.put(agents[4], queued_at=NOW + MINUTE, node_id=leaving)
    await store.put(agents[5], queued_at=NOW, node_id=living)
    await store.put(agents[6], phase="holding", node_id=dead, next_due_at=NOW)
    await store.put(agents[7], lingers=True, node_id=dead)

    orphans = await store.storage.agent_states.list_orphans([living, leaving], [living])

    assert [one.agent_id for one in orphans] == [agents[n].id for n in (1, 0, 3, 2, 4, 7)]
    assert [one.had_run for one in orphans] == [True, True, False, False, False, False]


async def test_attended_rows_are_listed_with_their_versions(store: Store) -> None:
    agent, other = await store.agent(), await store.agent()
    await store.agent()
    await store.put(other, phase="holding", node_id=2)
    state = await store.put(agent, phase="holding", node_id=1)
    await store.insert(agent)
    states = store.storage.agent_states

    assert await states.list_attended(1) == [RowVersion(agent.id, state.version, state.wake_seq + 1)]


async def test_agents_queued_elsewhere_take_turns_by_organization(store: Store) -> None:
    here, there = 1, 2
    busy, calm = sorted([await store.new_organization() for _ in range(2)], key=lambda one: one.id)
    agents = {
        name: await store.agent(owner.id)
        for name, owner in (
            ("a1", busy),
            ("a2", busy),
            ("a3", busy),
            ("b1", calm),
            ("b2", calm),
            ("b3", calm),
        )
    }
    await store.started(agents["a1"])
    for name, seconds, node_id in (
        ("a2", 0, there),
        ("a3", 1, there),
        ("b1", 3, there),
        ("b2", 2, there),
        ("b3", 0, here),
    ):
        await store.put(agents[name], queued_at=NOW + seconds * SECOND, node_id=node_id)
    states = store.storage.agent_states

    found = await states.list_queued_elsewhere(here, 9, 0)
    assert found[0] == agents["b2"].id
    assert set(found[1:3]) == {agents["a2"].id, agents["b1"].id}
    assert found[3:] == [agents["a3"].id]
    assert await states.list_queued_elsewhere(here, 1, 0) == [agents["b2"].id]
    assert await states.list_queued_elsewhere(there, 9, 0) == [agents["b3"].id]


async def test_start_over_several_nodes_is_that_of_the_agent_queued_first(postgres: Store) -> None:
    store, states = postgres, postgres.storage.agent_states
    organization_id = (await store.new_organization()).id
    running, first, second, new = [await store.agent(organization_id) for _ in range(4)]
    await store.started(running)
    await store.put(running, phase="running")
    await store.put(first, queued_at=NOW, node_id=2)
    await store.put(second, queued_at=NOW + SECOND, node_id=1)

    async def refused_for(agent: Agent, max_runs: int) -> Sequence[UUID]:
        with pytest.raises(RunLimitReached) as refusal:
            await states.start(start(await store.state(agent)), organization_id, max_runs)
        return refusal.value.next_ids

    assert not await refused_for(first, 1)
    assert await refused_for(second, 2) == await refused_for(new, 2) == [first.id]
    assert await refused_for(new, 3) == [first.id, second.id]
    assert await states.start(start(await store.state(second)), organization_id, 3)
    assert await states.start(start(await store.state(first)), organization_id, 2)


async def test_agents_queued_elsewhere_leave_out_those_beyond_the_limit(store: Store) -> None:
    full, free = sorted([await store.new_organization() for _ in range(2)], key=lambda one: one.id)
    running, waiting = await store.agent(full.id), await store.agent(full.id)
    busy = [await store.agent(free.id) for _ in range(3)]
    for agent in (running, *busy[:2]):
        await store.started(agent)
    for agent in (waiting, busy[2]):
        await store.put(agent, queued_at=NOW, node_id=2)
    states = store.storage.agent_states

    assert await states.list_queued_elsewhere(1, 1, 0) == [waiting.id]
    assert await states.list_queued_elsewhere(1, 1, 1) == []
    assert await states.list_queued_elsewhere(1, 9, 3) == [waiting.id, busy[2].id]
    assert await states.list_queued_elsewhere(1, 9, 2) == [waiting.id]


async def test_ids_blockers_and_counts_are_listed(store: Store) -> None:
    owner = await store.new_organization()
    one, two = await store.agent(owner.id), await store.agent(sleep_until=NOW + HOUR)
    await store.started(two)
    earlier = await store.insert(one, created_at=NOW - MINUTE)
    later = await store.insert(one)
    await store.insert(one, scheduled_for=NOW + MINUTE)
    await store.put(one, failures=5, retry_at=NOW + HOUR)
    states = store.storage.agent_states

    assert await states.list_ids(None, None, 9) == sorted([one.id, two.id])
    assert await states.list_ids(owner.id, None, 9) == [one.id]
    assert await states.list_ids(owner.id, one.id, 9) == []
    assert await states.list_ids(None, None, 9, one.name.upper()) == sorted([one.id, two.id])
    assert await states.list_ids(owner.id, None, 9, one.name) == [one.id]
    assert await states.list_ids(owner.id, one.id, 9, one.name) == []
    assert await states.list_ids(None, None, 9, f"{one.name}s") == []
    assert await states.list_blockers(one.id, NOW, 9) == [earlier.id, later.id]
    assert await states.list_blockers(one.id, NOW - timedelta(days=1), 1) == [earlier.id]
    assert await states.count(NOW, quarantine_failures=5) == Counts(
        running=1,
        sleeping=1,
        archived=0,
        quarantined=frozenset({one.id}),
        timers=2,
        next_due_at=NOW + MINUTE,
        oldest_active_at=NOW - MINUTE,
    )


async def test_agents_waiting_for_an_unreached_budget_are_listed(store: Store) -> None:
    owner = await store.new_organization()
    shared = template(owner.id, max_cost_usd_per_day=Decimal(5))
    await store.storage.templates.insert(shared)
    asleep, reminded, spent, idle, early = agents = [
        await store.agent(owner.id, template_id=shared.id) for _ in range(5)
    ]
    await store.insert(reminded, scheduled_for=NOW + HOUR)
    midnight = NOW + 15 * HOUR
    for one in agents:
        until = None if one in (reminded, idle) else NOW + HOUR
        due_at = NOW + HOUR if one is early else midnight
        await store.put(one, sleep_until=until, next_due_at=due_at)
    await store.storage.usage.insert(usage_record(spent, cost_usd=Decimal(5)))
    held = sorted([asleep.id, reminded.id])
    states = store.storage.agent_states

    assert await states.list_within_budget(NOW, midnight, None, 9) == held
    assert await states.list_within_budget(NOW, midnight, held[0], 9) == held[1:]
    await store.storage.organizations.update(owner.id, {"max_cost_usd_per_day": Decimal(5)}, NOW)
    assert await states.list_within_budget(NOW, midnight, None, 9) == []


async def test_agents_recorded_over_budget_within_it_are_listed(store: Store) -> None:
    owner = await store.new_organization()
    recorded, spent = [await store.agent(owner.id, max_cost_usd_per_day=Decimal(5)) for _ in range(2)]
    for one in (recorded, spent):
        await store.put(one, phase="over_budget")
    await store.storage.usage.insert(usage_record(spent, cost_usd=Decimal(5)))

    assert await store.storage.agent_states.list_within_budget(NOW, NOW + 15 * HOUR, None, 9) == [recorded.id]


async def test_resting_agents_newly_over_the_organization_budget_are_listed(store: Store) -> None:
    owner = await store.new_organization()
    spender, idle, recorded, quarantined, archived = [await store.agent(owner.id) for _ in range(5)]
    await store.put(recorded, phase="over_budget")
    await store.put(quarantined, phase="quarantined")
    await store.put(archived, status=AgentStatus.ARCHIVED, phase="archived")
    await store.storage.usage.insert(usage_record(spender, cost_usd=Decimal(5)))
    states, resting = store.storage.agent_states, sorted([spender.id, idle.id])

    assert await states.list_newly_over_budget(NOW, None, 9) == []
    await store.storage.organizations.update(owner.id, {"max_cost_usd_per_day": Decimal(5)}, NOW)
    assert await states.list_newly_over_budget(NOW, None, 9) == resting
    assert await states.list_newly_over_budget(NOW, resting[0], 9) == resting[1:]
    assert await states.list_newly_over_budget(NOW + 24 * HOUR, None, 9) == []


async def test_resting_agents_newly_over_their_own_budget_are_listed(store: Store) -> None:
    owner = await store.new_organization()
    capped, closed = template(owner.id, max_cost_usd_per_day=Decimal(5)), template(owner.id)
    for shared in (capped, closed):
        await store.storage.templates.insert(shared)
    own = await store.agent(owner.id, max_cost_usd_per_day=Decimal(5))
    inheriting, raised = [
        await store.agent(owner.id, template_id=capped.id, max_cost_usd_per_day=cap)
        for cap in (None, Decimal(6))
    ]
    unspent = await store.agent(owner.id, max_cost_usd_per_day=Decimal(0))
    inheriting_zero = await store.agent(owner.id, template_id=closed.id)
    await store.agent(owner.id, template_id=closed.id, max_cost_usd_per_day=Decimal(1))
    for spender in (own, inheriting, raised):
        await store.storage.usage.insert(usage_record(spender, cost_usd=Decimal(5)))
    states = store.storage.agent_states

    assert await states.list_newly_over_budget(NOW, None, 9) == sorted([own.id, inheriting.id, unspent.id])
    await store.storage.templates.update(closed.id, {"max_cost_usd_per_day": Decimal(0)}, NOW)
    over = sorted([own.id, inheriting.id, unspent.id, inheriting_zero.id])
    assert await states.list_newly_over_budget(NOW, None, 9) == over
    assert await states.list_newly_over_budget(NOW, over[1], 1) == over[2:3]
    for agent_id in over[:2]:
        await store.storage.agents.update(agent_id, {"max_cost_usd_per_day": Decimal(9)}, NOW)
    assert await states.list_newly_over_budget(NOW, None, 9) == over[2:]


async def test_agents_of_a_template_with_something_ahead_are_listed(store: Store) -> None:
    owner = await store.new_organization()
    shared = template(owner.id)
    await store.storage.templates.insert(shared)
    asleep, running, _ = [await store.agent(owner.id, template_id=shared.id) for _ in range(3)]
    await store.put(asleep, sleep_until=NOW + HOUR)
    await store.started(running)
    await store.started(await store.agent(owner.id))
    concerned = sorted([asleep.id, running.id])
    states = store.storage.agent_states

    assert await states.list_non_idle(None, 9, template_id=shared.id) == concerned
    assert await states.list_non_idle(concerned[0], 9, template_id=shared.id) == concerned[1:]


async def test_agents_held_by_the_window_of_a_template_are_listed(store: Store) -> None:
    owner = await store.new_organization()
    shared = template(owner.id)
    await store.storage.templates.insert(shared)
    held, running, _ = [await store.agent(owner.id, template_id=shared.id) for _ in range(3)]
    for one in (held, running):
        await store.insert(one)
    await store.started(running)

    assert await store.storage.agents.list_holding_of_template(shared.id) == [held.id]
