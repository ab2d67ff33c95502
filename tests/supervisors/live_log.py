"""Live events, kept by the test instead of being sent to clients."""

from uuid import UUID

from supervisors.events.feed import EventFeed
from supervisors.events.subscription import LiveEvent


class LiveLog(EventFeed):
    """A client that follows everything, or nothing."""

    def __init__(self, is_following: bool = True) -> None:
        self.is_following = is_following
        self.events: list[LiveEvent] = []

    def is_followed(self, organization_id: UUID, agent_id: UUID, run_id: UUID) -> bool:
        return self.is_following

    def publish(self, live: LiveEvent) -> None:
        self.events.append(live)

    def pieces(self) -> list[tuple[int, int, str]]:
        """Return the turn, the offset and the text of each event."""
        return [(event.data["turn"], event.data["offset"], event.data["text"]) for event in self.events]

    def text(self) -> str:
        return "".join(text for _, _, text in self.pieces())
