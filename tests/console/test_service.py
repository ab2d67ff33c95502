"""The service in the console: for its operator, and closed to everybody else."""

import re

from playwright.async_api import Route, expect

from tests.acceptance.services import OPERATOR_TOKEN
from tests.console.visits import Console, Person


async def test_person_is_led_to_the_sign_in_of_operators(console: Console, person: Person) -> None:
    page = await console.open("/service", person)
    await expect(page.get_by_role("heading", name="This page is for operators")).to_be_visible()
    await page.get_by_role("link", name="Sign in as operator").click()
    await page.get_by_label("Operator's token").fill(OPERATOR_TOKEN)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("The service is ready.")).to_be_visible()


async def test_operator_sees_versions_and_fresh_measurements(console: Console, operator: Person) -> None:
    page = await console.open("/service", operator)
    facts = page.get_by_label("Versions and parts")
    await expect(facts).to_contain_text(re.compile(r"PostgreSQL\s*\d+\.\d+, schema \d+"))
    nodes = page.get_by_role("region", name="Nodes", exact=True)
    await expect(nodes.get_by_role("row")).to_have_count(2)
    await expect(nodes).to_contain_text("alive")
    tile = page.get_by_label("Event loop lag")
    node = await tile.element_handle()
    assert node is not None
    line = tile.locator("polyline")
    await expect(line).to_be_attached()
    drawn = await line.get_attribute("points")
    await expect(line).not_to_have_attribute("points", drawn or "")
    assert await node.evaluate("node => node.isConnected")  # updated, not drawn anew


async def test_operator_sees_every_node_and_those_that_ended(console: Console, operator: Person) -> None:
    page = await console.open("/service", operator)

    async def add_nodes(route: Route) -> None:
        answer = await route.fetch()
        status = await answer.json()
        [one] = status["nodes"]
        two = {
            "id": 99,
            "name": "web/2",
            "version": "0.2.0",
            "state": "leaving",
            "runs": 7,
            "confirmed_seconds": 4,
        }
        status["nodes"].append({**one, **two})
        ended = {"id": 1, "name": "web/1", "version": "0.2.0", "interrupted_runs": 3}
        status["ended_nodes"] = [{**ended, "joined_at": one["joined_at"], "ended_at": one["joined_at"]}]
        await route.fulfill(response=answer, json=status)

    await page.route("**/status/", add_nodes)
    nodes = page.get_by_role("region", name="Nodes", exact=True)
    row = nodes.get_by_role("row").filter(has_text="web/2")
    await expect(row).to_contain_text(re.compile(r"leaving.*silent for.*4 s.*0\.2\.0.*7"))
    await page.get_by_text("1 node ended within a day").click()
    ended = page.get_by_role("region", name="Ended nodes")
    await expect(ended.get_by_role("row").filter(has_text="web/1")).to_contain_text("3")


async def test_operator_finds_an_agent_and_its_explanation(
    console: Console, person: Person, operator: Person
) -> None:
    agent = await person.client.create_agent(name="Found by name")
    page = await console.open("/service", operator)
    await page.get_by_label("Whole name, or id").fill("found BY name")
    link = page.get_by_role("link", name="Found by name")
    agents = page.get_by_role("region", name="Agents of all organizations")
    await expect(agents.get_by_role("row")).to_have_count(2)
    await expect(page).to_have_url(re.compile("name=found"))
    await link.click()
    await expect(page.get_by_text("Asleep until a high-priority notification")).to_be_visible()
    await page.get_by_label("At").fill("2020-01-01 03:00")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.get_by_text("unknown")).to_be_visible()
    await page.go_back()
    await page.go_back()
    await page.get_by_label("Whole name, or id").fill(agent)
    await expect(page.get_by_role("heading", name="Found by name")).to_be_visible()
