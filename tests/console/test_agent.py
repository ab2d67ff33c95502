"""The screen of one agent: its day lane, its queue and its runs, as a user sees them."""

import asyncio
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg
import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.acceptance.services import Services
from tests.console.visits import Console, Person, press

HOUR = timedelta(hours=1)
TOKYO = ZoneInfo("Asia/Tokyo")  # has no days of 23 or 25 hours
NOTIFICATIONS = "/api/defaults/notifications/"
INSERT = """
INSERT INTO event (at, type, organization_id, agent_id, phase, data)
SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::json[])
"""
AGE = "UPDATE agent SET created_at = created_at - interval '90 days' WHERE id = $1"
NO_BUDGET = "Over its budget of 5 USD a day; it starts no run before the next day, unless the cap is raised."

Change = tuple[datetime, str, str]


async def write_past(services: Services, person: Person, agent_id: str, changes: Sequence[Change]) -> None:
    """Write changes of an agent's phase into the log, each with the sentence of its time."""
    connection = await asyncpg.connect(services.database["url"])
    organization, agent = UUID(person.organization["id"]), UUID(agent_id)
    rows = [
        (at, f"agent.{phase}", organization, agent, phase, json.dumps({"from": "asleep", "why": why}))
        for at, phase, why in changes
    ]
    await connection.execute(AGE, agent)
    await connection.execute(INSERT, *zip(*rows, strict=True))
    await connection.close()


def detail(page: Page) -> Locator:
    return page.locator(".lane-detail")


async def test_lane_leads_to_why_it_did_not_wake_last_night(
    console: Console, person: Person, module_services: Services
) -> None:
    agent = await person.client.create_agent(name="Night clerk", timezone="Asia/Tokyo")
    today = datetime.now(TOKYO).replace(hour=0, minute=0, second=0, microsecond=0)
    night = (today - timedelta(days=1)).replace(hour=2)
    changes = [
        (night, "over_budget", NO_BUDGET),
        (night + 4 * HOUR, "asleep", "Asleep until something comes."),
    ]
    await write_past(module_services, person, agent, changes)
    page = await console.open(f"/agents/{agent}", person)

    await page.get_by_role("button", name="Yesterday").click()
    await expect(detail(page)).to_contain_text("Asleep until something comes.")
    await expect(detail(page)).to_contain_text("06:00:00 \u2013 after ")
    await press(page, "ArrowLeft")

    await expect(detail(page)).to_contain_text("over budget")
    await expect(detail(page)).to_contain_text(f"{night:%Y-%m-%d} 02:00:00 \u2013 06:00:00 · 4 h")
    await expect(detail(page)).to_contain_text(NO_BUDGET)
    await expect(page.get_by_role("option", name="over budget")).to_contain_text(NO_BUDGET)
    await expect(page).to_have_url(re.compile("[?&]at="))
    await page.reload()
    await expect(detail(page)).to_contain_text(NO_BUDGET)


