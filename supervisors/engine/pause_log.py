"""The pauses of organizations in the log: by a client, who is named at once, or by an operator's command."""

from collections.abc import Set as AbstractSet
from uuid import UUID

import structlog

log = structlog.get_logger()

OPERATOR = "operator"  # the caller of what no client of this process has changed


class PauseLog:
    """Knows the pauses that were told, so that each is told once."""

    def __init__(self) -> None:
        self._paused: frozenset[UUID] = frozenset()

    @property
    def paused(self) -> frozenset[UUID]:
        """Return the organizations that are paused according to the log."""
        return self._paused

    def begin(self, paused: AbstractSet[UUID]) -> None:
        """Take the pauses from before the start as told."""
        self._paused |= paused

    def report(self, organization_id: UUID, *, is_paused: bool, caller: str) -> None:
        """Log a pause or its end, unless it was told before."""
        if is_paused == (organization_id in self._paused):
            return
        self._paused ^= {organization_id}
        if is_paused:
            log.info("organization paused", organization=str(organization_id), caller=caller)
        else:
            log.info("organization resumed", organization=str(organization_id), caller=caller)

    def report_rest(self, paused: AbstractSet[UUID], before: AbstractSet[UUID]) -> None:
        """Log what nobody reported. `before` is `paused` of this log when the pauses began to be read.

        An organization that was reported since is left out: its pause may have been read before that.
        """
        for organization_id in (paused ^ before) - (before ^ self._paused):
            self.report(organization_id, is_paused=organization_id in paused, caller=OPERATOR)
