"""The process harness: each run is a process of the agents' own code, which works through the REST API.

`docs/harness.md` says what such a process is given and what is expected of it.
"""

import asyncio
import os
import pwd
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import structlog

from hostsvc.process_harness.cache import HarnessCache, HarnessRefused, open_cache
from hostsvc.process_harness.checkouts import Checkout, Checkouts, Lease, open_checkouts
from hostsvc.process_harness.directory_trees import remove
from hostsvc.process_harness.git import DEFAULT_REF, PROGRAMS, GitError, Mirror, address_of
from hostsvc.process_harness.kept_process import KeptProcess, Order, ProcessEnd, kept_process
from hostsvc.process_harness.settings import HarnessSettings
from storage.model import Agent, Outcome, Template
from supervisors.clock import Clock, comes_within
from supervisors.engine.run import ActiveRun, Ask, RunError, RunResult, RunStopped
from supervisors.harness.conversation import effective_max_turns
from supervisors.harness.span_recorder import OpenSpan, SpanRecorder
from supervisors.ports import AgentStore, SpanStore, TemplateStore
from supervisors.settings import RunSettings
from supervisors.timestamps import iso

log = structlog.get_logger()

LANGUAGE = "C.UTF-8"
TRUSTED = "the agents' code runs as this service's own user, and so must be trusted: else set harness.user"
OUTDATED = "The repository could not be fetched; this is the commit as far as is known."
HIDDEN = "[run token]"


@dataclass(frozen=True, slots=True)
class Access:
    """How a process reaches the service: where, and with a token that is issued for its run."""

    url: str
    issue_token: Callable[[UUID], str]


@dataclass(frozen=True, slots=True)
class Account:
    """Whom a process runs as; without ids as the service itself."""

    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()

    @property
    def owner(self) -> tuple[int, int] | None:
        return None if self.user is None or self.group is None else (self.user, self.group)


