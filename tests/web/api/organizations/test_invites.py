"""Invites over HTTP: their code is shown once and accepted once."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from storage.model import Role
from tests.web.conftest import Answer, Api, Service
from tests.web.people import as_user, founder, new_user, staff

INVITES = "/api/organizations/invites/"
LOGIN = "/api/organizations/auth/login/"
SIGNUP = "/api/organizations/auth/signup/"
PASSWORD = "correct horse"
WRONG_CODE = {"code": ["The code is wrong, used or expired."]}


async def create_invite(api: Api, email: str = "bob@example.com", **fields: Any) -> Any:
    return await api.create(INVITES, email=email, **fields)


async def accept(service: Service, invite: Any, **changes: Any) -> Answer:
    body = {"code": invite["code"], "password": PASSWORD, "name": "Bob", **changes}
    return await service.nobody.post(f"{INVITES}{invite['id']}/accept/", body)


async def test_code_is_shown_once(api: Api) -> None:
    created = await create_invite(api)

    assert set(created) == {"id", "email", "role", "code", "expires_at", "accepted_at", "created_at"}
    assert (created["email"], created["role"], created["accepted_at"]) == ("bob@example.com", "member", None)
    listed = (await api.get(INVITES)).body
    assert listed == [{name: value for name, value in created.items() if name != "code"}]


async def test_new_person_accepts_with_a_new_password(service: Service, api: Api) -> None:
    invite = await create_invite(api, email="Bob@Example.com", role="admin")

    answer = await accept(service, invite)

    assert answer.status == 200
    assert set(answer.body) == {"token", "user", "organization"}
    assert (answer.body["user"]["email"], answer.body["user"]["name"]) == ("Bob@Example.com", "Bob")
    assert answer.body["organization"]["name"] == "Acme"
    bob = service.nobody.with_authorization(f"Token {answer.body['token']}")
    roles = [each["role"] for each in (await bob.get("/api/organizations/memberships/")).body]
    assert roles == ["admin", "owner"]
    assert (await api.get(INVITES)).body[0]["accepted_at"] is not None
    logged_in = await service.nobody.post(LOGIN, {"email": "bob@example.com", "password": PASSWORD})
    assert [each["role"] for each in logged_in.body["organizations"]] == ["admin"]


async def test_existing_person_accepts_with_the_existing_password(service: Service, api: Api) -> None:
    signed_up = await service.nobody.post(
        SIGNUP, {"email": "bob@example.com", "password": PASSWORD, "organization_name": "Bob's"}
    )
    invite = await create_invite(api)

    wrong = await accept(service, invite, password="another password")
    right = await accept(service, invite)

    assert (wrong.status, wrong.body) == (401, {"detail": "Unable to log in with provided credentials."})
    assert right.status == 200
    assert right.body["user"] == signed_up.body["user"]
    bob = service.nobody.with_authorization(f"Token {signed_up.body['token']}")
    assert len((await bob.get("/api/organizations/organizations/")).body) == 2


async def test_invite_is_accepted_once_by_concurrent_requests(service: Service, api: Api) -> None:
    invite = await create_invite(api)

    answers = await asyncio.gather(*(accept(service, invite) for _ in range(4)))

    assert sorted(answer.status for answer in answers) == [200, 400, 400, 400], answers
    assert len((await api.get("/api/organizations/memberships/")).body) == 2


async def test_used_expired_and_wrong_codes_are_refused_alike(service: Service, api: Api) -> None:
    used, expired, guessed, deleted = [await create_invite(api, f"{name}@example.com") for name in "uegd"]
    assert (await accept(service, used)).status == 200
    await service.storage.pool.execute(
        "UPDATE invite SET expires_at = created_at WHERE email = 'e@example.com'"
    )

    for answer in (
        await accept(service, used),
        await accept(service, expired),
        await accept(service, guessed, code="guessed"),
        await accept(service, guessed, code=expired["code"]),
    ):
        assert (answer.status, answer.body) == (400, WRONG_CODE)
    assert (await api.delete(f"{INVITES}{deleted['id']}/")).status == 204
    for gone in (deleted, {**used, "id": uuid4()}, {**used, "id": "7"}):
        assert (await accept(service, gone)).status == 404


async def test_address_is_locked_out_after_ten_wrong_codes(service: Service, api: Api) -> None:
    invite = await create_invite(api)
    for _ in range(10):
        assert (await accept(service, invite, code="guessed")).status == 400

    assert (await accept(service, invite)).status == 429


@pytest.mark.parametrize(
    ("by", "role", "status"),
    [
        (Role.OWNER, "owner", 201),
        (Role.ADMIN, "admin", 201),
        (Role.ADMIN, "owner", 403),
        (Role.MEMBER, "member", 403),
    ],
)
async def test_nobody_invites_to_a_role_above_their_own(
    service: Service, by: Role, role: str, status: int
) -> None:
    _, organization = await founder(service)
    inviter, _ = await staff(service, organization, by)

    assert (await inviter.post(INVITES, {"email": "bob@example.com", "role": role})).status == status


async def test_invite_is_deleted_by_those_who_could_create_it(service: Service, other: Api) -> None:
    owner, organization = await founder(service)
    admin, _ = await staff(service, organization, Role.ADMIN)
    member, _ = await staff(service, organization, Role.MEMBER)
    for_owner, for_member = await create_invite(owner, role="owner"), await create_invite(owner)

    for caller, invite in ((admin, for_owner), (member, for_member), (other, for_member)):
        assert (await caller.delete(f"{INVITES}{invite['id']}/")).status == 403
    assert (await member.get(INVITES)).status == 403
    assert (await admin.delete(f"{INVITES}{for_member['id']}/")).status == 204
    assert (await owner.delete(f"{INVITES}{for_owner['id']}/")).status == 204
    assert (await owner.delete(f"{INVITES}{for_owner['id']}/")).status == 404
    assert (await owner.get(INVITES)).body == []


async def test_signed_in_user_accepts_without_password(service: Service, api: Api) -> None:
    bob, _ = await new_user(service, "Bob@example.com")
    invite = await create_invite(api, role="admin")

    path, code = f"{INVITES}{invite['id']}/accept/", {"code": invite["code"]}
    answer = await as_user(service, bob).post(path, code)

    assert (answer.status, answer.body["user"]["id"]) == (200, str(bob.id))
    me = (await as_user(service, bob).get("/api/organizations/auth/me/")).body
    assert [each["role"] for each in me["organizations"]] == ["owner", "admin"]
    assert (await as_user(service, bob).post(path, code)).status == 400


async def test_token_of_another_user_accepts_nothing(service: Service, api: Api) -> None:
    eve, _ = await new_user(service, "eve@example.com")
    invite = await create_invite(api)
    path = f"{INVITES}{invite['id']}/accept/"

    refused = await as_user(service, eve).post(path, {"code": invite["code"]})
    guessed = await as_user(service, eve).post(path, {"code": "guessed"})
    expired = await service.nobody.with_authorization("Token x").post(path, {"code": invite["code"]})

    assert refused.status == 403
    assert refused.body["detail"].startswith("The invitation is for another e-mail address than yours")
    assert (guessed.status, guessed.body) == (400, WRONG_CODE)
    assert (expired.status, expired.body) == (401, {"detail": "Invalid token."})
    assert (await accept(service, invite)).status == 200
