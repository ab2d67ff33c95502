"""What an agent reads and writes during a run with a model, by tools."""

from typing import Any

import aiohttp
import orjson
import pytest

from tests.acceptance.client import Json, sign_up
from tests.acceptance.services import Services
from tests.openai_endpoint import Endpoint, Says, open_endpoint

MODEL = "openai/gpt-4o"
CONTACTS = "/api/defaults/contacts/"
DOCUMENTS = "/api/defaults/documents/"
MESSAGES = "/api/defaults/messages/"


def says(tool: str, **arguments: Any) -> Says:
    return Says(calls=[(tool, orjson.dumps(arguments).decode())])


def results(endpoint: Endpoint) -> list[Any]:
    """Return what the model was told about its tool calls."""
    messages = endpoint.calls[-1].body["messages"]
    return [orjson.loads(each["content"]) for each in messages if each["role"] == "tool"]


@pytest.mark.everyday
async def test_model_looks_up_a_conversation_and_keeps_a_note(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint() as endpoint:
        service = await services.start(**{"models.openai": {"base_url": endpoint.url}})
        client = await sign_up(session, service.url)
        agent = await client.create_agent(model=MODEL, timezone="Europe/Vienna")
        ada = await client.post(CONTACTS, name="Ada", phone="+436641234567")
        wish: Json = {"agent": agent, "contact": ada["id"], "channel": "sms", "direction": "outbound"}
        await client.post(MESSAGES, **wish, body="I am vegetarian.")
        endpoint.acts = [
            says("list_contacts", address="+43 664 1234567"),
            says("list_messages", contact_id=ada["id"]),
            says("write_document", title="Ada", content="Ada is a vegetarian."),
            says("search_documents", query="vegetarian"),
            says("update_contact", contact_id=ada["id"], name="Ada Byron"),
            says("get_time"),
            says("list_runs"),
            says("sleep"),
        ]
        await client.post(f"/api/cloud/agents/{agent}/run/")
        assert (await client.ended_run(agent))["outcome"] == "slept"

        found, messages, written, hits, changed, time, runs = (told["result"] for told in results(endpoint))
        assert [contact["id"] for contact in found] == [ada["id"]]
        assert [message["body"] for message in messages] == ["I am vegetarian."]
        [document] = await client.get(DOCUMENTS, agent=agent)
        assert (document["content"], document["id"]) == ("Ada is a vegetarian.", written["id"])
        assert [hit["id"] for hit in hits] == [document["id"]]
        assert (await client.get(f"{CONTACTS}{ada['id']}/"))["name"] == changed["name"] == "Ada Byron"
        assert time["timezone"] == "Europe/Vienna"
        for message in endpoint.calls[-1].body["messages"]:
            assert message["role"] != "system" or "vegetarian" not in message["content"]
        [entry] = runs
        assert (entry["id"], entry["outcome"]) == (document["run"], None)
