"""Agents that are diligent, careless, broken, hanging or deaf; each run draws its kind."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from random import Random

from hostsvc.llm.price_list import PriceList
from hostsvc_testing.memory.tables import QUANTUM_SECONDS
from hostsvc_testing.virtual.history import History
from storage.errors import StorageError
from storage.events.model import by_run
from storage.model import Outcome, Priority, Source
from storage.notifications.notifications import NewNotification
from supervisors.engine.messages import SleepGranted, SleepRefused, SleepRequest
from supervisors.engine.run import ActiveRun, Ask, RunError, RunResult
from supervisors.errors import SupervisorError
from supervisors.harness.spending import BudgetGuard
from tests.simulation.ids import Ids
from tests.simulation.judge import Judge
from tests.simulation.ledger import Ledger
from tests.simulation.process import RUNS, SimulatedProcess
from tests.storage.factories import usage_record

MOST_REFUSALS = 4
COSTS = (Decimal(0), Decimal(0), Decimal("0.5"))

Script = Callable[[ActiveRun, Ask], Awaitable[RunResult]]


class ScriptedHarness:
    """Executes runs, and reports the start and end of each to the judge."""

    def __init__(
        self,
        process: SimulatedProcess,
        judge: Judge,
        history: History,
        ledger: Ledger,
        random: Random,
        ids: Ids,
        costs: Random | None,
        *,
        lingers: bool,
    ) -> None:
        self._process = process
        self._judge = judge
        self._history = history
        self._ledger = ledger
        self._random = random
        self._ids = ids
        self._lingers = lingers
        self._costs = costs  # None if costs are not counted
        self._scripts: list[Script] = [
            *[self._is_diligent] * 8,
            *[self._takes_notes] * 2,
            *[self._is_careless] * 2,
            *[self._just_ends] * 2,
            *[self._breaks] * 2,
            *[self._is_at_its_limit] * 2,
            self._hangs,
            self._is_deaf,
        ]

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        script = self._random.choice(self._scripts)
        run.may_linger = self._lingers
        self._judge.run_began(run, self._process)
        self._note(run, f"begins and {script.__name__.strip('_').replace('_', ' ')}")
        try:
            return await script(run, ask)
        except (StorageError, SupervisorError) as error:
            raise RunError(str(error)) from error
        finally:
            self._note(run, "is gone")
            self._judge.run_over(run)

    async def _is_diligent(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Clear the queue and sleep; when sleep is refused, clear it again."""
        for _ in range(MOST_REFUSALS):
            await self._work(run)
            await self._clear_all(run)
            if await self._sleeps(run, ask):
                return RunResult(Outcome.SLEPT)
        return RunResult(Outcome.TURN_LIMIT)

    async def _takes_notes(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Leave a notification for itself, then go on as a diligent agent."""
        now = self._process.clock.now()
        ahead = self._random.choice((None, 1, 4, 20))
        new = NewNotification(
            id=self._ids.new(),
            agent_id=run.agent_id,
            source=Source.AGENT,
            source_id="",
            title=self._ids.title(),
            body="",
            priority=self._random.choice(list(Priority)),
            created_at=now,
            scheduled_for=None if ahead is None else now + timedelta(seconds=ahead),
        )
        agent = await self._process.storage.agents.get(run.agent_id)
        if agent is None:
            raise RunError("The agent was deleted.")
        await self._process.storage.notifications.insert(new, {agent.organization_id}, actor=by_run(run.id))
        if self._random.random() < 0.3:
            return RunResult(Outcome.ENDED)
        return await self._is_diligent(run, ask)

    async def _is_careless(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Ask for sleep without looking into the queue."""
        await self._work(run)
        slept = await self._sleeps(run, ask)
        return RunResult(Outcome.SLEPT if slept else Outcome.ENDED)

    async def _just_ends(self, run: ActiveRun, ask: Ask) -> RunResult:
        await self._work(run)
        if self._random.random() < 0.5:
            await self._clear_all(run)
        return RunResult(Outcome.ENDED)

    async def _breaks(self, run: ActiveRun, ask: Ask) -> RunResult:
        await self._work(run)
        raise RunError("The model is away.")

    async def _hangs(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Do nothing until stopped or timed out."""
        return await run.interruptible(asyncio.get_running_loop().create_future())

    async def _is_deaf(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Ignore a stop, and go on until cancelled."""
        await asyncio.sleep(QUANTUM_SECONDS * self._random.randint(4, 24))
        await self._clear_all(run)
        slept = await self._sleeps(run, ask)
        return RunResult(Outcome.SLEPT if slept else Outcome.ENDED)

    async def _is_at_its_limit(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Ask for sleep when the time is nearly up."""
        left = RUNS.max_seconds - self._random.choice((0, 0, QUANTUM_SECONDS))
        await run.interruptible(asyncio.sleep(left))
        slept = await self._sleeps(run, ask)
        return RunResult(Outcome.SLEPT if slept else Outcome.ENDED)

    async def _work(self, run: ActiveRun) -> None:
        run.at_turn_boundary()
        guard = BudgetGuard(self._process.storage.spending, PriceList(), self._process.clock)
        await guard.check(run, "builtin/inbox")
        run.turns += 1
        await run.interruptible(self._call_model(run, self._random.choice((0, 0, 1, 2, 4, 8))))
        if self._costs is not None:
            await self._spend(run, self._costs.choice(COSTS))

    async def _call_model(self, run: ActiveRun, quanta: int) -> None:
        self._judge.calls(run, self._process)
        await asyncio.sleep(QUANTUM_SECONDS * quanta)

    async def _spend(self, run: ActiveRun, cost: Decimal) -> None:
        """Record the cost of the work. Go on if that could not be stored."""
        agent = await self._process.storage.agents.get(run.agent_id)
        if agent is None:
            raise RunError("The agent was deleted.")
        now = self._process.clock.now()
        with suppress(StorageError):
            await self._process.storage.usage.insert(
                usage_record(agent, id=self._ids.new(), cost_usd=cost, occurred_at=now)
            )

    async def _clear_all(self, run: ActiveRun) -> None:
        queue, clock = self._process.storage.notifications, self._process.clock
        found = await queue.list_for_agent(run.agent_id, include_cleared=False, limit=100, now=clock.now())
        for one in found:
            with self._ledger.changing(one.id, {"cleared": True}) as acknowledge:
                if await queue.clear(run.agent_id, one.id, clock.now(), actor=by_run(run.id)):
                    acknowledge()

    async def _sleeps(self, run: ActiveRun, ask: Ask) -> bool:
        """Return whether sleep was granted. Then the run is over, even if it does something else."""
        now = self._process.clock.now()
        seconds = self._random.choice((None, None, 1, 4, 30, 7200))
        until = None if seconds is None else now + timedelta(seconds=seconds)
        reply = await ask(run.agent_id, SleepRequest(run.id, until))
        self._note(run, f"asks for sleep: {reply}")
        if isinstance(reply, SleepRefused):
            return False
        assert isinstance(reply, SleepGranted)
        self._judge.sleep_granted(run, reply)
        quanta = (0, 1, 4, 12) if run.may_linger else (0, 0, 0, 1)
        await asyncio.sleep(QUANTUM_SECONDS * self._random.choice(quanta))
        return True

    def _note(self, run: ActiveRun, line: str) -> None:
        self._history.note(f"{self._history.name(run.agent_id)} #{run.id.int} {line}")
