"""The screen of all agents, as a user sees it."""

import re
from typing import Any
from uuid import UUID

import asyncpg
from playwright.async_api import Locator, Page, expect

from tests.acceptance.services import Services
from tests.console.visits import Console, Person, press

USAGE = {"model": "m", "input_tokens": 1, "output_tokens": 1}
FILL = """
WITH copy AS (
    INSERT INTO agent (id, organization_id, name, model, created_at)
    SELECT gen_random_uuid(), $1, 'Agent ' || n, 'builtin/inbox', now() - n * interval '1 s'
    FROM generate_series(1, $2) AS n RETURNING id
)
INSERT INTO agent_state (agent_id, organization_id) SELECT id, $1 FROM copy
"""


def rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Agents").get_by_role("listitem")


def row_of(page: Page, name: str) -> Locator:
    return rows(page).filter(has=page.get_by_role("link", name=name, exact=True))


async def names(page: Page) -> list[str]:
    return await rows(page).get_by_role("link").all_inner_texts()


async def create_agents(person: Person, *agents: str, **fields: Any) -> list[str]:
    return [await person.client.create_agent(name=name, **fields) for name in agents]


async def test_row_shows_sentence_wake_cost_and_work(console: Console, person: Person) -> None:
    [agent] = await create_agents(
        person,
        "Ada",
        tags=["vip"],
        timezone="Asia/Tokyo",
        max_cost_usd_per_day=2,
        sleep_until="2999-01-01T12:00:00Z",
        debounce_window_seconds=600,
    )
    client = person.client
    await client.post(f"/api/cloud/agents/{agent}/usage/", **USAGE, cost_usd=0.5)
    await client.post("/api/defaults/notifications/", agent=agent, title="n", source="sms", priority="high")
    page = await console.open("/agents", person)

    row = row_of(page, "Ada")
    await expect(row.get_by_text("holding", exact=True)).to_be_visible()
    await expect(row).to_contain_text(re.compile("Holding since .* GMT\\+9 for the conversation to pause"))
    await expect(row).to_contain_text("vip")
    await expect(row.get_by_role("img", name="$0.50 of $2.00 today")).to_be_visible()
    await expect(row).to_contain_text("1 uncleared")
    await expect(row).to_contain_text(re.compile("in (9|10) min"))
    await row.get_by_role("link", name="Ada").click()
    await expect(page).to_have_url(re.compile(f"/console/agents/{agent}$"))


async def test_cost_of_calls_without_a_price_is_not_priced(console: Console, person: Person) -> None:
    [agent] = await create_agents(person, "Ada")
    call = {"model": "home/unknown", "input_tokens": 5, "output_tokens": 5}
    await person.client.post(f"/api/cloud/agents/{agent}/usage/", **call)
    page = await console.open("/agents", person)
    await expect(row_of(page, "Ada")).to_contain_text("not priced")
    await page.goto(f"{console.url}/console/usage")
    await expect(page.get_by_role("definition").first).to_have_text("not priced")


async def test_name_is_typed_and_enter_opens_the_one_match(console: Console, person: Person) -> None:
    await create_agents(person, "Ben", "Ada", "Adam")
    page = await console.open("/agents", person)
    await page.keyboard.type("Ada")
    await expect(rows(page)).to_have_count(2)
    await page.keyboard.press("Enter")
    await page.keyboard.type("m")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Adam")).to_be_visible()


async def test_filters_and_order_are_in_the_address(console: Console, person: Person) -> None:
    await create_agents(person, "Ben", "ada", "Cleo", tags=["day"])
    await create_agents(person, "Dora", tags=["day", "night"])
    page = await console.open("/agents", person)
    await expect(rows(page)).to_have_count(4)

    await page.get_by_label("Sort by").select_option("name")
    await expect(rows(page).first).to_contain_text("ada")
    await page.get_by_label("Add a tag to filter by").fill("day")
    await page.keyboard.press("Enter")
    await page.locator("h1").click()
    await press(page, "/")
    await page.keyboard.type("D")
    await expect(rows(page)).to_have_count(2)
    await expect(page).to_have_url(re.compile(r"/agents\?sort=name&tag=day&search=D$"))
    shown = await names(page)
    await page.reload()

    await expect(rows(page)).to_have_count(2)
    assert await names(page) == shown == ["ada", "Dora"]
    await expect(page.get_by_text("2 agents")).to_be_visible()
    await page.get_by_label("Phase").select_option("running")
    await expect(page.get_by_role("heading", name="No agent matches")).to_be_visible()
    await page.get_by_role("button", name="Remove all filters").click()
    await expect(rows(page)).to_have_count(4)


