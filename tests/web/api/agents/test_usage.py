"""Usage over HTTP: reported call by call and summed by model."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.web.conftest import SETTINGS, Api, Service
from web.credentials.formats import RunTokens

ORGANIZATIONS = "/api/organizations/organizations/"

CALL = {"model": "openai/gpt-4o", "input_tokens": 1000, "output_tokens": 100, "cached_tokens": 200}


def path(agent: Any) -> str:
    return f"/api/cloud/agents/{agent['id']}/usage/"


async def test_reported_call_is_priced_by_the_price_list(api: Api) -> None:
    agent = await api.create_agent()
    record = await api.create(path(agent), **CALL)
    assert record == {
        "id": record["id"],
        "agent": agent["id"],
        "trace": None,
        **CALL,
        "cost_usd": record["cost_usd"],
        "priced": True,
        "occurred_at": record["occurred_at"],
    }
    assert record["cost_usd"] > 0


async def test_reported_cost_counts_and_unknown_model_is_unpriced(api: Api) -> None:
    agent = await api.create_agent()
    reported = await api.create(path(agent), **CALL, cost_usd=0.123456)
    unknown = await api.create(path(agent), **{**CALL, "model": "nobody/knows-it"})
    assert (reported["cost_usd"], reported["priced"]) == (0.123456, True)
    assert (unknown["cost_usd"], unknown["priced"]) == (0, False)


async def test_usage_is_summed_by_model(api: Api) -> None:
    agent = await api.create_agent()
    for model, cost in (("a/one", 0.1), ("a/one", 0.2), ("a/two", "1.5")):
        await api.create(path(agent), **{**CALL, "model": model}, cost_usd=cost)
    period = "start_date=2000-01-01&end_date=2100-01-01T02:00%2B02:00"
    one = {
        "input_tokens": 2000,
        "output_tokens": 200,
        "cached_tokens": 400,
        "total_cost_usd": 0.3,
        "llm_calls": 2,
        "priced": True,
    }
    two = {
        "input_tokens": 1000,
        "output_tokens": 100,
        "cached_tokens": 200,
        "total_cost_usd": 1.5,
        "llm_calls": 1,
        "priced": True,
    }
    assert (await api.get(f"{path(agent)}?{period}")).body == {
        "agent_id": agent["id"],
        "agent_name": "Ann",
        "start_date": "2000-01-01T00:00:00.000000Z",
        "end_date": "2100-01-01T00:00:00.000000Z",
        "input_tokens": 3000,
        "output_tokens": 300,
        "cached_tokens": 600,
        "total_cost_usd": 1.8,
        "llm_calls": 3,
        "priced": True,
        "model_count": 2,
        "model_breakdown": {"a/one": one, "a/two": two},
    }


async def test_usage_says_if_the_price_of_a_call_is_unknown(api: Api) -> None:
    agent = await api.create_agent()
    await api.create(path(agent), **CALL)
    await api.create(path(agent), **{**CALL, "model": "nobody/knows-it"})

    usage = (await api.get(path(agent))).body

    assert usage["priced"] is False
    assert {model: one["priced"] for model, one in usage["model_breakdown"].items()} == {
        CALL["model"]: True,
        "nobody/knows-it": False,
    }


async def test_usage_covers_the_last_thirty_days_by_default(api: Api) -> None:
    agent = await api.create_agent()
    await api.create(path(agent), **CALL, occurred_at="2026-01-01T00:00Z")
    await api.create(path(agent), **CALL)
    recent = (await api.get(path(agent))).body
    assert recent["llm_calls"] == 1
    until = (await api.get(f"{path(agent)}?end_date=2026-01-02")).body
    assert (until["llm_calls"], until["start_date"]) == (1, "2025-12-03T00:00:00.000000Z")
    earliest = (await api.get(f"{path(agent)}?end_date=0001-01-02")).body
    assert (earliest["llm_calls"], earliest["start_date"]) == (0, "0001-01-01T00:00:00.000000Z")


async def test_local_times_use_agent_timezone_and_dates_use_utc(api: Api) -> None:
    agent = await api.create_agent(timezone="America/New_York")
    record = await api.create(path(agent), **CALL, occurred_at="2026-01-01T00:00")
    assert record["occurred_at"] == "2026-01-01T05:00:00.000000Z"
    usage = (await api.get(f"{path(agent)}?start_date=2026-01-01&end_date=2026-01-01T00:00:01")).body
    assert (usage["start_date"], usage["end_date"], usage["llm_calls"]) == (
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T05:00:01.000000Z",
        1,
    )


async def test_period_that_ends_before_it_starts_is_refused(api: Api) -> None:
    agent = await api.create_agent()
    answer = await api.get(f"{path(agent)}?start_date=2026-01-02&end_date=2026-01-01")
    message = "start_date may not be after end_date."
    assert (answer.status, answer.body) == (400, {"non_field_errors": [message]})


async def test_cached_tokens_are_part_of_the_input_tokens(api: Api) -> None:
    refused = await api.post(path(await api.create_agent()), {**CALL, "cached_tokens": 1001})
    message = "Ensure this value is less than or equal to 1000."
    assert (refused.status, refused.body) == (400, {"cached_tokens": [message]})


async def test_report_may_only_name_a_trace_of_its_agent(api: Api, other: Api) -> None:
    agent, bob, theirs = await api.create_agent(), await api.create_agent(), await other.create_agent()
    traces = [
        (await client.create("/api/tracing/traces/", agent=of["id"], name="x"))["id"]
        for client, of in ((api, agent), (api, bob), (other, theirs))
    ]
    own, of_bob, of_other = [await api.post(path(agent), {**CALL, "trace": trace}) for trace in traces]
    assert (own.status, own.body["trace"]) == (201, traces[0])
    assert (of_bob.status, of_bob.body) == (400, {"trace": ["This is not a trace of the agent."]})
    assert of_other.status == 403


async def test_usage_outlives_its_agent_but_accepts_no_report(api: Api, other: Api) -> None:
    agent = await api.create_agent()
    await api.create(path(agent), **CALL)
    await api.delete(f"/api/cloud/agents/{agent['id']}/")
    usage = (await api.get(path(agent))).body
    assert (usage["agent_name"], usage["llm_calls"]) == ("Ann", 1)
    assert (await api.post(path(agent), CALL)).status == 404
    assert (await other.get(path(agent))).status == 403


@pytest.mark.parametrize("cap_usd", [2, None])
async def test_run_cannot_exhaust_its_organization(service: Service, api: Api, cap_usd: int | None) -> None:
    [organization] = (await api.get(ORGANIZATIONS)).body
    await api.patch(f"{ORGANIZATIONS}{organization['id']}/", {"max_cost_usd_per_day": 100})
    agent, other = await api.create_agent(max_cost_usd_per_day=cap_usd), await api.create_agent()
    run = (await api.post(f"/api/cloud/agents/{agent['id']}/run/", {})).body["run"]
    token = RunTokens(SETTINGS.token_secret).issue(UUID(run), datetime.now(UTC), timedelta(hours=1))
    caller = api.with_authorization(f"Bearer {token}")

    reports = [await caller.create(path(agent), **CALL, cost_usd=cost) for cost in (1.5, 1_000_000, 3)]

    assert [report["cost_usd"] for report in reports] == [1.5, 1_000_000, 3]
    assert (await api.get(path(agent))).body["total_cost_usd"] == 1_000_004.5
    budgets = await service.storage.spending.list_budgets(UUID(agent["id"]), datetime.now(UTC))
    [spent_usd] = [budget.spent_usd for budget in budgets if budget.of_organization]
    assert spent_usd == Decimal(cap_usd or 0)
    assert (await api.post(f"/api/cloud/agents/{other['id']}/run/", {})).body["status"] == "started"


@pytest.mark.one_node
async def test_reported_cost_is_in_the_last_line_of_the_run(api: Api) -> None:
    agent = await api.create_agent()
    with capture_logs() as logged:
        run = (await api.post(f"/api/cloud/agents/{agent['id']}/run/", {})).body["run"]
        for cost_usd in (1.5, 0.25):
            await api.create(path(agent), **CALL, trace=run, cost_usd=cost_usd)
        await api.create(path(agent), **CALL, cost_usd=7)  # for no run
        stop = await api.post(f"/api/cloud/agents/{agent['id']}/stop/", {"reason": "enough"})
    assert stop.body == {"status": "stopped"}
    [ended] = [line for line in logged if line["event"] == "run ended"]
    assert (ended["run"], ended["outcome"], ended["cost_usd"]) == (run, "stopped", 1.75)
    [stopped] = [line for line in logged if line["event"] == "agent stopped"]
    assert (stopped["caller"].partition(":")[0], stopped["reason"]) == ("key", "enough")
