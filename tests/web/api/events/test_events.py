"""Events: streams, JSON for clients without streams, cursors and filters."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from storage.ids import new_id
from tests.event_streams import event_stream
from tests.storage.events.recorded import forget_events
from tests.web.conftest import Api, Service
from tests.web.people import founder

AGENTS = "/api/cloud/agents/"
EVENTS = "/api/events/"
STATUS = "/status/events/"
INSERT = """
INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
VALUES (now(), $1, $2, $3, $4, $5, $6, $7) RETURNING id
"""

COPY_EVENT = """
INSERT INTO event (at, type, organization_id, agent_id)
SELECT at, type, organization_id, agent_id FROM event, generate_series(1, $2::integer) WHERE id = $1
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
        self.storage.events.written.set()
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


async def test_stream_resumes_after_header_or_parameter(api: Api, log: Log) -> None:
    agent = await api.create_agent()
    ids = [await log.write("agent.changed", agent) for _ in range(3)]
    for path, headers in (
        (f"{EVENTS}?after={ids[0]}", {}),
        (EVENTS, {"Last-Event-ID": str(ids[0])}),
        (f"{EVENTS}?after={ids[2]}", {"Last-Event-ID": str(ids[0])}),  # a browser keeps the URL
    ):
        async with event_stream(api, path, headers) as stream:
            assert (await stream.next()).id == ids[0]
            assert [block.id for block in await stream.events(2)] == ids[1:]


async def test_stream_joins_log_and_new_events(api: Api, log: Log) -> None:
    agent = await api.create_agent()
    ids = [await log.write("agent.changed", agent) for _ in range(40)]
    async with event_stream(api, f"{path_of(agent)}?after={ids[0] - 1}") as stream:
        ids += [await log.write("agent.changed", agent) for _ in range(40)]
        assert [block.id for block in await stream.events(80)] == ids


async def test_cursor_before_retention_gets_one_reset(service: Service, api: Api, log: Log) -> None:
    agent = await api.create_agent()
    ids = [await log.write("agent.changed", agent) for _ in range(4)]
    await forget_events(service.storage.pool, until=ids[1])
    async with event_stream(api, f"{EVENTS}?after={ids[0]}") as stream:
        reset, *events = await stream.events(3)
    assert (reset.type, reset.id, reset.data) == ("reset", ids[1], {"type": "reset", "oldest": ids[2]})
    assert [block.id for block in events] == ids[2:]
    answer = await listed(api, after=ids[0])
    assert answer["reset"] is True
    assert [event["id"] for event in answer["events"]] == ids[2:]
    assert (await listed(api, after=ids[1]))["reset"] is False


async def test_deletion_of_this_moment_resets_cursors(service: Service, api: Api, log: Log) -> None:
    agent = await api.create_agent()
    async with event_stream(api, EVENTS) as followed:
        await followed.next()
        ids = [await log.write("agent.changed", agent) for _ in range(3)]
        assert (await followed.next_event()).id == ids[0], "the feed has just looked where the log begins"
        await forget_events(service.storage.pool, until=ids[1])
        answer = await listed(api, after=ids[0])
    assert (answer["reset"], [event["id"] for event in answer["events"]]) == (True, ids[2:])


async def test_cursor_beyond_the_last_id_gets_one_reset(api: Api, log: Log) -> None:
    """A database that was restored from a backup gives ids again which clients have seen."""
    agent = await api.create_agent()
    last = await log.write("agent.changed", agent)
    async with event_stream(api, f"{EVENTS}?after={last + 1000}") as stream:
        reset, *events = await stream.events(3)
        assert (reset.type, reset.id, reset.data) == ("reset", 0, {"type": "reset", "oldest": 1})
        assert events[-1].id == last
        later = await log.write("agent.changed", agent)
        assert (await stream.next_event()).id == later
    answer = await listed(api, after=2**63 - 1)
    assert (answer["reset"], answer["events"][-1]["id"], answer["after"]) == (True, later, later)
    assert (await listed(api, after=later))["reset"] is False


async def test_cursor_beyond_the_settled_events_repeats_none(service: Service, api: Api, log: Log) -> None:
    agent = await api.create_agent()
    gap: list[Any] = ["agent.changed", agent["organization"], agent["id"], None, None, "", {}]
    async with AsyncExitStack() as streams:
        for node in service.nodes:  # the first stream of each waits for the writes that go on
            first = event_stream(Api(node.client, api.authorization), EVENTS)
            await (await streams.enter_async_context(first)).next()
        async with log.storage.pool.transaction() as connection:
            await connection.execute(INSERT, *gap)
            unsettled = await log.write("agent.changed", agent)
            path = f"{path_of(agent)}?after={unsettled}"
            stream = await streams.enter_async_context(event_stream(api, path))
            await stream.next()
        last = await log.write("agent.changed", agent)
        assert (await stream.next_event()).id == last


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", "", "9" * 19, "9" * 30, "٣"])
async def test_header_that_is_no_cursor_is_refused(api: Api, text: str) -> None:
    answer = await api.get(EVENTS, headers={"Last-Event-ID": text, "Accept": "text/event-stream"})
    assert answer.status == 400
    assert answer.body["detail"].startswith("Last-Event-ID: Must be the id of an event, got")


