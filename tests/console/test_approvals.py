"""Approvals: decided with what each button does in sight, over a link without logging in, on a telephone."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from playwright.async_api import expect

from tests.acceptance.client import eventually
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.console.accessibility import violations
from tests.console.test_every_screen import PHONE, TOO_WIDE
from tests.console.visits import Console, Person
from tests.receiver import Receiver, answering_json, receiving

APPROVALS = "/api/defaults/approvals/"
AMOUNT = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "number"}, "order": {"type": "string"}},
}
COLOUR = {"type": "object", "required": ["colour"], "properties": {"colour": {"enum": ["red", "blue"]}}}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console_service(module_services: Services) -> ServiceProcess:
    return await module_services.start(outbound={"allow_private": True})


@pytest_asyncio.fixture(loop_scope="session")
async def shop() -> AsyncIterator[Receiver]:
    """The tool server."""
    async with receiving() as shop:
        shop.answer = answering_json('{"refunded": true}')
        yield shop


async def open_desk(person: Person, shop: Receiver) -> str:
    """Create an agent whose tool asks before it refunds, and return its id."""
    adapter = (await person.client.post("/api/toolbox/adapters/", name="Shop"))["id"]
    tool = {"adapter": adapter, "name": "refund", "url": shop.url, "parameters": AMOUNT, "approval": "always"}
    await person.client.post("/api/toolbox/tools/", **tool)
    return await person.client.create_agent(name="Rosa", adapters=[adapter])


async def ask(person: Person, agent: str, tool: str = "refund", **arguments: Any) -> str:
    """Have the agent call the tool, and return the id of the call that waits."""
    called = await person.client.post(f"/api/cloud/agents/{agent}/tools/{tool}/", **arguments)
    return str(called["result"]["call"])


async def test_call_is_approved_with_edited_arguments_and_a_grant(
    console: Console, person: Person, shop: Receiver
) -> None:
    agent = await open_desk(person, shop)
    call = await ask(person, agent, amount=80, order="A-17")
    page = await console.open("/", person)
    await expect(page.get_by_text(re.compile('It wants to call "refund"'))).to_be_visible()
    await page.get_by_role("link", name="Decide").click()
    await expect(page.get_by_role("heading", name="May the agent call refund?")).to_be_visible()
    await expect(page.get_by_text("A-17")).to_be_visible()
    assert await violations(page) == []

    await page.get_by_role("button", name="Edit the arguments").click()
    await page.get_by_label("Arguments").fill('{"amount": 60.5, "order": "A-17"}')
    await page.get_by_label("It covers").select_option("schema")
    await expect(page.get_by_role("status").filter(has_text="fit the schema")).to_be_visible()
    await page.get_by_label("At most so many calls").fill("2")
    await expect(page.get_by_role("status").filter(has_text="after 2 calls")).to_be_visible()
    assert await violations(page) == []
    await page.get_by_role("button", name="Approve").click()
    [received] = await shop.wait_for(1)
    assert received.data["arguments"] == {"amount": 60.5, "order": "A-17"}
    assert received.data["tool_call_id"] == call
    await expect(page.get_by_text("done", exact=True)).to_be_visible()

    await page.goto(f"{console.url}/console/approvals?tab=grants")
    await expect(page.get_by_role("row", name=re.compile("refund.*Rosa.*maximum.*0 of 2"))).to_be_visible()
    await page.get_by_role("button", name="Revoke").click()
    await page.get_by_role("group").get_by_role("button", name="Revoke").click()
    await expect(page.get_by_role("row", name=re.compile("revoked"))).to_be_visible()


async def test_refused_arguments_and_schema_are_told_at_their_fields(
    console: Console, person: Person, shop: Receiver
) -> None:
    call = await ask(person, await open_desk(person, shop), amount=80)
    page = await console.open(f"/approvals/{call}", person)
    console.allow_refusals(400)
    await page.get_by_role("button", name="Edit the arguments").click()
    await page.get_by_label("Arguments").fill('{"amount": "much"}')
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_label("Arguments")).to_have_attribute("aria-invalid", "true")
    await page.get_by_role("button", name="Keep the arguments").click()
    await page.get_by_label("It covers").select_option("schema")
    await page.get_by_label("Schema of the arguments").fill('{"type": "nothing"}')
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_label("Schema of the arguments")).to_have_attribute("aria-invalid", "true")
    assert shop.requests == []


async def test_question_is_answered_in_a_form_by_its_schema(
    console: Console, person: Person, shop: Receiver
) -> None:
    agent = await open_desk(person, shop)
    question = await ask(person, agent, "ask_person", question="Which colour?", schema=COLOUR)
    page = await console.open(f"/agents/{agent}", person)
    await page.get_by_role("link", name="Which colour?").click()
    await page.get_by_role("button", name="Send the answer").click()
    await expect(page.get_by_text("This field is required.")).to_be_visible()
    await page.get_by_label("colour").select_option("blue")
    assert await violations(page) == []
    await page.get_by_role("button", name="Send the answer").click()
    await expect(page.get_by_text("done", exact=True)).to_be_visible()
    assert (await person.client.get(f"{APPROVALS}{question}/"))["answer"] == {"colour": "blue"}


async def test_text_answers_a_question_without_a_schema(
    console: Console, person: Person, shop: Receiver
) -> None:
    question = await ask(person, await open_desk(person, shop), "ask_person", question="What now?")
    page = await console.open(f"/approvals/{question}", person)
    await page.get_by_label("Answer").fill("Wait.\nThen ask again.")
    await page.get_by_role("button", name="Send the answer").click()
    await expect(page.get_by_text("done", exact=True)).to_be_visible()
    shown = await person.client.get(f"{APPROVALS}{question}/")
    assert shown["answer"] == "Wait.\nThen ask again."


async def test_link_of_a_webhook_decides_on_a_telephone_without_log_in(
    console: Console, person: Person, shop: Receiver
) -> None:
    async with receiving() as desk:
        body = {"url": desk.url, "types": ["approval.requested"]}
        await person.client.post("/api/organizations/webhooks/", **body)
        call = await ask(person, await open_desk(person, shop), amount=80)
        [asked] = await desk.wait_for(1)
    page = await console.open("/", viewport=PHONE)
    await page.goto(asked.data["link"])
    await expect(page.get_by_role("heading", name="May the agent call refund?")).to_be_visible()
    assert await violations(page) == []
    assert await page.evaluate(TOO_WIDE) == []
    await page.get_by_label("Note").fill("Too much.")
    await page.get_by_role("button", name="Deny").click()
    await expect(page.get_by_text("denied", exact=True)).to_be_visible()
    shown = await person.client.get(f"{APPROVALS}{call}/")
    assert (shown["state"], shown["note"], shown["decided_by"]["type"]) == ("denied", "Too much.", "link")
    console.allow_refusals(401)
    await page.reload()
    await expect(page.get_by_text("can be used once")).to_be_visible()
    await page.get_by_role("link", name="Open it in the console").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert shop.requests == []


async def test_tool_and_template_say_what_needs_an_approval(
    console: Console, person: Person, shop: Receiver
) -> None:
    await open_desk(person, shop)
    page = await console.open("/tools", person)
    await page.get_by_role("link", name="Shop").click()
    await page.get_by_role("button", name="refund").click()
    await page.get_by_label("Approval").fill('{"when": {"properties": {"amount": {"minimum": 50}}}}')
    await page.get_by_role("button", name="Save").click()

    async def changed() -> Any:
        [tool] = await person.client.get("/api/toolbox/tools/", limit="1")
        return tool if tool["approval"] != "always" else None

    tool = await eventually(changed, "the approval of the tool to change")
    assert tool["approval"] == {"when": {"properties": {"amount": {"minimum": 50}}}}

    await page.goto(f"{console.url}/console/templates/new")
    await page.get_by_label("Name").fill("Desk")
    await page.get_by_label("Who decides about calls that need it").select_option("owner")
    await page.get_by_label("Hours until a wait for a person expires").fill("")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", name="Desk")).to_be_visible()
    [template] = await person.client.get("/api/templates/")
    assert (template["approvers"], template["approval_hours"]) == ("owner", None)


async def test_approval_of_a_tool_that_asks_once_says_that_it_covers_all_later_calls(
    console: Console, person: Person, shop: Receiver
) -> None:
    agent = await open_desk(person, shop)
    [tool] = await person.client.get("/api/toolbox/tools/", limit="1")
    await person.client.patch(f"/api/toolbox/tools/{tool['id']}/", approval="first_use")
    call = await ask(person, agent, amount=80)
    page = await console.open(f"/approvals/{call}", person)
    covers = page.get_by_role("status").filter(has_text="whatever their arguments")
    await expect(covers).to_be_visible()
    await page.get_by_label("It covers").select_option("exact")
    await expect(covers).not_to_be_visible()


async def test_arguments_that_a_browser_rounds_are_marked(
    console: Console, person: Person, shop: Receiver
) -> None:
    agent = await open_desk(person, shop)
    page = await console.open("/", person)
    for order, is_rounded in ((2**53 - 1, False), (2**53 + 1, True)):
        call = await ask(person, agent, amount=1, items=[{"order": order}])
        await page.goto(f"{console.url}/console/approvals/{call}")
        await expect(page.get_by_role("button", name="Approve")).to_be_visible()
        assert await page.get_by_text("too large for a browser").count() == is_rounded
