"""The times in traces of finished runs: nothing ends before it starts, and children lie within parents."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.client import Client, Json, sign_up
from tests.acceptance.services import Services
from tests.git_repository import GitRepository

RUNS = 5
FAILS = "import sys, time; time.sleep(2); sys.exit(1)"
WAITS = "import time; time.sleep(600)"


def require_order(trace: Json) -> None:
    """Check the times of a finished trace. They are written alike, so that they compare as text."""
    spans = {span["id"]: span for span in trace["spans"]}
    assert spans
    for span in spans.values():
        around = spans[span["parent"]] if span["parent"] else trace
        assert span["ended_at"] is not None, span
        assert around["started_at"] <= span["started_at"] <= span["ended_at"] <= around["ended_at"], (
            span,
            trace,
        )


async def begun(client: Client) -> Json:
    """Start a run that lasts, and leave a span of its trace open."""
    agent = await client.create_agent()
    run_id = (await client.post(f"/api/cloud/agents/{agent}/run/"))["run"]
    await client.post("/api/tracing/spans/", trace=run_id, name="a step that never ends")
    run: Json = await client.get(f"/api/cloud/agents/{agent}/runs/{run_id}/")
    return run


async def test_spans_of_builtin_runs_lie_within_their_traces(
    services: Services, session: aiohttp.ClientSession
) -> None:
    client = await sign_up(session, (await services.start()).url)
    for _ in range(RUNS):
        agent = await client.create_agent()
        await client.notify(agent)
        trace = await client.trace(await client.ended_run(agent))
        assert len(trace["spans"]) > 2
        require_order(trace)


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        ("failure", "failed"),
        ("stop", "stopped"),
        ("timeout", "timed_out"),
        ("drain", "interrupted"),
        ("crash", "interrupted"),
    ],
)
async def test_spans_of_process_runs_end_with_their_traces(
    services: Services, session: aiohttp.ClientSession, directory: Path, ending: str, outcome: str
) -> None:
    repository = GitRepository.make(directory / "agents")
    repository.commit(run=FAILS if ending == "failure" else WAITS)
    settings: dict[str, Mapping[str, Any]] = {
        "harness": {
            "kind": "process",
            "repository": str(repository.path),
            "command": [sys.executable, "-S", "-B", "run.py"],
            "cache_dir": str(directory / "cache"),
        },
        "runs": {"stop_grace_seconds": 0.5, **({"max_seconds": 2} if ending == "timeout" else {})},
        "server": {"drain_seconds": 0.3},
    }
    service = await services.start(**settings)
    client = await sign_up(session, service.url)
    run = await begun(client)
    if ending == "stop":
        await client.post(f"/api/cloud/agents/{run['agent']}/stop/", reason="enough")
    if ending in {"drain", "crash"}:
        if ending == "drain":
            service.terminate()
            assert await service.exit_code() == 0
        else:
            await service.kill()
        client = client.at((await services.start(**settings)).url)
    ended = await client.ended_run(run["agent"])
    trace = await client.trace(ended)
    assert ended["outcome"] == outcome
    require_order(trace)
    [step] = [span for span in trace["spans"] if span["name"] == "a step that never ends"]
    assert step["has_error"]
