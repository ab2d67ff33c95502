"""The main job over HTTP, like any client: told as it happens, ended by the first broken promise."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from hostsvc.config import Config, DatabaseChoice, ServerSettings
from hostsvc.service import Service, open_service
from supervisors.clock import Clock, SystemClock

Found = TypeVar("Found")
Json = dict[str, Any]

WINDOW_SECONDS = 2
TEXTS = ("Are you there?", "The parcel has not come.", "Order 4711, in case you need it.")
TEXT_INTERVAL_SECONDS = 1.0
MAX_SLEEP_HOURS = 8
REMINDER_SECONDS = 3.0
LATENESS_LIMIT_SECONDS = 0.050
HOLD_TOLERANCE_SECONDS = 0.250
PATIENCE_SECONDS = 10.0
POLL_SECONDS = 0.02


class BrokenPromise(Exception):
    """The service did not do what the demo says it does."""


class Story:
    """Tells each step with the seconds since the beginning."""

    def __init__(self, clock: Clock, tell: Callable[[str], None]) -> None:
        self.clock = clock
        self._tell = tell
        self._began = clock.monotonic()

    def say(self, text: str) -> None:
        self._tell(f"{self.clock.monotonic() - self._began:6.2f} s  {text}")

    def promise(self, kept: bool, text: str) -> None:
        """Say what holds; raise `BrokenPromise` if it does not."""
        if not kept:
            raise BrokenPromise(text)
        self.say(f"✓ {text}")

    async def until(self, look: Callable[[], Awaitable[Found | None]], what: str) -> Found:
        """What `look` finds, asked again and again until it finds something."""
        given_up_at = self.clock.monotonic() + PATIENCE_SECONDS
        while self.clock.monotonic() < given_up_at:
            found = await look()
            if found is not None:
                return found
            await self.clock.sleep(POLL_SECONDS)
        raise BrokenPromise(f"{what}, within {PATIENCE_SECONDS:g} s")


class Client:
    """A client of the REST API; any answer but the expected one is a broken promise."""

    def __init__(self, base_url: str, credential: str = "") -> None:
        headers = {"Authorization": credential} if credential else {}
        self._session = aiohttp.ClientSession(base_url, headers=headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def get(self, path: str, **query: str) -> Any:
        return await self._ask("GET", path, 200, params=query)

    async def post(self, path: str, **body: Any) -> Any:
        return await self._ask("POST", path, 201, json=body)

    async def _ask(self, method: str, path: str, expected: int, **options: Any) -> Any:
        try:
            async with self._session.request(method, path, **options) as response:
                answer = await response.json()
                if response.status != expected:
                    raise BrokenPromise(
                        f"{method} {path} answers {expected}, not {response.status}: {answer}"
                    )
                return answer
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise BrokenPromise(f"{method} {path} is answered in JSON: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the story plays: one agent, its organization's client, and the operator's."""

    story: Story
    agent_id: str
    api: Client
    operator: Client

    async def runs(self) -> list[Json]:
        return list(await self.api.get(f"/api/cloud/agents/{self.agent_id}/runs/"))

    async def snapshot(self) -> Json:
        return dict(await self.operator.get(f"/status/supervisors/{self.agent_id}/"))

    async def ended_run(self, number: int) -> Json:
        """The agent's run of that number, once it is over."""

        async def look() -> Json | None:
            runs = await self.runs()
            return runs[-number] if len(runs) >= number and runs[-number]["ended_at"] else None

        return await self.story.until(look, f"run {number} of the agent ends")


async def demo(config: Config, *, keep: bool, tell: Callable[[str], None]) -> int:
    """Tell the main job at an instance that exists for it alone; the exit code. `keep` leaves it serving."""
    asked_to_end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_end.set)
    story = Story(SystemClock(), tell)
    with TemporaryDirectory(prefix="hostsvc-demo-") as directory:
        private = Config(
            server=ServerSettings(port=0), database=DatabaseChoice(data_dir=Path(directory)), log=config.log
        )
        async with open_service(private, tell, asked_to_end) as service:
            if service is None:
                return 0
            story.say(f"an instance with an empty PostgreSQL of its own serves on {service.base_url}")
            try:
                key = await _unless_asked_to_end(_tell_main_job(service, story), asked_to_end)
            except BrokenPromise as error:
                story.say(f"✗ not as promised: {error}")
                return 1
            if keep and key:
                tell(_addresses(service, key))
                await asked_to_end.wait()
        return 0


