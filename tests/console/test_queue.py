"""The screen of the queue across agents, as a user sees it."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.async_api import Locator, Page, Route, expect

from tests.console.visits import Console, Person, press

NOTIFICATIONS = "/api/defaults/notifications/"


def rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Notifications").get_by_role("listitem")


def panel(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Notification")


async def notify(person: Person, agent: str, title: str, **fields: Any) -> str:
    created = await person.client.post(NOTIFICATIONS, agent=agent, title=title, **fields)
    return str(created["id"])


async def titles(page: Page) -> list[str]:
    return await rows(page).locator(".queue-open").all_inner_texts()


async def test_queue_shows_what_waits_at_all_agents(console: Console, person: Person) -> None:
    ada = await person.client.create_agent(name="Ada", status="archived")
    ben = await person.client.create_agent(name="Ben")
    await notify(person, ada, "A parcel is lost", priority="high", source="email")
    await notify(person, ben, "Report", source="system")
    done = await notify(person, ben, "Old report")
    await person.client.post(f"{NOTIFICATIONS}clear/", agent=ben, ids=[done])
    page = await console.open("/queue", person)

    await expect(rows(page)).to_have_count(2)
    assert await titles(page) == ["Report", "A parcel is lost"]
    await expect(rows(page).nth(1)).to_contain_text("Ada · e-mail")
    await page.get_by_label("State").select_option("all")
    await expect(rows(page)).to_have_count(3)
    await page.get_by_label("Source").select_option("email")
    await expect(rows(page)).to_have_count(1)
    await expect(page).to_have_url(re.compile(r"/queue\?state=all&source=email$"))
    await page.reload()
    await expect(rows(page)).to_have_count(1)
    await rows(page).get_by_role("link", name="Ada").click()
    await expect(page).to_have_url(re.compile(f"/console/agents/{ada}$"))


async def test_agent_is_filtered_by_its_name(console: Console, person: Person) -> None:
    ada, ben = [await person.client.create_agent(name=name) for name in ("Ada", "Ben")]
    for agent in (ada, ben):
        await notify(person, agent, "Report")
    page = await console.open("/queue", person)
    await press(page, "/")
    await page.keyboard.type("Be")
    option = page.locator("datalist option[value^='Ben']")
    await expect(option).to_have_count(1)
    await page.get_by_label("Agent", exact=True).fill(await option.get_attribute("value") or "")
    await expect(rows(page)).to_have_count(1)
    await expect(page).to_have_url(re.compile(f"agent={ben}"))
    await page.reload()
    await expect(page.get_by_label("Agent", exact=True)).to_have_value(re.compile("^Ben"))


async def test_field_may_close_before_the_agent_is_read(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Ada")
    page = await console.open("/nowhere", person)
    is_closed = asyncio.Event()

    async def hold(route: Route) -> None:
        await is_closed.wait()
        await route.continue_()

    await page.route("**/supervisors/**", hold)
    await page.goto(f"{console.url}/console/queue?agent={agent}&new=notification")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await press(page, "Escape")
    await expect(page.locator("dialog")).to_have_count(0)
    is_closed.set()
    await expect(page.get_by_label("Agent", exact=True)).to_have_value(re.compile("^Ada"))


async def test_notification_is_changed_in_its_panel(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Ada", status="archived", timezone="Asia/Tokyo")
    first = await notify(person, agent, "Call back", body="+43 1 <i>234</i>")
    console.allow_refusals(404)  # the page may read a change when the notification is deleted already
    page = await console.open("/queue", person, timezone_id="Europe/Vienna")
    await expect(rows(page)).to_have_count(1)

    await press(page, "j")
    await expect(page).to_have_url(re.compile(f"notification={first}"))
    await page.reload()
    await expect(panel(page)).to_contain_text("+43 1 <i>234</i>")
    await expect(panel(page).get_by_role("link", name="Ada")).to_be_visible()
    await panel(page).get_by_role("button", name="Raise to high").click()
    await expect(rows(page).get_by_text("high", exact=True)).to_be_visible()
    await panel(page).get_by_role("button", name="Reschedule").click()
    await panel(page).get_by_label("Due at").fill("2999-01-01 12:00")
    await panel(page).get_by_role("button", name="Set").click()
    await expect(panel(page)).to_contain_text("2999-01-01 20:00:00 GMT+9")
    stored = await person.client.get(f"{NOTIFICATIONS}{first}/")
    assert (stored["priority"], stored["scheduled_for"]) == ("high", "2999-01-01T11:00:00.000000Z")

    await panel(page).get_by_role("button", name="Delete").click()
    await panel(page).get_by_role("button", name="Delete").click()
    await expect(rows(page)).to_contain_text("deleted")
    await expect(panel(page)).to_have_count(0)


async def test_reminders_are_found_by_their_time(console: Console, person: Person) -> None:
    agent = await person.client.create_agent()
    later = (datetime.now(UTC) + timedelta(hours=23, minutes=30)).isoformat()
    await notify(person, agent, "Later", scheduled_for=later)
    await notify(person, agent, "Now")
    page = await console.open("/queue", person)
    await page.get_by_text("Times").click()
    await page.get_by_role("button", name="Reminders ahead").click()
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("due in 23 h")


async def test_row_under_the_pointer_changes_in_its_place(console: Console, person: Person) -> None:
    ada = await person.client.create_agent(name="Ada")
    report = await notify(person, ada, "Report")
    page = await console.open("/queue?state=all", person)
    await rows(page).first.hover()
    await person.client.patch(f"{NOTIFICATIONS}{report}/", title="Weekly report")
    await expect(rows(page)).to_contain_text(["Weekly report"])


async def test_written_notification_appears_without_a_reload(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Ada", status="archived")
    page = await console.open(f"/queue?agent={agent}", person)
    await expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    await notify(person, agent, "By another", priority="low")
    await expect(rows(page)).to_have_count(1)

    await press(page, "c")
    dialog = page.get_by_role("dialog", name="New notification")
    await dialog.get_by_label("Title").fill("By me")
    await dialog.get_by_role("button", name="Send").click()
    await expect(rows(page).first).to_contain_text("By me")
    [mine, _] = await person.client.get(NOTIFICATIONS)
    assert (mine["agent"], mine["source"], mine["priority"]) == (agent, "portal", "high")
