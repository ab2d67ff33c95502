"""Memberships: listing, changing and deleting them, and the last owner, who stays."""

import asyncio

import pytest

from storage.errors import Forbidden, LastOwner
from storage.identity.memberships import Member, Memberships
from storage.identity.token_holders import TokenHolders
from storage.ids import new_id
from storage.model import Role
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, stored_member, stored_organization


@pytest.fixture
def memberships(pool: Pool) -> Memberships:
    return Memberships(pool, TokenHolders(pool))


async def stored_owner(memberships: Memberships, pool: Pool) -> Member:
    """Store an organization and return its owner."""
    organization = await stored_organization(pool)
    [owner] = await memberships.list_page([organization.id], Page())
    return owner


async def test_get_returns_member_with_the_user(memberships: Memberships, pool: Pool) -> None:
    organization = await stored_organization(pool)

    bob = await stored_member(pool, organization.id, Role.MEMBER, email="bob@example.com", name="Bob")

    member = await memberships.get(bob)
    assert member is not None
    assert (member.email, member.name, member.role) == ("bob@example.com", "Bob", Role.MEMBER)
    assert member.organization_id == organization.id


async def test_page_shows_given_organizations_newest_first(memberships: Memberships, pool: Pool) -> None:
    owner = await stored_owner(memberships, pool)
    await stored_owner(memberships, pool)
    later = await stored_member(pool, owner.organization_id, Role.MEMBER, joined_at=NOW + HOUR)

    page = await memberships.list_page([owner.organization_id], Page())

    assert [member.id for member in page] == [later, owner.id]
    rest = await memberships.list_page([owner.organization_id], Page(after=(page[0].created_at, page[0].id)))
    assert rest == [owner]


@pytest.mark.parametrize(
    ("by", "of", "to"),
    [
        (Role.ADMIN, Role.OWNER, Role.MEMBER),
        (Role.ADMIN, Role.MEMBER, Role.OWNER),
        (Role.MEMBER, Role.ADMIN, Role.MEMBER),
    ],
)
async def test_roles_above_the_callers_are_neither_changed_nor_granted(
    memberships: Memberships, pool: Pool, by: Role, of: Role, to: Role
) -> None:
    owner = await stored_owner(memberships, pool)
    bob = await stored_member(pool, owner.organization_id, of)

    with pytest.raises(Forbidden):
        await memberships.update_role(bob, to, by)

    unchanged = await memberships.get(bob)
    assert unchanged is not None
    assert unchanged.role is of


async def test_member_above_the_callers_role_is_not_deleted(memberships: Memberships, pool: Pool) -> None:
    owner = await stored_owner(memberships, pool)
    second = await stored_member(pool, owner.organization_id, Role.OWNER)

    with pytest.raises(Forbidden):
        await memberships.delete(second, Role.ADMIN)

    assert await memberships.get(second) is not None


async def test_last_owner_stays_owner(memberships: Memberships, pool: Pool) -> None:
    owner = await stored_owner(memberships, pool)
    await stored_member(pool, owner.organization_id, Role.ADMIN)

    with pytest.raises(LastOwner):
        await memberships.update_role(owner.id, Role.ADMIN, Role.OWNER)
    with pytest.raises(LastOwner):
        await memberships.delete(owner.id, Role.OWNER)

    assert await memberships.update_role(owner.id, Role.OWNER, Role.OWNER) == owner


async def test_one_of_two_owners_leaving_at_once_stays(memberships: Memberships, pool: Pool) -> None:
    owner = await stored_owner(memberships, pool)
    second = await stored_member(pool, owner.organization_id, Role.OWNER)

    outcomes = await asyncio.gather(
        memberships.delete(owner.id, Role.OWNER),
        memberships.update_role(second, Role.MEMBER, Role.OWNER),
        return_exceptions=True,
    )

    assert len([outcome for outcome in outcomes if isinstance(outcome, LastOwner)]) == 1, outcomes
    members = await memberships.list_page([owner.organization_id], Page())
    assert [member.role for member in members].count(Role.OWNER) == 1


async def test_unknown_membership_is_neither_changed_nor_deleted(memberships: Memberships) -> None:
    assert await memberships.get(new_id()) is None
    assert await memberships.update_role(new_id(), Role.MEMBER, Role.OWNER) is None
    assert not await memberships.delete(new_id(), Role.OWNER)
