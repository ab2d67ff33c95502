"""Deliveries to hooks over HTTP: what becomes of them, and what a stranger can do."""

import asyncio
import hmac
import io
import json
import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
import stripe
from standardwebhooks import Webhook

from storage.events.model import EventType
from tests.storage.factories import NOW
from tests.web.api.channels.test_message_tools import call, error_code
from tests.web.conftest import Answer, Api, Service, StartService, wake_reasons
from web.api.hooks import receiving
from web.api.hooks.receiving import MAX_PAYLOAD_BYTES, MAX_TITLE_CHARACTERS, UNKNOWN, render
from web.app_keys import ROOM
from web.fields import MAX_SIDE_TEXT

HOOKS = "/api/organizations/hooks/"
NOTIFICATIONS = "/api/defaults/notifications/"
ATTACHMENTS = "/api/defaults/attachments/"
OPEN = "open_sms_attachment"
SECRET = "It's a Secret to Everybody"
PULL = {"action": "opened", "pull_request": {"title": "Mend the roof", "number": 7}}
TITLE = "{{ action }}: {{ pull_request.title }}"


async def new_hook(api: Api, **body: Any) -> Any:
    defaults = {"name": "Tracker", "verify": "github", "title": TITLE}
    if body.get("verify") not in {"standard", "token"}:
        defaults["secret"] = SECRET
    if "template" not in body and "agent" not in body:
        defaults["agent"] = (await api.create_agent())["id"]
    return await api.create(HOOKS, **{**defaults, **body})


