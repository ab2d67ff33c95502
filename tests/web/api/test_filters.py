"""The filters of lists: by time, address, name and outcome, combined with each other and with pages."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from storage.ids import new_id
from storage.model import Outcome
from tests.web.conftest import Answer, Api, Service

AGENTS = "/api/cloud/agents/"
RUNS = "/api/cloud/runs/"
CONTACTS = "/api/defaults/contacts/"
NOTIFICATIONS = "/api/defaults/notifications/"
BY_CREATION = ("contacts", "documents", "messages", "notifications", "projects")
NOON = datetime.fromisoformat("2026-01-01T12:00:00+00:00")

INSERT_RUN = """
INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""


async def make_run(
    service: Service, agent: Any, hour: int, wake_reason: str, outcome: Outcome | None = Outcome.SLEPT
) -> str:
    """Store a run that starts so many hours after noon."""
    run_id, started_at = new_id(), NOON + timedelta(hours=hour)
    ended_at = None if outcome is None else started_at
    owner = (UUID(agent["id"]), UUID(agent["organization"]))
    await service.storage.pool.execute(INSERT_RUN, run_id, *owner, wake_reason, started_at, ended_at, outcome)
    return str(run_id)


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer
    return [item["id"] for item in answer.body]


async def all_pages(api: Api, path: str) -> list[str]:
    """Follow the links from the first page, and return the ids on all pages."""
    seen = []
    answer = await api.get(path)
    while True:
        seen += ids(answer)
        link = answer.headers.get("Link")
        if link is None:
            return seen
        answer = await api.get("/api/" + link.partition("/api/")[2].partition(">")[0])


async def test_runs_are_filtered_by_how_they_began_and_ended(service: Service, api: Api) -> None:
    ann, bob = await api.create_agent(), await api.create_agent()
    slept = await make_run(service, ann, 0, "reminder")
    failed = await make_run(service, ann, 1, "notification:sms", Outcome.FAILED)
    of_bob = await make_run(service, bob, 2, "notification:email", Outcome.FAILED)
    active = await make_run(service, ann, 3, "run_requested", None)

    async def listed(query: str) -> list[str]:
        of_all, of_ann = await api.get(f"{RUNS}?{query}"), await api.get(f"{AGENTS}{ann['id']}/runs/?{query}")
        assert ids(of_ann) == [run for run in ids(of_all) if run != of_bob]
        assert ids(await api.get(f"{RUNS}?{query}&agent={ann['id']}")) == ids(of_ann)
        return ids(of_all)

    assert await listed("") == [active, of_bob, failed, slept]
    assert await listed("outcome=failed") == [of_bob, failed]
    assert await listed("outcome=budget") == []
    assert await listed("wake_reason=reminder") == [slept]
    assert await listed("wake_reason=notification:sms") == [failed]
    assert await listed("wake_reason=notification") == [of_bob, failed]
    assert await listed("active=true") == [active]
    assert await listed("active=false&outcome=slept") == [slept]
    assert await listed("started_after=2026-01-01T13:00Z&started_before=2026-01-01T14:00") == [failed]
    assert await listed("outcome=failed&wake_reason=notification&started_after=2026-01-01T14:00Z") == [of_bob]


