"""The process harness: one run from checkout to result, and settings with which it cannot start."""

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import orjson
import pytest

from hostsvc.process_harness import process
from hostsvc.process_harness.harness import NOT_CONFIRMED, ProcessHarness, RunCredentials, open_workspace
from hostsvc.process_harness.settings import HarnessSettings
from storage.agent_facts import RunStart
from storage.history.runs import JournalFacts, ToolUse
from storage.history.trace_model import NewSpan
from storage.ids import new_id
from storage.model import Agent, Outcome, Template
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.engine.run import ActiveRun, RunError, RunInterrupted, RunResult, RunStopped
from supervisors.settings import RunSettings
from tests.git_repository import GitRepository
from tests.nodes import LoneNode
from tests.storage import factories
from tests.supervisors.agent_facts import facts, state, waiting

ENVIRONMENT = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "sk-secret"}
URL = "http://127.0.0.1:8080"
SHOW = "cat; echo; env | grep HOSTSVC_ | sort; echo $HOME; pwd; echo ${OPENAI_API_KEY:-none}"


@dataclass
class Stores:
    """One agent with its template, and the spans of its runs; used as each store of the harness."""

    agent: Agent
    template: Template | None = None
    spans: list[NewSpan] = field(default_factory=list)
    journals: dict[UUID, dict[str, Any]] = field(default_factory=dict)

    def storage(self) -> Storage:
        names = ("agents", "templates", "traces", "secrets", "journals")
        return cast(Storage, SimpleNamespace(**dict.fromkeys(names, self)))

    async def get(self, id_: UUID) -> Any:
        return next((each for each in (self.agent, self.template) if each and each.id == id_), None)

    async def get_values(
        self, organization_id: UUID, template_id: UUID | None, names: Collection[str]
    ) -> dict[str, str]:
        raise AssertionError("the template names no secrets")

    async def insert_spans(self, spans: Sequence[NewSpan]) -> None:
        self.spans += spans

    async def end_spans(self, spans: Sequence[NewSpan]) -> None:
        ended = {new.span.id: new for new in spans}
        self.spans = [ended.get(new.span.id, new) for new in self.spans]

    async def list_known_span_ids(self, span_ids: Collection[UUID]) -> set[UUID]:
        return {new.span.id for new in self.spans} & set(span_ids)

    async def get_facts(self, run_id: UUID) -> JournalFacts:
        return JournalFacts(tools=(ToolUse("report", 1, 0, ""),))

    async def update(self, run_id: UUID, entries: dict[str, Any]) -> None:
        self.journals[run_id] = entries

    async def insert_note(self, note: NewSpan) -> None:
        self.spans.append(note)


@dataclass
class World:
    """A harness with its stores, and the repository that it runs."""

    stores: Stores
    repository: GitRepository
    directory: Path

    @asynccontextmanager
    async def open(self, trusted_until: float = inf, **settings: Any) -> AsyncIterator[ProcessHarness]:
        defaults: dict[str, Any] = {
            "kind": "process",
            "repository": str(self.repository.path),
            "command": ("sh", "run.py"),
            "cache_dir": self.directory / "cache",
        }
        harness_settings = HarnessSettings(**defaults | settings)
        clock = SystemClock()
        async with open_workspace(harness_settings, clock, ENVIRONMENT, lambda: trusted_until) as workspace:
            yield ProcessHarness(
                stores=self.stores.storage(),
                clock=clock,
                command=harness_settings.command,
                run_settings=RunSettings(stop_grace_seconds=0.2),
                credentials=RunCredentials(URL, lambda run_id: f"token-of-{run_id}", URL),
                workspace=workspace,
            )

    def run(self, agent_id: UUID | None = None) -> ActiveRun:
        start = RunStart(
            run_id=new_id(),
            wake_reason="notification:sms",
            started_at=SystemClock().now(),
            max_sleep_until=None,
            interrupted_sleep_until=None,
            trace_name="run",
        )
        return ActiveRun(
            facts(state(agent_id=agent_id or self.stores.agent.id), waiting()),
            start,
            SystemClock(),
            LoneNode(),
        )

    def tag(self, code: str) -> str:
        """Commit the code that the template names, and return the commit."""
        commit = self.repository.commit(run=code)
        self.repository.git("tag", "tagged")
        return commit

    @property
    def metadata(self) -> Any:
        [span] = self.stores.spans
        return orjson.loads(span.metadata)


@pytest.fixture
def world(tmp_path: Path) -> World:
    organization_id = new_id()
    template = factories.template(organization_id, harness_git_ref="tagged", system_prompt="Be brief.")
    agent = factories.agent(organization_id, template_id=template.id, harness_git_ref=None, system_prompt="")
    return World(Stores(agent, template), GitRepository.make(tmp_path / "agents"), tmp_path)


async def _refuse(*_: Any) -> Any:
    raise AssertionError("the harness asks no supervisor")


no_supervisor: Any = _refuse


async def execute(world: World, **settings: Any) -> RunResult:
    async with world.open(**settings) as harness:
        return await harness.execute(world.run(), no_supervisor)