async def test_list_answers_in_pages(api: Api, log: Log) -> None:
    agent = await api.create_agent()
    ids = [await log.write("agent.changed", agent) for _ in range(5)]
    found, after = [], ids[0] - 1
    while (answer := await listed(api, after=after, limit=2))["events"]:
        assert len(answer["events"]) <= 2
        found += [event["id"] for event in answer["events"]]
        after = answer["after"]
    assert (found, after) == (ids, ids[-1])


async def test_list_without_cursor_begins_now(api: Api, log: Log) -> None:
    agent = await api.create_agent()
    last = await log.write("agent.changed", agent)
    assert await listed(api) == {"events": [], "after": last, "reset": False}


async def test_list_waits_for_the_first_event(api: Api, log: Log) -> None:
    agent = await api.create_agent()
    last = await log.write("agent.changed", agent)
    waiting = asyncio.create_task(listed(api, after=last, wait=30))
    while not waiting.done():
        event_id = await log.write("agent.changed", agent)
        await asyncio.wait({waiting}, timeout=0.2)
    answer = await waiting
    assert last < answer["events"][0]["id"] <= event_id
    assert answer["after"] == answer["events"][-1]["id"]


async def test_list_ends_at_a_megabyte_and_goes_on(api: Api, log: Log) -> None:
    agent = await api.create_agent()
    notice = await api.create_notification(agent, body="x" * 400_000)
    ids = [await log.write("notification.changed", agent, resource_id=notice["id"]) for _ in range(5)]
    first = await listed(api, after=ids[0] - 1)
    assert [event["id"] for event in first["events"]] == ids[:2]
    second = await listed(api, after=first["after"])
    assert [event["id"] for event in second["events"]] == ids[2:4]


async def test_json_is_chosen_by_limit_wait_or_accept(api: Api) -> None:
    anything = {"Accept": "*/*"}
    for query, headers in (
        ("?limit=1", anything),
        ("?wait=0", anything),
        ("", {"Accept": "application/json"}),
    ):
        answer = await api.get(f"{EVENTS}{query}", headers=headers)
        assert answer.headers["Content-Type"] == "application/json"
    for accept in ("*/*", "text/event-stream", "application/json, text/event-stream"):
        async with event_stream(api, EVENTS, {"Accept": accept}) as stream:
            assert stream.response.headers["Content-Type"] == "text/event-stream"


async def test_head_answers_without_opening_a_stream(api: Api) -> None:
    answer = await api.request("HEAD", EVENTS, headers={"Accept": "text/event-stream"})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")


async def test_filters_select_types_agents_and_tags(api: Api, log: Log) -> None:
    ann, bob = await api.create_agent(tags=["vip"]), await api.create_agent(name="Bob")
    first = await log.write("agent.changed", ann)
    ended = await log.write("run.ended", bob)
    started = await log.write("run.started", ann)
    for query, expected in (
        ({"type": "agent.changed"}, [first]),
        ({"type": "run.*"}, [ended, started]),
        ({"type": ["agent.changed", "run.started"]}, [first, started]),
        ({"agent": bob["id"]}, [ended]),
        ({"tag": "vip"}, [first, started]),
        ({"tag": "vip", "type": "run.*"}, [started]),
        ({"agent": str(new_id())}, []),
    ):
        answer = await listed(api, after=first - 1, **query)
        assert [event["id"] for event in answer["events"]] == expected, query
        assert answer["after"] == started


async def test_filter_by_tag_holds_for_live_events(api: Api, log: Log) -> None:
    ann, bob = await api.create_agent(tags=["vip"]), await api.create_agent(name="Bob")
    async with event_stream(api, f"{EVENTS}?tag=vip") as stream:
        await log.write("agent.changed", bob)
        expected = await log.write("agent.changed", ann)
        assert (await stream.next_event()).id == expected


async def test_filtered_stream_is_told_new_cursors(api: Api, log: Log) -> None:
    agent = await api.create_agent()
    first = await log.write("agent.changed", agent)
    await log.storage.pool.execute(COPY_EVENT, first, 2000)
    async with event_stream(api, f"{EVENTS}?type=run.*&after={first}") as stream:
        await stream.next()
        progress = await stream.next()
    assert progress.data is None
    assert progress.id is not None
    assert progress.id > first + 500


async def test_agent_stream_shows_pauses_and_own_events_only(api: Api, other: Api, log: Log) -> None:
    ann, bob, foreign = await api.create_agent(), await api.create_agent(), await other.create_agent()
    async with event_stream(api, path_of(ann)) as stream:
        for agent in (bob, foreign):
            await log.write("agent.changed", agent)
        await log.write("organization.paused", foreign, agent_id=None)
        pause = await log.write("organization.paused", ann, agent_id=None)
        own = await log.write("agent.changed", ann)
        assert [block.id for block in await stream.events(2)] == [pause, own]


