"""API keys over HTTP: shown once, renamed, switched off and on, deleted."""

from uuid import uuid4

import pytest

from storage.model import Role
from tests.web.conftest import Api, Service
from tests.web.people import founder, staff

KEYS = "/api/organizations/api-keys/"


async def test_key_is_read_without_its_secret(api: Api) -> None:
    created = await api.create(KEYS, name="CI")

    read = await api.get(f"{KEYS}{created['id']}/")

    assert read.body == {name: value for name, value in created.items() if name != "key"}


async def test_switching_a_key_applies_to_the_next_request(service: Service, api: Api) -> None:
    created = await api.create(KEYS, name="CI")
    path, mine = f"{KEYS}{created['id']}/", service.nobody.with_authorization(f"Bearer {created['key']}")
    assert (await mine.get(path)).status == 200

    off = await api.patch(path, {"is_active": False})
    assert (off.status, off.body["is_active"]) == (200, False)
    refused = await mine.get(path)
    assert (refused.status, refused.body) == (401, {"detail": "Invalid API key."})

    assert (await api.patch(path, {"is_active": True})).status == 200
    assert (await mine.get(path)).status == 200


async def test_key_can_be_renamed(api: Api) -> None:
    created = await api.create(KEYS, name="CI")

    changed = await api.patch(f"{KEYS}{created['id']}/", {"name": " Build ", "key": "mine", "prefix": "x"})

    assert changed.body == {
        **{name: value for name, value in created.items() if name != "key"},
        "name": "Build",
    }
    answer = await api.patch(f"{KEYS}{created['id']}/", {"name": "", "is_active": None})
    assert (answer.status, answer.body) == (
        400,
        {"name": ["This field may not be blank."], "is_active": ["This field may not be null."]},
    )


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_members_and_strangers_cannot_manage_keys(service: Service, api: Api, method: str) -> None:
    owner, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    created = await owner.create(KEYS, name="CI")

    for caller in (member, api):
        assert (await caller.request(method, f"{KEYS}{created['id']}/")).status == 403
    assert (await api.request(method, f"{KEYS}{uuid4()}/")).status == 404


async def test_key_is_shown_once_and_works_until_deleted(service: Service, api: Api) -> None:
    created = await api.create(KEYS, name=" CI ")
    assert set(created) == {"id", "name", "key", "prefix", "is_active", "last_used_at", "created_at"}
    assert (created["name"], created["is_active"]) == ("CI", True)
    mine = service.nobody.with_authorization(f"bearer {created['key']}")
    listed = (await mine.get(KEYS)).body
    assert [key["name"] for key in listed] == ["CI", "tests"]
    assert all("key" not in key for key in listed)
    assert listed[0]["last_used_at"] is not None
    assert (await api.delete(f"{KEYS}{created['id']}/")).status == 204
    answer = await mine.get(KEYS)
    assert (answer.status, answer.body) == (401, {"detail": "Invalid API key."})


async def test_inactive_key_does_not_work(service: Service, api: Api) -> None:
    created = await api.create(KEYS, name="later", is_active=False)
    assert (await service.nobody.with_authorization(f"Bearer {created['key']}").get(KEYS)).status == 401


async def test_member_creates_agents_but_no_keys(service: Service) -> None:
    _, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    await member.create_agent()
    assert [(await member.request(method, KEYS)).status for method in ("GET", "POST")] == [403, 403]


async def test_keys_are_paged(api: Api) -> None:
    for name in ("a", "b"):
        await api.create(KEYS, name=name)
    page = await api.get(f"{KEYS}?limit=2")
    assert [key["name"] for key in page.body] == ["b", "a"]
    rest = await api.get(f"{KEYS}?limit=2&after={page.body[1]['id']}")
    assert [key["name"] for key in rest.body] == ["tests"]
