"""The webhooks of the API document: what receivers get, for each type of event."""

import json
import re
from typing import Any
from uuid import UUID

import pytest
from jsonschema_rs import Draft202012Validator

from storage.events.model import SHOWN_TYPES
from supervisors.clock import SystemClock
from tests.paths import ROOT
from tests.web.conftest import Api
from web.app import ROUTES
from web.openapi.document import build_document

GUIDE = ROOT / "docs" / "webhooks.md"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return build_document(ROUTES)


def payload_schema(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the schema of the body, with the components that it refers to."""
    body = document["webhooks"][name]["post"]["requestBody"]
    return {**body["content"]["application/json"]["schema"], "components": document["components"]}


def test_document_describes_a_webhook_for_each_event_type(document: dict[str, Any]) -> None:
    assert document["webhooks"].keys() == {*SHOWN_TYPES, "webhook.test", "template:agent.created"}
    assert all(item["post"]["summary"] for item in document["webhooks"].values())


@pytest.mark.parametrize(("number", "name"), [(0, "run.ended"), (1, "template:agent.created")])
def test_example_of_the_guide_is_as_described(document: dict[str, Any], number: int, name: str) -> None:
    examples = re.findall(r"^```json\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    Draft202012Validator(payload_schema(document, name)).validate(json.loads(examples[number]))


@pytest.mark.parametrize("name", ["webhook.test", "template:agent.created"])
async def test_stored_payload_is_as_described(document: dict[str, Any], api: Api, name: str) -> None:
    template = await api.create_template(agent_created_webhook_url="https://hooks.example/")
    await api.create_agent(template=template["id"])
    hook = await api.create("/api/organizations/webhooks/", url="https://hooks.example/", types=["*"])
    await api.post(f"/api/organizations/webhooks/{hook['id']}/test/")
    deliveries = (await api.get("/api/organizations/webhook-deliveries/")).body
    [delivery] = [each for each in deliveries if each["type"] == name.removeprefix("template:")]
    whole = (await api.get(f"/api/organizations/webhook-deliveries/{delivery['id']}/")).body
    Draft202012Validator(payload_schema(document, name)).validate(whole["payload"])


async def test_delivered_event_is_as_described_and_as_streamed(
    document: dict[str, Any], service: Any, api: Api
) -> None:
    hook = await api.create("/api/organizations/webhooks/", url="https://hooks.example/", types=["*"])
    agent = await api.create_agent()
    await api.create_notification(agent)
    storage, organization_id = service.storage, agent["organization"]
    last = await storage.events.get_last_id()
    await storage.webhook_matching.match(UUID(organization_id), last, SystemClock().now())
    listed = (await api.get(f"/api/organizations/webhook-deliveries/?webhook={hook['id']}")).body
    [delivery] = [each for each in listed if each["type"] == "notification.created"]
    whole = (await api.get(f"/api/organizations/webhook-deliveries/{delivery['id']}/")).body
    Draft202012Validator(payload_schema(document, "notification.created")).validate(whole["payload"])

    streamed = (await api.get("/api/events/?after=0&limit=10&type=notification.created")).body["events"]
    assert [{**event, "resource": None} for event in streamed] == [
        {**whole["payload"]["data"], "resource": None}
    ]
