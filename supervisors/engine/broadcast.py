"""Tells the agents of an organization or a template that something about it has changed, a page at a time."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol
from uuid import UUID

from supervisors.engine.messages import Signal
from supervisors.ports import StateStore

PAGE = 1000


class Teller(Protocol):
    """The registry, as far as it is needed here."""

    def tell(self, agent_id: UUID, signal: Signal) -> None: ...

    def tell_live(self, organization_id: UUID, signal: Signal) -> None: ...


async def tell_agents_of(organization_id: UUID, store: StateStore, registry: Teller) -> None:
    """Have each of the organization's agents that a pause, its end or another cap concerns look again.

    Those with a live supervisor, too, to which nothing happens: it shows the agent's phase.
    """
    await tell_pages(partial(store.list_concerned, organization_id), registry)
    registry.tell_live(organization_id, Signal.RELOAD)


async def tell_agents_of_template(template_id: UUID, store: StateStore, registry: Teller) -> None:
    """Have each of the template's agents that another cap concerns look again."""
    await tell_pages(partial(store.list_concerned_of_template, template_id), registry)


async def tell_pages(fetch: Callable[[UUID | None, int], Awaitable[list[UUID]]], registry: Teller) -> None:
    """Have all look again that `fetch` lists: by id, after the last one seen, at most so many at once."""
    last: UUID | None = None
    while True:
        found = await fetch(last, PAGE)
        for agent_id in found:
            registry.tell(agent_id, Signal.RELOAD)
        if len(found) < PAGE:
            return
        last = found[-1]