async def test_lane_and_sentence_follow_a_wake_without_reload(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(debounce_window_seconds=600)
    page = await console.open(f"/agents/{agent}", person)
    await expect(page.get_by_role("heading", level=1)).to_contain_text("asleep")

    await page.get_by_label("Text", exact=True).fill("Where is my parcel?")
    await page.get_by_role("button", name="Send it a text").click()

    await expect(page.locator(".agent-why")).to_contain_text("for the conversation to pause")
    await expect(page.get_by_text("Keeps it awake")).to_be_visible()
    await page.get_by_role("button", name="Run now").click()
    await expect(page.locator(".agent-why")).to_contain_text("Asleep")
    await page.get_by_text("As a table").click()
    table = page.get_by_role("region", name="What happened")
    for word in ("message received", "notification", "holding", "running", "asleep"):
        await expect(table.get_by_role("cell", name=word, exact=True).first).to_be_visible()
    assert page.url.endswith(agent)


async def test_keys_step_zoom_and_change_the_day(
    console: Console, person: Person, module_services: Services
) -> None:
    agent = await person.client.create_agent(timezone="UTC")
    noon = (datetime.now(UTC) - timedelta(days=2)).replace(hour=12, minute=0, second=0, microsecond=0)
    changes = [
        (noon + HOUR * index, "holding" if index % 2 else "asleep", f"Step {index}.") for index in range(4)
    ]
    await write_past(module_services, person, agent, changes)
    page = await console.open(f"/agents/{agent}?day={noon:%Y-%m-%d}&at={noon:%Y-%m-%dT%H:%M:%SZ}", person)
    await expect(detail(page)).to_contain_text("Step 0.")

    for key, sentence in (("ArrowRight", "Step 1."), ("End", "Step 3."), ("ArrowLeft", "Step 2.")):
        await press(page, key)
        await expect(detail(page)).to_contain_text(sentence)
    await press(page, "+")
    await expect(page).to_have_url(re.compile("[?&]from="))
    await press(page, "0")
    await expect(page).not_to_have_url(re.compile("[?&]from="))
    await press(page, "]")
    day = page.get_by_label("Day", exact=True)
    await expect(day).to_have_value(f"{noon + timedelta(days=1):%Y-%m-%d}")
    await expect(detail(page)).to_contain_text("Step 3.")
    await press(page, "ArrowLeft")
    await expect(day).to_have_value(f"{noon:%Y-%m-%d}")
    await expect(detail(page)).to_contain_text("Step 3.")


async def test_arrow_key_keeps_the_day_while_it_is_read(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(timezone="UTC")
    page = await console.open("/nowhere", person)
    is_pressed = asyncio.Event()

    async def hold(route: Route) -> None:
        await is_pressed.wait()
        await route.continue_()

    await page.route("**/timeline/**", hold)
    await page.goto(f"{console.url}/console/agents/{agent}")
    await expect(page.get_by_label("Day", exact=True)).to_be_visible()
    await press(page, "ArrowLeft")
    is_pressed.set()
    await expect(page.get_by_role("option", name="asleep")).to_have_count(1)
    await expect(page).to_have_url(f"{console.url}/console/agents/{agent}")


async def test_nonsense_in_the_address_shows_today(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(timezone="UTC")
    for query in (
        "day=0000-01-01&days=31&at=x&from=y&item=%00",
        "day=1&days=9&at=275760-09-12T00:00:00Z&to=1",
    ):
        page = await console.open(f"/agents/{agent}?{query}", person)
        await expect(page.get_by_label("Day", exact=True)).to_have_value(f"{datetime.now(UTC):%Y-%m-%d}")
        await expect(page.get_by_role("option", name="asleep")).to_have_count(1)


DAYS = (
    ("Europe/Vienna", "2026-10-25", 25),
    ("Europe/Vienna", "2026-03-29", 23),
    ("America/New_York", "2026-11-01", 25),
    ("Africa/Cairo", "2026-04-24", 23),  # midnight is left out
    ("Asia/Beirut", "2026-10-24", 25),  # the hour before midnight comes twice
    ("Australia/Lord_Howe", "2026-04-05", 24.5),
    ("Asia/Kathmandu", "2026-10-25", 24),
)
READ_DAY = """async ([day, zone]) => {
    const assets = document.querySelector("link[rel=modulepreload]").href.split("/app/")[0];
    const days = await import(assets + "/app/screens/agent/lane_day.js");
    const lane = days.dayLane(day, zone, true);
    const instants = [6, 12, 18].map((hour) => lane.start + hour * 3_600_000);
    return {...lane, columns: instants.map((at) => [at, days.columnAt(lane, at)])};
}"""


async def test_days_have_the_hours_of_their_zone(console: Console, person: Person) -> None:
    page = await console.open("/nowhere", person)

    for zone, day, hours in DAYS:
        lane = await page.evaluate(READ_DAY, [day, zone])

        began, before = (datetime.fromtimestamp(lane["start"] / 1000 - ago, ZoneInfo(zone)) for ago in (0, 1))
        assert (zone, lane["hours"], f"{began:%Y-%m-%d}") == (zone, hours, day)
        assert before.date() < began.date()
        for at, column in lane["columns"]:
            local = datetime.fromtimestamp(at / 1000, ZoneInfo(zone))
            assert column == pytest.approx(local.hour + local.minute / 60), (
                "an hour has one column in all days"
            )


async def test_crowded_month_is_drawn_with_few_elements(
    console: Console, person: Person, module_services: Services
) -> None:
    agent = await person.client.create_agent(timezone="UTC")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = today - timedelta(days=15)
    phases = ("asleep", "holding")
    changes = [(start + timedelta(seconds=15 * index), phases[index % 2], "Step.") for index in range(3900)]
    await write_past(module_services, person, agent, changes)

    middle = start + 10 * HOUR
    page = await console.open(
        f"/agents/{agent}?days=31&at={middle:%Y-%m-%dT%H:%M:%SZ}&day={today:%Y-%m-%d}", person
    )

    await expect(detail(page)).to_contain_text("Step.")
    assert await page.locator(".lane-day").count() == 31
    assert await page.locator(".lane-box *").count() < 700


async def test_too_busy_period_offers_shorter_ones(
    console: Console, person: Person, module_services: Services
) -> None:
    agent = await person.client.create_agent(timezone="UTC")
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
    phases = ("asleep", "holding")
    changes = [(day + timedelta(seconds=15 * index), phases[index % 2], "Step.") for index in range(5000)]
    await write_past(module_services, person, agent, changes)

    middle = day + 10 * HOUR
    page = await console.open(
        f"/agents/{agent}?days=3&at={middle:%Y-%m-%dT%H:%M:%SZ}&day={day:%Y-%m-%d}", person
    )

    console.allow_refusals(400)
    await expect(page.get_by_role("alert")).to_contain_text("Choose an end up to ")
    await page.get_by_role("button", name="Show one day").click()
    await page.get_by_role("button", name="Show a shorter time").click()
    await expect(detail(page)).to_contain_text("Step.")
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_queue_clears_with_undo_deletes_and_shows_reminders(console: Console, person: Person) -> None:
    agent = await person.client.create_agent()
    await person.client.post(NOTIFICATIONS, agent=agent, title="Weekly <b>figures</b>")
    soon = (datetime.now(UTC) + HOUR).isoformat()
    await person.client.post(
        NOTIFICATIONS, agent=agent, title="Call Ann", priority="high", scheduled_for=soon
    )
    page = await console.open(f"/agents/{agent}/queue", person)
    waiting = page.get_by_role("listitem").filter(has_text="Weekly <b>figures</b>")

    await expect(page.get_by_role("listitem").filter(has_text="Call Ann")).to_contain_text("in ")
    await waiting.get_by_role("button", name="Clear").click()
    await expect(waiting.filter(has_text="cleared")).to_be_visible()
    await expect(waiting).to_have_count(1)
    await page.get_by_role("button", name="Undo").click()
    await expect(waiting.filter(has_text="cleared")).to_have_count(0)
    await expect(waiting.get_by_role("button", name="Clear")).to_be_visible()
    await waiting.get_by_role("button", name="Delete").click()
    await waiting.get_by_role("button", name="Delete").click()
    await expect(waiting).to_have_count(0)


async def test_text_has_no_sender_until_one_was_typed(console: Console, person: Person) -> None:
    agent = await person.client.create_agent()
    page = await console.open(f"/agents/{agent}/queue", person)
    sender = page.get_by_label("From")
    await expect(sender).to_have_value("")
    await sender.fill("+43 660 0000001")
    await page.get_by_label("Text").fill("Hello")
    await page.get_by_role("button", name="Send it a text").click()
    await expect(page.get_by_text("Sent.")).to_be_visible()
    await page.reload()
    await expect(sender).to_have_value("+43 660 0000001")


async def test_day_folds_on_other_tabs_and_begins_with_the_agent(console: Console, person: Person) -> None:
    agent = await person.client.create_agent()
    page = await console.open(f"/agents/{agent}/runs", person)
    lane = page.get_by_role("button", name="Yesterday")
    await expect(page.get_by_text("Asleep until")).to_be_visible()
    await expect(lane).to_have_count(0)
    await page.get_by_text("Asleep until").click()
    await lane.click()
    await expect(detail(page)).to_contain_text("did not exist yet")
    await page.get_by_role("link", name="Day", exact=True).click()
    await expect(lane).to_be_visible()


async def test_new_notification_enters_the_queue(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(timezone="Asia/Tokyo")
    page = await console.open(f"/agents/{agent}/queue", person)
    await page.get_by_role("button", name="New notification").click()
    console.allow_refusals(400)
    await page.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("dialog")).to_contain_text("This field may not be blank.")
    await page.get_by_label("Title").fill("Call Ann")
    await page.get_by_label("Due").fill("2126-11-24 09:00")
    await page.get_by_label("Priority").select_option("low")
    await expect(page.get_by_text("It will not wake the agent: its priority is low.")).to_be_visible()
    await page.get_by_label("Priority").select_option("high")
    await page.get_by_role("button", name="Add").click()

    await expect(page.get_by_role("listitem").filter(has_text="Call Ann")).to_contain_text("2126-11-24 09:00")
    [stored] = await person.client.get(NOTIFICATIONS, agent=agent)
    assert (stored["priority"], stored["scheduled_for"][:16]) == ("high", "2126-11-24T00:00")


async def test_runs_say_why_they_woke_and_are_filtered(console: Console, person: Person) -> None:
    agent = await person.client.create_agent()
    await person.client.post(NOTIFICATIONS, agent=agent, title="A parcel is lost", priority="high")
    await person.client.ended_run(agent)
    page = await console.open(f"/agents/{agent}/runs", person)

    row = page.get_by_role("list", name="Runs").get_by_role("listitem")
    await expect(row).to_contain_text("woken by a notification (API)")
    await expect(row).to_contain_text("A parcel is lost")
    await page.get_by_label("Outcome").select_option("failed")
    await expect(page.get_by_role("heading", name="No runs")).to_be_visible()
    await expect(page).to_have_url(re.compile("outcome=failed"))
