"""The assistant of the guide remembers for days what it was told once, through restarts and a kill."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.openai_endpoint import Endpoint, Hangs, Json, Says, open_endpoint
from tests.paths import DOCS
from tests.receiver import Receiver, receiving
from tests.stepped_clock import SteppedClock

ADA = "+43 660 1234567"
DAY = timedelta(days=1)
TEXTS_A_DAY = 4
SMALL_TALK = "The weather is fine today, and I went for a long walk by the river. " * 16
MAX_TOKENS = 4000
SERVICE_BYTES_PER_TOKEN = 3  # as the service counts, for any language
REQUEST_TOKENS = 4_600  # of which 2,800 are the definitions of 23 tools
ENGLISH_BYTES_PER_TOKEN = 4  # as tokenizers count English and JSON, about


def example_model() -> Any:
    """Return the module of the model that the guide uses, which knows only what it is told."""
    spec = spec_from_file_location("example_model", DOCS / "example_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def play(body: Json) -> Says:
    """Answer as the example model does."""
    calls = example_model().next_calls(body["messages"])
    return Says(calls=[(name, json.dumps(arguments)) for name, arguments in calls])


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    return SteppedClock(tmp_path)


@pytest.fixture
async def stepped_services(
    directory: Path, database_url: str, clock: SteppedClock
) -> AsyncIterator[Services]:
    services = Services(directory, {"url": database_url}, clock.launch)
    yield services
    await services.close()


class Conversation:
    """The texts between a customer and an agent, over a service that is started again and again."""

    def __init__(self, services: Services, endpoint: Endpoint, gateway: Receiver) -> None:
        self._services = services
        self._endpoint = endpoint
        self._gateway = gateway
        self._service: ServiceProcess
        self._client: Client
        self._agent = ""

    async def begin(self, session: aiohttp.ClientSession, context_tokens: int) -> None:
        """Start the service, and create the agent with the gateway's tool."""
        await self._start()
        self._client = await sign_up(session, self._service.url)
        adapter = await self._client.post("/api/toolbox/adapters/", name="Gateway")
        tool = {"adapter": adapter["id"], "name": "Text", "handler": "channel:sms", "url": self._gateway.url}
        await self._client.post("/api/toolbox/tools/", **tool)
        template = await self._client.post("/api/templates/", name="Desk", context_tokens=context_tokens)
        self._agent = await self._client.create_agent(
            name="Vera", model="scripted/clerk", template=template["id"], adapters=[adapter["id"]]
        )

    async def text(self, body: str) -> str:
        """Send a text of the customer, and return the agent's answer once it sleeps again."""
        before = len(self._gateway.requests)
        await self._send(body)
        return await self._answer(before)

    async def text_before_kill(self, body: str) -> str:
        """Kill the service while the model thinks about a text; return the answer after the next start."""
        before, calls = len(self._gateway.requests), len(self._endpoint.calls)
        self._endpoint.acts = [Hangs()]
        await self._send(body)
        await self._endpoint.called(calls + 1)
        await self._service.kill()
        await self._start_again()
        return await self._answer(before)

    async def text_during_run(self, body: str, later: str) -> tuple[list[str], Json]:
        """Send `later` while the model clears `body`. Return the answers, and the agent's last run."""
        before = len(self._gateway.requests)
        is_sent = False

        async def send_later(request: Json) -> Says:
            nonlocal is_sent
            says = play(request)
            if says.calls[0][0] == "clear_notification" and not is_sent:
                is_sent = True
                await self._send(later)
            return says

        self._endpoint.otherwise = send_later
        await self._send(body)
        received = await self._gateway.wait_for(before + 2)
        await eventually(self._is_asleep, "the agent to sleep")
        answers = [each.data["arguments"]["body"] for each in received[before:]]
        return answers, (await self._client.runs(self._agent))[-1]

    async def restart(self) -> None:
        self._service.terminate()
        assert await self._service.exit_code() == 0
        await self._start_again()

    async def _start(self) -> None:
        models = {"base_url": self._endpoint.url}
        self._service = await self._services.start(
            outbound={"allow_private": True}, **{"models.scripted": models}
        )

    async def _start_again(self) -> None:
        await self._start()
        self._client = self._client.at(self._service.url)

    async def _send(self, body: str) -> None:
        message = {"agent": self._agent, "channel": "sms", "direction": "inbound", "from": ADA, "body": body}
        await self._client.post("/api/defaults/messages/", **message)

    async def _answer(self, before: int) -> str:
        received = await self._gateway.wait_for(before + 1)
        await eventually(self._is_asleep, "the agent to sleep")
        assert len(self._gateway.requests) == before + 1
        answer: str = received[before].data["arguments"]["body"]
        return answer

    async def _is_asleep(self) -> bool | None:
        snapshot = await self._client.supervisor(self._agent)
        return snapshot["phase"] == "asleep" or None


