"""The numbers that each node tells the others with its beat, and their sums over the nodes that live."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from storage.postgres.pool import PoolSize
from supervisors.engine.snapshot import (
    AgentsResponse,
    MailboxesResponse,
    RunsResponse,
    ServiceNumbers,
    Spread,
)


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """What one node does at a moment. A node that has just joined has told nothing yet."""

    url: str = ""  # at which this very node answers
    running: int = 0
    queued: int = 0
    limit: int = 0
    free_slots: int = 0
    supervisors: int = 0
    phases: Mapping[str, int] = field(default_factory=dict)
    mailbox: int = 0
    deepest: int = 0
    restarts: int = 0
    lag_ms: Sequence[float | None] = (None, None, None)
    lateness_ms: Sequence[float | None] = (None, None, None)
    connections: int = 0
    idle: int = 0
    waiting: int = 0

    @classmethod
    def of(cls, numbers: ServiceNumbers, database: PoolSize, free_slots: int, url: str) -> Self:
        supervisors, runs = numbers.supervisors, numbers.runs
        return cls(
            url=url,
            running=runs.running,
            queued=runs.queued,
            limit=runs.limit,
            free_slots=free_slots,
            supervisors=supervisors.active,
            phases=supervisors.by_phase,
            mailbox=supervisors.mailbox.depth,
            deepest=supervisors.mailbox.deepest,
            restarts=supervisors.restarts,
            lag_ms=_quantiles(numbers.loop_lag_ms),
            lateness_ms=_quantiles(numbers.timers.lateness_ms),
            connections=database.connections,
            idle=database.idle,
            waiting=database.waiting,
        )

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Self:
        """Return the numbers among the facts of a node, which may lack some if it is of another version."""
        return cls(**{each.name: facts[each.name] for each in fields(cls) if each.name in facts})

    def publish(self) -> dict[str, Any]:
        return asdict(self)


def sum_up(own: ServiceNumbers, nodes: Sequence[NodeNumbers]) -> ServiceNumbers:
    """Return the numbers of the whole service; `own` has what each node counts in the database.

    Of lateness the worst node's is shown: quantiles have no sum.
    """
    running = sum(node.running for node in nodes)
    phases: Counter[str] = Counter()
    for node in nodes:
        phases.update(node.phases)
    return replace(
        own,
        supervisors=replace(
            own.supervisors,
            active=sum(node.supervisors for node in nodes),
            by_phase=dict(phases),
            mailbox=MailboxesResponse(
                sum(node.mailbox for node in nodes), max(node.deepest for node in nodes)
            ),
            restarts=sum(node.restarts for node in nodes),
        ),
        agents=AgentsResponse(
            running, max(0, own.agents.running + own.agents.sleeping - running), own.agents.archived
        ),
        runs=RunsResponse(running, sum(node.queued for node in nodes), sum(node.limit for node in nodes)),
        timers=replace(own.timers, lateness_ms=_worst([node.lateness_ms for node in nodes])),
        loop_lag_ms=_worst([node.lag_ms for node in nodes]),
    )


def sum_up_connections(nodes: Sequence[NodeNumbers]) -> PoolSize:
    """Return the connections of all nodes to the database."""
    return PoolSize(
        sum(node.connections for node in nodes),
        sum(node.idle for node in nodes),
        sum(node.waiting for node in nodes),
    )


def _quantiles(spread: Spread) -> tuple[float | None, ...]:
    return spread.p50, spread.p99, spread.max


def _worst(spreads: Sequence[Sequence[float | None]]) -> Spread:
    """Return the greatest of each quantile."""
    p50, p99, longest = (
        max((value for value in values if value is not None), default=None)
        for values in zip(*spreads, strict=True)
    )
    return Spread(p50, p99, longest)
