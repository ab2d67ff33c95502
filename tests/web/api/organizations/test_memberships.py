"""Memberships over HTTP: managed by owners and admins, and one owner always stays."""

from uuid import uuid4

from storage.model import Role
from tests.web.conftest import Api, Service
from tests.web.people import founder, staff

MEMBERSHIPS = "/api/organizations/memberships/"
LAST_OWNER = {"non_field_errors": ["An organization always keeps one owner."]}


async def test_memberships_are_listed_with_their_users_newest_first(service: Service) -> None:
    owner, organization = await founder(service)
    _, membership_id = await staff(service, organization, Role.MEMBER)

    listed = (await owner.get(MEMBERSHIPS)).body

    assert [(each["role"], each["organization"]) for each in listed] == [
        ("member", str(organization.id)),
        ("owner", str(organization.id)),
    ]
    assert set(listed[0]) == {"id", "user", "organization", "role", "created_at"}
    assert set(listed[0]["user"]) == {"id", "email", "name"}
    assert (await owner.get(f"{MEMBERSHIPS}{membership_id}/")).body == listed[0]
    assert (await owner.get(f"{MEMBERSHIPS}?limit=1")).body == listed[:1]
    assert (await owner.get(f"{MEMBERSHIPS}?limit=1&after={membership_id}")).body == listed[1:]


async def test_owner_gives_any_role(service: Service) -> None:
    owner, organization = await founder(service)
    _, membership_id = await staff(service, organization, Role.MEMBER)

    for role in ("owner", "admin", "member"):
        changed = await owner.patch(f"{MEMBERSHIPS}{membership_id}/", {"role": role})
        assert (changed.status, changed.body["role"]) == (200, role)


async def test_change_without_role_changes_nothing(service: Service) -> None:
    owner, organization = await founder(service)
    _, membership_id = await staff(service, organization, Role.ADMIN)

    changed = await owner.patch(f"{MEMBERSHIPS}{membership_id}/", {"organization": str(uuid4())})

    assert (changed.status, changed.body["role"]) == (200, "admin")


async def test_admin_cannot_create_or_change_an_owner(service: Service) -> None:
    owner, organization = await founder(service)
    admin, own_id = await staff(service, organization, Role.ADMIN)
    _, second_owner = await staff(service, organization, Role.OWNER)

    assert (await admin.patch(f"{MEMBERSHIPS}{own_id}/", {"role": "owner"})).status == 403
    assert (await admin.patch(f"{MEMBERSHIPS}{second_owner}/", {"role": "member"})).status == 403
    assert (await admin.patch(f"{MEMBERSHIPS}{second_owner}/", {"role": "king"})).status == 403
    assert (await admin.delete(f"{MEMBERSHIPS}{second_owner}/")).status == 403
    assert [each["role"] for each in (await owner.get(MEMBERSHIPS)).body] == ["owner", "admin", "owner"]


async def test_key_acts_as_an_admin(service: Service, api: Api) -> None:
    [owner] = (await api.get(MEMBERSHIPS)).body

    assert owner["role"] == "owner"
    assert (await api.delete(f"{MEMBERSHIPS}{owner['id']}/")).status == 403


async def test_last_owner_cannot_be_removed(service: Service) -> None:
    owner, organization = await founder(service)
    await staff(service, organization, Role.ADMIN)
    own_id = (await owner.get(MEMBERSHIPS)).body[-1]["id"]

    for answer in (
        await owner.patch(f"{MEMBERSHIPS}{own_id}/", {"role": "admin"}),
        await owner.delete(f"{MEMBERSHIPS}{own_id}/"),
    ):
        assert (answer.status, answer.body) == (400, LAST_OWNER)

    await staff(service, organization, Role.OWNER)
    assert (await owner.delete(f"{MEMBERSHIPS}{own_id}/")).status == 204


async def test_removed_member_is_refused_on_the_next_request(service: Service) -> None:
    owner, organization = await founder(service)
    member, membership_id = await staff(service, organization, Role.MEMBER)
    agent = await owner.create_agent()
    assert (await member.get(f"/api/cloud/agents/{agent['id']}/")).status == 200

    assert (await owner.delete(f"{MEMBERSHIPS}{membership_id}/")).status == 204

    assert (await member.get(f"/api/cloud/agents/{agent['id']}/")).status == 403
    assert (await owner.delete(f"{MEMBERSHIPS}{membership_id}/")).status == 404
