"""The panel What if: questions in the address, answers in words and on a line."""

import re

from playwright.async_api import expect

from tests.console.accessibility import violations
from tests.console.visits import Console, Person


async def test_five_texts_in_a_row_wake_it_once(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Grace", debounce_window_seconds=60)
    page = await console.open(f"/agents/{agent}/what-if", person)
    answer = page.locator(".what-answer")
    await expect(answer).to_contain_text("it wakes 60 s after the last message")

    await page.get_by_role("button", name="Five texts in a row").click()
    await expect(page.locator(".what-arrival")).to_have_count(5)
    await expect(page.locator(".what-wake")).to_have_count(1)
    await page.get_by_label("With a debounce window of").fill("5")
    await expect(answer).to_contain_text("it wakes 5 s after the last message")
    await expect(page).to_have_url(re.compile("window=5"))
    assert await violations(page) == []

    await page.reload()
    await expect(answer).to_contain_text("it wakes 5 s after the last message")
    assert (await person.client.runs(agent)) == []
    assert (await person.client.notifications(agent)) == []


async def test_answer_follows_what_happens_to_the_agent(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Grace", debounce_window_seconds=600)
    page = await console.open(f"/agents/{agent}/what-if?event=api", person)
    await expect(page.locator(".what-states")).to_contain_text("asleep")
    await person.client.notify(agent, priority="high", source="sms")
    await expect(page.locator(".what-states")).to_contain_text("holding")


async def test_refused_question_is_explained(console: Console, person: Person) -> None:
    console.allow_refusals(400)
    agent = await person.client.create_agent(name="Grace")
    page = await console.open(f"/agents/{agent}/what-if?at=2020-01-01T00:00", person)
    await expect(page.locator(".what-answer")).to_contain_text("This moment has passed")
