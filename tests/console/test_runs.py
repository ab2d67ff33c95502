"""The runs of all agents."""

import re
from uuid import UUID

import asyncpg
from playwright.async_api import expect

from tests.acceptance.services import Services
from tests.console.visits import Console, Person, press

LEAVE_A_FAILURE = """
UPDATE run SET needs_person = true, failed_calls = 12,
    journal = jsonb_set(journal::jsonb, '{failed_count}', '12')::json
WHERE id = $1
"""
# The badges of a row that are cut off, or lie beyond it.
CUT_OFF = """
row => [...row.querySelectorAll(".badge, .phase")].filter(badge => {
    const [own, outer] = [badge.getBoundingClientRect(), row.getBoundingClientRect()];
    const at = document.elementFromPoint(own.right - 2, (own.top + own.bottom) / 2);
    return own.right > outer.right || badge.scrollWidth > badge.clientWidth || !badge.contains(at);
}).map(badge => badge.textContent)
"""
INSERT_RUN = """
INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome, journal)
SELECT gen_random_uuid(), id, organization_id, 'reminder', now(), now(), $2, $3 FROM agent WHERE id = $1
"""
JOURNAL = '{"woken_by": [], "tools": [], "sent_count": 1, "failed_count": 2, "cost_usd": 0}'


async def test_runs_of_all_agents_are_filtered_and_opened_by_keyboard(
    console: Console, person: Person
) -> None:
    ada = await person.client.create_agent(name="Ada")
    await person.client.notify(ada, "A parcel is lost")
    await person.client.ended_run(ada)
    page = await console.open("/runs", person)
    rows = page.get_by_role("list", name="Runs").get_by_role("listitem")
    await expect(rows).to_contain_text(["A parcel is lost"])
    await expect(rows).to_contain_text("slept again")
    ben = await person.client.create_agent(name="Ben")
    await person.client.notify(ben, "Tea?")
    await expect(rows.first).to_contain_text(re.compile("Ben.*slept again", re.DOTALL))
    await page.get_by_label("Outcome").select_option("failed")
    await expect(page.get_by_role("heading", name="No runs")).to_be_visible()
    await page.get_by_label("Outcome").select_option("")
    await expect(rows).to_have_count(2)
    await page.locator("h1").click()
    await press(page, "j", "j", "Enter")
    await expect(page).to_have_url(re.compile(f"/agents/{ada}/runs/"))
    step = page.get_by_role("treeitem").filter(has_text="list_notifications")
    await expect(step).not_to_contain_text("execute_tool")


async def test_run_that_needs_a_person_is_found_and_dismissed(
    console: Console, person: Person, module_services: Services
) -> None:
    agent = await person.client.create_agent(name="Ada")
    await person.client.notify(agent, "A parcel is lost")
    run = await person.client.ended_run(agent)
    connection = await asyncpg.connect(module_services.database["url"])
    await connection.execute(LEAVE_A_FAILURE, UUID(run["id"]))
    await connection.close()
    page = await console.open("/", person)
    await page.get_by_role("link", name="Runs").click()
    await page.get_by_label("Show").select_option("needs a person")
    row = page.get_by_role("list", name="Runs").get_by_role("listitem")
    await expect(row).to_contain_text(re.compile("needs a person.*12 failed calls.*12 not sent", re.DOTALL))
    for width in (1280, 800, 360):
        await page.set_viewport_size({"width": width, "height": 740})
        await page.reload()
        await expect(row).to_contain_text("12 not sent")
        assert await row.evaluate(CUT_OFF) == [], width
    await row.get_by_role("link").click()
    await page.get_by_role("button", name="Dismiss").click()
    await expect(page.get_by_text("Something failed in this run")).to_have_count(0)
    await page.go_back()
    await expect(page.get_by_role("heading", name="No runs")).to_be_visible()


async def test_outcomes_look_different_and_unsent_messages_are_marked(
    console: Console, person: Person, module_services: Services
) -> None:
    agent = await person.client.create_agent(name="Ada")
    connection = await asyncpg.connect(module_services.database["url"])
    for outcome in ("slept", "ended", "failed"):
        await connection.execute(INSERT_RUN, UUID(agent), outcome, JOURNAL)
    await connection.close()
    page = await console.open(f"/agents/{agent}/runs", person)
    rows = page.get_by_role("list", name="Runs").get_by_role("listitem")
    await expect(rows).to_have_count(3)
    looks = [
        await rows.get_by_text(words, exact=True).get_attribute("class")
        for words in ("slept again", "ended", "failed")
    ]
    assert len({*looks}) == 3
    for row in await rows.all():
        await expect(row).to_contain_text("2 not sent")
        await expect(row).to_contain_text("sent 1 message · could not send 2 messages")
