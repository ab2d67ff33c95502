"""Run tokens: the end of the trace, spans and usage that a run may write, also after its sleep."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.web.conftest import SETTINGS, Api, Service, StartService
from web.app_keys import NODES
from web.credentials.formats import RunTokens

TRACES = "/api/tracing/traces/"
SPANS = "/api/tracing/spans/"
CALL = {"model": "openai/gpt-4o", "input_tokens": 10, "output_tokens": 1, "cost_usd": 0.5}

SLEEP = """
WITH run AS (
    UPDATE run SET ended_at = $2, outcome = 'slept' WHERE id = $1
)
UPDATE trace SET ended_at = $2 WHERE id = $1
"""


def usage_of(agent: Any) -> str:
    return f"/api/cloud/agents/{agent['id']}/usage/"


async def start_run(service: Service, api: Api, agent: Any) -> tuple[str, Api]:
    """Start a run; return its id and a client of its node with its token."""
    run = (await api.post(f"/api/cloud/agents/{agent['id']}/run/")).body["run"]
    token = RunTokens(SETTINGS.token_secret).issue(UUID(run), datetime.now(UTC), timedelta(hours=1))
    node = service.node_of_run(UUID(agent["id"]), UUID(run))
    return run, Api(node.client, f"Bearer {token}")


async def written(by: Api, run: str, agent: Any) -> list[int]:
    """Return the statuses of all writes that are open to a run."""
    span = await by.post(SPANS, {"trace": run, "name": "step"})
    ended = await by.post(f"{SPANS}{span.body['id']}/end/") if span.status == 201 else span
    return [
        span.status,
        (await by.post(SPANS, [{"trace": run, "name": "step"}])).status,
        ended.status,
        (await by.post(f"{TRACES}{run}/end/", {"metadata": {"a": 1}})).status,
        (await by.post(usage_of(agent), {**CALL, "trace": run})).status,
    ]


async def test_run_writes_own_record_until_its_process_ends(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    run, own = await start_run(service, api, agent)
    assert await written(own, run, agent) == [201, 201, 200, 200, 201]
    await service.storage.pool.execute(SLEEP, UUID(run), datetime.now(UTC))
    assert await written(own, run, agent) == [201, 201, 200, 200, 201]
    assert (await api.get(usage_of(agent))).body["total_cost_usd"] == 1.0


async def test_run_that_slept_and_is_gone_writes_nothing(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    run, own = await start_run(service, api, agent)
    path = f"/api/cloud/agents/{agent['id']}/"
    assert (await own.post(f"{path}tools/sleep/")).status == 200
    assert (await own.post(f"{path}tools/sleep/")).status == 403
    assert await written(own, run, agent) == [201, 201, 200, 200, 201]
    await api.patch(path, {"status": "archived"})  # which ends what was winding up
    while (answer := await own.post(f"{TRACES}{run}/end/")).status == 200:
        pass
    assert (answer.status, answer.body) == (401, {"detail": "Invalid token."})


@pytest.mark.one_node
async def test_run_of_another_node_may_act_while_it_is_active_and_its_node_lives(
    service: Service, api: Api, start_service: StartService, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await api.create_agent()
    run, own = await start_run(service, api, agent)
    other = await start_service()
    there = Api(other.client, own.authorization)
    living = {1, 7}
    for each in (service, other):
        monkeypatch.setattr(each.app[NODES], "node_id", 1)
        monkeypatch.setattr(each.app[NODES], "is_living", living.__contains__)

    async def statuses(node_id: int | None) -> list[int]:
        await service.storage.pool.execute("UPDATE run SET node_id = $1", node_id)
        body = {"trace": run, "name": "step"}
        return [(await client.post(SPANS, body)).status for client in (own, there)]

    assert await statuses(None) == [201, 401]
    assert await statuses(1) == [201, 401]  # the node of the request itself, at which the run is not
    assert await statuses(7) == [201, 201]
    assert await statuses(8) == [201, 401]
    await service.storage.pool.execute(SLEEP, UUID(run), datetime.now(UTC))
    assert await statuses(7) == [201, 401]


async def test_run_writes_only_its_own_record(service: Service, api: Api) -> None:
    agent, bob = await api.create_agent(), await api.create_agent()
    run, own = await start_run(service, api, agent)
    bobs_run, _ = await start_run(service, api, bob)
    span = await api.create(SPANS, trace=bobs_run, name="step")
    another = await api.create(TRACES, agent=agent["id"], name="x")
    for path, body in (
        (SPANS, {"trace": bobs_run, "name": "step"}),
        (SPANS, [{"trace": run, "name": "step"}, {"trace": another["id"], "name": "step"}]),
        (f"{SPANS}{span['id']}/end/", {}),
        (f"{TRACES}{bobs_run}/end/", {}),
        (f"{TRACES}{another['id']}/end/", {}),
        (usage_of(bob), CALL),
        (usage_of(agent), {**CALL, "trace": another["id"]}),
        (TRACES, {"agent": agent["id"], "name": "x"}),
    ):
        assert (await own.post(path, body)).status == 403, path
    for path in (f"{TRACES}{bobs_run}/", f"{SPANS}{span['id']}/", usage_of(agent)):
        assert (await own.get(path)).status == 403, path


async def test_usage_reported_by_run_belongs_to_its_trace(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    run, own = await start_run(service, api, agent)
    record = await own.create(usage_of(agent), **CALL)
    assert record["trace"] == run


async def test_run_reads_the_runs_and_traces_of_its_agent(service: Service, api: Api) -> None:
    agent, sibling = await api.create_agent(), await api.create_agent()
    earlier, _ = await start_run(service, api, agent)
    await service.storage.pool.execute(SLEEP, UUID(earlier), datetime.now(UTC))
    await api.post(f"/api/cloud/agents/{agent['id']}/stop/")
    run, own = await start_run(service, api, agent)
    foreign, _ = await start_run(service, api, sibling)
    runs = f"/api/cloud/agents/{agent['id']}/runs/"
    await own.create(SPANS, trace=run, name="step", metadata={"a": 1})

    assert [each["id"] for each in (await own.get(runs)).body] == [run, earlier]
    assert [each["id"] for each in (await own.get(f"{runs}?active=true")).body] == [run]
    assert (await own.get(f"{runs}{earlier}/")).body["id"] == earlier
    for trace in (run, earlier):
        assert (await own.get(f"{TRACES}{trace}/?expand=metadata")).body["id"] == trace
    for path in (
        f"/api/cloud/agents/{sibling['id']}/runs/",
        f"/api/cloud/agents/{sibling['id']}/runs/{foreign}/",
        f"{TRACES}{foreign}/",
        "/api/cloud/runs/",
    ):
        assert (await own.get(path)).status == 403, path
    await service.storage.pool.execute(SLEEP, UUID(run), datetime.now(UTC))
    assert (await own.get(runs)).status == 403
