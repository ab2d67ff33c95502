"""Users, their passwords and where they belong, and the secrets of the installation."""

import asyncio
from dataclasses import replace
from datetime import datetime

import pytest

from storage.errors import NotUnique
from storage.identity.accounts import Accounts
from storage.identity.instance import Instance
from storage.identity.organizations import Organizations
from storage.identity.token_holders import TokenHolders
from storage.ids import new_id
from storage.model import Membership, Role
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, organization, user


@pytest.fixture
def accounts(pool: Pool) -> Accounts:
    return Accounts(pool, TokenHolders(pool))


async def test_a_new_account_is_a_user_who_owns_an_organization(accounts: Accounts, pool: Pool) -> None:
    ada, engines = user(), organization()

    await accounts.insert_account(ada, engines)

    assert await accounts.get_user(ada.id) == ada
    assert await Organizations(pool).get(engines.id) == engines
    assert await accounts.list_memberships(ada.id) == [Membership(engines.id, engines.name, Role.OWNER)]


async def test_an_email_address_is_found_in_any_case(accounts: Accounts) -> None:
    ada = user(email="Ada@Example.com")
    await accounts.insert_account(ada, organization())

    assert await accounts.get_user_by_email("aDA@example.COM") == ada


async def test_a_taken_email_address_in_another_case_leaves_nothing_behind(
    accounts: Accounts, pool: Pool
) -> None:
    await accounts.insert_account(user(email="ada@example.com"), organization())
    second, second_organization = user(email="ADA@example.com"), organization()

    with pytest.raises(NotUnique) as refusal:
        await accounts.insert_account(second, second_organization)

    assert refusal.value.fields == ("email",)
    assert await accounts.get_user(second.id) is None
    assert await Organizations(pool).get(second_organization.id) is None


async def test_who_is_unknown_is_none(accounts: Accounts, pool: Pool) -> None:
    assert await accounts.get_user(new_id()) is None
    assert await accounts.get_user_by_email("nobody@example.com") is None
    assert await Organizations(pool).get(new_id()) is None
    assert await accounts.list_memberships(new_id()) == []


async def test_of_two_who_replace_a_password_at_once_one_must_ask_again(accounts: Accounts) -> None:
    ada = user()
    await accounts.insert_account(ada, organization())

    versions = await asyncio.gather(*(accounts.replace_password(ada, f"hash {n}") for n in range(2)))

    assert sorted(versions, key=str) == [2, None]


async def test_a_reset_code_works_once_however_many_try(accounts: Accounts) -> None:
    ada = user(email="Ada@example.com")
    await accounts.insert_account(ada, organization())
    assert await accounts.keep_reset_code("ada@EXAMPLE.com", b"code", NOW + HOUR)

    tries = [accounts.reset_password("ADA@example.com", b"code", f"hash {n}", NOW) for n in range(5)]
    done = [reset for reset in await asyncio.gather(*tries) if reset is not None]

    assert [(reset.id, reset.token_version) for reset in done] == [(ada.id, 2)]
    assert await accounts.get_user(ada.id) == done[0]


@pytest.mark.parametrize(
    ("email", "code", "now"),
    [
        ("ada@example.com", b"other", NOW),
        ("bob@example.com", b"code", NOW),
        ("ada@example.com", b"code", NOW + HOUR),
    ],
    ids=["wrong code", "somebody else's", "an hour later"],
)
async def test_no_other_reset_code_works(accounts: Accounts, email: str, code: bytes, now: datetime) -> None:
    ada, bob = user(email="ada@example.com"), user(email="bob@example.com")
    for one in (ada, bob):
        await accounts.insert_account(one, organization())
    await accounts.keep_reset_code(ada.email, b"code", NOW + HOUR)

    assert await accounts.reset_password(email, code, "other hash", now) is None
    assert [await accounts.get_user(one.id) for one in (ada, bob)] == [ada, bob]


async def test_a_later_reset_code_ends_the_earlier_and_so_does_a_change_of_the_password(
    accounts: Accounts,
) -> None:
    ada = user()
    await accounts.insert_account(ada, organization())
    for code in (b"first", b"second"):
        await accounts.keep_reset_code(ada.email, code, NOW + HOUR)
    assert await accounts.reset_password(ada.email, b"first", "other hash", NOW) is None

    await accounts.replace_password(ada, "other hash")

    assert await accounts.reset_password(ada.email, b"second", "third hash", NOW) is None


async def test_nobody_gets_a_reset_code_who_is_unknown(accounts: Accounts) -> None:
    assert not await accounts.keep_reset_code("nobody@example.com", b"code", NOW + HOUR)


async def test_a_password_hash_is_not_shown_in_a_repr() -> None:
    assert "argon2" not in repr(replace(user(), password_hash="$argon2id$secret"))


async def test_secrets_of_the_installation_are_made_once_however_many_ask(pool: Pool) -> None:
    instances = [Instance(pool) for _ in range(8)]

    secrets = await asyncio.gather(*(instance.token_secret() for instance in instances))
    tokens = await asyncio.gather(*(instance.operator_token() for instance in instances))

    assert len(set(secrets)) == 1
    assert len(set(tokens)) == 1
    assert secrets[0] != tokens[0]
    assert len(secrets[0]) >= 32
    assert await Instance(pool).token_secret() == secrets[0]
