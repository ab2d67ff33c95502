"""The room for arrivals: its bound, and who gets a place."""

from contextlib import ExitStack
from math import inf
from uuid import UUID

import pytest

from supervisors.arrival_room import MIN_BURST, ArrivalRoom
from supervisors.errors import ServiceBusy

FLOOD, MODEST, THIRD = (UUID(int=number) for number in (1, 2, 3))


class Room(ArrivalRoom):
    """A room whose clock the test holds, and whose places are held until `leave`."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit, lambda: self.now)
        self.now = 0.0
        self._held: list[ExitStack] = []

    def enter(self, organization_id: UUID, times: int = 1) -> int:
        """Return how many got a place."""
        entered = 0
        for _ in range(times):
            stack = ExitStack()
            try:
                stack.enter_context(self.take(organization_id))
            except ServiceBusy:
                continue
            self._held.append(stack)
            entered += 1
        return entered

    def leave(self) -> None:
        self._held.pop(0).close()


def test_flood_of_one_organization_gets_half_of_the_places() -> None:
    room = Room(10)

    assert room.enter(FLOOD, 100) == 5
    assert room.refused == 95
    assert room.enter(MODEST, 2) == 2


def test_place_is_free_again_after_the_commit() -> None:
    room = Room(2)
    assert room.enter(FLOOD, 2) == 1

    room.leave()

    assert room.enter(FLOOD) == 1


def test_organization_without_a_place_always_gets_one() -> None:
    room = Room(10)
    room.enter(FLOOD, 5)
    room.limit = 1

    assert room.enter(FLOOD) == 0
    assert [room.enter(MODEST), room.enter(THIRD)] == [1, 1]
    assert room.enter(MODEST) == 0


def test_early_check_takes_no_place() -> None:
    room = Room(4)
    for _ in range(10):
        room.require(FLOOD)

    assert room.enter(FLOOD, 2) == 2
    with pytest.raises(ServiceBusy):
        room.require(FLOOD)


def test_rate_limits_what_is_taken_a_second() -> None:
    room = Room(10_000)
    room.set_pace(10_000, 20.0)
    assert room.enter(FLOOD, 100) == 1, "a burst came before, so there is no further one at once"
    assert room.enter(MODEST, 2) == 1, "the first place needs no turn"

    room.now = 1.0
    room.set_pace(10_000, 20.0)
    assert room.enter(FLOOD, 100) == 18, "20 a second, less the two first places"

    room.set_pace(10_000, inf)
    assert room.enter(FLOOD, 100) == 100


def test_unused_turns_are_kept_for_a_burst() -> None:
    room = Room(10_000)
    room.set_pace(10_000, 20.0)
    room.now = 60.0
    room.set_pace(10_000, 20.0)
    assert room.enter(FLOOD, 2 * MIN_BURST) == MIN_BURST

    room.set_pace(10_000, inf)
    room.set_pace(10_000, 20.0)

    assert room.enter(FLOOD, 100) == 0


def test_first_places_are_paid_back_while_the_rate_is_limited() -> None:
    room = Room(10_000)
    room.set_pace(10_000, 20.0)
    assert sum(room.enter(UUID(int=number)) for number in range(10, 39)) == 29
    assert room.enter(FLOOD) == 1

    room.now = 1.0
    room.set_pace(10_000, 20.0)
    assert room.enter(FLOOD) == 0, "10 are still to be paid back"
    room.now = 2.0
    room.set_pace(10_000, 20.0)
    assert room.enter(FLOOD, 100) == 10


def test_first_places_need_not_be_paid_back_after_the_limit() -> None:
    room = Room(10_000)
    room.set_pace(10_000, 20.0)
    assert sum(room.enter(UUID(int=number)) for number in range(10, 1_010)) == 1_000
    assert room.enter(FLOOD) == 1

    room.set_pace(10_000, inf)
    room.now = 1.0
    room.set_pace(10_000, 20.0)

    assert room.enter(FLOOD, 100) == 20


def test_stall_counts_since_the_last_request_left() -> None:
    room = Room(10)
    room.now = 5.0
    assert room.stall_seconds == 0.0
    room.enter(FLOOD)
    room.enter(MODEST)
    room.now = 7.0
    assert room.stall_seconds == 2.0

    room.leave()
    assert room.stall_seconds == 0.0
    room.leave()
    room.now = 9.0

    assert room.stall_seconds == 0.0


def test_failed_request_gives_its_place_back() -> None:
    room = Room(2)
    with pytest.raises(LookupError), room.take(FLOOD):
        raise LookupError

    assert room.enter(FLOOD) == 1
