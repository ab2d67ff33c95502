"""The process harness: each run is a process of the agents' own code, which uses the REST API.

`docs/harness.md` describes what such a process gets and what it must do.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit
from uuid import UUID

import orjson
import structlog

from hostsvc.process_harness.cache import HarnessCache, HarnessRefused, make_folder, open_cache
from hostsvc.process_harness.checkouts import Checkout, Checkouts, open_checkouts
from hostsvc.process_harness.git import DEFAULT_REF, GitError, Mirror, address_of
from hostsvc.process_harness.guardian import KILL_SECONDS
from hostsvc.process_harness.lease import Lease, open_lease
from hostsvc.process_harness.machine import (
    TRUSTED,
    choose_containment,
    describe_containment,
    look_up_user,
    machine_errors,
    prepare_group,
)
from hostsvc.process_harness.network import ADDRESS
from hostsvc.process_harness.process import ProcessEnd, RunProcess, kill_all, open_process
from hostsvc.process_harness.programs import remove
from hostsvc.process_harness.sandbox import Containment, ProcessSpec, UnixUser
from hostsvc.process_harness.settings import HarnessSettings, RunLimits
from storage.errors import SecretUnreadable, StorageError
from storage.model import Agent, Outcome, Template
from storage.storage import Storage
from supervisors.clock import Clock, first_of, wait_for_event
from supervisors.engine.run import ActiveRun, Ask, RunError, RunInterrupted, RunResult, RunStopped
from supervisors.errors import log_failure
from supervisors.harness.conversation import effective_max_turns
from supervisors.harness.trace_recorder import OpenSpan, SpanRecorder
from supervisors.otlp import traceparent_of
from supervisors.policy.journal import late_entries_of
from supervisors.settings import RunSettings
from supervisors.text import format_timestamp, hide
from supervisors.tools.parking import ResultAddresses
from web.ports import HarnessStatus

log = structlog.get_logger()

LANGUAGE = "C.UTF-8"
OUTDATED = "The repository could not be fetched; the run uses the last known commit."
HIDDEN = "[run token]"
NOT_CONFIRMED = (
    "interrupted: the database had not confirmed the node of the run for so long that others may act for it"
)


@dataclass(frozen=True, slots=True)
class RunCredentials:
    """The URL of the API, and an issuer of tokens, each for one run.

    `local_url` is the address that the service itself listens on, for runs that reach nothing else. Tools
    send their results to `results`.
    """

    url: str
    issue_token: Callable[[UUID], str]
    local_url: str
    results: ResultAddresses = field(default_factory=ResultAddresses)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Workspace:
    """The code of the runs, and what it runs with: a user, environment, containment and limits."""

    user: UnixUser
    environment: Mapping[str, str]
    cache: HarnessCache
    checkouts: Checkouts
    containment: Containment
    limits: RunLimits
    lease: Lease
    processes: set[RunProcess] = field(default_factory=set)

    def status(self) -> HarnessStatus:
        """Return what contains the runs, and how many of them are over but have processes left."""
        remaining = sum(process.is_overdue for process in self.processes)
        return HarnessStatus("process", self.containment.kind, self.containment.network, remaining)


class Inputs(NamedTuple):
    """The context of a run, which its process reads, and the secrets in its environment."""

    context: str
    secrets: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class ProcessHarness:
    """Executes each run in a process of its own."""

    stores: Storage
    clock: Clock
    command: Sequence[str]
    run_settings: RunSettings
    credentials: RunCredentials
    workspace: Workspace

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Run the agent's code until it ends. Raise RunError if it fails."""
        run.may_linger = True
        recorder = SpanRecorder(run.id, self.stores.traces, self.clock, lambda: run.ended_at)
        agent = await self.stores.agents.get(run.agent_id)
        if agent is None:
            raise RunError("The agent was deleted.")
        template = await self.stores.templates.get(agent.template_id) if agent.template_id else None
        try:
            with recorder.span(f"invoke_agent {agent.name}", "agent", started_at=run.started_at) as span:
                span.metadata |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent.name}
                return await self._run_code(run, agent, template, span)
        finally:
            run.has_open_spans = not await recorder.flush()
            if run.slept.is_set():  # its journal is stored already, but the process went on for a moment
                await self._complete_journal(run)

    async def _run_code(
        self, run: ActiveRun, agent: Agent, template: Template | None, span: OpenSpan
    ) -> RunResult:
        """Check out the code and run it. Tenants may read each error: only the log has paths."""
        ref = agent.harness_git_ref or (template.harness_git_ref if template else "") or DEFAULT_REF
        span.metadata["harness.ref"] = ref
        try:
            async with AsyncExitStack() as used:
                checking_out = used.enter_async_context(self.workspace.checkouts.check_out(ref))
                checkout = await run.interruptible(checking_out)
                span.metadata["harness.commit"] = checkout.commit
                if checkout.outdated:
                    span.metadata["harness.outdated"] = OUTDATED
                secrets = await self._secrets(agent, template)
                run.at_turn_boundary()
                code = {"span": str(span.id), "ref": ref, "commit": checkout.commit}
                context = orjson.dumps(self._context(run, agent, template) | code).decode()
                return await self._execute(run, checkout, Inputs(context, secrets), span)
        except GitError as error:
            raise RunError(f"The code of the run could not be checked out: {error}") from error
        except OSError as error:
            log.warning("a run could not be prepared", reason=str(error))
            raise RunError(f"The run could not be prepared: {error.strerror}.") from error

    async def _complete_journal(self, run: ActiveRun) -> None:
        """Add to the journal what the process wrote after its sleep. A failure is only logged."""
        try:
            facts = await self.stores.journals.get_facts(run.id)
            await self.stores.journals.update(run.id, late_entries_of(facts))
        except StorageError as error:
            log_failure(log, "journal not completed", error)

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
            values = await self.stores.secrets.get_values(agent.organization_id, agent.template_id, names)
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

    async def _execute(self, run: ActiveRun, checkout: Checkout, inputs: Inputs, span: OpenSpan) -> RunResult:
        token, began = self.credentials.issue_token(run.id), self.clock.monotonic()
        async with (
            self._folder(run.id) as folder,
            open_process(self._spec(run, checkout, folder, token, inputs)) as process,
        ):
            process.stay_in(self.workspace.processes)
            try:
                await self._wait_until_ended(run, process)
            finally:
                end = await process.kill()
                output = hide(end.output.replace(token, HIDDEN).encode(), inputs.secrets.values()).decode()
                end = replace(end, output=output)
                span.metadata |= {"process.exit.code": end.code, "output": end.output}
                if process.is_overdue:  # also if it was stopped: something of it is left
                    raise RunError(end.error)
        if end.code == -signal.SIGKILL and self.workspace.lease.was_over_since(began):
            end = replace(end, error=NOT_CONFIRMED)
        return _result(run, end, span, self.workspace.limits)

    def _spec(
        self, run: ActiveRun, checkout: Checkout, folder: Path, token: str, inputs: Inputs
    ) -> ProcessSpec:
        workspace, service = self.workspace, urlsplit(self.credentials.local_url)
        is_cut_off = workspace.containment.network == "service"
        url = f"http://{ADDRESS[0]}:{ADDRESS[1]}" if is_cut_off else self.credentials.url
        return ProcessSpec(
            command=self.command,
            directory=checkout.directory,
            cache=workspace.cache.root,
            folder=folder,
            environment={
                **inputs.secrets,
                **_telemetry(run.id, url, token, inputs.secrets),
                "PATH": workspace.environment.get("PATH", os.defpath),
                "HOME": str(folder / "home"),
                "LANG": workspace.environment.get("LANG", LANGUAGE),
                "HOSTSVC_URL": url,
                "HOSTSVC_RUN_TOKEN": token,
                "HOSTSVC_AGENT_ID": str(run.agent_id),
                "HOSTSVC_RUN_ID": str(run.id),
            },
            input=inputs.context,
            containment=workspace.containment,
            user=workspace.user,
            limits=workspace.limits,
            service=(service.hostname or "", service.port or 0),
        )

    @asynccontextmanager
    async def _folder(self, run_id: UUID) -> AsyncIterator[Path]:
        cache, owner = self.workspace.cache, self.workspace.user.owner
        folder = await asyncio.to_thread(make_folder, cache.homes / str(run_id), owner)
        try:
            yield folder
        finally:
            await remove(cache.move_aside(folder))

    async def _wait_until_ended(self, run: ActiveRun, process: RunProcess) -> None:
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

    async def _ended_or_slept(self, run: ActiveRun, process: RunProcess) -> None:
        """Wait for the end; after a granted sleep, for at most the grace period to record what was done."""
        await first_of(process.ended.wait(), run.slept.wait())
        if run.slept.is_set() and not await self._ends_in_grace_period(process):
            await self._terminate(process)

    async def _terminate(self, process: RunProcess) -> None:
        process.terminate()
        await self._ends_in_grace_period(process)

    async def _ends_in_grace_period(self, process: RunProcess) -> bool:
        return await wait_for_event(process.ended, self.run_settings.stop_grace_seconds, self.clock)


