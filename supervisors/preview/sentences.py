"""The sentences of a preview. They promise only what the rules have decided. Pure.

In each of them "it" is the agent.
"""

from collections.abc import Iterator
from datetime import datetime

from storage.model import Priority, Source
from supervisors.policy import explanations
from supervisors.policy.budgets import dollars, name_of, reached_budget
from supervisors.policy.decisions import Wake, WakeCause, is_quarantined
from supervisors.policy.explanations import describe_cause, never_starts, when
from supervisors.policy.phases import Phase
from supervisors.preview.paths import Event, Path, unpaused

NOUNS = {
    Source.SMS: ("an", "SMS", "SMS"),
    Source.MMS: ("an", "MMS", "MMS"),
    Source.EMAIL: ("an", "email", "emails"),
}
UNLESS = "This holds unless something else happens before."
AFTER_START = "What it does after that depends on that run, which no rule decides."
RUN_UNKNOWN = "It is running. When its run ends, and what it leaves uncleared, no rule decides."
OTHERS = "Whether the others reach that run or wake it again depends on how long the run takes."
NO_ROOM = "It starts then only if a run slot is free; at present there is none for it."
QUARANTINED = "It is quarantined: notifications start it at most once a minute."


def describe(now: datetime, event: Event | None, subject: str, before: Path, after: Path) -> list[str]:
    """Return the sentences. `subject` names the change; blank: there is none."""
    if event is not None:
        said = [*_about_event(event, subject, before, after), *_after_event(event, after)]
    elif subject:
        said = list(_about_change(subject, before, after))
    else:
        said = []
    if event is None and (after.moment > now or not subject):
        said += _about_time(after)
    start = after.start
    if start is not None and start.at > now:
        said += [*_about_room(after), UNLESS]
    return list(dict.fromkeys(said))


def _about_room(path: Path) -> Iterator[str]:
    """Yield the conditions of a later start that do not hold at present."""
    if not path.present.limits.may_start:
        yield f"At present {explanations.NO_STARTS}."
    elif not path.present.has_room:
        yield NO_ROOM


def _about_event(event: Event, subject: str, before: Path, after: Path) -> Iterator[str]:
    condition, outcome = _condition(event, before), _outcome(event, before)
    if not subject:
        yield f"{condition} {outcome}."
        return
    changed = _outcome(event, after)
    if changed == outcome:
        yield f"{condition} {outcome}; with {subject}, too."
    else:
        yield f"{condition} {outcome}; with {subject}, {_shortened(before, after, changed)}."


def _condition(event: Event, path: Path) -> str:
    """Return the first half of the sentence, such as "If an SMS came now,"."""
    first_at = path.first_at
    at = "now" if first_at == path.present.now else f"at {when(first_at)}"
    article, noun, plural = NOUNS.get(
        event.source, ("a", f"notification from {event.source}", f"notifications from {event.source}")
    )
    if event.is_reminder_at(first_at):
        article, noun, plural = "a", "reminder", "reminders"
    if event.priority is Priority.LOW:
        article, noun, plural = "a", f"low-priority {noun}", f"low-priority {plural}"
    due = f" for {when(event.scheduled_for)}" if event.is_reminder_at(first_at) else ""
    if event.count == 1:
        return f"If {article} {noun}{due} came {at},"
    apart = f", {event.seconds_apart:g} s apart" if event.seconds_apart else ""
    return f"If {event.count} {plural}{due} came {at}{apart},"


def _outcome(event: Event, path: Path) -> str:
    """Return the second half of the sentence, such as "it would wake at once"."""
    if path.is_archived:
        return "it would stay asleep, because it is archived: what comes waits until it is restored"
    if event.priority is Priority.LOW:
        return "it would not wake: what has a low priority waits until something else wakes it"
    if path.is_running:
        return _outcome_during_run(event, path)
    if path.facts.is_paused:
        start = unpaused(path).course.start
        later = f", but not before {when(start.at)}" if start and start.at > path.present.now else ""
        return f"it would not wake during the pause; it would wake when that ends{later}"
    if path.waits_for_slot:
        return f"it would wait, because {_why_no_slot(path)}"
    if path.start is None:
        return f"it would not wake{_because_of_budget(path)}"
    return _outcome_of_start(event, path, path.start)


def _outcome_of_start(event: Event, path: Path, start: Wake) -> str:
    arrived = path.course.arrived
    if arrived == 0:
        return f"it would have started before that, at {when(start.at)}"
    moment = "at once" if start.at == path.first_at else f"at {when(start.at)}"
    if arrived < event.count:
        return f"it would wake {moment}, when {arrived} of them {'has' if arrived == 1 else 'have'} come"
    if _is_by_hold(start):
        return f"it would wait until {when(start.at)} and wake once"
    return f"it would wake {moment}" if start.at == path.first_at else f"it would wake once, {moment}"


