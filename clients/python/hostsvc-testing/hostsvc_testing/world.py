"""The world of a test: agents, the people and programs that reach them, and time that the test lets pass."""

import asyncio
import inspect
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID

import orjson
import yaml
from structlog.testing import capture_logs

from hostsvc.llm.price_list import PriceList
from hostsvc_testing import rows
from hostsvc_testing.agent_run import AgentFunction, AgentRun
from hostsvc_testing.cluster import Cluster
from hostsvc_testing.memory.faulty_wire import FaultyWire
from hostsvc_testing.memory.memory_store import build_memory_storage
from hostsvc_testing.memory.memory_tools import ADAPTER, BUILTIN, LocalSchemaChecker, Untold
from hostsvc_testing.memory.tables import Tables
from hostsvc_testing.process import Process, Service
from hostsvc_testing.script import Script
from hostsvc_testing.virtual.clock import TICK_SECONDS, Wall
from hostsvc_testing.virtual.history import History
from hostsvc_testing.virtual.virtual_loop import NothingAhead, VirtualLoop, end_leftovers
from storage import ids
from storage.channels.messages import Channel, Direction, Message, MessageStatus
from storage.model import Notification, Outcome, Run, Source, Template
from storage.parked_calls import CallState, ParkedCall
from storage.storage import Storage
from storage.toolbox import CHANNEL
from supervisors.engine.run import ActiveRun, Ask, RunError, RunResult
from supervisors.events.feed import EventFeed
from supervisors.harness.builtin import BuiltinHarness
from supervisors.harness.spending import BudgetGuard
from supervisors.llm.inbox_model import PROVIDER, InboxModel
from supervisors.llm.port import ModelRequest, ModelResponse
from supervisors.maintenance.parked_calls import ParkedCallRunner
from supervisors.maintenance.schedules import ScheduleRunner
from supervisors.outbound import OutboundAnswer, OutboundCall
from supervisors.policy.parked_calls import Decision, decide
from supervisors.settings import TracingSettings
from supervisors.tools.arguments import ToolError
from supervisors.tools.tool import PartialResult
from supervisors.tools.toolset import Toolset
from supervisors.wake_context import WakeContexts

BEGINS_AT = datetime(2027, 3, 1, 9, tzinfo=UTC)  # a Monday
ORGANIZATION = UUID(int=1)
PATIENCE_SECONDS = 86_400.0  # that a test may wait without letting time pass
RESTART_SECONDS = (0.5, 2.0, 30.0)
GAP_SECONDS = 1.0  # between two looks at what stays due
FIRST_MESSAGES = 2  # of a run: the instruction, and what it is told
UNDECIDED = "nothing of this agent waits for a decision: let time pass before"
CRASH_STEPS = 100  # turns of the loop; a wake that sends a message has about as many


@dataclass(slots=True)
class WorldAgent:
    """An agent, as a test sees it. `sent` are its messages that were handed to their channels."""

    id: UUID
    tables: Tables = field(repr=False)
    sent: list[Message] = field(default_factory=list, repr=False)

    @property
    def runs(self) -> list[Run]:
        """Return its runs, the oldest first: `wake_reason`, `outcome`, `error`, …"""
        return [run for run in self.tables.runs.values() if run.agent_id == self.id]

    @property
    def wakes(self) -> int:
        return len(self.runs)

    @property
    def queue(self) -> list[Notification]:
        """Return what is uncleared, also what is scheduled for later."""
        return self.tables.uncleared(self.id)

    @property
    def pending(self) -> list[ParkedCall]:
        """Return the calls and questions that wait for a person, the oldest first."""
        calls = self.tables.calls.rows.values()
        return [call for call in calls if call.agent_id == self.id and call.state is CallState.PENDING]


