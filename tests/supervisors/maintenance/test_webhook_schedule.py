"""The schedule of webhooks: the next attempt, and which deliveries are started first."""

from datetime import timedelta
from uuid import UUID

import pytest

from storage.delivery.outbox import Attempt, DueDelivery
from storage.ids import new_id
from supervisors.maintenance.webhook_sender import (
    MAX_CONCURRENT,
    MAX_PER_ORGANIZATION,
    MAX_PER_RECEIVER,
    SCHEDULE,
    attempt_after,
    choose,
)
from supervisors.outbound import AddressRefused, NoAnswer, NotConnected, OutboundAnswer
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND


def answer(status: int, retry_after: timedelta | None = None) -> OutboundAnswer:
    return OutboundAnswer(status, "text/html", b"<html>", retry_after)


def pause(attempts: int, outcome: OutboundAnswer, stretch: float = 1) -> timedelta:
    next_attempt_at = attempt_after(outcome, attempts, NOW, stretch).next_attempt_at
    assert next_attempt_at is not None, "the delivery was given up"
    return next_attempt_at - NOW


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_successful_status_delivers(status: int) -> None:
    assert attempt_after(answer(status), 10, NOW, 1) == Attempt(delivered_at=NOW, status=status)


def test_pauses_grow_from_seconds_to_a_day() -> None:
    hours = [2, 5, 10, 14, 20, 24]
    expected = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, *(number * HOUR for number in hours)]
    assert [pause(attempts, answer(500)) for attempts in range(1, 10)] == expected


def test_delivery_is_given_up_after_the_tenth_attempt() -> None:
    assert attempt_after(answer(503), 10, NOW, 1) == Attempt(
        failed_at=NOW, status=503, error="The receiver answered 503."
    )
    assert attempt_after(NoAnswer("Too slow."), 10, NOW, 1) == Attempt(failed_at=NOW, error="Too slow.")


def test_redirect_is_a_failed_attempt() -> None:
    attempt = attempt_after(answer(302), 1, NOW, 1)
    assert attempt.error == "The receiver answered 302; redirects are not followed."
    assert attempt.next_attempt_at == NOW + 5 * SECOND


def test_gone_receiver_and_refused_address_are_given_up_at_once() -> None:
    assert attempt_after(answer(410), 1, NOW, 1).failed_at == NOW
    assert attempt_after(AddressRefused("It is private."), 1, NOW, 1) == Attempt(
        failed_at=NOW, error="It is private."
    )


def test_unreachable_receiver_is_tried_again() -> None:
    attempt = attempt_after(NotConnected("Connection refused."), 1, NOW, 1)
    assert attempt == Attempt(next_attempt_at=NOW + 5 * SECOND, error="Connection refused.")


def test_retry_after_lengthens_the_pause_up_to_a_day() -> None:
    assert pause(1, answer(429, 2 * MINUTE)) == 2 * MINUTE
    assert pause(2, answer(429, 2 * MINUTE)) == 5 * MINUTE
    assert pause(1, answer(503, 1000 * HOUR)) == 24 * HOUR


def test_stretch_lengthens_the_pause() -> None:
    assert pause(1, answer(500), stretch=1.1) == 5.5 * SECOND


def due(organization_id: UUID, url: str = "https://a.example", seconds: float = 0) -> DueDelivery:
    at = NOW + timedelta(seconds=seconds)
    return DueDelivery(new_id(), organization_id, url, b"{}", 0, at, secrets=("",))


def test_crowded_receiver_leaves_room_for_others() -> None:
    crowded, other = new_id(), new_id()
    waiting = [due(crowded, seconds=number) for number in range(2 * MAX_PER_RECEIVER)]
    waiting += [due(crowded, "https://b.example", 100), due(other, "https://c.example", 200)]
    chosen = choose(waiting, [])
    assert chosen[:3] == [waiting[0], waiting[-1], waiting[-2]]
    assert len(chosen) == MAX_PER_RECEIVER + 2


def test_crowded_organization_leaves_room_for_others() -> None:
    crowded, other = new_id(), new_id()
    waiting = [due(crowded, f"https://{number}.example", number) for number in range(1000)]
    in_progress = waiting[: MAX_PER_ORGANIZATION - 1]
    waiting.append(due(other, seconds=2000))
    assert choose(waiting[len(in_progress) :], in_progress) == [waiting[-1], waiting[len(in_progress)]]


def test_concurrent_deliveries_are_limited() -> None:
    waiting = [due(new_id(), seconds=number) for number in range(2 * MAX_CONCURRENT)]
    assert choose(waiting, []) == waiting[:MAX_CONCURRENT]
    assert choose(waiting[MAX_CONCURRENT:], waiting[: MAX_CONCURRENT - 1]) == [waiting[MAX_CONCURRENT]]
    assert choose(waiting[MAX_CONCURRENT:], waiting[:MAX_CONCURRENT]) == []


def test_schedule_has_nine_pauses() -> None:
    assert len(SCHEDULE) == 9
