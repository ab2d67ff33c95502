"""The rows that say who belongs to an organization, and the owner that always stays."""

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


async def the_owner(memberships: Memberships, pool: Pool) -> Member:
    """The owner of an organization of its own."""
    organization = await stored_organization(pool)
    [owner] = await memberships.page([organization.id], Page())
    return owner


async def test_a_member_is_shown_with_the_user(memberships: Memberships, pool: Pool) -> None:
    organization = await stored_organization(pool)

    bob = await stored_member(pool, organization.id, Role.MEMBER, email="bob@example.com", name="Bob")

    found = await memberships.get(bob)
    assert found is not None
    assert (found.email, found.name, found.role) == ("bob@example.com", "Bob", Role.MEMBER)
    assert found.organization_id == organization.id


async def test_pages_are_of_the_organizations_asked_for_newest_first(
    memberships: Memberships, pool: Pool
) -> None:
    owner = await the_owner(memberships, pool)
    await the_owner(memberships, pool)
    later = await stored_member(pool, owner.organization_id, Role.MEMBER, joined_at=NOW + HOUR)

    page = await memberships.page([owner.organization_id], Page())

    assert [member.id for member in page] == [later, owner.id]
    rest = await memberships.page([owner.organization_id], Page(after=(page[0].created_at, page[0].id)))
    assert rest == [owner]


@pytest.mark.parametrize(
    ("by", "of", "to"),
    [
        (Role.ADMIN, Role.OWNER, Role.MEMBER),
        (Role.ADMIN, Role.MEMBER, Role.OWNER),
        (Role.MEMBER, Role.ADMIN, Role.MEMBER),
    ],
)
async def test_nobody_changes_or_grants_a_role_above_their_own(
    memberships: Memberships, pool: Pool, by: Role, of: Role, to: Role
) -> None:
    owner = await the_owner(memberships, pool)
    bob = await stored_member(pool, owner.organization_id, of)

    with pytest.raises(Forbidden):
        await memberships.change_role(bob, to, by)

    unchanged = await memberships.get(bob)
    assert unchanged is not None
    assert unchanged.role is of


async def test_nobody_removes_a_role_above_their_own(memberships: Memberships, pool: Pool) -> None:
    owner = await the_owner(memberships, pool)
    second = await stored_member(pool, owner.organization_id, Role.OWNER)

    with pytest.raises(Forbidden):
        await memberships.delete(second, Role.ADMIN)

    assert await memberships.get(second) is not None


async def test_the_last_owner_stays_an_owner(memberships: Memberships, pool: Pool) -> None:
    owner = await the_owner(memberships, pool)
    await stored_member(pool, owner.organization_id, Role.ADMIN)

    with pytest.raises(LastOwner):
        await memberships.change_role(owner.id, Role.ADMIN, Role.OWNER)
    with pytest.raises(LastOwner):
        await memberships.delete(owner.id, Role.OWNER)

    assert await memberships.change_role(owner.id, Role.OWNER, Role.OWNER) == owner


async def test_of_two_owners_who_leave_at_once_one_stays(memberships: Memberships, pool: Pool) -> None:
    owner = await the_owner(memberships, pool)
    second = await stored_member(pool, owner.organization_id, Role.OWNER)

    outcomes = await asyncio.gather(
        memberships.delete(owner.id, Role.OWNER),
        memberships.change_role(second, Role.MEMBER, Role.OWNER),
        return_exceptions=True,
    )

    assert len([outcome for outcome in outcomes if isinstance(outcome, LastOwner)]) == 1, outcomes
    left = await memberships.page([owner.organization_id], Page())
    assert [member.role for member in left].count(Role.OWNER) == 1


async def test_what_is_unknown_is_neither_changed_nor_removed(memberships: Memberships) -> None:
    assert await memberships.get(new_id()) is None
    assert await memberships.change_role(new_id(), Role.MEMBER, Role.OWNER) is None
    assert not await memberships.delete(new_id(), Role.OWNER)
