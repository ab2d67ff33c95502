"""The process harness: each run is a process of the agents' own code, which uses the REST API.

`docs/harness.md` describes what such a process gets and what it must do.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import orjson
import structlog

from hostsvc.process_harness.cache import HarnessCache, HarnessRefused, open_cache
from hostsvc.process_harness.checkouts import Checkout, Checkouts, Lease, open_checkouts
from hostsvc.process_harness.containment import Containment, choose_containment
from hostsvc.process_harness.git import DEFAULT_REF, GitError, Mirror, address_of
from hostsvc.process_harness.keeper.relay import LOOPBACK_ADDRESS
from hostsvc.process_harness.kept_process import KeptProcess, ProcessEnd, ProcessSpec, open_kept_process
from hostsvc.process_harness.removal import Removals, open_removals
from hostsvc.process_harness.requirements import machine_errors
from hostsvc.process_harness.settings import HarnessSettings, RunLimits
from hostsvc.process_harness.users import TRUSTED, RunUsers, UnixUser, look_up_users
from storage.errors import SecretUnreadable, StorageError
from storage.model import Agent, Outcome, Template
from supervisors.clock import Clock, first_of, wait_for_event
from supervisors.engine.run import ActiveRun, Ask, RunError, RunResult, RunStopped
from supervisors.failure_log import log_failure
from supervisors.harness.conversation import effective_max_turns
from supervisors.harness.trace_recorder import OpenSpan, SpanRecorder
from supervisors.hidden_values import hide
from supervisors.policy.journal import late_entries_of
from supervisors.ports import AgentStore, JournalStore, SecretStore, SpanStore, TemplateStore
from supervisors.settings import RunSettings
from supervisors.timestamps import format_timestamp
from web.ports import HarnessStatus

log = structlog.get_logger()

LANGUAGE = "C.UTF-8"
OUTDATED = "The repository could not be fetched; the run uses the last known commit."
TRIAL_PORT = 8080  # in a network of its own, so it is free
HIDDEN = "[run token]"


@dataclass(frozen=True, slots=True)
class RunCredentials:
    """The URL of the API, and an issuer of tokens, each for one run.

    `local_url` is the address that the service itself listens on, for runs that reach nothing else.
    """

    url: str
    issue_token: Callable[[UUID], str]
    local_url: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Workspace:
    """The code of the runs, and what it runs with: users, environment, containment and limits."""

    users: RunUsers
    environment: Mapping[str, str]
    cache: HarnessCache
    checkouts: Checkouts
    removals: Removals
    containment: Containment
    limits: RunLimits
    processes: set[KeptProcess] = field(default_factory=set)

    def status(self) -> HarnessStatus:
        """Return what contains the runs, and how many of them cannot be killed."""
        remaining = sum(process.is_stuck for process in self.processes)
        return HarnessStatus("process", self.containment.kind, self.containment.network, remaining)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Inputs:
    """The context of a run, which its process reads, and the secrets in its environment."""

    context: str
    secrets: Mapping[str, str]

    def hide_in(self, output: str) -> str:
        """Return the output without the secrets."""
        return hide(output.encode(), self.secrets.values()).decode() if self.secrets else output


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class ProcessHarness:
    """Executes each run in a process of its own."""

    agents: AgentStore
    templates: TemplateStore
    spans: SpanStore
    secrets: SecretStore
    journals: JournalStore
    clock: Clock
    command: Sequence[str]
    run_settings: RunSettings
    credentials: RunCredentials
    workspace: Workspace

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Run the agent's code until it ends. Raise RunError if it fails."""
        recorder = SpanRecorder(run.id, self.spans, self.clock, lambda: run.ended_at)
        agent = await self.agents.get(run.agent_id)
        if agent is None:
            raise RunError("The agent was deleted.")
        template = await self.templates.get(agent.template_id) if agent.template_id else None
        try:
            with (
                recorder.span(f"invoke_agent {agent.name}", "agent", started_at=run.started_at) as span,
                _as_run_error(),
                self.workspace.checkouts.lease() as lease,
            ):
                span.metadata |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent.name}
                ref = _ref_of(agent, template)
                checkout = await self._check_out(run, lease, ref, span)
                secrets = await self._secrets(agent, template)
                run.at_turn_boundary()
                code = {"span": str(span.id), "ref": ref, "commit": checkout.commit}
                context = orjson.dumps(self._context(run, agent, template) | code).decode()
                return await self._execute(run, agent, checkout, Inputs(context, secrets), span)
        finally:
            run.has_open_spans = not await recorder.flush()
            if run.slept.is_set():  # its journal is stored already, but the process went on for a moment
                await self._complete_journal(run)

    async def _complete_journal(self, run: ActiveRun) -> None:
        """Add to the journal what the process wrote after its sleep. A failure is only logged."""
        try:
            facts = await self.journals.get_facts(run.id)
            await self.journals.update(run.id, late_entries_of(facts))
        except StorageError as error:
            log_failure(log, "journal not completed", error)

    async def _check_out(self, run: ActiveRun, lease: Lease, ref: str, span: OpenSpan) -> Checkout:
        span.metadata["harness.ref"] = ref
        try:
            checkout = await run.interruptible(self.workspace.checkouts.check_out(ref, lease))
        except GitError as error:
            raise RunError(f"The code of the run could not be checked out: {error}") from error
        span.metadata["harness.commit"] = checkout.commit
        if checkout.outdated:
            span.metadata["harness.outdated"] = OUTDATED
        return checkout

    def _context(self, run: ActiveRun, agent: Agent, template: Template | None) -> dict[str, Any]:
        """Return the object that the process reads from its standard input."""
        inherited_effort = template.default_reasoning_effort if template else ""
        return {
            "run": str(run.id),
            "agent": str(agent.id),
            "name": agent.name,
            "wake_reason": run.wake_reason,
            "uncleared": run.active_at_start,
            "started_at": format_timestamp(run.started_at),
            "max_seconds": self.run_settings.max_seconds,
            "max_sleep_until": format_timestamp(run.max_sleep_until),
            "timezone": agent.timezone,
            "model": agent.model,
            "reasoning_effort": agent.reasoning_effort or inherited_effort,
            "system_prompt": agent.system_prompt or (template.system_prompt if template else ""),
            "max_turns": effective_max_turns(agent, template, self.run_settings.max_turns),
        }

    async def _secrets(self, agent: Agent, template: Template | None) -> Mapping[str, str]:
        """Return the secrets that the template names. Raise RunError if one of them cannot be read."""
        names = template.environment_secrets if template else ()
        if not names:
            return {}
        try:
            values = await self.secrets.get_values(agent.organization_id, agent.template_id, names)
        except SecretUnreadable as error:
            raise RunError(
                f"A secret of the run cannot be decrypted ({error.place}); set it again."
            ) from error
        if missing := sorted(set(names) - values.keys()):
            raise RunError(
                "environment_secrets of the template names a secret that does not exist: "
                f"{', '.join(missing)}; create it, or remove the name."
            )
        return values

    async def _execute(
        self, run: ActiveRun, agent: Agent, checkout: Checkout, inputs: Inputs, span: OpenSpan
    ) -> RunResult:
        token = self.credentials.issue_token(run.id)
        async with (
            self.workspace.users.lend() as user,
            self._home(run.id, user, agent.organization_id) as home,
            open_kept_process(self._spec(run, user, checkout, home, token, inputs)) as process,
        ):
            self.workspace.processes.add(process)
            try:
                await self._wait_until_ended(run, process)
            finally:
                end = await _kill(run, process)
                self.workspace.processes.discard(process)
                end = replace(end, output=inputs.hide_in(end.output.replace(token, HIDDEN)))
                span.metadata |= {"process.exit.code": end.code, "output": end.output}
        return _result(run, end, span, self.workspace.limits)

    def _spec(
        self, run: ActiveRun, user: UnixUser, checkout: Checkout, home: str, token: str, inputs: Inputs
    ) -> ProcessSpec:
        url, service = self.credentials.url, urlsplit(self.credentials.local_url)
        if self.workspace.containment.network == "service":
            url = f"http://{LOOPBACK_ADDRESS}:{service.port}"
        spec = ProcessSpec(
            command=self.command,
            directory=str(checkout.directory),
            home=home,
            environment={
                **inputs.secrets,
                "PATH": self.workspace.environment.get("PATH", os.defpath),
                "HOME": home,
                "LANG": self.workspace.environment.get("LANG", LANGUAGE),
                "HOSTSVC_URL": url,
                "HOSTSVC_RUN_TOKEN": token,
                "HOSTSVC_AGENT_ID": str(run.agent_id),
                "HOSTSVC_RUN_ID": str(run.id),
            },
            input=inputs.context,
            uid=user.uid,
            gid=user.gid,
            groups=user.groups,
            limits=self.workspace.limits,
            service_host=service.hostname or "",
            service_port=service.port or 0,
        )
        return self.workspace.containment.apply(spec, run.id)

    @asynccontextmanager
    async def _home(self, run_id: UUID, user: UnixUser, organization_id: UUID) -> AsyncIterator[str]:
        cache, removals = self.workspace.cache, self.workspace.removals
        home = await asyncio.to_thread(cache.make_home, run_id, user.owner)
        try:
            yield str(home)
        finally:
            removals.add(cache.move_aside(home), organization_id)
            await removals.wait_for_room(organization_id)

    async def _wait_until_ended(self, run: ActiveRun, process: KeptProcess) -> None:
        """Wait for the process to end, by itself or after its sleep. Raise RunStopped for a stop."""
        try:
            await run.interruptible(self._ended_or_slept(run, process))
        except RunStopped:
            process.terminate()
            await process.ended.wait()  # the run is cancelled when the grace period of the stop is over
            raise
        except asyncio.CancelledError:
            if not run.is_stopping:  # the run took too long, or the service is shutting down
                await self._terminate(process)
            raise

    async def _ended_or_slept(self, run: ActiveRun, process: KeptProcess) -> None:
        """Wait for the end; after a granted sleep, for at most the grace period to record what was done."""
        await first_of(process.ended.wait(), run.slept.wait())
        if run.slept.is_set() and not await self._ends_in_grace_period(process):
            await self._terminate(process)

    async def _terminate(self, process: KeptProcess) -> None:
        process.terminate()
        await self._ends_in_grace_period(process)

    async def _ends_in_grace_period(self, process: KeptProcess) -> bool:
        return await wait_for_event(process.ended, self.run_settings.stop_grace_seconds, self.clock)


