"""Broadcasts to all agents that are affected by a change of their organization or template."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol
from uuid import UUID

from supervisors.engine.messages import Signal
from supervisors.ports import StateStore

PAGE_SIZE = 1000


class Teller(Protocol):
    """The part of the registry that a broadcast needs."""

    def tell(self, agent_id: UUID, signal: Signal) -> None: ...

    def tell_organization(self, organization_id: UUID, signal: Signal) -> None: ...


async def tell_agents_of(organization_id: UUID, store: StateStore, registry: Teller) -> None:
    """Tell the organization's agents that are affected by a pause, its end or a new cap.

    All live supervisors are told as well, because their phase changes.
    """
    await tell_pages(partial(store.list_non_idle_of_organization, organization_id), registry)
    registry.tell_organization(organization_id, Signal.RELOAD)


async def tell_agents_of_template(template_id: UUID, store: StateStore, registry: Teller) -> None:
    """Tell the template's agents that are affected by a new cap."""
    await tell_pages(partial(store.list_non_idle_of_template, template_id), registry)


async def tell_pages(fetch: Callable[[UUID | None, int], Awaitable[list[UUID]]], registry: Teller) -> None:
    """Tell all agents that `fetch(last, limit)` lists, in the order of their ids."""
    last: UUID | None = None
    while True:
        agent_ids = await fetch(last, PAGE_SIZE)
        for agent_id in agent_ids:
            registry.tell(agent_id, Signal.RELOAD)
        if len(agent_ids) < PAGE_SIZE:
            return
        last = agent_ids[-1]
