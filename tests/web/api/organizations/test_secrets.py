"""Secrets over HTTP: written by admins, listed by name, and in no answer."""

from typing import Any
from uuid import UUID

import pytest

from storage.model import Role
from tests.leaks import contents_by
from tests.web.conftest import Api, Service
from tests.web.people import founder, staff

SECRETS = "/api/organizations/secrets/"
VALUE = "sk-live-0123456789"
FIELDS = {"id", "organization", "template", "name", "created_at", "updated_at"}


async def places(api: Api) -> tuple[str, str]:
    """Return the path for secrets of the organization, and that of a new template."""
    return SECRETS, f"/api/templates/{(await api.create_template())['id']}/secrets/"


async def test_secret_is_written_listed_and_never_read_back(service: Service, api: Api) -> None:
    for path in await places(api):
        created = await api.create(path, name="MODEL_KEY", value=VALUE)
        assert set(created) == FIELDS
        assert (created["name"], created["created_at"]) == ("MODEL_KEY", created["updated_at"])
        item = f"{path}{created['id']}/"
        assert (await api.get(path)).body == [created]
        assert (await api.get(item)).body == created

        changed = await api.patch(item, {"value": f"{VALUE}-new", "name": "OTHER"})
        assert changed.body == {**created, "updated_at": changed.body["updated_at"]}
        assert changed.body["updated_at"] > created["updated_at"]
        assert (await api.patch(item, {})).body == changed.body
        assert (await api.delete(item)).status == 204
        for method in ("GET", "PATCH", "DELETE"):
            assert (await api.request(method, item)).status == 404
    assert VALUE not in await contents_by(service.storage.pool)


async def test_template_is_shown_with_its_secrets(api: Api) -> None:
    _, path = await places(api)
    created = await api.create(path, name="MODEL_KEY", value=VALUE)
    assert created["template"] == path.split("/")[3]
    assert (await api.get(SECRETS)).body == []


async def test_secret_is_reached_by_its_own_path_only(api: Api) -> None:
    (own, path), (_, second) = await places(api), await places(api)
    of_organization = await api.create(own, name="A", value="1")
    of_template = await api.create(path, name="A", value="1")
    for wrong in (
        f"{own}{of_template['id']}/",
        f"{path}{of_organization['id']}/",
        f"{second}{of_template['id']}/",
    ):
        for method in ("GET", "PATCH", "DELETE"):
            assert (await api.request(method, wrong)).status == 404
    assert (await api.get(own)).body == [of_organization]
    assert (await api.get(path)).body == [of_template]


async def test_name_that_exists_is_refused(api: Api) -> None:
    for path in await places(api):
        await api.create(path, name="MODEL_KEY", value="1")
        answer = await api.post(path, {"name": "MODEL_KEY", "value": "2"})
        assert (answer.status, answer.body) == (400, {"name": ["secret with this name already exists."]})


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "HOSTSVC_RUN_TOKEN", "two words", ""])
async def test_refusal_does_not_repeat_the_value(api: Api, name: str) -> None:
    for body in ({"name": name, "value": VALUE}, {"name": "A", "value": [VALUE]}, {"name": "A", VALUE: 1}):
        answer = await api.post(SECRETS, body)
        assert answer.status == 400
        assert VALUE not in str(answer.body)


async def test_replay_contains_no_value(service: Service, api: Api) -> None:
    for path in await places(api):
        body, once = {"name": "MODEL_KEY", "value": VALUE}, {"Idempotency-Key": path}
        first, again = [await api.post(path, body, headers=once) for _ in range(2)]
        assert (first.status, again.status, again.body) == (201, 201, first.body)
        other = await api.post(path, {**body, "value": "else"}, headers=once)
        assert other.status == 422
    rows = await service.storage.pool.fetch("SELECT answer FROM receipt")
    assert len(rows) == 2
    assert VALUE.encode() not in b"".join(row["answer"] for row in rows)


async def test_members_manage_no_secrets(service: Service) -> None:
    owner, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    for path in await places(owner):
        created = await owner.create(path, name="MODEL_KEY", value=VALUE)
        requests: list[tuple[str, str, Any]] = [
            ("GET", path, None),
            ("POST", path, {"name": "B", "value": "1"}),
            ("GET", f"{path}{created['id']}/", None),
            ("PATCH", f"{path}{created['id']}/", {"value": "1"}),
            ("DELETE", f"{path}{created['id']}/", None),
        ]
        for method, target, body in requests:
            assert (await member.request(method, target, json=body)).status == 403, (method, target)
        assert (await owner.get(path)).body == [created]


@pytest.mark.one_node
async def test_number_of_secrets_is_limited(service: Service, api: Api) -> None:
    service.storage.limits.secrets.limit = 2
    own, path = await places(api)
    await api.create(own, name="A", value="1")
    kept = await api.create(path, name="A", value="1")
    answer = await api.post(path, {"name": "B", "value": "1"})
    assert answer.status == 400
    assert "secrets" in answer.body["detail"]
    limits = (await api.get("/api/organizations/limits/")).body["limits"]
    assert [limit["used"] for limit in limits if limit["name"] == "secrets"] == [2]
    assert (await api.get(path)).body == [kept]


async def test_unreadable_secret_is_listed_and_can_be_set_again(service: Service, api: Api) -> None:
    created = await api.create(SECRETS, name="MODEL_KEY", value=VALUE)
    await service.storage.pool.execute("UPDATE secret SET value = 'hostsvc:1:00000000:AAAA'")
    assert (await api.get(SECRETS)).body == [created]
    assert (await api.patch(f"{SECRETS}{created['id']}/", {"value": "again"})).status == 200
    owner = UUID(created["organization"])
    assert await service.storage.secrets.get_values(owner, None, ["MODEL_KEY"]) == {"MODEL_KEY": "again"}
