"""The clock of the server compared with this machine's."""

from datetime import timedelta

from storage.postgres.server_clock import Lead, ServerClock


def observe(clock: ServerClock, at: float, low_ms: float, high_ms: float) -> float:
    clock.observe(Lead(at, timedelta(milliseconds=low_ms), timedelta(milliseconds=high_ms)))
    return clock.correction


def test_clocks_that_may_agree_need_no_correction() -> None:
    clock = ServerClock()
    assert observe(clock, 0, -30, 40) == 0
    assert observe(clock, 1, 4, 20) == 0  # within the tolerance


def test_clock_is_corrected_to_the_middle_of_what_all_answers_allow() -> None:
    clock = ServerClock()
    assert observe(clock, 0, 1000, 1200) == 1.1
    assert observe(clock, 1, 1080, 1300) == 1.1  # still possible
    assert observe(clock, 2, 1000, 1084) == 1.082


def test_old_answers_are_forgotten_and_contradicted_ones_dropped() -> None:
    clock = ServerClock()
    assert observe(clock, 0, 1000, 1010) == 1.005
    assert observe(clock, 1, 5000, 5010) == 5.005  # one of the clocks was set
    assert observe(clock, 2, -2, 2) == 0
    observe(clock, 3, 0, 1)
    assert observe(clock, 64, 20, 30) == 0.025
