"""Agents with what they do and why over HTTP: rows, filters, orders, pages and the number of all."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from supervisors.policy.phases import HELD_BY_LIMITS, OVER_BUDGET, Phase, ShownPhase
from tests.web.conftest import Answer, Api, Service

PATH = "/api/cloud/supervisors/"
USAGE = {"model": "m", "input_tokens": 1, "output_tokens": 1, "cost_usd": 0.75}


async def names(api: Api, query: str = "") -> list[str]:
    answer = await api.get(f"{PATH}?{query}")
    assert answer.status == 200, answer
    return [row["name"] for row in answer.body]


async def test_row_explains_its_agent(api: Api) -> None:
    template = await api.create_template(name="Clerk", max_cost_usd_per_day=2)
    agent = await api.create_agent(name="Ann", template=template["id"], tags=["vip"], timezone="Asia/Tokyo")
    explained = (await api.get(f"/api/cloud/agents/{agent['id']}/supervisor/")).body

    [row] = (await api.get(PATH)).body

    assert row == {
        "agent": agent["id"],
        "name": "Ann",
        "organization": agent["organization"],
        "template": template["id"],
        "template_name": "Clerk",
        "tags": ["vip"],
        "purpose": "production",
        "timezone": "Asia/Tokyo",
        "status": "sleeping",
        "phase": "asleep",
        "since": explained["since"],
        "why": explained["why"],
        "next_wake": None,
        "cost_today_usd": 0,
        "unpriced_calls_today": 0,
        "max_cost_usd_per_day": 2,
        "uncleared_high": 0,
        "run": None,
        "node": None,
    }


async def test_row_counts_calls_of_unknown_cost(api: Api) -> None:
    agent = await api.create_agent()
    unpriced = {"model": "nobody/knows", "input_tokens": 1, "output_tokens": 1}
    await api.post(f"/api/cloud/agents/{agent['id']}/usage/", unpriced)
    [row] = (await api.get(PATH)).body
    assert (row["cost_today_usd"], row["unpriced_calls_today"]) == (0, 1)


async def test_row_shows_work_wake_and_costs(api: Api) -> None:
    agent = await api.create_agent(max_cost_usd_per_day=0.5, sleep_until="2999-01-01T00:00:00Z")
    await api.post(f"/api/cloud/agents/{agent['id']}/usage/", USAGE)
    await api.create_notification(agent, priority="high")
    await api.create_notification(agent, priority="high", scheduled_for="2999-01-01T00:00:00Z")

    [row] = (await api.get(PATH)).body

    assert (row["cost_today_usd"], row["uncleared_high"], row["phase"]) == (0.75, 1, "over_budget")
    assert row["why"].startswith("Over its budget")
    assert (
        row["next_wake"]["because"]
        == "Its budget is renewed. It is woken by a high-priority notification from api."
    )


@pytest.mark.one_node
async def test_page_reads_the_facts_of_all_agents_together(api: Api, service: Service) -> None:
    for number in range(12):
        await api.create_agent(name=f"Agent {number}")
    pool, sent = service.storage.pool, []
    fetch = pool.fetch

    async def counted(sql: str, *arguments: Any) -> Any:
        sent.append(sql)
        return await fetch(sql, *arguments)

    pool.fetch = counted  # type: ignore[method-assign]
    try:
        assert len(await names(api)) == 12
    finally:
        pool.fetch = fetch  # type: ignore[method-assign]
    assert sum("agent_state" in sql for sql in sent) == 2


async def test_link_leads_to_the_next_page_of_the_order(api: Api) -> None:
    for name in ("b", "C", "a", "d", "e"):
        await api.create_agent(name=name, tags=["x"])
    listed: list[str] = []
    path: str | None = f"{PATH}?sort=name&limit=2&tag=x"
    totals = []
    while path:
        answer = await api.get(path)
        listed += [row["name"] for row in answer.body]
        totals.append(answer.headers.get("X-Total-Count"))
        path = following(answer)
    assert listed == ["a", "b", "C", "d", "e"]
    assert totals == ["5", None, None]


def following(answer: Answer) -> str | None:
    link = answer.headers.get("Link")
    if link is None:
        return None
    url = urlsplit(link[1 : link.index(">")])
    return f"{url.path}?{url.query}"


async def test_filters_are_those_of_the_agent_list(api: Api) -> None:
    template = await api.create_template()
    boss = await api.create_agent(name="Boss", template=template["id"])
    child = await api.create_agent(name="Child", parent=boss["id"], tags=["a", "b"], purpose="eval")
    await api.create_agent(name="Old", status="archived")
    for query, found in (
        ("sort=name", ["Boss", "Child"]),
        ("sort=name&include_archived=true", ["Boss", "Child", "Old"]),
        ("status=archived", ["Old"]),
        ("phase=archived", ["Old"]),
        ("phase=asleep&sort=name", ["Boss", "Child"]),
        ("phase=running", []),
        ("tag=a&tag=b", ["Child"]),
        ("tag=a&tag=c", []),
        ("purpose=eval", ["Child"]),
        (f"template={template['id']}", ["Boss"]),
        (f"parent={boss['id']}", ["Child"]),
        ("name=BOSS", ["Boss"]),
        ("search=hil", ["Child"]),
        (f"agent={child['id']}", ["Child"]),
        (f"organization={boss['organization']}&search=o", ["Boss"]),
    ):
        assert await names(api, query) == found, query
        total = (await api.get(f"{PATH}?{query}")).headers.get("X-Total-Count")
        assert total == (None if query.startswith("agent=") else str(len(found))), query


def test_shown_phases_are_those_of_rules_budget_and_limits() -> None:
    assert {*ShownPhase} == {*Phase, OVER_BUDGET, HELD_BY_LIMITS}
