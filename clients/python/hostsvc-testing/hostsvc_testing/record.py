"""Record the model of an agent on a service as a script: `python -m hostsvc_testing.record URL AGENT_ID`."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import yaml
from hostsvc_client import Hostsvc

MAX_RUNS = 100  # the latest ones
MAX_NOTIFICATIONS = 1000
MAX_SHOWN = 60  # characters that a notification is known by
Names = dict[str, str]


def record(client: Any, agent_id: str) -> None:
    """Print an item for each run of the agent, the oldest first."""
    zone, names = ZoneInfo(client.agents.get(agent_id).timezone), {"": ""}
    for one in islice(client.notifications.list(agent=agent_id, limit=MAX_NOTIFICATIONS), MAX_NOTIFICATIONS):
        lines = (one.body if one.source_id else one.title).strip().splitlines()
        names |= {one.source_id or "": "$contact", one.id: lines[0][:MAX_SHOWN] if lines else ""}
    for run in reversed(list(islice(client.runs.list(agent=agent_id), MAX_RUNS))):
        entries = page = client.traces.transcript(run.id).entries
        while page:
            page = client.traces.transcript(run.id, after=page[-1].span).entries
            entries += page
        answers = (entry for entry in entries if entry.role == "assistant" and not entry.error)
        item = {"do": [step for answer in answers for step in _steps(answer, names, zone)]}
        sys.stdout.write(f"# {run.started_at.isoformat()} {run.wake_reason}\n")
        sys.stdout.write(yaml.safe_dump([item], sort_keys=False, allow_unicode=True) if item["do"] else "")


def _steps(answer: Any, names: Names, zone: ZoneInfo) -> Iterator[dict[str, Any]]:
    """Yield the steps of one answer. A tool that is called twice in it has two."""
    step = {"text": answer.text} if answer.text else {}
    for tool, arguments in ((call.name, call.arguments) for call in answer.tool_calls):
        if not isinstance(arguments, dict):
            sys.exit(f"what {tool} was called with at {answer.at} is not recorded, or was cut")
        if (name := "clear" if tool == "clear_notification" else tool) in step:
            yield step
            step = {}
        for key, value in arguments.items():
            if isinstance(value, str):
                arguments[key] = names.get(value, value)
            if key in {"scheduled_for", "until"}:
                with suppress(ValueError, TypeError):  # it was refused
                    moment = datetime.fromisoformat(value)
                    ahead = moment.replace(tzinfo=moment.tzinfo or zone) - answer.at
                    arguments[key] = f"+{ahead.total_seconds() / 60:.0f} minutes"
        step[name] = arguments.get("notification_id", "") if name == "clear" else arguments
    if not step:
        sys.exit(f"what the model answered at {answer.at} is not recorded")
    yield step


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with Hostsvc(sys.argv[1]) as client:
        record(client, sys.argv[2])
