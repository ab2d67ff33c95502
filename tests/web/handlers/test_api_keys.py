"""API keys one by one: read, renamed, switched off and on."""

from uuid import uuid4

import pytest

from storage.model import Role
from tests.web.conftest import Api, Service
from tests.web.people import founder, staff

KEYS = "/api/organizations/api-keys/"


async def test_a_key_is_read_without_its_secret(api: Api) -> None:
    created = await api.create(KEYS, name="CI")

    read = await api.get(f"{KEYS}{created['id']}/")

    assert read.body == {name: value for name, value in created.items() if name != "key"}


async def test_a_key_is_switched_off_and_on_for_the_very_next_request(service: Service, api: Api) -> None:
    created = await api.create(KEYS, name="CI")
    path, mine = f"{KEYS}{created['id']}/", service.nobody.with_authorization(f"Bearer {created['key']}")
    assert (await mine.get(path)).status == 200

    off = await api.patch(path, {"is_active": False})
    assert (off.status, off.body["is_active"]) == (200, False)
    refused = await mine.get(path)
    assert (refused.status, refused.body) == (401, {"detail": "Invalid API key."})

    assert (await api.patch(path, {"is_active": True})).status == 200
    assert (await mine.get(path)).status == 200


async def test_a_key_is_renamed_and_keeps_the_rest(api: Api) -> None:
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
async def test_members_and_strangers_have_no_business_there(service: Service, api: Api, method: str) -> None:
    owner, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    created = await owner.create(KEYS, name="CI")

    for caller in (member, api):
        assert (await caller.request(method, f"{KEYS}{created['id']}/")).status == 403
    assert (await api.request(method, f"{KEYS}{uuid4()}/")).status == 404
