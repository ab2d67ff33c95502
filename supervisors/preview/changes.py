"""Changes of an agent's settings and status, applied to a copy of its facts. Pure."""

from dataclasses import dataclass, fields, replace
from datetime import datetime
from decimal import Decimal

from storage.agent_facts import AgentFacts, Budget
from storage.model import AgentStatus
from supervisors.engine.messages import UNSET, Unset
from supervisors.policy import transitions
from supervisors.policy.budgets import dollars, reached_budget
from supervisors.policy.debounce import effective_window
from supervisors.policy.explanations import when

NOT_WHILE_ARCHIVED = "An archived agent takes neither a run nor a sleep: restore it first."
REQUEST_PAUSED = "A run request has no effect during a pause."
REQUEST_RUNNING = "A run request has no effect on an agent that is running."
REQUEST_OVER_BUDGET = "A run request has no effect while the budget is spent."
STOPS_RUN = "Its run would be asked to stop."
NOTHING_TO_STOP = "The status sleeping has no effect: there is no run to stop."
NEXT_RUN = "The longest sleep is counted from the start of a run, so the change applies from the next run on."
LOCAL_TIME = (
    "The agent would be told the time in the new time zone, and moments without an offset would be read in "
    "it; moments that are stored already stay."
)
IF_NOT_ASKED = "During a run, sleep_until applies only if the run ends without asking for sleep."


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an agent; UNSET leaves a field as it is.

    `cap_usd` is the cap after the change, be it the agent's own or its template's; `spent_usd` what the agent
    has spent today. `template_window_seconds` is the window of the template after the change.
    """

    agent_window_seconds: int | Unset | None = UNSET
    template_window_seconds: int | Unset | None = UNSET
    cap_usd: Decimal | Unset | None = UNSET
    spent_usd: Decimal = Decimal(0)
    max_sleep_hours: int | Unset | None = UNSET
    paused: bool | Unset = UNSET
    timezone: str | Unset = UNSET
    status: AgentStatus | Unset = UNSET
    sleep_until: datetime | Unset | None = UNSET

    @property
    def subject(self) -> str:
        """Return a name of the change for sentences, such as "a debounce window of 5 s"."""
        changed = {one.name for one in fields(self) if getattr(self, one.name) is not UNSET} - {"spent_usd"}
        window, cap = self.agent_window_seconds, self.cap_usd
        match sorted(changed), self.status:
            case ["agent_window_seconds"], _ if isinstance(window, int):
                return f"a debounce window of {window} s"
            case ["cap_usd"], _ if isinstance(cap, Decimal):
                return f"a cap of {dollars(cap)} USD a day"
            case ["status"], AgentStatus.RUNNING:
                return "a run request"
            case ["paused"], _:
                return "a pause" if self.paused else "the end of its pause"
        return "the change"


def apply(
    change: Change, facts: AgentFacts, now: datetime, *, run_is_stopping: bool
) -> tuple[AgentFacts, list[str]]:
    """Return the facts after the change, and sentences about its effects. A run is not ended by it yet."""
    changed, said = _with_settings(change, facts)
    if change.paused is not Unset.UNSET:
        changed, sentence = _with_pause(changed, paused=change.paused)
        said.append(sentence)
    if change.status is not Unset.UNSET:
        changed, sentence = _with_status(changed, change.status, now, run_is_stopping=run_is_stopping)
        said.append(sentence)
    if change.sleep_until is not Unset.UNSET:
        changed, sentence = _with_sleep(changed, change.sleep_until, now)
        said.append(sentence)
    return changed, [sentence for sentence in said if sentence]


def window_of(facts: AgentFacts) -> int:
    """Return the debounce window in seconds that applies to the agent."""
    return effective_window(facts.agent_window_seconds, facts.template_window_seconds)


def _with_settings(change: Change, facts: AgentFacts) -> tuple[AgentFacts, list[str]]:
    """Do what the handler of PATCH does first: store the settings."""
    said: list[str] = []
    changed = facts
    if change.agent_window_seconds is not Unset.UNSET:
        changed = replace(changed, agent_window_seconds=change.agent_window_seconds)
    if change.template_window_seconds is not Unset.UNSET:
        changed = replace(changed, template_window_seconds=change.template_window_seconds)
    if window_of(changed) != window_of(facts):
        said.append(_about_window(facts, changed))
    if change.cap_usd is not Unset.UNSET:
        changed = replace(changed, budgets=_budgets_with(change.cap_usd, change.spent_usd, facts))
        if changed.budgets != facts.budgets:
            said.append(_about_cap(change.cap_usd, changed))
    if change.max_sleep_hours is not Unset.UNSET and change.max_sleep_hours != facts.max_sleep_hours:
        changed = replace(changed, max_sleep_hours=change.max_sleep_hours)
        said.append(NEXT_RUN)
    if change.timezone is not Unset.UNSET:
        said.append(LOCAL_TIME)
    return changed, said


def _about_window(before: AgentFacts, after: AgentFacts) -> str:
    old, new = window_of(before), window_of(after)
    if new == 0:
        return f"Each message would wake it at once, without the debounce window of {old} s."
    instead = f", not for {old} s" if old else ", not at once"
    return f"A conversation would wake it when it has paused for {new} s{instead}."


def _about_cap(cap_usd: Decimal | None, after: AgentFacts) -> str:
    own = next((budget for budget in after.budgets if not budget.of_organization), None)
    if cap_usd is None or own is None:
        return "No cap of its own would limit its spending."
    if cap_usd == 0:
        return "A cap of 0 USD a day allows no run."
    spent = f"Of its cap of {dollars(cap_usd)} USD a day {dollars(own.spent_usd)} USD are spent today"
    if own.is_reached and after.state.run_id is not None:
        return f"{spent}: its run would end at the next call of a model."
    return f"{spent}: it is over its budget." if own.is_reached else f"{spent}."


def _budgets_with(cap_usd: Decimal | None, spent_usd: Decimal, facts: AgentFacts) -> tuple[Budget, ...]:
    shared = tuple(budget for budget in facts.budgets if budget.of_organization)
    if cap_usd is None:
        return shared
    own = next((budget for budget in facts.budgets if not budget.of_organization), None)
    if own is None:
        return (Budget(False, cap_usd, spent_usd), *shared)
    return (replace(own, cap_usd=cap_usd), *shared)


def _with_pause(facts: AgentFacts, *, paused: bool) -> tuple[AgentFacts, str]:
    """Do what a supervisor does when a client writes `paused`."""
    state = facts.state
    after = transitions.paused(state) if paused else transitions.unpaused(state)
    stops_run = paused and not facts.is_paused and state.run_id is not None
    return replace(facts, state=after), STOPS_RUN if stops_run else ""


def _with_status(
    facts: AgentFacts, status: AgentStatus, now: datetime, *, run_is_stopping: bool
) -> tuple[AgentFacts, str]:
    """Do what a supervisor does when a client writes the status."""
    state = facts.state
    is_archived, has_run = state.status is AgentStatus.ARCHIVED, state.run_id is not None
    stops_run = STOPS_RUN if has_run else ""
    match status:
        case AgentStatus.RUNNING:
            refusal = _refusal_of_run(facts, run_is_stopping=run_is_stopping)
            if refusal:
                return facts, refusal
            return replace(facts, state=transitions.run_requested(state, now)), ""
        case AgentStatus.ARCHIVED if not is_archived:
            return transitions.facts_after(facts, transitions.archived(facts, now)), stops_run
        case AgentStatus.SLEEPING if is_archived:
            return transitions.facts_after(facts, transitions.restored(facts, now)), ""
        case AgentStatus.SLEEPING if has_run:
            return transitions.facts_after(facts, transitions.stopped(facts, now)), stops_run
        case AgentStatus.SLEEPING:
            return facts, NOTHING_TO_STOP
    return facts, ""


def _refusal_of_run(facts: AgentFacts, *, run_is_stopping: bool) -> str:
    """Say why a run request has no effect now or later; blank if it has one."""
    state = facts.state
    if state.status is AgentStatus.ARCHIVED:
        return NOT_WHILE_ARCHIVED
    if facts.is_paused:
        return REQUEST_PAUSED
    if state.run_id is not None and state.stopped_at is None and not run_is_stopping:
        return REQUEST_RUNNING
    return REQUEST_OVER_BUDGET if reached_budget(facts.budgets) is not None else ""


def _with_sleep(facts: AgentFacts, until: datetime | None, now: datetime) -> tuple[AgentFacts, str]:
    """Do what a supervisor does when a client writes `sleep_until`."""
    if facts.state.status is AgentStatus.ARCHIVED:
        return facts, NOT_WHILE_ARCHIVED if until is not None else ""
    after = transitions.rescheduled(facts, until, now)
    said = IF_NOT_ASKED if facts.state.run_id is not None else ""
    if after.sleep_until != until:
        said = f"It may sleep until {when(after.sleep_until)} at the longest. {said}".strip()
    return replace(facts, state=after), said
