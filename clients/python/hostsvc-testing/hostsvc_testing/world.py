"""The world of a test: agents, the people and programs that reach them, and time that the test lets pass."""

import asyncio
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
from structlog.testing import capture_logs
from structlog.typing import EventDict

from hostsvc.llm.price_list import PriceList
from hostsvc_testing import rows
from hostsvc_testing.agent_run import AgentFunction, AgentRun
from hostsvc_testing.memory.memory_store import build_memory_storage
from hostsvc_testing.memory.memory_tools import ADAPTER, LocalSchemaChecker
from hostsvc_testing.memory.process_wire import ProcessWire
from hostsvc_testing.memory.tables import Tables
from hostsvc_testing.process import LoneNode, Process, Service
from hostsvc_testing.script import Script
from hostsvc_testing.virtual.clock import TICK_SECONDS, Wall
from hostsvc_testing.virtual.history import History
from hostsvc_testing.virtual.virtual_loop import NothingAhead, VirtualLoop, end_leftovers
from storage import ids
from storage.channels.messages import Channel, Direction, Message, MessageStatus
from storage.model import Agent, Notification, Outcome, Run, Source, Template
from storage.parked_calls import CallState, ParkedCall
from storage.storage import Storage
from storage.toolbox import CHANNEL
from supervisors.engine.run import ActiveRun, Ask, RunError, RunResult
from supervisors.events.feed import EventFeed
from supervisors.harness.builtin import BuiltinHarness
from supervisors.harness.spending import BudgetGuard
from supervisors.llm.inbox_model import InboxModel
from supervisors.llm.port import Model
from supervisors.maintenance.parked_calls import ParkedCallRunner
from supervisors.maintenance.schedules import ScheduleRunner
from supervisors.outbound import OutboundAnswer, OutboundCall
from supervisors.policy.parked_calls import Decision, decide
from supervisors.settings import TracingSettings
from supervisors.tools.arguments import ToolError
from supervisors.tools.tool import AgentTool, PartialResult, ToolInvocation
from supervisors.tools.toolset import Toolset
from supervisors.wake_context import WakeContexts

GAP_SECONDS = 1.0  # between two looks at what stays due
# The built-in tools that worlds have no stores for, and an argument of others.
LACKING = {"list_projects", "list_contacts", "create_contact", "update_contact", "open_sms_attachment"}
LACKING |= {"project_id"}
NOT_IN_WORLDS = "worlds in memory have no {}: test this on a service, with --hostsvc-url"
BEGINS_AT = datetime(2027, 3, 1, 9, tzinfo=UTC)  # a Monday
ORGANIZATION = UUID(int=1)
PATIENCE_SECONDS = 86_400.0  # that a test may wait without letting time pass
RESTART_SECONDS = (0.5, 2.0, 30.0)
UNDECIDED = "nothing of this agent waits for a decision: let time pass before"
CRASH_STEPS = 100  # turns of the loop; a wake that sends a message has about as many
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class WorldAgent:
    """An agent, as a test sees it. What it lists has the oldest first."""

    id: UUID
    world: "World" = field(repr=False)

    @property
    def sent(self) -> list[Message]:
        """Return its messages that were handed to their channels."""
        return [message for message in self.world.sent.values() if message.agent_id == self.id]

    @property
    def runs(self) -> list[Run]:
        """Return its runs: `wake_reason`, `outcome`, `error`, …"""
        return [run for run in self.world.tables.runs.values() if run.agent_id == self.id]

    @property
    def wakes(self) -> int:
        return len(self.runs)

    @property
    def queue(self) -> list[Notification]:
        """Return what is uncleared, also what is scheduled for later."""
        return self.world.tables.uncleared(self.id)

    @property
    def pending(self) -> list[ParkedCall]:
        """Return the calls and questions that wait for a person."""
        calls = self.world.tables.calls.rows.values()
        return [call for call in calls if call.agent_id == self.id and call.state is CallState.PENDING]

    @property
    def documents(self) -> dict[str, str]:
        """Return the contents of its documents: of its memory by their paths, of others by titles."""
        rows = (each for each in self.world.tables.documents.values() if each.agent_id == self.id)
        return {each.path or each.title: each.content for each in rows if each.deleted_at is None}

    @property
    def children(self) -> list["WorldAgent"]:
        """Return the agents that it has created."""
        all_agents = self.world.tables.agents.values()
        return [WorldAgent(each.id, self.world) for each in all_agents if each.parent_id == self.id]


