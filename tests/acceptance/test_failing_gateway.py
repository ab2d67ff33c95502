"""The gateway fails all night: in the morning every customer without an answer is seen, and gets one."""

from typing import Any

import aiohttp
import orjson
import pytest

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.services import Services
from tests.openai_endpoint import Json, Says, open_endpoint
from tests.receiver import Receiver, answering, receiving

CUSTOMERS = ("Ann", "Bob", "Cleo")
METRICS = {
    'hostsvc_messages_failed_total{channel="sms"} 3.0',
    'hostsvc_tool_errors_total{tool="send_sms"} 3.0',
    'hostsvc_wakes_total{reason="notification:sms"} 3.0',
    'hostsvc_model_call_errors_total{provider="real"} 0.0',
    'hostsvc_model_call_duration_seconds_count{provider="real"} 9.0',
}


def hasty_model(body: Json) -> Says:
    """Answer, clear and sleep in one turn, as models do; once told that it failed, sleep regardless."""
    last = body["messages"][-1]
    if last["role"] == "user":
        return Says(calls=[("list_notifications", "{}")])
    listed = orjson.loads(last["content"]).get("result")
    if not isinstance(listed, list) or not listed:
        return Says(calls=[("sleep", "{}")])
    calls = []
    for one in listed:
        answer = {"contact_id": one["source_id"], "body": "We open at nine."}
        calls.append(("send_sms", orjson.dumps(answer).decode()))
        calls.append(("clear_notification", orjson.dumps({"notification_id": one["id"]}).decode()))
    return Says(calls=[*calls, ("sleep", "{}")])


async def open_desks(client: Client, gateway: Receiver) -> dict[str, str]:
    """Create an agent for each customer, with the gateway; return the agents by customer."""
    adapter = await client.post("/api/toolbox/adapters/", name="Gateway")
    tool = {"adapter": adapter["id"], "name": "send", "handler": "channel:sms", "url": gateway.url}
    await client.post("/api/toolbox/tools/", **tool)
    fields = {"model": "real/hasty", "adapters": [adapter["id"]], "debounce_window_seconds": 0}
    return {name: await client.create_agent(name=f"Desk of {name}", **fields) for name in CUSTOMERS}


async def texts(client: Client, customer: str, agent: str) -> None:
    contact = await client.post("/api/defaults/contacts/", name=customer, agent=agent)
    message = {"agent": agent, "contact": contact["id"], "channel": "sms", "direction": "inbound"}
    await client.post("/api/defaults/messages/", **message, body="When do you open?")


async def work_all_night(client: Client, gateway: Receiver) -> None:
    """Have each customer write, whose answer is not sent; each agent sleeps, as it can do no more."""
    agents = await open_desks(client, gateway)
    calm = await client.get("/api/cloud/overview/")
    assert calm["sentence"].endswith("Nothing needs a person.")
    for customer, agent in agents.items():
        await texts(client, customer, agent)
    for agent in agents.values():
        run = await client.ended_run(agent)
        assert (run["journal"]["sent_count"], run["journal"]["failed_count"]) == (0, 1)
        assert (run["outcome"], run["failed_calls"], run["needs_person"]) == ("slept", 1, False)


async def overview_in_the_morning(client: Client) -> Any:
    """Wait until the failed messages, and nothing else, need a person; return the overview."""

    async def look() -> Any:
        found = await client.get("/api/cloud/overview/")
        return found if found["attention_counts"] == {"failed_message": len(CUSTOMERS)} else None

    return await eventually(look, "the failed messages, and nothing else, to need a person")


async def send_all_again(client: Client, gateway: Receiver) -> None:
    """Send the messages again, under their own ids and only once."""
    gateway.answer = answering(200)
    seen = {call.id for call in gateway.requests}
    gateway.requests.clear()
    again = {"action": "send", "kind": "failed_message"}
    done = [(await client.post("/api/cloud/attention/", **again))["done"] for _ in range(2)]
    assert done == [len(CUSTOMERS), 0]
    assert {call.id for call in gateway.requests} == seen
    assert len(gateway.requests) == len(CUSTOMERS)


@pytest.mark.everyday
async def test_night_of_a_failing_gateway_is_mended_by_one_action(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint() as endpoint, receiving() as gateway:
        gateway.answer, endpoint.otherwise = answering(500, "down"), hasty_model
        sections: dict[str, dict[str, Any]] = {
            "models.real": {"base_url": endpoint.url},
            "outbound": {"allow_private": True},
            "operator": {"open_metrics": True},
        }
        service = await services.start(**sections)
        client = await sign_up(session, service.url)
        await work_all_night(client, gateway)

        morning = await overview_in_the_morning(client)
        assert morning["sentence"].endswith("3 things need a person.")
        assert {item["sentence"].split(" was ")[0] for item in morning["attention"]} == {
            f'The text message to "{customer}"' for customer in CUSTOMERS
        }
        assert all("The tool answered 500: down" in item["sentence"] for item in morning["attention"])

        await send_all_again(client, gateway)
        sent = await client.get("/api/defaults/messages/", direction="outbound")
        assert [message["status"] for message in sent] == ["sent"] * len(CUSTOMERS)
        mended = await client.get("/api/cloud/overview/")
        assert (mended["attention"], mended["sentence"][-23:]) == ([], "Nothing needs a person.")

        async with session.get(f"{service.url}/metrics") as response:
            assert set((await response.text()).splitlines()) >= METRICS
