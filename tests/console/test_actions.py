"""Actions on many agents in the console: counted first, done, and undone."""

from typing import Any

import pytest_asyncio
from playwright.async_api import Page, expect

from tests.console.visits import Console, Person

AGENTS = "/api/cloud/agents/"
ACTIONS = f"{AGENTS}actions/"


@pytest_asyncio.fixture(loop_scope="session")
async def agents(person: Person) -> list[Any]:
    """Three agents, the last of them paused."""
    bodies: list[dict[str, Any]] = [{"name": "Ada"}, {"name": "Bob"}, {"name": "Cleo", "paused": True}]
    return [await person.client.post(AGENTS, model="builtin/inbox", **body) for body in bodies]


async def paused(person: Person) -> set[str]:
    return {agent["name"] for agent in await person.client.get(AGENTS) if agent["paused"]}


async def press(page: Page, name: str) -> None:
    await page.get_by_role("button", name=name, exact=True).click()


async def test_selected_agents_are_counted_paused_and_unpaused(
    console: Console, person: Person, agents: list[Any]
) -> None:
    selected = ",".join(agent["id"] for agent in agents)
    page = await console.open(f"/agents?selected={selected}", person)

    await press(page, "Pause")
    dialog = page.get_by_role("dialog", name="Pause")
    await expect(dialog).to_contain_text("This will pause 2 of 3 agents.")
    assert await paused(person) == {"Cleo"}
    await press(page, "Pause 2 agents")
    await expect(page.get_by_text("Paused 2 agents.")).to_be_visible()
    await expect(dialog).to_be_hidden()
    assert await paused(person) == {"Ada", "Bob", "Cleo"}

    await press(page, "Undo")
    await expect(page.get_by_text("Undone.")).to_be_visible()
    assert await paused(person) == {"Cleo"}


async def test_all_that_match_are_tagged_and_archived(
    console: Console, person: Person, agents: list[Any]
) -> None:
    await person.client.post(ACTIONS, action="tag", match={"name": "Bob"}, tags=["night"])
    page = await console.open("/agents?phase=asleep&selected=all", person)

    await press(page, "Tag…")
    await page.get_by_role("textbox", name="Tag", exact=True).fill("night")
    await press(page, "Go on")
    await expect(page.get_by_role("dialog")).to_contain_text("This will tag 1 of 2 agents.")
    await press(page, "Tag 1 agent")
    await expect(page.get_by_text("Tagged 1 agent.")).to_be_visible()
    await press(page, "Archive")
    await press(page, "Archive 2 agents")
    await expect(page.get_by_text("Archived 2 agents.")).to_be_visible()

    [left] = await person.client.get(AGENTS)
    assert (left["name"], left["tags"]) == ("Cleo", [])


async def test_one_selected_agent_needs_no_question(
    console: Console, person: Person, agents: list[Any]
) -> None:
    page = await console.open(f"/agents?selected={agents[0]['id']}", person)

    await press(page, "Stop")

    await expect(page.get_by_text("There was nothing to change.")).to_be_visible()
    await press(page, "Pause")
    await expect(page.get_by_text("Paused 1 agent.")).to_be_visible()
    assert await paused(person) == {"Ada", "Cleo"}


async def test_agent_is_cleared_and_archived_on_its_screen(
    console: Console, person: Person, agents: list[Any]
) -> None:
    agent_id = agents[2]["id"]
    await person.client.notify(agent_id, priority="high")
    page = await console.open(f"/agents/{agent_id}/runs", person)  # the queue has buttons of this name, too

    await press(page, "Clear")
    await expect(page.get_by_text("Cleared what was active for 1 agent.")).to_be_visible()
    assert await person.client.notifications(agent_id, cleared="false") == []
    await press(page, "Archive")
    await expect(page.get_by_role("button", name="Restore")).to_be_visible()


async def test_agents_that_could_not_be_changed_are_listed(
    console: Console, person: Person, agents: list[Any]
) -> None:
    assert await person.client.status_of(f"{AGENTS}{agents[0]['id']}/", "DELETE") == 204
    selected = ",".join(agent["id"] for agent in agents)
    page = await console.open(f"/agents?selected={selected}", person)

    await press(page, "Pause")
    await press(page, "Pause 1 agent")

    dialog = page.get_by_role("dialog", name="Pause")
    await expect(dialog).to_contain_text("1 agent could not be changed:")
    await expect(dialog).to_contain_text("There is no such agent.")
