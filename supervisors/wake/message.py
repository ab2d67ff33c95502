"""The first message of a run: the wake context as text."""

from collections.abc import Iterator
from datetime import datetime

from storage.channels.memory_paths import CORE
from storage.model import Priority
from supervisors.policy.explanations import describe_reason
from supervisors.text import quoted
from supervisors.wake.context import ShownConversation, WakeContext


def first_message(context: WakeContext) -> str:
    """Return the text that a run starts with. Each line that begins with `{` is data."""
    return "\n".join(_lines(context))


def _lines(context: WakeContext) -> Iterator[str]:
    yield from _head(context)
    yield ""
    yield from _notifications(context)
    for conversation in context.conversations:
        yield ""
        yield from _conversation(conversation)
    yield ""
    yield from _core_memory(context)
    if context.journal:
        yield ""
        yield "Your last runs, the latest at the end (list_runs shows earlier ones):"
        yield from (line.text for line in context.journal)


def _head(context: WakeContext) -> Iterator[str]:
    facts, agent = context.facts, context.facts.agent
    organization = quoted(facts.organization_name)
    yield f"You are {quoted(agent.name)}, an agent of {organization}. Your id is {agent.id}."
    local = context.now.astimezone(context.timezone)
    yield f"It is {local:%A, %Y-%m-%d %H:%M:%S} in {agent.timezone} ({local:%Z}, UTC{local:%z})."
    run = facts.run
    if run is None:
        yield "No run is under way: this is what a run would be told now."
        return
    slept = (
        "This is your first run."
        if facts.last_ended_at is None
        else f"You slept since {_local(context, facts.last_ended_at)}."
    )
    yield f"You were woken by {describe_reason(run.wake_reason)}. {slept}"
    if run.interrupted_sleep_until is not None:
        yield f"You wanted to sleep until {_local(context, run.interrupted_sleep_until)}."
    cap = run.max_sleep_until
    limit = f"until {_local(context, cap)} at the latest" if cap else "without a limit"
    yield f"After this run you may sleep {limit}."


def _local(context: WakeContext, moment: datetime) -> str:
    return f"{moment.astimezone(context.timezone):%A, %Y-%m-%d %H:%M}"


def _notifications(context: WakeContext) -> Iterator[str]:
    waiting = context.facts.notifications
    if not waiting:
        yield "No notification waits for you."
        return
    high = sum(one.priority is Priority.HIGH for one in waiting)
    at_least = "at least " if context.has_more_notifications else ""
    count = f"{at_least}{len(waiting)}, of high priority {high}"
    yield f"Notifications that wait for you ({count}):"
    yield from (line.text for line in context.notifications)
    if context.notifications_left_out:
        yield f"{at_least.capitalize()}{context.notifications_left_out} more: list_notifications shows them."


def _conversation(conversation: ShownConversation) -> Iterator[str]:
    earlier = "; list_messages shows earlier ones" if conversation.has_earlier else ""
    yield f"Your last messages with this contact, the latest at the end{earlier}:"
    yield conversation.heading
    yield from (line.text for line in conversation.lines)


def _core_memory(context: WakeContext) -> Iterator[str]:
    if context.facts.core_memory is None:
        yield f"Your core memory, {CORE}, does not exist yet."
        return
    yield f"Your core memory, {CORE}:"
    yield context.core_memory.text if context.core_memory else "It is too long to be shown here."
