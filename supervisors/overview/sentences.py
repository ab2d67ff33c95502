"""The sentences of an overview. Pure functions."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from storage.agents.overviews import FailingWebhook, PausedOrganization, TroubledAgent
from supervisors.policy.explanations import when
from supervisors.policy.phases import ShownPhase
from supervisors.text import excerpt

MAX_NAME = 100
NO_AGENTS = "There are no agents yet."
ALL_WELL = "Nothing needs a person."
READY = "The service is ready."
DRAINING = "The service is shutting down."
ONE_PROBLEM = "The service has a problem."

# In the order of a sentence, which begins with what happens at present.
WORDS: Mapping[ShownPhase, str] = {
    ShownPhase.RUNNING: "running",
    ShownPhase.STOPPING: "stopping",
    ShownPhase.QUEUED: "waiting for a run slot",
    ShownPhase.HOLDING: "holding",
    ShownPhase.BACKING_OFF: "backing off",
    ShownPhase.QUARANTINED: "quarantined",
    ShownPhase.OVER_BUDGET: "over budget",
    ShownPhase.PAUSED: "paused",
    ShownPhase.ASLEEP: "asleep",
    ShownPhase.ARCHIVED: "archived",
}


def organization_sentence(phases: Mapping[ShownPhase, int], attention: int) -> str:
    """Say how many agents do what, and how many things need a person."""
    present = [(phases[phase], word) for phase, word in WORDS.items() if phases.get(phase)]
    if not present:
        return NO_AGENTS if not attention else f"{NO_AGENTS} {_needed(attention)}"
    return f"{_agents(present)} {_needed(attention)}"


def _agents(present: list[tuple[int, str]]) -> str:
    total = sum(count for count, _ in present)
    if len(present) == 1:
        [(_, word)] = present
        return f"The only agent is {word}." if total == 1 else f"All {total:,} agents are {word}."
    *first, last = (f"{count:,} {word}" for count, word in present)
    return f"{total:,} agents: {', '.join(first)} and {last}."


def _needed(attention: int) -> str:
    if not attention:
        return ALL_WELL
    return "1 thing needs a person." if attention == 1 else f"{attention:,} things need a person."


def service_sentence(*, is_draining: bool, problems: int, running: int, slots: int, queued: int) -> str:
    """Say how the service is, and how busy."""
    state = READY
    if is_draining:
        state = DRAINING
    elif problems:
        state = ONE_PROBLEM if problems == 1 else f"The service has {problems} problems."
    waiting = ""
    if queued:
        waiting = ", and 1 agent waits for one" if queued == 1 else f", and {queued:,} agents wait for one"
    verb = "is" if running == 1 else "are"
    return f"{state} {running:,} of {slots:,} run slots {verb} taken{waiting}."


def why_uncleared(agent: TroubledAgent, why: str) -> str:
    """Say since when a notification waits, and what the agent does."""
    return f"A high-priority notification has been uncleared since {when(agent.since)}. {why}"


def why_forgotten(agent: TroubledAgent, why: str) -> str:
    """Say that nothing has started an agent that was due."""
    return f"It has been due since {when(agent.since)}, and nothing has started it. {why}"


def why_paused(organization: PausedOrganization) -> str:
    """Say that an organization is paused, and what that means."""
    name = excerpt(organization.name, MAX_NAME)
    since = "" if organization.since is None else f" since {when(organization.since)}"
    return (
        f'The organization "{name}" has been paused{since}; none of its agents starts until the pause ends.'
    )


def why_failing(webhook: FailingWebhook) -> str:
    """Say since when a webhook fails. Only the host of its address, which may contain a secret."""
    host = excerpt(urlsplit(webhook.url).hostname or "an unknown host", MAX_NAME)
    if not webhook.is_disabled:
        since = when(webhook.since)
        return f"Deliveries to the webhook at {host} have failed since {since}; they are tried again."
    reason = excerpt(webhook.disabled_reason, 2 * MAX_NAME)
    return f"The service switched the webhook at {host} off at {when(webhook.since)}: {reason}"


def because_of_reminder(title: str) -> str:
    """Say which reminder wakes the agent."""
    return f'The reminder "{excerpt(title, MAX_NAME)}" falls due.'
