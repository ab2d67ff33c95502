"""Live events, kept by the test instead of being sent to clients."""

from dataclasses import dataclass, field
from uuid import UUID

from supervisors.events.subscription import LiveEvent


@dataclass(slots=True)
class LiveLog:
    """A client that follows everything, or nothing."""

    is_following: bool = True
    events: list[LiveEvent] = field(default_factory=list)

    def is_followed(self, organization_id: UUID, agent_id: UUID, run_id: UUID) -> bool:
        return self.is_following

    def publish(self, live: LiveEvent) -> None:
        self.events.append(live)

    def pieces(self) -> list[tuple[int, int, str]]:
        """Return the turn, the offset and the text of each event."""
        return [(event.data["turn"], event.data["offset"], event.data["text"]) for event in self.events]

    def text(self) -> str:
        return "".join(text for _, _, text in self.pieces())