async def test_run_stream_shows_events_of_the_run(api: Api, log: Log) -> None:
    agent = await api.create_agent()
    run = (await api.post(f"{AGENTS}{agent['id']}/run/")).body["run"]
    path = f"{AGENTS}{agent['id']}/runs/{run}/events/"
    async with event_stream(api, path) as stream:
        await log.write("agent.changed", agent)
        event_id = await log.write("notification.cleared", agent, run_id=run, actor=f"run:{run}")
        block = await stream.next_event()
    assert (block.id, block.data["run"]) == (event_id, run)
    assert block.data["by"] == {"type": "run", "id": run}
    other_agent = await api.create_agent()
    assert (await api.get(f"{AGENTS}{other_agent['id']}/runs/{run}/events/")).status == 404


async def test_operator_sees_all_organizations(service: Service, api: Api, other: Api, log: Log) -> None:
    ann, bob = await api.create_agent(), await other.create_agent()
    ids = [await log.write("agent.changed", agent) for agent in (ann, bob)]
    operator = service.operator
    for query, expected in (
        ({}, ids),
        ({"organization": ann["organization"]}, ids[:1]),
        ({"agent": bob["id"]}, ids[1:]),
        ({"agent": bob["id"], "organization": ann["organization"]}, []),
    ):
        answer = await listed(operator, STATUS, after=ids[0] - 1, **query)
        assert [event["id"] for event in answer["events"]] == expected
    async with event_stream(operator, STATUS) as stream:
        last = await log.write("agent.changed", bob)
        assert (await stream.next_event()).id == last


async def test_organizations_do_not_see_each_other(api: Api, other: Api, log: Log) -> None:
    ann, bob = await api.create_agent(), await other.create_agent()
    async with event_stream(api, EVENTS) as stream:
        await log.write("agent.changed", bob)
        own = await log.write("agent.changed", ann)
        assert (await stream.next_event()).id == own
    assert (await other.get(path_of(ann))).status == 403
    assert (await other.get(f"{EVENTS}?agent={ann['id']}")).status == 403


async def test_notification_given_to_another_agent_is_hidden(
    service: Service, api: Api, other: Api, log: Log
) -> None:
    agent, foreign = await api.create_agent(), await other.create_agent()
    notification = await api.create_notification(agent, title="Before")
    move = "UPDATE notification SET organization_id = $2, agent_id = $3, title = 'Secret' WHERE id = $1"
    await service.storage.pool.execute(move, notification["id"], foreign["organization"], foreign["id"])
    event_id = await log.write("notification.deleted", agent, resource_id=notification["id"])
    events = (await listed(api, after=event_id - 1))["events"]
    assert [(event["id"], event["resource"]) for event in events] == [(event_id, None)]
    timeline = (await api.get(f"{AGENTS}{agent['id']}/timeline/")).body
    assert notification["id"] in str(timeline)
    assert "Secret" not in str(timeline)


async def test_deleted_agent_of_others_stays_out_of_reach(api: Api, other: Api, log: Log) -> None:
    foreign, own = await other.create_agent(), await api.create_agent()
    event_id = await log.write("agent.changed", own)
    for agent in (foreign, own):
        await api.delete(f"{AGENTS}{agent['id']}/")
        await other.delete(f"{AGENTS}{agent['id']}/")
    assert (await api.get(f"{EVENTS}?agent={foreign['id']}&after=0&limit=9")).status == 403
    events = (await listed(api, agent=own["id"], after=event_id - 1))["events"]
    assert [event["type"] for event in events] == ["agent.changed", "agent.deleted"]


async def test_agent_filter_shows_pauses_of_its_organization_only(service: Service, log: Log) -> None:
    ann, _ = await founder(service)
    agent = await ann.create_agent()
    second = await ann.create("/api/organizations/organizations/", name="Second")
    async with event_stream(ann, f"{EVENTS}?agent={agent['id']}") as stream:
        elsewhere = await log.write(
            "organization.paused", {**agent, "organization": second["id"]}, agent_id=None
        )
        pause = await log.write("organization.paused", agent, agent_id=None)
        assert (await stream.next_event()).id == pause
    events = (await listed(ann, agent=agent["id"], after=elsewhere - 1))["events"]
    assert [event["id"] for event in events] == [pause]


async def test_deleted_agent_ends_its_stream(api: Api) -> None:
    agent = await api.create_agent()
    async with event_stream(api, path_of(agent)) as stream:
        await api.delete(f"{AGENTS}{agent['id']}/")
        while (block := await stream.next_event()).type != "agent.deleted":
            pass
        assert block.data["resource"] is None
        with pytest.raises(EOFError):
            await stream.next()
    assert (await api.get(path_of(agent))).status == 404
