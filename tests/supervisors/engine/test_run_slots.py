"""Run slots: their limit, and the order in which agents get them."""

from collections import Counter
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from supervisors.engine.context import RunSlots

agents = st.integers(1, 6).map(lambda number: UUID(int=number))


def organization_of(agent_id: UUID) -> UUID:
    return UUID(int=100 + agent_id.int % 3)


class Recorder:
    """Run slots that record which agents they called."""

    def __init__(self, limit: int, organization_limit: int = 0) -> None:
        self.called: list[UUID] = []
        self.slots = RunSlots(limit, self.called.append, organization_limit)

    def wait(self, agent: int, organization: int) -> None:
        self.slots.wait(UUID(int=agent), UUID(int=100 + organization))

    def take(self, agent: int, organization: int = 9) -> bool:
        return self.slots.take(UUID(int=agent), UUID(int=100 + organization))

    def release(self, organization: int = 9) -> None:
        self.slots.release(UUID(int=100 + organization))

    def leave(self, agent: int) -> None:
        self.slots.leave(UUID(int=agent))

    def call_next(self) -> int:
        """Release a slot, let the called agent take it for the same organization, and return its number."""
        self.release()
        agent_id = self.called[-1]
        assert self.take(agent_id.int)
        return agent_id.int


def test_slots_go_to_organizations_in_turn() -> None:
    recorder = Recorder(limit=1)
    recorder.take(9)
    for agent in (11, 12, 13, 14):
        recorder.wait(agent, organization=1)
    for agent in (21, 22):
        recorder.wait(agent, organization=2)

    assert [recorder.call_next() for _ in range(6)] == [11, 21, 12, 22, 13, 14]


def test_reserved_slot_is_taken_only_by_its_agent() -> None:
    recorder = Recorder(limit=1)
    recorder.take(9)
    recorder.wait(1, organization=1)
    recorder.release()

    assert recorder.called == [UUID(int=1)]
    assert not recorder.slots.has_room(UUID(int=101))
    assert not recorder.take(2)
    assert recorder.take(1)


def test_reserved_slot_counts_as_untaken_not_as_free() -> None:
    recorder = Recorder(limit=2)
    recorder.take(9)
    recorder.take(8)
    recorder.wait(1, organization=1)
    recorder.release()
    assert (recorder.slots.free, recorder.slots.untaken) == (0, 1)


def test_slot_that_is_given_up_goes_to_the_next() -> None:
    recorder = Recorder(limit=1)
    recorder.take(9)
    recorder.wait(1, organization=1)
    recorder.wait(2, organization=2)
    recorder.release()

    recorder.leave(1)

    assert recorder.called == [UUID(int=1), UUID(int=2)]
    assert recorder.take(2)


def test_agent_that_waits_twice_is_called_once() -> None:
    recorder = Recorder(limit=1)
    recorder.take(9)
    for agent in (1, 2, 1):
        recorder.wait(agent, organization=1)

    assert recorder.slots.waiting == 2
    assert [recorder.call_next(), recorder.call_next()] == [1, 2]
    assert recorder.slots.waiting == 0


def test_organization_at_its_limit_is_passed_by_others() -> None:
    recorder = Recorder(limit=4, organization_limit=2)
    assert [recorder.take(agent, organization=1) for agent in (11, 12, 13)] == [True, True, False]
    for agent in (13, 14):
        recorder.wait(agent, organization=1)
    recorder.wait(21, organization=2)

    assert recorder.called == [UUID(int=21)]
    assert recorder.slots.is_at_limit(UUID(int=101))
    assert recorder.slots.has_room(UUID(int=102))

    recorder.release(organization=1)
    assert recorder.called == [UUID(int=21), UUID(int=13)]
    recorder.leave(13)
    assert recorder.called == [UUID(int=21), UUID(int=13), UUID(int=14)]