@asynccontextmanager
async def open_workspace(
    settings: HarnessSettings,
    clock: Clock,
    environment: Mapping[str, str],
    trusted_until: Callable[[], float],
) -> AsyncIterator[Workspace]:
    """Open the workspace. Raise HarnessRefused if this machine or the settings do not allow it.

    The processes of runs may go on until `trusted_until`, a moment of the monotonic clock.
    """
    if lacks := tuple(machine_errors(settings, environment)):
        raise HarnessRefused("; ".join(lacks))
    repository = address_of(settings.repository)
    async with open_cache(settings.cache_dir, repository, clock) as cache:
        user = look_up_user(settings, cache.root)
        if not user.name:
            log.warning(TRUSTED)
        await _kill_leftovers(cache)
        containment = await _contain(settings, user, environment, cache)
        mirror = Mirror(repository, cache.mirror, cache.root, settings.git_timeout_seconds, environment)
        async with (
            open_checkouts(cache, mirror, settings.cache_commits) as checkouts,
            open_lease(cache, clock, trusted_until) as lease,
        ):
            workspace = Workspace(user, environment, cache, checkouts, containment, settings.limits, lease)
            try:
                yield workspace
            finally:
                for process in set(workspace.processes):
                    await process.abandon()


async def _kill_leftovers(cache: HarnessCache) -> None:
    """Kill the processes of runs that outlived a service which was killed together with its guardian."""
    try:
        async with asyncio.timeout(KILL_SECONDS):
            await kill_all(f"{cache.homes}/")
    except TimeoutError:
        log.error("processes of runs of a killed service cannot be killed", home=str(cache.homes))