def _outcome_during_run(event: Event, path: Path) -> str:
    if path.first_at > path.present.now:
        return "it might still run, so no rule decides yet what follows"
    if path.facts.is_paused:
        return "it would not wake during the pause; its run was asked to stop"
    if event.is_reminder_at(path.first_at):
        return "it would be due to start at that time, unless its run still goes on then"
    if path.course.decision.phase is Phase.STOPPING or path.present.run_is_stopping:
        return "it would be due to start again after its run, which was asked to stop"
    return f"its run could not sleep before {'that is' if event.count == 1 else 'they are'} cleared"


def _shortened(before: Path, after: Path, changed: str) -> str:
    """Return the outcome after the change, without what it has in common with the one before."""
    starts = before.start, after.start
    if starts[0] and starts[1] and changed.startswith("it would wait until") and _is_by_hold(starts[0]):
        return f"at {when(starts[1].at)}"
    return changed


def _is_by_hold(start: Wake) -> bool:
    return start.cause is WakeCause.HOLD and not start.is_postponed


def _after_event(event: Event, path: Path) -> Iterator[str]:
    """Yield the sentences that say more about what follows."""
    start, high = path.start, event.priority is Priority.HIGH
    if path.is_running and not path.is_archived:
        is_in_run = path.first_at == path.present.now and not event.is_reminder_at(path.first_at)
        if high and is_in_run and not path.facts.is_paused:
            yield "If its run ends without having cleared that, it is due to start again."
        budget = reached_budget(path.facts.budgets)
        if budget is not None:
            yield explanations.why_over_budget(budget, path.present.now)
        yield RUN_UNKNOWN
    elif start is not None and not high:
        yield _next_start(path, start)
    elif start is not None and path.course.arrived < event.count:
        yield AFTER_START if path.course.arrived == 0 else OTHERS
    elif start is not None and start.at > path.first_at:
        if is_quarantined(path.facts) and start.cause in {WakeCause.NOTIFICATION, WakeCause.HOLD}:
            yield QUARANTINED
        else:
            yield describe_cause(start)
    yield from path.said


def _about_change(subject: str, before: Path, after: Path) -> Iterator[str]:
    without, changed = _next(before), _next(after)
    if changed == without:
        yield f"With {subject}, what comes next stays the same: {changed}."
    else:
        yield f"With {subject}, {changed}; without, {without}."
    if after.start is not None and changed != without:
        yield describe_cause(after.start)
    yield from after.said


def _next(path: Path) -> str:
    if path.is_archived:
        return "nothing wakes it until it is restored"
    if path.is_running:
        is_stopping = path.course.decision.phase is Phase.STOPPING or path.present.run_is_stopping
        return "its run is asked to stop" if is_stopping else "its run goes on"
    if path.facts.is_paused:
        return "nothing starts until the pause ends"
    if path.waits_for_slot:
        return f"it waits, because {_why_no_slot(path)}"
    start = path.start
    if start is None:
        return f"nothing wakes it by itself{_because_of_budget(path)}"
    return "it starts at once" if start.at == path.present.now else f"it wakes at {when(start.at)}"


def _about_time(path: Path) -> Iterator[str]:
    """Yield the sentences about a moment that comes without anything else."""
    start, moment = path.start, path.moment
    if path.is_running and not path.is_archived:
        yield RUN_UNKNOWN
        return
    if start is not None and start.at < moment:
        yield f"It wakes at {when(start.at)}, before {when(moment)}. {describe_cause(start)}"
        yield AFTER_START
        return
    phase = str(path.phase).replace("_", " ")
    is_later = moment > path.present.now
    yield f"If nothing else happens, it is {phase} at {when(moment)}." if is_later else f"It is {phase}."
    if start is not None and start.at > moment:
        yield _next_start(path, start)
    elif start is None:
        yield f"After that, {_next(path)}." if is_later else f"{_next(path).capitalize()}."


def _next_start(path: Path, start: Wake) -> str:
    moment = "at once" if start.at == path.present.now else f"at {when(start.at)}"
    return f"It wakes next {moment}. {describe_cause(start)}"


def _because_of_budget(path: Path) -> str:
    budget = path.course.decision.over_budget
    if budget is None or not never_starts(budget):
        return ""
    return f", because {name_of(budget)} is {dollars(budget.cap_usd)} USD a day"


def _why_no_slot(path: Path) -> str:
    return explanations.why_no_start(path.present.limits)
