"""The screen of a run or a trace, as a user sees it."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from tests.acceptance.client import Client
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.acceptance.test_live_text import MODEL, Writer, writing
from tests.console.accessibility import violations
from tests.console.visits import Console, Person, press

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
HOSTILE = "<b onclick=alert(1)>look_up</b> \u202egnp"
CHAT = {
    "gen_ai.usage.input_tokens": 1200,
    "gen_ai.usage.output_tokens": 34,
    "hostsvc.usage.cost_usd": 0.5,
    "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "Where is it?"}]}],
    "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "In Graz."}]}],
}
TOOL = {
    "gen_ai.tool.call.arguments": '{"number": 4711}',
    "gen_ai.tool.call.result": {"place": "the depot in Linz"},
}


@dataclass
class SlowWriter(Writer):
    """A model that waits for the test before each further word."""

    words_allowed: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def wait(self) -> None:
        await self.words_allowed.acquire()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def model(browser: Browser) -> AsyncIterator[SlowWriter]:
    async with writing(SlowWriter()) as model:
        yield model


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console_service(model: SlowWriter, module_services: Services) -> ServiceProcess:
    """A service with a model that writes, and then waits for the test."""
    return await module_services.start(**{"models.openai": {"base_url": model.url, "stream": True}})


async def write_trace(client: Client, *spans: Mapping[str, Any], **trace: Any) -> str:
    """Write a trace with these spans; `of` names the parent of one, and `at` its start in seconds."""
    agent = await client.create_agent(timezone="UTC")
    trace_id: str = (
        await client.post("/api/tracing/traces/", agent=agent, started_at=START.isoformat(), **trace)
    )["id"]
    ids = {span["name"]: str(uuid4()) for span in spans}
    for span in spans:
        at, seconds = span.get("at", 0), span.get("seconds", 1)
        end = None if seconds is None else (START + timedelta(seconds=at + seconds)).isoformat()
        kept = {key: span[key] for key in ("name", "span_type", "error", "metadata") if key in span}
        places = {"id": ids[span["name"]], "parent": ids.get(span.get("of", ""))}
        times = {"started_at": (START + timedelta(seconds=at)).isoformat(), "ended_at": end}
        await client.post("/api/tracing/spans/", trace=trace_id, **places, **times, **kept)
    return trace_id


async def tree(client: Client) -> str:
    return await write_trace(
        client,
        {"name": "night", "span_type": "agent", "seconds": 9},
        {"name": "first", "of": "night", "at": 0.5, "seconds": 3},
        {"name": "chat", "of": "first", "span_type": "llm", "at": 1, "metadata": CHAT},
        {"name": HOSTILE, "of": "first", "span_type": "tool", "at": 2, "error": "dark", "metadata": TOOL},
        {"name": "second", "of": "night", "at": 4, "seconds": 5},
        {"name": "dear", "of": "second", "at": 5, "metadata": {"hostsvc.usage.cost_usd": 2.25}},
        name="Night shift",
    )


async def expect_rows(page: Page, *names: str) -> None:
    rows = page.get_by_role("treeitem")
    await expect(rows).to_have_count(len(names))
    await expect(rows).to_contain_text(list(names))


def section(page: Page, title: str) -> Locator:
    return page.locator("section", has=page.get_by_role("heading", name=title))


async def test_run_is_followed_from_wake_to_end(console: Console, person: Person, model: SlowWriter) -> None:
    agent = await person.client.create_agent(name="Clerk", model=MODEL, system_prompt="Be kind.")
    await person.client.notify(agent, "Parcel 4711 is late")
    run = (await person.client.supervisor_in("running", agent))["run"]["id"]
    page = await console.open(f"/agents/{agent}/runs/{run}", person)

    await expect(page.get_by_text("under way")).to_be_visible()
    await expect(page.get_by_text("It is still running.")).to_be_visible()
    await expect(section(page, "What woke it")).to_contain_text("Parcel 4711 is late")
    chat = page.get_by_role("treeitem").filter(has_text="chat gpt-4o")
    await expect(chat).to_contain_text("open")
    model.words_allowed.release()
    await expect(section(page, "Turn 1: the model writes")).to_contain_text("Ada. ")
    for _ in range(1000):
        model.words_allowed.release()

    await expect(section(page, "Final output")).to_contain_text("Hello, Ada. Tea?")
    await expect(section(page, "What it left uncleared")).to_contain_text("Parcel 4711 is late")
    await expect(page.get_by_text("under way")).to_have_count(0)
    await expect(chat.first).not_to_contain_text("open")
    await chat.first.dblclick()
    detail = page.get_by_label("Step", exact=True)
    await expect(detail.get_by_role("listitem").filter(has_text="Hello, Ada. Tea?")).to_be_visible()
    await detail.get_by_text("System instructions").click()
    await expect(detail).to_contain_text("Be kind.")
    assert await violations(page) == []


async def test_waterfall_is_read_by_keyboard(console: Console, person: Person) -> None:
    page = await console.open(f"/traces/{await tree(person.client)}", person)
    await expect_rows(page, "night", "first", "chat", "<b onclick=alert(1)>look_up</b>", "second", "dear")
    await expect(page.get_by_role("status").filter(has_text="6 steps")).to_be_visible()
    chat = page.get_by_role("treeitem").filter(has_text="chat")
    await expect(chat).to_contain_text("1.2K")
    await expect(chat).to_contain_text("$0.50")

    await press(page, "ArrowDown", "ArrowRight", "ArrowLeft")
    await expect_rows(page, "night", "first", "second", "dear")
    first = page.get_by_role("treeitem").filter(has_text="first")
    await expect(first).to_have_attribute("aria-expanded", "false")
    await press(page, "ArrowDown", "z")
    await expect_rows(page, "night", "second", "dear")
    await press(page, "z", "f")
    failed = page.get_by_role("treeitem").filter(has_text="look_up")
    await expect(failed).to_have_attribute("aria-selected", "true")
    await press(page, "Enter")
    detail = page.get_by_label("Step", exact=True)
    for text in ("dark", "4711", "the depot in Linz", "U+202E"):
        await expect(detail).to_contain_text(text)
    await press(page, "Escape", "$")
    await expect_rows(page, "dear", "chat", "night", "first", "look_up", "second")
    await press(page, "$")
    await expect_rows(page, "night", "first", "chat", "look_up", "second", "dear")


async def test_address_of_a_step_leads_back_to_it(console: Console, person: Person) -> None:
    spans = [{"name": f"step {number}", "at": number} for number in range(200)]
    trace = await write_trace(person.client, *spans, name="Long")
    first = await console.open(f"/traces/{trace}", person)
    await first.locator(".run-rows").focus()
    await press(first, "End", "Enter")
    await expect(first).to_have_url(re.compile("(?=.*detail=1)(?=.*span=)"))

    page = await console.open(first.url.partition("/console")[2], person)

    await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("step 199")
    await expect(page.get_by_role("treeitem", selected=True)).to_be_in_viewport()
    await expect(page.get_by_label("Step", exact=True)).to_contain_text("step 199")


async def test_metadata_with_the_name_of_a_method_is_shown(console: Console, person: Person) -> None:
    metadata = {"constructor": "told by the tenant", "input": "Hello"}
    trace = await write_trace(person.client, {"name": "odd", "metadata": metadata}, name="Odd")
    page = await console.open(f"/traces/{trace}", person)
    await page.locator(".run-rows").focus()
    await press(page, "Home", "Enter")
    await expect(page.get_by_label("Step", exact=True)).to_contain_text("told by the tenant")


async def test_open_trace_grows_while_it_is_shown(console: Console, person: Person) -> None:
    trace = await write_trace(person.client, {"name": "root", "seconds": None}, name="Open")
    page = await console.open(f"/traces/{trace}", person)
    await expect_rows(page, "root")

    await person.client.post("/api/tracing/spans/", trace=trace, name="new step")

    await expect_rows(page, "root", "new step")


async def test_unknown_run_is_told_in_a_sentence(console: Console, person: Person) -> None:
    console.allow_refusals(404)
    page = await console.open(f"/traces/{uuid4()}", person)
    await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
