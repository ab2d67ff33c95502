"""The leadership gate: no run starts while this instance is not the leader."""

from collections.abc import Callable

from supervisors.engine.registry import Registry
from supervisors.maintenance.due_scan import DueScan


class LeadershipGate:
    """Allows starts exactly while this instance leads; when it leads again, scans for what it missed."""

    def __init__(self, leads: Callable[[], bool], registry: Registry, scan: DueScan) -> None:
        self._leads = leads
        self._registry = registry
        self._scan = scan

    async def run_once(self) -> None:
        """Allow or forbid starts if the leadership has changed."""
        leads = self._leads()
        if leads != self._registry.may_start:
            self._registry.allow_starts(leads)
            if leads:
                await self._scan.recover()
