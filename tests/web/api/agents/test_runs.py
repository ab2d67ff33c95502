"""Runs over HTTP: start, stop, list and wait, and the explanation by the supervisor."""

import asyncio
from typing import Any

from tests.web.conftest import Api, Service, StartService

AGENTS = "/api/cloud/agents/"


def path(agent: Any, below: str) -> str:
    return f"{AGENTS}{agent['id']}/{below}"


async def test_run_starts_once_and_is_listed(api: Api) -> None:
    agent = await api.create_agent(max_sleep_hours=1)
    started = await api.post(path(agent, "run/"))
    assert (started.status, started.body["status"]) == (200, "started")
    again = await api.post(path(agent, "run/"), {"wakeup": True})
    assert again.body == {"status": "already_running", "run": started.body["run"]}
    (run,) = (await api.get(path(agent, "runs/"))).body
    assert (await api.get(path(agent, f"runs/{run['id']}/"))).body == run
    assert run == {
        "id": started.body["run"],
        "agent": agent["id"],
        "trace": run["id"],
        "wake_reason": "run_requested",
        "notifications": [],
        "notification_count": 0,
        "interrupted_sleep_until": None,
        "started_at": run["started_at"],
        "ended_at": None,
        "turns": 0,
        "outcome": None,
        "error": "",
        "stop_reason": "",
        "output": "",
        "journal": None,
        "failed_calls": 0,
        "needs_person": False,
        "max_sleep_until": run["max_sleep_until"],
        "prompt": None,
    }
    shown = (await api.get(path(agent, ""))).body
    assert (shown["status"], shown["run_started_at"]) == ("running", run["started_at"])


async def test_sleeping_agent_stays_asleep_without_wakeup(api: Api) -> None:
    agent = await api.create_agent(sleep_until="2127-01-01T00:00Z")
    answer = await api.request("POST", path(agent, "run/"), data={"wakeup": "false"})
    assert answer.body == {"status": "sleeping", "run": None}


async def test_stopping_is_idempotent(api: Api) -> None:
    agent = await api.create_agent()
    assert (await api.post(path(agent, "stop/"))).body == {"status": "not_running"}
    await api.post(path(agent, "run/"))
    stopped = await api.post(path(agent, "stop/"), {"force": True, "reason": "enough"})
    assert (stopped.status, stopped.body) == (200, {"status": "stopped"})
    assert (await api.post(path(agent, "stop/"))).body == {"status": "not_running"}
    (run,) = (await api.get(path(agent, "runs/"))).body
    assert run["outcome"] == "stopped"


async def test_reason_of_stop_is_in_run_trace_and_why(api: Api) -> None:
    agent = await api.create_agent(debounce_window_seconds=60)
    await api.post(path(agent, "run/"))
    await api.post(path(agent, "stop/"), {"reason": "Down for\n maintenance"})
    [run] = (await api.get(path(agent, "runs/"))).body
    assert (run["outcome"], run["error"]) == ("stopped", "stopped")
    assert run["stop_reason"] == "Down for\n maintenance"
    trace = (await api.get(f"/api/tracing/traces/{run['trace']}/")).body
    assert (trace["error"], trace["metadata"]) == ("stopped", {"stop_reason": "Down for\n maintenance"})
    why = (await api.get(path(agent, "supervisor/"))).body["why"]
    assert ' for the reason "Down for maintenance": ' in why

    await api.create_notification(agent, priority="high", source="sms")
    await api.post(path(agent, "stop/"), {"reason": "enough"})
    assert ' for the reason "enough": ' in (await api.get(path(agent, "supervisor/"))).body["why"]

    await api.post(path(agent, "run/"))
    await api.post(path(agent, "stop/"))
    assert (await api.get(path(agent, "runs/"))).body[0]["stop_reason"] == ""
    assert "reason" not in (await api.get(path(agent, "supervisor/"))).body["why"]


async def test_stop_keeps_trace_metadata_that_is_no_object(api: Api) -> None:
    agent = await api.create_agent()
    run = (await api.post(path(agent, "run/"))).body["run"]
    for metadata in (["a", 1], "text", 7):
        ended = await api.post(f"/api/tracing/traces/{run}/end/", {"metadata": metadata})
        assert ended.body["metadata"] == metadata
    await api.post(path(agent, "stop/"), {"reason": "enough"})
    assert (await api.get(f"/api/tracing/traces/{run}/")).body["metadata"] == 7


async def test_run_of_a_deleted_agent_is_stopped(api: Api) -> None:
    agent = await api.create_agent()
    run = (await api.post(path(agent, "run/"))).body["run"]
    assert (await api.delete(path(agent, ""))).status == 204
    trace = (await api.get(f"/api/tracing/traces/{run}/")).body
    assert (trace["error"], trace["agent"]) == ("deleted", agent["id"])
    assert trace["ended_at"] is not None


async def test_wait_returns_when_the_run_has_ended(api: Api) -> None:
    agent = await api.create_agent()
    run = (await api.post(path(agent, "run/"))).body["run"]
    waiting = asyncio.create_task(api.get(path(agent, f"runs/{run}/?wait=60")))
    await asyncio.wait({waiting}, timeout=0.1)
    assert not waiting.done()
    await api.post(path(agent, "stop/"))
    assert (await waiting).body["outcome"] == "stopped"
    again = await api.get(path(agent, f"runs/{run}/?wait=60"))
    assert again.body == (await waiting).body


async def test_wait_at_another_node_returns_when_the_run_has_ended(
    api: Api, start_service: StartService
) -> None:
    there = Api((await start_service()).client, api.authorization)
    agent = await api.create_agent()
    run = (await api.post(path(agent, "run/"))).body["run"]
    waiting = asyncio.create_task(there.get(path(agent, f"runs/{run}/?wait=60")))
    await asyncio.wait({waiting}, timeout=0.5)
    assert not waiting.done()
    assert (await there.get(path(agent, f"runs/{run}/?wait=1"))).body["ended_at"] is None
    await api.post(path(agent, "stop/"))
    assert (await waiting).body["outcome"] == "stopped"


async def test_wait_returns_when_the_time_is_up(api: Api) -> None:
    agent = await api.create_agent()
    run = (await api.post(path(agent, "run/"))).body["run"]
    answer = await api.get(path(agent, f"runs/{run}/?wait=1"))
    assert (answer.status, answer.body["ended_at"]) == (200, None)


def all_idle(service: Service) -> bool:
    size = service.storage.pool.size()
    return (size.waiting, size.idle) == (0, size.connections)


async def test_wait_holds_no_database_connection(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    run = (await api.post(path(agent, "run/"))).body["run"]
    waiting = [asyncio.create_task(api.get(path(agent, f"runs/{run}/?wait=60"))) for _ in range(30)]
    await asyncio.wait(waiting, timeout=0.1)
    while not all_idle(service):
        await asyncio.wait(waiting, timeout=0.1)
    assert (await api.get(path(agent, "runs/"))).status == 200
    await api.post(path(agent, "stop/"))
    assert {(await each).body["outcome"] for each in waiting} == {"stopped"}
