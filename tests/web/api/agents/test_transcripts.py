"""Transcripts over HTTP: what an agent carries from run to run is read and deleted."""

from typing import Any
from uuid import UUID

from storage.history.transcripts import TranscriptTurn, TurnKind
from storage.ids import new_id
from tests.storage.factories import NOW
from tests.web.api.agents.test_runs import path
from tests.web.conftest import Api, Service

MESSAGES = [
    {
        "role": "assistant",
        "text": "",
        "tool_calls": [{"id": "call_1", "name": "look", "arguments": "{}"}],
        "tool_call_id": "",
    },
    {"role": "tool", "text": '{"result": "a bird"}', "tool_calls": [], "tool_call_id": "call_1"},
]


async def stored_turn(service: Service, agent: Any, **fields: Any) -> TranscriptTurn:
    defaults: dict[str, Any] = {
        "id": new_id(),
        "agent_id": UUID(agent["id"]),
        "run_id": new_id(),
        "kind": TurnKind.TURN,
        "messages": MESSAGES,
        "tokens": 50,
        "carried": True,
        "created_at": NOW,
    }
    turn = TranscriptTurn(**(defaults | fields))
    await service.storage.transcripts.insert(turn)
    return turn


async def test_transcript_shows_what_is_carried(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    turn = await stored_turn(service, agent)
    summary = await stored_turn(service, agent, kind=TurnKind.SUMMARY, carried=False)
    await stored_turn(service, await api.create_agent())

    answer = await api.get(path(agent, "transcript/"))

    assert answer.body == [
        {
            "id": str(turn.id),
            "agent": agent["id"],
            "run": str(turn.run_id),
            "kind": "turn",
            "messages": MESSAGES,
            "tokens": 50,
            "carried": True,
            "created_at": "2126-11-21T09:00:00.000000Z",
        }
    ]
    others = (await api.get(path(agent, "transcript/?carried=false"))).body
    assert [(entry["id"], entry["kind"]) for entry in others] == [(str(summary.id), "summary")]


async def test_transcript_is_read_in_pages(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    turns = [await stored_turn(service, agent) for _ in range(3)]
    newest_first = [str(turn.id) for turn in reversed(turns)]
    first = await api.get(path(agent, "transcript/?limit=2"))
    assert [turn["id"] for turn in first.body] == newest_first[:2]
    rest = await api.get(path(agent, f"transcript/?limit=2&after={newest_first[1]}"))
    assert [turn["id"] for turn in rest.body] == newest_first[2:]


async def test_deleted_transcript_is_gone(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    await stored_turn(service, agent)
    await stored_turn(service, agent, carried=False)
    for _ in range(2):
        assert (await api.request("DELETE", path(agent, "transcript/"))).status == 204
    for query in ("", "?carried=false"):
        assert (await api.get(path(agent, f"transcript/{query}"))).body == []