def signed(raw: bytes, secret: str = SECRET, delivery: str = "d1") -> dict[str, str]:
    """Return the headers of GitHub."""
    signature = hmac.digest(secret.encode(), raw, "sha256").hex()
    return {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Delivery": delivery}


async def send(service: Service, path: str, raw: bytes, headers: Any = None, **options: Any) -> Answer:
    headers = {"Content-Type": "application/json", **(headers or {})}
    return await service.nobody.request("POST", path, data=io.BytesIO(raw), headers=headers, **options)


async def deliver(service: Service, hook: Any, payload: Any, delivery: str = "d1", **more: str) -> Answer:
    raw = json.dumps(payload).encode()
    return await send(service, hook["path"], raw, {**signed(raw, delivery=delivery), **more})


async def queue(api: Api) -> Any:
    return (await api.get(NOTIFICATIONS)).body


async def events_of(api: Api, type_: str) -> Any:
    return (await api.get(f"/api/events/?type={type_}&after=0&wait=20")).body["events"]


async def deliveries(api: Api, hook: Any) -> list[tuple[str, str]]:
    listed = (await api.get(f"{HOOKS}{hook['id']}/deliveries/")).body
    return [(each["outcome"], each["error"]) for each in listed]


async def test_delivery_becomes_a_notification_with_its_payload(
    service: Service, api: Api, other: Api
) -> None:
    hook = await new_hook(api, body="Number {{ pull_request.number }}, by {{ sender.login }}.")
    answer = await deliver(service, hook, PULL)
    assert (answer.status, answer.body) == (202, {"outcome": "accepted"})
    [notification] = await queue(api)
    assert notification["title"] == "opened: Mend the roof"
    hint = f"Open it with the tool open_sms_attachment and the message id {notification['id']}."
    size = len(json.dumps(PULL))
    assert notification["body"] == f"Number 7, by .\n\nPayload: {size} bytes of JSON. {hint}"
    assert (notification["priority"], notification["source"]) == ("high", "api")
    assert (notification["agent"], notification["source_id"]) == (hook["agent"], hook["id"])
    path = f"{ATTACHMENTS}{notification['id']}/"
    assert ((await api.get(path)).body, (await other.get(path)).status) == (PULL, 403)
    [delivery] = (await api.get(f"{HOOKS}{hook['id']}/deliveries/")).body
    assert delivery == {
        "notification": notification["id"],
        "agent": hook["agent"],
        "outcome": "accepted",
        "error": "",
        "created_at": notification["created_at"],
    }
    events = await events_of(api, "notification.created")
    assert [event["by"] for event in events] == [{"type": "hook", "id": hook["id"]}]


async def test_delivery_wakes_its_agent(service: Service, api: Api) -> None:
    hook = await new_hook(api)
    await deliver(service, hook, PULL)
    await wake_reasons(api, {"id": hook["agent"]}, "notification:api")


async def test_repeated_delivery_is_confirmed_and_has_no_effect(service: Service, api: Api) -> None:
    hook = await new_hook(api, priority="low")
    assert (await deliver(service, hook, PULL)).status == 202
    again = await deliver(service, hook, PULL)
    assert (again.status, again.body) == (200, {"outcome": "repeated"})
    assert (await deliver(service, hook, PULL, "d2")).status == 202
    assert len(await queue(api)) == 2
    [_, first] = await queue(api)
    await api.patch(f"{NOTIFICATIONS}{first['id']}/", {"cleared": True})
    assert (await deliver(service, hook, PULL)).status == 200
    assert (await api.get(f"{NOTIFICATIONS}{first['id']}/")).body["cleared"]


async def test_same_delivery_at_once_is_stored_once(service: Service, api: Api) -> None:
    hook = await new_hook(api, priority="low")
    answers = await asyncio.gather(*(deliver(service, hook, PULL) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [200] * 19 + [202]
    assert len(await queue(api)) == 1


async def test_stranger_gets_the_same_answer_for_every_hook(service: Service, api: Api, other: Api) -> None:
    hook = await new_hook(api)
    foreign = await new_hook(other, secret="of another organization")
    raw = json.dumps(PULL).encode()
    refused = [
        await send(service, hook["path"], raw),
        await send(service, hook["path"], raw, signed(raw, "guessed")),
        await send(service, hook["path"], raw, signed(raw, "of another organization")),
        await send(service, foreign["path"], raw, signed(raw)),
        await send(service, hook["path"], raw + b" ", signed(raw)),
        await send(service, f"/hooks/{uuid4()}/", raw, signed(raw)),
        await send(service, "/hooks/x/", raw, signed(raw)),
        await send(service, f"{hook['path']}{SECRET}/", raw),
    ]
    assert {(answer.status, answer.body["detail"]) for answer in refused} == {(401, UNKNOWN)}
    assert (await queue(api), await queue(other)) == ([], [])


@pytest.mark.one_node
async def test_forged_deliveries_are_counted_and_one_a_minute_kept(service: Service, api: Api) -> None:
    hook, raw = await new_hook(api), b"{}"
    for _ in range(5):
        assert (await send(service, hook["path"], raw, signed(raw, "guessed"))).status == 401
    [(outcome, error)] = await deliveries(api, hook)
    assert (outcome, error) == (
        "refused",
        "The signature is wrong, or made with another secret or of another body.",
    )
    events = await events_of(api, "hook.refused")
    assert [(event["by"]["id"], event["data"]["error"]) for event in events] == [(hook["id"], error)]
    metrics = (await service.operator.get("/metrics")).body
    assert re.search(r'hostsvc_http_requests_total\{[^}]*route="/hooks/\{id\}/"[^}]*\} 5.0', metrics)


async def test_address_of_forged_deliveries_must_wait_and_true_ones_pass(
    start_service: StartService,
) -> None:
    service = await start_service(anonymous_requests_per_minute=3)
    api = await service.new_organization()
    hook, raw = await new_hook(api, priority="low"), b"{}"
    statuses = [(await send(service, hook["path"], raw, signed(raw, "guessed"))).status for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    assert (await send(service, hook["path"], b"x" * (MAX_PAYLOAD_BYTES + 1))).status == 429
    assert (await send(service, f"/hooks/{uuid4()}/", raw)).status == 429
    assert (await deliver(service, hook, PULL)).status == 202


async def test_only_matching_payloads_are_accepted(service: Service, api: Api) -> None:
    schema = {"required": ["pull_request"], "properties": {"action": {"const": "opened"}}}
    hook = await new_hook(api, only_if=schema)
    for payload in ({"zen": "Keep it logically awesome."}, {**PULL, "action": "closed"}):
        answer = await deliver(service, hook, payload)
        assert (answer.status, answer.body) == (200, {"outcome": "ignored"})
    assert await queue(api) == []
    assert [outcome for outcome, _ in await deliveries(api, hook)] == ["ignored", "ignored"]
    assert (await deliver(service, hook, PULL)).status == 202
    assert (await deliver(service, hook, {**PULL, "number": 10**30}, "d2")).status == 202


async def test_payload_that_takes_too_long_to_compare_is_not_ignored(service: Service, api: Api) -> None:
    slow = {f"x{n}": {"anyOf": [{"$ref": f"#/$defs/x{n + 1}"}] * 2} for n in range(40)} | {"x40": False}
    hook = await new_hook(api, only_if={"$ref": "#/$defs/x0", "$defs": slow})
    for _ in range(2):
        answer = await deliver(service, hook, PULL)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "60")
        assert "too long to check" in answer.body["detail"]
    assert (await deliveries(api, hook))[0][0] == "refused"


async def test_stripe_signs_with_its_own_library(service: Service, api: Api) -> None:
    hook = await new_hook(
        api, verify="stripe", secret="whsec_test_secret", title="{{ type }} {{ data.object.amount }}"
    )
    raw = b'{"id": "evt_1", "object": "event", "type": "charge.succeeded", "data": {"object": {"amount": 9}}}'
    sign = stripe.WebhookSignature.generate_signature_header
    headers = {"Stripe-Signature": sign(raw.decode(), "whsec_test_secret")}
    assert (await send(service, hook["path"], raw, headers)).status == 202
    later = int(datetime.now(UTC).timestamp()) - 200  # a retry has a signature of its own
    headers = {"Stripe-Signature": sign(raw.decode(), "whsec_test_secret", later)}
    assert (await send(service, hook["path"], raw, headers)).body == {"outcome": "repeated"}
    old = {"Stripe-Signature": sign(raw.decode(), "whsec_test_secret", later - 200)}
    assert (await send(service, hook["path"], raw, old)).status == 401
    assert [each["title"] for each in await queue(api)] == ["charge.succeeded 9"]


async def test_standard_webhook_is_signed_with_the_made_secret(service: Service, api: Api) -> None:
    hook = await new_hook(api, verify="standard", title="{{ type }}")
    raw, now = b'{"type": "user.created"}', datetime.now(UTC)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(hook["secret"]).sign("msg_1", now, raw.decode()),
    }
    answers = [(await send(service, hook["path"], raw, headers)).status for _ in range(2)]
    assert answers == [202, 200]
    replayed = {**headers, "webhook-id": "msg_2"}
    assert (await send(service, hook["path"], raw, replayed)).status == 401


async def test_slack_is_told_that_the_address_is_ours(service: Service, api: Api) -> None:
    hook = await new_hook(api, verify="slack", title="{{ event.text }}")

    async def post(payload: Any) -> Answer:
        raw, seconds = json.dumps(payload).encode(), int(datetime.now(UTC).timestamp())
        signature = hmac.digest(SECRET.encode(), f"v0:{seconds}:".encode() + raw, "sha256").hex()
        headers = {"X-Slack-Signature": f"v0={signature}", "X-Slack-Request-Timestamp": str(seconds)}
        return await send(service, hook["path"], raw, headers)

    question = await post({"type": "url_verification", "challenge": "abc"})
    assert (question.status, question.body) == (200, {"challenge": "abc"})
    assert (
        await post({"type": "event_callback", "event_id": "Ev1", "event": {"text": "Hello"}})
    ).status == 202
    assert [each["title"] for each in await queue(api)] == ["Hello"]


async def test_token_in_the_path_is_enough(service: Service, api: Api) -> None:
    hook = await new_hook(api, verify="token", title="{{ text }}")
    path = f"{hook['path']}{hook['secret']}/"
    assert (await send(service, hook["path"], b'{"text": "done"}')).status == 401
    assert (await send(service, path, b'{"text": "done"}')).status == 202
    assert (await send(service, path, b'{"text": "done"}')).status == 202
    assert [(await send(service, path, b"{}", {"Idempotency-Key": "1"})).status for _ in range(2)] == [
        202,
        200,
    ]
    assert [each["title"] for each in await queue(api)] == ["Tracker", "done", "done"]


@pytest.mark.one_node
async def test_unreadable_payload_is_refused_with_the_reason(service: Service, api: Api) -> None:
    hook = await new_hook(api)
    for raw, status in (
        (b"{", 400),
        (b"\xff", 400),
        (b"[" * 100 + b"]" * 100, 400),
        (b"[" + b"0," * 60_000 + b"0]", 413),
        (b'"' + b"x" * MAX_PAYLOAD_BYTES + b'"', 413),
    ):
        assert (await send(service, hook["path"], raw, signed(raw))).status == status
    [(outcome, error)] = await deliveries(api, hook)
    assert (outcome, error.startswith("JSON parse error")) == ("refused", True)


async def test_longest_payload_is_kept_until_its_notification_is_deleted(service: Service, api: Api) -> None:
    hook = await new_hook(api)
    payload = {"action": "é" * (MAX_PAYLOAD_BYTES // 6 - 20)}
    assert (await deliver(service, hook, payload)).status == 202
    [notification] = await queue(api)
    assert len(notification["title"]) == MAX_TITLE_CHARACTERS
    path = f"{ATTACHMENTS}{notification['id']}/"
    assert (await api.get(path)).body == payload
    await api.delete(f"{NOTIFICATIONS}{notification['id']}/")
    assert (await api.get(path)).status == 404


async def test_agent_opens_the_payload_of_its_own_notifications_only(service: Service, api: Api) -> None:
    agent, payload = await api.create_agent(), {"number": list(range(10_000))}
    hook = await new_hook(api, agent=agent["id"], priority="low")
    await deliver(service, hook, payload)
    [notification] = await queue(api)
    text, start = "", 0
    while start is not None:
        opened = await call(api, agent, OPEN, message_id=notification["id"], start=start)
        [shown] = opened.body["result"]["attachments"]
        text, start = text + shown["text"], shown.get("next_start")
    assert json.loads(text) == payload
    assert (shown["size"], shown["url"]) == (len(text), f"{ATTACHMENTS}{notification['id']}/")
    assert await error_code(api, await api.create_agent(), OPEN, message_id=notification["id"]) == "not_found"


async def test_archived_agent_and_paused_organization_keep_what_comes(service: Service, api: Api) -> None:
    hook = await new_hook(api)
    await api.patch(f"/api/cloud/agents/{hook['agent']}/", {"status": "archived"})
    assert (await deliver(service, hook, PULL, "a")).status == 202
    await api.patch(f"/api/organizations/organizations/{hook['organization']}/", {"paused": True})
    await api.patch(f"/api/cloud/agents/{hook['agent']}/", {"status": "sleeping"})
    assert (await deliver(service, hook, PULL, "b")).status == 202
    runs = f"/api/cloud/agents/{hook['agent']}/runs/"
    assert (len(await queue(api)), (await api.get(runs)).body) == (2, [])
    await api.patch(f"/api/organizations/organizations/{hook['organization']}/", {"paused": False})
    await wake_reasons(api, {"id": hook["agent"]}, "notification:api")


async def test_last_hundred_deliveries_are_listed(service: Service, api: Api) -> None:
    hook = await new_hook(api)
    stored = await service.storage.hooks.get(UUID(hook["id"]))
    assert stored is not None
    for number in range(101):
        await service.storage.hooks.record(stored, EventType.HOOK_IGNORED, f"{number}", NOW)
    assert await deliveries(api, hook) == [("ignored", str(number)) for number in range(100, 0, -1)]


async def test_hook_of_a_template_creates_an_agent_for_each_delivery(service: Service, api: Api) -> None:
    adapter = await api.create("/api/toolbox/adapters/", name="Calendar")
    template = await api.create_template(default_model="builtin/inbox")
    await api.create("/api/toolbox/adapter-configs/", template=template["id"], adapter=adapter["id"])
    hook = await new_hook(api, template=template["id"], priority="low")
    statuses = [(await deliver(service, hook, PULL, name)).status for name in ("a", "a", "b")]
    assert statuses == [202, 200, 202]
    agents = (await api.get("/api/cloud/agents/")).body
    assert [(agent["name"], agent["template"]) for agent in agents] == [
        ("opened: Mend the roof", template["id"])
    ] * 2
    assert agents[0]["adapters"] == [adapter["id"]]
    assert {each["agent"] for each in await queue(api)} == {agent["id"] for agent in agents}
    await api.patch(f"/api/templates/{template['id']}/", {"default_model": ""})
    assert (await deliver(service, hook, PULL, "c")).body == {"model": ["This field is required."]}
    assert (await deliveries(api, hook))[0] == ("refused", '{"model":["This field is required."]}')


async def test_hook_without_its_agent_refuses_with_the_reason(service: Service, api: Api) -> None:
    hook = await new_hook(api)
    await api.delete(f"/api/cloud/agents/{hook['agent']}/")
    answer = await deliver(service, hook, PULL)
    assert (answer.status, answer.body) == (409, {"detail": receiving.GONE})
    assert await deliveries(api, hook) == [("refused", receiving.GONE)]


async def test_full_queue_refuses_until_it_is_emptied(start_service: StartService) -> None:
    service = await start_service()
    api = await service.new_organization()
    hook = await new_hook(api, priority="low")
    service.storage.limits.waiting_notifications.limit = 1
    assert (await deliver(service, hook, PULL, "a")).status == 202
    assert (await deliver(service, hook, PULL, "b")).status == 429
    assert [outcome for outcome, _ in await deliveries(api, hook)] == ["refused", "accepted"]
    assert len(await queue(api)) == 1


@pytest.mark.parametrize("name", ["waiting_notifications", "document_bytes"])
async def test_delivery_without_room_creates_no_agent(start_service: StartService, name: str) -> None:
    service = await start_service()
    api = await service.new_organization()
    template = await api.create_template(default_model="builtin/inbox")
    hook = await new_hook(api, template=template["id"], priority="low")
    assert (await deliver(service, hook, PULL, "a")).status == 202
    getattr(service.storage.limits, name).limit = 1
    assert (await deliver(service, hook, PULL, "b")).status in {400, 429}
    assert len((await api.get("/api/cloud/agents/")).body) == 1


@pytest.mark.one_node
async def test_full_room_of_the_organization_refuses_its_deliveries_only(
    service: Service, api: Api, other: Api
) -> None:
    hook, foreign = await new_hook(api, priority="low"), await new_hook(other, priority="low")
    room = service.app[ROOM]
    owner = UUID(hook["organization"])
    place = room.enter(owner, 510)
    assert (await deliver(service, hook, PULL)).status == 503
    assert (await deliver(service, foreign, PULL)).status == 202
    place.leave()
    assert (await deliver(service, hook, PULL)).status == 202


def test_template_shows_values_by_dotted_path_and_nothing_else() -> None:
    payload = {
        "a": {"b": ["zero", {"c": True}]},
        "n": None,
        "big": 10**30,
        "{{ n }}": 1,
        "text": "{{ a.b.0 }}",
    }
    for template, text in (
        ("{{ a.b.0 }} {{a.b.1.c}}", "zero true"),
        ("{{ a.b }}", '["zero", {"c": true}]'),
        ("{{ big }}", "1" + "0" * 30),
        ("<{{ n }}{{ a.x }}{{ a.b.2 }}{{ a.b.-1 }}{{ a.b.\u0660 }}{{ a.__class__ }}{{ x.y }}>", "<>"),
        ("{{ text }}", "{{ a.b.0 }}"),
        ("{{ a b }} {{ }} { a } {{ a.b.0 }", "{{ a b }} {{ }} { a } {{ a.b.0 }"),
    ):
        assert render(template, payload) == text
    assert len(render("{{ t }}" * 50, {"t": "x" * 10**6})) == MAX_SIDE_TEXT
