"""The random events of a simulated world: clients, programs, clocks, crashes and faults."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

from hostsvc_testing.memory.tables import QUANTUM_SECONDS, Tables
from storage.model import Agent, AgentStatus, Notification, Priority, Source
from supervisors.engine.messages import OwnedFieldsRequest
from supervisors.policy.explanations import OVER_BUDGET
from supervisors.policy.parked_calls import Decision, GrantTerms
from tests.simulation.clients import Clients
from tests.simulation.ids import Ids
from tests.storage.factories import agent as plain_agent

WINDOWS = (None, 0, 2, 4)
CAPS = (None, None, Decimal(0), Decimal(1), Decimal(2))
SLEEP_HOURS = (None, None, 0, 1)
WAKES_PER_HOUR = (None, None, None, 1, 2)
WAKES_PER_DAY = (None, None, None, 2, 4)
QUIET_HOURS = ("", "", "", "00:00-00:01, 09:00-09:01", "Mon-Sun 23:59-09:00")
ZONES = ("UTC", "UTC", "Pacific/Kiritimati")
SHARE_OF_URGENT = 0.1
SHARE_OF_TWO_DECIDERS = 0.3
SHARE_WITH_LIMITS = 0.5  # of the worlds: limits keep agents from much that may go wrong
SOURCES = (Source.SMS, Source.SMS, Source.EMAIL, Source.API, Source.API, Source.SYSTEM)
CONVERSATION_STEPS = (4, 6, 7)  # in quanta; shorter than either window
MOST_AGENTS = 4
EVERY_SECONDS = (3, 7, 20, 97)  # between moments of a schedule, so that many coincide with edits

Act = Callable[[Clients], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a client or another program does to the service."""

    name: str
    act: Act