async def test_run_executes_the_ref_of_the_template(world: World) -> None:
    commit = world.tag(SHOW)
    world.repository.commit(run="exit 1")

    assert await execute(world) == RunResult(Outcome.ENDED)

    metadata = world.metadata
    assert (metadata["harness.ref"], metadata["harness.commit"]) == ("tagged", commit)
    assert metadata["process.exit.code"] == 0
    context, *variables, home, directory, api_key = metadata["output"].splitlines()
    assert '"system_prompt":"Be brief."' in context
    assert '"wake_reason":"notification:sms"' in context
    assert [variable.partition("=")[0] for variable in variables] == [
        "HOSTSVC_AGENT_ID",
        "HOSTSVC_RUN_ID",
        "HOSTSVC_RUN_TOKEN",
        "HOSTSVC_URL",
    ]
    assert "HOSTSVC_RUN_TOKEN=[run token]" in variables
    assert list((world.directory / "cache/homes").iterdir()) == []
    assert home.startswith(str(world.directory / "cache/homes"))
    assert Path(directory).name == commit
    assert api_key == "none"


async def test_run_of_the_agents_ref_precedes_the_template(world: World) -> None:
    world.tag("exit 1")
    world.repository.commit(run="exit 0")
    world.stores.agent = replace(world.stores.agent, harness_git_ref="main")
    assert await execute(world) == RunResult(Outcome.ENDED)


async def test_failed_process_fails_the_run_with_its_last_line(world: World) -> None:
    world.tag("echo no model today; exit 7")
    with pytest.raises(RunError, match=r"^exit code 7: no model today$"):
        await execute(world)
    [span] = world.stores.spans
    assert span.span.error == "exit code 7: no model today"


async def test_process_of_a_node_without_its_database_is_killed(world: World) -> None:
    world.tag("sleep 600")
    with pytest.raises(RunInterrupted, match=f"^{NOT_CONFIRMED}$"):
        await execute(world, trusted_until=SystemClock().monotonic() + 0.2)


async def test_granted_sleep_stays_although_the_process_fails(world: World) -> None:
    world.tag("sleep 600")
    async with world.open() as harness:
        run = world.run()
        run.slept.set()
        assert await harness.execute(run, no_supervisor) == RunResult(Outcome.SLEPT)
    [span] = world.stores.spans
    assert span.span.error == "killed by SIGTERM"


async def test_journal_is_completed_after_the_sleep(world: World) -> None:
    world.tag("exit 0")
    async with world.open() as harness:
        awake, asleep = world.run(), world.run()
        asleep.slept.set()
        for run in (awake, asleep):
            await harness.execute(run, no_supervisor)
    tools = [{"name": "report", "calls": 1, "errors": 0, "last_error": ""}]
    assert world.stores.journals.keys() == {asleep.id}
    assert world.stores.journals[asleep.id]["tools"] == tools


async def test_stopped_run_starts_no_process(world: World) -> None:
    world.tag("exit 0")
    async with world.open() as harness:
        run = world.run()
        run.is_stopping = True
        with pytest.raises(RunStopped):
            await harness.execute(run, no_supervisor)


async def test_unknown_ref_fails_the_run(world: World) -> None:
    world.repository.commit(run="exit 0")
    with pytest.raises(
        RunError, match="could not be checked out: the repository has no branch, tag or commit"
    ):
        await execute(world)


async def test_run_that_cannot_be_prepared_fails_without_a_path(world: World) -> None:
    world.tag("exit 0")
    async with world.open() as harness:
        homes = world.directory / "cache/homes"
        homes.rename(homes.with_name("elsewhere"))
        with pytest.raises(RunError, match=r"^The run could not be prepared: No such file or directory\.$"):
            await harness.execute(world.run(), no_supervisor)


async def test_deleted_agent_fails_the_run(world: World) -> None:
    async with world.open() as harness:
        with pytest.raises(RunError, match=r"^The agent was deleted\.$"):
            await harness.execute(world.run(new_id()), no_supervisor)


async def test_folder_of_a_run_is_removed_with_it(world: World) -> None:
    world.tag("mkdir -p $HOME/a/b; touch $HOME/a/b/c; chmod 0 $HOME/a")
    async with world.open() as harness:
        await harness.execute(world.run(), no_supervisor)
        for directory in ("homes", "unfinished"):
            assert list((world.directory / "cache" / directory).iterdir()) == []


async def test_run_whose_processes_remain_fails_and_is_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "KILL_SECONDS", 0.1)
    is_stuck = asyncio.Event()

    async def hang(_home: str) -> None:  # like a kernel that does not let go
        is_stuck.set()
        await asyncio.Event().wait()

    world.tag("exit 0")
    async with world.open(containment="none") as harness:
        monkeypatch.setattr(process, "kill_all", hang)
        run = world.run()
        executing = asyncio.create_task(harness.execute(run, no_supervisor))
        await is_stuck.wait()
        run.is_stopping = True
        executing.cancel()
        with pytest.raises(RunError, match=r"^its processes could not be killed within 10 s$"):
            await executing
        assert harness.workspace.status().remaining == 1
    [span] = world.stores.spans
    assert orjson.loads(span.metadata)["process.exit.code"] is None
