"""Token holders: cached for a second, and read again after each change."""

from collections.abc import Awaitable, Callable

import pytest

from storage.identity.accounts import Accounts, TokenHolder, TokenHolders
from storage.identity.organizations import Invites, Memberships
from storage.ids import new_id
from storage.model import Role, User
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, open_invite, organization, user

INSERT_MEMBERSHIP = """
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
    """Store a user who owns an organization."""
    ada = user(token_version=3)
    await accounts.insert_account(ada, organization())
    return ada


async def test_token_holder_has_roles_by_oldest_membership_first(
    token_holders: TokenHolders, accounts: Accounts, pool: Pool, ada: User
) -> None:
    older = organization()
    await accounts.insert_account(user(), older)
    await pool.execute(INSERT_MEMBERSHIP, new_id(), older.id, ada.id, "member", NOW - HOUR)

    holder = await token_holders.get(ada.id, NOW)

    assert holder is not None
    assert (holder.user_id, holder.token_version) == (ada.id, 3)
    assert list(holder.roles.values()) == [Role.MEMBER, Role.OWNER]
    assert next(iter(holder.roles)) == older.id


async def test_user_without_organization_is_token_holder(
    token_holders: TokenHolders, pool: Pool, ada: User
) -> None:
    await pool.execute("DELETE FROM membership")

    assert await token_holders.get(ada.id, NOW) == TokenHolder(ada.id, 3, {})


async def _end_tokens(accounts: Accounts, ada: User) -> None:
    await accounts.revoke_tokens(ada.id)


async def _replace_password(accounts: Accounts, ada: User) -> None:
    assert await accounts.replace_password(ada, "another hash") == 4


async def _reset_password(accounts: Accounts, ada: User) -> None:
    assert await accounts.set_reset_code(ada.email, b"code", NOW + HOUR)
    assert await accounts.reset_password(ada.email, b"code", "another hash", NOW) is not None


@pytest.mark.parametrize("change", [_end_tokens, _replace_password, _reset_password])
async def test_next_read_sees_that_tokens_were_revoked(
    token_holders: TokenHolders,
    accounts: Accounts,
    ada: User,
    change: Callable[[Accounts, User], Awaitable[None]],
) -> None:
    assert await _version(token_holders, ada) == 3

    await change(accounts, ada)

    assert await _version(token_holders, ada) == 4


async def test_next_read_sees_changed_role(
    token_holders: TokenHolders, accounts: Accounts, pool: Pool, ada: User
) -> None:
    membership_id, other = new_id(), organization()
    await accounts.insert_account(user(), other)
    await pool.execute(INSERT_MEMBERSHIP, membership_id, other.id, ada.id, "member", NOW)
    memberships = Memberships(pool, token_holders)
    roles: list[Role | None] = []

    async def read_role() -> None:
        holder = await token_holders.get(ada.id, NOW)
        roles.append(holder.roles.get(other.id) if holder else None)

    await read_role()
    await memberships.update_role(membership_id, Role.ADMIN, by=Role.OWNER)
    await read_role()
    await memberships.delete(membership_id, by=Role.OWNER)
    await read_role()

    assert roles == [Role.MEMBER, Role.ADMIN, None]


async def test_next_read_sees_accepted_invitation(
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
    current = await token_holders.get(holder.id, NOW)
    return current.token_version if current else None
