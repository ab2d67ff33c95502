"""Events: streams, JSON for clients without streams, filters, cursors and tickets."""

from typing import Any

import pytest

from storage.ids import new_id
from tests.event_streams import event_stream
from tests.web.conftest import Api, Service

AGENTS = "/api/cloud/agents/"
EVENTS = "/api/events/"
STATUS = "/status/events/"
INSERT = """
INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
VALUES (now(), $1, $2, $3, $4, $5, $6, $7) RETURNING id
"""


class Log:
    """Writes events into the log, as other changes do, and announces them."""

    def __init__(self, service: Service) -> None:
        self.storage = service.storage

    async def write(self, type_name: str, agent: Any, **columns: Any) -> int:
        values = [columns.get(name) for name in ("run_id", "resource_id")]
        event_id: int = await self.storage.pool.fetchval(
            INSERT,
            type_name,
            agent["organization"],
            columns.get("agent_id", agent["id"]),
            *values,
            columns.get("actor", ""),
            columns.get("data", {}),
        )
        self.storage.events.announce()
        return event_id


@pytest.fixture
def log(service: Service) -> Log:
    return Log(service)


def path_of(agent: Any) -> str:
    return f"{AGENTS}{agent['id']}/events/"


async def listed(api: Api, path: str = EVENTS, **query: Any) -> Any:
    answer = await api.get(path, params={"limit": 100, **query})
    assert answer.status == 200, answer
    return answer.body


async def test_stream_begins_with_retry_and_cursor(api: Api) -> None:
    async with event_stream(api, EVENTS) as stream:
        first = await stream.next()
        headers = stream.response.headers
    assert first.retry == 1000
    assert first.id is not None
    assert first.data is None
    assert headers["Content-Type"] == "text/event-stream"
    assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-store", "no")
    assert "Content-Encoding" not in headers


async def test_event_has_id_type_and_agent_as_it_is(api: Api, log: Log) -> None:
    agent = await api.create_agent(name="Grace")
    async with event_stream(api, path_of(agent)) as stream:
        await stream.next()
        event_id = await log.write("agent.changed", agent, actor=f"key:{new_id()}", data={"fields": ["name"]})
        block = await stream.next_event()
    assert (block.id, block.type) == (event_id, "agent.changed")
    event = block.data
    assert (event["id"], event["type"], event["agent"]) == (event_id, "agent.changed", agent["id"])
    assert (event["organization"], event["data"]) == (agent["organization"], {"fields": ["name"]})
    assert event["by"]["type"] == "key"
    assert event["resource"] == agent
