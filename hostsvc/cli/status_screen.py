"""The status of a service as text for a terminal. Pure functions from API responses to renderables."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

Json = Mapping[str, Any]

COLORS = {
    **dict.fromkeys(("ready", "running"), "green"),
    **dict.fromkeys(("holding", "queued", "draining", "stopping"), "yellow"),
    **dict.fromkeys(("backing_off", "quarantined", "degraded"), "red"),
    **dict.fromkeys(("archived", "paused"), "dim"),
}


def service_screen(status: Json, agents: Sequence[Json], max_agents: int) -> RenderableType:
    """Render the whole service with up to `max_agents` of its agents."""
    parts: list[RenderableType] = [_fact_table(_service_facts(status)), Text(""), _agent_table(agents)]
    if len(agents) == max_agents:
        parts.append(Text(f"Only {max_agents} agents are shown; --phase selects some.", style="dim"))
    return Group(*parts)


def agent_screen(agent: Json) -> RenderableType:
    """Render one agent with the recent messages to its supervisor."""
    parts: list[RenderableType] = [_fact_table(_agent_facts(agent))]
    if agent["recent"]:
        parts += [Text(""), _message_table(agent["recent"])]
    return Group(*parts)


def moment(timestamp: str | None) -> str:
    """Format a timestamp of the API to the second, in UTC."""
    return f"{datetime.fromisoformat(timestamp):%Y-%m-%d %H:%M:%S}" if timestamp else "none"


def duration(seconds: float) -> str:
    """Format a duration with its two largest units."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    largest = next((index for index, (amount, _) in enumerate(units) if amount), 3)
    return " ".join(f"{amount} {unit}" for amount, unit in units[largest : largest + 2])


def _service_facts(status: Json) -> Iterable[tuple[str, str | Text]]:
    service, supervisors, timers = status["service"], status["supervisors"], status["timers"]
    agents, runs, database = status["agents"], status["runs"], status["database"]
    phases = ", ".join(f"{count} {phase}" for phase, count in sorted(supervisors["by_phase"].items()))
    yield "hostsvc", f"{service['version']}, up for {duration(service['uptime_seconds'])}"
    yield "state", _state(service["state"])
    for reason in service["reasons"]:
        yield "because", _plain(reason)
    yield "agents", ", ".join(f"{agents[state]} {state}" for state in ("running", "sleeping", "archived"))
    yield "runs", f"{runs['running']} of at most {runs['limit']}, {runs['queued']} queued"
    yield "supervisors", f"{supervisors['active']} live" + (f": {phases}" if phases else "")
    yield "in trouble", f"{supervisors['quarantined']} quarantined, {supervisors['restarts']} restarted"
    mailbox = supervisors["mailbox"]
    yield "mailboxes", f"{mailbox['depth']} messages, at most {mailbox['deepest']} in one"
    next_timer = f", the next for {moment(timers['next_due_at'])} UTC" if timers["next_due_at"] else ""
    yield "timers", f"{timers['pending']} set{next_timer}"
    yield "lateness", f"{_spread(timers['lateness_ms'])}; event loop {_spread(status['loop_lag_ms'])}"
    yield "database", ", ".join(f"{database[name]} {name}" for name in ("connections", "idle", "waiting"))
    oldest = status["oldest_uncleared_high_seconds"]
    if oldest is not None:
        yield "oldest", f"high-priority notification uncleared for {duration(oldest)}"


def _agent_facts(agent: Json) -> Iterable[tuple[str, str | Text]]:
    run, wake, failures = agent["run"], agent["next_wake"], agent["failures"]
    yield "agent", f"{_plain(agent['name'])} ({agent['agent']})"
    yield "organization", agent["organization"]
    since = f" since {moment(agent['since'])} UTC" if agent["since"] else ""
    yield "phase", _state(agent["phase"], since)
    yield "why", _plain(agent["why"])
    yield "next wake", f"{moment(wake['at'])} UTC. {_plain(wake['because'])}" if wake else "none"
    if run:
        yield "run", f"{run['id']}, turn {run['turn']}, may sleep until {moment(run['max_sleep_until'])}"
    if agent["blockers"]:
        yield "uncleared", ", ".join(agent["blockers"])
    if failures["consecutive"]:
        yield "failures", f"{failures['consecutive']} in a row, the last: {_plain(failures['last_error'])}"
    yield "mailbox", f"{agent['mailbox']['depth']} of at most {agent['mailbox']['limit']} messages"


def _fact_table(facts: Iterable[tuple[str, str | Text]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value if isinstance(value, Text) else Text(value))
    return table


def _agent_table(agents: Sequence[Json]) -> RenderableType:
    if not agents:
        return Text("No agents to show.")
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("agent", "phase", "next wake (UTC)"):
        table.add_column(heading, no_wrap=heading != "agent", overflow="fold")
    table.add_column("why", overflow="fold")
    for agent in agents:
        wake = agent["next_wake"]
        name = Text.assemble(_plain(agent["name"]), "\n", (agent["agent"], "dim"))
        table.add_row(name, _state(agent["phase"]), moment(wake and wake["at"]), Text(_plain(agent["why"])))
    return table


def _message_table(messages: Sequence[Json]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("at (UTC)", "message", "outcome"):
        table.add_column(heading, overflow="fold")
    for entry in messages:
        table.add_row(moment(entry["at"]), Text(_plain(entry["message"])), Text(_plain(entry["outcome"])))
    return table


def _state(state: str, suffix: str = "") -> Text:
    return Text.assemble((state, COLORS.get(state, "")), suffix)


def _spread(milliseconds: Json) -> str:
    if milliseconds["max"] is None:
        return "not measured yet"
    return ", ".join(f"{name} {milliseconds[name]:g} ms" for name in ("p50", "p99", "max"))


def _plain(text: str) -> str:
    """Replace unprintable characters: names and errors come from tenants and could hold terminal commands."""
    return "".join(character if character.isprintable() else "·" for character in text)
