"""Users, organizations, memberships, and the secrets of the installation."""

import asyncio
from dataclasses import replace

import pytest

from storage.accounts import Accounts
from storage.errors import NotUnique
from storage.ids import new_id
from storage.instance import Instance
from storage.model import Membership, Role
from storage.pool import Pool
from tests.storage.factories import HOUR, NOW, organization, user

ADD_MEMBERSHIP = """
INSERT INTO membership (id, organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4, $5)
"""


@pytest.fixture
def accounts(pool: Pool) -> Accounts:
    return Accounts(pool)


async def test_a_new_account_is_a_user_who_owns_an_organization(accounts: Accounts) -> None:
    ada, engines = user(), organization()

    await accounts.insert_account(ada, engines)

    assert await accounts.get_user(ada.id) == ada
    assert await accounts.get_organization(engines.id) == engines
    assert await accounts.list_memberships(ada.id) == [Membership(engines.id, engines.name, Role.OWNER)]


async def test_an_email_address_is_found_in_any_case(accounts: Accounts) -> None:
    ada = user(email="Ada@Example.com")
    await accounts.insert_account(ada, organization())

    assert await accounts.get_user_by_email("aDA@example.COM") == ada


async def test_a_taken_email_address_in_another_case_leaves_nothing_behind(accounts: Accounts) -> None:
    await accounts.insert_account(user(email="ada@example.com"), organization())
    second, second_organization = user(email="ADA@example.com"), organization()

    with pytest.raises(NotUnique) as refusal:
        await accounts.insert_account(second, second_organization)

    assert refusal.value.fields == ("email",)
    assert await accounts.get_user(second.id) is None
    assert await accounts.get_organization(second_organization.id) is None


async def test_who_is_unknown_is_none(accounts: Accounts) -> None:
    assert await accounts.get_user(new_id()) is None
    assert await accounts.get_user_by_email("nobody@example.com") is None
    assert await accounts.get_organization(new_id()) is None
    assert await accounts.list_memberships(new_id()) == []
    assert await accounts.get_token_holder(new_id()) is None


async def test_a_token_holder_lists_memberships_oldest_first(accounts: Accounts, pool: Pool) -> None:
    ada, own = user(token_version=3), organization(name="Own")
    await accounts.insert_account(ada, own)
    older = organization(name="Older")
    await accounts.insert_account(user(), older)
    await pool.execute(ADD_MEMBERSHIP, new_id(), older.id, ada.id, "member", NOW - HOUR)

    holder = await accounts.get_token_holder(ada.id)

    assert holder is not None
    assert (holder.user_id, holder.token_version) == (ada.id, 3)
    assert [place.organization_name for place in holder.memberships] == ["Older", "Own"]
    assert [place.role for place in holder.memberships] == [Role.MEMBER, Role.OWNER]
    assert await accounts.list_memberships(ada.id) == list(holder.memberships)


async def test_token_holders_asked_for_at_once_each_get_their_own(accounts: Accounts) -> None:
    users = [user() for _ in range(5)]
    for one in users:
        await accounts.insert_account(one, organization())
    wanted = [one.id for one in users] + [new_id(), users[0].id]

    holders = await asyncio.gather(*map(accounts.get_token_holder, wanted))

    found = [holder.user_id if holder else None for holder in holders]
    assert found == [*wanted[:5], None, wanted[0]]


async def test_a_user_without_an_organization_still_holds_tokens(accounts: Accounts, pool: Pool) -> None:
    ada = user()
    await accounts.insert_account(ada, organization())
    await pool.execute("DELETE FROM membership")

    holder = await accounts.get_token_holder(ada.id)

    assert holder is not None
    assert holder.memberships == ()


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
