"""Lists that the stores read as rows, as the resources that they show."""

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from asyncpg import Record

from storage.postgres.paging import Chunk, Page
from storage.postgres.statement import from_row

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Model = TypeVar("Model", bound="DataclassInstance")


class RowStore(Protocol):
    async def list_rows(self, filters: Any, page: Page) -> Chunk[Record]: ...


async def listed_page(
    store: RowStore, model: type[Model], filters: object, page: Page | None = None
) -> Chunk[Model]:
    """Return the resources of a page in its order. The chunk is cut if the list goes on."""
    page = page or Page()
    rows = await store.list_rows(filters, page.with_next())
    shown = [from_row(model, row) for row in rows[: page.limit]]
    return Chunk(shown, is_cut=rows.is_cut or len(rows) > len(shown))
