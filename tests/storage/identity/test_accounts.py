"""Accounts: addresses that are taken, and changes of passwords."""

import asyncio

import pytest

from storage.errors import NotUnique
from storage.identity.accounts import Accounts, TokenHolders
from storage.identity.organizations import Organizations
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, organization, user


@pytest.fixture
def accounts(pool: Pool) -> Accounts:
    return Accounts(pool, TokenHolders(pool))


async def test_taken_email_address_in_another_case_stores_nothing(accounts: Accounts, pool: Pool) -> None:
    await accounts.insert_account(user(email="ada@example.com"), organization())
    second, second_organization = user(email="ADA@example.com"), organization()

    with pytest.raises(NotUnique) as refusal:
        await accounts.insert_account(second, second_organization)

    assert refusal.value.fields == ("email",)
    assert await accounts.get_user(second.id) is None
    assert await Organizations(pool).get(second_organization.id) is None


async def test_only_one_of_two_concurrent_password_changes_is_made(accounts: Accounts) -> None:
    ada = user()
    await accounts.insert_account(ada, organization())

    versions = await asyncio.gather(*(accounts.replace_password(ada, f"hash {n}") for n in range(2)))

    assert sorted(versions, key=str) == [2, None]


async def test_later_code_or_password_change_ends_reset_code(accounts: Accounts) -> None:
    ada, bob = user(), user()
    for one in (ada, bob):
        await accounts.insert_account(one, organization())
    for code in (b"first", b"second"):
        await accounts.set_reset_code(ada.email, code, NOW + HOUR)
    assert await accounts.reset_password(ada.email, b"first", "other hash", NOW) is None
    assert await accounts.reset_password(bob.email, b"second", "other hash", NOW) is None

    await accounts.replace_password(ada, "other hash")

    assert await accounts.reset_password(ada.email, b"second", "third hash", NOW) is None
