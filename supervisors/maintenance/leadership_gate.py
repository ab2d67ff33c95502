"""The lead duty: no run starts while the lead is away."""

from collections.abc import Callable

from supervisors.engine.registry import Registry
from supervisors.maintenance.due_scan import DueScan


class LeadershipGate:
    """Lets runs start exactly while this instance leads; when the lead is back, looks for what was missed."""

    def __init__(self, leads: Callable[[], bool], registry: Registry, scan: DueScan) -> None:
        self._leads = leads
        self._registry = registry
        self._scan = scan

    async def run_once(self) -> None:
        """Follow the lead."""
        leads = self._leads()
        if leads != self._registry.may_start:
            self._registry.allow_starts(leads)
            if leads:
                await self._scan.recover()