class World:
    """One service with a store in memory, on a loop with virtual time. The same seed does the same again."""

    def __init__(self, seed: int, folder: Path) -> None:
        """`folder` is that of the scripts."""
        self.seed = seed
        self._folder = folder
        self.tables = Tables()
        self.loop = VirtualLoop(self.random("loop"))
        self.wall = Wall(self.loop, BEGINS_AT, None)
        self.history = History(self.loop, lambda: f"{self.now:%a %d %b %H:%M:%S.%f}"[:-3])
        self.tools: dict[str, Callable[..., Any]] = {}
        self.sent: dict[UUID, Message] = {}
        self._behaviours: dict[UUID, Script | AgentFunction] = {}  # by agent or template
        self._chance = self.random("world")
        self.lives = count(1)  # of the service, each a node of its own
        self._copies, self._is_dead = 1, False  # of each delivery; while it is killed
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
        with same_ids, capture_logs([self._note_error]):
            try:
                self.loop.run_until_complete(self._start())
                self.loop.run_until_complete(test)
            finally:
                end_leftovers(self.loop)

    @property
    def now(self) -> datetime:
        return self.wall.now()

    # What there is

    def template(
        self, name: str, model: Script | None = None, run: AgentFunction | None = None, **fields: Any
    ) -> Template:
        """Create a template, whose agents do what `model` or `run` says unless they have their own.

        `fields` are those of the API.
        """
        made = rows.template(ORGANIZATION, name=name, created_at=self.now, **fields)
        self._set_behaviour(made.id, model, run)
        return self.tables.templates.setdefault(made.id, made)

    async def agent(
        self,
        template: str = "",
        model: Script | None = None,
        run: AgentFunction | None = None,
        **fields: Any,
    ) -> WorldAgent:
        """Create an agent, whose runs are done by the loop of the service with this model, or by `run`.

        Without either it does what its template says, else it clears what comes. A template that there is
        not is created. `fields` are those of the API, such as `timezone`.
        """
        named = (each for each in self.tables.templates.values() if each.name == template)
        used = (next(named, None) or self.template(template)) if template else None
        about = {"template_id": used and used.id, "name": template or f"agent {len(self.tables.agents) + 1}"}
        about |= fields | {"adapters": (ADAPTER,), "created_at": self.now}
        made = rows.agent(ORGANIZATION, **about)
        self._set_behaviour(made.id, model, run)
        await self._clients.agents.insert(made, None)
        return WorldAgent(made.id, self)

    def tool(self, name: str, call: Callable[..., Any], **fields: Any) -> None:
        """Give all agents a tool, which is a function or a coroutine function of its arguments."""
        self.tools[name] = call
        self._clients.agent_tools.insert(name, **fields)

    # What reaches agents

    async def text(
        self,
        agent: WorldAgent,
        sender: str,
        body: str,
        subject: str = "",
        channel: Channel = Channel.SMS,
        **fields: Any,
    ) -> None:
        """Let an SMS arrive, or a message of another channel, with its notification."""
        if fields:
            raise TypeError(NOT_IN_WORLDS.format(", ".join(fields)))
        contacts = self._clients.contacts
        address = await contacts.normalize_address(ORGANIZATION, sender)
        contact = await contacts.find_or_insert(ORGANIZATION, address, self.now)
        kind = (agent.id, contact.id, channel, Direction.INBOUND)
        text = (subject, body, (), MessageStatus.RECEIVED)
        about = {"source": Source(channel), "source_id": str(contact.id), "body": body}
        for _ in range(self._copies):
            message = Message(ids.new_id(), ORGANIZATION, *kind, *text, self.now, address=address)
            self._clients.messages.put(message)
            await self._notify(agent, id=message.id, title=f"New {channel} from {sender}", **about)

    async def email(
        self, agent: WorldAgent, sender: str, body: str, subject: str = "", **fields: Any
    ) -> None:
        await self.text(agent, sender, body, subject, Channel.EMAIL, **fields)

    async def notify(self, agent: WorldAgent, title: str, body: str = "", **fields: Any) -> None:
        """Put a notification into the agent's queue, of high priority unless `fields` say something else."""
        for _ in range(self._copies):
            await self._notify(agent, title=title, body=body, **fields)

    async def decide(self, agent: WorldAgent, approve: bool = True, answer: Any = None) -> None:
        """Decide what waits for a person longest: approve a call or not, or answer a question."""
        if not agent.pending:
            raise LookupError(UNDECIDED)
        call, text = agent.pending[0], None if answer is None else orjson.dumps(answer).decode()
        told = text or ("yes" if approve else "no")
        self.note(agent.id, f"is told {told} about {call.question or call.tool}")
        rule = partial(decide, decision=Decision(approve, answer=text), by="user:test", now=self.now)
        await self._clients.parked_calls.change(call.id, rule, self.now)

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

    def behaviour(self, agent: Agent) -> Script | AgentFunction | None:
        """Return what does the runs of an agent: its own script or function, or that of its template."""
        if agent.id not in self._behaviours and agent.template_id in self._behaviours:
            given = self._behaviours[agent.template_id]
            self._behaviours[agent.id] = given.read(self._folder) if isinstance(given, Script) else given
        return self._behaviours.get(agent.id)

    async def queue(self, agent_id: UUID) -> list[Notification]:
        """Return what waits for a run of the agent: high priority first, then the oldest."""
        await asyncio.sleep(0)  # so that the loop finds out if a run does nothing else
        waiting = self.tables.uncleared(agent_id, self.now)
        return sorted(waiting, key=lambda one: (one.priority, one.created_at))

    def note(self, agent_id: UUID, what: str) -> None:
        """Write into the history, with names in the place of ids."""
        self._noted.set()
        self.history.note(f"{self.tables.agents[agent_id].name} {ID.sub(self._name, what)}")

    def _note_error(self, _logger: object, level: str, entry: EventDict) -> EventDict:
        """Write an error of the service into the history, such as that of a setting with a wrong value."""
        if level == "error":
            given = entry.get("exc_info")
            error = sys.exc_info()[1] if given is True else given
            self.history.note(f"error: {entry['event']}" + (f": {error!r}" if error else ""))
        return entry

    def random(self, of: str) -> Random:
        return Random(f"{self.seed} {of}")  # noqa: S311 -- lots, not secrets

    def _name(self, found: re.Match[str]) -> str:
        """Return what has this id by its title, name or address."""
        tables, id_ = self.tables, UUID(found[0])
        if contact := tables.contacts.get(id_):
            return contact.phone or contact.email or found[0]
        titled = tables.notifications.get(id_) or tables.documents.get(id_)
        return titled.title if titled else getattr(tables.agents.get(id_), "name", found[0])

    def _set_behaviour(self, id_: UUID, model: Script | None, run: AgentFunction | None) -> None:
        if model is not None and not isinstance(model, Script):
            raise TypeError(f'`model` takes script("….yaml"), not {model!r}; `run` takes a function')
        if behaviour := run or (model and model.read(self._folder)):
            self._behaviours[id_] = behaviour

    def _send(self, message_id: str, **_: Any) -> None:
        """Send a message, but never one of the same id twice, as a tool of a channel does."""
        message = self.tables.messages[UUID(message_id)]
        self.note(message.agent_id, f"sends {message.channel} to {message.address}: {message.body}")
        self.sent.setdefault(message.id, message)

    async def _notify(self, agent: WorldAgent, **about: Any) -> None:
        new = rows.new_notification(agent.id, created_at=self.now, **about)
        self.note(agent.id, f"gets {new.title}: {new.body}")
        await self._clients.notifications.insert(new, {ORGANIZATION})

    async def _start(self) -> None:
        self._process = process = WorldProcess(self)
        with self.loop.acting(process):
            await self.loop.create_task(process.begin(process))

    async def _crash(self) -> None:
        await self._noted.wait()
        for _ in range(self._chance.randrange(CRASH_STEPS)):
            await asyncio.sleep(0)
        self._is_dead = True
        self.history.note("the service is killed")
        await self._process.die()
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


