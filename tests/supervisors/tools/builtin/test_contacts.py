"""The contact tools: whom an agent sees, how it finds them, and what it may correct."""

from typing import Any

import pytest

from storage.ids import new_id
from supervisors.tools.tool import PartialResult
from tests.storage.factories import NOW, SECOND
from tests.supervisors.tools.builtin.resources import refusal, stored_contact
from tests.supervisors.world import World


async def test_contacts_of_agent_and_organization_are_listed_newest_first(world: World) -> None:
    agent = await world.agent()
    sibling, stranger = await world.agent(), await world.agent(await world.organization())
    ada = await stored_contact(world, agent, name="Ada")
    shared = await stored_contact(world, agent, name="Bea", agent_id=None, created_at=NOW + SECOND)
    await stored_contact(world, sibling)
    await stored_contact(world, stranger, agent_id=None)
    run = await world.start(agent)

    bea = {"id": str(shared.id), "name": "Bea", "email": "", "phone": ""}
    assert await run.call("list_contacts") == [bea, {**bea, "id": str(ada.id), "name": "Ada"}]
    first = await run.call("list_contacts", limit=1)
    assert first == PartialResult(
        [bea], f'There are more. To read on, call this again with after="{shared.id}".'
    )
    rest = await run.call("list_contacts", limit=1, after=str(shared.id))
    assert [contact["id"] for contact in rest] == [str(ada.id)]


async def test_contact_is_found_by_phone_or_email(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    ada = await stored_contact(world, agent, email="ada@example.com", phone="+436641234567")
    await stored_contact(world, agent, email="bea@example.com", phone="+436647654321")

    for address in ("ADA@example.com", "+43 664 123-4567", " +436641234567 "):
        assert [each["id"] for each in await run.call("list_contacts", address=address)] == [str(ada.id)]
    assert await run.call("list_contacts", address="carl@example.com") == []
    error = await refusal(run, "list_contacts", address="Ada")
    assert (error["code"], error["parameter"]) == ("invalid", "address")


async def test_update_changes_only_what_is_given(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    contact = await stored_contact(world, agent, name="Ada", email="ada@example.com", metadata={"vip": True})

    changed = await run.call("update_contact", contact_id=str(contact.id), name=" Ada Byron ", email="")

    assert (changed["name"], changed["email"], changed["phone"]) == ("Ada Byron", "", contact.phone)
    assert changed["metadata"] == {"vip": True}
    assert await run.call("get_contact", contact_id=str(contact.id)) == changed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Give at least one of name, email, phone."),
        ({"name": "x" * 256}, "name takes a text of at most 255 characters."),
        ({"phone": ["+43"]}, "phone takes a text."),
    ],
)
async def test_unfit_update_of_contact_is_refused(
    world: World, arguments: dict[str, Any], message: str
) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    contact = await stored_contact(world, agent)

    error = await refusal(run, "update_contact", contact_id=str(contact.id), **arguments)

    assert (error["code"], error["message"]) == ("invalid", message)
    assert await world.storage.contacts.get(contact.id) == contact


@pytest.mark.parametrize("tool", ["get_contact", "update_contact", "list_messages"])
async def test_contact_out_of_reach_is_not_found(world: World, tool: str) -> None:
    """Invariant I7."""
    agent = await world.agent()
    sibling, stranger = await world.agent(), await world.agent(await world.organization())
    run = await world.start(agent)
    arguments = {"name": "Eve"} if tool == "update_contact" else {}
    hidden = [
        await stored_contact(world, sibling),
        await stored_contact(world, stranger),
        await stored_contact(world, stranger, agent_id=None),
    ]

    for contact_id in [*(contact.id for contact in hidden), new_id()]:
        error = await refusal(run, tool, contact_id=str(contact_id), **arguments)
        assert error == {"code": "not_found", "message": f"You have no contact {contact_id}."}
    for contact in hidden:
        assert await world.storage.contacts.get(contact.id) == contact


async def test_new_contact_belongs_to_all_agents_and_is_found(world: World) -> None:
    run = await world.start(await world.agent())
    sibling = await world.start(await world.agent())

    created = await run.call("create_contact", name=" Ada ", phone="+43 664 123-4567")

    assert (created["name"], created["phone"], created["email"]) == ("Ada", "+436641234567", "")
    assert await sibling.call("get_contact", contact_id=created["id"]) == created
    error = await refusal(run, "create_contact", phone="+436641234567")
    assert error["message"] == f"phone: +436641234567 is an address of the contact {created['id']}."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "Ada"}, "Give a phone number or an e-mail address."),
        ({"phone": "0664 1234567"}, "phone: Enter the phone number with +"),
        ({"email": "ada"}, "email: Enter a valid email address."),
    ],
)
async def test_unfit_new_contact_is_refused(world: World, arguments: dict[str, Any], message: str) -> None:
    run = await world.start(await world.agent())
    error = await refusal(run, "create_contact", **arguments)
    assert (error["code"], error["message"][: len(message)]) == ("invalid", message)


async def test_template_can_forbid_new_contacts(world: World) -> None:
    template = await world.template(may_create_contacts=False)
    agent = await world.agent(template_id=template.id)
    ada = await stored_contact(world, agent, phone="+436641234567")
    run = await world.start(agent)

    for tool, arguments in (
        ("create_contact", {"phone": "+436647654321"}),
        ("send_sms", {"contact_id": "+436647654321", "body": "Hi"}),
        ("send_message", {"contact_id": "bea@example.com", "body": "Hi"}),
        ("update_contact", {"contact_id": str(ada.id), "phone": "+436647654321"}),
    ):
        assert (await refusal(run, tool, **arguments))["code"] == "not_allowed"

    assert [each["id"] for each in await run.call("list_contacts")] == [str(ada.id)]
    renamed = await run.call("update_contact", contact_id=str(ada.id), name="Ada")
    assert (renamed["name"], renamed["phone"]) == ("Ada", "+436641234567")
    error = await refusal(run, "send_sms", contact_id="+43 664 1234567", body="Hi")
    assert error["code"] == "no_channel", "a contact that there is can be written to"
    names = [definition.name for definition in await world.toolset.definitions(agent, template)]
    assert "create_contact" not in names
