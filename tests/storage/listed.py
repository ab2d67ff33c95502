"""Lists that the stores write as JSON, as the resources that they show."""

import json
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from storage.postgres.json_pages import JsonItem
from storage.postgres.paging import Chunk, JsonChunk, Page

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Model = TypeVar("Model", bound="DataclassInstance", covariant=True)


class JsonStore(Protocol[Model]):
    async def list_json(self, filters: Any, page: Page, item: JsonItem) -> JsonChunk: ...
    async def get(self, resource_id: UUID, /) -> Model | None: ...


async def listed_page(
    store: JsonStore[Model], model: type[Model], filters: object, page: Page | None = None
) -> Chunk[Model]:
    """Return the resources of a page in its order, each as `get` reads it."""
    chunk = await store.list_json(filters, page or Page(), JsonItem(model, {"id": "id"}))
    found = [await store.get(UUID(row["id"])) for row in json.loads(b"[%b]" % chunk.items)]
    return Chunk([resource for resource in found if resource is not None], is_cut=chunk.has_more)
