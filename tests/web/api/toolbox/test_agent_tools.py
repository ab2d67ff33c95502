"""Agent tools over HTTP, called with keys and with run tokens, and the reach of those tokens."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from storage.ids import new_id
from tests.web.conftest import SETTINGS, Api
from web.credentials.formats import RunTokens

AGENTS = "/api/cloud/agents/"
HOUR = timedelta(hours=1)
RUN_TOKENS = RunTokens(SETTINGS.token_secret)


def path(agent: Any) -> str:
    return f"{AGENTS}{agent['id']}/"


def tool(agent: Any, name: str) -> str:
    return f"{path(agent)}tools/{name}/"


async def start_run(api: Api, agent: Any) -> tuple[str, Api]:
    """Start a run that lasts until it is stopped. Return its id and a client with its token."""
    run_id = (await api.post(f"{path(agent)}run/", {})).body["run"]
    token = RUN_TOKENS.issue(UUID(run_id), datetime.now(UTC), HOUR)
    return run_id, api.with_authorization(f"Bearer {token}")


async def test_tools_are_listed_as_models_see_them(api: Api) -> None:
    agent = await api.create_agent()
    answer = await api.get(f"{path(agent)}tools/")
    by_name = {each["name"]: each for each in answer.body}
    assert {"list_notifications", "clear_notification", "create_notification", "sleep"} <= by_name.keys()
    listing = by_name["list_notifications"]
    assert (listing["adapter"], listing["parameters"]["type"]) == (None, "object")


async def test_key_calls_tools_on_behalf_of_the_agent(api: Api) -> None:
    agent = await api.create_agent(timezone="Europe/Berlin")
    body = {"title": "Call back", "scheduled_for": "2099-01-01T09:00:00", "priority": "high"}
    created = await api.post(tool(agent, "create_notification"), body)
    assert created.status == 200
    result = created.body["result"]
    assert (result["source"], result["scheduled_for"]) == ("agent", "2099-01-01T08:00:00.000000Z")
    assert (await api.post(tool(agent, "list_notifications"))).body == {"result": []}

    note = await api.create_notification(agent)
    del note["urgent"]  # only people and keys decide by it
    assert (await api.post(tool(agent, "list_notifications"), {"limit": 1})).body == {"result": [note]}
    for _ in range(2):
        cleared = await api.post(tool(agent, "clear_notification"), {"notification_id": note["id"]})
        assert (cleared.status, cleared.body) == (200, {"result": {"id": note["id"], "cleared": True}})


async def test_key_and_run_read_what_the_service_keeps(api: Api) -> None:
    agent = await api.create_agent(timezone="Europe/Berlin")
    sibling = await api.create_agent()
    contact = await api.create(
        "/api/defaults/contacts/", agent=agent["id"], name="Ada", phone="+436641234567"
    )
    message = {"channel": "sms", "direction": "outbound", "contact": contact["id"]}
    for n in range(3):
        await api.create("/api/defaults/messages/", agent=agent["id"], body=str(n), **message)
    _, run = await start_run(api, agent)

    for client in (api, run):
        found = await client.post(tool(agent, "list_contacts"), {"address": "+43 664 1234567"})
        assert [each["id"] for each in found.body["result"]] == [contact["id"]]
        form = {"contact_id": contact["id"], "limit": "2"}
        page = (await client.request("POST", tool(agent, "list_messages"), data=form)).body
        assert [each["body"] for each in page["result"]] == ["1", "2"]
        assert page["left_out"].endswith(f'before="{page["result"][0]["id"]}".')
        hidden = await client.post(tool(agent, "get_message"), {"message_id": contact["id"]})
        assert (hidden.status, hidden.body["error"]["code"]) == (400, "not_found")
        assert (await client.post(tool(agent, "get_time"))).body["result"]["timezone"] == "Europe/Berlin"
    assert (await api.post(tool(sibling, "get_contact"), {"contact_id": contact["id"]})).status == 400
    assert (await run.post(tool(sibling, "list_contacts"))).status == 403


async def test_tool_says_why_it_refuses(api: Api) -> None:
    agent = await api.create_agent()
    answer = await api.post(tool(agent, "fly"), {})
    message = "There is no tool named fly."
    assert (answer.status, answer.body) == (404, {"error": {"code": "unknown_tool", "message": message}})

    answer = await api.post(tool(agent, "list_notifications"), {"limit": "x"})
    message = "limit takes an integer of at least 1."
    error = {"code": "invalid", "message": message, "parameter": "limit"}
    assert (answer.status, answer.body) == (400, {"error": error})

    stranger = str(new_id())
    answer = await api.post(tool(agent, "clear_notification"), {"notification_id": stranger})
    assert (answer.status, answer.body["error"]["code"]) == (400, "not_found")

    answer = await api.request(
        "POST", tool(agent, "sleep"), data=b"{", headers={"Content-Type": "application/json"}
    )
    assert (answer.status, list(answer.body)) == (400, ["detail"])
    assert (await api.post(tool(agent, "sleep"), [])).status == 400


async def test_only_a_run_can_sleep(api: Api) -> None:
    agent = await api.create_agent()
    await start_run(api, agent)
    answer = await api.post(tool(agent, "sleep"), {})
    assert (answer.status, answer.body["error"]["code"]) == (400, "not_running")


async def test_run_reads_its_agent_calls_tools_and_sleeps(api: Api) -> None:
    agent = await api.create_agent(max_sleep_hours=1)
    _, run = await start_run(api, agent)
    note = await api.create_notification(agent, priority="high")
    assert (await run.get(path(agent))).body["status"] == "running"
    assert (await run.get(f"{path(agent)}tools/")).status == 200

    refused = await run.post(tool(agent, "sleep"), {"hours": 9})
    assert refused.status == 400
    assert refused.body["error"]["code"] == "uncleared_high_priority"
    assert refused.body["error"]["notifications"] == [note["id"]]

    await run.post(tool(agent, "clear_notification"), {"notification_id": note["id"]})
    granted = await run.post(tool(agent, "sleep"), {"hours": 9})
    assert (granted.status, granted.body["result"]["clamped"]) == (200, True)
    asleep = (await api.get(path(agent))).body
    assert (asleep["status"], asleep["sleep_until"]) == ("sleeping", granted.body["result"]["sleep_until"])


@pytest.mark.parametrize("end", ["stop", "delete"])
async def test_token_of_a_stopped_run_is_refused(api: Api, end: str) -> None:
    agent = await api.create_agent()
    _, run = await start_run(api, agent)
    if end == "stop":
        assert (await api.post(f"{path(agent)}stop/", {"force": True})).body == {"status": "stopped"}
    else:
        await api.delete(path(agent))
    answer = await run.get(path(agent))
    assert (answer.status, answer.body) == (401, {"detail": "Invalid token."})
