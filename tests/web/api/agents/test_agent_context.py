"""The context of an agent over HTTP, for keys and for run tokens."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.web.api.channels.test_attachments import PNG, upload
from tests.web.conftest import SETTINGS, Api
from web.credentials.formats import RunTokens

AGENTS = "/api/cloud/agents/"
RUN_TOKENS = RunTokens(SETTINGS.token_secret)


def path(agent: Any) -> str:
    return f"{AGENTS}{agent['id']}/context/"


async def test_context_of_new_agent_is_empty(api: Api) -> None:
    agent = await api.create_agent(name="Scout", system_prompt="I am {{agent.name}}.", timezone="Asia/Tokyo")

    answer = await api.get(path(agent))

    assert answer.status == 200
    context = answer.body
    assert context.pop("system").endswith("\n\nI am Scout.")
    assert context.pop("text").startswith('You are "Scout", an agent of ')
    assert 50 < context.pop("tokens") < 300
    assert abs(datetime.now(UTC) - datetime.fromisoformat(context.pop("now"))) < timedelta(minutes=1)
    assert context == {
        "timezone": "Asia/Tokyo",
        "run": None,
        "wake_reason": "",
        "asleep_since": None,
        "interrupted_sleep_until": None,
        "max_sleep_until": None,
        "notifications": [],
        "notifications_left_out": 0,
        "conversations": [],
        "memory": None,
        "journal": [],
        "files": [],
    }


async def test_context_holds_notification_and_conversation(api: Api) -> None:
    agent = await api.create_agent(debounce_window_seconds=3600)
    contact = (await api.post("/api/defaults/contacts/", {"name": "Ann", "email": "ann@example.org"})).body
    message = {"agent": agent["id"], "contact": contact["id"], "channel": "email"}
    inbound = {**message, "direction": "inbound", "subject": "Parcel", "body": "Where is it?"}
    sent = (await api.post("/api/defaults/messages/", inbound)).body

    context = (await api.get(path(agent))).body

    [notification] = context["notifications"]
    assert notification["source_id"] == contact["id"]
    assert (notification["source"], notification["priority"]) == ("email", "high")
    assert (notification["is_cut"], notification["scheduled_for"]) == (False, None)
    assert context["conversations"] == [
        {
            "contact": contact["id"],
            "name": "Ann",
            "phone": "",
            "email": "ann@example.org",
            "messages": [
                {
                    "id": sent["id"],
                    "channel": "email",
                    "direction": "inbound",
                    "subject": "Parcel",
                    "body": "Where is it?",
                    "is_cut": False,
                    "attachments": 0,
                    "status": "received",
                    "created_at": sent["created_at"],
                }
            ],
            "has_earlier": False,
        }
    ]
    assert '"from":"contact","channel":"email","subject":"Parcel","text":"Where is it?"' in context["text"]


async def test_run_token_reads_the_context_of_its_run(api: Api) -> None:
    agent, sibling = await api.create_agent(), await api.create_agent()
    run_id = (await api.post(f"{AGENTS}{agent['id']}/run/", {})).body["run"]
    token = RUN_TOKENS.issue(UUID(run_id), datetime.now(UTC), timedelta(hours=1))
    run = api.with_authorization(f"Bearer {token}")

    context = (await run.get(path(agent))).body

    assert (context["run"], context["wake_reason"]) == (run_id, "run_requested")
    assert "You were woken by a run request. This is your first run." in context["text"]
    assert (await run.get(path(sibling))).status == 403


async def test_context_lists_the_files_that_the_model_gets(api: Api) -> None:
    agent = await api.create_agent(model="builtin/inbox", debounce_window_seconds=3600)
    photo = ("photo.png", "image/png", PNG)
    message = await upload(api, agent, photo, ("note.txt", "text/plain", b"Hi"), **{"from": "+43123456"})

    context = (await api.get(path(agent))).body

    [file] = context["files"]
    assert file == {
        "message": message["id"],
        "name": "photo.png",
        "content_type": "image/png",
        "size": len(PNG),
        "url": message["attachments"][0]["url"],
        "is_left_out": False,
    }
    assert context["text"].endswith('"name":"photo.png","content_type":"image/png"}')
