"""What the HTTP interface needs of the layers around it. The supervisors' registry fits `Registry`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from supervisors.engine.messages import Request, Signal
from supervisors.engine.snapshot import Overview, Snapshot
from supervisors.policy.phases import Phase


class Registry(Protocol):
    """The way to all supervisors."""

    def tell(self, agent_id: UUID, signal: Signal) -> None:
        """Have a supervisor look again; never fails."""
        ...

    def tell_live(self, organization_id: UUID, signal: Signal) -> None:
        """Have an organization's live supervisors look again; never fails."""
        ...

    def require_room(self, agent_id: UUID) -> None:
        """Raise MailboxFull if a question would be refused now."""
        ...

    async def ask(self, agent_id: UUID, request: Request, *, admitted: bool = False) -> Any:
        """The reply, of the kind that `supervisors.engine.messages` says; raises supervisors.errors."""
        ...

    def goes_on(self, agent_id: UUID, run_id: UUID) -> bool:
        """Whether the run, or what winds it up after its sleep, is still there."""
        ...

    async def wait_for_end(self, agent_id: UUID, run_id: UUID, seconds: float) -> None:
        """Return when the end of a run is stored, or after so long."""
        ...

    async def snapshot(self, agent_id: UUID) -> Snapshot | None: ...

    async def snapshots(
        self, phase: Phase | None, organization_id: UUID | None, limit: int
    ) -> Sequence[Snapshot]: ...

    async def overview(self) -> Overview: ...


class ServiceState(StrEnum):
    READY = "ready"
    DRAINING = "draining"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class Readiness:
    """How the service is, with a sentence for each thing that is wrong, and whether to send it requests."""

    state: ServiceState
    reasons: tuple[str, ...] = ()
    may_serve: bool = True
