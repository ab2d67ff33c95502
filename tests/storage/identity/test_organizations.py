"""Organizations: their names and pauses, their last owner, and invitations of people who are known."""

import asyncio

import pytest

from storage.errors import LastOwner, NotUnique
from storage.identity.accounts import Accounts, TokenHolders
from storage.identity.organizations import Invites, Memberships, Organizations
from storage.model import Role
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.events.recorded import list_events
from tests.storage.factories import NOW, open_invite, stored_member, stored_organization, user


@pytest.fixture
def invites(pool: Pool) -> Invites:
    return Invites(pool, TokenHolders(pool))


async def test_organizations_are_found_by_exact_name(pool: Pool) -> None:
    organizations = Organizations(pool)
    acme, again, _ = [await stored_organization(pool, name=name) for name in ("Acme", "Acme", "acme")]

    assert await organizations.list_by_name("Acme") == [acme, again]
    assert await organizations.list_by_name("Acme Inc") == []


async def test_pause_and_its_end_are_recorded_once(pool: Pool) -> None:
    organizations, owner = Organizations(pool), await stored_organization(pool)
    for paused in (True, True, False, False):
        await organizations.update(owner.id, {"paused": paused, "name": "Engines"}, NOW, actor="operator")

    events = await list_events(pool, "organization")
    assert [event["type"] for event in events] == ["organization.paused", "organization.unpaused"]
    assert {(event["organization_id"], event["agent_id"], event["actor"]) for event in events} == {
        (owner.id, None, "operator")
    }


async def test_one_of_two_owners_leaving_at_once_stays(pool: Pool) -> None:
    organization, memberships = await stored_organization(pool), Memberships(pool, TokenHolders(pool))
    [owner] = await memberships.list_page([organization.id], Page())
    second = await stored_member(pool, organization.id, Role.OWNER)

    outcomes = await asyncio.gather(
        memberships.delete(owner.id, Role.OWNER),
        memberships.update_role(second, Role.MEMBER, Role.OWNER),
        return_exceptions=True,
    )

    assert len([outcome for outcome in outcomes if isinstance(outcome, LastOwner)]) == 1, outcomes
    members = await memberships.list_page([organization.id], Page())
    assert [member.role for member in members].count(Role.OWNER) == 1


async def test_taken_email_address_leaves_invite_open(invites: Invites, pool: Pool) -> None:
    organization = await stored_organization(pool)
    invite = open_invite(organization.id)
    await invites.insert(invite)
    await stored_member(pool, organization.id, Role.MEMBER, email="Bob@example.com")

    with pytest.raises(NotUnique):
        await invites.accept(invite.id, user(email=invite.email), NOW, is_new=True)

    assert await invites.get(invite.id) == invite


async def test_accepting_again_keeps_the_members_role(invites: Invites, pool: Pool) -> None:
    organization = await stored_organization(pool)
    bob = user(email="bob@example.com")
    first, second = [open_invite(organization.id, role=role) for role in (Role.MEMBER, Role.OWNER)]
    for invite in (first, second):
        await invites.insert(invite)
    await invites.accept(first.id, bob, NOW, is_new=True)

    assert await invites.accept(second.id, bob, NOW, is_new=False)

    [membership] = await Accounts(pool, TokenHolders(pool)).list_memberships(bob.id)
    assert membership.role is Role.MEMBER
