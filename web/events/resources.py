"""The REST representations of what events are about."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from storage.events.model import Event
from storage.model import Agent
from storage.storage import Storage
from web.schemas.agents import serialize_agent
from web.schemas.messages import serialize_message
from web.schemas.notifications import serialize_notification
from web.schemas.runs import serialize_run
from web.schemas.webhook_deliveries import serialize_delivery

Representation = Mapping[str, Any]


class _Kind(NamedTuple):
    """A kind of resource: which column of an event names it, and how it is read and represented."""

    id_of: Callable[[Event], UUID | None]
    read: Callable[[Storage, Collection[UUID]], Awaitable[Sequence[Any]]]
    serialize: Callable[[Any], Representation]


async def _list_agents(storage: Storage, ids: Collection[UUID]) -> list[Agent]:
    """Read the agents by one statement, which concurrent reads share."""
    return [agent for agent in await asyncio.gather(*map(storage.agents.get, ids)) if agent is not None]


def _resource_id(event: Event) -> UUID | None:
    return event.resource_id


KINDS: Mapping[str, _Kind] = {  # by the family of the event's type
    "agent": _Kind(lambda event: event.agent_id, _list_agents, serialize_agent),
    "run": _Kind(
        lambda event: event.run_id,
        lambda storage, ids: storage.event_resources.list_runs(ids),
        serialize_run,
    ),
    "notification": _Kind(
        _resource_id,
        lambda storage, ids: storage.event_resources.list_notifications(ids),
        serialize_notification,
    ),
    "message": _Kind(
        _resource_id, lambda storage, ids: storage.event_resources.list_messages(ids), serialize_message
    ),
    "webhook": _Kind(
        _resource_id, lambda storage, ids: storage.event_resources.list_deliveries(ids), serialize_delivery
    ),
}


async def represent(storage: Storage, events: Iterable[Event]) -> dict[int, Representation]:
    """Return what the events are about, by the ids of the events; that which is gone is left out.

    A resource that another program has given to another agent is gone, too: the readers of the event may not
    reach that agent.
    """
    by_kind: dict[str, list[tuple[Event, UUID]]] = {}
    for event in events:
        family = event.type.partition(".")[0]
        resource_id = KINDS[family].id_of(event) if family in KINDS else None
        if resource_id is not None:
            by_kind.setdefault(family, []).append((event, resource_id))
    found: dict[int, Representation] = {}
    for family, named in by_kind.items():
        kind = KINDS[family]
        resources = await kind.read(storage, {resource_id for _, resource_id in named})
        owners = {resource.id: _owner(resource) for resource in resources}
        shown = {resource.id: kind.serialize(resource) for resource in resources}
        for event, resource_id in named:
            if owners.get(resource_id) == (event.organization_id, event.agent_id):
                found[event.id] = shown[resource_id]
    return found


def _owner(resource: Any) -> tuple[UUID, UUID | None]:
    """Return the organization and the agent that a resource belongs to."""
    agent_id = resource.id if isinstance(resource, Agent) else resource.agent_id
    return resource.organization_id, agent_id
