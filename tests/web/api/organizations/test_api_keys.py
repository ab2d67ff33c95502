"""API keys over HTTP: shown once, renamed, switched off and on, deleted."""

from tests.web.conftest import Api, Service

KEYS = "/api/organizations/api-keys/"


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