async def _contain(
    settings: HarnessSettings, user: UnixUser, environment: Mapping[str, str], cache: HarnessCache
) -> Containment:
    """Return what contains the runs of this service, and say so in the log."""
    containment = await choose_containment(settings, user, environment)
    if containment.groups is not None:
        try:
            prepare_group(containment.groups, [home.name for home in cache.homes.glob("*")])
        except OSError as error:
            log.warning("the control group of this service cannot be used", reason=str(error))
            containment = replace(containment, groups=None)
    write = log.warning if containment.kind == "none" else log.info
    write(describe_containment(containment), network=containment.network)
    return containment


def _telemetry(run_id: UUID, url: str, token: str, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which an SDK of OpenTelemetry sends its spans here, below the run's own."""
    trace = {"TRACEPARENT": traceparent_of(run_id)}
    if any(name.startswith("OTEL_") for name in secrets):  # a receiver of its own must not get the token
        return trace
    return trace | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization={quote(f'Bearer {token}')}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
    }


def _result(run: ActiveRun, end: ProcessEnd, span: OpenSpan, limits: RunLimits) -> RunResult:
    """Return the result of the run. A granted sleep stays, even if the process failed afterwards."""
    failure = end.describe(limits)
    if run.slept.is_set():
        span.error = failure
        return RunResult(Outcome.SLEPT)
    if failure:
        raise (RunInterrupted if failure == NOT_CONFIRMED else RunError)(failure)
    return RunResult(Outcome.ENDED)
