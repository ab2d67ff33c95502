"""The lifecycle of agents and runs in the log: the events that a stored update stands for, one line each.

Updates of an agent's state come here after they are stored, and runs when they are over. There is no other
place that tells of them, so nothing is told twice, and nothing that was not stored.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from uuid import UUID

import structlog

from storage.agent_facts import AgentFacts, AgentState, RunEnd, RunStart, StateUpdate
from storage.model import AgentStatus
from supervisors.engine.run import ActiveRun
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES
from supervisors.policy.transitions import is_newly_quarantined
from supervisors.text import excerpt, format_timestamp

MAX_TEXT = 200  # characters of a reason or an error, which users and models write

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Cause:
    """Who asked for a change, as the web layer names them (blank: a rule), and the reason they gave."""

    caller: str = ""
    reason: str = ""


BY_RULE = Cause()


def report_update(facts: AgentFacts, update: StateUpdate, cause: Cause = BY_RULE) -> None:
    """Log what a stored update did to the agent with these facts."""
    before, after = update.before, update.after
    if update.start is not None:
        _report_start(facts, update.start)
    if after.status is not before.status and AgentStatus.ARCHIVED in {after.status, before.status}:
        _report_archive(facts, after, cause)
    elif after.stopped_at is not None and after.stopped_at != before.stopped_at:
        _report_stop(facts, before, cause)
    if after.paused and not before.paused:
        log.info("agent paused", **_agent(facts), caller=cause.caller)
    elif before.paused and not after.paused:
        log.info("agent resumed", **_agent(facts), caller=cause.caller)
    if is_newly_quarantined(before, after):
        log.warning(
            "agent quarantined",
            **_agent(facts),
            failures=after.failures,
            until=format_timestamp(after.retry_at),
            last_error=excerpt(after.last_error, MAX_TEXT),
        )
    elif before.failures >= QUARANTINE_AFTER_FAILURES > after.failures:
        log.info("quarantine ended", **_agent(facts))


def report_run(run: ActiveRun) -> None:
    """Log the end of a run of this process, when nothing of it works any more."""
    if run.result is None:
        return
    log.info(
        "run ended",
        agent=str(run.agent_id),
        name=run.agent_name,
        organization=str(run.organization_id),
        run=str(run.id),
        wake_reason=run.wake_reason,
        outcome=run.result.outcome,
        turns=run.turns,
        cost_usd=float(run.cost_usd),
        duration_seconds=round(run.seconds, 3),
        error=excerpt(run.result.error, MAX_TEXT),
    )


def report_lost_run(facts: AgentFacts, end: RunEnd) -> None:
    """Log the end of a run of a process that is gone. Its cost is in the usage of the agent."""
    began = facts.state.last_started_at or end.ended_at
    log.info(
        "run ended",
        agent=str(facts.state.agent_id),
        name=facts.name,
        organization=str(facts.organization_id),
        run=str(end.run_id),
        wake_reason=facts.wake_reason,
        outcome=end.outcome,
        turns=end.turns,
        cost_usd=None,
        duration_seconds=max(0.0, round((end.ended_at - began).total_seconds(), 3)),
        error=excerpt(end.error, MAX_TEXT),
    )


def _report_start(facts: AgentFacts, start: RunStart) -> None:
    log.info("run started", **_agent(facts), run=str(start.run_id), wake_reason=start.wake_reason)


def _report_archive(facts: AgentFacts, after: AgentState, cause: Cause) -> None:
    if after.status is AgentStatus.ARCHIVED:
        log.info("agent archived", **_agent(facts), caller=cause.caller)
    else:
        log.info("agent restored", **_agent(facts), caller=cause.caller)


def _report_stop(facts: AgentFacts, before: AgentState, cause: Cause) -> None:
    if before.run_id is not None and before.stopped_at is not None:
        return  # the run is stopping already: a client may ask again and again
    run = str(before.run_id) if before.run_id else ""
    log.info(
        "agent stopped", **_agent(facts), run=run, caller=cause.caller, reason=excerpt(cause.reason, MAX_TEXT)
    )


def _agent(facts: AgentFacts) -> dict[str, str]:
    """Return the fields that each line about an agent begins with."""
    return {
        "agent": str(facts.state.agent_id),
        "name": facts.name,
        "organization": str(facts.organization_id),
    }


OPERATOR = "operator"  # the caller of what no client of this process has changed


class PauseLog:
    """Knows the pauses that were told, so that each is told once."""

    def __init__(self) -> None:
        self._paused: frozenset[UUID] = frozenset()

    @property
    def paused(self) -> frozenset[UUID]:
        """Return the organizations that are paused according to the log."""
        return self._paused

    def begin(self, paused: AbstractSet[UUID]) -> None:
        """Take the pauses from before the start as told."""
        self._paused |= paused

    def report(self, organization_id: UUID, *, is_paused: bool, caller: str) -> None:
        """Log a pause or its end, unless it was told before."""
        if is_paused == (organization_id in self._paused):
            return
        self._paused ^= {organization_id}
        if is_paused:
            log.info("organization paused", organization=str(organization_id), caller=caller)
        else:
            log.info("organization resumed", organization=str(organization_id), caller=caller)

    def report_rest(self, paused: AbstractSet[UUID], before: AbstractSet[UUID]) -> None:
        """Log what nobody reported. `before` is `paused` of this log when the pauses began to be read.

        An organization that was reported since is left out: its pause may have been read before that.
        """
        for organization_id in (paused ^ before) - (before ^ self._paused):
            self.report(organization_id, is_paused=organization_id in paused, caller=OPERATOR)
