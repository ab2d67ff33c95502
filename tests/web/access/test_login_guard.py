"""The limits on wrong attempts: by account and network together, by network, and by account."""

from datetime import timedelta

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from storage.errors import DatabaseReadOnly
from storage.identity.throttle import ThrottleBuckets
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from tests.storage.factories import HOUR, NOW
from web.access.login_guard import (
    OF_NETWORK,
    OF_PAIR,
    AttemptKind,
    LoginGuard,
    account_key,
    count_signup,
)
from web.app_keys import SETTINGS
from web.errors import Throttled
from web.settings import LimitSettings, WebSettings

ANN, BOB = "ann@example.com", "bob@example.com"
PASSWORD, CODE, _, SIGN_UP = AttemptKind
COUNT = "SELECT count(*) FROM throttle_bucket"


@pytest.fixture
def guard(pool: Pool) -> LoginGuard:
    return LoginGuard(ThrottleBuckets(pool))


async def fail(
    guard: LoginGuard,
    network: str = "a",
    account: str = ANN,
    seconds: float = 0.0,
    kind: AttemptKind = PASSWORD,
) -> Throttled | None:
    """Make a wrong attempt that is not checked if it is overdrawn; return the refusal."""
    try:
        async with guard.attempt(kind, network, account, NOW + timedelta(seconds=seconds)) as attempt:
            await attempt.count_wrong()
    except Throttled as refusal:
        return refusal
    return None


async def accepted(guard: LoginGuard, attempts: list[tuple[str, str, float]]) -> int:
    """Return how many of these wrong attempts are accepted."""
    return sum([await fail(guard, *attempt) is None for attempt in attempts])


async def test_person_who_mistypes_waits_a_minute_and_alone(guard: LoginGuard) -> None:
    assert await accepted(guard, [("a", ANN, 0.0)] * 12) == OF_PAIR.attempts == 10
    refused = await fail(guard, seconds=15.0)
    assert refused is not None
    assert refused.headers == {"Retry-After": "45"}
    assert refused.body["detail"] == (
        "Request was throttled. Expected available in 45 seconds. At most 10 wrong attempts at one account "
        "from one address are accepted, and one more every 60 seconds."
    )
    assert await fail(guard, account=BOB, seconds=15.0) is None
    assert await fail(guard, network="b", seconds=15.0) is None
    assert await fail(guard, seconds=60.0) is None


async def test_network_that_tries_many_accounts_is_overdrawn(guard: LoginGuard) -> None:
    spray = [("a", f"{number}@example.com", 0.0) for number in range(100)]
    assert await accepted(guard, spray) == OF_NETWORK.attempts == 30
    refused = await fail(guard)
    assert refused is not None
    assert refused.headers == {"Retry-After": "10"}
    assert "from one address are accepted, and one more every 10 seconds" in refused.body["detail"]
    assert await fail(guard, network="b") is None
    assert await fail(guard, seconds=10.0) is None


async def test_network_guesses_at_stated_rate_and_locks_out_nobody(guard: LoginGuard) -> None:
    hours = 4 * 3600
    guesses = await accepted(guard, [("a", ANN, float(second)) for second in range(0, hours, 15)])
    assert guesses == pytest.approx(10 + hours / 60, abs=1)
    async with guard.attempt(PASSWORD, "b", ANN, NOW + 4 * HOUR) as attempt:
        assert attempt.overdrawn is None


async def test_nodes_count_wrong_attempts_together(guard: LoginGuard, pool: Pool) -> None:
    other_node = LoginGuard(ThrottleBuckets(pool))
    assert await accepted(guard, [("a", ANN, 0.0)] * 6) == 6
    assert await accepted(other_node, [("a", ANN, 0.0)] * 6) == 4
    assert await fail(guard) is not None
    spray = [("a", f"{number}@example.com", 0.0) for number in range(30)]
    assert await accepted(other_node, spray) == 20
    assert await fail(guard, account=BOB) is not None


async def test_right_attempts_cost_nothing(guard: LoginGuard, pool: Pool) -> None:
    for number in range(100):
        async with guard.attempt(PASSWORD, "a", str(number % 7), NOW) as attempt:
            assert attempt.overdrawn is None
    assert await pool.fetchval(COUNT) == 0


async def test_attempts_in_progress_count_towards_the_wrong(guard: LoginGuard) -> None:
    for _ in range(OF_PAIR.attempts - 1):
        await fail(guard)
    async with guard.attempt(PASSWORD, "a", ANN, NOW):
        assert await fail(guard) is not None
    assert await fail(guard) is None


async def test_codes_and_sign_ups_are_no_password_guesses(guard: LoginGuard) -> None:
    for _ in range(15):
        await fail(guard, kind=CODE)
        await fail(guard, kind=SIGN_UP)
    async with guard.attempt(PASSWORD, "a", ANN, NOW) as attempt:
        assert attempt.overdrawn is None


async def test_network_has_guessed_after_a_wrong_attempt(guard: LoginGuard) -> None:
    async with guard.attempt(PASSWORD, "a", ANN, NOW):
        assert not guard.has_guessed("a")
        async with guard.attempt(PASSWORD, "a", BOB, NOW):
            assert guard.has_guessed("a")
    assert not guard.has_guessed("a")
    await fail(guard)
    async with guard.attempt(PASSWORD, "a", BOB, NOW):
        assert guard.has_guessed("a")


async def test_clock_that_was_set_back_locks_nobody_out(guard: LoginGuard) -> None:
    assert await accepted(guard, [("a", ANN, 7200.0)] * 11) == 10
    assert await accepted(guard, [("a", ANN, 0.0)] * 12) == 10


async def test_attempts_are_overdrawn_while_wrong_ones_cannot_be_counted(database_url: str) -> None:
    async with open_pool(DatabaseSettings(database_url, pool_size=1), node=None) as pool:
        await pool.execute("SET default_transaction_read_only = on")  # for this one connection
        guard = LoginGuard(ThrottleBuckets(pool))
        with pytest.raises(DatabaseReadOnly):
            await fail(guard)
        assert await fail(guard, "b", BOB) is not None
        assert await fail(guard, "b", BOB) is None


def test_spellings_of_one_address_are_counted_together() -> None:
    spellings = ("admin@example.com", "ADMIN@Example.com", "adm\u0130n@example.com", "admin@example.\u212aom")
    assert len({account_key(text) for text in spellings[:3]}) == 1
    assert account_key(spellings[3]) != account_key(spellings[0])


async def test_flood_of_accounts_and_networks_takes_memory_for_minutes(guard: LoginGuard, pool: Pool) -> None:
    for number in range(50):
        await fail(guard, str(number), str(number), float(number))
    assert await pool.fetchval(COUNT) == 100
    buckets = ThrottleBuckets(pool)
    assert await buckets.delete_full(NOW, 1000) == 0
    assert await buckets.delete_full(NOW + timedelta(seconds=70), 90) == 61
    assert await buckets.delete_full(NOW + HOUR, 1000) == 39
    assert not guard._in_progress


def test_signups_are_unlimited_if_the_limit_is_zero() -> None:
    app = web.Application()
    app[SETTINGS] = WebSettings("s" * 32, "operator", limits=LimitSettings(signups_per_hour=0))
    for _ in range(100):
        count_signup(make_mocked_request("POST", "/", app=app))
