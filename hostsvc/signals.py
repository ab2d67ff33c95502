"""Who is told when something was committed: supervisors and the event feed here, or those of another node."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from storage.postgres.bells import Bells
from storage.postgres.doorbell import Doorbell
from storage.postgres.json_values import from_json, to_json
from storage.postgres.membership import Membership, Report
from storage.storage import Storage
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry
from supervisors.events.feed import ALL, EventFeed
from supervisors.events.subscription import LiveEvent

EVENTS = "events"  # were committed
DELIVERIES = "deliveries"  # of webhooks were stored
WEBHOOKS = "webhooks"  # have changed
PARKED_CALLS = "parked_calls"  # were decided
SIGNALS = frozenset(map(str, Signal))
# The facts whether a node shows events, and of whom it shows live ones. One that was alone tells them, as all
# others, by the second beat after another has joined; until then it is taken to show everything.
STREAMS = "streams"
FOLLOWED = "followed"
MAX_FOLLOWED = 20


class Signals:
    """Passes on what a node has committed, and what it hears of other nodes and other programs.

    The storage needs it before there is a registry, so its parts are connected later, but before any commit.
    """

    storage: Storage
    bells: Bells
    registry: Registry
    feed: EventFeed

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    def connect(self, storage: Storage, bells: Bells, feed: EventFeed) -> None:
        """Announce the writes of this storage, and pass on what the feed shows live."""
        self.storage, self.bells, self.feed = storage, bells, feed
        storage.pool.on_write = self.on_write
        feed.is_followed_elsewhere, feed.pass_on = self.is_followed_elsewhere, self.pass_on

    def doorbell(self, now: Callable[[], datetime], report: Report) -> Doorbell:
        """Return the doorbell at which this node hears other nodes and other programs."""
        return Doorbell(
            self.on_ring,
            now,
            report,
            node_id=self._membership.node_id,
            on_bell=self.on_bell,
            on_live=self.on_live,
        )

    def on_commit(self, attendants: Mapping[UUID, int | None]) -> None:
        """Tell the supervisors of agents whose queue has something new, by the nodes that attend them."""
        for agent_id, node_id in attendants.items():
            self.registry.tell_attendant(agent_id, node_id, Signal.NOTIFIED)

    def on_clear(self, agent_ids: Sequence[UUID]) -> None:
        """Tell the supervisors of agents of whose queue something was cleared."""
        for agent_id in agent_ids:
            self.registry.tell_attendant(agent_id, None, Signal.CLEARED)

    def on_write(self) -> None:
        """Have the feeds of all nodes that show events read the log, also of one that has not told yet."""
        self.storage.events.written.set()
        for node in self._membership.others:
            if node.facts.get(STREAMS, True):
                self.bells.ring(node.id, EVENTS, ())

    def on_ring(self, agent_ids: Sequence[UUID]) -> None:
        """Tell the supervisors of agents whose rows another program has written. All nodes hear it."""
        self.storage.events.written.set()
        for agent_id in agent_ids:
            if self._membership.responsible_for(agent_id) == self._membership.node_id:
                self.registry.tell(agent_id, Signal.NOTIFIED)
                self.registry.tell(agent_id, Signal.CLEARED)  # it may have done either

    def on_bell(self, kind: str, ids: Sequence[UUID]) -> None:
        """Do what another node rings for. One of a later version may ring for something unknown."""
        match kind:
            case "events":
                self.storage.events.written.set()
            case "deliveries":
                self.storage.outbox.stored.set()
            case "webhooks":
                self.storage.webhooks.changed.set()
            case "parked_calls":
                self.storage.parked_calls.stored.set()
            case _ if kind in SIGNALS:
                self.registry.hear(Signal(kind), ids)

    def is_followed_elsewhere(self, organization_id: UUID, agent_id: UUID, run_id: UUID) -> bool:
        """Return whether another node shows live events of this run."""
        return any(self._followers(organization_id, agent_id, run_id))

    def pass_on(self, live: LiveEvent) -> None:
        """Send a live event to the nodes that show it."""
        if followers := list(self._followers(live.organization_id, live.agent_id, live.run_id)):
            text = to_json(asdict(live)).decode()
            for node_id in followers:
                self.bells.send(node_id, text)

    def on_live(self, text: str) -> None:
        """Show a live event of another node."""
        live = from_json(text.encode())
        self.feed.show(
            LiveEvent(
                live["type"],
                datetime.fromisoformat(live["at"]),
                UUID(live["organization_id"]),
                UUID(live["agent_id"]),
                UUID(live["run_id"]),
                live["data"],
            )
        )

    def _followers(self, *ids: UUID) -> Iterator[int]:
        others = self._membership.others
        wanted = {ALL, *map(str, ids)} if others else frozenset()
        return (node.id for node in others if not wanted.isdisjoint(node.facts.get(FOLLOWED, (ALL,))))

    def ring(self, node_id: int, signal: Signal, agent_id: UUID) -> None:
        """Tell the supervisor of an agent in another node."""
        self.bells.ring(node_id, signal, (agent_id,))

    def ring_for_chores(self, kind: str) -> None:
        """Tell the node that does the chores for all."""
        node_id = self._membership.chores_node_id
        if node_id is not None:
            self.bells.ring(node_id, kind, ())
