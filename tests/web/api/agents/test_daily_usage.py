"""Daily usage over HTTP: by day and model, within what the caller may see."""

from typing import Any

import pytest

from storage.history.usage import MAX_NAMED_MODELS
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api

USAGE = "/api/cloud/usage/"
ORGANIZATIONS = "/api/organizations/organizations/"
PERIOD = "start_date=2026-03-01&end_date=2026-03-04"
NOTHING = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cached_tokens": 0,
    "total_cost_usd": 0.0,
    "llm_calls": 0,
    "priced": True,
}


def sums(calls: int, cost_usd: float) -> dict[str, Any]:
    return {
        "input_tokens": 100 * calls,
        "output_tokens": 10 * calls,
        "cached_tokens": 20 * calls,
        "total_cost_usd": cost_usd,
        "llm_calls": calls,
        "priced": True,
    }


async def report(api: Api, agent: Any, day: int, model: str, cost_usd: float) -> None:
    await api.create(
        f"/api/cloud/agents/{agent['id']}/usage/",
        model=model,
        input_tokens=100,
        output_tokens=10,
        cached_tokens=20,
        cost_usd=cost_usd,
        occurred_at=f"2026-03-{day:02}T12:00Z",
    )


async def test_daily_usage_shows_each_day_and_model(api: Api) -> None:
    ann, bob = await api.create_agent(), await api.create_agent(name="Bob")
    await report(api, ann, 1, "a", 0.5)
    await report(api, bob, 3, "a", 0.25)
    await report(api, bob, 3, "b", 1)
    await report(api, bob, 4, "b", 1)

    answer = await api.get(f"{USAGE}?{PERIOD}&top_agents=1")

    assert answer.body == {
        "start_date": "2026-03-01T00:00:00.000000Z",
        "end_date": "2026-03-04T00:00:00.000000Z",
        "total": sums(3, 1.75),
        "model_count": 2,
        "models": [{"model": "b", **sums(1, 1)}, {"model": "a", **sums(2, 0.75)}],
        "days": [
            {"day": "2026-03-01", "by_model": [None, sums(1, 0.5)]},
            {"day": "2026-03-03", "by_model": [sums(1, 1), sums(1, 0.25)]},
        ],
        "top_agents": [{"agent": bob["id"], "name": "Bob", "total_cost_usd": 1.25, "llm_calls": 2}],
        "agent_max_cost_usd_per_day": None,
        "organization_max_cost_usd_per_day": None,
    }


async def test_models_beyond_the_named_ones_are_summed_together(api: Api) -> None:
    agent = await api.create_agent()
    for n in range(MAX_NAMED_MODELS + 2):
        await report(api, agent, 1, f"m{n}", n)

    usage = (await api.get(f"{USAGE}?{PERIOD}")).body

    assert (usage["model_count"], len(usage["models"])) == (MAX_NAMED_MODELS + 2, MAX_NAMED_MODELS + 1)
    assert usage["models"][-1] == {"model": None, **sums(2, 1)}
    assert usage["days"][0]["by_model"][-1] == sums(2, 1)


async def test_daily_usage_names_the_caps_that_hold_for_it(api: Api) -> None:
    [organization] = (await api.get(ORGANIZATIONS)).body
    await api.patch(f"{ORGANIZATIONS}{organization['id']}/", {"max_cost_usd_per_day": 100})
    template = await api.create("/api/templates/", name="Desk", max_cost_usd_per_day=5)
    agent = await api.create_agent(template=template["id"])

    of_agent = (await api.get(f"{USAGE}?agent={agent['id']}")).body
    of_all = (await api.get(USAGE)).body

    caps = ("agent_max_cost_usd_per_day", "organization_max_cost_usd_per_day")
    assert [of_agent[name] for name in caps] == [5, 100]
    assert [of_all[name] for name in caps] == [None, 100]
    assert (of_all["total"], of_all["models"], of_all["days"]) == (NOTHING, [], [])


async def test_daily_usage_is_filtered_by_agent_and_template(api: Api) -> None:
    template = await api.create("/api/templates/", name="Desk")
    ann, bob = await api.create_agent(), await api.create_agent(template=template["id"])
    await report(api, ann, 1, "a", 1)
    await report(api, bob, 1, "a", 2)
    await api.delete(f"/api/cloud/agents/{ann['id']}/")

    costs = [
        (await api.get(f"{USAGE}?{PERIOD}&{query}")).body["total"]["total_cost_usd"]
        for query in (f"agent={ann['id']}", f"template={template['id']}", f"agent={UNKNOWN_ID}")
    ]

    assert costs == [1, 2, 0]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("start_date=2026-01-02&end_date=2026-01-01", "start_date may not be after end_date."),
        (
            "start_date=2025-01-01&end_date=2026-02-06",
            "The period may be at most 400 days long: choose a later start or an earlier end.",
        ),
    ],
)
async def test_bad_period_of_daily_usage_is_refused(api: Api, query: str, message: str) -> None:
    answer = await api.get(f"{USAGE}?{query}")
    assert (answer.status, answer.body) == (400, {"start_date": [message]})
