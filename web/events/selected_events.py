"""The selected events after a cursor: first those that lie in the log, then those that happen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from storage.events.model import Event
from storage.storage import Storage
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import FeedEvent, LiveEvent, Subscription
from web.events.open_streams import OpenStream
from web.request_room import RequestRoom

AnyEvent = TypeVar("AnyEvent", bound=FeedEvent)

NOT_FOR_RUNS = "webhook."  # a run may not read deliveries


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of a request. `types` None selects all types, and a blank `tag` all agents."""

    types: frozenset[str] | None = None
    tag: str = ""
    is_for_run: bool = False

    def has_type(self, type_name: str) -> bool:
        """Return whether events of this type are selected."""
        if self.is_for_run and type_name.startswith(NOT_FOR_RUNS):
            return False
        return self.types is None or type_name in self.types


def last_id(events: Sequence[FeedEvent], default: int) -> int:
    """Return the id of the last event that has one."""
    return next((event.id for event in reversed(events) if isinstance(event, Event)), default)


class SelectedEvents:
    """Reads the events of one subscription. `position` is the cursor: every event up to it was returned.

    The log is read when it is the turn of `owner`, an organization, so that clients who catch up share the
    database fairly.
    """

    def __init__(
        self, storage: Storage, feed: EventFeed, room: RequestRoom, owner: UUID, selection: Selection
    ) -> None:
        self._storage = storage
        self._feed = feed
        self._room = room
        self._owner = owner
        self._selection = selection
        self._selects_all = selection == Selection()
        self._is_of_other_log = False
        self.position = 0

    async def start(self, subscription: Subscription, cursor: int | None) -> None:
        """Go to the cursor; None: to the events that the subscription offers.

        A cursor beyond the last id comes from a log that was lost, for example before the database was
        restored from a backup. Raise StorageError if the last id cannot be read.
        """
        self.position = subscription.position if cursor is None else cursor
        if self.position > subscription.position:
            self._is_of_other_log = self.position > await self._storage.events.get_last_id()

    def has_lost_events(self) -> bool:
        """Return whether events after the position have been removed from the log."""
        return self._is_of_other_log or self.position < self._feed.oldest

    def skip_lost_events(self) -> int:
        """Go to the beginning of the log, and return that position."""
        self._is_of_other_log = False
        self.position = self._feed.oldest
        return self.position

    def is_behind(self, subscription: Subscription) -> bool:
        """Return whether the next events lie in the log, before those that the subscription offers."""
        return self._is_of_other_log or self.position < subscription.position

    async def read_log(self, subscription: Subscription) -> Sequence[Event]:
        """Return the selected events among the next ones in the log.

        Return none, without going on, if events before them were removed in the meantime.
        """
        until = subscription.position
        async with self._room.reading(self._owner):
            events = await self._storage.events.list_after(subscription.interest, self.position, until)
        await self._feed.refresh_oldest()
        if self.has_lost_events():
            return ()
        selected = await self._select(events)
        self.position = events[-1].id if events.is_cut else until
        return selected

    async def wait(self, stream: OpenStream, subscription: Subscription) -> Sequence[FeedEvent]:
        """Return the selected events among the next ones that the subscription offers. Raise FeedError."""
        offered = await stream.next_events(subscription)
        new = [event for event in offered if isinstance(event, LiveEvent) or event.id > self.position]
        selected = await self._select(new)
        self.position = last_id(new, self.position)
        return selected

    async def _select(self, events: Sequence[AnyEvent]) -> Sequence[AnyEvent]:
        """Return the selected events. The tags are those that the agents have now, or had in the end."""
        if self._selects_all:
            return events
        chosen = [event for event in events if self._selection.has_type(event.type)]
        tag = self._selection.tag
        if not tag or not chosen:
            return chosen
        agent_ids = {event.agent_id for event in chosen if event.agent_id is not None}
        tags = await self._storage.event_resources.list_tags(agent_ids)
        return [event for event in chosen if event.agent_id and tag in tags.get(event.agent_id, ())]
