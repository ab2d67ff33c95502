"""Previews: what the rules would do with an agent if something came or changed, or nothing happened. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from storage.agent_facts import AgentFacts
from supervisors.engine.snapshot import NextWake, Present
from supervisors.policy import explanations, transitions
from supervisors.policy.decisions import Decision, Wake
from supervisors.policy.phases import Phase
from supervisors.preview import sentences
from supervisors.preview.changes import Change, apply
from supervisors.preview.paths import Event, Path, path_of

PREVIEWED_RUN = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Outlook:
    """An agent at one moment: where it is, why, and what wakes it next."""

    phase: Phase | None
    """The phase; null if it depends on a run, because no rule decides what a run does."""
    why: str
    """Why the agent is in this phase, or why its phase is not known."""
    next_wake: NextWake | None
    """When and why it wakes next by itself; null if only something new can wake it, or while it runs."""


@dataclass(frozen=True, slots=True)
class PreviewedWake:
    """A start of a run that is decided, unless something else happens before."""

    at: datetime
    """When the run starts."""
    reason: str
    """The wake reason that the run would have."""
    because: str
    """The cause, as a sentence."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What would happen to an agent. Nothing of it is stored."""

    now: Outlook
    """The agent at present."""
    then: Outlook
    """The agent after the change, when the last of the notifications has come, or at the moment `at`."""
    sentences: Sequence[str]
    """What would happen, in words. Times are in UTC."""
    wakes: Sequence[PreviewedWake]
    """The starts of runs that are decided: the next one at most, because what follows depends on its run."""


def preview(
    present: Present,
    *,
    event: Event | None = None,
    change: Change | None = None,
    at: datetime | None = None,
) -> Preview:
    """Say what would happen if `event` came at the moment `at`, else now, after a change that is made now."""
    now, facts = present.now, present.facts
    moment = max(now, at or now)
    before = after = path_of(present, facts, moment, event)
    if change is not None:
        changed, said = apply(change, facts, now, run_is_stopping=present.run_is_stopping)
        after = path_of(present, changed, moment, event, said)
    return Preview(
        now=_outlook(path_of(present, facts, now)),
        then=_outlook(after),
        sentences=sentences.describe(now, event, change.subject if change else "", before, after),
        wakes=[_previewed(after.start)] if after.start else [],
    )


def _previewed(start: Wake) -> PreviewedWake:
    return PreviewedWake(start.at, start.reason, explanations.describe_cause(start))


def _outlook(path: Path) -> Outlook:
    """Return the agent at the moment of the path."""
    start, moment = path.start, path.moment
    if start is not None and start.at < moment:
        woken = f"It wakes at {explanations.when(start.at)}. {explanations.describe_cause(start)}"
        return Outlook(None, f"{woken} {sentences.AFTER_START}", None)
    if path.is_running and not path.is_archived and moment > path.present.now:
        return Outlook(None, sentences.RUN_UNKNOWN, None)
    if start is not None and start.at == moment:
        return _outlook_of(path, Phase.RUNNING, *_started(path.course.facts, start))
    decision = path.course.decision
    wake = explanations.next_wake(decision) if path.phase is not Phase.QUEUED else None
    return _outlook_of(path, path.phase, path.course.facts, decision, wake)


def _started(facts: AgentFacts, start: Wake) -> tuple[AgentFacts, Decision]:
    """Return the facts and the decision when the run has just started."""
    state = transitions.started(facts, PREVIEWED_RUN, start.reason, start.at)
    return replace(facts, state=state, wake_reason=start.reason), Decision(Phase.RUNNING)


def _outlook_of(
    path: Path, phase: Phase, facts: AgentFacts, decision: Decision, wake: Wake | None = None
) -> Outlook:
    if phase is Phase.QUEUED and facts.state.queued_at is None:
        facts = replace(facts, state=transitions.queued(facts.state, path.moment))
    why = explanations.why(
        facts,
        decision,
        phase,
        path.moment,
        since=explanations.stored_since(facts, decision, phase),
        limits=path.present.limits,
    )
    return Outlook(phase, why, NextWake(wake.at, explanations.describe_cause(wake)) if wake else None)
