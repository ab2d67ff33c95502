"""The first screen: what needs a person and who wakes next, for people and for the operator."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg
import pytest
from playwright.async_api import expect

from tests.acceptance.services import Services
from tests.console.accessibility import violations
from tests.console.visits import Console, Person

HOUR = timedelta(hours=1)
NOTIFICATIONS = "/api/defaults/notifications/"
QUARANTINE = """
UPDATE agent_state SET phase = 'quarantined', phase_since = $2, failures = 6, retry_at = $3, next_due_at = $3,
    retry_reason = 'retry_after_failure', last_error = 'the model answered 429' WHERE agent_id = $1
"""


async def quarantine(services: Services, agent_id: str) -> None:
    """Put an agent into quarantine since two hours, until an hour from now."""
    now = datetime.now(UTC)
    connection = await asyncpg.connect(services.database["url"])
    await connection.execute(QUARANTINE, UUID(agent_id), now - 2 * HOUR, now + HOUR)
    await connection.close()


async def pause(person: Person) -> None:
    path = f"/api/organizations/organizations/{person.organization['id']}/"
    async with person.client.session.patch(
        person.client.url + path,
        json={"paused": True},
        headers={"Authorization": person.client.authorization},
    ) as response:
        assert response.status == 200


@pytest.mark.everyday
async def test_new_organization_is_led_to_its_first_agent(console: Console, person: Person) -> None:
    page = await console.open("/", person)
    await expect(page.get_by_text("There are no agents yet.")).to_be_visible()
    await expect(page.get_by_text("The service is ready.")).to_be_visible()
    await expect(page.get_by_role("link", name="Make the first agent")).to_be_visible()
    await person.client.create_agent()
    await expect(page.get_by_role("heading", name="Nothing needs a person")).to_be_visible()
    await expect(page.get_by_text("The only agent is asleep.")).to_be_visible()


async def test_quarantined_agent_is_started_from_now(
    console: Console, person: Person, module_services: Services
) -> None:
    agent = await person.client.create_agent(name="Rosa")
    await quarantine(module_services, agent)
    page = await console.open("/", person)
    item = page.get_by_role("listitem").filter(has_text="the model answered 429")
    await expect(item).to_contain_text("Rosa")
    await expect(item).to_contain_text(re.compile("quarantined.*2 h ago"))
    await expect(item.get_by_role("link", name="Rosa")).to_have_attribute("href", f"/console/agents/{agent}")
    await item.get_by_role("button", name="Start it now").click()
    await expect(page.get_by_role("heading", name="Nothing needs a person")).to_be_visible()


async def test_pause_is_ended_from_now(console: Console, person: Person) -> None:
    await person.client.create_agent()
    await pause(person)
    page = await console.open("/", person)
    await expect(page.get_by_text('The organization "Example" has been paused since')).to_be_visible()
    await page.get_by_role("button", name="End the pause").click()
    await page.get_by_role("button", name="End the pause").click()
    await expect(page.get_by_role("heading", name="Nothing needs a person")).to_be_visible()


async def test_pause_of_the_instance_is_explained_and_not_ended_here(
    console: Console, person: Person, module_services: Services
) -> None:
    agent = await person.client.create_agent()
    connection = await asyncpg.connect(module_services.database["url"])
    pause = "UPDATE instance SET paused_at = $1, paused_because = 'a test wants it'"
    await connection.execute(pause, datetime.now(UTC))
    page = await console.open("/", person)
    said = page.get_by_text(
        re.compile("The whole instance is paused since .*: a test wants it. Nothing starts")
    )
    await expect(said).to_have_count(1)
    await expect(said).to_contain_text("until an operator runs hostsvc unpause --all.")
    await expect(page.get_by_role("button", name="End the pause")).to_have_count(0)
    await expect(page.get_by_role("link", name="Look at the service")).to_have_count(0)
    await console.open(f"/agents/{agent}", person)
    await expect(said.first).to_be_visible()
    await connection.execute(pause, None)
    await connection.close()


async def test_agenda_lists_wakes_by_hour_in_chosen_zone(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Clerk", timezone="Asia/Tokyo")
    due_at = (datetime.now(UTC) + HOUR).replace(minute=10, second=0, microsecond=0)
    await person.client.post(
        NOTIFICATIONS, agent=agent, title="Call back", priority="high", scheduled_for=due_at.isoformat()
    )
    page = await console.open("/", person)
    agenda = page.get_by_label("Agenda")
    await expect(agenda).to_contain_text('The reminder "Call back" falls due.')
    await expect(agenda).to_contain_text(f"{due_at.astimezone(ZoneInfo('Asia/Tokyo')):%H}:10:00")
    await expect(agenda).to_contain_text("Times in Asia/Tokyo")
    await page.get_by_label("Time zone").select_option("utc")
    await expect(agenda).to_contain_text(f"{due_at:%H}:10:00")
    await expect(agenda.get_by_role("heading", level=3)).to_contain_text(f"{due_at:%H}:00")


async def test_more_than_a_few_items_fold(
    console: Console, person: Person, module_services: Services
) -> None:
    for number in range(7):
        await quarantine(module_services, await person.client.create_agent(name=f"Clerk {number}"))
    page = await console.open("/", person)
    await expect(page.get_by_text("2 others of 7 agents in quarantine")).to_be_visible()
    await page.get_by_role("button", name="Show 2 more").click()
    await expect(page.get_by_role("button", name="Start it now")).to_have_count(7)
    await page.reload()
    await expect(page.get_by_role("button", name="Start it now")).to_have_count(7)


async def test_operator_sees_what_needs_the_operator(
    console: Console, person: Person, operator: Person, module_services: Services
) -> None:
    agent = await person.client.create_agent(name="Waits for the operator")
    await quarantine(module_services, agent)
    page = await console.open("/", operator)
    await expect(page.get_by_text(re.compile(r"The service is ready\. \d+ of 100 run slots"))).to_be_visible()
    await expect(page.get_by_label("Agenda")).to_be_visible()
    assert await violations(page) == []
