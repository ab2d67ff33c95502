"""Tools: listing, updating and deleting them."""

from dataclasses import replace

import pytest

from storage.errors import NotUnique, ReferenceMissing
from storage.ids import new_id
from storage.model import Visibility
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.toolbox.adapters import Adapter, Adapters
from storage.toolbox.tools import Tools
from tests.storage.factories import NOW, SECOND, adapter, stored_organization, tool


@pytest.fixture
def tools(pool: Pool) -> Tools:
    return Tools(pool)


async def stored_adapter(pool: Pool, visibility: Visibility = Visibility.PRIVATE) -> Adapter:
    stored = adapter((await stored_organization(pool)).id, visibility=visibility)
    await Adapters(pool).insert(stored)
    return stored


async def test_get_returns_tool_as_inserted(tools: Tools, pool: Pool) -> None:
    look_up = tool((await stored_adapter(pool)).id, parameters={"type": "object"}, is_enforced=True)

    await tools.insert(look_up)

    assert await tools.get(look_up.id) == look_up
    assert await tools.get(new_id()) is None


async def test_tool_name_is_unique_for_its_adapter(tools: Tools, pool: Pool) -> None:
    weather = await stored_adapter(pool)
    await tools.insert(tool(weather.id))
    other = tool(weather.id, name="other")
    await tools.insert(other)

    with pytest.raises(NotUnique) as on_insert:
        await tools.insert(tool(weather.id))
    with pytest.raises(NotUnique):
        await tools.update(other.id, {"name": "look_up"})
    with pytest.raises(ReferenceMissing, match="adapter"):
        await tools.insert(tool(new_id()))

    assert on_insert.value.fields == ("adapter", "name")


async def test_page_shows_tools_of_visible_adapters_newest_first(tools: Tools, pool: Pool) -> None:
    ours, public = await stored_adapter(pool), await stored_adapter(pool, Visibility.PUBLIC)
    own, shared = tool(ours.id), tool(public.id, created_at=NOW + SECOND)
    for new in (own, shared, tool((await stored_adapter(pool)).id)):
        await tools.insert(new)
    owner = (ours.organization_id,)

    assert await tools.list_page(owner, None, Page()) == [shared, own]
    assert await tools.list_page(owner, None, Page(after=(shared.created_at, shared.id))) == [own]
    assert await tools.list_page(owner, ours.id, Page()) == [own]


async def test_update_and_delete_change_only_existing_tools(tools: Tools, pool: Pool) -> None:
    look_up = tool((await stored_adapter(pool)).id)
    await tools.insert(look_up)

    changed = replace(look_up, description="Find a city.")
    assert await tools.update(look_up.id, {"description": "Find a city."}) == changed
    assert await tools.update(look_up.id, {}) == changed
    assert await tools.update(new_id(), {"name": "x"}) is None
    assert await tools.delete(look_up.id)
    assert not await tools.delete(look_up.id)
