"""Bodies, queries and responses of agents."""

from dataclasses import replace
from decimal import Decimal

from storage.model import Agent, AgentStatus, Purpose
from tests.web.api.checks import (
    BLANK,
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    ORGANIZATION_ID_TEXT,
    OTHER_ID,
    OTHER_ID_TEXT,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.agents.agents import AgentBody, AgentQuery, TagsBody, serialize_agent

AGENT = Agent(
    id=ID,
    organization_id=ORGANIZATION_ID,
    template_id=None,
    template_name=None,
    parent_id=None,
    parent_name="",
    adapters=(OTHER_ID,),
    tags=("a",),
    name="Ann",
    model="m",
    created_at=NOON,
    timezone="UTC",
    system_prompt="",
    email_alias=None,
    max_turns=0,
    max_sleep_hours=None,
    harness_git_ref=None,
    reasoning_effort="",
    debounce_window_seconds=None,
    call_voice_id="",
    purpose=Purpose.PRODUCTION,
    status=AgentStatus.SLEEPING,
    sleep_until=None,
    run_started_at=None,
    last_wake_reason="",
    last_wake_interrupted_sleep_until=None,
)


def test_missing_name_and_model_are_reported_together() -> None:
    assert refuse(AgentBody(), {}) == {"name": REQUIRED, "model": REQUIRED}
    assert refuse(AgentBody(), {"template": None, "name": "Ann"}) == {"model": REQUIRED}


def test_model_is_optional_with_template_or_in_a_change() -> None:
    assert "model" not in accept(AgentBody(), {"template": ID_TEXT, "name": "Ann"})
    assert accept(AgentBody(), {"name": "Ann"}, partial=True) == {"name": "Ann"}


def test_supervisor_fields_have_no_default() -> None:
    checked = accept(AgentBody(), {"name": "Ann", "model": "m"})
    assert not checked.keys() & {"status", "sleep_until", "run_started_at", "last_wake_reason"}


def test_archived_agent_may_not_sleep() -> None:
    body = {"status": "archived", "sleep_until": "2127-01-01T00:00Z"}
    assert refuse(AgentBody(), body, partial=True) == {"sleep_until": ["An archived agent does not sleep."]}
    assert accept(AgentBody(), {**body, "sleep_until": None}, partial=True)["sleep_until"] is None


def test_tags_are_required_but_may_be_empty() -> None:
    assert refuse(TagsBody(), {}) == {"tags": REQUIRED}
    assert refuse(TagsBody(), {"tags": [" "]}) == {"tags": {0: BLANK}}
    assert accept(TagsBody(), {"tags": []}) == {"tags": []}


def test_query_hides_archived_agents_by_default() -> None:
    assert accept(AgentQuery(), {})["include_archived"] is False


def test_response_of_a_fresh_agent_has_nulls() -> None:
    response = serve(serialize_agent(AGENT))
    assert {name for name, value in response.items() if value is None} == {
        "template",
        "template_name",
        "parent",
        "sleep_until",
        "email_alias",
        "run_started_at",
        "last_wake_interrupted_sleep_until",
        "max_sleep_hours",
        "harness_git_ref",
        "debounce_window_seconds",
        "max_cost_usd_per_day",
        "unpriced",
    }
    assert (response["id"], response["organization"]) == (ID_TEXT, ORGANIZATION_ID_TEXT)
    assert (response["adapters"], response["tags"]) == ([OTHER_ID_TEXT], ["a"])


def test_response_writes_times_in_utc_and_money_as_number() -> None:
    agent = replace(AGENT, sleep_until=NOON, max_cost_usd_per_day=Decimal("0.000001"))
    response = serve(serialize_agent(agent))
    assert (response["sleep_until"], response["max_cost_usd_per_day"]) == (NOON_TEXT, 0.000001)
