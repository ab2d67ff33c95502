"""The schedules of an agent: a form that says when they come, and what became of them."""

from playwright.async_api import expect

from tests.console.visits import Console, Person


async def test_schedule_is_set_run_and_paused(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Ada", timezone="Europe/Vienna")
    page = await console.open(f"/agents/{agent}/schedules", person)
    await page.get_by_role("button", name="New schedule").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Title").fill("Look at the figures")
    await dialog.get_by_label("Cron").fill("0 9 * * 1-5")
    await expect(dialog.get_by_text("At 9:00, Monday to Friday, Vienna time")).to_be_visible()
    await dialog.get_by_role("button", name="Set").click()

    row = page.get_by_role("list", name="Schedules").get_by_role("listitem").first
    await expect(row).to_contain_text("At 9:00, Monday to Friday, Vienna time")
    await row.get_by_role("button", name="Now").click()
    await expect(row).to_contain_text("last manual")
    await row.get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text("paused: manual")
    await row.get_by_text("Look at the figures").click()
    await expect(row.get_by_role("listitem").first).to_contain_text("manual")


async def test_schedule_with_a_check_is_set(console: Console, person: Person) -> None:
    adapter = (await person.client.post("/api/toolbox/adapters/", name="Shop"))["id"]
    await person.client.post("/api/toolbox/tools/", adapter=adapter, name="look", idempotent=True)
    agent = await person.client.create_agent(name="Ada", adapters=[adapter])
    page = await console.open(f"/agents/{agent}/schedules", person)
    await page.get_by_role("button", name="New schedule").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Title").fill("The price has changed")
    await dialog.get_by_label("Cron").fill("*/10 * * * *")
    await dialog.get_by_text("Only if the answer of a tool says so").click()
    await dialog.get_by_label("Tool").fill("look")
    await dialog.get_by_label("Arguments").fill('{"item": 7}')
    await dialog.get_by_role("button", name="Set").click()
    await expect(page.get_by_role("list", name="Schedules")).to_contain_text("The price has changed")
    [schedule] = await person.client.get("/api/defaults/schedules/", agent=agent)
    assert schedule["check"] == {"tool": "look", "arguments": {"item": 7}, "wake_if": "changed"}