@asynccontextmanager
async def open_workspace(
    settings: HarnessSettings, max_runs: int, clock: Clock, environment: Mapping[str, str]
) -> AsyncIterator[Workspace]:
    """Open the workspace for at most `max_runs` runs at a time.

    Raise HarnessRefused if this machine or the settings do not allow it.
    """
    if lacks := tuple(machine_errors(environment)):
        raise HarnessRefused("; ".join(lacks))
    if not settings.user and not settings.first_user_id:
        log.warning(TRUSTED)
    repository = address_of(settings.repository)
    async with open_cache(settings.cache_dir, repository, clock) as cache, open_removals() as removals:
        users = look_up_users(settings, cache.root, max_runs)
        containment = await choose_containment(settings, users, _trial(cache))
        mirror = Mirror(repository, cache.mirror, cache.root, settings.git_timeout_seconds, environment)
        async with open_checkouts(cache, mirror, settings.cache_commits, removals) as checkouts:
            yield Workspace(users, environment, cache, checkouts, removals, containment, settings.limits)


def _trial(cache: HarnessCache) -> ProcessSpec:
    """Return a process that does nothing, to try a containment."""
    return ProcessSpec(
        command=(), directory="/", home=str(cache.root), environment={}, input="", service_port=TRIAL_PORT
    )