async def test_runs_of_all_agents_have_default_limit(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    runs = [await make_run(service, agent, hour, "reminder") for hour in range(51)]
    answer = await api.get(RUNS)
    assert ids(answer) == runs[:0:-1]
    assert 'rel="next"' in answer.headers["Link"]
    assert (await api.get(f"{AGENTS}{agent['id']}/runs/")).body == answer.body


async def test_links_keep_the_filters(service: Service, api: Api) -> None:
    agent = await api.create_agent(tags=["night"])
    failed = [await make_run(service, agent, hour, "reminder", Outcome.FAILED) for hour in range(3)]
    await make_run(service, agent, 9, "reminder")
    contacts = [await api.create(CONTACTS, email="ada+x@example.org", phone="+43 1 23456")]
    await api.create(CONTACTS, email="eve@example.org", phone="+43 1 23457")
    low = [await api.create_notification(agent) for _ in range(3)]
    await api.create_notification(agent, scheduled_for="2127-01-01T00:00Z")
    contact_ids, low_ids = [contact["id"] for contact in contacts], [each["id"] for each in low]

    for path, expected in (
        (f"{RUNS}?outcome=failed&active=false&wake_reason=reminder", failed),
        (f"{AGENTS}{agent['id']}/runs/?outcome=failed", failed),
        (f"{CONTACTS}?email=ada%2Bx@example.org", contact_ids),
        (f"{CONTACTS}?phone=%2B43123456", contact_ids),
        (f"{NOTIFICATIONS}?created_before={low[-1]['created_at']}", low_ids[:-1]),
        (f"{AGENTS}?name=ANN&tag=night&status=sleeping", [agent["id"]]),
    ):
        assert await all_pages(api, f"{path}&limit=1") == expected[::-1], path
        assert ids(await api.get(f"{path}&offset=1")) == expected[-2::-1], path
        if expected[1:]:
            assert ids(await api.get(f"{path}&after={expected[1]}")) == expected[:1], path


async def test_contacts_are_found_by_part_of_name_or_address(api: Api, other: Api) -> None:
    ada = await api.create(CONTACTS, name="Ada Märsh", email="ada@depot.example", phone="+43 664 12345")
    eve = await api.create(CONTACTS, name="Eve", email="eve@example.org", other_addresses=["DHL"])
    await other.create(CONTACTS, name="Ada Marsh")

    for text, expected in (
        ("MÄRS", [ada]),
        ("depot.ex", [ada]),
        ("0664 12-3", [ada]),
        ("+43 664", [ada]),
        ("dhl", [eve]),
        ("e", [eve, ada]),
        ("", [eve, ada]),
        ("%", []),
        ("66412346", []),
    ):
        assert (await api.get(CONTACTS, params={"search": text})).body == expected, text
    assert await all_pages(api, f"{CONTACTS}?search=example&limit=1") == [eve["id"], ada["id"]]


@pytest.mark.parametrize("kind", BY_CREATION)
async def test_lists_are_filtered_by_time_of_creation(api: Api, kind: str) -> None:
    agent = await api.create_agent()
    path = f"/api/defaults/{kind}/"
    body = {
        "documents": {"title": "x"},
        "messages": {"agent": agent["id"], "channel": "email", "direction": "outbound", "body": "x"},
        "notifications": {"agent": agent["id"], "title": "x"},
        "projects": {"name": "x"},
        "contacts": {},
    }[kind]
    if kind == "messages":
        body["contact"] = (await api.create(CONTACTS))["id"]
    first, second, third = [await api.create(path, **body) for _ in range(3)]
    moment = second["created_at"]

    assert ids(await api.get(f"{path}?created_after={moment}")) == [third["id"], second["id"]]
    assert ids(await api.get(f"{path}?created_before={moment}")) == [first["id"]]
    until = f"created_after={moment}&created_before={third['created_at']}"
    assert ids(await api.get(f"{path}?{until}")) == [second["id"]]
    assert ids(await api.get(f"{path}?created_after={moment.removesuffix('Z')}&limit=1")) == [third["id"]]


async def test_reminders_are_found_by_their_time(api: Api) -> None:
    agent = await api.create_agent()
    await api.create_notification(agent)
    first, second = [
        await api.create_notification(agent, scheduled_for=f"2127-01-0{day}T00:00Z") for day in (1, 2)
    ]
    for query, found in (
        ("scheduled_after=2127-01-02T01:00%2B01:00", [second["id"]]),
        ("scheduled_before=2127-01-02T00:00", [first["id"]]),
        ("scheduled_after=2000-01-01T00:00Z&cleared=false&limit=1", [second["id"]]),
        ("scheduled_after=2127-01-03T00:00Z", []),
    ):
        assert ids(await api.get(f"{NOTIFICATIONS}?{query}")) == found
        assert ids(await api.get(f"{NOTIFICATIONS}?{query}&agent={agent['id']}")) == found


@pytest.mark.parametrize(
    "phone", ["+43 (1) 234-56", "4312 3456", " 43 1 23456", "%2B43.1/23456", "tel:+43123456"]
)
async def test_phone_is_found_by_its_digits(api: Api, phone: str) -> None:
    ada = await api.create(CONTACTS, phone="+43 1 / 234 56")
    await api.create(CONTACTS, phone="+43 1 / 234 567")
    await api.create(CONTACTS)
    assert ids(await api.get(f"{CONTACTS}?phone={phone}")) == [ada["id"]]


@pytest.mark.parametrize("email", ["ada+x@example.org", "ADA%2Bx@Example.ORG", " ada%2Bx@example.org "])
async def test_email_is_found_in_any_case(api: Api, email: str) -> None:
    agent = await api.create_agent()
    ada = await api.create(CONTACTS, email="Ada+x@example.org", agent=agent["id"])
    await api.create(CONTACTS, email="ada@example.org")
    assert ids(await api.get(f"{CONTACTS}?email={email}")) == [ada["id"]]
    assert ids(await api.get(f"{CONTACTS}?email={email}&agent={agent['id']}")) == [ada["id"]]


async def test_contact_of_another_organization_is_not_found(api: Api, other: Api) -> None:
    await other.create(CONTACTS, email="ada@example.org", phone="+43 1 23456")
    for query in ("email=ada@example.org", "phone=43123456"):
        assert ids(await api.get(f"{CONTACTS}?{query}")) == []
