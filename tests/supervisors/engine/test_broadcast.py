"""Broadcasts: signals to all agents that a listing returns, page by page."""

from uuid import UUID

from supervisors.engine.broadcast import PAGE_SIZE, tell_agents_of, tell_agents_of_template, tell_pages
from supervisors.engine.messages import Signal
from supervisors.policy.phases import Phase
from tests.supervisors.world import World


class RecordingTeller:
    """Records the agents and organizations that were told to reload."""

    def __init__(self) -> None:
        self.agent_ids: list[UUID] = []
        self.organization_ids: list[UUID] = []

    def tell(self, agent_id: UUID, signal: Signal) -> None:
        assert signal is Signal.RELOAD
        self.agent_ids.append(agent_id)

    def tell_organization(self, organization_id: UUID, signal: Signal) -> None:
        assert signal is Signal.RELOAD
        self.organization_ids.append(organization_id)


async def test_all_pages_are_told_once() -> None:
    ids, pages, teller = [UUID(int=n) for n in range(2 * PAGE_SIZE + 1)], 0, RecordingTeller()

    async def fetch(last: UUID | None, limit: int) -> list[UUID]:
        nonlocal pages
        pages += 1
        start = 0 if last is None else ids.index(last) + 1
        return ids[start : start + limit]

    await tell_pages(fetch, teller)

    assert (teller.agent_ids, pages) == (ids, 3)


async def test_organization_broadcast_reaches_held_agents_and_live_supervisors(world: World) -> None:
    held, asleep = await world.agent(debounce_window_seconds=60), await world.agent()
    await world.sms(held)
    assert await world.phase(held) is Phase.HOLDING
    teller = RecordingTeller()

    await tell_agents_of(held.organization_id, world.states, teller)

    assert held.id in teller.agent_ids
    assert asleep.id not in teller.agent_ids
    assert teller.organization_ids == [held.organization_id]


async def test_template_broadcast_reaches_only_its_agents(world: World) -> None:
    template = await world.template(debounce_window_seconds=60)
    ours, other = await world.agent(template_id=template.id), await world.agent(debounce_window_seconds=60)
    await world.sms(ours)
    await world.sms(other)
    teller = RecordingTeller()

    await tell_agents_of_template(template.id, world.states, teller)

    assert teller.agent_ids == [ours.id]
