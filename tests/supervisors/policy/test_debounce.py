"""Debounce: the window, the hold and its cap."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.agent_facts import PendingGroup
from storage.model import Source
from supervisors.policy.debounce import Hold, effective_window, hold_for, max_hold_seconds
from tests.storage.factories import NOW
from tests.supervisors.agent_facts import past, seconds, waiting

windows = st.integers(1, 2**31 - 1)
caps = st.integers(0, 365 * 86_400)
messages = st.lists(past, min_size=1, max_size=6).map(
    lambda moments: [waiting(Source.SMS, moment) for moment in moments]
)


@pytest.mark.parametrize(
    ("of_agent", "of_template", "expected"),
    [(None, None, 0), (None, 60, 60), (5, 60, 5), (0, 60, 0), (5, None, 5), (None, 0, 0)],
)
def test_window_of_agent_overrides_template(
    of_agent: int | None, of_template: int | None, expected: int
) -> None:
    assert effective_window(of_agent, of_template) == expected


@pytest.mark.parametrize(
    ("window", "expected"),
    [(1, 10), (30, 300), (60, 300), (150, 300), (151, 302), (3600, 7200)],
)
def test_max_hold_is_ten_windows_within_cap_or_two_windows(window: int, expected: int) -> None:
    assert max_hold_seconds(window, cap_seconds=300) == expected


def test_no_message_or_no_window_means_no_hold() -> None:
    assert hold_for([], 60, 300) is None
    assert hold_for([waiting(Source.SMS)], 0, 300) is None


def test_hold_ends_one_window_after_the_last_message() -> None:
    held = [waiting(Source.SMS, NOW, NOW + seconds(50)), waiting(Source.EMAIL, NOW + seconds(20))]

    assert hold_for(held, 60, 300) == Hold(
        60, NOW, NOW + seconds(50), NOW + seconds(110), 2, NOW + seconds(300)
    )


def test_hold_ends_at_its_cap() -> None:
    hold = hold_for([waiting(Source.SMS, NOW, NOW + seconds(299))], 60, 300)

    assert hold is not None
    assert hold.due_at == NOW + seconds(300)


@given(messages, windows, caps)
def test_hold_ends_at_the_earlier_of_quiet_and_cap(held: list[PendingGroup], window: int, cap: int) -> None:
    """Invariant I5."""
    hold = hold_for(held, window, cap)

    assert hold is not None
    quiet_at = max(message.last_at for message in held) + timedelta(seconds=window)
    capped_at = min(message.first_at for message in held) + timedelta(seconds=max_hold_seconds(window, cap))
    assert hold.due_at in {quiet_at, capped_at}
    assert hold.due_at <= quiet_at
    assert hold.due_at <= capped_at


@given(messages, windows, caps, st.integers(0, 36_000))
def test_later_message_never_shortens_a_hold(
    held: list[PendingGroup], window: int, cap: int, later: int
) -> None:
    before = hold_for(held, window, cap)
    after = hold_for([*held, waiting(Source.SMS, NOW + seconds(later))], window, cap)

    assert before is not None
    assert after is not None
    assert after.due_at >= before.due_at


@given(messages, windows, caps)
def test_single_message_is_held_for_exactly_the_window(
    held: list[PendingGroup], window: int, cap: int
) -> None:
    hold = hold_for(held[:1], window, cap)

    assert hold is not None
    assert hold.due_at - held[0].last_at == timedelta(seconds=window)