async def test_selection_survives_a_reload(console: Console, person: Person) -> None:
    await create_agents(person, "Ada", "Ben", "Cleo", "Dora")
    page = await console.open("/agents?sort=name", person)
    await expect(rows(page)).to_have_count(4)

    await press(page, "Escape", "j", "x")  # leaves the search, and selects the first row
    await row_of(page, "Cleo").get_by_role("checkbox").click(modifiers=["Shift"])
    await expect(page.get_by_text("3 agents selected")).to_be_visible()
    await row_of(page, "Ben").get_by_role("checkbox").click()
    await expect(page).to_have_url(re.compile(r"selected=[\w-]+%2C[\w-]+$"))
    await page.reload()

    await expect(page.get_by_text("2 agents selected")).to_be_visible()
    for name, is_selected in (("Ada", True), ("Ben", False), ("Cleo", True), ("Dora", False)):
        await expect(row_of(page, name).get_by_role("checkbox")).to_be_checked(checked=is_selected)
    await page.get_by_role("button", name="Select none").click()
    await expect(page.get_by_text("agents selected")).to_have_count(0)


async def test_all_that_match_are_selected_beyond_the_page(
    console: Console, person: Person, module_services: Services
) -> None:
    await fill(module_services, person, 450)
    page = await console.open("/agents?search=1", person)
    await expect(page.get_by_text("171 agents")).to_be_visible()
    page = await console.open("/agents", person)
    await page.get_by_role("button", name="Select all 450 that match").click()
    await expect(page.get_by_text("All 450 agents that match are selected")).to_be_visible()
    await expect(page).to_have_url(re.compile(r"selected=all"))
    await expect(rows(page).get_by_role("checkbox").first).to_be_checked()


async def test_rows_change_in_place_and_keep_their_order(console: Console, person: Person) -> None:
    ada, ben = await create_agents(person, "Ada", "Ben", debounce_window_seconds=600)
    page = await console.open("/agents?sort=-uncleared_high", person)
    await expect(rows(page).first).to_contain_text("Ben")

    high = {"title": "n", "source": "sms", "priority": "high"}
    await person.client.post("/api/defaults/notifications/", agent=ada, **high)

    await expect(row_of(page, "Ada")).to_contain_text("1 uncleared")
    await expect(row_of(page, "Ada")).to_contain_text("holding")
    assert await names(page) == ["Ben", "Ada"]
    await page.get_by_role("button", name="1 changed · refresh the order").click()
    await expect(rows(page).first).to_contain_text("Ada")
    assert await person.client.status_of(f"/api/cloud/agents/{ben}/", "DELETE") == 204
    await expect(row_of(page, "Ben")).to_contain_text("deleted")


async def test_new_agent_is_created_from_an_empty_list(console: Console, person: Person) -> None:
    page = await console.open("/agents", person)
    await expect(page.get_by_role("heading", name="There are no agents yet")).to_be_visible()
    await press(page, "Escape", "c")
    dialog = page.get_by_role("dialog", name="New agent")
    console.allow_refusals(400)
    await dialog.get_by_role("button", name="Create the agent").click()
    await expect(dialog.get_by_text("This field may not be blank.")).to_be_visible()
    await dialog.get_by_label("Name").fill("Ada <b>")
    await dialog.get_by_label("Longest sleep, in hours").fill("12")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Ada <b>")).to_be_visible()
    [agent] = await person.client.get("/api/cloud/agents/")
    assert (agent["model"], agent["max_sleep_hours"]) == ("builtin/inbox", 12)


async def fill(services: Services, person: Person, count: int) -> None:
    connection = await asyncpg.connect(services.database["url"])
    await connection.execute(FILL, UUID(person.organization["id"]), count)
    await connection.close()
