"""The numbers that each node tells the others with its beat, and their sums over the nodes that live."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, is_dataclass, replace
from typing import Any, Self, TypeVar

from storage.postgres.pool import PoolSize
from supervisors.engine.snapshot import (
    MailboxesResponse,
    RunsResponse,
    ServiceNumbers,
    Spread,
    SupervisorsResponse,
)

Numbers = TypeVar("Numbers", bound=Any)  # a dataclass

NO_RUNS, NO_CONNECTIONS = RunsResponse(0, 0, 0), PoolSize(0, 0, 0)
NO_SUPERVISORS = SupervisorsResponse(0, {}, MailboxesResponse(0, 0), 0, 0)
NOT_MEASURED = Spread(None, None, None)


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """What one node does at a moment. A node that has just joined has told nothing yet."""

    url: str = ""  # at which this very node answers
    free_slots: int = 0
    runs: RunsResponse = NO_RUNS
    supervisors: SupervisorsResponse = NO_SUPERVISORS
    lag_ms: Spread = NOT_MEASURED
    lateness_ms: Spread = NOT_MEASURED
    database: PoolSize = NO_CONNECTIONS

    @classmethod
    def of(cls, numbers: ServiceNumbers, database: PoolSize, free_slots: int, url: str) -> Self:
        lag, lateness = numbers.loop_lag_ms, numbers.timers.lateness_ms
        return cls(url, free_slots, numbers.runs, numbers.supervisors, lag, lateness, database)

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Self:
        """Return the numbers among the facts of a node, which may lack some if it is of another version."""
        return _with(cls(), facts)

    def publish(self) -> dict[str, Any]:
        return asdict(self)


def _with(numbers: Numbers, told: Mapping[str, Any]) -> Numbers:
    """Return the numbers with those that were told."""
    known = {each.name: told[each.name] for each in fields(numbers) if each.name in told}
    for name, value in known.items():
        if is_dataclass(default := getattr(numbers, name)):
            known[name] = _with(default, value)
    return replace(numbers, **known)


def sum_up(own: ServiceNumbers, nodes: Sequence[NodeNumbers]) -> ServiceNumbers:
    """Return the numbers of the whole service; `own` has what each node counts in the database.

    Of lateness the worst node's is shown: quantiles have no sum.
    """
    runs, supervisors = _sum([node.runs for node in nodes]), [node.supervisors for node in nodes]
    mailboxes, phases = [each.mailbox for each in supervisors], Counter[str]()
    for each in supervisors:
        phases.update(each.by_phase)
    return replace(
        own,
        supervisors=replace(
            own.supervisors,
            active=sum(each.active for each in supervisors),
            by_phase=dict(phases),
            mailbox=replace(_sum(mailboxes), deepest=max(each.deepest for each in mailboxes)),
            restarts=sum(each.restarts for each in supervisors),
        ),
        agents=replace(
            own.agents,
            running=runs.running,
            sleeping=max(0, own.agents.running + own.agents.sleeping - runs.running),
        ),
        runs=runs,
        timers=replace(own.timers, lateness_ms=_worst([node.lateness_ms for node in nodes])),
        loop_lag_ms=_worst([node.lag_ms for node in nodes]),
    )


def sum_up_connections(nodes: Sequence[NodeNumbers]) -> PoolSize:
    """Return the connections of all nodes to the database."""
    return _sum([node.database for node in nodes])


def _sum(numbers: Sequence[Numbers]) -> Numbers:
    sums: Numbers = type(numbers[0])(*map(sum, zip(*map(astuple, numbers), strict=True)))
    return sums


def _worst(spreads: Sequence[Spread]) -> Spread:
    """Return the greatest of each quantile."""
    quantiles = zip(*map(astuple, spreads), strict=True)
    return Spread(*(max((value for value in each if value is not None), default=None) for each in quantiles))
