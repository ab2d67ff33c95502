"""The description of the requests that webhooks get, one for each type of event."""

from datetime import datetime
from typing import Any

from storage.events.model import SHOWN_TYPES, EventType
from web.api.events.schemas import DATA, EventResponse
from web.api.organizations.webhooks import AgentCreated, WebhookTest
from web.json import JSON_TYPE
from web.openapi.paths import request_header
from web.openapi.schemas import Components, Json, answer_schema, attribute_docstrings

TEST = "webhook.test"
OF_TEMPLATE = "template:agent.created"  # beside the event of this type, which has other data

ASKING = (EventType.APPROVAL_REQUESTED, EventType.APPROVAL_REMINDED)
LINK = (
    "Whoever has this address may decide, without logging in, once and for at most 30 days. Keep it secret."
)

HEADERS = [
    request_header(
        "webhook-id",
        "The id of the delivery, the same with each attempt. Ignore one that you have seen.",
        required=True,
    ),
    request_header("webhook-timestamp", "When the request was sent, in seconds since 1970.", required=True),
    request_header(
        "webhook-signature", "A signature by Standard Webhooks for each valid secret, separated by spaces."
    ),
]
RESPONSES: Json = {
    "2XX": {"description": "The request is confirmed and not repeated."},
    "410": {"description": "The delivery is given up."},
    "default": {"description": "The request is repeated later, up to nine times."},
}


def webhook_requests(components: Components) -> dict[str, Json]:
    """Describe the requests by the types of their events, and those that report no event of the log."""
    texts = attribute_docstrings(EventType)
    described = {
        type_.value: _request(type_, texts.get(type_.name, ""), _event(type_, components), components)
        for type_ in SHOWN_TYPES
    }
    test, created = answer_schema(WebhookTest, components), answer_schema(AgentCreated, components)
    described[TEST] = _request(TEST, "A test that was asked for.", test, components)
    text = "An agent was created from a template that names a webhook."
    described[OF_TEMPLATE] = _request(EventType.AGENT_CREATED, text, created, components)
    return described


def _request(type_: str, text: str, data: Json, components: Components) -> Json:
    timestamp = answer_schema(datetime, components)
    properties: Json = {
        "type": {"const": type_, "description": "The type of the event."},
        "timestamp": {**timestamp, "description": "When it happened."},
        "data": data,
    }
    schema: Json = {"type": "object", "required": list(properties), "properties": properties}
    return {
        "post": {
            "summary": text,
            "parameters": HEADERS,
            "requestBody": {"required": True, "content": {JSON_TYPE: {"schema": schema}}},
            "responses": RESPONSES,
        }
    }


def _event(type_: EventType, components: Components) -> Json:
    """Describe an event as a stream shows it, without the resource that it is about."""
    shown = components.referred(answer_schema(EventResponse, components))
    properties: dict[str, Any] = {
        **shown["properties"],
        "id": {
            "type": "integer",
            "description": "The position of the event in the log: later ones are greater.",
        },
        "type": {"const": type_.value, "description": "The type of the event."},
        "data": answer_schema(DATA[type_], components),
    }
    del properties["resource"]
    if type_ in ASKING:
        properties["link"] = {"type": "string", "description": LINK}
    return {"type": "object", "required": list(properties), "properties": properties}
