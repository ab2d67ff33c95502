"""The status of a service as text for a terminal. Pure functions from API responses to renderables."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from supervisors.policy.phases import Phase
from supervisors.timeline.bands import BandPhase

Json = Mapping[str, Any]

COLORS = {
    **dict.fromkeys(("ready", "running"), "green"),
    **dict.fromkeys(("holding", "queued", "draining", "stopping"), "yellow"),
    **dict.fromkeys(("backing_off", "quarantined", "degraded"), "red"),
    **dict.fromkeys(("archived", "paused"), "dim"),
}
MAX_ENDED_NODES = 100  # that the service names
SILENT_SECONDS = 3.0  # without a beat, of which there are two a second
PHASE_WIDTH = max(len(phase) for phase in Phase)


def service_screen(status: Json, agents: Sequence[Json] | None, max_agents: int) -> RenderableType:
    """Render the whole service with up to `max_agents` of its agents; None if they cannot be read."""
    parts: list[RenderableType] = [_fact_table(_service_facts(status)), Text("")]
    if len(status["nodes"]) > 1:
        parts += [_node_table(status["nodes"]), Text("")]
    if agents is None:
        parts.append(Text("The agents cannot be shown, because the database does not answer."))
    elif not agents:
        parts.append(Text("No agents to show."))
    else:
        parts += _agent_lines(agents)
    if agents is not None and len(agents) == max_agents:
        parts.append(Text(f"Only {max_agents} agents are shown; --phase selects others.", style="dim"))
    return Group(*parts)


def agent_screen(agent: Json) -> RenderableType:
    """Render one agent with the recent messages to its supervisor."""
    parts: list[RenderableType] = [_fact_table(_agent_facts(agent))]
    if agent["recent"]:
        parts += [Text(""), _message_table(agent["recent"])]
    return Group(*parts)


def past_screen(agent: Json) -> RenderableType:
    """Render one agent as it was at a moment in the past."""
    return _fact_table(_past_facts(agent))


def moment(timestamp: str) -> str:
    """Format a timestamp of the API to the second, in UTC."""
    return f"{datetime.fromisoformat(timestamp):%Y-%m-%d %H:%M:%S}"


def counted(number: int, thing: str) -> str:
    """Return "no agents", "1 agent", "2 agents", and so on."""
    return f"{number or 'no'} {thing}{'' if number == 1 else 's'}"


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
    yield "hostsvc", f"{service['version']}, up for {duration(service['uptime_seconds'])}"
    yield "state", _state(service["state"])
    for reason in service["reasons"]:
        yield "because", plain(reason)
    yield "nodes", _nodes(status)
    yield "agents", ", ".join(f"{agents[state]} {state}" for state in ("running", "sleeping", "archived"))
    waiting = f"; {counted(runs['queued'], 'agent')} waiting for a slot" if runs["queued"] else ""
    yield "runs", f"{runs['running']} active of at most {runs['limit']}{waiting}"
    phases = ", ".join(f"{count} {phase}" for phase, count in sorted(supervisors["by_phase"].items()))
    yield "supervisors", f"{supervisors['active'] or 'none'} in memory" + (f": {phases}" if phases else "")
    yield "trouble", _trouble(supervisors)
    for agent in status["quarantined"]:
        yield "quarantined", _quarantine(agent)
    mailbox = supervisors["mailbox"]
    deepest = f", at most {mailbox['deepest']} to one agent" if mailbox["depth"] > 1 else ""
    yield "mailboxes", f"{counted(mailbox['depth'], 'unanswered request')}{deepest}"
    yield "timers", _timers(timers)
    yield "lateness", f"timers {_spread(timers['lateness_ms'])}; event loop {_spread(status['loop_lag_ms'])}"
    idle = f", {database['idle']} idle" if database["connections"] else ""
    requests = f", {counted(database['waiting'], 'request')} waiting for one" if database["waiting"] else ""
    yield "database", f"{counted(database['connections'], 'connection')}{idle}{requests}"
    oldest = status["oldest_uncleared_high_seconds"]
    if oldest is not None:
        yield "oldest", f"a high-priority notification has been uncleared for {duration(oldest)}"


def _nodes(status: Json) -> str:
    """Return how many nodes there are, and what those that ended within a day had to leave."""
    living, ended = status["nodes"], status["ended_nodes"]
    interrupted = sum(node["interrupted_runs"] for node in ended)
    runs = f" with {counted(interrupted, 'interrupted run')}" if interrupted else ""
    number = f"at least {len(ended)}" if len(ended) == MAX_ENDED_NODES else str(len(ended))
    return f"{len(living)}" + (f"; {number} ended within a day{runs}" if ended else "")


def _node_table(nodes: Sequence[Json]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("node", "version", "state"):
        table.add_column(heading, overflow="fold")
    for heading in ("agents", "runs", "free slots", "queued", "lag"):
        table.add_column(heading, justify="right")
    for node in nodes:
        silence = node["confirmed_seconds"]
        state = node["state"] + (f", silent for {duration(silence)}" if silence >= SILENT_SECONDS else "")
        lag = "" if node["lag_ms"] is None else f"{node['lag_ms']:g} ms"
        numbers = (str(node[name]) for name in ("agents", "runs", "free_slots", "queued"))
        table.add_row(plain(node["name"]), plain(node["version"]), state, *numbers, lag)
    return table


def _trouble(supervisors: Json) -> str:
    quarantined, restarts = supervisors["quarantined"], supervisors["restarts"]
    parts = [f"{counted(quarantined, 'agent')} quarantined"] if quarantined else []
    parts += [f"{counted(restarts, 'supervisor')} restarted after a crash"] if restarts else []
    return ", ".join(parts) or "none"


def _quarantine(agent: Json) -> str:
    until = f" until {moment(agent['until'])} UTC" if agent["until"] else ""
    return f"{agent['agent']} {plain(agent['name'])}{until}: {plain(agent['last_error'])}"


def _timers(timers: Json) -> str:
    if not timers["pending"]:
        return "none set"
    due = f"{moment(timers['next_due_at'])} UTC" if timers["next_due_at"] else ""
    first = "for" if timers["pending"] == 1 else "the next for"
    return f"{timers['pending']} set" + (f", {first} {due}" if due else "")


def _agent_facts(agent: Json) -> Iterable[tuple[str, str | Text]]:
    run, wake, mailbox = agent["run"], agent["next_wake"], agent["mailbox"]
    yield "agent", plain(agent["name"])
    yield "id", agent["agent"]
    yield "organization", agent["organization"]
    since = f" since {moment(agent['since'])} UTC" if agent["since"] else ""
    yield "phase", _state(agent["phase"], since)
    yield "why", plain(agent["why"])
    yield "next wake", f"{moment(wake['at'])} UTC. {plain(wake['because'])}" if wake else "nothing is set"
    if run:
        yield "run", run["id"]
        yield "", _progress(run)
    if agent["blockers"]:
        yield "uncleared", "\n".join(agent["blockers"])
    if agent["failures"]["consecutive"]:
        yield "failures", _failures(agent["failures"])
    if agent["node"]:
        yield "node", plain(agent["node"])
    yield "mailbox", f"{counted(mailbox['depth'], 'unanswered request')} of at most {mailbox['limit']}"


def _past_facts(agent: Json) -> Iterable[tuple[str, str | Text]]:
    yield "agent", plain(agent["name"])
    yield "id", agent["agent"]
    yield "organization", agent["organization"]
    yield "at", f"{moment(agent['at'])} UTC"
    since = f" since {moment(agent['since'])} UTC" if agent["since"] else ""
    yield "phase", _state(agent["phase"], since)
    yield "why", plain(agent["why"] or "not known: the event that said it is no longer kept")
    next_wake = agent["next_wake_at"]
    if agent["phase"] != BandPhase.UNKNOWN:
        yield "next wake", f"{moment(next_wake)} UTC" if next_wake else "nothing was set"
    if agent["run"]:
        yield "run", agent["run"]
    if agent["event"]:
        yield "event", str(agent["event"])


def _progress(run: Json) -> str:
    turn = f"turn {run['turn']}, " if run["turn"] else ""
    limit = f"until {moment(run['max_sleep_until'])} UTC" if run["max_sleep_until"] else "for any time"
    return f"{turn}may sleep {limit}"


def _failures(failures: Json) -> str:
    number = failures["consecutive"]
    which = "the last run" if number == 1 else f"{number} in a row, the last"
    return f"{which}: {plain(failures['last_error'])}"


def _fact_table(facts: Iterable[tuple[str, str | Text]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value if isinstance(value, Text) else Text(value))
    return table


def _agent_lines(agents: Sequence[Json]) -> Iterable[RenderableType]:
    """Yield two lines for each agent. The first one fits 80 columns, so that an id can be copied."""
    width = len(agents[0]["agent"])
    yield _columns("agent".ljust(width), "phase", "next wake (UTC)")
    for agent in agents:
        wake = agent["next_wake"]
        yield _columns(agent["agent"], agent["phase"], moment(wake["at"]) if wake else "")
        yield Padding(Text(f"{plain(agent['name'])}: {plain(agent['why'])}"), (0, 0, 0, 2))


def _columns(agent: str, phase: str, wake: str) -> Text:
    """Return a line that is never broken."""
    colored = phase.ljust(PHASE_WIDTH), COLORS.get(phase, "")
    return Text.assemble((agent, "bold"), "  ", colored, "  ", wake, no_wrap=True, overflow="ignore")


def _message_table(messages: Sequence[Json]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("at (UTC)", "message", "outcome"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "at (UTC)")
    for entry in messages:
        table.add_row(moment(entry["at"]), Text(plain(entry["message"])), Text(plain(entry["outcome"])))
    return table


def _state(state: str, suffix: str = "") -> Text:
    return Text.assemble((state, COLORS.get(state, "")), suffix)


def _spread(milliseconds: Json) -> str:
    if milliseconds["max"] is None:
        return "not measured yet"
    return ", ".join(f"{name} {milliseconds[name]:g} ms" for name in ("p50", "p99", "max"))


def plain(text: str) -> str:
    """Replace unprintable characters: names and errors come from tenants and could hold terminal commands."""
    return "".join(character if character.isprintable() else "·" for character in text)