class Workload:
    """Draws actions that fit the present state."""

    def __init__(
        self,
        random: Random,
        tables: Tables,
        ids: Ids,
        now: Callable[[], datetime],
        limits: Random,
        *,
        has_caps: bool,
        has_pauses: bool,
        has_schedules: bool,
        calls: Random | None,
    ) -> None:
        """`has_pauses`: single agents are paused, too, not only organizations. `limits` draws limits, and
        `calls` parked calls, if there are any."""
        self._random = random
        self._limits = limits
        self._has_limits = limits.random() < SHARE_WITH_LIMITS
        self._tables = tables
        self._ids = ids
        self._now = now
        self._kinds: list[tuple[int, Callable[[Agent], Action | None]]] = [
            (16, self._notify),
            (6, self._remind),
            (6, self._reschedule),
            (6, self._change_notification),
            (2, self._delete_notification),
            (6, self._request_run),
            (5, self._stop),
            (4, self._write_status),
            (4, self._write_sleep_until),
            (5, self._change_agent),
            (2, self._change_template),
            (3, self._pause),
            (1, self._delete_agent),
            (1, self._create_agent),
        ]
        if has_caps:
            self._kinds.append((4, self._change_cap))
        if has_schedules:
            self._kinds.append((12, self._edit_schedule))
        self._call_lots = calls
        if calls is not None:
            self._kinds += [(30, self._decide), (15, self._call_tool)]
        if has_pauses:
            self._kinds.append((8, self._pause_agent))

    def pause_before_next(self) -> float:
        """Return the seconds until the next action, a number of quanta that is often zero or small."""
        return QUANTUM_SECONDS * self._random.choice((0, 0, 0, 1, 1, 2, 4, 4, 8, 8, 16, 40))

    def next_action(self) -> Action | None:
        """Draw an action; None if there is nothing for it to act on."""
        agents = [agent for agent in self._tables.agents.values() if agent.id not in self._tables.deleted]
        if not agents:
            return self._create_agent(None)
        [(_, draw)] = self._random.choices(self._kinds, [weight for weight, _ in self._kinds])
        return draw(self._random.choice(agents))

    def conversation(self) -> list[tuple[float, Action]]:
        """Draw a series of messages to one agent, each before the hold of the last one ends."""
        agents = [agent for agent in self._tables.agents.values() if agent.id not in self._tables.deleted]
        if not agents:
            return []
        agent = self._random.choice(agents)
        step = QUANTUM_SECONDS * self._random.choice(CONVERSATION_STEPS)
        return [(step, self._message(agent, Source.SMS)) for _ in range(self._random.randint(2, 9))]

    def _notify(self, agent: Agent) -> Action:
        if self._random.random() < 0.15:
            source = self._random.choice(SOURCES)
            return Action("low", lambda clients: clients.notify(agent, source, Priority.LOW))
        return self._message(agent, self._random.choice(SOURCES))

    def _message(self, agent: Agent, source: Source) -> Action:
        urgent = self._limits.random() < SHARE_OF_URGENT
        return Action("high", lambda clients: clients.notify(agent, source, Priority.HIGH, urgent=urgent))

    def _remind(self, agent: Agent) -> Action:
        source, at = self._random.choice(SOURCES), self._some_time()
        urgent = self._limits.random() < SHARE_OF_URGENT
        return Action(
            "reminder", lambda clients: clients.notify(agent, source, Priority.HIGH, at, urgent=urgent)
        )

    def _reschedule(self, agent: Agent) -> Action | None:
        ahead = [one for one in self._tables.queue(agent.id) if one.scheduled_for is not None]
        return self._change(ahead, {"scheduled_for": self._some_time()})

    def _change_notification(self, agent: Agent) -> Action | None:
        changes: dict[str, Any] = self._random.choice(
            (
                {"cleared": True},
                {"cleared": False},
                {"cleared": False},
                {"priority": Priority.HIGH},
                {"priority": Priority.HIGH},
                {"priority": Priority.LOW},
                {"scheduled_for": None},
                {"scheduled_for": self._some_time(), "priority": Priority.HIGH, "cleared": False},
            )
        )
        return self._change(self._tables.queue(agent.id), changes)

    def _change(self, of: list[Notification], changes: dict[str, Any]) -> Action | None:
        if not of:
            return None
        notification = self._random.choice(of)
        if changes.get("scheduled_for") == notification.activated_at is not None:
            return None  # no client schedules a notification for the very microsecond of its arrival
        return Action("PATCH", lambda clients: clients.change_notification(notification, changes))

    def _delete_notification(self, agent: Agent) -> Action | None:
        # The notice about a budget has the same id all day, and may come again.
        queue = [one for one in self._tables.queue(agent.id) if one.title != OVER_BUDGET]
        if not queue:
            return None
        notification = self._random.choice(queue)
        return Action("DELETE", lambda clients: clients.delete_notification(notification))

    def _request_run(self, agent: Agent) -> Action:
        wakeup = self._random.random() < 0.7
        return Action("run", lambda clients: clients.request_run(agent, wakeup=wakeup))

    def _stop(self, agent: Agent) -> Action:
        force = self._random.random() < 0.3
        return Action("stop", lambda clients: clients.stop(agent, force=force))

    def _write_status(self, agent: Agent) -> Action:
        state = self._tables.states.get(agent.id)
        is_archived = state is not None and state.status is AgentStatus.ARCHIVED
        status = self._random.choice(list(AgentStatus))
        if is_archived and self._random.random() < 0.7:
            status = AgentStatus.SLEEPING
        return Action("status", lambda clients: clients.write_owned(agent, OwnedFieldsRequest(status=status)))

    def _write_sleep_until(self, agent: Agent) -> Action:
        until = None if self._random.random() < 0.2 else self._some_time()
        return Action(
            "sleep_until", lambda clients: clients.write_owned(agent, OwnedFieldsRequest(sleep_until=until))
        )

    def _change_agent(self, agent: Agent) -> Action:
        changes: dict[str, Any] = {"debounce_window_seconds": self._random.choice(WINDOWS)}
        if self._random.random() < 0.3:
            changes = {"max_sleep_hours": self._random.choice(SLEEP_HOURS)}
        if self._has_limits and self._limits.random() < 0.3:
            changes = self._drawn_limits()
        return Action("PATCH agent", lambda clients: clients.change_agent(agent, changes))

    def _change_template(self, agent: Agent) -> Action | None:
        template_id = agent.template_id
        if template_id is None:
            return None
        changes: dict[str, Any] = {"debounce_window_seconds": self._random.choice(WINDOWS) or 0}
        if self._has_limits and self._limits.random() < 0.3:
            changes = self._drawn_limits() | {"quiet_hours": self._limits.choice(QUIET_HOURS)}
        return Action("PATCH template", lambda clients: clients.change_template(template_id, changes))

    def _change_cap(self, agent: Agent) -> Action:
        changes = {"max_cost_usd_per_day": self._random.choice(CAPS)}
        template_id, whose = agent.template_id, self._random.random()
        if whose < 0.3:
            return Action("PATCH cap", lambda clients: clients.cap(agent.organization_id, changes))
        if whose < 0.6 and template_id is not None:
            return Action("PATCH cap", lambda clients: clients.change_template(template_id, changes))
        if whose < 0.7:
            return Action("UPDATE of a cap", lambda clients: clients.change_agent_unheard(agent, changes))
        return Action("PATCH cap", lambda clients: clients.change_agent(agent, changes))

    def _pause(self, agent: Agent) -> Action:
        organization_id = agent.organization_id
        paused = not self._tables.organizations[organization_id].paused
        return Action("pause", lambda clients: clients.pause(organization_id, paused=paused))

    def _pause_agent(self, agent: Agent) -> Action:
        state = self._tables.states.get(agent.id)
        owned = OwnedFieldsRequest(paused=state is None or not state.paused)
        return Action("pause of an agent", lambda clients: clients.write_owned(agent, owned))

    def _edit_schedule(self, agent: Agent) -> Action | None:
        schedules = [each for each in self._tables.schedules.values() if each.agent_id == agent.id]
        if not schedules:
            return None
        schedule, every = self._random.choice(schedules), self._random.choice(EVERY_SECONDS)
        edits: tuple[Action, ...] = (
            Action("pause of a schedule", lambda clients: clients.pause_schedule(schedule)),
            Action(f"schedule every {every} s", lambda clients: clients.set_interval(schedule, every)),
            Action("zone of a schedule", lambda clients: clients.follow_zone(schedule)),
        )
        return self._random.choice(edits)

    def _call_tool(self, agent: Agent) -> Action:
        amount, is_harmless = self._amount(), self._lots().random() < 0.3
        return Action("call", lambda clients: clients.call_tool(agent, amount, is_harmless=is_harmless))

    def _decide(self, agent: Agent) -> Action | None:
        calls = [call for call in self._tables.calls.rows.values() if call.agent_id == agent.id]
        if not calls:
            return None
        call, decisions = self._lots().choice(calls[-3:]), [self._decision()]
        if self._lots().random() < SHARE_OF_TWO_DECIDERS:
            decisions.append(self._decision())
        return Action("decision", lambda clients: clients.decide(call, decisions))

    def _decision(self) -> Decision:
        """Draw a decision, with a grant that covers one amount or amounts up to a maximum, for some time."""
        lots = self._lots()
        until = self._now() + timedelta(seconds=lots.choice((5, 40)))
        schema = {"properties": {"amount": {"maximum": self._amount()}}}
        exact = GrantTerms(is_exact=True)
        limited = GrantTerms(is_exact=False, schema=schema, until=until, max_uses=lots.choice((1, 2)))
        edited = f'{{"amount":{self._amount()}}}'
        return lots.choice(
            (
                Decision(approve=True),
                Decision(approve=False),
                Decision(approve=True, arguments=edited),
                Decision(approve=True, grant=exact),
                Decision(approve=True, grant=limited),
            )
        )

    def _amount(self) -> int:
        return self._lots().randint(1, 8)

    def _lots(self) -> Random:
        return self._call_lots or self._random

    def _delete_agent(self, agent: Agent) -> Action | None:
        return Action("DELETE agent", lambda clients: clients.delete_agent(agent))

    def _create_agent(self, _: Agent | None) -> Action | None:
        if len(self._tables.states) >= MOST_AGENTS:
            return None
        agent = self.new_agent(self._random.choice(list(self._tables.organizations)))
        return Action("POST agent", lambda clients: clients.create_agent(agent))

    def new_agent(self, organization_id: UUID) -> Agent:
        templates = [
            one.id for one in self._tables.templates.values() if one.organization_id == organization_id
        ]
        return plain_agent(
            organization_id,
            id=self._ids.new(),
            created_at=self._now(),
            template_id=self._random.choice([None, *templates]),
            max_sleep_hours=self._random.choice(SLEEP_HOURS),
            debounce_window_seconds=self._random.choice(WINDOWS),
            timezone=self._limits.choice(ZONES),
            **self._drawn_limits(),
        )

    def _drawn_limits(self) -> dict[str, Any]:
        """Draw the limits of an agent; None for those of its template. Some worlds have none."""
        if not self._has_limits:
            return {}
        return {
            "max_wakes_per_hour": self._limits.choice(WAKES_PER_HOUR),
            "max_wakes_per_day": self._limits.choice(WAKES_PER_DAY),
            "quiet_hours": self._limits.choice((None, *QUIET_HOURS)),
        }

    def _some_time(self) -> datetime:
        """Draw a time in whole quanta, to coincide with other events: mostly soon, sometimes past or far."""
        quanta = self._random.choice((-40, 0, 1, 2, 4, 8, 12, 16, 20, 40, 80, 3600 * 4, 3600 * 8))
        return self._now() + timedelta(seconds=QUANTUM_SECONDS * quanta)