class World:
    """One service with a store in memory, on a loop with virtual time. The same seed does the same again."""

    def __init__(self, seed: int, folder: Path) -> None:
        """`folder` is that of the scripts."""
        self._seed = seed
        self._folder = folder
        self.tables = Tables()
        self.loop = VirtualLoop(self._random("loop"))
        self.wall = Wall(self.loop, BEGINS_AT, None)
        self.history = History(self.loop)
        self.functions: dict[UUID, AgentFunction] = {}
        self.models: dict[str, Script] = {}
        self.tools: dict[str, Callable[..., Any]] = {}
        self.agents: dict[UUID, WorldAgent] = {}
        self._chance = self._random("world")
        self._cluster = Cluster(self.loop, self._chance, share_lost=0, has_delays=False)
        self._copies, self._is_dead = 1, False  # of each delivery; while it is killed
        self._sent: set[UUID] = set()
        self._stuck_at = self.loop.time() + PATIENCE_SECONDS
        self._noted, self._rested = asyncio.Event(), asyncio.Event()
        self._clients = build_memory_storage(self.tables, self._ring)
        self.tables.organizations[ORGANIZATION] = rows.organization(id=ORGANIZATION)
        for channel in Channel:
            self.tool(f"send_{channel}", self._send, handler=CHANNEL + channel)

    def run(self, test: Coroutine[Any, Any, object]) -> None:
        """Run the test to its end."""
        self.loop.before_time_passes = self._at_rest
        numbers = count(1000)
        same_ids = patch.object(ids, "compat", SimpleNamespace(uuid7=lambda: UUID(int=next(numbers))))
        with same_ids, capture_logs():
            try:
                self.loop.run_until_complete(self._start())
                self.loop.run_until_complete(test)
            finally:
                end_leftovers(self.loop)

    @property
    def now(self) -> datetime:
        return self.wall.now()

    # What there is

    def template(self, name: str, **fields: Any) -> Template:
        """Create a template. `fields` are those of the API."""
        made = rows.template(ORGANIZATION, name=name, created_at=self.now, **fields)
        return self.tables.templates.setdefault(made.id, made)

    async def agent(
        self,
        template: str = "",
        model: Script | None = None,
        run: AgentFunction | None = None,
        **fields: Any,
    ) -> WorldAgent:
        """Create an agent, whose runs are done by the loop of the service with this model, or by `run`.

        Without either it has the model `builtin/inbox`, which clears what comes. A template that there is
        not is created. `fields` are those of the API, such as `timezone`.
        """
        named = (each for each in self.tables.templates.values() if each.name == template)
        used = (next(named, None) or self.template(template)) if template else None
        about = {"template_id": used and used.id, "name": template or f"agent {len(self.agents) + 1}"}
        about |= fields | {"adapters": (ADAPTER,), "created_at": self.now}
        agent = rows.agent(ORGANIZATION, **about)
        if model is not None:
            self.models[str(agent.id)] = mine = Script(model.name)
            mine.items = yaml.safe_load((self._folder / model.name).read_text())
            agent = replace(agent, model=f"{PROVIDER}/{agent.id}")
        if run is not None:
            self.functions[agent.id] = run
        self.history.call(agent.id, agent.name)
        await self._clients.agents.insert(agent, None)
        return self.agents.setdefault(agent.id, WorldAgent(agent.id, self.tables))

    def tool(self, name: str, call: Callable[..., Any], **fields: Any) -> None:
        """Give all agents a tool, which is a function or a coroutine function of its arguments."""
        self.tools[name] = call
        self._clients.agent_tools.insert(name, **fields)

    # What reaches agents

    async def text(
        self, agent: WorldAgent, sender: str, body: str, subject: str = "", channel: Channel = Channel.SMS
    ) -> None:
        """Let an SMS arrive, or a message of another channel, with its notification."""
        contacts = self._clients.contacts
        address = await contacts.normalize_address(ORGANIZATION, sender)
        contact = await contacts.find_or_insert(ORGANIZATION, address, self.now)
        kind = (agent.id, contact.id, channel, Direction.INBOUND)
        text = (subject, body, (), MessageStatus.RECEIVED)
        message = Message(agent.id, ORGANIZATION, *kind, *text, self.now, address=address)
        about = {"source": Source(channel), "source_id": str(contact.id)}
        await self._deliver(message, title=f"New {channel} from {sender}", body=body, **about)

    async def email(self, agent: WorldAgent, sender: str, body: str, subject: str = "") -> None:
        await self.text(agent, sender, body, subject, Channel.EMAIL)

    async def notify(self, agent: WorldAgent, title: str, body: str = "", **fields: Any) -> None:
        """Put a notification into the agent's queue, of high priority unless `fields` say something else."""
        await self._deliver(agent, title=title, body=body, **fields)

    async def decide(self, agent: WorldAgent, approve: bool = True, answer: Any = None) -> None:
        """Decide what waits for a person longest: approve a call or not, or answer a question."""
        if not agent.pending:
            raise LookupError(UNDECIDED)
        call_id, text = agent.pending[0].id, None if answer is None else orjson.dumps(answer).decode()
        rule = partial(decide, decision=Decision(approve, answer=text), by="user:test", now=self.now)
        await self._clients.parked_calls.change(call_id, rule, self.now)

    # What befalls the service

    def crash(self) -> None:
        """Kill the service at a random moment of what happens next, and start it again soon afterwards."""
        self._noted.clear()
        self.loop.create_task(self._crash())

    def duplicate_deliveries(self) -> None:
        """Let each message and notification arrive twice from now on, as from a sender that is not sure."""
        self._copies = 2

    def set_clock(self, to: datetime | None = None, **by: float) -> None:
        """Set the wall clock, to a time or by the arguments of `timedelta`. No time passes."""
        self.wall.step((timedelta(**by) if to is None else to - self.now).total_seconds())

    async def advance(self, **by: float) -> None:
        """Let time pass, as much as the arguments of `timedelta` say, until what is due then is done."""
        seconds = timedelta(**by).total_seconds()
        self._stuck_at = self.loop.time() + seconds + PATIENCE_SECONDS
        await asyncio.sleep(seconds)
        self._rested.clear()
        await self._rested.wait()

    # How it is done

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer as the model of an agent, whose name is the agent's id."""
        if request.model not in self.models:
            return await InboxModel().complete(request)
        waiting, is_new = await self.queue(UUID(request.model)), len(request.messages) == FIRST_MESSAGES
        return self.models[request.model].answer(waiting, self.now, is_new=is_new)

    async def queue(self, agent_id: UUID) -> list[Notification]:
        """Return what waits for a run of the agent: high priority first, then the oldest."""
        waiting = self.tables.uncleared(agent_id, self.now)
        return sorted(waiting, key=lambda one: (one.priority, one.created_at))

    def note(self, agent_id: UUID, what: str) -> None:
        self._noted.set()
        self.history.note(f"{self.history.name(agent_id)} {what}")

    def _send(self, message_id: str, **_: Any) -> None:
        """Send a message, but never one of the same id twice, as a tool of a channel does."""
        message = self.tables.messages[UUID(message_id)]
        if message.id not in self._sent:
            self.agents[message.agent_id].sent.append(message)
        self._sent.add(message.id)

    def _random(self, of: str) -> Random:
        return Random(f"{self._seed} {of}")  # noqa: S311 -- lots, not secrets

    async def _start(self) -> None:
        node = self._cluster.join()
        life = self._random(f"life {node.node_id}")
        wire = FaultyWire(self.loop, life, self.history, lambda *_: None)
        self._process = process = WorldProcess(self.loop, self.tables, self.wall, wire, node, life)
        with self.loop.acting(process):
            process.open(self)
            await self.loop.create_task(process.begin(process))

    async def _crash(self) -> None:
        await self._noted.wait()
        for _ in range(self._chance.randrange(CRASH_STEPS)):
            await asyncio.sleep(0)
        self.loop.freeze(self._process)
        self._is_dead = True
        self.history.note("the service is killed")
        await self._process.die()
        self._cluster.bury(self._process.node.node_id)
        await asyncio.sleep(self._chance.choice(RESTART_SECONDS))
        await self._start()
        self.history.note("the service is started again")
        self._is_dead = False

    def _at_rest(self) -> None:
        if self.loop.time() > self._stuck_at:
            raise NothingAhead("the test waits in vain: time passes by world.advance()")
        self._rested.set()
        if not self._is_dead:
            self._process.at_rest()

    def _ring(self, attendants: Mapping[UUID, int | None]) -> None:
        """Tell the service of a notification, unless it is dead: then it finds out when it starts."""
        if not self._is_dead:
            with self.loop.acting(self._process):
                self._process.tell(attendants)

    async def _deliver(self, to: WorldAgent | Message, **about: Any) -> None:
        """Deliver a message or only a notification, as often as is set."""
        agent_id = to.agent_id if isinstance(to, Message) else to.id
        for _ in range(self._copies):
            new = rows.new_notification(agent_id, created_at=self.now, **about)
            self.note(agent_id, f"gets {new.title}: {new.body}")
            if isinstance(to, Message):
                self._clients.messages.put(replace(to, id=new.id))
            await self._clients.notifications.insert(new, {ORGANIZATION})


