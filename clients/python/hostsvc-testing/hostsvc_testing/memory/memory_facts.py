"""The facts about agents in memory: the same as the statement GET_FACTS of `storage.agents.state` reads."""

from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from hostsvc_testing.memory.tables import Tables
from storage.agent_facts import NO_LIMITS, ActiveTimes, AgentFacts, Budget, WakeLimits
from storage.model import Agent, Unpriced


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
    names = ("max_wakes_per_hour", "max_wakes_per_day", "quiet_hours")
    found = {name: getattr(agent, name) for name in names}
    for name in names:
        if found[name] is None and template is not None:
            found[name] = getattr(template, name)
    if not any(found.values()):
        return NO_LIMITS
    own = [run.started_at for run in tables.runs.values() if run.agent_id == agent.id]
    starts = [at for at in sorted(own, reverse=True) if at <= now + timedelta(seconds=1)]
    of_hour = [at for at in starts if at > now - timedelta(hours=1)]
    of_day = [at for at in starts if at > now - timedelta(days=2)]
    per_hour, per_day, quiet_hours = found.values()
    return WakeLimits(
        per_hour,
        per_day,
        quiet_hours or "",
        agent.timezone,
        fills_hour_at=of_hour[per_hour - 1] if per_hour and len(of_hour) >= per_hour else None,
        fills_day_at=of_day[per_day - 1] if per_day and len(of_day) >= per_day else None,
    )


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