async def _unless_asked_to_end(telling: Coroutine[Any, Any, str], asked_to_end: asyncio.Event) -> str | None:
    told = asyncio.create_task(telling, name="the demo's story")
    asked = asyncio.create_task(asked_to_end.wait(), name="the demo is asked to end")
    await asyncio.wait({told, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if told.done():
        return told.result()
    told.cancel()
    await asyncio.wait({told})
    return None


def _addresses(service: Service, key: str) -> str:
    return (
        f"\nIt goes on serving until Ctrl-C; its data goes with it.\n"
        f"  curl -s {service.base_url}/api/cloud/agents/ -H 'Authorization: Bearer {key}'\n"
        f"  curl -s {service.base_url}/status/ -H 'Authorization: Bearer {service.operator_token}'"
    )


async def _tell_main_job(service: Service, story: Story) -> str:
    """Tell it all; the API key that was made on the way."""
    key = await _sign_up(service.base_url, story)
    async with (
        Client(service.base_url, f"Bearer {key}") as api,
        Client(service.base_url, f"Bearer {service.operator_token}") as operator,
    ):
        scene = Scene(story, await _make_agent(api, story), api, operator)
        texts = await _send_texts(scene)
        run = await _see_one_wake(scene, texts)
        await _see_it_sleep(scene, run)
        await _see_the_reminder(scene)
        await _show_trace(scene, run)
        await _show_status(scene)
    return key


async def _sign_up(base_url: str, story: Story) -> str:
    async with Client(base_url) as anybody:
        account = await anybody.post(
            "/api/organizations/auth/signup/",
            email="ada@example.org",
            password="correct horse battery staple",  # noqa: S106 - of an instance that lives for seconds
            organization_name="Example",
        )
    story.say(f"signed up {account['user']['email']}, organization {account['organization']['name']}")
    async with Client(base_url, f"Token {account['token']}") as user:
        key = await user.post("/api/organizations/api-keys/", name="demo")
    story.say(f"made the API key {key['prefix']}… with the token from the sign-up")
    return str(key["key"])


async def _make_agent(api: Client, story: Story) -> str:
    template = await api.post("/api/templates/", name="Support", debounce_window_seconds=WINDOW_SECONDS)
    story.say(f"made a template with a debounce window of {WINDOW_SECONDS} s")
    agent = await api.post(
        "/api/cloud/agents/",
        name="Grace",
        model="builtin/inbox",
        template=template["id"],
        max_sleep_hours=MAX_SLEEP_HOURS,
    )
    story.promise(agent["status"] == "sleeping", f"the agent {agent['name']} exists, and it sleeps")
    return str(agent["id"])


async def _send_texts(scene: Scene) -> list[Json]:
    """Inbound texts at an even pace, each resetting the window."""
    story = scene.story
    began = story.clock.monotonic()
    sent = []
    for number, text in enumerate(TEXTS):
        await story.clock.sleep(began + number * TEXT_INTERVAL_SECONDS - story.clock.monotonic())
        sent.append(
            await scene.api.post(
                "/api/defaults/notifications/",
                agent=scene.agent_id,
                source="sms",
                title="New sms from Bob",
                body=text,
                priority="high",
            )
        )
        story.say(f"a text comes in: “{text}”")
    snapshot = await scene.snapshot()
    story.promise(snapshot["phase"] == "holding", f"the agent holds: “{snapshot['why']}”")
    return sent


async def _see_one_wake(scene: Scene, texts: Sequence[Json]) -> Json:
    run = await scene.ended_run(1)
    held = _seconds(texts[-1]["created_at"], run["started_at"])
    scene.story.promise(
        0 <= held - WINDOW_SECONDS <= HOLD_TOLERANCE_SECONDS,
        f"it woke {held:.3f} s after the last text, because of {run['wake_reason']}",
    )
    scene.story.promise(
        set(run["notifications"]) == {text["id"] for text in texts} and len(await scene.runs()) == 1,
        f"one wake for {len(texts)} texts",
    )
    uncleared = await scene.api.get("/api/defaults/notifications/", agent=scene.agent_id, cleared="false")
    scene.story.promise(not uncleared, f"it listed and cleared all {len(texts)} in {run['turns']} turns")
    return run


async def _see_it_sleep(scene: Scene, run: Json) -> None:
    agent = await scene.api.get(f"/api/cloud/agents/{scene.agent_id}/")
    cap = _moment(run["started_at"]) + timedelta(hours=MAX_SLEEP_HOURS)
    scene.story.promise(
        run["outcome"] == "slept" and agent["status"] == "sleeping" and _moment(agent["sleep_until"]) == cap,
        f"sleep was granted, clamped from “until woken” to the cap of {MAX_SLEEP_HOURS} h: {cap:%F %T} UTC",
    )


async def _see_the_reminder(scene: Scene) -> None:
    due_at = scene.story.clock.now() + timedelta(seconds=REMINDER_SECONDS)
    await scene.api.post(
        "/api/defaults/notifications/",
        agent=scene.agent_id,
        title="Ask the carrier about order 4711",
        priority="high",
        scheduled_for=due_at.isoformat(),
    )
    scene.story.say(f"a reminder is set for {due_at:%T.%f} UTC, in {REMINDER_SECONDS:g} s")
    run = await scene.ended_run(2)
    late = (_moment(run["started_at"]) - due_at).total_seconds()
    scene.story.promise(
        run["wake_reason"] == "reminder" and 0 <= late <= LATENESS_LIMIT_SECONDS,
        f"the reminder woke it {late * 1000:.1f} ms after its time",
    )


async def _show_trace(scene: Scene, run: Json) -> None:
    trace = await scene.api.get(f"/api/tracing/traces/{run['trace']}/")
    spans = trace["spans"]
    scene.story.promise(
        bool(spans) and trace["ended_at"] is not None,
        f"the first run left a trace of {trace['total_spans']} spans: {trace['name']}",
    )
    for line in span_tree(spans, None):
        scene.story.say(f"  {line}")


def span_tree(spans: Sequence[Json], parent: str | None, indent: str = "") -> list[str]:
    """The spans below `parent` as indented lines, each with its duration."""
    lines = []
    for span in spans:
        if span["parent"] == parent:
            lines.append(f"{indent}{span['name']}  {span['duration_ms']} ms")
            lines += span_tree(spans, span["id"], indent + "   ")
    return lines


async def _show_status(scene: Scene) -> None:
    snapshot = await scene.snapshot()
    scene.story.promise(
        snapshot["phase"] == "asleep" and bool(snapshot["why"]), f"the status says: “{snapshot['why']}”"
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _seconds(begin: str, end: str) -> float:
    return (_moment(end) - _moment(begin)).total_seconds()
