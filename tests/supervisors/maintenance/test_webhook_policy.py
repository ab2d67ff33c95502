"""What comes after an attempt to deliver a webhook, and whose turn it is."""

from datetime import timedelta
from uuid import UUID

import pytest

from storage.delivery.outbox import Attempt, DueDelivery
from storage.ids import new_id
from supervisors.maintenance.webhook_delivery import (
    AT_ONCE,
    OF_ONE_ORGANIZATION,
    SCHEDULE,
    TO_ONE_RECEIVER,
    choose,
    judge,
)
from supervisors.outbound import AddressRefused, NoAnswer, NotConnected, OutboundAnswer
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND


def answer(status: int, retry_after: timedelta | None = None) -> OutboundAnswer:
    return OutboundAnswer(status, "text/html", b"<html>", retry_after)


def pause(attempts: int, outcome: OutboundAnswer, stretch: float = 1) -> timedelta:
    next_attempt_at = judge(outcome, attempts, NOW, stretch).next_attempt_at
    assert next_attempt_at is not None, "it was given up"
    return next_attempt_at - NOW


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_success_delivers(status: int) -> None:
    assert judge(answer(status), 10, NOW, 1) == Attempt(delivered_at=NOW, status=status)


def test_the_pauses_grow_from_seconds_to_a_day() -> None:
    hours = [2, 5, 10, 14, 20, 24]
    expected = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, *(each * HOUR for each in hours)]
    assert [pause(attempts, answer(500)) for attempts in range(1, 10)] == expected


def test_after_the_tenth_attempt_it_is_given_up_with_the_last_reason() -> None:
    assert judge(answer(503), 10, NOW, 1) == Attempt(
        failed_at=NOW, status=503, error="The receiver answered 503."
    )
    assert judge(NoAnswer("Too slow."), 10, NOW, 1) == Attempt(failed_at=NOW, error="Too slow.")


def test_a_redirect_is_no_success_and_says_why() -> None:
    attempt = judge(answer(302), 1, NOW, 1)
    assert attempt.error == "The receiver answered 302; redirects are not followed."
    assert attempt.next_attempt_at == NOW + 5 * SECOND


def test_gone_and_refused_are_given_up_at_once() -> None:
    assert judge(answer(410), 1, NOW, 1).failed_at == NOW
    assert judge(AddressRefused("It is private."), 1, NOW, 1) == Attempt(
        failed_at=NOW, error="It is private."
    )


def test_who_cannot_be_reached_is_tried_again() -> None:
    attempt = judge(NotConnected("Connection refused."), 1, NOW, 1)
    assert attempt == Attempt(next_attempt_at=NOW + 5 * SECOND, error="Connection refused.")


def test_a_receiver_may_ask_for_a_longer_pause_but_not_for_a_shorter_one_or_for_ever() -> None:
    assert pause(1, answer(429, 2 * MINUTE)) == 2 * MINUTE
    assert pause(2, answer(429, 2 * MINUTE)) == 5 * MINUTE
    assert pause(1, answer(503, 1000 * HOUR)) == 24 * HOUR


def test_pauses_are_stretched_so_that_not_all_come_back_together() -> None:
    assert pause(1, answer(500), stretch=1.1) == 5.5 * SECOND


def due(organization_id: UUID, url: str = "https://a.example", seconds: float = 0) -> DueDelivery:
    at = NOW + timedelta(seconds=seconds)
    return DueDelivery(new_id(), organization_id, url, b"{}", 0, at, secret="")


def test_a_receiver_with_thousands_waiting_leaves_room_for_the_others() -> None:
    crowd, lonely = new_id(), new_id()
    waiting = [due(crowd, seconds=number) for number in range(2 * TO_ONE_RECEIVER)]
    waiting += [due(crowd, "https://b.example", 100), due(lonely, "https://c.example", 200)]
    chosen = choose(waiting, [])
    assert chosen[:3] == [waiting[0], waiting[-1], waiting[-2]]
    assert len(chosen) == TO_ONE_RECEIVER + 2


def test_an_organization_with_hundreds_of_receivers_leaves_room_for_the_others() -> None:
    crowd, lonely = new_id(), new_id()
    waiting = [due(crowd, f"https://{number}.example", number) for number in range(1000)]
    under_way = waiting[: OF_ONE_ORGANIZATION - 1]
    waiting.append(due(lonely, seconds=2000))
    assert choose(waiting[len(under_way) :], under_way) == [waiting[-1], waiting[len(under_way)]]


def test_no_more_are_sent_at_once_than_there_is_room_for() -> None:
    waiting = [due(new_id(), seconds=number) for number in range(2 * AT_ONCE)]
    assert choose(waiting, []) == waiting[:AT_ONCE]
    assert choose(waiting[AT_ONCE:], waiting[: AT_ONCE - 1]) == [waiting[AT_ONCE]]
    assert choose(waiting[AT_ONCE:], waiting[:AT_ONCE]) == []


def test_there_are_ten_attempts() -> None:
    assert len(SCHEDULE) == 9
