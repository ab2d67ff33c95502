"""In every situation the snapshot is true: its next wake is derived a second time, in plain SQL."""

import re
from datetime import datetime, timedelta

import pytest

from storage.model import Agent
from storage.postgres.pool import Pool
from supervisors.engine.snapshot import DebounceResponse, Snapshot
from supervisors.policy.explanations import when
from supervisors.policy.phases import Phase
from tests.supervisors.engine.situations import (
    SITUATIONS,
    Situation,
    backing_off_after_the_service_died,
    never_run,
    over_its_budget,
)
from tests.supervisors.world import World, open_world

# A second implementation of the rules, in SQL. It does not read next_due_at.
NEXT_WAKE = """
WITH one AS (
    SELECT s.*, o.paused OR s.paused AS is_paused,
           coalesce(a.debounce_window_seconds, t.debounce_window_seconds, 0) AS window_seconds,
           o.max_cost_usd_per_day AS organization_cap,
           coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day) AS agent_cap,
           CASE WHEN s.failures >= 5 AND s.retry_at IS NOT NULL
                THEN s.last_started_at + interval '60 seconds' ELSE '-infinity' END AS opens_at
    FROM agent_state s JOIN agent a ON a.id = s.agent_id JOIN organization o ON o.id = a.organization_id
    LEFT JOIN template t ON t.id = a.template_id
    WHERE s.agent_id = $1
), high AS (
    SELECT n.*, coalesce(n.scheduled_for > n.created_at, false) AS is_reminder,
           n.activated_at > coalesce(one.last_started_at, '-infinity') AS is_later_than_start
    FROM notification n JOIN one USING (agent_id)
    WHERE n.priority = 'high' AND NOT n.cleared
      AND (n.scheduled_for > $2 OR n.activated_at > coalesce(one.stopped_at, '-infinity'))
), held AS (
    SELECT activated_at FROM high JOIN one USING (agent_id)
    WHERE is_later_than_start AND NOT is_reminder AND window_seconds > 0
      AND source IN ('email', 'sms', 'mms', 'sms_provider_a', 'sms_provider_b')
), left_over AS (
    SELECT 1 FROM high JOIN one USING (agent_id)
    WHERE activated_at <= last_started_at
       OR (source = 'agent' AND NOT is_reminder AND activated_at <= last_ended_at)
), proposed (at) AS (
    SELECT run_requested_at FROM one
    UNION ALL
    SELECT greatest(activated_at, opens_at) FROM high JOIN one USING (agent_id)
    WHERE is_later_than_start AND activated_at NOT IN (SELECT activated_at FROM held)
      AND (is_reminder OR source <> 'agent' OR activated_at > coalesce(last_ended_at, '-infinity'))
    UNION ALL
    SELECT greatest(opens_at, least(
        max(activated_at) + make_interval(secs => window_seconds),
        min(activated_at)
            + make_interval(secs => greatest(2 * window_seconds, least(10 * window_seconds, 300)))
    ))
    FROM held, one GROUP BY opens_at, window_seconds
    UNION ALL
    SELECT retry_at FROM one
    WHERE retry_reason <> 'uncleared_notifications' OR EXISTS (SELECT FROM left_over)
    UNION ALL
    SELECT greatest(sleep_until, last_started_at + interval '1 second') FROM one
    WHERE sleep_until IS NOT NULL AND retry_at IS NULL
), today AS (
    SELECT coalesce(sum(u.cost_usd) FILTER (WHERE u.agent_id = one.agent_id), 0) AS of_agent,
           coalesce(sum(u.cost_usd), 0) AS of_organization
    FROM one LEFT JOIN usage_record u
        ON u.organization_id = one.organization_id AND u.occurred_at >= date_trunc('day', $2, 'UTC')
), budget (opens_at) AS (
    SELECT CASE WHEN least(agent_cap, organization_cap) = 0 THEN 'infinity'
                WHEN of_agent >= agent_cap OR of_organization >= organization_cap
                THEN date_trunc('day', $2, 'UTC') + interval '24 hours' END
    FROM today, one
)
SELECT nullif(min(greatest(at, budget.opens_at)), 'infinity') FROM proposed, one, budget
WHERE at IS NOT NULL AND status = 'sleeping' AND NOT is_paused AND queued_at IS NULL
"""


FACTS = """
SELECT s.last_started_at, s.last_ended_at, s.stopped_at, s.queued_at, s.retry_at, s.sleep_until,
       min(n.activated_at) AS first_activated_at
FROM agent_state s LEFT JOIN notification n ON n.agent_id = s.agent_id AND n.activated_at IS NOT NULL
WHERE s.agent_id = $1 GROUP BY s.agent_id
"""


def test_situations_cover_every_phase() -> None:
    assert set(SITUATIONS.values()) == set(Phase)


async def known_moments(world: World, agent: Agent, seen: Snapshot) -> set[str]:
    """Return every time that a sentence about the agent may name."""
    [facts] = await world.pool.fetch(FACTS, agent.id)
    today = world.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    derived = (
        seen.next_wake.at if seen.next_wake else None,
        seen.debounce.first_at if seen.debounce else None,
        latest_end(seen.debounce) if seen.debounce else None,
        today + timedelta(days=1) if "budget" in seen.why else None,
    )
    return {when(moment) for moment in (*facts, *derived) if moment is not None}


def latest_end(hold: DebounceResponse) -> datetime:
    """Return when the hold ends if the conversation goes on."""
    seconds = max(2 * hold.window_seconds, min(10 * hold.window_seconds, 300))
    return hold.first_at + timedelta(seconds=seconds)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
async def test_snapshot_explains_the_situation_truthfully(pool: Pool, situation: Situation) -> None:
    settings = {"max_concurrent": 1, "stop_grace_seconds": 3600}
    async with open_world(pool, runs=settings) as world:
        agent = await situation(world)
        seen, now = await world.see(agent), world.clock.now()

        assert seen.phase is SITUATIONS[situation]
        assert seen.status == (await world.state(agent)).status
        derived: datetime | None = await pool.fetchval(NEXT_WAKE, agent.id, now)
        assert (seen.next_wake.at if seen.next_wake else None) == derived
        named = set(re.findall(r"\d{4}-\d\d-\d\d [\d:]+ UTC", seen.why))
        assert named <= await known_moments(world, agent, seen)
        assert seen.next_wake is None or seen.debounce or when(seen.next_wake.at) in named
        assert seen.recent or situation in {never_run, backing_off_after_the_service_died, over_its_budget}

        known = await world.wakes(agent)
        if seen.next_wake is None:
            await world.advance(2000)
            assert await world.wakes(agent) == known
        else:
            await world.advance((seen.next_wake.at - now).total_seconds() - 0.001)
            assert await world.wakes(agent) == known
            await world.advance(0.002)
            assert len(await world.wakes(agent)) == len(known) + 1
