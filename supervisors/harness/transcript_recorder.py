"""The transcript recorder: it stores what a run says, turn by turn, for the agent's next runs."""

from collections.abc import Sequence
from typing import Any

import structlog

from storage.errors import StorageError
from storage.history.transcripts import TranscriptTurn, TurnKind
from storage.ids import new_id
from supervisors.clock import Clock
from supervisors.engine.run import ActiveRun
from supervisors.failure_log import log_failure
from supervisors.harness.transcript import estimate_tokens, turn_of
from supervisors.llm.port import ChatMessage
from supervisors.ports import TranscriptStore

log = structlog.get_logger()


class TranscriptRecorder:
    """The turns of one run. A turn that could not be stored is stored with the next one."""

    def __init__(self, run: ActiveRun, store: TranscriptStore, clock: Clock) -> None:
        self._run = run
        self._store = store
        self._clock = clock
        self._done = 0  # of the conversation's messages: those that need no storing (any more)

    def skip(self, count: int) -> None:
        """Leave out the first messages of the conversation: earlier runs have stored them."""
        self._done = count

    async def store(self, messages: Sequence[ChatMessage]) -> None:
        """Store what was said since the last time. A failure is only logged: it never stops a run."""
        said = messages[self._done :]
        turn = turn_of(said)
        if turn is None:
            return
        try:
            await self._store.insert(self.entry(TurnKind.TURN, turn))
        except StorageError as error:
            log_failure(log, "transcript not stored yet", error)
            return
        self._done += len(said)

    def entry(self, kind: TurnKind, messages: list[dict[str, Any]]) -> TranscriptTurn:
        """Return a new entry of the agent's transcript, from this run."""
        return TranscriptTurn(
            id=new_id(),
            agent_id=self._run.agent_id,
            run_id=self._run.id,
            kind=kind,
            messages=messages,
            tokens=estimate_tokens(messages),
            carried=True,
            created_at=self._clock.now(),
        )
