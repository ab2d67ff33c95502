"""The facts about agents in memory: the same as the statement GET_FACTS of `storage.agents.state` reads."""

from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from hostsvc_testing.memory.tables import Tables
from storage.agent_facts import NO_LIMITS, WAKE_LIMITS, ActiveTimes, AgentFacts, Budget, WakeLimits
from storage.model import Agent, Unpriced
from supervisors.policy.limits import filled, limits_of


def facts(tables: Tables, agent_id: UUID, now: datetime) -> AgentFacts | None:
    """Return the facts about the agent at this moment; None if there is no such agent."""
    agent, state = tables.agent(agent_id), tables.states.get(agent_id)
    if agent is None or state is None:
        return None
    template = tables.templates.get(agent.template_id) if agent.template_id else None
    run = tables.runs.get(state.run_id) if state.run_id else None
    active = ActiveTimes()
    for one in tables.uncleared(agent_id):
        if one.activated_at is not None:
            active.add(one.source, one.activated_at, one.scheduled_for, urgent=one.urgent)
    return AgentFacts(
        organization_id=agent.organization_id,
        state=state,
        created_at=agent.created_at,
        name=agent.name,
        model=agent.model,
        organization_paused=tables.organizations[agent.organization_id].paused,
        max_sleep_hours=agent.max_sleep_hours,
        agent_window_seconds=agent.debounce_window_seconds,
        template_window_seconds=template.debounce_window_seconds if template else None,
        budgets=budgets(tables, agent, now),
        pending=active.grouped(state, now),
        pending_at_start=run.notification_count if run else 0,
        interrupted_sleep_until=run.interrupted_sleep_until if run else None,
        wake_reason=run.wake_reason if run else "",
        limits=limits(tables, agent, now),
    )


def limits(tables: Tables, agent: Agent, now: datetime) -> WakeLimits:
    """Return the limits on the agent's wakes, with the starts that fill them."""
    template = tables.templates.get(agent.template_id) if agent.template_id else None
    found = limits_of(agent, template, {})
    if not any(getattr(found, name) for name in WAKE_LIMITS):
        return NO_LIMITS
    own = [run.started_at for run in tables.runs.values() if run.agent_id == agent.id]
    return filled(found, sorted(at for at in own if at <= now + timedelta(seconds=1)), now)


def budgets(tables: Tables, agent: Agent, now: datetime) -> tuple[Budget, ...]:
    """Return the budgets that cap the agent's spending, its own first."""
    template = tables.templates.get(agent.template_id) if agent.template_id else None
    inherited = template.max_cost_usd_per_day if template else None
    own = agent.max_cost_usd_per_day if agent.max_cost_usd_per_day is not None else inherited
    shared = tables.organizations[agent.organization_id].max_cost_usd_per_day
    own_rule = agent.unpriced or (template.unpriced if template else Unpriced.REFUSE)
    shared_rule = tables.organizations[agent.organization_id].unpriced
    of_both = ((False, own, agent.id, own_rule), (True, shared, agent.organization_id, shared_rule))
    return tuple(
        Budget(
            of_organization,
            cap,
            tables.spending.get((owner_id, now.date()), Decimal(0)),
            allows_unpriced=rule is Unpriced.ALLOW,
        )
        for of_organization, cap, owner_id, rule in of_both
        if cap is not None
    )
