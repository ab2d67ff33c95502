"""Runs in processes of the agents' own code: from a git repository to a trace, and the cleanup."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hostsvc.process_harness.lease import RENEW_SECONDS
from tests.acceptance.client import Client, Json, eventually, moment, sign_up
from tests.acceptance.harnesses import COMMON, RUNS
from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.git_repository import GitRepository
from tests.paths import ROOT
from tests.processes import all_gone, content, has_sandbox, marked

in_sandbox = pytest.mark.skipif(not has_sandbox(), reason="bubblewrap does not work here")

EXAMPLE = ROOT / "docs/example_harness.py"
GRACE_SECONDS = 0.5
LONG_GRACE_SECONDS = 5.0


@pytest.fixture
def reports(directory: Path) -> Path:
    """The directory in which runs leave reports for the test."""
    path = directory / "reports"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    """A repository with a branch for each kind of run."""
    repository = GitRepository.make(tmp_path_factory.mktemp("original") / "agents")
    repository.commit(common=COMMON)
    for name, code in RUNS.items():
        repository.git("checkout", "--quiet", "-B", name, "main")
        repository.commit(run=code)
    return repository


@pytest.fixture
def repository(directory: Path, original: GitRepository) -> GitRepository:
    """A copy for one test."""
    return GitRepository(Path(shutil.copytree(original.path, directory / "agents", symlinks=True)))


def settings(repository: GitRepository, **changes: Any) -> dict[str, Mapping[str, Any]]:
    """Return the configuration of a service with the process harness.

    Without a sandbox, unless `changes` say otherwise: runs write reports for the test.
    """
    harness = {
        "kind": "process",
        "containment": "none",
        "repository": str(repository.path),
        "command": [sys.executable, "-S", "-B", "run.py"],
    }
    cache = {"cache_dir": str(repository.path.parent / "cache")}
    return {
        "harness": {**harness, **cache, **changes.pop("harness", {})},
        "runs": {"stop_grace_seconds": GRACE_SECONDS, **changes.pop("runs", {})},
        "server": {"drain_seconds": 0.3},
        **changes,
    }


def sandbox(directory: Path, **changes: str) -> dict[str, Any]:
    """Return the settings of a harness with a sandbox, which as root needs a user who can enter the cache."""
    os.chmod(directory, 0o711)  # noqa: S103
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    command = ["/usr/bin/env", "python3", "-S", "-B", "run.py"]
    return {"command": command, "containment": "bubblewrap", **user, **changes}


@pytest.fixture(params=[pytest.param("bubblewrap", marks=in_sandbox), "none"])
def harness(request: pytest.FixtureRequest, directory: Path) -> dict[str, Any]:
    """The settings of a harness with a sandbox, and of one without."""
    return sandbox(directory) if request.param == "bubblewrap" else {}


async def report_of(reports: Path, agent: str) -> Any:
    return json.loads(await content(reports / agent))


async def run(client: Client, agent: str) -> None:
    assert (await client.post(f"/api/cloud/agents/{agent}/run/"))["status"] == "started"


async def trace_of(client: Client, run: Json) -> Json:
    trace: Json = await client.get(f"/api/tracing/traces/{run['trace']}/")
    return trace


async def root_of(client: Client, run: Json) -> Json:
    """Return the span of the whole run with its metadata."""
    trace = await trace_of(client, run)
    [root] = [span for span in trace["spans"] if span["span_type"] == "agent"]
    full: Json = await client.get(f"/api/tracing/spans/{root['id']}/")
    return full


async def results(client: Client, *refs: str) -> dict[str, Json]:
    """Create an agent for each ref, and return their first runs once they have ended."""
    agents = {ref: await client.create_agent(name=ref[:20], harness_git_ref=ref) for ref in refs}
    for agent in agents.values():
        await run(client, agent)
    return {ref: await client.ended_run(agent) for ref, agent in agents.items()}


@pytest.mark.everyday
async def test_example_runs_from_branch_tag_or_main(
    services: Services, session: aiohttp.ClientSession, directory: Path
) -> None:
    example = EXAMPLE.read_text()
    repository = GitRepository.make(directory / "agents")
    commits = {"v1": repository.commit(run=example.replace("Noted", "Tagged"))}
    repository.git("tag", "--annotate", "--message=first", "v1")
    commits["main"] = repository.commit(run=example)
    repository.branch("polite")
    commits["polite"] = repository.commit(run=example.replace("Noted", "Noted with thanks"))
    patient = {"stop_grace_seconds": 60}  # its output is complete only after it has ended by itself
    command = {"command": [sys.executable, "run.py"]}
    service = await services.start(**settings(repository, harness=command, runs=patient))
    client = await sign_up(session, service.url)
    template = await client.post("/api/templates/", name="Tagged", harness_git_ref="v1")
    agents = {
        "Noted": ("main", await client.create_agent()),
        "Tagged": ("v1", await client.create_agent(template=template["id"])),
        "Noted with thanks": ("polite", await client.create_agent(harness_git_ref="polite")),
    }
    for _, agent in agents.values():
        await client.notify(agent, "Two parcels")

    for word, (ref, agent) in agents.items():
        ended = await client.ended_run(agent)
        assert (ended["outcome"], ended["wake_reason"], ended["error"]) == ("slept", "notification:api", "")
        assert [each["cleared"] for each in await client.notifications(agent)] == [True]
        body = await client.agent(agent)
        asleep = moment(body["sleep_until"]) - moment(ended["ended_at"])
        assert round(asleep.total_seconds() / 3600) == 24
        usage = await client.get(f"/api/cloud/agents/{agent}/usage/")
        assert (usage["total_cost_usd"], list(usage["model_breakdown"])) == (0.0004, ["example/echo"])
        journal = ended["journal"]
        assert journal["woken_by"] == journal["cleared"] == ["Two parcels"]
        assert [(tool["name"], tool["calls"]) for tool in journal["tools"]] == [("clear_notification", 1)]
        assert journal["cost_usd"] == 0.0004
        root = await _root_once_ended(client, ended)
        assert (root["metadata"]["harness.ref"], root["metadata"]["harness.commit"]) == (ref, commits[ref])
        assert root["metadata"]["output"] == f"Clerk was woken: notification:api\n{word}: Two parcels\n"
        trace = await trace_of(client, ended)
        assert trace["metadata"] == {"handled": 1}
        assert {span["name"]: span["parent"] for span in trace["spans"]} == {
            "invoke_agent Clerk": None,
            "chat example/echo": root["id"],
            "execute_tool clear_notification": root["id"],
        }
    assert services.crashes() == []
    assert "the agents' code runs as the user of this service" in service.log()


async def test_process_gets_only_its_own_environment_and_context(
    services: Services, session: aiohttp.ClientSession, repository: GitRepository, reports: Path
) -> None:
    service = await services.start(**settings(repository))
    client = await sign_up(session, service.url)
    prompt = "Be brief. " * 20_000
    agent = await client.create_agent(
        harness_git_ref="shows", system_prompt=prompt, timezone="Europe/Rome", max_sleep_hours=2
    )
    await client.notify(agent)
    ended = await client.ended_run(agent)
    root = await root_of(client, ended)
    report = await report_of(reports, agent)
    environment, context = report["environment"], report["context"]

    assert environment.keys() - {"LC_CTYPE", "PWD"} == {
        "PATH",
        "HOME",
        "LANG",
        "HOSTSVC_URL",
        "HOSTSVC_RUN_TOKEN",
        "HOSTSVC_AGENT_ID",
        "HOSTSVC_RUN_ID",
        "TRACEPARENT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_METRICS_EXPORTER",
        "OTEL_LOGS_EXPORTER",
    }
    assert (environment["HOSTSVC_URL"], environment["HOSTSVC_RUN_ID"]) == (service.url, ended["id"])
    assert list(repository.path.parent.glob("cache/homes/*")) == [], "a run's home goes with it"
    assert environment["HOME"].startswith(str(repository.path.parent / "cache/homes"))
    assert context == {
        "run": ended["id"],
        "agent": agent,
        "span": root["id"],
        "name": "Clerk",
        "wake_reason": "notification:api",
        "uncleared": 1,
        "started_at": ended["started_at"],
        "max_seconds": 3600.0,
        "max_sleep_until": ended["max_sleep_until"],
        "timezone": "Europe/Rome",
        "model": "builtin/inbox",
        "reasoning_effort": "",
        "system_prompt": prompt,
        "max_turns": 50,
        "ref": "shows",
        "commit": repository.git("rev-parse", "shows"),
    }
    assert report["files"] == ["common.py", "run.py"]
    assert root["metadata"]["output"] == "[run token]\n"


async def test_known_commits_run_without_the_repository(
    services: Services, session: aiohttp.ClientSession, repository: GitRepository
) -> None:
    service = await services.start(**settings(repository))
    client = await sign_up(session, service.url)
    commit = repository.git("rev-parse", "ends")
    await results(client, "ends")
    shutil.rmtree(repository.path)
    again = await results(client, "ends", commit, "fails", "nowhere")
    assert [again[ref]["outcome"] for ref in ("ends", commit, "fails")] == ["ended", "ended", "failed"]
    assert again["fails"]["error"] == "exit code 1: no model today"
    assert again["nowhere"]["error"].endswith("in its last known state; it cannot be fetched at the moment")
    root = await root_of(client, again["ends"])
    assert root["metadata"]["harness.commit"] == commit
    assert "could not be fetched" in root["metadata"]["harness.outdated"]
    assert "harness.outdated" not in (await root_of(client, again[commit]))["metadata"]


@in_sandbox
async def test_run_over_a_limit_fails_and_reaches_only_the_service(
    services: Services, session: aiohttp.ClientSession, repository: GitRepository, directory: Path
) -> None:
    changes = {"harness": sandbox(directory, network="service"), "harness.limits": {"processes": 30}}
    service = await services.start(**settings(repository, **changes))
    client = await sign_up(session, service.url)
    [bomb, calls] = (await results(client, "bomb", "calls")).values()
    assert bomb["outcome"] == "failed"
    assert bomb["error"].endswith("(harness.limits.processes is 30)")
    assert marked(bomb["id"]) == []
    assert calls["outcome"] == "slept"
    operator = Client(session, service.url, f"Bearer {OPERATOR_TOKEN}")
    status = await operator.get("/status/")
    assert status["harness"] == {
        "kind": "process",
        "containment": "bubblewrap",
        "network": "service",
        "remaining": 0,
    }
    assert "bubblewrap contains each run" in service.log()


async def test_process_is_killed_after_sleep_before_next_run(
    services: Services, session: aiohttp.ClientSession, repository: GitRepository, reports: Path
) -> None:
    service = await services.start(**settings(repository))
    client = await sign_up(session, service.url)
    agent = await client.create_agent(harness_git_ref="lingers")
    await run(client, agent)
    assert await report_of(reports, agent) == [200, 403, 403], "sleep is granted once, then tools are refused"
    await client.notify(agent)
    await client.supervisor_in("running", agent)
    first, second = await client.runs(agent)
    assert (first["outcome"], first["error"]) == ("slept", "")
    assert marked(first["id"]) == []
    between = moment(second["started_at"]) - moment(first["ended_at"])
    assert between.total_seconds() >= GRACE_SECONDS


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.long)])
async def test_many_runs_that_ignore_sigterm_are_killed_completely(
    services: Services,
    session: aiohttp.ClientSession,
    repository: GitRepository,
    reports: Path,
    capsys: pytest.CaptureFixture[str],
    count: int,
) -> None:
    harness = {"command": ["sh", "run.py", str(reports)]}
    service = await services.start(
        **settings(repository, harness=harness, runs={"stop_grace_seconds": LONG_GRACE_SECONDS})
    )
    client = await sign_up(session, service.url)
    agents = [await client.create_agent(harness_git_ref="many") for _ in range(count)]
    for agent in agents:
        await run(client, agent)
    await asyncio.gather(*(content(reports / agent) for agent in agents))
    assert len(marked(service.url)) >= 2 * count
    started = time.monotonic()
    await asyncio.gather(*(client.post(f"/api/cloud/agents/{agent}/stop/") for agent in agents))
    await all_gone(service.url, within=count * LONG_GRACE_SECONDS / 2)  # not one after the other
    took = time.monotonic() - started
    with capsys.disabled():
        print(f"\n{count} runs that ignore SIGTERM were gone {took:.2f} s after the stop")  # noqa: T201
    outcomes = [(await client.ended_run(agent))["outcome"] for agent in agents]
    assert outcomes == ["stopped"] * count


async def test_restart_kills_what_is_left_and_resumes_the_run(
    services: Services, session: aiohttp.ClientSession, repository: GitRepository, reports: Path
) -> None:
    service = await services.start(**settings(repository))
    client = await sign_up(session, service.url)
    agent = await client.create_agent(harness_git_ref="deaf")
    await run(client, agent)
    await content(reports / agent)
    [active] = await client.runs(agent)
    await service.kill()
    repository.git("branch", "--force", "deaf", "ends")
    again = client.at((await services.start(**settings(repository))).url)
    second = await again.ended_run(agent, 2)
    assert marked(active["id"]) == [], "what is left is killed before any run"
    assert (second["wake_reason"], second["outcome"]) == ("restart_recovery", "ended")


async def endless_run(client: Client, directory: Path) -> tuple[str, Json]:
    """Start a run of two processes that do not end by themselves; return its agent and the run."""
    agent = await client.create_agent(harness_git_ref="sandboxed")
    await run(client, agent)
    [active] = await client.runs(agent)
    await content(directory / "cache/homes" / active["id"] / "home/ready")
    assert len(marked(active["id"])) >= 2
    return agent, active


async def test_killed_service_leaves_no_process(
    services: Services,
    session: aiohttp.ClientSession,
    repository: GitRepository,
    directory: Path,
    harness: dict[str, Any],
) -> None:
    service = await services.start(**settings(repository, harness=harness))
    _, active = await endless_run(await sign_up(session, service.url), directory)
    await service.kill()
    await all_gone(active["id"])


async def test_processes_of_a_frozen_node_end_before_the_next_run(
    services: Services,
    session: aiohttp.ClientSession,
    repository: GitRepository,
    directory: Path,
    harness: dict[str, Any],
) -> None:
    frozen = await services.start(**settings(repository, harness=harness))
    harness["cache_dir"] = str(directory / "other")
    other = await services.start(**settings(repository, harness=harness))
    client = await sign_up(session, frozen.url)
    operator = Client(session, frozen.url, f"Bearer {OPERATOR_TOKEN}")

    async def look() -> bool | None:
        return len((await operator.get("/status/"))["nodes"]) == 2 or None

    await eventually(look, "the node to know the other one: alone it would be trusted for a minute")
    agent, active = await endless_run(client, directory)
    repository.git("branch", "--force", "sandboxed", "ends")
    await asyncio.sleep(2 * RENEW_SECONDS)  # nobody sees when the guardian has heard of that
    frozen.send_signal(signal.SIGSTOP)
    try:
        await all_gone(active["id"])
        gone_at = datetime.now(UTC)
        second = await client.at(other.url).ended_run(agent, 2)
        assert moment(second["started_at"]) > gone_at
    finally:
        frozen.send_signal(signal.SIGCONT)
    assert await frozen.exit_code() == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run code as another user")
@pytest.mark.parametrize("containment", ["auto", "none"])
async def test_code_runs_as_user_who_cannot_change_it(
    services: Services,
    session: aiohttp.ClientSession,
    repository: GitRepository,
    directory: Path,
    containment: str,
) -> None:
    harness = {"command": ["sh", "run.py"], "user": "nobody", "containment": containment}
    as_nobody = settings(repository, harness=harness)
    os.chmod(directory, 0o700)
    refused = await services.spawn(**as_nobody)
    assert await refused.exit_code() == 2
    assert f"nobody cannot enter {directory}: set another harness.cache_dir" in refused.log()

    os.chmod(directory, 0o711)  # noqa: S103
    service = await services.start(**as_nobody)
    client = await sign_up(session, service.url)
    [ended] = (await results(client, "somebody")).values()
    assert ended["outcome"] == "ended"
    written = (await root_of(client, ended))["metadata"]["output"].splitlines()
    assert [line for line in written if ":" not in line] == ["nobody", "home", "sealed", "closed"]
    assert "must be trusted" not in service.log()


async def _root_once_ended(client: Client, run: Json) -> Json:
    """Wait until the process is gone, which ends the span of the whole run, and return it."""

    async def poll() -> Json | None:
        trace = await trace_of(client, run)
        is_ended = any(span["span_type"] == "agent" and span["ended_at"] for span in trace["spans"])
        return trace if is_ended else None

    await eventually(poll, f"the process of {run['id']} to be gone")
    return await root_of(client, run)
