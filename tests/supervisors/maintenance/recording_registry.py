"""A registry that records what maintenance services tell it."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from storage.agent_facts import RowVersion
from supervisors.engine.messages import Signal


class RecordingRegistry:
    """Keeps signals and timers in lists instead of acting on them."""

    def __init__(self) -> None:
        self.signals: list[tuple[UUID, Signal]] = []
        self.signalled_organizations: list[UUID] = []
        self.timers: list[tuple[UUID, datetime]] = []
        self.recovery_seconds = 0.0
        self.may_start = False
        self.rows: list[RowVersion] = []
        self.working_agents: frozenset[UUID] = frozenset()
        self.untaken_slots = 0
        self.max_runs_per_organization = 0

    def catch_up(self, row: RowVersion) -> None:
        self.rows.append(row)

    def tell(self, agent_id: UUID, signal: Signal) -> None:
        self.signals.append((agent_id, signal))

    def tell_all(self, agent_ids: Iterable[UUID], signal: Signal) -> None:
        for agent_id in agent_ids:
            self.tell(agent_id, signal)

    def tell_queued(self) -> None:
        """Tell nobody: nothing is queued here."""

    def tell_organization(self, organization_id: UUID, signal: Signal) -> None:
        assert signal is Signal.RELOAD
        self.signalled_organizations.append(organization_id)

    def schedule(self, agent_id: UUID, at: datetime) -> None:
        self.timers.append((agent_id, at))

    def spread_recovery_over(self, seconds: float) -> None:
        self.recovery_seconds = seconds

    def allow_starts(self, allowed: bool) -> None:
        self.may_start = allowed
