"""What a run may read and write over REST: the same as its agent's tools."""

from typing import Any

import pytest

from tests.web.access.test_run_tokens import start_run
from tests.web.conftest import Api

CONTACTS = "/api/defaults/contacts/"
DOCUMENTS = "/api/defaults/documents/"
MESSAGES = "/api/defaults/messages/"
NOTIFICATIONS = "/api/defaults/notifications/"
PROJECTS = "/api/defaults/projects/"
TRACES = "/api/tracing/traces/"
SPANS = "/api/tracing/spans/"


class Scene:
    """An agent in a run, its sibling, and a client with the run's token."""

    def __init__(self, api: Api, agent: str, sibling: str, run: str, own: Api) -> None:
        self.api, self.agent, self.sibling, self.run, self.own = api, agent, sibling, run, own


@pytest.fixture
async def scene(api: Api) -> Scene:
    agent, sibling = await api.create_agent(), await api.create_agent()
    run, own = await start_run(api, agent)
    return Scene(api, agent["id"], sibling["id"], run, own)


async def ids(api: Api, path: str) -> set[str]:
    answer = await api.get(path)
    assert answer.status == 200, answer
    return {each["id"] for each in answer.body}


@pytest.mark.parametrize("path", [CONTACTS, DOCUMENTS, PROJECTS])
async def test_run_reads_own_and_shared_resources(scene: Scene, path: str) -> None:
    name = {"title": "x"} if path == DOCUMENTS else {"name": "x"}
    mine = await scene.api.create(path, agent=scene.agent, **name)
    shared = await scene.api.create(path, **name)
    foreign = await scene.api.create(path, agent=scene.sibling, **name)

    assert await ids(scene.own, path) == {mine["id"], shared["id"]}
    assert await ids(scene.own, f"{path}?agent={scene.agent}") == {mine["id"]}
    assert await ids(scene.own, f"{path}?limit=1") == {shared["id"]}
    for each, status in ((mine, 200), (shared, 200), (foreign, 403)):
        assert (await scene.own.get(f"{path}{each['id']}/")).status == status


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


async def test_run_repeats_a_document_by_idempotency_key(scene: Scene) -> None:
    answers = [
        await scene.own.post(DOCUMENTS, {"title": "x"}, headers={"Idempotency-Key": "a"}) for _ in range(2)
    ]
    assert [answer.status for answer in answers] == [201, 201]
    assert len(await ids(scene.own, DOCUMENTS)) == 1


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


async def test_run_creates_and_clears_own_notifications(scene: Scene) -> None:
    created = await scene.own.create(NOTIFICATIONS, agent=scene.agent, title="Later", priority="low")
    assert created["source"] == "agent"
    local = await scene.own.create(
        NOTIFICATIONS, agent=scene.agent, title="x", source="agent", scheduled_for="2999-01-01T09:00:00"
    )
    assert await ids(scene.own, NOTIFICATIONS) == {created["id"], local["id"]}
    cleared = await scene.own.post(f"{NOTIFICATIONS}clear/", {"agent": scene.agent, "ids": [created["id"]]})
    assert (cleared.status, cleared.body) == (200, {"cleared": 1})
    assert (await scene.own.get(f"{NOTIFICATIONS}{created['id']}/")).body["cleared"] is True


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


async def test_run_reads_traces_and_spans_of_its_agent(scene: Scene) -> None:
    foreign = await scene.api.create(TRACES, agent=scene.sibling, name="x")
    own_span = await scene.own.create(SPANS, trace=scene.run, name="step", metadata={"a": 1})
    span = await scene.api.create(SPANS, trace=foreign["id"], name="step")

    page = (await scene.own.get(TRACES)).body
    assert ([trace["id"] for trace in page["results"]], page["pagination"]["total_count"]) == ([scene.run], 1)
    assert (await scene.own.get(f"{TRACES}?agent={scene.sibling}")).status == 403
    assert (await scene.own.get(f"{SPANS}{own_span['id']}/")).body["metadata"] == {"a": 1}
    assert (await scene.own.get(f"{SPANS}{span['id']}/")).status == 403
