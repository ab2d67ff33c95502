"""The panel Rewind: a day as it was, and as it would have been under other settings."""

from datetime import UTC, datetime

from playwright.async_api import expect

from tests.console.accessibility import violations
from tests.console.visits import Console, Person


async def test_day_is_shown_as_it_was_and_under_other_settings(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Grace", model="builtin/inbox", timezone="UTC")
    await person.client.notify(agent, priority="high", source="sms")
    page = await console.open(f"/agents/{agent}/rewind", person)
    await expect(page.get_by_text("asleep", exact=True).first).to_be_visible()

    await page.get_by_label("Day", exact=True).fill(f"{datetime.now(UTC):%Y-%m-%d}")
    await page.get_by_label("Debounce window in seconds").fill("36000")
    await page.get_by_role("button", name="Rewind").click()

    answer = page.locator(".what-answer")
    await expect(answer).to_contain_text("1 wake is 0")
    await expect(answer.locator("svg")).to_have_count(2)
    await expect(answer.locator(".rewind-run")).to_have_count(1)
    assert await violations(page) == []