class WorldProcess(Process):
    """A process of a world: its own harness, and what it calls beyond itself, a `supervisors.Outbound`."""

    max_seconds = 30.0  # of a call of a tool
    ask_mcp: Any = None  # there are no MCP servers

    def __init__(self, world: World) -> None:
        node = LoneNode(next(world.lives))
        life = world.random(f"life {node.node_id}")
        wire = ProcessWire(world.loop, life)
        super().__init__(world.loop, world.tables, world.wall, wire, node, life)
        self._world = world
        self._due, self._looked_at, self._rings_at = asyncio.Event(), 0.0, 0.0
        clock, checker, prices = self.clock, LocalSchemaChecker(self.clock), PriceList()
        stores = cast(Storage, self.storage)  # as far as the tools of worlds use it
        self._toolset = WorldToolset(stores, clock, self, checker, None)
        self._toolset.note = world.note
        self._builtin = BuiltinHarness(
            stores=stores,
            wakes=WakeContexts(stores, clock, self.run_settings, {}),
            budget_guard=BudgetGuard(self.storage.spending, prices, clock),
            prices=prices,
            toolset=self._toolset,
            schema_checker=checker,
            providers={"builtin": InboxModel()},
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
        moments += [self.storage.parked_calls.next_due(), self.storage.schedules.next_due()]
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
        call_due_at = self.storage.parked_calls.next_due()
        if call_due_at is not None and call_due_at <= self.clock.now():
            await runner.run_once()

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Do the run by the function of its agent, else by the loop of the service."""
        note, agent = partial(self._world.note, run.agent_id), self._tables.agents[run.agent_id]
        note(f"wakes: {run.wake_reason}")
        behaviour, queue = self._world.behaviour(agent), partial(self._world.queue, agent.id)
        try:
            if behaviour is None:
                return await self._builtin.execute(run, ask)
            if isinstance(behaviour, Script):
                provider = self.run_settings.qualify(agent.model).partition("/")[0]
                answers = partial(behaviour.answer, queue, self.clock.now)
                model = cast(Model, SimpleNamespace(complete=answers))
                return await replace(self._builtin, providers={provider: model}).execute(run, ask)
            call = partial(self._call_tool, run, ask)
            await run.interruptible(behaviour(AgentRun(agent, run.wake_reason, self.clock.now, queue, call)))
            return RunResult(Outcome.ENDED)
        except ToolError as error:
            note("fails because of that")
            raise RunError(str(error)) from error
        except Exception as error:
            note(f"fails: {error if isinstance(error, RunError) else traceback.format_exc(limit=-2)}")
            raise

    async def _call_tool(self, run: ActiveRun, ask: Ask, tool: str, /, **arguments: Any) -> Any:
        await asyncio.sleep(0)  # as in `World.queue`
        agent = await self.storage.agents.get(run.agent_id)
        if agent is None:
            raise RunError("The agent was deleted.")
        found = await self._toolset.find(agent, tool)
        result = await self._toolset.use(found, agent, run.id, ask, arguments)
        return result.value if isinstance(result, PartialResult) else result

    async def post(self, call: OutboundCall) -> OutboundAnswer:
        """Call the function of a tool, as its server."""
        data = orjson.loads(call.body)["data"]
        try:
            result = self._world.tools[data["tool"]](**data["arguments"])
            result = await result if inspect.isawaitable(result) else result
        except Exception as error:  # as a server of tools answers
            self._world.note(UUID(data["agent"]), f"breaks {data['tool']}: {error!r}")
            return OutboundAnswer(500, "text/plain", repr(error).encode())
        return OutboundAnswer(200, "application/json", orjson.dumps(result))


class WorldToolset(Toolset):
    """The tools of the service, but for those that worlds lack. Its calls are noted."""

    note: Any

    async def find(self, agent: Agent, name: str) -> AgentTool:
        with self._noting(agent.id, name):
            tool = await super().find(agent, name)
        return replace(tool, use=partial(self._noted, tool))

    async def _noted(self, tool: AgentTool, call: ToolInvocation) -> Any:
        given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.given.items())
        self.note(call.agent.id, f"calls {tool.definition.name}({given})")
        with self._noting(call.agent.id, tool.definition.name):
            lacking = LACKING & {tool.definition.name, *call.arguments.given}
            if lacking and tool.definition.adapter_id is None:
                raise ToolError("not_in_worlds", NOT_IN_WORLDS.format(*lacking))
            return await tool.use(call)

    @contextmanager
    def _noting(self, agent_id: UUID, tool: str) -> Iterator[None]:
        try:
            yield
        except ToolError as error:
            self.note(agent_id, f"is refused {tool}: {error}")
            raise