async def talk_for_nine_days(conversation: Conversation, clock: SteppedClock) -> str:
    """Tell a fact on the first day, and ask for it on the ninth; return the last answer."""
    answer = await conversation.text("My bike is a green Brompton.")
    assert answer == "Noted: your bike is a green Brompton."
    for day in range(2, 9):
        clock.set((day - 1) * DAY)
        for number in range(TEXTS_A_DAY):
            answer = await conversation.text(f"{day}.{number} {SMALL_TALK}")
            assert answer == "Thank you for the message."
        if day in (3, 7):
            await conversation.restart()
        if day == 5:
            answer = await conversation.text_before_kill("My lock is an Abus.")
            assert answer == "Noted: your lock is an Abus."
    clock.set(8 * DAY)
    return await conversation.text("Which bike is mine, and which lock?")


@pytest.mark.parametrize(
    "context_tokens",
    [pytest.param(0, id="default", marks=pytest.mark.long), pytest.param(800, id="few tokens")],
)
async def test_fact_of_the_first_day_is_used_on_the_ninth(
    stepped_services: Services,
    session: aiohttp.ClientSession,
    clock: SteppedClock,
    capsys: pytest.CaptureFixture[str],
    context_tokens: int,
) -> None:
    async with open_endpoint() as endpoint, receiving() as gateway:
        endpoint.otherwise = play
        conversation = Conversation(stepped_services, endpoint, gateway)
        await conversation.begin(session, context_tokens)
        answer = await talk_for_nine_days(conversation, clock)

    assert answer == "Your lock is an Abus. Your bike is a green Brompton."
    bodies = [call.body for call in endpoint.calls]
    last_wake = next(body for body in reversed(bodies) if len(body["messages"]) == 2)
    assert "Which bike is mine" in last_wake["messages"][1]["content"]
    assert "Brompton" not in json.dumps(last_wake), "only the memory has it"
    context = max(len(body["messages"][1]["content"].encode()) for body in bodies)
    assert context <= (context_tokens or MAX_TOKENS) * SERVICE_BYTES_PER_TOKEN
    request = max(len(json.dumps(body)) for body in bodies)
    if context_tokens:  # then even everything fits: instruction, tools, context, calls and results
        assert request <= REQUEST_TOKENS * ENGLISH_BYTES_PER_TOKEN
    with capsys.disabled():
        print(  # noqa: T201
            f"\nthe longest first message had {context} bytes, "
            f"the longest request, with {len(last_wake['tools'])} tools, {request}"
        )


async def test_text_that_comes_during_a_run_is_answered_in_it(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint() as endpoint, receiving() as gateway:
        conversation = Conversation(services, endpoint, gateway)
        await conversation.begin(session, context_tokens=0)
        answers, run = await conversation.text_during_run("My bike is a Gazelle.", "Which bike is mine?")
    assert answers == ["Noted: your bike is a Gazelle.", "Your bike is a Gazelle."]
    assert (run["outcome"], run["turns"]) == ("slept", 9)
    assert run["wake_reason"] == "notification:sms"
    assert run["journal"]["cleared_count"] == 2
