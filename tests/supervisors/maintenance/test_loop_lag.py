"""The loop lag probe measures how late the event loop is."""

import pytest

from supervisors.engine.inspection import Statistics
from supervisors.maintenance.loop_lag import LoopLagProbe
from tests.supervisors.held_clock import HeldClock


class LateClock(HeldClock):
    """A clock on which every sleep takes longer than asked for."""

    def __init__(self, lag_seconds: float) -> None:
        super().__init__()
        self._lag_seconds = lag_seconds

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds + self._lag_seconds)


@pytest.mark.parametrize("lag_seconds", [0.0, 0.2])
async def test_loop_lag_is_the_delay_after_the_sleep(lag_seconds: float) -> None:
    statistics = Statistics()

    await LoopLagProbe(statistics, LateClock(lag_seconds)).run_once()

    [measured] = statistics.loop_lag_seconds
    assert measured == pytest.approx(lag_seconds)
