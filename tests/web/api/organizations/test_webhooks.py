"""Event webhooks over HTTP: who may manage them, what they accept, and their secrets."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from storage.delivery.webhooks import MAX_OLD_SECRETS
from storage.model import Role
from supervisors.clock import SystemClock
from tests.web.conftest import Api, Service
from tests.web.people import founder, staff

WEBHOOKS = "/api/organizations/webhooks/"
DELIVERIES = "/api/organizations/webhook-deliveries/"
URL = "https://hooks.example/events"


async def create(api: Api, **body: Any) -> Any:
    return await api.create(WEBHOOKS, **{"url": URL, "types": ["run.ended"], **body})


def without_secret(created: Any) -> Any:
    return {name: value for name, value in created.items() if name != "secret"}


async def due_secrets(service: Service) -> tuple[str, ...]:
    """Return the secrets that sign the only due delivery."""
    [due] = await service.storage.outbox.list_due(SystemClock().now(), limit_per_receiver=10, limit=10)
    return due.secrets


async def test_webhook_shows_its_secret_once(service: Service, api: Api) -> None:
    created = await create(api, description="To the desk")
    assert created == {
        "id": created["id"],
        "organization": created["organization"],
        "url": URL,
        "types": ["run.ended"],
        "agent": None,
        "template": None,
        "tag": "",
        "description": "To the desk",
        "is_active": True,
        "created_at": created["created_at"],
        "updated_at": created["created_at"],
        "failing_since": None,
        "disabled_at": None,
        "disabled_reason": "",
        "secret": created["secret"],
    }
    assert created["secret"].startswith("whsec_")
    assert (await api.get(WEBHOOKS)).body == [without_secret(created)]
    assert (await api.get(f"{WEBHOOKS}{created['id']}/")).body == without_secret(created)
    assert (await api.delete(f"{WEBHOOKS}{created['id']}/")).status == 204
    assert (await api.get(f"{WEBHOOKS}{created['id']}/")).status == 404


@pytest.mark.parametrize(
    ("types", "messages"),
    [
        (["run.end"], {"0": ['Unknown event type "run.end". Did you mean "run.ended"?']}),
        (["*", "runs.*"], {"1": ['Unknown event type "runs.*". Did you mean "run.*"?']}),
        (["model.delta"], {"0": ['Unknown event type "model.delta". Did you mean "schedule.deleted"?']}),
        ([], ["This list may not be empty."]),
    ],
)
async def test_unknown_type_is_refused_with_the_nearest(api: Api, types: Any, messages: Any) -> None:
    answer = await api.post(WEBHOOKS, {"url": URL, "types": types})
    assert (answer.status, answer.body) == (400, {"types": messages})


async def test_repeated_types_are_stored_once(api: Api) -> None:
    created = await create(api, types=["run.*", "*", "run.*"])
    assert created["types"] == ["run.*", "*"]


async def test_url_that_no_call_can_use_is_refused(api: Api) -> None:
    for url, message in (
        (
            "https://user:password@hooks.example/",
            "The URL must not contain credentials. Requests are signed instead.",
        ),
    ):
        answer = await api.post(WEBHOOKS, {"url": url, "types": ["*"]})
        assert (answer.status, answer.body) == (400, {"url": [message]})


async def test_named_agent_and_template_must_be_the_organizations(api: Api, other: Api) -> None:
    for field, foreign, known in (
        ("agent", await other.create_agent(), await api.create_agent()),
        ("template", await other.create_template(), await api.create_template()),
    ):
        body = {"url": URL, "types": ["*"]}
        assert (await api.post(WEBHOOKS, {**body, field: foreign["id"]})).status == 403
        unknown = await api.post(WEBHOOKS, {**body, field: str(uuid4())})
        assert (unknown.status, list(unknown.body)) == (400, [field])
        created = await create(api, **{field: known["id"]})
        assert created[field] == known["id"]
        path = f"{WEBHOOKS}{created['id']}/"
        assert (await api.patch(path, {field: foreign["id"]})).status == 403
        assert (await api.patch(path, {field: None})).body[field] is None


async def test_members_and_strangers_manage_no_webhooks(service: Service, api: Api) -> None:
    owner, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    path = f"{WEBHOOKS}{(await create(owner))['id']}/"
    assert (await member.get(WEBHOOKS)).status == 403
    for caller in (member, api):
        for method, below in (
            ("GET", ""),
            ("PATCH", ""),
            ("DELETE", ""),
            ("POST", "test/"),
            ("POST", "rotate/"),
        ):
            assert (await caller.request(method, f"{path}{below}")).status == 403, (method, below)
    assert (await owner.get(path)).status == 200


@pytest.mark.one_node
async def test_number_of_webhooks_is_limited(service: Service, api: Api) -> None:
    service.storage.limits.webhooks.limit = 1
    kept = await create(api)
    refused = await api.post(WEBHOOKS, {"url": URL, "types": ["*"]})
    assert refused.status == 400
    assert "limits.webhooks" in refused.body["detail"]
    assert (await api.get(WEBHOOKS)).body == [without_secret(kept)]


async def test_test_is_a_delivery_signed_by_the_secret(service: Service, api: Api) -> None:
    created = await create(api)
    sent = await api.post(f"{WEBHOOKS}{created['id']}/test/")
    assert sent.status == 200
    assert (sent.body["type"], sent.body["webhook"], sent.body["status"]) == (
        "webhook.test",
        created["id"],
        "pending",
    )
    assert sent.body["payload"] == {
        "type": "webhook.test",
        "timestamp": sent.body["created_at"],
        "data": {"webhook": created["id"], "organization": created["organization"]},
    }
    assert await due_secrets(service) == (created["secret"],)
    listed = (await api.get(f"{DELIVERIES}?webhook={created['id']}")).body
    assert [each["id"] for each in listed] == [sent.body["id"]]
    assert (await api.get(f"{DELIVERIES}?webhook={uuid4()}")).body == []


async def test_inactive_webhook_sends_no_test(api: Api) -> None:
    created = await create(api, is_active=False)
    refused = await api.post(f"{WEBHOOKS}{created['id']}/test/")
    assert (refused.status, refused.body) == (
        409,
        {"detail": "The webhook is switched off. Set is_active to true first."},
    )


async def test_rotation_returns_a_new_secret_and_keeps_the_old(service: Service, api: Api) -> None:
    created = await create(api)
    path = f"{WEBHOOKS}{created['id']}/"
    await api.post(f"{path}test/")
    rotated = await api.post(f"{path}rotate/")
    assert rotated.status == 200
    assert rotated.body["old_secret_until"] > created["created_at"]
    assert await due_secrets(service) == (rotated.body["secret"], created["secret"])
    for _ in range(MAX_OLD_SECRETS - 1):
        assert (await api.post(f"{path}rotate/")).status == 200
    refused = await api.post(f"{path}rotate/")
    assert (refused.status, refused.body) == (
        409,
        {"detail": "The secret was rotated 5 times within a day. Try again later."},
    )


async def test_switching_on_forgets_the_failures(service: Service, api: Api) -> None:
    created = await create(api)
    await service.storage.webhooks.update(
        UUID(created["id"]),
        {"is_active": False, "disabled_at": SystemClock().now(), "disabled_reason": "It failed."},
        SystemClock().now(),
    )
    path = f"{WEBHOOKS}{created['id']}/"
    assert (await api.get(path)).body["disabled_reason"] == "It failed."
    on = (await api.patch(path, {"is_active": True})).body
    assert (on["is_active"], on["disabled_at"], on["disabled_reason"]) == (True, None, "")