async def _kill(run: ActiveRun, process: KeptProcess) -> ProcessEnd:
    """Kill what is left of the process. Return when all of it is gone, although the run is cancelled.

    The next run of the agent must not start beside remains. Only the end of the service does not wait.
    """
    cancelled = None
    while True:
        try:
            end = await process.kill()
        except asyncio.CancelledError as error:
            if run.is_draining:
                raise
            cancelled = error
            continue
        if cancelled is not None:
            raise cancelled
        return end


@contextmanager
def _as_run_error() -> Iterator[None]:
    """Turn an OSError into a RunError, which tenants may read: without the path, which only the log has."""
    try:
        yield
    except OSError as error:
        log.warning("a run could not be prepared", reason=str(error))
        raise RunError(f"The run could not be prepared: {error.strerror}.") from error


def _ref_of(agent: Agent, template: Template | None) -> str:
    """Return the ref of the agent, else of its template, else the default."""
    return agent.harness_git_ref or (template.harness_git_ref if template else "") or DEFAULT_REF


def _result(run: ActiveRun, end: ProcessEnd, span: OpenSpan, limits: RunLimits) -> RunResult:
    """Return the result of the run. A granted sleep stays, even if the process failed afterwards."""
    failure = end.describe(limits)
    if run.slept.is_set():
        span.error = failure
        return RunResult(Outcome.SLEPT)
    if failure:
        raise RunError(failure)
    return RunResult(Outcome.ENDED)
