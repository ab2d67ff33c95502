"""Invitations: inserting, listing and accepting them."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from storage.errors import NotUnique
from storage.identity.accounts import Accounts, Membership
from storage.identity.invites import Invite, Invites
from storage.identity.token_holders import TokenHolders
from storage.ids import new_id
from storage.model import Role
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, open_invite, stored_member, stored_organization, user


@pytest.fixture
def invites(pool: Pool) -> Invites:
    return Invites(pool, TokenHolders(pool))


async def stored_invite(invites: Invites, organization_id: UUID, **fields: Any) -> Invite:
    stored = open_invite(organization_id, **fields)
    await invites.insert(stored)
    return stored


async def test_accepted_invite_makes_new_user_a_member(invites: Invites, pool: Pool) -> None:
    organization = await stored_organization(pool)
    invite, bob = await stored_invite(invites, organization.id), user()

    assert await invites.accept(invite.id, bob, NOW, is_new=True)

    accounts = Accounts(pool, TokenHolders(pool))
    assert await accounts.get_user(bob.id) == bob
    assert await accounts.list_memberships(bob.id) == [
        Membership(organization.id, organization.name, Role.ADMIN)
    ]
    assert await invites.get(invite.id) == replace(invite, accepted_at=NOW)


async def test_invite_is_accepted_once_for_concurrent_requests(invites: Invites, pool: Pool) -> None:
    invite = await stored_invite(invites, (await stored_organization(pool)).id)
    users = [user() for _ in range(5)]

    accepted = await asyncio.gather(*(invites.accept(invite.id, one, NOW, is_new=True) for one in users))

    assert sorted(accepted) == [False, False, False, False, True]
    stored = [await Accounts(pool, TokenHolders(pool)).get_user(one.id) for one in users]
    assert [one is not None for one in stored] == accepted


async def test_expired_or_unknown_invite_is_not_accepted(invites: Invites, pool: Pool) -> None:
    invite, bob = await stored_invite(invites, (await stored_organization(pool)).id), user()

    assert not await invites.accept(invite.id, bob, invite.expires_at, is_new=True)
    assert not await invites.accept(new_id(), bob, NOW, is_new=True)

    assert await Accounts(pool, TokenHolders(pool)).get_user(bob.id) is None


async def test_taken_email_address_leaves_invite_open(invites: Invites, pool: Pool) -> None:
    organization = await stored_organization(pool)
    invite = await stored_invite(invites, organization.id)
    await stored_member(pool, organization.id, Role.MEMBER, email="Bob@example.com")

    with pytest.raises(NotUnique):
        await invites.accept(invite.id, user(email=invite.email), NOW, is_new=True)

    assert await invites.get(invite.id) == invite


async def test_accepting_again_keeps_the_members_role(invites: Invites, pool: Pool) -> None:
    organization = await stored_organization(pool)
    bob = user(email="bob@example.com")
    first = await stored_invite(invites, organization.id, role=Role.MEMBER)
    second = await stored_invite(invites, organization.id, role=Role.OWNER)
    await invites.accept(first.id, bob, NOW, is_new=True)

    assert await invites.accept(second.id, bob, NOW, is_new=False)

    [membership] = await Accounts(pool, TokenHolders(pool)).list_memberships(bob.id)
    assert membership.role is Role.MEMBER


async def test_page_shows_given_organizations_newest_first(invites: Invites, pool: Pool) -> None:
    mine, theirs = await stored_organization(pool), await stored_organization(pool)
    old = await stored_invite(invites, mine.id)
    await stored_invite(invites, theirs.id)
    recent = await stored_invite(invites, mine.id, created_at=NOW + HOUR)

    assert await invites.list_page([mine.id], Page()) == [recent, old]
    assert await invites.list_page([mine.id], Page(after=(recent.created_at, recent.id))) == [old]


async def test_deleted_invite_is_not_found(invites: Invites, pool: Pool) -> None:
    invite = await stored_invite(invites, (await stored_organization(pool)).id)

    assert await invites.delete(invite.id)

    assert not await invites.delete(invite.id)
    assert await invites.get(invite.id) is None


async def test_repr_of_invite_hides_code_hash(invites: Invites, pool: Pool) -> None:
    invite = await stored_invite(invites, (await stored_organization(pool)).id, code_hash=b"secret")
    assert "secret" not in repr(invite)
