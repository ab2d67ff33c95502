"""Wake contexts as they are read: which lines of the journal stay in memory."""

import sys
from datetime import datetime
from uuid import UUID

import pytest

from storage.agents.wakes import WakeFacts
from storage.history.journals import PastRun
from supervisors.wake.wake_contexts import MAX_KNOWN_CHARACTERS, WakeContexts
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.wake.facts import past_run, wake_facts


class OneWake:
    """A store with the facts of one agent, which had one run."""

    def __init__(self, run: PastRun) -> None:
        self._run = run

    async def get(self, agent_id: UUID, now: datetime, context_tokens: int) -> WakeFacts:
        return wake_facts(runs=(self._run,))


@pytest.mark.parametrize("text", ["output", "error"])
@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
async def test_line_of_a_run_with_long_texts_is_not_kept(text: str, is_long: bool) -> None:
    run = past_run(**{text: "x" * (MAX_KNOWN_CHARACTERS + is_long)})
    contexts = WakeContexts(OneWake(run), HeldClock(), 4000)
    references = sys.getrefcount(run)

    context = await contexts.get(UUID(int=1))

    assert context is not None
    [line] = context.journal
    assert line.item is run
    del context, line
    assert (sys.getrefcount(run) == references) == is_long
