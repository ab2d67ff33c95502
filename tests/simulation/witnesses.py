"""Several witnesses of commits as one."""

from collections.abc import Sequence
from uuid import UUID

from hostsvc_testing.memory.tables import Witness
from storage.agent_facts import AgentState, StateUpdate
from storage.events.model import Event
from storage.model import Notification


class Witnesses:
    """Several witnesses, which are told in turn."""

    def __init__(self, *witnesses: Witness) -> None:
        self._witnesses = witnesses

    def moved(self, before: AgentState, after: AgentState, update: StateUpdate) -> None:
        for witness in self._witnesses:
            witness.moved(before, after, update)

    def activated(self, notification: Notification) -> None:
        for witness in self._witnesses:
            witness.activated(notification)

    def changed(self, agent_id: UUID, what: str) -> None:
        for witness in self._witnesses:
            witness.changed(agent_id, what)

    def committed(self, events: Sequence[Event]) -> None:
        for witness in self._witnesses:
            witness.committed(events)
