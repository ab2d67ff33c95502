"""Who holds a token: asked by every request, remembered for a second, and known anew after every change."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from storage.identity.accounts import Accounts
from storage.identity.invites import Invites
from storage.identity.memberships import Memberships
from storage.identity.token_holders import TokenHolder, TokenHolders
from storage.ids import new_id
from storage.model import Role, User
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, SECOND, open_invite, organization, user

ADD_MEMBERSHIP = """
INSERT INTO membership (id, organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4, $5)
"""


@pytest.fixture
def token_holders(pool: Pool) -> TokenHolders:
    return TokenHolders(pool)


@pytest.fixture
def accounts(pool: Pool, token_holders: TokenHolders) -> Accounts:
    return Accounts(pool, token_holders)


@pytest.fixture
async def ada(accounts: Accounts) -> User:
    """The owner of an organization, who signed up with it."""
    ada = user(token_version=3)
    await accounts.insert_account(ada, organization())
    return ada


async def test_a_token_holder_has_roles_the_oldest_place_first(
    token_holders: TokenHolders, accounts: Accounts, pool: Pool, ada: User
) -> None:
    older = organization()
    await accounts.insert_account(user(), older)
    await pool.execute(ADD_MEMBERSHIP, new_id(), older.id, ada.id, "member", NOW - HOUR)

    holder = await token_holders.get(ada.id, NOW)

    assert holder is not None
    assert (holder.user_id, holder.token_version) == (ada.id, 3)
    assert list(holder.roles.values()) == [Role.MEMBER, Role.OWNER]
    assert next(iter(holder.roles)) == older.id


async def test_token_holders_asked_for_at_once_each_get_their_own(
    token_holders: TokenHolders, accounts: Accounts
) -> None:
    users = [user() for _ in range(5)]
    for one in users:
        await accounts.insert_account(one, organization())
    wanted = [one.id for one in users] + [new_id(), users[0].id]

    holders = await asyncio.gather(*(token_holders.get(one, NOW) for one in wanted))

    found = [holder.user_id if holder else None for holder in holders]
    assert found == [*wanted[:5], None, wanted[0]]


async def test_a_user_without_an_organization_still_holds_tokens(
    token_holders: TokenHolders, pool: Pool, ada: User
) -> None:
    await pool.execute("DELETE FROM membership")

    assert await token_holders.get(ada.id, NOW) == TokenHolder(ada.id, 3, {})


async def test_what_another_program_changes_is_known_a_second_later(
    token_holders: TokenHolders, pool: Pool, ada: User
) -> None:
    known = await token_holders.get(ada.id, NOW)
    await pool.execute("DELETE FROM membership")
    await pool.execute("DELETE FROM user_account")

    assert await token_holders.get(ada.id, NOW + SECOND / 2) == known
    assert await token_holders.get(ada.id, NOW + SECOND) is None


async def test_a_clock_set_back_remembers_nothing(token_holders: TokenHolders, pool: Pool, ada: User) -> None:
    await token_holders.get(ada.id, NOW)
    await pool.execute("DELETE FROM membership")

    assert await token_holders.get(ada.id, NOW - SECOND) == TokenHolder(ada.id, 3, {})


async def test_what_is_read_while_it_changes_is_not_remembered(
    token_holders: TokenHolders, accounts: Accounts, ada: User
) -> None:
    await asyncio.gather(token_holders.get(ada.id, NOW), accounts.end_tokens(ada.id))

    assert await _version(token_holders, ada) == 4


async def _end_tokens(accounts: Accounts, ada: User) -> None:
    await accounts.end_tokens(ada.id)


async def _replace_password(accounts: Accounts, ada: User) -> None:
    assert await accounts.replace_password(ada, "another hash") == 4


async def _reset_password(accounts: Accounts, ada: User) -> None:
    assert await accounts.keep_reset_code(ada.email, b"code", NOW + HOUR)
    assert await accounts.reset_password(ada.email, b"code", "another hash", NOW) is not None


@pytest.mark.parametrize("change", [_end_tokens, _replace_password, _reset_password])
async def test_the_very_next_request_knows_that_tokens_have_ended(
    token_holders: TokenHolders,
    accounts: Accounts,
    ada: User,
    change: Callable[[Accounts, User], Awaitable[None]],
) -> None:
    assert await _version(token_holders, ada) == 3

    await change(accounts, ada)

    assert await _version(token_holders, ada) == 4


async def test_the_very_next_request_knows_of_another_role(
    token_holders: TokenHolders, accounts: Accounts, pool: Pool, ada: User
) -> None:
    place, other = new_id(), organization()
    await accounts.insert_account(user(), other)
    await pool.execute(ADD_MEMBERSHIP, place, other.id, ada.id, "member", NOW)
    memberships = Memberships(pool, token_holders)
    seen = []

    async def see() -> None:
        holder = await token_holders.get(ada.id, NOW)
        seen.append(holder and holder.roles.get(other.id))

    await see()
    await memberships.change_role(place, Role.ADMIN, by=Role.OWNER)
    await see()
    await memberships.delete(place, by=Role.OWNER)
    await see()

    assert seen == [Role.MEMBER, Role.ADMIN, None]


async def test_the_very_next_request_knows_of_an_invitation_that_was_accepted(
    token_holders: TokenHolders, accounts: Accounts, pool: Pool, ada: User
) -> None:
    other = organization()
    await accounts.insert_account(user(), other)
    invites, invitation = Invites(pool, token_holders), open_invite(other.id, role=Role.ADMIN)
    await invites.insert(invitation)
    await token_holders.get(ada.id, NOW)

    assert await invites.accept(invitation.id, ada, NOW, is_new=False)

    holder = await token_holders.get(ada.id, NOW)
    assert holder is not None
    assert holder.roles[other.id] is Role.ADMIN


async def _version(token_holders: TokenHolders, holder: User) -> int | None:
    found = await token_holders.get(holder.id, NOW)
    return found.token_version if found else None
