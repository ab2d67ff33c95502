"""Hooks over HTTP: who may manage them, what they accept, and their secrets."""

import json
from typing import Any
from uuid import uuid4

import pytest

from storage.model import Role
from tests.web.api.hooks.test_receiving import (
    HOOKS,
    PULL,
    SECRET,
    deliver,
    deliveries,
    new_hook,
    queue,
    send,
    signed,
)
from tests.web.conftest import Api, Service
from tests.web.people import founder, staff
from web.api.hooks.hooks import NOT_BASE64


def without_secret(created: Any) -> Any:
    return {name: value for name, value in created.items() if name != "secret"}


async def test_hook_shows_its_secret_once(api: Api) -> None:
    agent = await api.create_agent()
    created = await api.create(HOOKS, name="Tracker", agent=agent["id"], verify="standard", title="{{ a }}")
    assert without_secret(created) == {
        "id": created["id"],
        "organization": created["organization"],
        "path": f"/hooks/{created['id']}/",
        "name": "Tracker",
        "agent": agent["id"],
        "template": None,
        "verify": "standard",
        "header": "X-Signature",
        "algorithm": "sha256",
        "encoding": "hex",
        "prefix": "",
        "title": "{{ a }}",
        "body": "",
        "source": "api",
        "priority": "high",
        "only_if": None,
        "created_at": created["created_at"],
        "updated_at": created["created_at"],
    }
    assert created["secret"].startswith("whsec_")
    assert (await api.get(HOOKS)).body == [without_secret(created)]
    assert (await api.get(f"{HOOKS}{created['id']}/")).body == without_secret(created)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"agent": None}, {"agent": ["Name either an agent or a template."]}),
        ({"verify": "md5"}, {"verify": ['"md5" is not a valid choice.']}),
        ({"verify": "standard", "secret": "whsec_"}, {"secret": [NOT_BASE64]}),
        ({"verify": "standard", "secret": "whsec_a"}, {"secret": [NOT_BASE64]}),
        ({"title": ""}, {"title": ["This field may not be blank."]}),
        ({"title": "x" * 1001}, {"title": ["Ensure this field has no more than 1000 characters."]}),
    ],
)
async def test_unusable_hook_is_refused(api: Api, changes: Any, refusal: Any) -> None:
    body = {
        "name": "T",
        "verify": "github",
        "title": "T",
        "agent": (await api.create_agent())["id"],
        **changes,
    }
    answer = await api.post(HOOKS, body)
    assert (answer.status, answer.body) == (400, refusal)


async def test_schema_that_is_none_is_refused(api: Api) -> None:
    agent = await api.create_agent()
    body = {"name": "T", "verify": "github", "title": "T", "agent": agent["id"], "only_if": {"type": "x"}}
    answer = await api.post(HOOKS, body)
    assert (answer.status, list(answer.body)) == (400, ["only_if"])


async def test_agent_and_template_take_the_place_of_each_other(api: Api, other: Api) -> None:
    hook, template = await new_hook(api), await api.create_template()
    path = f"{HOOKS}{hook['id']}/"
    changed = (await api.patch(path, {"template": template["id"], "agent": None})).body
    assert (changed["agent"], changed["template"]) == (None, template["id"])
    changed = (await api.patch(path, {"agent": hook["agent"], "template": None})).body
    assert (changed["agent"], changed["template"]) == (hook["agent"], None)
    for refused in ({"agent": None}, {"agent": hook["agent"], "template": template["id"]}):
        assert (await api.patch(path, refused)).status == 400
    assert (await api.patch(path, {"agent": (await other.create_agent())["id"]})).status == 403
    unknown = await api.patch(path, {"template": str(uuid4())})
    assert (unknown.status, list(unknown.body)) == (400, ["template"])


async def test_members_and_strangers_manage_no_hooks(service: Service, api: Api) -> None:
    owner, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    path = f"{HOOKS}{(await new_hook(owner))['id']}/"
    assert (await member.get(HOOKS)).status == 403
    for caller in (member, api):
        for method, below in (
            ("GET", ""),
            ("PATCH", ""),
            ("DELETE", ""),
            ("POST", "test/"),
            ("GET", "deliveries/"),
        ):
            assert (await caller.request(method, f"{path}{below}")).status == 403, (method, below)
    assert (await owner.get(path)).status == 200


async def test_changed_secret_and_the_one_before_verify(service: Service, api: Api) -> None:
    hook, raw = await new_hook(api, priority="low"), json.dumps(PULL).encode()
    answer = await api.patch(f"{HOOKS}{hook['id']}/", {"secret": "second"})
    assert (answer.status, "secret" in answer.body) == (200, False)
    statuses = [
        (await send(service, hook["path"], raw, signed(raw, secret, secret))).status
        for secret in (SECRET, "second", "third")
    ]
    assert statuses == [202, 202, 401]
    await api.patch(f"{HOOKS}{hook['id']}/", {"secret": "third"})
    assert (await send(service, hook["path"], raw, signed(raw, SECRET, "d9"))).status == 401


async def test_deleted_hook_takes_nothing_and_its_notifications_stay(service: Service, api: Api) -> None:
    hook = await new_hook(api, priority="low")
    assert (await deliver(service, hook, PULL, "a")).status == 202
    await api.delete(f"{HOOKS}{hook['id']}/")
    assert (await deliver(service, hook, PULL, "b")).status == 401
    assert len(await queue(api)) == 1


async def test_test_handles_a_payload_like_a_delivery(api: Api) -> None:
    hook = await new_hook(api, only_if={"required": ["pull_request"]}, body="By {{ sender }}")
    path = f"{HOOKS}{hook['id']}/test/"
    ignored = (await api.post(path)).body
    assert (ignored["outcome"], ignored["notification"]) == ("ignored", None)
    accepted = (await api.post(path, {"payload": PULL})).body
    assert accepted["outcome"] == "accepted"
    [notification] = await queue(api)
    assert (notification["id"], notification["title"]) == (accepted["notification"], "opened: Mend the roof")
    assert [outcome for outcome, _ in await deliveries(api, hook)] == ["accepted", "ignored"]


@pytest.mark.one_node
async def test_hooks_count_against_the_limit_of_webhooks(service: Service, api: Api) -> None:
    service.storage.limits.webhooks.limit = 1
    await new_hook(api)
    answer = await api.post("/api/organizations/webhooks/", {"url": "https://hooks.example/", "types": ["*"]})
    assert answer.status == 400
    assert "webhooks" in answer.body["detail"]
