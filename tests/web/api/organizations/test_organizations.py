"""Organizations over HTTP: members read them, owners and admins change and pause them."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from storage.model import Role
from tests.web.conftest import Api, Service, StartService, in_phase, wake_reasons
from tests.web.people import as_user, founder, join, new_user

ORGANIZATIONS = "/api/organizations/organizations/"


async def get_own_organization(api: Api) -> Any:
    """Return the only organization of the caller."""
    [organization] = (await api.get(ORGANIZATIONS)).body
    return organization


async def test_key_sees_its_organization(api: Api) -> None:
    organization = await get_own_organization(api)

    assert organization == {
        "id": organization["id"],
        "name": "Acme",
        "paused": False,
        "max_cost_usd_per_day": None,
        "unpriced": "refuse",
        "phone_region": "",
        "created_at": organization["created_at"],
    }
    assert (await api.get(f"{ORGANIZATIONS}{organization['id']}/")).body == organization


async def test_user_sees_own_organizations_newest_first(service: Service, api: Api) -> None:
    user, first = await new_user(service)
    second = (await get_own_organization(api))["id"]
    await join(service, user, UUID(second), Role.MEMBER)
    ann = as_user(service, user)

    listed = [each["id"] for each in (await ann.get(ORGANIZATIONS)).body]

    assert sorted(listed) == sorted([str(first.id), second])
    page = await ann.get(f"{ORGANIZATIONS}?limit=1")
    assert [each["id"] for each in page.body] == listed[:1]
    rest = await ann.get(f"{ORGANIZATIONS}?limit=1&after={listed[0]}")
    assert [each["id"] for each in rest.body] == listed[1:]
    assert "Link" in page.headers
    assert "Link" not in rest.headers


async def test_higher_cap_of_the_organization_wakes_due_agents(api: Api) -> None:
    agent = await api.create_agent()
    path = f"/api/cloud/agents/{agent['id']}"
    organization = f"{ORGANIZATIONS}{agent['organization']}/"
    await api.patch(organization, {"max_cost_usd_per_day": 0})
    await api.create_notification(agent, priority="high", source="browser")
    assert (await api.post(f"{path}/run/")).body == {"status": "over_budget", "run": None}

    await api.patch(organization, {"max_cost_usd_per_day": 0.01})
    await wake_reasons(api, agent, "notification:browser")


async def test_pause_and_its_end_are_logged_once(api: Api) -> None:
    organization = f"{ORGANIZATIONS}{(await api.create_agent())['organization']}/"
    with capture_logs() as logged:
        for paused in (True, True, False):
            await api.patch(organization, {"paused": paused})

    lines = [line for line in logged if line["event"].startswith("organization")]
    assert [line["event"] for line in lines] == ["organization paused", "organization resumed"]
    assert all(f"{ORGANIZATIONS}{line['organization']}/" == organization and line["caller"] for line in lines)


async def test_pause_stops_runs_and_holds_starts_until_it_ends(api: Api) -> None:
    agent = await api.create_agent()
    path = f"/api/cloud/agents/{agent['id']}"
    organization = f"{ORGANIZATIONS}{agent['organization']}/"
    first = (await api.post(f"{path}/run/")).body["run"]
    assert (await api.patch(organization, {"paused": True})).body["paused"] is True

    ended = (await api.get(f"{path}/runs/{first}/?wait=20")).body
    assert ended["outcome"] == "stopped"
    assert (await api.post(f"{path}/run/")).body == {"status": "paused", "run": None}
    await api.create_notification(agent, priority="high", source="browser")
    await in_phase(api, agent, "paused")

    assert (await api.patch(organization, {"paused": False})).body["paused"] is False
    await wake_reasons(api, agent, "notification:browser", "run_requested")


async def test_user_owns_an_organization_it_creates(service: Service) -> None:
    ann, first = await founder(service)

    created = await ann.create(ORGANIZATIONS, name=" Second ")

    assert (created["name"], created["paused"]) == ("Second", False)
    assert (await ann.get(f"{ORGANIZATIONS}{created['id']}/")).body == created
    me = (await ann.get("/api/organizations/auth/me/")).body
    assert [(each["id"], each["role"]) for each in me["organizations"]] == [
        (str(first.id), "owner"),
        (created["id"], "owner"),
    ]


async def test_key_creates_no_organization(api: Api) -> None:
    answer = await api.post(ORGANIZATIONS, {"name": "Second"})
    assert answer.status == 403
    assert answer.body == {"detail": "This needs the token of a user, not an API key."}


async def test_closed_sign_up_closes_new_organizations(start_service: StartService) -> None:
    ann, _ = await founder(await start_service(signup_open=False))
    answer = await ann.post(ORGANIZATIONS, {"name": "Second"})
    assert answer.status == 403
    assert "accounts.signup is closed" in answer.body["detail"]


@pytest.mark.one_node
async def test_new_organizations_count_as_sign_ups(start_service: StartService) -> None:
    ann, _ = await founder(await start_service(signups_per_hour=1))
    statuses = [(await ann.post(ORGANIZATIONS, {"name": "Second"})).status for _ in range(2)]
    assert statuses == [201, 429]


async def test_user_owns_limited_organizations_also_if_created_at_once(start_service: StartService) -> None:
    ann, _ = await founder(await start_service(organizations_per_user=3))
    answers = await asyncio.gather(*(ann.post(ORGANIZATIONS, {"name": "More"}) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [201, 201, 400, 400, 400]
    refused = next(answer for answer in answers if answer.status == 400)
    assert refused.body == {"detail": "You have reached limits.organizations_per_user, which is 3."}
