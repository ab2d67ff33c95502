"""The command line `hs`.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no answer, 4 the run did not end well, or not in time.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

try:
    import click

    from hostsvc_client import manifest
except ImportError:
    sys.exit('hs needs two more packages: pip install "hostsvc-client[cli]"')

from hostsvc_client import errors, models
from hostsvc_client._decode import Answer
from hostsvc_client._sync_api import AgentHandle, Hostsvc

REFUSED, NO_ANSWER, ENDED_BADLY, INTERRUPTED = 1, 3, 4, 130
EXIT_CODES = {errors.ConnectionFailed: NO_ANSWER, errors.NotEnded: ENDED_BADLY}
DEADLINE_SECONDS = 20.0  # of a command, for somebody who looks on


def credentials_file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "hostsvc" / "credentials.json"


def keyring_or_none() -> Any:
    """Return the keyring of the desktop, if the package is installed and there is one."""
    try:
        import keyring  # optional
    except ImportError:
        return None
    return keyring if getattr(keyring.get_keyring(), "priority", 0) > 0 else None


def stored() -> dict[str, str]:
    """Return what `hs login` has stored."""
    found: dict[str, str] = {}
    with suppress(OSError, ValueError):
        found = json.loads(credentials_file().read_text())
    if "key" not in found and "url" in found and (keyring := keyring_or_none()):
        found["key"] = keyring.get_password("hostsvc", found["url"]) or ""
    return found


def store(url: str, key: str) -> str:
    """Store the credentials and return where they are."""
    if keyring := keyring_or_none():
        keyring.set_password("hostsvc", url, key)
    path = credentials_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"url": url} if keyring else {"url": url, "key": key}, file)
    return "the keyring" if keyring else str(path)


@dataclass
class Session:
    """The options that all commands share, the client, and what is printed."""

    url: str | None
    key: str | None
    is_json: bool

    @cached_property
    def client(self) -> Hostsvc:
        """A client that is open until the command ends."""
        found = {} if self.url and self.key else stored()
        key = self.key or (found.get("key") if self.url in (None, found.get("url")) else None)
        if not key:
            raise click.UsageError("there is no API key: run `hs login`, or set HOSTSVC_API_KEY")
        client = Hostsvc(self.url or found.get("url"), key, deadline=DEADLINE_SECONDS)
        return click.get_current_context().with_resource(client)

    def agent(self, agent: str) -> AgentHandle:
        """Return the agent with this id or name."""
        with suppress(ValueError):
            return self.client.agent(str(UUID(agent)))
        found = self.client.agents.list(name=agent, limit=2).page()
        if len(found) == 1:
            return self.client.agent(found[0])
        number = "several agents are" if found else "no agent is"
        raise errors.HostsvcError(f"{number} named {agent!r}: give its id")

    def show(self, answer: Any, text: str) -> None:
        """Print an answer as JSON, if so asked, or else the text."""
        as_json = json.dumps(answer, default=Answer.to_dict, ensure_ascii=False, indent=2)
        click.echo(as_json if self.is_json else "\n".join(map(printable, text.split("\n"))))

    def table(self, answers: Sequence[Any], *columns: str) -> None:
        """Print answers in columns."""
        rows = [columns, *([cell(getattr(answer, column)) for column in columns] for answer in answers)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        self.show(answers, "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows))


def cell(value: Any) -> str:
    text = f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)
    return "-" if value is None else printable(text)


def printable(text: str) -> str:
    """Return the text on one line, without what could steer the terminal."""
    return "".join(one if one.isprintable() else " " for one in text)


class Commands(click.Group):
    """Commands that end with a sentence and an exit code instead of a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except (ValueError, ImportError) as error:  # an address, an id, a file or a proxy that cannot be used
            raise click.UsageError(str(error)) from None
        except errors.HostsvcError as error:
            click.echo(f"hs: {printable(str(error))}", err=True)
            found = (code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
            raise SystemExit(next(found, REFUSED)) from None


def complete_agent(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of agents that begin like this."""
    with suppress(click.UsageError, errors.HostsvcError, ValueError), context:
        client = Session(**context.find_root().params).client.with_options(deadline=2.0)
        found = client.agents.list(search=incomplete or None, limit=50).page()
        return [agent.name for agent in found if agent.name.lower().startswith(incomplete.lower())]
    return []


agent_argument = click.argument("agent", shell_complete=complete_agent)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", envvar="HOSTSVC_URL", help="The address of the service.")
@click.option("--key", envvar="HOSTSVC_API_KEY", help="An API key.")
@click.option("--json", "is_json", is_flag=True, help="Print what the service answers, as JSON.")
@click.version_option(package_name="hostsvc-client")
@click.pass_context
def main(context: click.Context, url: str | None, key: str | None, is_json: bool) -> None:
    """Work with the agents of a hostsvc service."""
    context.obj = Session(url, key, is_json)


def command(function: Callable[..., Any]) -> click.Command:
    """Return the command that calls this function with the session."""
    return main.command()(click.pass_obj(function))


@command
def login(session: Session) -> None:
    """Store the address and an API key, in the keyring or in a file that only you can read."""
    url = session.url or click.prompt("Address of the service", default="http://127.0.0.1:8080")
    key = session.key or click.prompt("API key", hide_input=True)
    with Hostsvc(url, key, deadline=DEADLINE_SECONDS) as client:
        caller = client.auth.me()
    session.show(caller, f"Logged in. The key is in {store(url, key)}.")


@command
@click.option("--tag", multiple=True, help="Only agents with this tag; repeat it for several.")
@click.option("--search", help="Only agents whose name contains this.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
def agents(session: Session, limit: int, **filters: Any) -> None:
    """List agents, what they do, and why."""
    found = list(islice(session.client.supervisors.list(limit=min(limit, 200), **filters), limit + 1))
    session.table(found[:limit], "agent", "name", "phase", "cost_today_usd", "uncleared_high", "why")
    if len(found) > limit:
        click.echo(f"only the first {limit} are shown: --limit shows more", err=True)


@command
@agent_argument
@click.option("--at", help="What was true at this moment, such as 2026-11-20T03:00.")
def why(session: Session, agent: str, at: str | None) -> None:
    """Say what an agent is doing, and why."""
    answer = session.agent(agent).supervisor(at=at)
    session.show(answer, answer.why or str(answer.phase))


@command
@agent_argument
@click.argument("title")
@click.option("--body", default="", help="Details.")
@click.option("--low", is_flag=True, help="Do not wake the agent.")
@click.option("--idempotency-key", help="A second call with the same key has no second effect.")
def notify(session: Session, agent: str, low: bool, **fields: Any) -> None:
    """Put a notification into the queue of an agent."""
    id_ = session.agent(agent).id
    answer = session.client.notifications.create(agent=id_, priority="low" if low else "high", **fields)
    session.show(answer, answer.id)


@command
@agent_argument
@click.option("--wait", "waits", is_flag=True, help="Wait for its end; exit with 4 unless it ended well.")
@click.option("--seconds", default=3600.0, show_default=True, help="How long to wait.")
def run(session: Session, agent: str, waits: bool, seconds: float) -> None:
    """Start a run of an agent."""
    if not waits:
        answer = session.agent(agent).run()
        session.show(answer, f"{answer.status} {answer.run or ''}".rstrip())
        return
    ended = session.agent(agent).run_to_end(seconds=seconds)
    session.show(ended, f"{ended.id} {ended.outcome} {ended.error or ended.output}".rstrip())
    if ended.outcome not in ("slept", "ended"):
        raise SystemExit(ENDED_BADLY)


@command
@click.argument("agent", required=False, shell_complete=complete_agent)
@click.option("--type", multiple=True, help="Only events of this type, such as run.ended or run.*.")
@click.option("--since", type=int, help="Begin after this position; 0 is the oldest event.")
@click.option("--count", type=click.IntRange(0), help="End after so many events.")
def tail(session: Session, agent: str | None, count: int | None, **options: Any) -> None:
    """Follow what happens to one agent or to all, until interrupted."""
    source = session.agent(agent) if agent else session.client
    session.client.auth.me()  # events wait for ever, also for a service that was never there
    for event in islice(source.events(**options), count):
        data = json.dumps(event.data, ensure_ascii=False)
        text = printable(f"{cell(event.at)}  {event.type}  {event.agent or '-'}  {data}")
        click.echo(json.dumps(event.to_dict(), ensure_ascii=False) if session.is_json else text)


@command
@click.argument("run")
def trace(session: Session, run: str) -> None:
    """Draw the steps of a run, which are those of its trace, over time."""
    answer = session.client.traces.waterfall(run)
    session.show(answer, "\n".join(waterfall(answer, shutil.get_terminal_size().columns)))


def waterfall(trace: models.Waterfall, width: int) -> Iterator[str]:
    """Yield a line for each span: its name below its parent's, how long it took, and when."""
    spans = trace.spans
    depths: dict[str | None, int] = {None: -1}
    for id_, parent in zip(spans.ids, spans.parents, strict=True):
        depths[id_] = depths.get(parent, -1) + 1
    names = ["  " * depths[id_] + name for id_, name in zip(spans.ids, spans.names, strict=True)]
    column = min(max(map(len, names), default=0), width // 2)
    room = max(10, width - column - 14)
    ends = [start + (took or 0) for start, took in zip(spans.starts_us, spans.durations_us, strict=True)]
    first = min(spans.starts_us, default=0)
    whole = max(1, max(ends, default=0) - first)
    rows = zip(names, spans.starts_us, spans.durations_us, spans.has_errors, strict=True)
    for name, start, took, has_error in rows:
        before = min(room - 1, (start - first) * room // whole)
        bar = max(1, min(room - before, (took or 0) * room // whole))
        mark = "x" if has_error else "█"
        length = "open" if took is None else f"{took / 1000:.1f} ms"
        yield f"{name[:column]:{column}} {length:>11} {' ' * before}{mark * bar}"
    if len(names) < trace.total_spans:
        yield f"… and {trace.total_spans - len(names)} more spans"


@command
@agent_argument
@click.argument("name")
@click.argument("title")
@click.option("--cron", help='When, such as "0 9 * * 1-5", in the time zone of the agent.')
@click.option("--every", "every_seconds", type=int, help="Every so many seconds.")
@click.option("--only-if", type=click.Choice(["always", "waiting"]), default="always")
def schedule(session: Session, agent: str, name: str, **fields: Any) -> None:
    """Notify an agent again and again. A schedule of the same name is replaced."""
    answer = session.agent(agent).put_schedule(name, **fields)
    session.show(answer, answer.says)


@command
@click.argument("approval", required=False)
@click.option("--deny", is_flag=True)
@click.option("--note", default="", help="What the agent is told.")
@click.option("--answer", help="The answer to a question, as JSON or text.")
def approve(session: Session, approval: str | None, deny: bool, **fields: Any) -> None:
    """Approve or answer what an agent asks; without an id, list what waits."""
    if approval is None:
        waiting = list(session.client.approvals.list(state="pending"))
        session.table(waiting, "id", "kind", "agent_name", "tool", "arguments", "question")
        return
    text = fields.pop("answer")
    if deny and text is not None:
        raise click.UsageError("--deny and --answer exclude each other")
    given = {"approve": not deny} if text is None else {"answer": text}
    with suppress(ValueError, TypeError):
        given = {"answer": json.loads(text)}
    decided = session.client.approvals.decide(approval, **given, **fields)
    session.show(decided, str(decided.state))


@command
@click.argument("file", type=click.File())
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
def apply(session: Session, file: Iterable[str], dry_run: bool) -> None:
    """Make templates, adapters, tools, agents, schedules and hooks what a YAML file says."""
    change = None
    for change, secret in manifest.apply(session.client, manifest.load("".join(file)), is_dry_run=dry_run):
        text = printable(f"{change} (its secret: {secret})" if secret else f"{change}")
        click.echo(json.dumps({"change": f"{change}", "secret": secret}) if session.is_json else text)
    if change is None and not session.is_json:
        click.echo("nothing to change")


@command
def export(session: Session) -> None:
    """Print templates, adapters, tools, agents, schedules and hooks as YAML, without secrets."""
    content = manifest.export(session.client)
    text = json.dumps(content, indent=2) + "\n" if session.is_json else manifest.dump(content)
    click.echo(text, nl=False)  # each character as it is, so that it can be applied
