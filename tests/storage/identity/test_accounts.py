"""Accounts: users, their passwords, and their memberships."""

import asyncio
from dataclasses import replace
from datetime import datetime

import pytest

from storage.errors import NotUnique
from storage.identity.accounts import Accounts, Membership
from storage.identity.organizations import Organizations
from storage.identity.token_holders import TokenHolders
from storage.ids import new_id
from storage.model import Role
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, organization, user


@pytest.fixture
def accounts(pool: Pool) -> Accounts:
    return Accounts(pool, TokenHolders(pool))


async def test_new_account_is_user_who_owns_organization(accounts: Accounts, pool: Pool) -> None:
    ada, engines = user(), organization()

    await accounts.insert_account(ada, engines)

    assert await accounts.get_user(ada.id) == ada
    assert await Organizations(pool).get(engines.id) == engines
    assert await accounts.list_memberships(ada.id) == [Membership(engines.id, engines.name, Role.OWNER)]


async def test_email_address_is_found_in_any_case(accounts: Accounts) -> None:
    ada = user(email="Ada@Example.com")
    await accounts.insert_account(ada, organization())

    assert await accounts.get_user_by_email("aDA@example.COM") == ada


async def test_taken_email_address_in_another_case_stores_nothing(accounts: Accounts, pool: Pool) -> None:
    await accounts.insert_account(user(email="ada@example.com"), organization())
    second, second_organization = user(email="ADA@example.com"), organization()

    with pytest.raises(NotUnique) as refusal:
        await accounts.insert_account(second, second_organization)

    assert refusal.value.fields == ("email",)
    assert await accounts.get_user(second.id) is None
    assert await Organizations(pool).get(second_organization.id) is None


async def test_unknown_user_is_not_found(accounts: Accounts, pool: Pool) -> None:
    assert await accounts.get_user(new_id()) is None
    assert await accounts.get_user_by_email("nobody@example.com") is None
    assert await Organizations(pool).get(new_id()) is None
    assert await accounts.list_memberships(new_id()) == []


async def test_only_one_of_two_concurrent_password_changes_is_made(accounts: Accounts) -> None:
    ada = user()
    await accounts.insert_account(ada, organization())

    versions = await asyncio.gather(*(accounts.replace_password(ada, f"hash {n}") for n in range(2)))

    assert sorted(versions, key=str) == [2, None]


async def test_reset_code_works_once_for_concurrent_requests(accounts: Accounts) -> None:
    ada = user(email="Ada@example.com")
    await accounts.insert_account(ada, organization())
    assert await accounts.set_reset_code("ada@EXAMPLE.com", b"code", NOW + HOUR)

    tries = [accounts.reset_password("ADA@example.com", b"code", f"hash {n}", NOW) for n in range(5)]
    users = [reset for reset in await asyncio.gather(*tries) if reset is not None]

    assert [(reset.id, reset.token_version) for reset in users] == [(ada.id, 2)]
    assert await accounts.get_user(ada.id) == users[0]


@pytest.mark.parametrize(
    ("email", "code", "now"),
    [
        ("ada@example.com", b"other", NOW),
        ("bob@example.com", b"code", NOW),
        ("ada@example.com", b"code", NOW + HOUR),
    ],
    ids=["wrong code", "another user's", "expired"],
)
async def test_wrong_foreign_or_expired_reset_code_is_refused(
    accounts: Accounts, email: str, code: bytes, now: datetime
) -> None:
    ada, bob = user(email="ada@example.com"), user(email="bob@example.com")
    for one in (ada, bob):
        await accounts.insert_account(one, organization())
    await accounts.set_reset_code(ada.email, b"code", NOW + HOUR)

    assert await accounts.reset_password(email, code, "other hash", now) is None
    assert [await accounts.get_user(one.id) for one in (ada, bob)] == [ada, bob]


async def test_later_code_or_password_change_ends_reset_code(
    accounts: Accounts,
) -> None:
    ada = user()
    await accounts.insert_account(ada, organization())
    for code in (b"first", b"second"):
        await accounts.set_reset_code(ada.email, code, NOW + HOUR)
    assert await accounts.reset_password(ada.email, b"first", "other hash", NOW) is None

    await accounts.replace_password(ada, "other hash")

    assert await accounts.reset_password(ada.email, b"second", "third hash", NOW) is None


async def test_unknown_user_gets_no_reset_code(accounts: Accounts) -> None:
    assert not await accounts.set_reset_code("nobody@example.com", b"code", NOW + HOUR)


async def test_repr_of_user_hides_password_hash() -> None:
    assert "argon2" not in repr(replace(user(), password_hash="$argon2id$secret"))
