"""The journal: what a run did, as a value to store, and as sentences that open the agent's next runs."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from storage.history.runs import JournalFacts, PastRun
from storage.model import Outcome
from supervisors.text import excerpt, quoted

MAX_TITLES = 10  # of cleared notifications; the update that ends the run keeps as many titles and messages
MAX_QUOTE = 100  # characters of a title or name in a sentence
MAX_KNOWN_RUNS = 2048  # each run opens several wakes, but is described once
MAX_OUTPUT = 200  # characters of the final answer in a sentence

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # of a tool; a model may call tools by any other text

MESSAGE_TOOLS = frozenset({"send_message", "send_sms"})

ENDINGS = {
    Outcome.SLEPT: "It ended with sleep",
    Outcome.ENDED: "It ended without a call of sleep",
    Outcome.TURN_LIMIT: "It was ended by its turn limit",
    Outcome.FAILED: "It failed",
    Outcome.STOPPED: "It was stopped",
    Outcome.TIMED_OUT: "It took too long and was ended",
    Outcome.BUDGET: "It was ended by the daily budget",
    Outcome.INTERRUPTED: "It was interrupted and may have done more than this journal says",
}


def entries_of(facts: JournalFacts) -> dict[str, Any]:
    """Return the journal of a run. `cleared` holds ids; the update that stores it replaces them by titles."""
    return {
        "cleared": [str(id_) for id_ in facts.cleared[:MAX_TITLES]],
        "cleared_count": len(facts.cleared),
        "unanswered": [str(id_) for id_ in facts.unanswered[:MAX_TITLES]],
        **late_entries_of(facts),
    }


def late_entries_of(facts: JournalFacts) -> dict[str, Any]:
    """Return the entries that may change until shortly after the end of a run.

    `trouble` is "unsolved" if the run needs a person, and "unsent" if it does unless a message tells of it.
    """
    calls = [tool for tool in facts.tools if tool.name != "sleep"]  # a refused one leaves nothing to solve
    unsolved = {tool.name for tool in calls if tool.unsolved}
    trouble = "unsolved" if facts.unanswered or unsolved - MESSAGE_TOOLS else "unsent" if unsolved else ""
    return {
        "tools": [
            {key: value for key, value in asdict(tool).items() if key != "unsolved" or tool.name in unsolved}
            for tool in facts.tools
        ],
        "failed_calls": sum(tool.errors for tool in calls),
        "trouble": trouble,
        "cost_usd": float(facts.cost_usd),
        "unpriced_calls": facts.unpriced_calls,
    }


@lru_cache(MAX_KNOWN_RUNS)
def describe_run(run: PastRun, timezone: str) -> str:
    """Tell on one line what the run did, in the agent's local time. Texts of others stand in quotes.

    Example: 2026-11-21 09:00 to 09:02 CET, woken by notification:sms ("New sms from Ada"). Cleared "New sms
    from Ada". Sent messages to "Ada" by sms (sent). Tools: send_message 1, memory 2 (1 failed: "…"). Cost
    0.0021 USD. It ended with sleep.
    """
    journal = orjson.loads(run.journal) if run.journal else {}
    zone = ZoneInfo(timezone)
    started_at, ended_at = run.started_at.astimezone(zone), run.ended_at.astimezone(zone)
    day_of_end = "" if started_at.date() == ended_at.date() else f"{ended_at:%Y-%m-%d} "
    period = f"{started_at:%Y-%m-%d %H:%M} to {day_of_end}{ended_at:%H:%M %Z}"
    woken_by = ", ".join(_titles(journal.get("woken_by", ())))
    sentences = [
        f"{period}, woken by {run.wake_reason}{woken_by and f' ({woken_by})'}.",
        _cleared(journal),
        _sent(journal) if journal.get("sent") else "",
        _unanswered(journal) if journal.get("unanswered") else "",
        f"Tools: {', '.join(map(_tool, journal['tools']))}." if journal.get("tools") else "",
        _cost(journal) if journal.get("cost_usd") or journal.get("unpriced_calls") else "",
        f"{ENDINGS[run.outcome]}{f': {_quote(run.error)}' if run.error else ''}.",
        f"Final answer: {_quote(run.output, MAX_OUTPUT)}." if run.output.strip() else "",
    ]
    return " ".join(filter(None, sentences))


def _cleared(journal: dict[str, Any]) -> str:
    count, titles = journal.get("cleared_count", 0), journal.get("cleared", ())
    if not count:
        return "Cleared nothing."
    return f"Cleared {_joined(_titles(titles), count - len(titles)) or f'{count} notifications'}."


def _sent(journal: dict[str, Any]) -> str:
    messages = [
        f"to {_quote(message['name'] or 'a contact')} by {message['channel']} ({message['status']})"
        for message in journal["sent"]
    ]
    count = journal.get("sent_count", 0) + journal.get("failed_count", 0)
    return f"Sent messages {_joined(messages, count - len(messages))}."


def _cost(journal: dict[str, Any]) -> str:
    cost, unpriced = journal.get("cost_usd", 0), journal.get("unpriced_calls", 0)
    if unpriced:
        known = f"at least {cost:.4f} USD" if cost else "not known"
        return f"Cost {known}: model calls without a price: {unpriced}."
    return f"Cost {cost:.4f} USD."


def _unanswered(journal: dict[str, Any]) -> str:
    contacts = ", ".join(journal["unanswered"])
    return f"It cleared messages of these contacts, which got no answer: {contacts}."


def _tool(tool: dict[str, Any]) -> str:
    name = tool["name"] if PLAIN_NAME.fullmatch(tool["name"]) else _quote(tool["name"])
    if not tool["errors"]:
        return f"{name} {tool['calls']}"
    return f"{name} {tool['calls']} ({tool['errors']} failed: {_quote(tool['last_error'])})"


def _titles(titles: Sequence[str]) -> list[str]:
    """Return the titles in quotes, each once: several texts in a row have the same title."""
    return [
        _quote(title) + (f" {times} times" if times > 1 else "") for title, times in Counter(titles).items()
    ]


def _joined(parts: Sequence[str], left_out: int) -> str:
    more = f" and {left_out} more" if parts and left_out > 0 else ""
    return ", ".join(parts) + more


def _quote(text: str, max_characters: int = MAX_QUOTE) -> str:
    """Return the beginning of the text on one line, in quotes that it cannot close."""
    return quoted(excerpt(text, max_characters))
