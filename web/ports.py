"""Interfaces that the HTTP layer needs from the layers around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from storage.errors import StorageError
from storage.postgres.node import Node
from supervisors import ports
from supervisors.engine.messages import Reply, Request, Signal
from web.node_numbers import NodeNumbers


class Registry(Protocol):
    """The way to all supervisors."""

    def tell(self, agent_id: UUID, signal: Signal) -> None:
        """Have a supervisor reconcile; never fails."""

    def tell_organization(self, organization_id: UUID, signal: Signal) -> None:
        """Have an organization's live supervisors reconcile; never fails."""

    def require_room(self, agent_id: UUID) -> None:
        """Raise MailboxFull if a request would be refused now."""

    async def ask(self, agent_id: UUID, request: Request[Reply], *, admitted: bool = False) -> Reply:
        """Return the supervisor's reply; raise an error of `supervisors.errors`."""

    def is_run_alive(self, agent_id: UUID, run_id: UUID) -> bool:
        """Return whether the run works here, or still finishes after its sleep."""

    def add_cost(self, agent_id: UUID, run_id: UUID | None, cost_usd: Decimal) -> None:
        """Count the cost of a model call that was reported for a run, if the run works here."""

    @property
    def max_runs_per_organization(self) -> int:
        """Return how many run slots an organization may have; 0 for no limit."""

    def count_runs(self, organization_id: UUID) -> int:
        """Return how many run slots an organization has."""

    async def wait_for_end(self, agent_id: UUID, run_id: UUID, seconds: float) -> None:
        """Wait until the end of the run is stored, but at most `seconds`."""


class Nodes(ports.Nodes, Protocol):
    """The nodes that serve the same database."""

    @property
    def life(self) -> UUID:
        """Return what tells this node from one to which a failover of the database gives the same id."""

    @property
    def nodes(self) -> Mapping[int, Node]:
        """Return all nodes that are not dead, this one included."""

    def seconds_since_beat(self, node_id: int) -> float:
        """Return for how long no further beat of a living node was seen."""


class ServiceState(StrEnum):
    """The state of the service."""

    READY = "ready"
    """All is well."""
    DRAINING = "draining"
    """It ends: it starts no runs and waits for those that are active."""
    DEGRADED = "degraded"
    """It serves with a problem, or cannot serve; `reasons` say which."""


@dataclass(frozen=True, slots=True)
class HarnessStatus:
    """How runs are executed."""

    kind: str
    """`builtin` for the loop of the service, `process` for code of the agents."""
    containment: str = ""
    """What holds the processes of a run together: `bubblewrap` or `none`; "" without processes."""
    network: str = ""
    """What processes can reach: `full`, or only the `service`; "" without processes."""
    remaining: int = 0
    """How many runs are over of which processes are left."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The state of this node, a sentence for each problem, and whether to send it requests.

    `can_write` tells whether the database takes writes.
    """

    state: ServiceState
    reasons: tuple[str, ...] = ()
    may_serve: bool = True
    can_write: bool = True


class Health(Protocol):
    """The state of this node."""

    async def readiness(self) -> Readiness: ...

    def numbers(self) -> NodeNumbers:
        """Return what this node tells the others of itself."""

    def forgotten(self) -> Mapping[UUID, datetime]:
        """Return the agents that nothing will start although something is active, and since when."""

    def report_refusal(self, error: StorageError) -> None:
        """Count a request that was refused because of the database, which is logged for all together."""
