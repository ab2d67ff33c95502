"""The people and programs around the service. Each action does what the HTTP interface does.

Each acknowledged write is looked up in the store at once (I3).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from hostsvc_testing.memory.tables import Made, Tables
from hostsvc_testing.virtual.history import History
from storage.agent_facts import WAKE_LIMITS
from storage.errors import StorageError
from storage.model import Agent, AgentStatus, Notification, Priority, Source
from storage.notifications.notifications import NewNotification
from storage.notifications.schedules import PausedReason, Schedule
from storage.parked_calls import ParkedCall
from storage.postgres.json_values import to_json
from storage.toolbox import CallableTool
from supervisors.engine.messages import (
    OwnedFieldsRequest,
    Reply,
    Request,
    RunAnswer,
    RunRequest,
    Signal,
    StopReply,
    StopRequest,
)
from supervisors.engine.registry import tell_agents_of, tell_agents_of_template
from supervisors.errors import SupervisorError
from supervisors.policy import schedules as policy
from supervisors.policy.parked_calls import Decision, call_digest, decide, next_look
from supervisors.tools.parking import GRANT, needs_person
from tests.simulation.ids import Ids
from tests.simulation.judge import Judge
from tests.simulation.ledger import Ledger
from tests.simulation.process import SimulatedProcess
from tests.storage.factories import parked_call

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOOL = CallableTool(
    UUID(int=1), UUID(int=2), "refund", "", "http://shop", None, False, None, "", approval="always"
)


class MaximumChecker:
    """A schema checker that knows the maximum of an amount."""

    async def find_errors(self, _: UUID, __: str, schema: Any, value: Any) -> list[str]:
        await asyncio.sleep(0)
        return [] if value["amount"] <= schema["properties"]["amount"]["maximum"] else ["too much"]


def parked_call_of(
    agent: Agent, call_id: UUID, amount: int, made_at: datetime, lasts: timedelta
) -> ParkedCall:
    """Return a call of the tool for which a person is asked, for so long."""
    call = parked_call(
        agent,
        id=call_id,
        tool_id=TOOL.id,
        arguments=to_json({"amount": amount}).decode(),
        digest=call_digest(TOOL.id, {"amount": amount}),
        created_at=made_at,
        expires_at=made_at + lasts,
    )
    return replace(call, due_at=next_look(call, made_at))


class Clients:
    """Actions on one process. If one raises an error, nothing was acknowledged."""

    def __init__(
        self,
        process: SimulatedProcess,
        tables: Tables,
        judge: Judge,
        history: History,
        ledger: Ledger,
        ids: Ids,
    ) -> None:
        self._process = process
        self._storage = process.storage
        self._tables = tables
        self._judge = judge
        self._history = history
        self._ledger = ledger
        self._ids = ids

    async def attempt(self, name: str, act: "Callable[[Clients], Awaitable[None]]") -> None:
        """Act; a refusal is noted."""
        try:
            await act(self)
        except (StorageError, SupervisorError) as error:
            self._history.note(f"{name} is refused: {error}")

    async def notify(
        self,
        agent: Agent,
        source: Source,
        priority: Priority,
        scheduled_for: datetime | None = None,
        *,
        urgent: bool = False,
    ) -> None:
        new = NewNotification(
            id=self._ids.new(),
            agent_id=agent.id,
            source=source,
            source_id="",
            title=self._ids.title(),
            body="",
            priority=priority,
            created_at=self._process.clock.now(),
            scheduled_for=scheduled_for,
            urgent=urgent,
        )
        await self._storage.notifications.insert(new, {agent.organization_id})
        self._ledger.inserted(new)

    async def change_notification(self, notification: Notification, changes: Mapping[str, Any]) -> None:
        now = self._process.clock.now()
        with self._ledger.changing(notification.id, changes) as acknowledge:
            if await self._storage.notifications.update(notification.id, changes, now) is not None:
                acknowledge()

    async def delete_notification(self, notification: Notification) -> None:
        self._ledger.tried_to_delete(notification.id)
        if await self._storage.notifications.delete(notification.id, self._process.clock.now()):
            self._ledger.deleted(notification.id)

    async def request_run(self, agent: Agent, *, wakeup: bool) -> None:
        before = self._judge.account(agent.id)
        with self._judge.asks_to_run(agent.id):
            reply = await self._ask(agent, RunRequest(wakeup=wakeup))
        if reply.status in {RunAnswer.STARTED, RunAnswer.ALREADY_RUNNING}:
            self._require(reply.run in self._tables.runs, agent, f"run {reply.run} is not in the ledger")
        state = self._tables.states.get(agent.id)
        if reply.status is RunAnswer.QUEUED and state is not None and state.run_requested_at is None:
            is_met = self._judge.account(agent.id) != before  # it has been started or stopped since
            self._require(is_met, agent, "a run request was answered, and is not stored")

    async def stop(self, agent: Agent, *, force: bool) -> None:
        before = self._judge.account(agent.id)
        reply = await self._ask(agent, StopRequest(force=force))
        state = self._tables.states.get(agent.id)
        if reply is not StopReply.NOT_RUNNING and state is not None and state.stopped_at is None:
            is_over = self._judge.account(agent.id) != before
            self._require(is_over, agent, "a stop was answered, and is not stored")

    async def write_owned(self, agent: Agent, owned: OwnedFieldsRequest) -> None:
        before = self._judge.account(agent.id)
        self._judge.owned_writes[agent.id] += 1
        writes = self._judge.owned_writes[agent.id]
        with self._judge.asks_to_run(agent.id) if owned.status is AgentStatus.RUNNING else nullcontext():
            await self._ask(agent, owned)
        state = self._tables.states.get(agent.id)
        if (
            state is None
            or self._judge.owned_writes[agent.id] != writes
            or self._judge.account(agent.id) != before
        ):
            return  # another client has written, or the agent has been started, ended or stopped
        if isinstance(owned.sleep_until, datetime):
            is_kept = state.sleep_until is not None and state.sleep_until <= owned.sleep_until
            self._require(is_kept, agent, "its sleep_until was written, and is not stored")
        if isinstance(owned.paused, bool):
            self._require(state.paused is owned.paused, agent, "its pause was written, and is not stored")
        if owned.status is AgentStatus.ARCHIVED:
            self._require(state.status is AgentStatus.ARCHIVED, agent, "was archived, and is not")

    async def change_agent(self, agent: Agent, changes: Mapping[str, Any]) -> None:
        if await self._storage.agents.update(agent.id, changes, self._process.clock.now()) is not None:
            self._process.registry.tell(agent.id, Signal.RELOAD)

    async def change_agent_unheard(self, agent: Agent, changes: Mapping[str, Any]) -> None:
        """Change the agent as another program does: the service is not told."""
        self._judge.changed_by_another_program(agent.id)
        await self._storage.agents.update(agent.id, changes, self._process.clock.now())

    async def pause_schedule(self, schedule: Schedule) -> None:
        """Pause the schedule, or end its pause."""

        def toggled(row: Schedule) -> Schedule:
            return replace(row, paused_reason=PausedReason.NONE if row.paused_reason else PausedReason.MANUAL)

        await self._change(schedule, toggled)

    async def set_interval(self, schedule: Schedule, every_seconds: int) -> None:
        now = self._process.clock.now()
        await self._change(
            schedule, lambda row: policy.changed(row, {"every_seconds": every_seconds}, now), now
        )

    async def follow_zone(self, schedule: Schedule) -> None:
        """Have the schedule looked at, as the trigger does when the zone of its agent changes."""
        await self._change(schedule, lambda row: replace(row, due_at=EPOCH))

    async def _change(
        self, schedule: Schedule, change: Callable[[Schedule], Schedule], now: datetime = EPOCH
    ) -> None:
        async def changed(row: Schedule | None) -> Schedule:
            assert row is not None
            return change(row)

        await self._storage.schedules.save(schedule.agent_id, schedule.id, changed, now)

    async def decide(self, call: ParkedCall, decisions: Sequence[Decision]) -> None:
        """Decide about a parked call, as several people do at once."""
        await asyncio.gather(*(self._decide(call, decision) for decision in decisions))

    async def _decide(self, call: ParkedCall, decision: Decision) -> None:
        calls, now = self._tables.calls, self._process.clock.now()
        calls.proposed.append((call.id, decision))
        rule = partial(decide, decision=decision, by="user:1", now=now)
        step = await self._storage.parked_calls.change(call.id, rule, now)
        if step is not None and not step.refusal:
            calls.acknowledged[call.id] = decision

    async def call_tool(self, agent: Agent, amount: int, *, is_harmless: bool) -> None:
        """Call a tool whose every call needs an approval or a grant, as a run does."""
        now, call_id, store = self._process.clock.now(), self._ids.new(), self._storage.parked_calls
        call: Any = SimpleNamespace(
            agent=agent, now=now, stores=SimpleNamespace(approval_grants=store), metadata={}
        )
        checker: Any = MaximumChecker()
        calls = self._tables.calls
        if not await needs_person(call, TOOL, {"amount": amount}, checker):
            calls.made.append(Made(call_id, agent.id, amount, now, UUID(call.metadata[GRANT])))
            return
        parked = parked_call_of(agent, call_id, amount, now, timedelta(seconds=90))
        calls.harmless |= {call_id} if is_harmless else set()
        await store.insert(parked)

    async def delete_agent(self, agent: Agent) -> None:
        if await self._storage.agents.delete(agent.id, self._process.clock.now()):
            self._process.registry.tell(agent.id, Signal.RELOAD)

    async def create_agent(self, agent: Agent) -> None:
        await self._storage.agents.insert(agent, None)

    async def change_template(self, template_id: UUID, changes: Mapping[str, Any]) -> None:
        await self._storage.templates.update(template_id, changes, self._process.clock.now())
        for agent_id in await self._storage.agents.list_holding_of_template(template_id):
            self._process.registry.tell(agent_id, Signal.RELOAD)
        if changes.keys() & {"max_cost_usd_per_day", *WAKE_LIMITS}:
            states = self._storage.agent_states
            await tell_agents_of_template(template_id, states, self._process.registry)

    async def cap(self, organization_id: UUID, changes: Mapping[str, Any]) -> None:
        try:
            await self._storage.organizations.update(organization_id, changes, self._process.clock.now())
        except StorageError:  # it may be stored nevertheless, by a node that dies before it tells anyone
            for agent in self._tables.agents.values():
                if agent.organization_id == organization_id:
                    self._judge.unheard.add(agent.id)
            raise
        await tell_agents_of(organization_id, self._storage.agent_states, self._process.registry)

    async def pause(self, organization_id: UUID, *, paused: bool) -> None:
        await self._storage.organizations.update(
            organization_id, {"paused": paused}, self._process.clock.now()
        )
        await tell_agents_of(organization_id, self._storage.agent_states, self._process.registry)

    async def _ask(self, agent: Agent, request: Request[Reply]) -> Reply:
        name = self._history.name(agent.id)
        self._history.note(f"{name} is asked: {request}")
        try:
            reply = await self._process.registry.ask(agent.id, request)
        except (SupervisorError, StorageError) as error:
            self._history.note(f"{name} refuses the {request}: {error}")
            raise
        self._history.note(f"{name} answers the {request}: {reply}")
        return reply

    def _require(self, holds: bool, agent: Agent, what: str) -> None:
        if not holds:
            self._judge.condemn("I3", agent.id, what)
