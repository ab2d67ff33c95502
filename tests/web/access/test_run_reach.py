"""What a run may read and write over REST: the same as its agent's tools."""

from typing import Any

import pytest

from tests.web.access.test_run_tokens import start_run
from tests.web.conftest import Api, Service

CONTACTS = "/api/defaults/contacts/"
DOCUMENTS = "/api/defaults/documents/"
MESSAGES = "/api/defaults/messages/"
NOTIFICATIONS = "/api/defaults/notifications/"
PROJECTS = "/api/defaults/projects/"


class Scene:
    """An agent in a run, its sibling, and a client with the run's token."""

    def __init__(self, api: Api, agent: str, sibling: str, run: str, own: Api) -> None:
        self.api, self.agent, self.sibling, self.run, self.own = api, agent, sibling, run, own


@pytest.fixture
async def scene(service: Service, api: Api) -> Scene:
    agent, sibling = await api.create_agent(), await api.create_agent()
    run, own = await start_run(service, api, agent)
    return Scene(api, agent["id"], sibling["id"], run, own)


async def ids(api: Api, path: str) -> set[str]:
    answer = await api.get(path)
    assert answer.status == 200, answer
    return {each["id"] for each in answer.body}


async def test_run_changes_a_contact_but_not_its_agent(scene: Scene) -> None:
    mine = await scene.api.create(CONTACTS, agent=scene.agent, name="Ada")
    shared = await scene.api.create(CONTACTS, name="Grace")
    foreign = await scene.api.create(CONTACTS, agent=scene.sibling, name="Alan")
    for contact in (mine, shared):
        path = f"{CONTACTS}{contact['id']}/"
        changed = await scene.own.patch(path, {"name": "Bea", "agent": contact["agent"]})
        assert (changed.status, changed.body["name"]) == (200, "Bea")
        for agent in {scene.agent, scene.sibling, None} - {contact["agent"]}:
            assert (await scene.own.patch(path, {"agent": agent})).status == 403
        other = scene.agent if contact["agent"] is None else None
        refused = await scene.own.patch(path, {"agent": other})
        assert refused.body == {"detail": "The token of a run may not change the agent."}
        assert (await scene.own.delete(path)).status == 403
    assert (await scene.own.patch(f"{CONTACTS}{foreign['id']}/", {"name": "x"})).status == 403
    assert (await scene.own.post(CONTACTS, {"name": "x"})).status == 403


async def test_run_changes_no_address_if_its_template_forbids_new_contacts(
    service: Service, api: Api
) -> None:
    template = await api.create("/api/templates/", name="Desk", may_create_contacts=False)
    agent = await api.create_agent(template=template["id"])
    contact = await api.create(CONTACTS, name="Ada", phone="+436601234567")
    _, own = await start_run(service, api, agent)
    path = f"{CONTACTS}{contact['id']}/"
    assert (await own.patch(path, {"phone": "+436607654321"})).status == 403
    assert (await own.patch(path, {"name": "Bea"})).status == 200


async def test_run_learns_no_contact_of_another_agent_from_its_address(scene: Scene) -> None:
    mine = await scene.api.create(CONTACTS, agent=scene.agent, name="Ada")
    shared = await scene.api.create(CONTACTS, phone="+436601234567")
    foreign = await scene.api.create(CONTACTS, agent=scene.sibling, email="alan@example.org")
    path = f"{CONTACTS}{mine['id']}/"
    known = await scene.own.patch(path, {"phone": shared["phone"]})
    assert known.body == {"phone": [f"+436601234567 is an address of the contact {shared['id']}."]}
    hidden = await scene.own.patch(path, {"email": foreign["email"]})
    assert (hidden.status, hidden.body) == (
        400,
        {"email": ["alan@example.org is an address of a contact of another agent."]},
    )


async def test_run_writes_documents_of_its_agent(scene: Scene) -> None:
    created = await scene.own.create(DOCUMENTS, title="Notes", content="a")
    assert created["agent"] == scene.agent
    path = f"{DOCUMENTS}{created['id']}/"
    changed = await scene.own.patch(path, {"content": "b"})
    assert (changed.status, changed.body["content"]) == (200, "b")
    for agent in (scene.sibling, None):
        assert (await scene.own.patch(path, {"agent": agent})).status == 403
    assert (await scene.own.post(DOCUMENTS, {"title": "x", "agent": scene.sibling})).status == 403
    assert (await scene.own.delete(path)).status == 403


async def test_run_puts_documents_only_in_projects_it_sees(scene: Scene) -> None:
    shared = await scene.api.create(PROJECTS, name="x")
    foreign = await scene.api.create(PROJECTS, name="x", agent=scene.sibling)
    document = await scene.own.create(DOCUMENTS, title="x", project=shared["id"])
    path = f"{DOCUMENTS}{document['id']}/"
    assert (await scene.own.post(DOCUMENTS, {"title": "x", "project": foreign["id"]})).status == 403
    assert (await scene.own.patch(path, {"project": foreign["id"]})).status == 403
    assert (await scene.own.get(f"{DOCUMENTS}?project={foreign['id']}")).status == 403
    assert await ids(scene.own, f"{DOCUMENTS}?project={shared['id']}") == {document["id"]}


async def test_run_reads_the_messages_of_its_agent(scene: Scene) -> None:
    contact = await scene.api.create(CONTACTS, name="Ada")
    hidden = await scene.api.create(CONTACTS, name="Alan", agent=scene.sibling)
    message: dict[str, Any] = {"channel": "sms", "direction": "outbound", "contact": contact["id"]}
    mine = await scene.api.create(MESSAGES, agent=scene.agent, **message)
    foreign = await scene.api.create(MESSAGES, agent=scene.sibling, **message)

    assert await ids(scene.own, MESSAGES) == {mine["id"]}
    assert await ids(scene.own, f"{MESSAGES}?contact={contact['id']}") == {mine["id"]}
    assert (await scene.own.get(f"{MESSAGES}?contact={hidden['id']}")).status == 403
    assert (await scene.own.get(f"{MESSAGES}{mine['id']}/")).status == 200
    assert (await scene.own.get(f"{MESSAGES}{foreign['id']}/")).status == 403
    assert (await scene.own.post(MESSAGES, {"agent": scene.agent, **message})).status == 403
    assert (await scene.own.patch(f"{MESSAGES}{mine['id']}/", {"status": "sent"})).status == 403


async def test_run_touches_no_notification_of_another_agent(scene: Scene) -> None:
    foreign = await scene.api.create_notification({"id": scene.sibling})
    path = f"{NOTIFICATIONS}{foreign['id']}/"
    assert await ids(scene.own, NOTIFICATIONS) == set()
    for body in ({"agent": scene.sibling}, {"agent": scene.sibling, "ids": [foreign["id"]]}):
        assert (await scene.own.post(f"{NOTIFICATIONS}clear/", body)).status == 403
    for body in (
        {"agent": scene.sibling, "title": "x"},
        {"agent": scene.sibling, "title": "x", "scheduled_for": "2999-01-01T09:00:00"},
        {"agent": scene.agent, "title": "x", "source": "sms"},
    ):
        assert (await scene.own.post(NOTIFICATIONS, body)).status == 403
    assert (await scene.own.get(path)).status == 403
    assert (await scene.own.patch(path, {"cleared": True})).status == 403
    assert (await scene.api.get(path)).body["cleared"] is False
