"""The leadership gate allows starts exactly while this instance leads."""

from typing import cast

from supervisors.engine.registry import Registry
from supervisors.maintenance.due_scan import DueScan
from supervisors.maintenance.leadership_gate import LeadershipGate
from tests.supervisors.maintenance.recording_registry import RecordingRegistry


class RecoveryCounter:
    """A due scan that counts its recoveries."""

    def __init__(self) -> None:
        self.recoveries = 0

    async def recover(self) -> None:
        self.recoveries += 1


async def test_regained_leadership_allows_starts_and_recovers_once() -> None:
    registry, scan, answers = RecordingRegistry(), RecoveryCounter(), iter([True, True, False, False, True])
    gate = LeadershipGate(lambda: next(answers), cast(Registry, registry), cast(DueScan, scan))

    history = []
    for _ in range(5):
        await gate.run_once()
        history.append((registry.may_start, scan.recoveries))

    assert history == [(True, 1), (True, 1), (False, 1), (False, 1), (True, 2)]
