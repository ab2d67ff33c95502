"""The overview over HTTP: sentences, what needs a person, and the agenda."""

from datetime import UTC, datetime, timedelta
from typing import Any

from storage.model import Role
from tests.web.conftest import Api, Service
from tests.web.people import founder, staff

PATH = "/api/cloud/overview/"
NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)

QUARANTINE = """
UPDATE agent_state SET phase = 'quarantined', phase_since = $2, failures = 5, last_error = 'No route.',
    retry_at = $3, next_due_at = $3, retry_reason = 'retry_after_failure' WHERE agent_id = $1
"""
FAIL_WEBHOOK = "UPDATE webhook SET failing_since = $2 WHERE id = $1"


async def overview(api: Api, query: str = "") -> Any:
    answer = await api.get(PATH + query)
    assert answer.status == 200, answer
    return answer.body


def kinds(body: Any) -> list[str]:
    return [item["kind"] for item in body["attention"]]


async def test_overview_without_agents_says_so(api: Api) -> None:
    body = await overview(api)
    as_of = body.pop("as_of")
    assert abs(datetime.fromisoformat(as_of) - datetime.now(UTC)) < HOUR
    assert body == {
        "sentence": "There are no agents yet.",
        "phases": {},
        "attention": [],
        "attention_total": 0,
        "attention_counts": {},
        "agenda": [],
        "agenda_total": 0,
    }


async def test_quarantined_agent_needs_a_person(service: Service, api: Api) -> None:
    agent = await api.create_agent(name="Rosa", timezone="Asia/Tokyo")
    await api.create_agent()
    await service.storage.pool.execute(QUARANTINE, agent["id"], NOW - HOUR, NOW + HOUR)
    body = await overview(api)
    assert body["sentence"] == "2 agents: 1 quarantined and 1 asleep. 1 thing needs a person."
    assert body["phases"] == {"quarantined": 1, "asleep": 1}
    [item] = body["attention"]
    explained = (await api.get(f"/api/cloud/agents/{agent['id']}/supervisor/")).body
    assert datetime.fromisoformat(item.pop("since")) == NOW - HOUR
    assert item == {
        "kind": "quarantined",
        "sentence": explained["why"],
        "organization": agent["organization"],
        "agent": agent["id"],
        "agent_name": "Rosa",
        "timezone": "Asia/Tokyo",
        "webhook": None,
        "message": None,
        "run": None,
        "delivery": None,
        "schedule": None,
        "approval": None,
    }
    assert item["sentence"].startswith("Quarantined until")
    assert body["agenda"][0]["because"] == "It tries again after a failure."


async def test_paused_organization_is_one_item_for_all_its_agents(service: Service) -> None:
    api, organization = await founder(service)
    quarantined = await api.create_agent()
    await api.create_agent(sleep_until=(NOW + HOUR).isoformat())
    archived = await api.create_agent()
    assert (await api.patch(f"/api/cloud/agents/{archived['id']}/", {"status": "archived"})).status == 200
    await service.storage.pool.execute(QUARANTINE, quarantined["id"], NOW - HOUR, NOW + HOUR)
    await api.patch(f"/api/organizations/organizations/{organization.id}/", {"paused": True})
    body = await overview(api)
    assert (kinds(body), body["agenda"], body["agenda_total"]) == (["paused"], [], 0)
    assert body["phases"] == {"paused": 2, "archived": 1}
    assert body["sentence"] == "3 agents: 2 paused and 1 archived. 1 thing needs a person."
    assert body["attention"][0]["agent"] is None


async def test_failing_webhooks_are_shown_to_admins_only(service: Service) -> None:
    api, organization = await founder(service)
    webhook = await api.create(
        "/api/organizations/webhooks/", url="https://hooks.example/secret", types=["*"]
    )
    await service.storage.pool.execute(FAIL_WEBHOOK, webhook["id"], NOW)
    [item] = (await overview(api))["attention"]
    assert (item["kind"], item["webhook"]) == ("failing_webhook", webhook["id"])
    assert "hooks.example" in item["sentence"]
    assert "secret" not in item["sentence"]
    member, _ = await staff(service, organization, Role.MEMBER)
    assert (await overview(member))["attention"] == []


async def test_agenda_names_the_cause_of_each_wake(service: Service, api: Api) -> None:
    reminded = await api.create_agent(name="Reminded", timezone="Europe/Vienna")
    await api.create_agent(name="Sleeper", sleep_until=(NOW + HOUR).isoformat())
    await api.create_agent(name="Far", sleep_until=(NOW + 48 * HOUR).isoformat())
    due_at = (NOW + 2 * HOUR).isoformat()
    await api.create_notification(reminded, title="Call Ms Moser", priority="high", scheduled_for=due_at)
    body = await overview(api)
    assert [(item["agent_name"], item["kind"], item["because"]) for item in body["agenda"]] == [
        ("Sleeper", "sleep", "The sleep it was given ends."),
        ("Reminded", "reminder", 'The reminder "Call Ms Moser" falls due.'),
    ]
    assert body["agenda_total"] == 2
    assert datetime.fromisoformat(body["agenda"][1]["at"]) == NOW + 2 * HOUR
    assert body["agenda"][1]["timezone"] == "Europe/Vienna"


async def test_overview_is_of_own_organizations_and_can_be_filtered(service: Service) -> None:
    api, organization = await founder(service)
    other, stranger = await founder(service)
    await api.create_agent()
    await other.create_agent(sleep_until=(NOW + HOUR).isoformat())
    assert (await overview(api))["phases"] == {"asleep": 1}
    assert (await overview(api, f"?organization={organization.id}"))["phases"] == {"asleep": 1}
    assert (await api.get(f"{PATH}?organization={stranger.id}")).status == 403
    assert (await api.get(f"{PATH}?organization={'0' * 8}-0000-0000-0000-{'0' * 12}")).body["phases"] == {}