class WorldProcess(Process):
    """The process of a world: its own harness, and what it calls beyond itself, a `supervisors.Outbound`."""

    max_seconds = 30.0  # of a call of a tool
    ask_mcp: Any = None  # there are no MCP servers

    def open(self, world: World) -> None:
        """Make the toolset and the loop of the service, for the agents of this world."""
        self._world = world
        self._due, self._looked_at, self._rings_at = asyncio.Event(), 0.0, 0.0
        clock, told = self.clock, Untold(self._tables)
        parts = SimpleNamespace(
            **{each.name: getattr(self.storage, each.name) for each in fields(self.storage)},
            approval_grants=self.storage.parked_calls,
            wakes=told,
            recent_notifications=told,
            traces=told,
        )
        checker, prices = LocalSchemaChecker(clock), PriceList()
        stores = cast(Storage, parts)  # as far as the tools of tests use it
        self._toolset = Toolset(stores, clock, self, checker, None, builtin=BUILTIN)
        self._builtin = BuiltinHarness(
            stores=stores,
            wakes=WakeContexts(stores, clock, self.run_settings, {}),
            budget_guard=BudgetGuard(self.storage.spending, prices, clock),
            prices=prices,
            toolset=self._toolset,
            schema_checker=checker,
            providers={PROVIDER: world},
            feed=EventFeed(self.storage.events, clock),
            clock=clock,
            settings=self.run_settings,
            tracing=TracingSettings(content="none"),
            max_content_bytes=0,
        )

    def services(self) -> Iterator[Service]:
        make, longest = partial(self._toolset.make, ask=self.registry.ask), self._toolset.max_call_seconds
        runner = ParkedCallRunner(self.storage.parked_calls, make, longest, self.clock, lambda: True)
        yield "what is due", partial(self._look, runner), 0

    def at_rest(self) -> None:
        """Set the timer for what is due next. A look every few seconds would make a month long."""
        moments = [state.next_due_at for state in self._tables.states.values()]
        moments += [call.due_at for call in self._tables.calls.rows.values()]
        moments += [schedule.due_at for schedule in self._tables.schedules.values()]
        due_at = min((moment for moment in moments if moment is not None), default=None)
        if due_at is not None:
            moment = self._loop.time() + (due_at - self.clock.now()).total_seconds()
            moment = max(moment, self._looked_at + GAP_SECONDS)
            if not self._loop.time() < self._rings_at <= moment + TICK_SECONDS:
                self._rings_at = moment
                self._loop.call_at(moment, self._due.set)

    async def _look(self, runner: ParkedCallRunner) -> None:
        await self._due.wait()
        self._due.clear()
        self._looked_at = self._loop.time()
        await ScheduleRunner(self.storage.schedules, self.clock).fire_due()
        await self._scan.run_once()
        if any(each.due_at and each.due_at <= self.clock.now() for each in self._tables.calls.rows.values()):
            await runner.run_once()

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Do the run by the function of its agent, else by the loop of the service."""
        note, function = partial(self._world.note, run.agent_id), self._world.functions.get(run.agent_id)
        note(f"wakes: {run.wake_reason}")
        queue, call = partial(self._world.queue, run.agent_id), partial(self._call_tool, run, ask)
        try:
            if function is None:
                return await self._builtin.execute(run, ask)
            await run.interruptible(function(AgentRun(run.wake_reason, self.clock.now, queue, call)))
            return RunResult(Outcome.ENDED)
        except ToolError as error:
            raise RunError(str(error)) from error
        except Exception as error:
            note(f"fails: {error if isinstance(error, RunError) else traceback.format_exc()}")
            raise
        finally:
            for use in run.log.facts(run.cost_usd).tools if run.log else ():
                if use.errors:
                    note(f"failed to call {use.name}: {use.last_error}")

    async def _call_tool(self, run: ActiveRun, ask: Ask, tool: str, /, **arguments: Any) -> Any:
        agent = await self.storage.agents.get(run.agent_id)
        if agent is None:
            raise RunError("The agent was deleted.")
        found = await self._toolset.find(agent, tool)
        result = await self._toolset.use(found, agent, run.id, ask, arguments)
        return result.value if isinstance(result, PartialResult) else result

    async def post(self, call: OutboundCall) -> OutboundAnswer:
        """Do what a tool is called for: hand a message to its channel, or call the function of the test."""
        data = orjson.loads(call.body)["data"]
        name, arguments = data["tool"], data["arguments"]
        self._world.note(UUID(data["agent"]), f"calls {name}: {arguments.get('body') or arguments}")
        try:
            result = self._world.tools[name](**arguments)
            result = await result if inspect.isawaitable(result) else result
        except Exception as error:  # as a server of tools answers
            return OutboundAnswer(500, "text/plain", repr(error).encode())
        return OutboundAnswer(200, "application/json", orjson.dumps(result))
