"""Resources in memory, for rules about who may reach them."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast
from uuid import UUID

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from storage.ids import new_id
from storage.storage import Storage
from web.app_keys import STORAGE


@dataclass(frozen=True)
class Resource:
    organization_id: UUID
    id: UUID = field(default_factory=new_id)
    agent_id: UUID | None = None


class Resources:
    """A store of resources by id."""

    def __init__(self, *resources: Resource) -> None:
        self._resources = {resource.id: resource for resource in resources}

    async def get(self, resource_id: UUID) -> Resource | None:
        return self._resources.get(resource_id)

    async def get_organization_id(self, resource_id: UUID) -> UUID | None:
        resource = await self.get(resource_id)
        return resource.organization_id if resource else None

    async def get_adapter_visibility(self, organization_id: UUID, adapters: list[UUID]) -> dict[UUID, bool]:
        known = (adapter for adapter in adapters if adapter in self._resources)
        return {adapter: self._resources[adapter].organization_id == organization_id for adapter in known}


def storage_of(*resources: Resource) -> Storage:
    """A storage in which each resource can be found as any kind."""
    store = Resources(*resources)
    kinds = ("agents", "contacts", "projects", "templates")
    return cast(Storage, SimpleNamespace(**dict.fromkeys(kinds, store)))


def request_to(storage: Storage, **headers: str) -> web.Request:
    app = web.Application()
    app[STORAGE] = storage
    return make_mocked_request("POST", "/", headers=headers, app=app)