class ProcessHarness:
    """Executes runs in processes of their own; `open_process_harness` makes one."""

    def __init__(
        self,
        *,
        agents: AgentStore,
        templates: TemplateStore,
        spans: SpanStore,
        clock: Clock,
        settings: HarnessSettings,
        run_settings: RunSettings,
        access: Access,
        account: Account,
        environment: Mapping[str, str],
        cache: HarnessCache,
        checkouts: Checkouts,
    ) -> None:
        self._agents = agents
        self._templates = templates
        self._spans = spans
        self._clock = clock
        self._command = settings.command
        self._run_settings = run_settings
        self._access = access
        self._account = account
        self._environment = environment
        self._cache = cache
        self._checkouts = checkouts

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Start the agent's code, and see it through to its end; raises RunError when it fails."""
        recorder = SpanRecorder(run.id, self._spans, self._clock)
        agent = await self._agents.get(run.agent_id)
        if agent is None:
            raise RunError("The agent was deleted.")
        template = await self._templates.get(agent.template_id) if agent.template_id else None
        try:
            with (
                recorder.span(f"invoke_agent {agent.name}", "agent", started_at=run.started_at) as span,
                _in_plain_words(),
                self._checkouts.lease() as lease,
            ):
                span.metadata["gen_ai.operation.name"] = "invoke_agent"
                span.metadata["gen_ai.agent.name"] = agent.name
                ref = _ref_of(agent, template)
                checkout = await self._check_out(run, lease, ref, span)
                run.at_turn_boundary()
                code = {"span": str(span.id), "ref": ref, "commit": checkout.commit}
                told = orjson.dumps(self._context(run, agent, template) | code).decode()
                return await self._run_process(run, checkout, told, span)
        finally:
            await recorder.flush()

    async def _check_out(self, run: ActiveRun, lease: Lease, ref: str, span: OpenSpan) -> Checkout:
        span.metadata["harness.ref"] = ref
        try:
            checkout = await run.interruptible(lease.take(ref))
        except GitError as error:
            raise RunError(f"The code of the run could not be had: {error}") from error
        span.metadata["harness.commit"] = checkout.commit
        if checkout.outdated:
            span.metadata["harness.outdated"] = OUTDATED
        return checkout

    def _context(self, run: ActiveRun, agent: Agent, template: Template | None) -> dict[str, Any]:
        """What the process finds on its input."""
        inherited_effort = template.default_reasoning_effort if template else ""
        return {
            "run": str(run.id),
            "agent": str(agent.id),
            "name": agent.name,
            "wake_reason": run.wake_reason,
            "uncleared": run.active_at_start,
            "started_at": iso(run.started_at),
            "max_seconds": self._run_settings.max_seconds,
            "max_sleep_until": iso(run.max_sleep_until),
            "timezone": agent.timezone,
            "model": agent.model,
            "reasoning_effort": agent.reasoning_effort or inherited_effort,
            "system_prompt": agent.system_prompt or (template.system_prompt if template else ""),
            "max_turns": effective_max_turns(agent, template, self._run_settings.max_turns),
        }

    async def _run_process(self, run: ActiveRun, checkout: Checkout, told: str, span: OpenSpan) -> RunResult:
        token = self._access.issue_token(run.id)
        async with (
            self._home(run.id) as home,
            kept_process(self._order(run, checkout, home, token, told)) as process,
        ):
            try:
                await self._supervise(run, process)
            finally:
                end = (await process.kill()).without(token, HIDDEN)
                span.metadata["process.exit.code"] = end.code
                span.metadata["output"] = end.output
        return _result(run, end, span)

    def _order(self, run: ActiveRun, checkout: Checkout, home: str, token: str, told: str) -> Order:
        return Order(
            command=self._command,
            directory=str(checkout.directory),
            home=home,
            environment={
                "PATH": self._environment.get("PATH", os.defpath),
                "HOME": home,
                "LANG": self._environment.get("LANG", LANGUAGE),
                "HOSTSVC_URL": self._access.url,
                "HOSTSVC_RUN_TOKEN": token,
                "HOSTSVC_AGENT_ID": str(run.agent_id),
                "HOSTSVC_RUN_ID": str(run.id),
            },
            input=told,
            user=self._account.user,
            group=self._account.group,
            groups=self._account.groups,
        )

    @asynccontextmanager
    async def _home(self, run_id: UUID) -> AsyncIterator[str]:
        home = await asyncio.to_thread(self._cache.make_home, run_id, self._account.owner)
        try:
            yield str(home)
        finally:
            await asyncio.to_thread(remove, home)

    async def _supervise(self, run: ActiveRun, process: KeptProcess) -> None:
        """Return when the process has ended, by itself or after its sleep; else raises what ends the run."""
        try:
            await run.interruptible(self._until_over(run, process))
        except RunStopped:
            process.ask_to_end()
            await process.over.wait()  # for no longer than the grace of the stop: then the run is cancelled
            raise
        except asyncio.CancelledError:
            if not run.stopping:  # it took too long, or the service is shutting down
                await self._end(process)
            raise

    async def _until_over(self, run: ActiveRun, process: KeptProcess) -> None:
        """Once its sleep is granted, the process has a grace to write down what it did."""
        waits = [asyncio.ensure_future(event.wait()) for event in (process.over, run.slept)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        grace_seconds = self._run_settings.stop_grace_seconds
        if run.slept.is_set() and not await comes_within(process.over, grace_seconds, self._clock):
            await self._end(process)

    async def _end(self, process: KeptProcess) -> None:
        """Ask the process to end, and give it as long for that as a stop does."""
        process.ask_to_end()
        await comes_within(process.over, self._run_settings.stop_grace_seconds, self._clock)


@asynccontextmanager
async def open_process_harness(
    *,
    agents: AgentStore,
    templates: TemplateStore,
    spans: SpanStore,
    clock: Clock,
    settings: HarnessSettings,
    run_settings: RunSettings,
    access: Access,
    environment: Mapping[str, str],
) -> AsyncIterator[ProcessHarness]:
    """The harness for as long as the block lasts; raises HarnessRefused."""
    if sys.platform != "linux":
        raise HarnessRefused('harness.kind "process" needs Linux')
    for program in PROGRAMS:
        if shutil.which(program, path=environment.get("PATH")) is None:
            raise HarnessRefused(
                f'{program} is not on the PATH: install it, or set harness.kind to "builtin"'
            )
    repository = address_of(settings.repository)
    async with open_cache(settings.cache_dir, repository, clock) as cache:
        account = _account_of(settings.user, cache.root)
        mirror = Mirror(repository, cache.mirror, cache.root, settings.git_timeout_seconds, environment)
        async with open_checkouts(cache, mirror, settings.cache_commits) as checkouts:
            yield ProcessHarness(
                agents=agents,
                templates=templates,
                spans=spans,
                clock=clock,
                settings=settings,
                run_settings=run_settings,
                access=access,
                account=account,
                environment=environment,
                cache=cache,
                checkouts=checkouts,
            )


def _account_of(user: str, cache: Path) -> Account:
    """Whom the agents' code runs as; raises HarnessRefused if it could not, or could not get to its files."""
    if not user:
        log.warning(TRUSTED)
        return Account()
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise HarnessRefused(f"there is no user {user}: make it, or correct harness.user") from None
    if os.geteuid() != 0:
        raise HarnessRefused("only root may run code as somebody else: start as root, or set no harness.user")
    account = Account(entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(user, entry.pw_gid)))
    for directory in (cache, *cache.parents):
        if not _may_pass(account, directory.stat()):
            raise HarnessRefused(f"{user} may not pass through {directory}: set another harness.cache_dir")
    return account


def _may_pass(account: Account, directory: os.stat_result) -> bool:
    if directory.st_uid == account.user:
        return bool(directory.st_mode & 0o100)
    return bool(directory.st_mode & (0o010 if directory.st_gid in account.groups else 0o001))


@contextmanager
def _in_plain_words() -> Iterator[None]:
    """What the machine lacks or denies, as the agent's people may read it; the log has where that was."""
    try:
        yield
    except OSError as error:
        log.warning("a run could not be prepared", reason=str(error))
        raise RunError(f"The run could not be prepared: {error.strerror}.") from error


def _ref_of(agent: Agent, template: Template | None) -> str:
    """The agent's, else its template's, else that of the newest main."""
    return agent.harness_git_ref or (template.harness_git_ref if template else "") or DEFAULT_REF


def _result(run: ActiveRun, end: ProcessEnd, span: OpenSpan) -> RunResult:
    """How the run ended, given how its process did; a sleep that was granted stays."""
    failure = end.describe()
    if run.slept.is_set():
        span.error = failure
        return RunResult(Outcome.SLEPT)
    if failure:
        raise RunError(failure)
    return RunResult(Outcome.ENDED)
