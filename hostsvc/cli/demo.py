"""The demonstration: the main job over HTTP, reported step by step, ended by the first step that fails."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import aiohttp

from hostsvc.config import Config, DatabaseChoice, ServerSettings
from hostsvc.process_end import end_on_signals
from hostsvc.service import Service, open_service
from supervisors.clock import Clock, SystemClock, first_of

Result = TypeVar("Result")
Json = dict[str, Any]

WINDOW_SECONDS = 2
TEXTS = ("Are you there?", "The parcel has not come.", "Order 4711, in case you need it.")
TEXT_INTERVAL_SECONDS = 1.0
MAX_SLEEP_HOURS = 8
REMINDER_SECONDS = 3.0
LATENESS_LIMIT_SECONDS = 0.250  # of one wake on a machine that may be busy
STEP_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.02


class StepFailed(Exception):
    """The service did not do what the demonstration expects; the message names the expectation."""


class StepReport:
    """Prints each step with the seconds since the start."""

    def __init__(self, clock: Clock, print_line: Callable[[str], None]) -> None:
        self.clock = clock
        self._print_line = print_line
        self._started = clock.monotonic()

    def add(self, text: str) -> None:
        self._print_line(f"{self.clock.monotonic() - self._started:6.2f} s  {text}")

    def check(self, is_true: bool, text: str) -> None:
        """Report the text as checked. Raise StepFailed if it is not true."""
        if not is_true:
            raise StepFailed(text)
        self.add(f"✓ {text}")

    async def wait_for(self, poll: Callable[[], Awaitable[Result | None]], expectation: str) -> Result:
        """Call `poll` until it returns a result. Raise StepFailed after STEP_TIMEOUT_SECONDS."""
        wait_until = self.clock.monotonic() + STEP_TIMEOUT_SECONDS
        while self.clock.monotonic() < wait_until:
            result = await poll()
            if result is not None:
                return result
            await self.clock.sleep(POLL_SECONDS)
        raise StepFailed(f"{expectation}, within {STEP_TIMEOUT_SECONDS:g} s")


@asynccontextmanager
async def open_client(base_url: str, credential: str = "") -> AsyncIterator["Client"]:
    headers = {"Authorization": credential} if credential else {}
    async with aiohttp.ClientSession(base_url, headers=headers) as session:
        yield Client(session)


class Client:
    """A client of the REST API. Raises StepFailed for any response but the expected one."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def get(self, path: str, **query: str) -> Any:
        return await self._request("GET", path, 200, params=query)

    async def post(self, path: str, **body: Any) -> Any:
        return await self._request("POST", path, 201, json=body)

    async def _request(self, method: str, path: str, expected: int, **options: Any) -> Any:
        try:
            async with self._session.request(method, path, **options) as response:
                answer = await response.json()
                if response.status != expected:
                    raise StepFailed(f"{method} {path} returns {expected}, got {response.status}: {answer}")
                return answer
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise StepFailed(f"{method} {path} returns JSON: {error!r}") from error


@dataclass(frozen=True, slots=True)
class DemoAgent:
    """The agent of the demonstration, with clients of its organization and of the operator."""

    report: StepReport
    id: str
    api: Client
    operator: Client

    async def runs(self) -> list[Json]:
        return list(await self.api.get(f"/api/cloud/agents/{self.id}/runs/"))

    async def snapshot(self) -> Json:
        return dict(await self.operator.get(f"/status/supervisors/{self.id}/"))

    async def ended_run(self, number: int) -> Json:
        """Wait until the agent's run of this number (from 1) has ended, and return it."""

        async def poll() -> Json | None:
            runs = await self.runs()
            return runs[-number] if len(runs) >= number and runs[-number]["ended_at"] else None

        return await self.report.wait_for(poll, f"run {number} of the agent ends")


async def demo(config: Config, *, keep: bool, print_line: Callable[[str], None]) -> int:
    """Run the demonstration on a temporary instance and return the exit code; `keep` leaves it running."""
    end = end_on_signals()
    report = StepReport(SystemClock(), print_line)
    with TemporaryDirectory(prefix="hostsvc-demo-") as directory:
        # PostgreSQL, which cannot run as root, passes through the directory to its data.
        os.chmod(directory, 0o711)  # noqa: S103 -- nobody lists it
        private = Config(
            server=ServerSettings(port=0), database=DatabaseChoice(data_dir=Path(directory)), log=config.log
        )
        async with open_service(private, end) as service:
            if service is None:
                return 0
            report.add(f"a temporary instance with an empty PostgreSQL serves on {service.base_url}")
            steps = asyncio.create_task(_show_main_job(service, report), name="demo steps")
            await first_of(steps, end.requested.wait())
            try:
                key = await steps
            except asyncio.CancelledError:  # the end was requested
                return 0
            except StepFailed as error:
                report.add(f"✗ not as promised: {error}")
                return 1
            if keep:
                print_line(_addresses(service, key))
                await end.requested.wait()
        return 0


def _addresses(service: Service, key: str) -> str:
    return (
        "\nThe instance runs until Ctrl-C; its data is then deleted.\n"
        f"  curl -s {service.base_url}/api/cloud/agents/ -H 'Authorization: Bearer {key}'\n"
        f"  curl -s {service.base_url}/status/ -H 'Authorization: Bearer {service.operator_token}'"
    )


async def _show_main_job(service: Service, report: StepReport) -> str:
    """Show every step and return the API key that was created on the way."""
    key = await _sign_up(service.base_url, report)
    async with (
        open_client(service.base_url, f"Bearer {key}") as api,
        open_client(service.base_url, f"Bearer {service.operator_token}") as operator,
    ):
        agent = DemoAgent(report, await _create_agent(api, report), api, operator)
        texts = await _send_texts(agent)
        run = await _check_one_wake(agent, texts)
        await _check_sleep(agent, run)
        await _check_reminder(agent)
        await _check_trace(agent, run)
        await _check_status(agent)
    return key


