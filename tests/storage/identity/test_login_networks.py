"""The networks from which users have logged in lately."""

from datetime import timedelta

import pytest

from storage.identity.accounts import MAX_NETWORKS, REMEMBERED, Accounts, LoginNetworks, TokenHolders
from storage.model import User
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, SECOND, organization, user

HOME, OFFICE = "203.0.113.1", "2001:db8::/64"


@pytest.fixture
async def ada(pool: Pool) -> User:
    ada = user()
    await Accounts(pool, TokenHolders(pool)).insert_account(ada, organization())
    return ada


async def test_network_is_known_for_ninety_days_after_login(pool: Pool, ada: User) -> None:
    networks = LoginNetworks(pool)
    await networks.record(ada.id, HOME, NOW - timedelta(days=1))
    await networks.record(ada.id, HOME, NOW)
    assert await networks.contains(ada.id, HOME, NOW + REMEMBERED)
    assert not await networks.contains(ada.id, HOME, NOW + REMEMBERED + SECOND)
    assert not await networks.contains(ada.id, OFFICE, NOW)


async def test_only_the_latest_networks_of_a_user_are_kept(pool: Pool, ada: User) -> None:
    networks = LoginNetworks(pool)
    for number in range(MAX_NETWORKS + 5):
        await networks.record(ada.id, str(number), NOW + number * SECOND)
    known = [await networks.contains(ada.id, str(number), NOW) for number in range(MAX_NETWORKS + 5)]
    assert known == [False] * 5 + [True] * MAX_NETWORKS


async def test_addresses_are_stored_as_hashes_of_one_user(pool: Pool, ada: User) -> None:
    networks = LoginNetworks(pool)
    await networks.record(ada.id, HOME, NOW)
    [row] = await pool.fetch("SELECT network_hash FROM login_network")
    assert len(row["network_hash"]) == 32
    assert not await networks.contains(organization().id, HOME, NOW)