def test_agent_of_held_organization_may_leave_the_queue() -> None:
    recorder = Recorder(limit=4, organization_limit=1)
    recorder.take(11, organization=1)
    for agent in (12, 13):
        recorder.wait(agent, organization=1)
    recorder.leave(12)
    recorder.release(organization=1)

    assert recorder.called == [UUID(int=13)]
    assert recorder.slots.waiting == 0


def test_slot_is_passed_on_to_an_agent_that_waits_elsewhere() -> None:
    recorder = Recorder(limit=1, organization_limit=1)
    recorder.take(11, organization=1)
    recorder.wait(12, organization=1)
    recorder.slots.pass_on(UUID(int=21), UUID(int=101))

    assert recorder.called == [UUID(int=21)]
    assert recorder.slots.is_reserved(UUID(int=21))
    recorder.leave(21)
    assert recorder.called == [UUID(int=21), UUID(int=12)]


class AnyUse(RuleBasedStateMachine):
    """Check that no slot is lost or invented, and that no agent waits beside a slot that it may have."""

    organization_limit = 0

    def __init__(self) -> None:
        super().__init__()
        self.reserved: set[UUID] = set()
        self.running: list[UUID] = []
        self.waiting: set[UUID] = set()
        self.passed_to: UUID | None = None
        self.slots = RunSlots(3, self.reserve, self.organization_limit)

    def reserve(self, agent_id: UUID) -> None:
        assert agent_id in {*self.waiting, self.passed_to}
        self.waiting.discard(agent_id)
        self.reserved.add(agent_id)

    @rule(agent_id=agents)
    def take(self, agent_id: UUID) -> None:
        if agent_id in self.running:
            return
        had_one = agent_id in self.reserved
        if self.slots.take(agent_id, organization_of(agent_id)):
            self.reserved.discard(agent_id)
            self.waiting.discard(agent_id)
            self.running.append(agent_id)
        else:
            assert not had_one

    @rule(agent_id=agents)
    def wait(self, agent_id: UUID) -> None:
        if agent_id not in self.running and agent_id not in self.reserved:
            self.waiting.add(agent_id)
            self.slots.wait(agent_id, organization_of(agent_id))

    @rule(agent_id=agents)
    def leave(self, agent_id: UUID) -> None:
        self.reserved.discard(agent_id)
        self.waiting.discard(agent_id)
        self.slots.leave(agent_id)

    @precondition(lambda self: self.running)
    @rule()
    def end(self) -> None:
        agent_id = self.running.pop(0)
        self.slots.release(organization_of(agent_id))

    @precondition(lambda self: self.running)
    @rule(agent_id=agents)
    def pass_on(self, agent_id: UUID) -> None:
        organization_id = organization_of(self.running[0])
        if organization_of(agent_id) == organization_id and agent_id not in self.running:
            del self.running[0]
            self.passed_to = agent_id
            self.slots.pass_on(agent_id, organization_id)
            self.passed_to = None

    @invariant()
    def no_slot_is_lost(self) -> None:
        used = len(self.running) + len(self.reserved)
        assert used <= self.slots.limit
        assert (self.slots.taken, self.slots.waiting) == (len(self.running), len(self.waiting))
        in_use = Counter(map(organization_of, [*self.running, *self.reserved]))
        for organization_id in (UUID(int=number) for number in range(100, 103)):
            assert self.slots.in_use(organization_id) == in_use[organization_id]
            has_share = not self.organization_limit or in_use[organization_id] < self.organization_limit
            assert self.slots.has_room(organization_id) == (used < self.slots.limit and has_share)

    @invariant()
    def nobody_waits_beside_a_free_slot(self) -> None:
        assert not any(self.slots.has_room(organization_of(agent_id)) for agent_id in self.waiting)


class AnyUseWithShares(AnyUse):
    organization_limit = 1


for machine in (AnyUse, AnyUseWithShares):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyUse = AnyUse.TestCase
TestAnyUseWithShares = AnyUseWithShares.TestCase