async def _sign_up(base_url: str, report: StepReport) -> str:
    async with open_client(base_url) as anybody:
        account = await anybody.post(
            "/api/organizations/auth/signup/",
            email="ada@example.org",
            password="correct horse battery staple",  # noqa: S106 - of an instance that exists for seconds
            organization_name="Example",
        )
    report.add(f"signed up {account['user']['email']}, organization {account['organization']['name']}")
    async with open_client(base_url, f"Token {account['token']}") as user:
        key = await user.post("/api/organizations/api-keys/", name="demo")
    report.add(f"created the API key {key['prefix']}… with the token from the sign-up")
    return str(key["key"])


async def _create_agent(api: Client, report: StepReport) -> str:
    template = await api.post("/api/templates/", name="Support", debounce_window_seconds=WINDOW_SECONDS)
    report.add(f"created a template with a debounce window of {WINDOW_SECONDS} s")
    agent = await api.post(
        "/api/cloud/agents/",
        name="Grace",
        model="builtin/inbox",
        template=template["id"],
        max_sleep_hours=MAX_SLEEP_HOURS,
    )
    report.check(agent["status"] == "sleeping", f"the agent {agent['name']} exists, and it sleeps")
    return str(agent["id"])


async def _send_texts(agent: DemoAgent) -> list[Json]:
    """Send inbound texts at an even pace. Each restarts the debounce window."""
    report = agent.report
    started = report.clock.monotonic()
    sent = []
    for number, text in enumerate(TEXTS):
        await report.clock.sleep(started + number * TEXT_INTERVAL_SECONDS - report.clock.monotonic())
        sent.append(
            await agent.api.post(
                "/api/defaults/notifications/",
                agent=agent.id,
                source="sms",
                title="New sms from Bob",
                body=text,
                priority="high",
            )
        )
        report.add(f"a text comes in: “{text}”")
    snapshot = await agent.snapshot()
    report.check(snapshot["phase"] == "holding", f"the agent holds: “{snapshot['why']}”")
    return sent


async def _check_one_wake(agent: DemoAgent, texts: Sequence[Json]) -> Json:
    run = await agent.ended_run(1)
    held = (_parse(run["started_at"]) - _parse(texts[-1]["created_at"])).total_seconds()
    agent.report.check(
        0 <= held - WINDOW_SECONDS <= LATENESS_LIMIT_SECONDS,
        f"it woke {held:.3f} s after the last text, because of {run['wake_reason']}",
    )
    agent.report.check(
        set(run["notifications"]) == {text["id"] for text in texts} and len(await agent.runs()) == 1,
        f"one wake for {len(texts)} texts",
    )
    uncleared = await agent.api.get("/api/defaults/notifications/", agent=agent.id, cleared="false")
    agent.report.check(not uncleared, f"it listed and cleared all {len(texts)} in {run['turns']} turns")
    return run


async def _check_sleep(agent: DemoAgent, run: Json) -> None:
    body = await agent.api.get(f"/api/cloud/agents/{agent.id}/")
    cap = _parse(run["started_at"]) + timedelta(hours=MAX_SLEEP_HOURS)
    agent.report.check(
        run["outcome"] == "slept" and body["status"] == "sleeping" and _parse(body["sleep_until"]) == cap,
        f"sleep was granted, clamped from “until woken” to the cap of {MAX_SLEEP_HOURS} h: {cap:%F %T} UTC",
    )


async def _check_reminder(agent: DemoAgent) -> None:
    due_at = agent.report.clock.now() + timedelta(seconds=REMINDER_SECONDS)
    await agent.api.post(
        "/api/defaults/notifications/",
        agent=agent.id,
        title="Ask the carrier about order 4711",
        priority="high",
        scheduled_for=due_at.isoformat(),
    )
    agent.report.add(f"a reminder is set for {due_at:%T.%f} UTC, in {REMINDER_SECONDS:g} s")
    run = await agent.ended_run(2)
    late = (_parse(run["started_at"]) - due_at).total_seconds()
    agent.report.check(
        run["wake_reason"] == "reminder" and 0 <= late <= LATENESS_LIMIT_SECONDS,
        f"the reminder woke it {late * 1000:.1f} ms after its time",
    )


async def _check_trace(agent: DemoAgent, run: Json) -> None:
    trace = await agent.api.get(f"/api/tracing/traces/{run['trace']}/")
    spans = trace["spans"]
    agent.report.check(
        bool(spans) and trace["ended_at"] is not None,
        f"the first run left a trace of {trace['total_spans']} spans: {trace['name']}",
    )
    for line in span_tree(spans, None):
        agent.report.add(f"  {line}")


def span_tree(spans: Sequence[Json], parent: str | None, indent: str = "") -> list[str]:
    """Return the spans below `parent` as indented lines, each with its duration."""
    lines = []
    for span in spans:
        if span["parent"] == parent:
            lines.append(f"{indent}{span['name']}  {span['duration_ms']} ms")
            lines += span_tree(spans, span["id"], indent + "   ")
    return lines


async def _check_status(agent: DemoAgent) -> None:
    snapshot = await agent.snapshot()
    agent.report.check(
        snapshot["phase"] == "asleep" and bool(snapshot["why"]), f"the status says: “{snapshot['why']}”"
    )


def _parse(text: str) -> datetime:
    return datetime.fromisoformat(text)
